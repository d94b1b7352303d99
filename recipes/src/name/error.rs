use zk_curator::value::Failure;

/// Why a name could not be bound or changed.
#[non_exhaustive]
#[derive(Debug, Clone, thiserror::Error)]
pub enum Error {
    /// The name is bound already.
    #[error("{path} is already bound")]
    Taken {
        /// The path of its node.
        path: String,
    },
    /// The name is not, or no longer, bound.
    #[error("{path} is not bound")]
    NotBound {
        /// The path of its node.
        path: String,
    },
    /// The binding is not the expected one.
    #[error("{path} has been rebound")]
    Rebound {
        /// The path of its node.
        path: String,
    },
    /// The binding goes with a session: only its creator can change it.
    #[error("{path} is bound to a session")]
    Held {
        /// The path of its node.
        path: String,
    },
    /// It cannot be the name of a node, or begins with `_r_`, as receipts do.
    #[error("{name:?} is not a valid name below {path}")]
    InvalidName {
        /// The path of the names.
        path: String,
        /// The name.
        name: String,
    },
    /// A value is not of the type that was asked for.
    #[error("the data of {path} cannot be decoded as this type")]
    Undecodable {
        /// The path of the node.
        path: String,
        /// Why.
        source: Failure,
    },
    /// The value cannot be written.
    #[error("{path} cannot be bound to this value")]
    Unencodable {
        /// The path of the node.
        path: String,
        /// Why.
        source: Failure,
    },
    /// An operation failed.
    #[error(transparent)]
    Framework(#[from] zk_curator::Error),
}

crate::failure::classify!(Error, retryable: [], unknown: []);
