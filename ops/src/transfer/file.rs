//! Backup files on disk, compressed or not.

use std::fmt;
use std::fs::File;
use std::io::{self, BufRead, BufReader, BufWriter, Write};
use std::path::{Path, PathBuf};

use flate2::Compression;
use flate2::bufread::MultiGzDecoder;
use flate2::write::GzEncoder;

use super::damage::BackupDamage;
use super::format::{BackupHeader, BackupTrailer, RecordReader, RecordWriter};
use super::record::TransferRecord;
use crate::data::is_gzip;
use crate::error::Error;
use crate::files::TemporaryFile;

const BUFFER: usize = 256 << 10;

/// The bytes of a file that is written.
#[derive(Debug)]
enum BackupSink {
    Plain(BufWriter<File>),
    Gzip(Box<GzEncoder<BufWriter<File>>>),
}

impl BackupSink {
    fn finish(self) -> io::Result<()> {
        let buffered = match self {
            Self::Plain(file) => file,
            Self::Gzip(encoder) => encoder.finish()?,
        };
        buffered.into_inner().map_err(io::IntoInnerError::into_error)?.sync_all()
    }
}

impl Write for BackupSink {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        match self {
            Self::Plain(file) => file.write(bytes),
            Self::Gzip(encoder) => encoder.write(bytes),
        }
    }

    fn flush(&mut self) -> io::Result<()> {
        match self {
            Self::Plain(file) => file.flush(),
            Self::Gzip(encoder) => encoder.flush(),
        }
    }
}

/// A backup file that is written next to its final path, and moved there when it is complete. A
/// part that is dropped is removed.
pub(crate) struct BackupPart {
    // It is closed before the file is removed.
    writer: Option<RecordWriter<BackupSink>>,
    file: TemporaryFile,
}

impl BackupPart {
    /// Begins a file next to `place` that only its owner reads: it contains the data of nodes with
    /// an ACL.
    pub(crate) fn create(place: &Path, header: &BackupHeader, plain: bool) -> Result<Self, Error> {
        let (file, output) =
            TemporaryFile::create_beside(place).map_err(|error| failed("create", place, error))?;
        let output = BufWriter::with_capacity(BUFFER, output);
        let sink = if plain {
            BackupSink::Plain(output)
        } else {
            BackupSink::Gzip(Box::new(GzEncoder::new(output, Compression::fast())))
        };
        let writer =
            RecordWriter::new(sink, header).map_err(|error| failed("write", file.path(), error))?;
        Ok(Self { writer: Some(writer), file })
    }

    pub(crate) fn write(&mut self, record: &TransferRecord) -> Result<(), Error> {
        let Some(writer) = &mut self.writer else { return Ok(()) };
        writer.write(record).map_err(|error| failed("write", self.file.path(), error))
    }

    /// Ends the file.
    pub(crate) fn finish(&mut self, trailer: BackupTrailer) -> Result<BackupTrailer, Error> {
        let Some(writer) = self.writer.take() else { return Ok(trailer) };
        let finish = || {
            let (sink, trailer) = writer.finish(trailer)?;
            sink.finish()?;
            Ok(trailer)
        };
        finish().map_err(|error: io::Error| failed("write", self.file.path(), error))
    }

    /// Opens the finished file, to read it.
    pub(crate) fn read(&self) -> Result<BackupReader, Error> {
        BackupReader::open(self.file.path())
    }

    /// Moves the finished file to its final path.
    pub(crate) fn publish(self, target: &Path) -> Result<(), Error> {
        self.file.publish(target).map_err(|error| failed("write", target, error))
    }

    /// Opens the finished file for its bytes. It has no name any more, and its space is free when
    /// it is closed.
    pub(crate) fn into_file(self) -> Result<File, Error> {
        let path = self.file.path();
        File::open(path).map_err(|error| failed("open", path, error))
    }

    /// Copies the finished file to an output.
    pub(crate) fn copy_to(self, output: &mut impl Write) -> Result<(), Error> {
        let mut copy = || {
            io::copy(&mut File::open(self.file.path())?, output)?;
            output.flush()
        };
        copy().map_err(|source| Error::Output { source })
    }
}

/// A backup file that is read, node by node.
pub struct BackupReader {
    path: PathBuf,
    reader: RecordReader<Box<dyn BufRead + Send>>,
}

impl BackupReader {
    /// Opens a file, and reads its header. Compression is recognised.
    ///
    /// # Errors
    /// [`File`](Error::File) and [`Damaged`](Error::Damaged).
    pub fn open(path: impl AsRef<Path>) -> Result<Self, Error> {
        let path = path.as_ref();
        let mut file = File::open(path)
            .map(|file| BufReader::with_capacity(BUFFER, file))
            .map_err(|error| failed("open", path, error))?;
        let begin = file.fill_buf().map_err(|error| failed("read", path, error))?;
        let input: Box<dyn BufRead + Send> = if is_gzip(begin) {
            Box::new(BufReader::with_capacity(BUFFER, MultiGzDecoder::new(file)))
        } else {
            Box::new(file)
        };
        let reader = RecordReader::new(input).map_err(|damage| damaged(path, damage))?;
        Ok(Self { path: path.to_owned(), reader })
    }

    /// Returns the header.
    #[must_use]
    pub const fn header(&self) -> &BackupHeader {
        self.reader.header()
    }

    /// Returns the trailer, after the last node was read.
    #[must_use]
    pub const fn trailer(&self) -> Option<&BackupTrailer> {
        self.reader.trailer()
    }

    /// Returns the next node, parents before their children; `None` after the last one. Only then
    /// it is certain that the file is intact.
    ///
    /// # Errors
    /// [`Damaged`](Error::Damaged).
    pub fn next_record(&mut self) -> Result<Option<TransferRecord>, Error> {
        self.reader.next().map_err(|damage| damaged(&self.path, damage))
    }
}

impl fmt::Debug for BackupReader {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("BackupReader").field("path", &self.path).finish_non_exhaustive()
    }
}

fn failed(operation: &'static str, path: &Path, source: io::Error) -> Error {
    Error::File { operation, path: path.to_owned(), source }
}

fn damaged(path: &Path, damage: BackupDamage) -> Error {
    Error::Damaged { path: path.to_owned(), damage }
}
