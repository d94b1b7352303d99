//! The first and the last transaction of the logs.

use super::change::Moment;
use super::error::{Error, Result};
use super::files::{Files, LogFile};
use super::log::Log;

impl Files {
    /// Returns the first transaction in the logs; `None` if they contain none. Damaged records are
    /// passed over.
    ///
    /// # Errors
    /// The errors of opening a log, and [`Error::Io`].
    pub fn first_change(&self) -> Result<Option<Moment>> {
        for file in &self.logs {
            let Some(mut log) = open(file)? else { continue };
            if log.advance()? {
                return Ok(position(&log));
            }
        }
        Ok(None)
    }

    /// Returns the last transaction in the logs; `None` if they contain none. Damaged records are
    /// passed over. The last log with a transaction is read to its end.
    ///
    /// # Errors
    /// The errors of opening a log, and [`Error::Io`].
    pub fn last_change(&self) -> Result<Option<Moment>> {
        for file in self.logs.iter().rev() {
            let Some(mut log) = open(file)? else { continue };
            let mut last = None;
            while log.advance()? {
                last = position(&log);
            }
            if last.is_some() {
                return Ok(last);
            }
        }
        Ok(None)
    }
}

/// Opens a log; `None` if it was removed since it was found.
fn open(file: &LogFile) -> Result<Option<Log>> {
    match Log::open(&file.path) {
        Ok(log) => Ok(Some(log.skip_damaged(true))),
        Err(Error::Removed { .. }) => Ok(None),
        Err(error) => Err(error),
    }
}

fn position(log: &Log) -> Option<Moment> {
    log.position().map(|(zxid, time_ms)| Moment { zxid, time_ms })
}
