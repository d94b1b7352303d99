//! The data of the nodes of jobs: lines of text, an empty line, and a free text.

use crate::reason::cut;

const EXECUTING: &str = "executing 1";
const FAILED: &str = "failed 1";
const LATER: &str = "later 1";

/// The record of a job that is being executed.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Executing {
    /// The name that the job gets when it is pending again.
    pub(crate) name: String,
    pub(crate) session: i64,
    pub(crate) worker: String,
}

/// The record of a job that has failed permanently.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct FailedJobRecord {
    pub(super) attempts: u32,
    pub(super) priority: i32,
    pub(super) why: String,
}

/// The record of a delayed job.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Later {
    /// The name that the job gets when it is pending again.
    pub(super) name: String,
    /// The reason why its last attempt has failed.
    pub(super) why: String,
}

impl Executing {
    pub(super) fn encode(&self) -> String {
        let Self { name, session, worker } = self;
        format!("{EXECUTING}\njob {name}\nsession {session}\n\n{worker}")
    }

    /// Returns `None` for other data.
    pub(crate) fn parse(data: &[u8]) -> Option<Self> {
        let (lines, worker) = split(data, EXECUTING)?;
        let (name, session) = lines.strip_prefix("job ")?.split_once("\nsession ")?;
        Some(Self {
            name: name.to_owned(),
            session: session.parse().ok()?,
            worker: worker.to_owned(),
        })
    }
}

impl FailedJobRecord {
    /// A priority of zero is left out.
    pub(super) fn encode(&self) -> String {
        let Self { attempts, priority, why } = self;
        let priority =
            if *priority == 0 { String::new() } else { format!("\npriority {priority}") };
        format!("{FAILED}\nattempts {attempts}{priority}\n\n{}", cut(why))
    }

    /// Returns `None` for other data.
    pub(super) fn parse(data: &[u8]) -> Option<Self> {
        let (lines, why) = split(data, FAILED)?;
        let lines = lines.strip_prefix("attempts ")?;
        let (attempts, priority) = lines.split_once("\npriority ").unwrap_or((lines, "0"));
        let (attempts, priority) = (attempts.parse().ok()?, priority.parse().ok()?);
        Some(Self { attempts, priority, why: why.to_owned() })
    }
}

impl Later {
    pub(super) fn encode(&self) -> String {
        format!("{LATER}\njob {}\n\n{}", self.name, cut(&self.why))
    }

    /// Returns `None` for other data.
    pub(super) fn parse(data: &[u8]) -> Option<Self> {
        let (lines, why) = split(data, LATER)?;
        Some(Self { name: lines.strip_prefix("job ")?.to_owned(), why: why.to_owned() })
    }
}

/// Returns the lines between the first and the empty one, and the text behind it.
fn split<'a>(data: &'a [u8], first: &str) -> Option<(&'a str, &'a str)> {
    std::str::from_utf8(data).ok()?.strip_prefix(first)?.strip_prefix('\n')?.split_once("\n\n")
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;
    use crate::reason;

    #[test]
    fn the_data_are_text_that_people_can_read() {
        let executing = Executing { name: "job-x".into(), session: 0x1f, worker: "w\n\n1".into() };
        assert_eq!(executing.encode(), "executing 1\njob job-x\nsession 31\n\nw\n\n1");
        let failed = FailedJobRecord { attempts: 3, priority: 0, why: "no\n\nluck".into() };
        assert_eq!(failed.encode(), "failed 1\nattempts 3\n\nno\n\nluck");
        let failed = FailedJobRecord { priority: -7, ..failed };
        assert_eq!(failed.encode(), "failed 1\nattempts 3\npriority -7\n\nno\n\nluck");
        let later = Later { name: "b/job-x".into(), why: "busy".into() };
        assert_eq!(later.encode(), "later 1\njob b/job-x\n\nbusy");
        let later = Later { why: "x".repeat(5000), ..later };
        assert_eq!(Later::parse(later.encode().as_bytes()).unwrap().why.len(), reason::LONGEST);
    }

    proptest! {
        #[test]
        fn whatever_is_written_is_read(name in "[^\n]{0,40}", session in any::<i64>(), text in ".*", attempts in any::<u32>(), priority in any::<i32>()) {
            let executing = Executing { name: name.clone(), session, worker: text.clone() };
            prop_assert_eq!(Executing::parse(executing.encode().as_bytes()), Some(executing));
            let later = Later { name, why: text.clone() };
            prop_assert_eq!(Later::parse(later.encode().as_bytes()), Some(later));
            let failed = FailedJobRecord { attempts, priority, why: text };
            prop_assert_eq!(FailedJobRecord::parse(failed.encode().as_bytes()), Some(failed));
        }

        #[test]
        fn whatever_else_is_there_is_refused(data in any::<Vec<u8>>(), cut in any::<prop::sample::Index>()) {
            prop_assert_eq!((Executing::parse(&data), FailedJobRecord::parse(&data)), (None, None));
            prop_assert_eq!(Later::parse(&data), None);
            let executing = Executing { name: "n".into(), session: 1, worker: String::new() }.encode();
            prop_assert_eq!(Executing::parse(&executing.as_bytes()[..cut.index(executing.len())]), None);
        }
    }
}
