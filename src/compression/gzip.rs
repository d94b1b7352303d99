use std::io::{self, Read, Write};

use bytes::Bytes;
use flate2::bufread::MultiGzDecoder;
use flate2::{Compression, GzBuilder};

use super::{CompressionFailure, CompressionProvider};

/// Far more than the data of a node: servers refuse data of more than 1 MiB by default.
const DEFAULT_LIMIT: usize = 64 << 20;

/// The gzip of Apache Curator (RFC 1952); the default of a framework.
///
/// It writes the same bytes as Curator 5: one member with the ten-byte header `1f 8b 08 00 00000000
/// 00 00`, at the default level. It reads every header of the RFC (extra field, name, comment,
/// header checksum), and several members in a row, which Java's `GZIPInputStream` and gzip accept
/// although Curator does not. It reads empty data, which no compressor writes, as empty data,
/// because parents, and nodes without data of their own or by default, are created without data.
///
/// ```
/// use std::error::Error;
/// use zk_curator::compression::{CompressionProvider, GzipCompressionProvider, GzipError};
///
/// let gzip = GzipCompressionProvider::new();
/// let stored = gzip.compress("/a", &[0; 100_000])?;
/// assert!(stored.len() < 200);
/// assert_eq!(gzip.decompress("/a", &stored)?, vec![0; 100_000]);
///
/// let small = GzipCompressionProvider::new().max_decompressed_size(1000);
/// let error = small.decompress("/a", &stored).unwrap_err();
/// assert!(matches!(error.downcast_ref(), Some(GzipError::TooLarge { limit: 1000 })));
/// # Ok::<(), Box<dyn Error + Send + Sync>>(())
/// ```
#[derive(Debug, Clone)]
pub struct GzipCompressionProvider {
    limit: usize,
}

/// The reason why data could not be decompressed.
#[non_exhaustive]
#[derive(Debug)]
pub enum GzipError {
    /// The data are not in gzip format, or are damaged.
    Malformed(io::Error),
    /// The decompressed data are larger than allowed. The check uses at most about twice the limit
    /// of memory.
    TooLarge {
        /// The limit in bytes.
        limit: usize,
    },
}

impl GzipCompressionProvider {
    /// Creates a provider with the default limit.
    #[must_use]
    pub const fn new() -> Self {
        Self { limit: DEFAULT_LIMIT }
    }

    /// Sets the maximum size of decompressed data in bytes. 1 MiB of gzip can expand to 1 GiB.
    /// Default: 64 MiB.
    #[must_use]
    pub const fn max_decompressed_size(mut self, bytes: usize) -> Self {
        self.limit = bytes;
        self
    }
}

impl Default for GzipCompressionProvider {
    fn default() -> Self {
        Self::new()
    }
}

impl CompressionProvider for GzipCompressionProvider {
    fn compress(&self, _path: &str, data: &[u8]) -> Result<Bytes, CompressionFailure> {
        // Java writes 0 as the operating system.
        let mut encoder =
            GzBuilder::new().operating_system(0).write(Vec::new(), Compression::default());
        encoder.write_all(data)?;
        Ok(encoder.finish()?.into())
    }

    fn decompress(&self, _path: &str, data: &[u8]) -> Result<Bytes, CompressionFailure> {
        if data.is_empty() {
            return Ok(Bytes::new());
        }
        let limit = u64::try_from(self.limit).unwrap_or(u64::MAX);
        let mut decompressed = Vec::new();
        MultiGzDecoder::new(data)
            .take(limit.saturating_add(1))
            .read_to_end(&mut decompressed)
            .map_err(GzipError::Malformed)?;
        if decompressed.len() > self.limit {
            return Err(GzipError::TooLarge { limit: self.limit }.into());
        }
        Ok(decompressed.into())
    }
}

impl std::fmt::Display for GzipError {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::Malformed(_) => f.write_str("data are not valid gzip"),
            Self::TooLarge { limit } => {
                write!(f, "data are larger than {limit} bytes when decompressed")
            }
        }
    }
}

