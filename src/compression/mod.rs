//! Compression of data: `.compressed()`, `.decompressed()`, and Curator's gzip.
//!
//! A node does not show that its data are compressed, so a reader has to know. Each operation asks
//! for compression itself ([`compressed`](crate::op::CreateBuilder::compressed),
//! [`decompressed`](crate::op::GetDataBuilder::decompressed)), or
//! [`enable_compression`](crate::CuratorFrameworkBuilder::enable_compression) does so for all of
//! them.
//!
//! The feature `gzip` adds `GzipCompressionProvider`, which every framework uses unless it has
//! another provider. Its bytes are those of Apache Curator. Without the feature there is no
//! provider until [`compression_provider`](crate::CuratorFrameworkBuilder::compression_provider)
//! sets one, and operations that need it fail with `InvalidArgument`.

#[cfg(feature = "gzip")]
mod gzip;
mod provider;
mod settings;

#[cfg(feature = "gzip")]
pub use gzip::{GzipCompressionProvider, GzipError};
pub use provider::{CompressionFailure, CompressionProvider};
pub(crate) use settings::Compression;
