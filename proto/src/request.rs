use crate::records::{
    AddWatchRequest, AuthPacket, CreateRequest, CreateTtlRequest, DeleteRequest, ExistsRequest,
    GetAclRequest, GetAllChildrenNumberRequest, GetChildrenRequest, GetDataRequest,
    GetEphemeralsRequest, MultiOp, ReadOp, ReconfigRequest, SaslToken, SetAclRequest,
    SetDataRequest, SetWatches, SetWatches2, SyncRequest, WatchesRequest,
};
use crate::{DecodeError, Decoder, Encoder, OpCode, Record};

/// A request of a client, without its header.
#[non_exhaustive]
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Request {
    /// Keeps the session alive.
    Ping,
    /// Closes the session.
    CloseSession,
    /// Adds an identity.
    Auth(AuthPacket),
    /// Creates a node. Response: [`crate::Response::Path`].
    Create(CreateRequest),
    /// Creates a node. Response: [`crate::Response::Created`].
    Create2(CreateRequest),
    /// Creates a container. Response: [`crate::Response::Created`].
    CreateContainer(CreateRequest),
    /// Creates a node with a time to live. Response: [`crate::Response::Created`].
    CreateTtl(CreateTtlRequest),
    /// Deletes a node.
    Delete(DeleteRequest),
    /// Reads the stat of a node. Response: [`crate::Response::Stat`].
    Exists(ExistsRequest),
    /// Reads data and stat of a node. Response: [`crate::Response::Data`].
    GetData(GetDataRequest),
    /// Replaces the data of a node. Response: [`crate::Response::Stat`].
    SetData(SetDataRequest),
    /// Lists the children of a node. Response: [`crate::Response::Children`].
    GetChildren(GetChildrenRequest),
    /// Lists the children of a node, with its stat. Response: [`crate::Response::Children2`].
    GetChildren2(GetChildrenRequest),
    /// Brings the server up to date. Response: [`crate::Response::Path`].
    Sync(SyncRequest),
    /// Applies several operations or none. Response: [`crate::Response::Multi`].
    Multi(Vec<MultiOp>),
    /// Reads many nodes. Response: [`crate::Response::ReadResults`].
    MultiRead(Vec<ReadOp>),
    /// Reads the ACL of a node. Response: [`crate::Response::Acl`].
    GetAcl(GetAclRequest),
    /// Replaces the ACL of a node. Response: [`crate::Response::Stat`].
    SetAcl(SetAclRequest),
    /// Adds a persistent watch. Response: [`crate::Response::Code`], zero.
    AddWatch(AddWatchRequest),
    /// Removes watches.
    RemoveWatches(WatchesRequest),
    /// Checks that a watch is set.
    CheckWatches(WatchesRequest),
    /// Lists the ephemeral nodes of the session. Response: [`crate::Response::Children`], which are
    /// paths here.
    GetEphemerals(GetEphemeralsRequest),
    /// Counts the descendants of a node. Response: [`crate::Response::Number`].
    GetAllChildrenNumber(GetAllChildrenNumberRequest),
    /// Lists the identities of the connection. Response: [`crate::Response::Identities`].
    WhoAmI,
    /// Changes the ensemble. Response: [`crate::Response::Data`], of the configuration.
    Reconfig(ReconfigRequest),
    /// A step of a SASL exchange. Response: [`crate::Response::Sasl`].
    Sasl(SaslToken),
    /// Re-arms one-shot watches.
    SetWatches(SetWatches),
    /// Re-arms watches of every kind.
    SetWatches2(SetWatches2),
}

impl Request {
    /// Returns the opcode in the header.
    #[must_use]
    pub const fn opcode(&self) -> OpCode {
        match self {
            Self::Ping => OpCode::Ping,
            Self::CloseSession => OpCode::CloseSession,
            Self::Auth(_) => OpCode::Auth,
            Self::Create(_) => OpCode::Create,
            Self::Create2(_) => OpCode::Create2,
            Self::CreateContainer(_) => OpCode::CreateContainer,
            Self::CreateTtl(_) => OpCode::CreateTtl,
            Self::Delete(_) => OpCode::Delete,
            Self::Exists(_) => OpCode::Exists,
            Self::GetData(_) => OpCode::GetData,
            Self::SetData(_) => OpCode::SetData,
            Self::GetChildren(_) => OpCode::GetChildren,
            Self::GetChildren2(_) => OpCode::GetChildren2,
            Self::Sync(_) => OpCode::Sync,
            Self::Multi(_) => OpCode::Multi,
            Self::MultiRead(_) => OpCode::MultiRead,
            Self::GetAcl(_) => OpCode::GetAcl,
            Self::SetAcl(_) => OpCode::SetAcl,
            Self::AddWatch(_) => OpCode::AddWatch,
            Self::RemoveWatches(_) => OpCode::RemoveWatches,
            Self::CheckWatches(_) => OpCode::CheckWatches,
            Self::GetEphemerals(_) => OpCode::GetEphemerals,
            Self::GetAllChildrenNumber(_) => OpCode::GetAllChildrenNumber,
            Self::WhoAmI => OpCode::WhoAmI,
            Self::Reconfig(_) => OpCode::Reconfig,
            Self::Sasl(_) => OpCode::Sasl,
            Self::SetWatches(_) => OpCode::SetWatches,
            Self::SetWatches2(_) => OpCode::SetWatches2,
        }
    }

