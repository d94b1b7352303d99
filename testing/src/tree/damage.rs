//! [`Damage`]: the reasons to refuse the bytes of a snapshot.

use zk_curator_proto::DecodeError;

/// A reason to refuse the bytes of a snapshot.
#[derive(Debug, PartialEq, Eq, thiserror::Error)]
pub(crate) enum Damage {
    #[error("no snapshot")]
    Foreign,
    #[error("version {0}")]
    Version(i32),
    #[error("its checksum is wrong")]
    Checksum,
    #[error(transparent)]
    Field(#[from] DecodeError),
    #[error("{0}")]
    Content(&'static str),
}
