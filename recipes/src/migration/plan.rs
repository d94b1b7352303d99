//! The decisions: pure functions of the nodes that were read.

use std::ops::Range;

use bytes::Bytes;
use zk_curator::Acl;
use zk_curator::internal::Op;
use zk_curator::path::SequenceSuffix;

use super::digest::Digest;
use super::record::MigrationRecord;
use crate::order::numbers_tell;

/// The start of the names of Curator's metadata.
pub(crate) const META: &str = "meta-";

/// A migration, as its metadata must be.
#[derive(Debug, Clone)]
pub(super) struct Expected {
    pub(super) name: String,
    /// The data of its metadata.
    pub(super) digest: Digest,
    /// The checksum in its record.
    pub(super) sound: Digest,
    /// `true` if it reads nodes before it is applied.
    pub(super) is_computed: bool,
}

/// A node of metadata that was read.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Meta {
    pub(super) name: String,
    /// The transaction that created it.
    pub(super) czxid: i64,
    /// The time of its creation, by the clock of the servers.
    pub(super) ctime: i64,
    pub(super) data: Bytes,
}

/// A difference between a set and the applied migrations.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub enum Difference {
    /// A migration that was applied is not the one of the set.
    Mismatch {
        /// Its place in the set, from zero.
        index: usize,
        /// Its name in the set.
        name: String,
        /// The checksum that was found.
        found: String,
        /// The checksum of the migration of the set.
        expected: String,
    },
    /// All migrations of the set were applied, and further ones: by a newer version of the service.
    Ahead {
        /// The number of migrations that were applied.
        found: usize,
        /// The number of migrations of the set.
        known: usize,
    },
}

/// Sorts the metadata by the order of their creation.
///
/// Curator compares the names as strings, which is wrong after 2^31 - 1 nodes. Then the numbers
/// repeat or turn negative, and the transactions that created the nodes decide; within one
/// transaction, the numbers as they were counted.
pub(super) fn sort(nodes: &mut [Meta]) {
    let number = |node: &Meta| SequenceSuffix::after(&node.name, META).map_or(0, |n| n.get());
    nodes.sort_by_key(number);
    if !numbers_tell(nodes.iter().map(|node| i64::from(number(node)))) {
        nodes.sort_by_key(|node| (node.czxid, number(node).cast_unsigned()));
    }
}

/// Compares the applied migrations with a set. Returns the number of its migrations that were
/// applied.
///
/// `records` has the record of each migration of the set, where there is one.
pub(super) fn compare(
    expected: &[Expected],
    found: &[Meta],
    records: &[Option<MigrationRecord>],
) -> Result<usize, Difference> {
    for (index, (expected, found)) in expected.iter().zip(found).enumerate() {
        let mismatch = |found: &[u8], expected_digest: &Digest| Difference::Mismatch {
            index,
            name: expected.name.clone(),
            found: super::digest::hex(found),
            expected: super::digest::hex(expected_digest),
        };
        if found.data != expected.digest[..] {
            return Err(mismatch(&found.data, &expected.digest));
        }
        if let Some(Some(record)) = records.get(index)
            && record.metadata == expected.digest
            && record.digest != expected.sound
        {
            return Err(mismatch(&record.digest, &expected.sound));
        }
    }
    if found.len() > expected.len() {
        return Err(Difference::Ahead { found: found.len(), known: expected.len() });
    }
    Ok(found.len())
}

/// Returns the migrations that the next transaction applies, the first of which is `from`.
///
/// A computed migration reads what the earlier ones have made, so it begins a transaction.
pub(super) fn batch(expected: &[Expected], from: usize, one_each: bool) -> Range<usize> {
    let later = (from + 1..expected.len()).find(|&index| one_each || expected[index].is_computed);
    from..later.unwrap_or(expected.len())
}

/// Returns the first migration with which a batch is too large; `None` if it is not. Searches by
/// halving: each look at a beginning of the batch encodes all its migrations.
pub(super) fn first_too_large<E>(
    batch: Range<usize>,
    is_too_large: impl Fn(Range<usize>) -> Result<bool, E>,
) -> Result<Option<usize>, E> {
    if !is_too_large(batch.clone())? {
        return Ok(None);
    }
    let (mut first, mut last) = (batch.start, batch.end.saturating_sub(1));
    while first < last {
        let middle = first.midpoint(last);
        if is_too_large(batch.start..middle + 1)? { last = middle } else { first = middle + 1 }
    }
    Ok(Some(last))
}

/// Returns the bytes that an operation takes in a transaction.
pub(super) fn size(op: &Op) -> usize {
    /// The type of the operation, and two fields that only responses use.
    const HEADER: usize = 9;
    const NUMBER: usize = 4;
    let text = |text: &str| NUMBER + text.len();
    let bytes = |data: &Option<Bytes>| NUMBER + data.as_ref().map_or(0, Bytes::len);
    HEADER
        + match op {
            Op::Create { path, data, acl, mode, .. } => {
                let entry = |acl: &Acl| NUMBER + text(&acl.scheme) + text(&acl.id);
                let acl: usize = acl.iter().map(entry).sum();
                let ttl = if mode.is_ttl() { 2 * NUMBER } else { 0 };
                text(path) + bytes(data) + NUMBER + acl + NUMBER + ttl
            }
            Op::SetData { path, data, .. } => text(path) + bytes(data) + NUMBER,
            op => text(op.path()) + NUMBER,
        }
}

#[cfg(test)]
mod tests {
    use std::cell::Cell;

