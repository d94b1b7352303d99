//! From times to transactions.

use super::base::PassSettings;
use super::error::{Error, Result};
use super::files::Files;

/// Returns the last transaction before the first transaction later than `time_ms`, in the last log
/// that begins at or before this time.
///
/// Times are those of the leader's clock. They can go back when the leader changes.
pub(super) fn zxid_at(files: &Files, settings: &PassSettings, time_ms: i64) -> Result<i64> {
    for file in files.logs.iter().rev() {
        let mut log = settings.log(file)?;
        let mut last = None;
        while log.advance()? {
            match log.position() {
                Some((zxid, time)) if time <= time_ms => last = Some(zxid),
                _ => break,
            }
        }
        if let Some(zxid) = last {
            return Ok(zxid);
        }
    }
    Err(Error::NoLogs { time_ms })
}
