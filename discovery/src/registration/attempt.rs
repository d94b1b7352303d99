//! A write of a record without a response: was it applied?

use bytes::Bytes;
use zk_curator::Error;

use super::machine::Found;
use super::state::Gate;

/// A write that was sent at a version, and has no response.
pub(super) struct Attempt {
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
pub(super) enum Outcome {
    Applied,
    NotApplied,
    /// Others have written since.
    Unknown,
}

impl Attempt {
    /// Judges by a read behind a quorum, which was sent after the attempt.
    pub(super) fn judge(&self, found: &Found, data: &Bytes) -> Outcome {
        if found.czxid != self.czxid {
            // The node was created again, with the record that was known last.
            return match data {
                data if *data == self.data => Outcome::Applied,
                data if *data == self.before => Outcome::NotApplied,
                _ => Outcome::Unknown,
            };
        }
        match found.version.wrapping_sub(self.version) {
            0 => Outcome::NotApplied,
            // Exactly one write was applied.
            1 if *data == self.data => Outcome::Applied,
            1 => Outcome::NotApplied,
            _ => Outcome::Unknown,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn one_write_tells_and_two_do_not() {
        let attempt = |version| Attempt {
            czxid: 7,
            version,
            before: Bytes::from("before"),
            data: Bytes::from("sent"),
            gate: Gate::Open,
            error: Error::invalid_argument("update", "/a", "x"),
        };
        let found = |czxid, version| Found { czxid, version, owner: 1, has_our_data: false };
        for (before, czxid, version, data, outcome) in [
            (3, 7, 3, "before", Outcome::NotApplied),
            (3, 7, 4, "sent", Outcome::Applied),
            (3, 7, 4, "other", Outcome::NotApplied),
            (3, 7, 5, "sent", Outcome::Unknown),
            (3, 7, 5, "other", Outcome::Unknown),
            (i32::MAX, 7, i32::MIN, "sent", Outcome::Applied),
            (3, 8, 0, "before", Outcome::NotApplied),
            (3, 8, 0, "sent", Outcome::Applied),
            (3, 8, 4, "other", Outcome::Unknown),
        ] {
            let judged = attempt(before).judge(&found(czxid, version), &Bytes::from(data));
            assert_eq!(judged, outcome, "{before} {czxid} {version} {data}");
        }
    }
}
