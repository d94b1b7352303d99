//! The limits of reads of the files.

/// The limit that has ended a pass.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum ReadLimit {
    /// [`ReadBudget::stop`](super::ReadBudget::stop) was called.
    #[error("the read was stopped")]
    Stopped,
    /// The bytes were read.
    #[error("the limit of bytes was reached")]
    Bytes,
    /// The time is over.
    #[error("the limit of time was reached")]
    Time,
    /// The nodes take more memory.
    #[error("the limit of memory was reached")]
    Memory,
}
