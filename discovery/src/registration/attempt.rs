//! A write of a record without a response: was it applied?

use bytes::Bytes;
use zk_curator::Error;

use super::machine::FoundNode;
use super::state::Gate;

/// A write that was sent at a version, and has no response.
pub(super) struct UnansweredWrite {
    /// The node that was known: the transaction that created it, its version and its data.
    pub(super) czxid: i64,
    pub(super) version: i32,
    pub(super) before: Bytes,
    /// The data that were sent.
    pub(super) data: Bytes,
    /// The position of the gate if it was applied.
    pub(super) gate: Gate,
    pub(super) error: Error,
}

/// What a read says about an attempt.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum WriteOutcome {
    Applied,
    NotApplied,
    /// Others have written since.
    Unknown,
}

impl UnansweredWrite {
    /// Judges by a read behind a quorum, which was sent after the attempt.
    pub(super) fn judge(&self, found: &FoundNode, data: &Bytes) -> WriteOutcome {
        if found.czxid != self.czxid {
            // The node was created again, with the record that was known last.
            return match data {
                data if *data == self.data => WriteOutcome::Applied,
                data if *data == self.before => WriteOutcome::NotApplied,
                _ => WriteOutcome::Unknown,
            };
        }
        match found.version.wrapping_sub(self.version) {
            0 => WriteOutcome::NotApplied,
            // Exactly one write was applied.
            1 if *data == self.data => WriteOutcome::Applied,
            1 => WriteOutcome::NotApplied,
            _ => WriteOutcome::Unknown,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn one_write_tells_and_two_do_not() {
        let attempt = |version| UnansweredWrite {
            czxid: 7,
            version,
            before: Bytes::from("before"),
            data: Bytes::from("sent"),
            gate: Gate::Open,
            error: Error::invalid_argument("update", "/a", "x"),
        };
        let found = |czxid, version| FoundNode { czxid, version, owner: 1, has_our_data: false };
        for (before, czxid, version, data, outcome) in [
            (3, 7, 3, "before", WriteOutcome::NotApplied),
            (3, 7, 4, "sent", WriteOutcome::Applied),
            (3, 7, 4, "other", WriteOutcome::NotApplied),
            (3, 7, 5, "sent", WriteOutcome::Unknown),
            (3, 7, 5, "other", WriteOutcome::Unknown),
            (i32::MAX, 7, i32::MIN, "sent", WriteOutcome::Applied),
            (3, 8, 0, "before", WriteOutcome::NotApplied),
            (3, 8, 0, "sent", WriteOutcome::Applied),
            (3, 8, 4, "other", WriteOutcome::Unknown),
        ] {
            let judged = attempt(before).judge(&found(czxid, version), &Bytes::from(data));
            assert_eq!(judged, outcome, "{before} {czxid} {version} {data}");
        }
    }
}
