//! The format of the transaction node.

use std::time::Duration;

use bytes::{BufMut, Bytes, BytesMut};
use tokio::time::Instant;
use zk_curator::internal::bounded;

use super::{Form, Outcome};

/// The prefix of the name of the child that distinguishes a transaction from others at the same
/// path.
const IDENTITY: &str = "_t_";
const MAGIC: &str = "two-phase commit 2";

/// A transaction as the coordinator has begun it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct TransactionRecord {
    /// No other transaction has it.
    pub(crate) id: String,
    pub(crate) form: Form,
    pub(crate) deadline: Duration,
    pub(crate) sites: Vec<String>,
    pub(crate) payload: Bytes,
}

/// Rounds a deadline to the precision of the format.
pub(super) fn whole_millis(deadline: Duration) -> Duration {
    Duration::from_millis(u64::try_from(deadline.as_millis()).unwrap_or(u64::MAX))
}

/// Returns the name of the child that distinguishes the transaction with this id.
pub(crate) fn identity(id: &str) -> String {
    format!("{IDENTITY}{id}")
}

impl TransactionRecord {
    /// The deadline, counted from now.
    pub(super) fn due(&self) -> Instant {
        self.due_from(Instant::now())
    }

    /// The deadline, counted from the time at which the transaction was read.
    pub(super) fn due_from(&self, read_at: Instant) -> Instant {
        read_at + bounded(self.deadline)
    }

    /// The data of the node: lines of text, an empty one, and the unchanged payload.
    pub(super) fn encode(&self, decision: Option<Outcome>) -> Bytes {
        let state = match decision {
            None => "preparing",
            Some(Outcome::Committed) => "committed",
            Some(Outcome::Aborted) => "aborted",
        };
        let form = self.form.name();
        let millis = self.deadline.as_millis();
        let id = &self.id;
        let mut text =
            format!("{MAGIC}\nstate {state}\nform {form}\ndeadline_ms {millis}\nid {id}\n");
        for site in &self.sites {
            text.extend(["site ", site, "\n"]);
        }
        text.push('\n');
        let mut data = BytesMut::with_capacity(text.len() + self.payload.len());
        data.put(text.as_bytes());
        data.put(&self.payload[..]);
        data.freeze()
    }

    /// The transaction and the decision; `None` when these are not the data of one.
    pub(crate) fn parse(data: &Bytes) -> Option<(Self, Option<Outcome>)> {
        let end = data.windows(2).position(|pair| pair == b"\n\n")?;
        let text = std::str::from_utf8(&data[..end]).ok()?;
        let mut lines = text.lines();
        lines.next().filter(|magic| *magic == MAGIC)?;
        let mut value = |key: &str| lines.next()?.strip_prefix(key)?.strip_prefix(' ');
        let decision = match value("state")? {
            "preparing" => None,
            "committed" => Some(Outcome::Committed),
            "aborted" => Some(Outcome::Aborted),
            _ => return None,
        };
        let name = value("form")?;
        let form = Form::ALL.into_iter().find(|form| form.name() == name)?;
        let deadline = Duration::from_millis(value("deadline_ms")?.parse().ok()?);
        let id = value("id").filter(|id| is_id(id))?.to_owned();
        let mut sites = Vec::new();
        for line in lines {
            sites.push(line.strip_prefix("site ")?.to_owned());
        }
        if sites.is_empty() {
            return None;
        }
        Some((Self { id, form, deadline, sites, payload: data.slice(end + 2..) }, decision))
    }
}

/// Returns `true` if this can be part of the name of a node.
fn is_id(id: &str) -> bool {
    !id.is_empty() && id.chars().all(|letter| letter.is_ascii_alphanumeric() || letter == '-')
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn the_data_are_text_that_people_can_read() {
        let record = TransactionRecord {
            id: "7c1f-9".into(),
            form: Form::Coordinated,
            deadline: Duration::from_secs(30),
            sites: vec!["orders".into(), "stock".into()],
            payload: Bytes::from_static(b"move 3\n\nof 7"),
        };
        let data = record.encode(None);
        let text = "two-phase commit 2\nstate preparing\nform coordinated\ndeadline_ms 30000\nid 7c1f-9\nsite orders\n\
                    site stock\n\nmove 3\n\nof 7";
        assert_eq!(data, text);
        assert_eq!(TransactionRecord::parse(&data), Some((record, None)));
        for other in [text.replace("commit 2", "commit 1"), text.replace("id 7c1f-9\n", "")] {
            assert_eq!(TransactionRecord::parse(&Bytes::from(other)), None);
        }
    }

    proptest! {
        #[test]
        fn whatever_is_written_is_read(
            form in 0..3usize,
            millis in any::<u64>(),
            sites in prop::collection::vec("[^/\\p{C}\u{2028}\u{2029}]{1,9}", 1..5),
            payload in any::<Vec<u8>>(),
            decision in 0..3usize,
            id in "[0-9a-f-]{1,36}",
        ) {
            let deadline = Duration::from_millis(millis);
            let record = TransactionRecord { id, form: Form::ALL[form], deadline, sites, payload: payload.into() };
            let decision = [None, Some(Outcome::Committed), Some(Outcome::Aborted)][decision];
            prop_assert_eq!(TransactionRecord::parse(&record.encode(decision)), Some((record, decision)));
        }

        #[test]
        fn whatever_else_is_there_is_refused(data in any::<Vec<u8>>(), cut in 0..60usize) {
            prop_assert_eq!(TransactionRecord::parse(&Bytes::from(data)), None);
            let record = TransactionRecord {
                id: "1".into(), form: Form::Symmetric, deadline: Duration::ZERO, sites: vec!["a".into()], payload: Bytes::new(),
            };
            prop_assert_eq!(TransactionRecord::parse(&record.encode(None).slice(..cut)), None);
        }
    }
}
