//! Compressed data: what `.compressed()` and `.decompressed()` do, and Curator's gzip.
//!
//! Nothing in a node says that its data are compressed: whoever reads has to know. So it is asked for in each
//! operation ([`compressed`](crate::op::CreateBuilder::compressed),
//! [`decompressed`](crate::op::GetDataBuilder::decompressed)), or for all of them at once with
//! [`enable_compression`](crate::CuratorFrameworkBuilder::enable_compression).
//!
//! The feature `gzip` brings `GzipCompressionProvider`, which every framework then has unless it is given another
//! provider. Its bytes are those of Apache Curator. Without the feature there is none until
//! [`compression_provider`](crate::CuratorFrameworkBuilder::compression_provider) names one, and operations that need
//! it fail with `InvalidArgument`.

#[cfg(feature = "gzip")]
mod gzip;

use std::fmt::Debug;
use std::sync::Arc;

use bytes::Bytes;
#[cfg(feature = "gzip")]
pub use gzip::{GzipCompressionProvider, GzipError};

use crate::error::{Error, ErrorKind, Result};

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

/// The provider of a framework, and whether it is used unless an operation says otherwise.
#[derive(Debug, Clone)]
pub(crate) struct Compression {
    pub(crate) provider: Option<Arc<dyn CompressionProvider>>,
    pub(crate) enabled: bool,
}

impl Default for Compression {
    fn default() -> Self {
        #[cfg(feature = "gzip")]
        let provider = Some(Arc::new(GzipCompressionProvider::new()) as _);
        #[cfg(not(feature = "gzip"))]
        let provider = None;
        Self { provider, enabled: false }
    }
}

impl Compression {
    /// Data on their way to the server; `wanted` is what the operation asks for.
    pub(crate) fn compress(
        &self,
        operation: &'static str,
        path: &str,
        wanted: Option<bool>,
        data: Bytes,
    ) -> Result<Bytes> {
        if !wanted.unwrap_or(self.enabled) {
            return Ok(data);
        }
        let failed = |why| Error::new(ErrorKind::InvalidArgument, operation, path).with_source(why);
        self.provider(operation, path)?.compress(path, &data).map_err(failed)
    }

    /// Data as they came from the server.
    pub(crate) fn decompress(
        &self,
        operation: &'static str,
        path: &str,
        wanted: Option<bool>,
        data: Bytes,
    ) -> Result<Bytes> {
        if !wanted.unwrap_or(self.enabled) {
            return Ok(data);
        }
        let failed = |why| Error::new(ErrorKind::Undecodable, operation, path).with_source(why);
        self.provider(operation, path)?.decompress(path, &data).map_err(failed)
    }

    fn provider(&self, operation: &'static str, path: &str) -> Result<&dyn CompressionProvider> {
        self.provider.as_deref().ok_or_else(|| {
            Error::new(ErrorKind::InvalidArgument, operation, path)
                .with_source("no compression provider: give the framework one, or turn on the feature `gzip`")
        })
    }
}