    /// Returns the path of the node that the request concerns; `None` if it concerns several nodes
    /// or none.
    #[must_use]
    pub fn path(&self) -> Option<&str> {
        match self {
            Self::Create(body) | Self::Create2(body) | Self::CreateContainer(body) => {
                Some(&body.path)
            }
            Self::CreateTtl(body) => Some(&body.path),
            Self::Delete(body) => Some(&body.path),
            Self::Exists(body) => Some(&body.path),
            Self::GetData(body) => Some(&body.path),
            Self::SetData(body) => Some(&body.path),
            Self::GetChildren(body) | Self::GetChildren2(body) => Some(&body.path),
            Self::Sync(body) => Some(&body.path),
            Self::GetAcl(body) => Some(&body.path),
            Self::SetAcl(body) => Some(&body.path),
            Self::AddWatch(body) => Some(&body.path),
            Self::RemoveWatches(body) | Self::CheckWatches(body) => Some(&body.path),
            Self::GetAllChildrenNumber(body) => Some(&body.path),
            Self::Ping
            | Self::CloseSession
            | Self::MultiRead(_)
            | Self::GetEphemerals(_)
            | Self::WhoAmI
            | Self::Reconfig(_)
            | Self::Sasl(_)
            | Self::Auth(_)
            | Self::Multi(_)
            | Self::SetWatches(_)
            | Self::SetWatches2(_) => None,
        }
    }

    /// Appends the body.
    pub fn encode_body(&self, out: &mut Encoder) {
        match self {
            Self::Ping | Self::CloseSession | Self::WhoAmI => {}
            Self::Auth(body) => body.encode(out),
            Self::Create(body) | Self::Create2(body) | Self::CreateContainer(body) => {
                body.encode(out);
            }
            Self::CreateTtl(body) => body.encode(out),
            Self::Delete(body) => body.encode(out),
            Self::Exists(body) => body.encode(out),
            Self::GetData(body) => body.encode(out),
            Self::SetData(body) => body.encode(out),
            Self::GetChildren(body) | Self::GetChildren2(body) => body.encode(out),
            Self::Sync(body) => body.encode(out),
            Self::Multi(ops) => MultiOp::encode_all(ops, out),
            Self::MultiRead(ops) => ReadOp::encode_all(ops, out),
            Self::GetAcl(body) => body.encode(out),
            Self::SetAcl(body) => body.encode(out),
            Self::AddWatch(body) => body.encode(out),
            Self::RemoveWatches(body) | Self::CheckWatches(body) => body.encode(out),
            Self::GetEphemerals(body) => body.encode(out),
            Self::GetAllChildrenNumber(body) => body.encode(out),
            Self::Reconfig(body) => body.encode(out),
            Self::Sasl(body) => body.encode(out),
            Self::SetWatches(body) => body.encode(out),
            Self::SetWatches2(body) => body.encode(out),
        }
    }

    /// Reads the body of a request with this opcode.
    ///
    /// # Errors
    /// A [`DecodeError`]; [`DecodeError::InvalidValue`] of `opcode` if this crate does not know the
    /// body.
    pub fn decode_body(opcode: OpCode, input: &mut Decoder) -> Result<Self, DecodeError> {
        Ok(match opcode {
            OpCode::Ping => Self::Ping,
            OpCode::CloseSession => Self::CloseSession,
            OpCode::Auth => Self::Auth(Record::decode(input, "auth")?),
            OpCode::Create => Self::Create(Record::decode(input, "create")?),
            OpCode::Create2 => Self::Create2(Record::decode(input, "create2")?),
            OpCode::CreateContainer => {
                Self::CreateContainer(Record::decode(input, "createContainer")?)
            }
            OpCode::CreateTtl => Self::CreateTtl(Record::decode(input, "createTTL")?),
            OpCode::Delete => Self::Delete(Record::decode(input, "delete")?),
            OpCode::Exists => Self::Exists(Record::decode(input, "exists")?),
            OpCode::GetData => Self::GetData(Record::decode(input, "getData")?),
            OpCode::SetData => Self::SetData(Record::decode(input, "setData")?),
            OpCode::GetChildren => Self::GetChildren(Record::decode(input, "getChildren")?),
            OpCode::GetChildren2 => Self::GetChildren2(Record::decode(input, "getChildren2")?),
            OpCode::Sync => Self::Sync(Record::decode(input, "sync")?),
            OpCode::Multi => Self::Multi(MultiOp::decode_all(input)?),
            OpCode::MultiRead => Self::MultiRead(ReadOp::decode_all(input)?),
            OpCode::GetAcl => Self::GetAcl(Record::decode(input, "getACL")?),
            OpCode::SetAcl => Self::SetAcl(Record::decode(input, "setACL")?),
            OpCode::AddWatch => Self::AddWatch(Record::decode(input, "addWatch")?),
            OpCode::RemoveWatches => Self::RemoveWatches(Record::decode(input, "removeWatches")?),
            OpCode::CheckWatches => Self::CheckWatches(Record::decode(input, "checkWatches")?),
            OpCode::GetEphemerals => Self::GetEphemerals(Record::decode(input, "getEphemerals")?),
            OpCode::GetAllChildrenNumber => {
                Self::GetAllChildrenNumber(Record::decode(input, "getAllChildrenNumber")?)
            }
            OpCode::WhoAmI => Self::WhoAmI,
            OpCode::Reconfig => Self::Reconfig(Record::decode(input, "reconfig")?),
            OpCode::Sasl => Self::Sasl(Record::decode(input, "sasl")?),
            OpCode::SetWatches => Self::SetWatches(Record::decode(input, "setWatches")?),
            OpCode::SetWatches2 => Self::SetWatches2(Record::decode(input, "setWatches2")?),
            other => return Err(DecodeError::InvalidValue { what: "opcode", value: other.code() }),
        })
    }
}
