use std::fmt::Debug;

use bytes::Bytes;

/// The reason why data could not be compressed or decompressed. It becomes the source of the
/// operation's error.
pub type CompressionFailure = Box<dyn std::error::Error + Send + Sync>;

/// Compresses and decompresses the data of nodes
/// (`org.apache.curator.framework.api.CompressionProvider`).
///
/// It is called on the task that awaits the operation, so it should be quick; the data of nodes are
/// small. Other programs may have written the data that it reads, so it has to limit the memory
/// that a few bytes of input can make it use.
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
    /// Returns the data to store. `path` is the path of the operation.
    ///
    /// # Errors
    /// The reason why the data cannot be compressed. The operation then fails with
    /// `InvalidArgument` and sends nothing.
    fn compress(&self, path: &str, data: &[u8]) -> Result<Bytes, CompressionFailure>;

    /// Returns the data as they were before [`compress`](Self::compress).
    ///
    /// # Errors
    /// The reason why the bytes cannot be decompressed, or are too many when decompressed. The
    /// operation then fails with `Undecodable`.
    fn decompress(&self, path: &str, data: &[u8]) -> Result<Bytes, CompressionFailure>;
}
