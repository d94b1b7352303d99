//! The names of the nodes of items, and their order: pure functions.

use std::fmt;

use zk_curator::path::SequenceSuffix;

/// The suffix, before the number, of the name of a consumer's node among the items.
pub(crate) const TAKER: &str = "taker-";

/// The part, before the number, of the names of the consumers that wait in line.
pub(crate) const WAITER: &str = "wait-";

/// The name of the claim to an item, a child of its node.
pub(crate) const CLAIM: &str = "claim";

/// The data of a parent of buckets.
pub(crate) const LAYOUT: &str = "buckets 1";
/// The prefix of the names of buckets.
const BUCKET: &str = "b-";

/// Returns `true` if this is the name of a consumer among the items.
pub(crate) fn is_taker(name: &str) -> bool {
    name.starts_with("_c_") && SequenceSuffix::after(name, TAKER).is_some()
}

/// The rules by which a queue names and orders its items.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum NamingRules {
    /// `qn-NNNNNNNNNN` (`SimpleDistributedQueue`, and ZooKeeper's own recipe).
    Simple,
    /// `queue-NNNNNNNNNN` (`DistributedQueue`).
    Plain,
    /// `queue-` and [`priority`], then the number (`DistributedPriorityQueue`).
    Priority,
    /// `queue-` and [`due`], then the number (`DistributedDelayQueue`).
    Delay,
    /// `queue-` and [`id`], then the number (`DistributedIdQueue`).
    Id,
    /// `item-NNNNNNNNNN`, perhaps after the prefix of a protected create (`FifoQueue`).
    Fifo,
    /// `item-`, [`ItemMeta`], and the number (`LockingQueue`).
    Locking,
    /// `job-`, [`ItemMeta`], and the number (`Jobs`).
    Job,
}

/// The differences between the layouts of queues, except the middle of the names.
struct NameFormat {
    /// The prefix of the names of items.
    tag: &'static str,
    has_buckets: bool,
    is_reordered: bool,
    is_in_container: bool,
    has_lists: bool,
}

impl NameFormat {
    const OWN: Self = Self {
        tag: "",
        has_buckets: true,
        is_reordered: false,
        is_in_container: false,
        has_lists: false,
    };
    const CURATOR: Self = Self { tag: "queue-", has_buckets: false, has_lists: true, ..Self::OWN };
}

/// The metadata in the name of an item that can be delivered several times, `PPPPPPPPP|id|times|`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct ItemMeta<'a> {
    pub(crate) priority: i32,
    /// The identity of the item, in all its places, as long as it exists.
    pub(crate) id: &'a str,
    /// The number of deliveries before it came to this place.
    pub(crate) times: u32,
}

impl<'a> ItemMeta<'a> {
    fn parse(middle: &'a str) -> Option<Self> {
        let mut parts = middle.split('|');
        let (rank, id, times, end) = (parts.next()?, parts.next()?, parts.next()?, parts.next()?);
        if !is_priority(rank) || id.is_empty() || !end.is_empty() || parts.next().is_some() {
            return None;
        }
        let number: u32 = times.parse().ok()?;
        // Accept only the form that we would write.
        (number.to_string() == times).then_some(Self {
            priority: priority_of(rank)?,
            id,
            times: number,
        })
    }
}

impl fmt::Display for ItemMeta<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}|{}|{}|", priority(self.priority), self.id, self.times)
    }
}

/// The position of an item: lower comes first.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct ItemPlace {
    /// The priority, or the due time in milliseconds since 1970; zero if neither applies.
    pub(crate) rank: i64,
    /// The number of its bucket; `None` for an item outside of buckets, which comes before those in
    /// buckets.
    bucket: Option<u32>,
    /// The number that the server assigned. After 2^31 - 1 the numbers continue with negative ones,
    /// which come later.
    sequence: u32,
}

impl ItemPlace {
    /// Returns the number that the server assigned, in the order of assignment.
    pub(crate) const fn sequence(&self) -> u32 {
        self.sequence
    }
}

/// Returns the part of a name that contains the priority of an item, as Curator writes it. Its
/// alphabetical order is the order of the numbers.
pub(crate) fn priority(priority: i32) -> String {
    format!("{}{:08X}", u8::from(priority >= 0), priority.cast_unsigned())
}