impl std::error::Error for GzipError {
    fn source(&self) -> Option<&(dyn std::error::Error + 'static)> {
        match self {
            Self::Malformed(why) => Some(why),
            Self::TooLarge { .. } => None,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const HEADER: [u8; 10] = [0x1f, 0x8b, 8, 0, 0, 0, 0, 0, 0, 0];

    fn compressed(data: &[u8]) -> Vec<u8> {
        GzipCompressionProvider::new().compress("/", data).unwrap().into()
    }

    fn decompressed(data: &[u8]) -> Result<Bytes, GzipError> {
        let result = GzipCompressionProvider::new().decompress("/", data);
        result.map_err(|error| *error.downcast().expect("a GzipError"))
    }

    #[test]
    fn the_header_is_curators_and_so_is_empty_data() {
        assert_eq!(compressed(b"data")[..10], HEADER);
        let empty = [&HEADER[..], &[3, 0], &[0; 8]].concat();
        assert_eq!(compressed(b""), empty);
        assert_eq!(decompressed(&empty).unwrap(), "");
        assert_eq!(decompressed(b"").unwrap(), "");
    }

    /// Tests all sixteen combinations of the optional fields of RFC 1952, and FTEXT.
    #[test]
    fn every_header_is_read() {
        let plain = compressed(b"data");
        for flags in 0..32_u8 {
            let mut header = HEADER.to_vec();
            header[3] = flags;
            header[4..8].copy_from_slice(&[1, 2, 3, 4]);
            if flags & 4 != 0 {
                header.extend([3, 0, b'x', 0, b'y']);
            }
            if flags & 8 != 0 {
                header.extend(b"name.txt\0");
            }
            if flags & 16 != 0 {
                header.extend(b"comment\0");
            }
            if flags & 2 != 0 {
                let mut crc = flate2::Crc::new();
                crc.update(&header);
                header.extend_from_slice(&crc.sum().to_le_bytes()[..2]);
            }
            let bytes = [&header, &plain[10..]].concat();
            assert_eq!(decompressed(&bytes).unwrap(), "data", "flags {flags:#x}");
            if flags & 2 != 0 {
                let mut damaged = bytes;
                damaged[4] ^= 1;
                assert!(
                    matches!(decompressed(&damaged), Err(GzipError::Malformed(_))),
                    "flags {flags:#x}"
                );
            }
        }
    }

    #[test]
    fn members_in_a_row_are_one_text() {
        let members = [compressed(b"one "), compressed(b""), compressed(b"two")].concat();
        assert_eq!(decompressed(&members).unwrap(), "one two");
    }

    #[test]
    fn damage_is_an_error() {
        let whole = compressed(b"some data that are long enough");
        for length in 1..whole.len() {
            assert!(
                matches!(decompressed(&whole[..length]), Err(GzipError::Malformed(_))),
                "{length} bytes"
            );
        }
        // Changes a byte of the checksum, and one of the length.
        for at in [whole.len() - 8, whole.len() - 4] {
            let mut damaged = whole.clone();
            damaged[at] ^= 1;
            assert!(matches!(decompressed(&damaged), Err(GzipError::Malformed(_))), "at {at}");
        }
        assert!(decompressed(b"not gzip at all, but long enough for a header").is_err());
        assert!(decompressed(&[&whole[..], b"garbage"].concat()).is_err());
    }

    #[test]
    fn a_bomb_is_refused_at_the_limit_and_not_one_byte_before() {
        let bomb = compressed(&vec![0; 10_000]);
        let limited = |limit| {
            GzipCompressionProvider::new()
                .max_decompressed_size(limit)
                .decompress("/", &bomb)
                .map(|data| data.len())
        };
        assert_eq!(limited(10_000).unwrap(), 10_000);
        let error = limited(9_999).unwrap_err();
        assert!(
            matches!(error.downcast_ref(), Some(GzipError::TooLarge { limit: 9_999 })),
            "{error}"
        );
        assert!(limited(0).is_err());
        // The limit also holds for data in many members.
        let members = bomb.repeat(100);
        let gzip = GzipCompressionProvider::new().max_decompressed_size(999_999);
        assert!(gzip.decompress("/", &members).is_err());
    }
}
