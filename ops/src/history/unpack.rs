//! The compressions of snapshots.

use std::fs::File;
use std::io::{self, BufReader, Read};

use flate2::bufread::MultiGzDecoder;

use super::files::Packing;

/// The capacity of the buffer of compressed data, in bytes.
const BUFFER: usize = 256 << 10;

/// Returns a reader of the uncompressed content.
pub(super) fn unpack(file: File, packing: Packing) -> Box<dyn Read + Send> {
    match packing {
        Packing::Plain => Box::new(file),
        Packing::Gzip => Box::new(MultiGzDecoder::new(BufReader::with_capacity(BUFFER, file))),
        Packing::Snappy => Box::new(Snappy::new(BufReader::with_capacity(BUFFER, file))),
    }
}

/// The first bytes of the stream format of snappy-java, before two version numbers.
pub(super) const SNAPPY: [u8; 8] = [0x82, b'S', b'N', b'A', b'P', b'P', b'Y', 0];
/// The length of the header, in bytes.
const HEADER: usize = 16;
/// The maximum length of a block, in bytes, compressed or not. snappy-java writes blocks of 32 KiB.
const MAX_BLOCK: usize = 16 << 20;

/// Reads the stream format of snappy-java: a header, and blocks with their lengths before them.
struct Snappy<R> {
    input: R,
    packed: Vec<u8>,
    block: Vec<u8>,
    /// The number of bytes of `block` that were read.
    read: usize,
    has_header: bool,
}

impl<R: Read> Snappy<R> {
    const fn new(input: R) -> Self {
        Self { input, packed: Vec::new(), block: Vec::new(), read: 0, has_header: false }
    }

    /// Reads the next block. Returns `false` at the end.
    fn next_block(&mut self) -> io::Result<bool> {
        if !self.has_header {
            let mut header = [0; HEADER];
            self.input.read_exact(&mut header)?;
            if !header.starts_with(&SNAPPY) {
                return Err(invalid("it does not begin as a stream of snappy-java"));
            }
            self.has_header = true;
        }
        self.take(4)?;
        let Some(length) = self.packed.first_chunk::<4>() else {
            return if self.packed.is_empty() { Ok(false) } else { Err(cut()) };
        };
        let length = usize::try_from(i32::from_be_bytes(*length)).unwrap_or(usize::MAX);
        if length > MAX_BLOCK {
            return Err(invalid("a block is too long"));
        }
        self.take(length)?;
        if self.packed.len() < length {
            return Err(cut());
        }
        let unpacked = snap::raw::decompress_len(&self.packed).map_err(invalid)?;
        if unpacked > MAX_BLOCK {
            return Err(invalid("a block is too long"));
        }
        self.block.resize(unpacked, 0);
        let mut decoder = snap::raw::Decoder::new();
        let length = decoder.decompress(&self.packed, &mut self.block).map_err(invalid)?;
        self.block.truncate(length);
        self.read = 0;
        Ok(true)
    }

    /// Reads compressed bytes: fewer than `wanted` if the file ends.
    fn take(&mut self, wanted: usize) -> io::Result<()> {
        self.packed.clear();
        self.input.by_ref().take(wanted as u64).read_to_end(&mut self.packed)?;
        Ok(())
    }
}

impl<R: Read> Read for Snappy<R> {
    fn read(&mut self, out: &mut [u8]) -> io::Result<usize> {
        while self.read == self.block.len() {
            if !self.next_block()? {
                return Ok(0);
            }
        }
        let rest = &self.block[self.read..];
        let count = rest.len().min(out.len());
        out[..count].copy_from_slice(&rest[..count]);
        self.read += count;
        Ok(count)
    }
}

fn invalid(reason: impl ToString) -> io::Error {
    io::Error::new(io::ErrorKind::InvalidData, reason.to_string())
}

fn cut() -> io::Error {
    io::Error::new(io::ErrorKind::UnexpectedEof, "the file ends inside a block")
}