/// Returns the part of a name that contains the due time of an item, in milliseconds since 1970.
pub(crate) fn due(millis: u64) -> String {
    format!("|{millis:08X}|")
}

/// Returns the part of a name that contains the id of an item. Characters that are not allowed
/// there become `_`, as in Curator.
pub(crate) fn id(id: &str) -> String {
    format!("|{}|", id.replace(['/', '|'], "_"))
}

/// A bucket, by its name `b-PPPPPPPPP|NNNNNNNNNN`: lower comes first.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Bucket {
    /// The priority of its items.
    pub(crate) rank: i32,
    /// The number that the server assigned.
    number: u32,
}

impl Bucket {
    /// Returns the bucket with this name; `None` if it is not the name of a bucket.
    pub(crate) fn parse(name: &str) -> Option<Self> {
        let number = SequenceSuffix::after(name, "|")?;
        let rank = name.strip_prefix(BUCKET)?.get(..9).filter(|rank| is_priority(rank))?;
        let is_ours = name == format!("{BUCKET}{rank}|{:010}", number.get());
        is_ours.then_some(Self { rank: priority_of(rank)?, number: number.get().cast_unsigned() })
    }

    /// The priority and the number.
    pub(crate) const fn position(&self) -> (i32, u32) {
        (self.rank, self.number)
    }

    /// Returns the prefix of the names of buckets for items of a priority.
    pub(crate) fn base(rank: i32) -> String {
        format!("{BUCKET}{}|", priority(rank))
    }
}

/// Splits the name of an item that may be in a bucket: the bucket with the slash, if any, and the
/// name within it.
pub(crate) fn apart(name: &str) -> (&str, &str) {
    name.split_at(name.rfind('/').map_or(0, |slash| slash + 1))
}

