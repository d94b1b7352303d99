//! What becomes of an item that its consumer has failed with: when it is handed out again, and what is kept of it when
//! it is not.

use std::time::{Duration, SystemTime};

use bytes::{Bytes, BytesMut};
use zk_curator::CuratorFramework;

use crate::random::fraction;
use crate::reason::cut;

/// The most deliveries of an item, or attempts at a job, by default.
pub(super) const MOST_DELIVERIES: u32 = 20;
/// The most items that are held back at a time; while there are as many, no other is taken.
pub(super) const MOST_HELD: usize = 64;
/// The beginning of the data of a dead letter. Data that begin like this are escaped when they are put.
const MAGIC: &[u8] = b"\0rejected 1 ";

/// The delays for which a consumer holds back an item that it has failed with, under its claim.
#[derive(Debug, Clone, Copy)]
pub(super) struct Backoff {
    pub(super) first: Duration,
    pub(super) longest: Duration,
}

impl Default for Backoff {
    fn default() -> Self {
        Self { first: Duration::from_millis(100), longest: Duration::from_secs(30) }
    }
}

impl Backoff {
    /// The delay after a delivery, from 1: twice as long after each, and of that between a half and all, by chance.
    pub(super) fn after(self, delivery: u32, zk: &CuratorFramework) -> Duration {
        let factor = 1u32.checked_shl(delivery.saturating_sub(1)).unwrap_or(u32::MAX);
        let most = self.first.saturating_mul(factor).min(self.longest);
        most / 2 + (most / 2).mul_f64(fraction(zk))
    }
}

/// Why and when an item became a dead letter.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct Rejection {
    /// The number of deliveries before.
    pub deliveries: u32,
    /// The reason that was given, of 1,024 bytes at most: by the consumer that has rejected it, or failed with its last
    /// delivery.
    pub why: String,
    /// When it came to its place among the dead letters, by the clock of the servers.
    pub at: SystemTime,
}

/// The prefix of the data of a dead letter: `rejected 1 <deliveries> <length>`, a line feed, and the reason.
pub(super) fn wrap(deliveries: u32, why: &str, data: &Bytes) -> Bytes {
    let why = cut(why);
    let mut wrapped = BytesMut::from(MAGIC);
    wrapped.extend_from_slice(format!("{deliveries} {}\n{why}", why.len()).as_bytes());
    wrapped.extend_from_slice(data);
    wrapped.freeze()
}

/// Data that are no dead letter's and do not look like one's.
pub(super) fn escape(data: Bytes) -> Bytes {
    if data.starts_with(MAGIC) { wrap(0, "", &data) } else { data }
}

/// The data, and if they are of a dead letter, how often it was delivered, and why it was rejected.
pub(super) fn unwrap(stored: &Bytes) -> (Bytes, Option<(u32, String)>) {
    match split(stored) {
        Some((0, _, data)) => (data, None),
        Some((deliveries, why, data)) => (data, Some((deliveries, why))),
        None => (stored.clone(), None),
    }
}

fn split(stored: &Bytes) -> Option<(u32, String, Bytes)> {
    let rest = stored.strip_prefix(MAGIC)?;
    let line = rest.iter().position(|byte| *byte == b'\n')?;
    let (deliveries, length) = std::str::from_utf8(&rest[..line]).ok()?.split_once(' ')?;
    let (deliveries, length) = (deliveries.parse().ok()?, length.parse::<usize>().ok()?);
    let rest = &rest[line + 1..];
    let (why, data) = rest.split_at_checked(length)?;
    Some((deliveries, std::str::from_utf8(why).ok()?.to_owned(), stored.slice_ref(data)))
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;
    use crate::reason;

    #[test]
    fn the_reason_is_text_that_people_can_read() {
        let data = Bytes::from("data");
        assert_eq!(wrap(3, "no\nluck", &data), "\0rejected 1 3 7\nno\nluckdata");
        let why = "é".repeat(reason::LONGEST);
        let (unwrapped, rejection) = unwrap(&wrap(1, &why, &data));
        assert_eq!((unwrapped, rejection), (data, Some((1, "é".repeat(reason::LONGEST / 2)))));
    }

    proptest! {
        #[test]
        fn whatever_is_wrapped_comes_back(deliveries in 1u32.., why in ".{0,200}", data in any::<Vec<u8>>()) {
            let data = Bytes::from(data);
            let wrapped = wrap(deliveries, &why, &data);
            prop_assert_eq!(unwrap(&wrapped), (data, Some((deliveries, why))));
        }

        #[test]
        fn whatever_is_put_is_no_dead_letter(data in any::<Vec<u8>>(), looks_like in any::<bool>()) {
            let data = Bytes::from(if looks_like { [MAGIC, b"1 0\n", &data[..]].concat() } else { data });
            prop_assert_eq!(unwrap(&escape(data.clone())), (data, None));
        }
    }
}