    use super::*;

    fn meta(name: &str, czxid: i64, digest: u8) -> Meta {
        Meta { name: name.into(), czxid, ctime: 0, data: Bytes::from(vec![digest; 32]) }
    }

    fn expected(computed: &[bool]) -> Vec<Expected> {
        let expected = |(index, computed): (usize, &bool)| Expected {
            name: format!("m{index}"),
            digest: [u8::try_from(index).unwrap(); 32],
            sound: [100 + u8::try_from(index).unwrap(); 32],
            is_computed: *computed,
        };
        computed.iter().enumerate().map(expected).collect()
    }

    fn names(mut nodes: Vec<Meta>) -> Vec<String> {
        nodes.reverse();
        sort(&mut nodes);
        nodes.into_iter().map(|node| node.name).collect()
    }

    #[test]
    fn metadata_are_in_the_order_of_their_creation() {
        for in_order in [
            &[("meta-0000000002", 9), ("meta-0000000010", 9), ("meta-0000000011", 12)][..],
            // Beyond 2^31: negative, or repeated.
            &[("meta-2147483646", 9), ("meta-2147483647", 9), ("meta--2147483648", 9)],
            &[("meta-2147483646", 9), ("meta--2147483648", 12), ("meta--2147483647", 12)],
            &[("meta-2147483647", 9), ("meta-2147483647", 12), ("meta--2147483648", 15)],
        ] {
            let nodes = in_order.iter().map(|(name, czxid)| meta(name, *czxid, 0)).collect();
            let expected: Vec<_> = in_order.iter().map(|(name, _)| *name).collect();
            assert_eq!(names(nodes), expected);
        }
    }

    #[test]
    fn metadata_must_be_a_prefix_of_the_set() {
        let set = expected(&[false; 3]);
        let found = |digests: &[u8]| -> Vec<Meta> {
            let node = |(index, digest): (usize, &u8)| meta(&format!("{index}"), 1, *digest);
            digests.iter().enumerate().map(node).collect()
        };
        for count in 0..=3 {
            assert_eq!(compare(&set, &found(&[0, 1, 2][..count]), &[]), Ok(count));
        }
        let mismatch = |digests| match compare(&set, &found(digests), &[]) {
            Err(Difference::Mismatch { index, name, .. }) => (index, name),
            other => panic!("{other:?}"),
        };
        assert_eq!(mismatch(&[0, 9]), (1, "m1".to_owned()));
        assert_eq!(mismatch(&[1, 0]), (0, "m0".to_owned()));
        assert_eq!(mismatch(&[0, 1, 9, 3]), (2, "m2".to_owned()));
        let ahead = Difference::Ahead { found: 4, known: 3 };
        assert_eq!(compare(&set, &found(&[0, 1, 2, 3]), &[]), Err(ahead));
        // Data of another length.
        let short = Meta { data: Bytes::from_static(&[0; 31]), ..meta("0", 1, 0) };
        assert!(compare(&set, &[short], &[]).is_err());
    }

    #[test]
    fn a_record_is_compared_where_there_is_one() {
        let set = expected(&[false; 2]);
        let record = |digest: u8| {
            Some(MigrationRecord {
                name: "m".into(),
                metadata: [digest % 100; 32],
                digest: [digest; 32],
                attempt: String::new(),
                by: String::new(),
                version: String::new(),
            })
        };
        let found = [meta("a", 1, 0), meta("b", 1, 1)];
        assert_eq!(compare(&set, &found, &[None, record(101)]), Ok(2));
        // It belongs to other metadata, which were deleted.
        assert_eq!(compare(&set, &found, &[record(100), record(100)]), Ok(2));
        let differs = compare(&set, &found, &[record(100), record(201)]);
        assert!(matches!(differs, Err(Difference::Mismatch { index: 1, .. })), "{differs:?}");
        // A record without its metadata says nothing.
        assert_eq!(compare(&set, &found[..1], &[record(100), record(9)]), Ok(1));
    }

    /// A look at each beginning took 12 seconds for 2,000 migrations.
    #[test]
    fn few_looks_find_the_first_one_that_is_too_large() {
        for count in [1_usize, 2, 3, 7, 8, 9, 2_000] {
            let most = 1 + count.next_power_of_two().trailing_zeros();
            for wanted in (0..count).step_by(count.div_ceil(50)).chain([count - 1]) {
                let looks = Cell::new(0);
                let found = first_too_large(5..5 + count, |batch| {
                    looks.set(looks.get() + 1);
                    Ok::<_, ()>(batch.contains(&(5 + wanted)))
                });
                assert_eq!(found, Ok(Some(5 + wanted)), "{count}");
                assert!(looks.get() <= most, "{} looks for {count}", looks.get());
            }
        }
        assert_eq!(first_too_large(0..3, |_| Ok::<_, ()>(false)), Ok(None));
        assert_eq!(first_too_large(0..3, |_| Err("no session")), Err("no session"));
    }

    #[test]
    fn a_computed_migration_begins_a_transaction() {
        let set = expected(&[false, false, true, false, true]);
        let batches = |one_each| {
            let mut batches = Vec::new();
            let mut from = 0;
            while from < set.len() {
                let batch = batch(&set, from, one_each);
                from = batch.end;
                batches.push(batch);
            }
            batches
        };
        assert_eq!(batches(false), [0..2, 2..4, 4..5]);
        assert_eq!(batches(true), [0..1, 1..2, 2..3, 3..4, 4..5]);
    }
}
