//! Backup files on disk, compressed or not.

use std::fs::File;
use std::io::{self, BufRead, BufReader, BufWriter, IsTerminal, Write};
use std::path::{Path, PathBuf};

use flate2::Compression;
use flate2::bufread::MultiGzDecoder;
use flate2::write::GzEncoder;

use super::format::{BackupHeader, RecordReader, Trailer, Writer};
use super::record::TransferRecord;
use crate::exit::CommandFailure;
use crate::output::data::is_gzip;
use crate::private;

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

/// The place of a backup.
#[derive(Debug)]
pub(crate) enum BackupTarget {
    File(PathBuf),
    Stdout,
}

impl BackupTarget {
    /// `-` is standard output.
    pub(crate) fn of(argument: &Path) -> Self {
        if argument == Path::new(STANDARD) { Self::Stdout } else { Self::File(argument.to_owned()) }
    }

    /// Returns a path next to which an unfinished file is.
    fn place(&self) -> PathBuf {
        match self {
            Self::File(path) => path.clone(),
            Self::Stdout => std::env::temp_dir().join("zkc-backup"),
        }
    }
}

/// The argument that stands for standard input or output.
const STANDARD: &str = "-";

/// A backup that can be read several times.
#[derive(Debug)]
pub(crate) struct BackupSource {
    path: PathBuf,
    /// A copy of standard input, which is removed at the end.
    is_copy: bool,
}

impl BackupSource {
    /// Takes a file, or copies standard input if the argument is `-`.
    pub(crate) async fn of(argument: &Path) -> Result<Self, CommandFailure> {
        if argument != Path::new(STANDARD) {
            return Ok(Self { path: argument.to_owned(), is_copy: false });
        }
        if io::stdin().is_terminal() {
            return Err(CommandFailure::usage("standard input is a terminal, not a backup"));
        }
        let (path, mut file) = private::create_temporary(&std::env::temp_dir(), "zkc-backup-")?;
        let source = Self { path, is_copy: true };
        // The session lives on while the input is slow.
        let copied =
            tokio::task::spawn_blocking(move || io::copy(&mut io::stdin().lock(), &mut file));
        copied.await.unwrap_or_else(|error| Err(io::Error::other(error)))?;
        Ok(source)
    }

    pub(crate) fn path(&self) -> &Path {
        &self.path
    }
}

impl Drop for BackupSource {
    fn drop(&mut self) {
        if self.is_copy {
            drop(std::fs::remove_file(&self.path));
        }
    }
}

/// A backup file that is written next to its final path, and moved there when it is complete. A
/// part that is dropped is removed.
pub(crate) struct BackupPart {
    path: PathBuf,
    writer: Option<Writer<BackupSink>>,
}

impl BackupPart {
    /// Begins a file that only its owner reads: it contains the data of nodes with an ACL.
    pub(crate) fn create(
        target: &BackupTarget,
        header: &BackupHeader,
        plain: bool,
    ) -> Result<Self, CommandFailure> {
        let place = target.place();
        let (path, file) =
            private::create_beside(&place).map_err(|error| failed(&place, &error))?;
        let mut part = Self { path, writer: None };
        let begin = || {
            let file = BufWriter::with_capacity(BUFFER, file);
            let sink = if plain {
                BackupSink::Plain(file)
            } else {
                BackupSink::Gzip(Box::new(GzEncoder::new(file, Compression::fast())))
            };
            Writer::new(sink, header)
        };
        let writer = begin().map_err(|error| failed(&part.path, &error))?;
        part.writer = Some(writer);
        Ok(part)
    }

    pub(crate) fn write(&mut self, record: &TransferRecord) -> Result<(), CommandFailure> {
        let Some(writer) = &mut self.writer else { return Ok(()) };
        writer.write(record).map_err(|error| failed(&self.path, &error))
    }

    /// Ends the file.
    pub(crate) fn finish(&mut self, trailer: Trailer) -> Result<Trailer, CommandFailure> {
        let Some(writer) = self.writer.take() else { return Ok(trailer) };
        let finish = || {
            let (sink, trailer) = writer.finish(trailer)?;
            sink.finish()?;
            Ok(trailer)
        };
        finish().map_err(|error: io::Error| failed(&self.path, &error))
    }

    /// Opens the finished file, to read it.
    pub(crate) fn read(&self) -> Result<OpenBackup, CommandFailure> {
        OpenBackup::open(&self.path)
    }

    /// Moves the finished file to its final path, or copies it to standard output.
    pub(crate) fn publish(self, target: &BackupTarget) -> Result<(), CommandFailure> {
        match target {
            BackupTarget::File(target) => {
                std::fs::rename(&self.path, target).map_err(|error| failed(target, &error))
            }
            BackupTarget::Stdout => {
                let copy = || {
                    let mut stdout = io::stdout().lock();
                    io::copy(&mut File::open(&self.path)?, &mut stdout)?;
                    stdout.flush()
                };
                copy().map_err(|error| failed(Path::new("standard output"), &error))
            }
        }
    }
}

impl Drop for BackupPart {
    fn drop(&mut self) {
        // After `publish`, the path is free.
        drop(std::fs::remove_file(&self.path));
    }
}

/// A backup file that is read.
pub(crate) struct OpenBackup {
    path: PathBuf,
    reader: RecordReader<Box<dyn BufRead>>,
}

impl OpenBackup {
    /// Opens a file, and reads its header. Compression is recognised.
    pub(crate) fn open(path: &Path) -> Result<Self, CommandFailure> {
        let mut file = File::open(path)
            .map(|file| BufReader::with_capacity(BUFFER, file))
            .map_err(|error| failed(path, &error))?;
        let begin = file.fill_buf().map_err(|error| failed(path, &error))?;
        let input: Box<dyn BufRead> = if is_gzip(begin) {
            Box::new(BufReader::with_capacity(BUFFER, MultiGzDecoder::new(file)))
        } else {
            Box::new(file)
        };
        let reader = RecordReader::new(input).map_err(|damage| failed(path, &damage))?;
        Ok(Self { path: path.to_owned(), reader })
    }

    pub(crate) const fn header(&self) -> &BackupHeader {
        self.reader.header()
    }

    /// Returns the trailer, after the last node was read.
    pub(crate) const fn trailer(&self) -> Option<&Trailer> {
        self.reader.trailer()
    }

    /// Returns the next node. Only after the last one it is certain that the file is intact.
    pub(crate) fn next(&mut self) -> Result<Option<TransferRecord>, CommandFailure> {
        self.reader.next().map_err(|damage| failed(&self.path, &damage))
    }
}

fn failed(path: &Path, error: &dyn std::fmt::Display) -> CommandFailure {
    CommandFailure::usage(format!("{}: {error}", path.display()))
}
