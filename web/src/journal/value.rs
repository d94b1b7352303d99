//! The data of a node before or after a change.

use bytes::Bytes;

/// The maximum number of bytes of a value that are kept.
pub(crate) const MOST_VALUE: usize = 16 << 10;

/// The data of a node at a time.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum JournalValue {
    /// The node did not exist.
    Absent,
    /// It was not read before, there was no room for it, or it cannot be read.
    Unknown,
    /// The settings of the explorer hide it. It was not kept.
    Hidden,
    /// The data, or the beginning of them.
    Data {
        data: Bytes,
        /// The number of bytes of all the data.
        length: usize,
        is_null: bool,
    },
}

impl JournalValue {
    /// Copies the beginning of data, so that nothing keeps the rest of the response in memory.
    pub(super) fn of(data: &[u8], is_null: bool) -> Self {
        let kept = &data[..data.len().min(MOST_VALUE)];
        Self::Data { data: Bytes::copy_from_slice(kept), length: data.len(), is_null }
    }

    /// Returns the number of bytes in memory.
    pub(super) fn bytes(&self) -> usize {
        match self {
            Self::Data { data, .. } => data.len(),
            Self::Absent | Self::Unknown | Self::Hidden => 0,
        }
    }
}
