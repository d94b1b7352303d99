//! From times to transactions.

use super::base::Settings;
use super::error::{Error, Result};
use super::files::{Files, LogFile};
use super::log::Log;

/// Returns the last transaction before the first one that is later than `time_ms`, in the last log
/// that begins at or before this time.
///
/// Times are those of the leader's clock. They can go back when the leader changes.
pub(super) fn zxid_at(files: &Files, settings: &Settings, time_ms: i64) -> Result<i64> {
    let mut found = None;
    for file in files.logs.iter().rev() {
        let mut log = open(file, settings)?;
        if !log.advance()? {
            continue;
        }
        let mut last = None;
        loop {
            let Some((zxid, time)) = log.position() else { break };
            if time > time_ms {
                break;
            }
            last = Some(zxid);
            if !log.advance()? {
                break;
            }
        }
        if last.is_some() {
            found = last;
            break;
        }
    }
    found.ok_or(Error::NoLogs { time_ms })
}

fn open(file: &LogFile, settings: &Settings) -> Result<Log> {
    let log = Log::open(&file.path)?.max_record(settings.max_record);
    Ok(log.skip_damaged(settings.skips_damaged))
}
