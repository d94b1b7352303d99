//! The record of a dead letter, in front of the data of the item.

use std::time::SystemTime;

use bytes::{Bytes, BytesMut};

use crate::reason::cut;

/// The prefix of the data of a dead letter. Data with this prefix are escaped when they are put.
const MAGIC: &[u8] = b"\0rejected 1 ";

/// The reason and the time at which an item became a dead letter.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct Rejection {
    /// The number of deliveries before the rejection.
    pub deliveries: u32,
    /// The reason, of at most 1,024 bytes, from the consumer that has rejected the item, or has
    /// failed in its last delivery.
    pub why: String,
    /// The time at which it came to its place among the dead letters, by the clock of the servers.
    pub at: SystemTime,
}

/// The prefix of the data of a dead letter: `rejected 1 <deliveries> <length>`, a line feed, and
/// the reason.
pub(in crate::queue) fn wrap(deliveries: u32, why: &str, data: &Bytes) -> Bytes {
    let why = cut(why);
    let mut wrapped = BytesMut::from(MAGIC);
    wrapped.extend_from_slice(format!("{deliveries} {}\n{why}", why.len()).as_bytes());
    wrapped.extend_from_slice(data);
    wrapped.freeze()
}

/// Data that do not belong to a dead letter and do not have its prefix.
pub(in crate::queue) fn escape(data: Bytes) -> Bytes {
    if data.starts_with(MAGIC) { wrap(0, "", &data) } else { data }
}

/// Returns the data. For a dead letter, also returns the number of its deliveries, and the reason
/// of its rejection.
pub(in crate::queue) fn unwrap(stored: &Bytes) -> (Bytes, Option<(u32, String)>) {
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
