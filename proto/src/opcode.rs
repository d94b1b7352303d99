use crate::DecodeError;

macro_rules! opcodes {
    ($($(#[$doc:meta])* $name:ident = $value:literal,)*) => {
        /// The operation of a request (`org.apache.zookeeper.ZooDefs.OpCode`).
        #[non_exhaustive]
        #[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
        #[repr(i32)]
        pub enum OpCode {
            $($(#[$doc])* $name = $value,)*
        }

        impl OpCode {
            /// Every opcode, in the order of the declaration.
            pub const ALL: &[Self] = &[$(Self::$name),*];

            /// Returns the number on the wire.
            #[must_use]
            pub const fn code(self) -> i32 {
                self as i32
            }
        }

        impl TryFrom<i32> for OpCode {
            type Error = DecodeError;

            fn try_from(value: i32) -> Result<Self, DecodeError> {
                match value {
                    $($value => Ok(Self::$name),)*
                    _ => Err(DecodeError::InvalidValue { what: "opcode", value }),
                }
            }
        }
    };
}

opcodes! {
    /// Creates a node; the response is its path.
    Create = 1,
    /// Deletes a node.
    Delete = 2,
    /// Reads the stat of a node.
    Exists = 3,
    /// Reads data and stat of a node.
    GetData = 4,
    /// Replaces the data of a node.
    SetData = 5,
    /// Reads the ACL of a node.
    GetAcl = 6,
    /// Replaces the ACL of a node.
    SetAcl = 7,
    /// Lists the names of a node's children.
    GetChildren = 8,
    /// Brings the server up to date with the leader.
    Sync = 9,
    /// Keeps the session alive.
    Ping = 11,
    /// Lists the names of a node's children, with its stat.
    GetChildren2 = 12,
    /// Checks a version; only inside a multi.
    Check = 13,
    /// Applies several operations or none.
    Multi = 14,
    /// Creates a node; the response is its path and stat.
    Create2 = 15,
    /// Changes the ensemble.
    Reconfig = 16,
    /// Checks that a watch is set.
    CheckWatches = 17,
    /// Removes watches.
    RemoveWatches = 18,
    /// Creates a container.
    CreateContainer = 19,
    /// Removes an empty container; only servers send it.
    DeleteContainer = 20,
    /// Creates a node that expires.
    CreateTtl = 21,
    /// Several reads in one request.
    MultiRead = 22,
    /// Adds an identity to the connection.
    Auth = 100,
    /// Re-arms one-shot watches after a reconnect.
    SetWatches = 101,
    /// A step of a SASL exchange.
    Sasl = 102,
    /// Lists the ephemeral nodes of the session.
    GetEphemerals = 103,
    /// Counts the descendants of a node.
    GetAllChildrenNumber = 104,
    /// Re-arms watches of every kind after a reconnect.
    SetWatches2 = 105,
    /// Adds a persistent watch.
    AddWatch = 106,
    /// Lists the identities of the connection.
    WhoAmI = 107,
    /// Opens a session; never in a request header.
    CreateSession = -10,
    /// Closes the session.
    CloseSession = -11,
    /// Marks a failed operation in the response of a multi.
    Error = -1,
}
