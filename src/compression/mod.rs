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
mod provider;
mod settings;

#[cfg(feature = "gzip")]
pub use gzip::{GzipCompressionProvider, GzipError};
pub use provider::{CompressionFailure, CompressionProvider};
pub(crate) use settings::Compression;
