use std::fmt::Debug;

use bytes::Bytes;

/// Why data could not be compressed or decompressed; becomes the source of the operation's error.
pub type CompressionFailure = Box<dyn std::error::Error + Send + Sync>;

/// Compresses and decompresses the data of nodes (`org.apache.curator.framework.api.CompressionProvider`).
///
/// It is called on the task that awaits the operation, so it should be quick; data of nodes are small. What it reads
/// was written by others: it has to bound the memory that a few bytes of theirs can make it use.
///
/// ```
/// use bytes::Bytes;
/// use zk_curator::compression::{CompressionFailure, CompressionProvider};
///
/// /// Stores data reversed.
/// #[derive(Debug)]
/// struct Reversed;
///
/// impl CompressionProvider for Reversed {
///     fn compress(&self, _path: &str, data: &[u8]) -> Result<Bytes, CompressionFailure> {
///         Ok(data.iter().rev().copied().collect())
///     }
///     fn decompress(&self, path: &str, data: &[u8]) -> Result<Bytes, CompressionFailure> {
///         self.compress(path, data)
///     }
/// }
///
/// let builder = zk_curator::CuratorFramework::builder().compression_provider(Reversed);
/// ```
pub trait CompressionProvider: Debug + Send + Sync + 'static {
    /// The data to store. `path` is the one that the operation was given.
    ///
    /// # Errors
    /// When the data cannot be compressed. The operation then fails with `InvalidArgument` and sends nothing.
    fn compress(&self, path: &str, data: &[u8]) -> Result<Bytes, CompressionFailure>;

    /// The data that were stored.
    ///
    /// # Errors
    /// When the bytes are not compressed data, or too many when decompressed. The operation then fails with
    /// `Undecodable`.
    fn decompress(&self, path: &str, data: &[u8]) -> Result<Bytes, CompressionFailure>;
}
