//! The files of a server, and the threads that read them.

use std::path::PathBuf;
use std::time::Duration;

use zk_curator_ops::history::{Error, Files, ReadBudget};

use super::failure::HistoryFailure;
use crate::problem::{Problem, RequestResult};
use crate::transfer::{WorkPlaces, complete};

/// The number of times that files are found, if the server removes one of them each time.
const ATTEMPTS: u32 = 3;

/// The directories of a server.
#[derive(Debug)]
pub(crate) struct HistorySource {
    directories: Vec<PathBuf>,
    limits: HistoryLimits,
}

/// The limits of a read.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct HistoryLimits {
    /// The bytes of logs and of uncompressed snapshots.
    pub(crate) bytes: u64,
    pub(crate) time: Duration,
    /// The memory of the nodes, in bytes.
    pub(crate) memory: usize,
}

/// Stops a read whose caller goes away, for example because the browser has closed the connection.
struct StopOnDrop(ReadBudget);

impl Drop for StopOnDrop {
    fn drop(&mut self) {
        self.0.stop();
    }
}

impl HistorySource {
    /// Returns the files in these directories; `None` without a directory.
    pub(crate) fn new(directories: Vec<PathBuf>, limits: HistoryLimits) -> Option<Self> {
        (!directories.is_empty()).then_some(Self { directories, limits })
    }

    pub(crate) const fn limits(&self) -> HistoryLimits {
        self.limits
    }

    /// Reads the files in a thread of its own, until the caller goes away. A server that runs may
    /// remove an old file before it was read; then all files are found and read again.
    pub(crate) async fn read<T: Send + 'static>(
        &self,
        places: WorkPlaces<'_>,
        read: impl Fn(&Files, &ReadBudget) -> Result<T, HistoryFailure> + Send + 'static,
    ) -> RequestResult<T> {
        let HistoryLimits { bytes, time, memory } = self.limits;
        let budget = ReadBudget::new(bytes, time, memory);
        let stop = StopOnDrop(budget.clone());
        let directories = self.directories.clone();
        let done = complete(places, move || async move {
            let mut attempts = 1;
            loop {
                let files = Files::find(&directories).map_err(HistoryFailure::from);
                match files.and_then(|files| read(&files, &budget)) {
                    Err(HistoryFailure::Files(Error::Removed { .. })) if attempts < ATTEMPTS => {
                        attempts += 1;
                    }
                    done => return done,
                }
            }
        });
        let done = done.await?;
        drop(stop);
        done.map_err(Problem::from)
    }
}