impl NamingRules {
    /// The name in metrics.
    pub(crate) const fn recipe(self) -> &'static str {
        match self {
            Self::Simple => "simple",
            Self::Plain => "queue",
            Self::Priority => "priority_queue",
            Self::Delay => "delay_queue",
            Self::Id => "id_queue",
            Self::Fifo => "fifo",
            Self::Locking => "locking_queue",
            Self::Job => "jobs",
        }
    }

    /// Returns the layout of such queues.
    const fn format(self) -> NameFormat {
        let (own, curator) = (NameFormat::OWN, NameFormat::CURATOR);
        match self {
            Self::Simple => {
                NameFormat { tag: "qn-", has_buckets: false, is_in_container: true, ..own }
            }
            Self::Fifo => NameFormat { tag: "item-", ..own },
            Self::Locking => NameFormat { tag: "item-", is_reordered: true, ..own },
            Self::Job => NameFormat { tag: "job-", is_reordered: true, ..own },
            Self::Plain | Self::Id => curator,
            Self::Priority | Self::Delay => NameFormat { is_reordered: true, ..curator },
        }
    }

    /// Returns `true` if the items of such queues are in buckets.
    pub(crate) const fn has_buckets(self) -> bool {
        self.format().has_buckets
    }

    /// Returns `true` if new items may come before old ones.
    pub(crate) const fn is_reordered(self) -> bool {
        self.format().is_reordered
    }

    /// Returns `true` if the parent of the items is a container.
    pub(crate) const fn is_in_container(self) -> bool {
        self.format().is_in_container
    }

    /// Returns `true` if the data of a node are a list of items, as Curator writes them.
    pub(crate) const fn has_lists(self) -> bool {
        self.format().has_lists
    }

    /// The prefix of the names of items.
    pub(crate) const fn tag(self) -> &'static str {
        self.format().tag
    }

    /// Returns the priority of an item whose name has this prefix.
    pub(crate) fn rank(self, base: &str) -> i32 {
        let meta = apart(base).1.strip_prefix(self.tag()).and_then(ItemMeta::parse);
        meta.map_or(0, |meta| meta.priority)
    }

    /// Returns the name without the number, and the number; `None` if it is not the name of an
    /// item.
    fn split(self, name: &str) -> Option<(&str, SequenceSuffix)> {
        // The text before the number; without it a hyphen could be a sign.
        let before = match self {
            Self::Simple | Self::Plain | Self::Fifo => self.tag(),
            Self::Locking | Self::Job => "|",
            _ if name.contains('|') => "|",
            _ => match SequenceSuffix::after(name, self.tag()) {
                Some(number) => {
                    return Some((self.tag(), number))
                        .filter(|(tag, _)| is_whole(name, tag, number));
                }
                None => "",
            },
        };
        let number = SequenceSuffix::after(name, before)?;
        let digits = format!("{:010}", number.get()).len();
        let base = name.split_at_checked(name.len() - digits)?.0;
        let middle = base.strip_prefix(self.tag());
        let is_ours = match self {
            Self::Simple | Self::Plain => middle == Some(""),
            Self::Fifo => middle == Some("") || base.starts_with("_c_"),
            Self::Priority => middle.is_some_and(is_priority),
            Self::Locking | Self::Job => {
                middle.is_some_and(|middle| ItemMeta::parse(middle).is_some())
            }
            Self::Delay | Self::Id => middle.is_some_and(|middle| {
                middle.len() >= 2 && middle.starts_with('|') && middle.ends_with('|')
            }),
        };
        is_ours.then_some((base, number))
    }

    /// Returns the position of the item with this name; `None` if it is not the name of an item.
    ///
    /// In a queue with priorities or times, Curator omits these from the name of an item that it
    /// puts back. Such an item comes first.
    pub(crate) fn place(self, name: &str) -> Option<ItemPlace> {
        let (bucket, name) = apart(name);
        let bucket = match bucket.strip_suffix('/') {
            Some(bucket) if self.has_buckets() => Some(Bucket::parse(bucket)?.number),
            None if !self.has_buckets() => None,
            _ => return None,
        };
        let (base, number) = self.split(name)?;
        let middle = base.strip_prefix(self.tag()).unwrap_or_default();
        let rank = match self {
            Self::Priority if middle.is_empty() => i64::MIN,
            Self::Priority => i64::from(priority_of(middle)?),
            Self::Locking | Self::Job => i64::from(ItemMeta::parse(middle)?.priority),
            // As in Curator, an unreadable time is due now.
            Self::Delay => i64::from_str_radix(middle.trim_matches('|'), 16).unwrap_or(0),
            _ => 0,
        };
        Some(ItemPlace { rank, bucket, sequence: number.get().cast_unsigned() })
    }

    /// Returns the name of an item without its number. An item that is created with this name keeps
    /// its priority, time and id.
    pub(crate) fn base(self, name: &str) -> &str {
        match self.split(name) {
            // The prefix of a protected create is for one create.
            Some((base, _)) if base.starts_with(self.tag()) => base,
            _ => self.tag(),
        }
    }

    /// Parses the name of an item or job; `None` for any other name.
    pub(crate) fn meta(self, name: &str) -> Option<ItemMeta<'_>> {
        ItemMeta::parse(self.split(apart(name).1)?.0.strip_prefix(self.tag())?)
    }

    /// Returns the name of the same item at the same place after another delivery.
    pub(crate) fn once_more(self, name: &str) -> Option<String> {
        let (bucket, name) = apart(name);
        let (base, _) = self.split(name)?;
        let ItemMeta { priority, id, times } = self.meta(name)?;
        let meta = ItemMeta { priority, id, times: times.saturating_add(1) };
        Some(format!("{bucket}{}{meta}{}", self.tag(), name.strip_prefix(base)?))
    }

    /// Returns the id in a name; `None` if there is none.
    pub(crate) fn id_of(self, name: &str) -> Option<&str> {
        let (base, _) = self.split(name)?;
        base.strip_prefix(self.tag())?.strip_prefix('|')?.strip_suffix('|')
    }
}

/// Returns `true` if a name consists only of this tag and this number.
fn is_whole(name: &str, tag: &str, number: SequenceSuffix) -> bool {
    name.len() == tag.len() + format!("{:010}", number.get()).len()
}

/// Returns the priority in a text that [`is_priority`] accepts.
fn priority_of(text: &str) -> Option<i32> {
    Some(u32::from_str_radix(text.get(1..)?, 16).ok()?.cast_signed())
}

