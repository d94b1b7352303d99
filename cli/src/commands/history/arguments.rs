//! The arguments that the commands share.

use std::ops::RangeInclusive;
use std::path::{Path, PathBuf};

use clap::Args;
use zk_curator_ops::history::{self, At, Files};
use zk_curator_ops::past::TimeOrAge;

use crate::exit::CommandFailure;
use crate::node::parse_id;
pub(super) use crate::node::parse_session as session;
use crate::output::shell_word;

/// The number of times that files are found, if the server removes one of them each time.
const ATTEMPTS: u32 = 3;

/// The files of a server.
#[derive(Debug, Args)]
pub(super) struct FileArguments {
    /// Data directory of one server (`dataDir`), in place or copied
    #[arg(value_name = "DIR")]
    dir: PathBuf,
    /// Directory of its transaction logs, if it is another one (`dataLogDir`)
    #[arg(long, value_name = "DIR")]
    log_dir: Option<PathBuf>,
    /// Continue after damage and after missing transactions. They are named on stderr, and the exit
    /// code is 8
    #[arg(long)]
    pub(super) skip_damaged: bool,
}

impl FileArguments {
    pub(super) fn directories(&self) -> Vec<&Path> {
        [&self.dir].into_iter().chain(&self.log_dir).map(PathBuf::as_path).collect()
    }

    pub(super) fn find(&self) -> Result<Files, CommandFailure> {
        Ok(Files::find(self.directories())?)
    }

    /// Reads the files. A server that runs may remove an old one before it was read; then they are
    /// found and read again.
    pub(super) fn read<T>(
        &self,
        read: impl Fn(&Files) -> history::Result<T>,
    ) -> Result<T, CommandFailure> {
        let mut attempts = 1;
        loop {
            match read(&self.find()?) {
                Err(history::Error::Removed { .. }) if attempts < ATTEMPTS => attempts += 1,
                result => return Ok(result?),
            }
        }
    }

    /// Returns the arguments as a shell reads them.
    pub(super) fn words(&self) -> String {
        let word = |dir: &Path| shell_word(&dir.display().to_string()).into_owned();
        let log_dir = self.log_dir.as_ref().map(|dir| format!(" --log-dir {}", word(dir)));
        format!("{}{}", word(&self.dir), log_dir.unwrap_or_default())
    }
}

/// Parses a time, in milliseconds since 1970.
pub(super) fn time(text: &str) -> Result<i64, String> {
    let time = text.parse::<TimeOrAge>().and_then(TimeOrAge::ms_since_1970);
    time.map_err(|error| error.to_string())
}

/// Parses a moment: a transaction in hexadecimal, or a time.
pub(super) fn moment(text: &str) -> Result<At, String> {
    text.parse::<At>().map_err(|error| error.to_string())
}

/// Parses a transaction, or a range of transactions whose ends may be left out.
pub(super) fn zxids(text: &str) -> Result<RangeInclusive<i64>, String> {
    let id = |text: &str| parse_id(text).map_err(|error| format!("{text}: {error}"));
    let Some((first, last)) = text.split_once("..") else { return id(text).map(|id| id..=id) };
    let first = if first.is_empty() { i64::MIN } else { id(first)? };
    let last = if last.is_empty() { i64::MAX } else { id(last)? };
    Ok(first..=last)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::output::time::now_ms;

    #[test]
    fn times_are_absolute_or_ago() {
        assert_eq!(time("1970-01-01T00:00:02Z"), Ok(2_000));
        assert_eq!(time("1970-01-01 00:00:02"), Ok(2_000));
        let ago = time("10m").expect("a time");
        assert!((0..60_000).contains(&(now_ms() - 600_000 - ago)), "{ago}");
        for wrong in ["", "14:02", "yesterday", "1969-01-01T00:00:00Z"] {
            assert!(time(wrong).is_err(), "{wrong}");
        }
        assert_eq!(moment("0x2f"), Ok(At::Zxid(47)));
        assert_eq!(moment("1970-01-01T00:00:02Z"), Ok(At::Time(2_000)));
        assert!(moment("0x").is_err());
    }

    #[test]
    fn ranges_may_be_open() {
        assert_eq!(zxids("0x1..0x5"), Ok(1..=5));
        assert_eq!(zxids("0x1.."), Ok(1..=i64::MAX));
        assert_eq!(zxids("..5"), Ok(i64::MIN..=5));
        assert_eq!(zxids("0x7"), Ok(7..=7));
        assert!(zxids("").is_err() && zxids("a..b").is_err());
    }
}
