use std::sync::Arc;

use bytes::Bytes;

use super::CompressionProvider;
#[cfg(feature = "gzip")]
use super::GzipCompressionProvider;
use crate::error::{Error, ErrorKind, Result};

/// The provider of a framework, and the default of its operations.
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
    /// Compresses data for the server. `wanted` is the request of the operation.
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

    /// Compresses the data of a node. A node without data, which has the empty default data
    /// (`is_default`), has none to compress.
    pub(crate) fn compress_unless_none(
        &self,
        operation: &'static str,
        path: &str,
        wanted: Option<bool>,
        is_default: bool,
        data: Bytes,
    ) -> Result<Bytes> {
        if is_default && data.is_empty() {
            return Ok(data);
        }
        self.compress(operation, path, wanted, data)
    }

    /// Decompresses data from the server.
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
            Error::new(ErrorKind::InvalidArgument, operation, path).with_source(
                "no compression provider: give the framework one, or turn on the feature `gzip`",
            )
        })
    }
}