fn is_priority(middle: &str) -> bool {
    let is_digit = |digit: char| digit.is_ascii_digit() || ('A'..='F').contains(&digit);
    let (sign, digits) = middle.split_at_checked(1).unwrap_or_default();
    ["0", "1"].contains(&sign) && digits.len() == 8 && digits.chars().all(is_digit)
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    const ALL: [NamingRules; 8] = [
        NamingRules::Simple,
        NamingRules::Plain,
        NamingRules::Priority,
        NamingRules::Delay,
        NamingRules::Id,
        NamingRules::Fifo,
        NamingRules::Locking,
        NamingRules::Job,
    ];

    fn named(kind: NamingRules, middle: &str, sequence: i32) -> String {
        format!("{}{middle}{sequence:010}", kind.tag())
    }

    #[test]
    fn names_are_those_of_curator() {
        assert_eq!(named(NamingRules::Priority, &priority(5), 0), "queue-1000000050000000000");
        assert_eq!(named(NamingRules::Priority, &priority(-1), 1), "queue-0FFFFFFFF0000000001");
        assert_eq!(
            named(NamingRules::Delay, &due(0x187_1234_5678), 2),
            "queue-|18712345678|0000000002"
        );
        assert_eq!(named(NamingRules::Id, &id("a/b|c"), 3), "queue-|a_b_c|0000000003");
    }

    #[test]
    fn foreign_names_are_no_items() {
        for kind in ALL {
            for name in [
                "",
                "queue-",
                "queue-abc",
                "qn-1",
                "lock-0000000001",
                "queue-x0000000001",
                "é",
                "item-|",
            ] {
                assert_eq!(kind.place(name), None, "{kind:?} {name:?}");
            }
        }
        assert_eq!(NamingRules::Plain.place("queue-|a|0000000001"), None);
        assert_eq!(NamingRules::Priority.place("queue-2000000050000000001"), None);
        assert_eq!(NamingRules::Priority.place("queue-1000000_50000000001"), None);
    }

    #[test]
    fn what_curator_puts_back_comes_first() {
        for kind in [NamingRules::Priority, NamingRules::Delay] {
            let back = kind.place("queue-0000000009").unwrap();
            let other = if kind == NamingRules::Delay { due(5) } else { priority(i32::MIN) };
            assert!(back < kind.place(&named(kind, &other, 1)).unwrap(), "{kind:?}");
        }
    }

    #[test]
    fn a_delivered_item_has_its_delivery_count() {
        let meta = ItemMeta { priority: -1, id: "a-0000000001", times: 3 };
        let name = named(NamingRules::Job, &meta.to_string(), i32::MIN);
        assert_eq!(name, "job-0FFFFFFFF|a-0000000001|3|-2147483648");
        assert_eq!(NamingRules::Job.meta(&name), Some(meta));
        assert_eq!(
            NamingRules::Job.once_more(&name).unwrap(),
            "job-0FFFFFFFF|a-0000000001|4|-2147483648"
        );
        for middle in [
            "1000000000||0|",
            "1000000000|a|00|",
            "1000000000|a|-1|",
            "5|a|0|",
            "1000000000|a|b|0|",
            "",
        ] {
            assert_eq!(
                NamingRules::Job.place(&named(NamingRules::Job, middle, 7)),
                None,
                "{middle}"
            );
        }
    }

    #[test]
    fn items_in_buckets_are_ordered_by_bucket_and_number() {
        let named = |rank, bucket: i32, number: i32| {
            let meta = ItemMeta { priority: rank, id: "a", times: 0 };
            let name = named(NamingRules::Locking, &meta.to_string(), number);
            format!("{}{bucket:010}/{name}", Bucket::base(rank))
        };
        assert_eq!(
            NamingRules::Locking.place(&format!("item-{}|a|0|0000000009", priority(0))),
            None
        );
        let names = [named(-1, 7, 5), named(0, 3, 9), named(0, 4, 2), named(0, i32::MIN, 0)];
        let places = names.clone().map(|name| NamingRules::Locking.place(&name).unwrap());
        assert!(places.is_sorted(), "{places:?}");
        assert_eq!(
            NamingRules::Locking.once_more(&names[1]).unwrap(),
            names[1].replace("|0|", "|1|")
        );
        assert_eq!(NamingRules::Locking.rank("item-0FFFFFFFF|a|0|"), -1);
        for bucket in ["b-100000000|0000000001", "b-0FFFFFFFF|-2147483648"] {
            assert!(Bucket::parse(bucket).is_some(), "{bucket}");
        }
        for other in [
            "b-",
            "b-100000000|1",
            "b-100000000-0000000001",
            "b-10000000é|0000000001",
            "queue-0000000001",
        ] {
            assert_eq!(Bucket::parse(other), None, "{other}");
            assert_eq!(
                NamingRules::Fifo.place(&format!("{other}/item-0000000001")),
                None,
                "{other}"
            );
        }
        assert_eq!(NamingRules::Plain.place("b-100000000|0000000001/queue-0000000001"), None);
    }

    #[test]
    fn numbers_beyond_the_last_positive_one_come_later() {
        let last = NamingRules::Plain.place(&named(NamingRules::Plain, "", i32::MAX)).unwrap();
        assert!(last < NamingRules::Plain.place("queue--2147483648").unwrap());
        assert!(
            NamingRules::Plain.place(&named(NamingRules::Plain, "", i32::MIN))
                < NamingRules::Plain.place(&named(NamingRules::Plain, "", -5))
        );
    }

    /// CURATOR-56, CURATOR-224: an item's name got longer each time it was put back.
    #[test]
    fn curator_56_224_a_name_does_not_grow_and_keeps_its_rank() {
        let middles = [
            (NamingRules::Simple, String::new()),
            (NamingRules::Plain, String::new()),
            (NamingRules::Priority, priority(-7)),
            (NamingRules::Delay, due(77)),
            (NamingRules::Id, id("x")),
        ];
        for (kind, middle) in middles {
            let mut name = named(kind, &middle, 1);
            for sequence in [2, i32::MAX, i32::MIN, -1] {
                let again = format!("{}{sequence:010}", kind.base(&name));
                assert_eq!(again, named(kind, &middle, sequence));
                assert_eq!(
                    kind.place(&again).map(|place| place.rank),
                    kind.place(&name).map(|place| place.rank)
                );
                name = again;
            }
        }
    }

    proptest! {
        /// Java sorts by name.
        #[test]
        fn the_order_is_that_of_the_names(
            a in (any::<i32>(), 0..i32::MAX),
            b in (any::<i32>(), 0..i32::MAX),
        ) {
            let name = |(rank, sequence)| named(NamingRules::Priority, &priority(rank), sequence);
            let (one, two) = (name(a), name(b));
            prop_assert_eq!(NamingRules::Priority.place(&one).cmp(&NamingRules::Priority.place(&two)), one.cmp(&two));
            prop_assert_eq!(NamingRules::Priority.place(&one).unwrap().rank, i64::from(a.0));
        }

        #[test]
        fn an_id_comes_back(text in "[^/|]{0,20}", sequence in any::<i32>()) {
            let name = named(NamingRules::Id, &id(&text), sequence);
            prop_assert_eq!(NamingRules::Id.id_of(&name), Some(text.as_str()));
            prop_assert_eq!(NamingRules::Id.base(&name), format!("queue-|{text}|"));
        }

        #[test]
        fn marks_come_back(priority in any::<i32>(), id in "[^/|]{1,20}", times in any::<u32>(), sequence in any::<i32>()) {
            let meta = ItemMeta { priority, id: &id, times };
            for kind in [NamingRules::Locking, NamingRules::Job] {
                let name = format!("{}0000000001/{}", Bucket::base(0), named(kind, &meta.to_string(), sequence));
                prop_assert_eq!(kind.meta(&name), Some(meta));
                prop_assert_eq!(kind.place(&name).unwrap().rank, i64::from(priority));
                prop_assert_eq!(NamingRules::Fifo.place(&name), None);
            }
        }

        #[test]
        fn any_name_is_judged(name in ".{0,40}") {
            for kind in ALL.into_iter().filter(|kind| !kind.has_buckets()) {
                prop_assert_eq!(kind.place(&name).is_some(), kind.split(&name).is_some());
            }
        }
    }
}
