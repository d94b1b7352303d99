//! The data of members and of shared lists of parts: pure functions.

use std::collections::BTreeMap;
use std::fmt::Write as _;

const MEMBER: &str = "member 1";
const PARTS: &str = "parts 1";

/// The newest version of the assignment. Members of one group use the lowest version that all of
/// them know.
pub(super) const NEWEST: u32 = 1;

/// The parts by their names, each with the zone that it prefers.
pub(crate) type Parts = BTreeMap<String, Option<String>>;

/// The heaviest weight.
pub(super) const HEAVIEST: u32 = 1000;

/// The facts about a member that the assignment needs.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct MemberRecord {
    /// The newest version of the assignment that it knows.
    pub(super) version: u32,
    pub(super) weight: u32,
    pub(super) zone: Option<String>,
}

impl Default for MemberRecord {
    fn default() -> Self {
        Self { version: NEWEST, weight: 1, zone: None }
    }
}

impl MemberRecord {
    /// The data of the node:
    /// ```text
    /// member 1
    /// assignment 1
    /// weight 2
    /// zone a                           if it has one
    /// ```
    pub(super) fn encode(&self) -> String {
        let Self { version, weight, zone } = self;
        let mut data = format!("{MEMBER}\nassignment {version}\nweight {weight}\n");
        if let Some(zone) = zone {
            let _infallible = writeln!(data, "zone {zone}");
        }
        data
    }

    /// A member whose data are something else has the weight 1, and the oldest assignment. Lines
    /// that are not known are of a later version, and left out.
    pub(super) fn parse(data: &[u8]) -> Self {
        let mut member = Self { version: 1, weight: 1, zone: None };
        let text = std::str::from_utf8(data).ok().and_then(|text| text.strip_prefix(MEMBER));
        for line in text.into_iter().flat_map(str::lines) {
            match line.split_once(' ') {
                Some(("assignment", version)) => {
                    member.version = version.parse().unwrap_or(1).max(1);
                }
                Some(("weight", weight)) => {
                    member.weight = weight.parse().unwrap_or(1).clamp(1, HEAVIEST);
                }
                Some(("zone", zone)) => member.zone = Some(zone.to_owned()),
                _ => {}
            }
        }
        member
    }
}

/// Returns `true` for the data of a member.
pub(crate) fn is_member(data: &[u8]) -> bool {
    data.starts_with(MEMBER.as_bytes())
}

/// The data of a shared list: a line for each part, with its name and, after a tab, the zone that
/// it prefers. Names of nodes have neither tabs nor line breaks.
pub(super) fn encode_parts(parts: &Parts) -> String {
    let mut data = format!("{PARTS}\n");
    for (name, zone) in parts {
        data.push_str(name);
        if let Some(zone) = zone {
            data.push('\t');
            data.push_str(zone);
        }
        data.push('\n');
    }
    data
}

/// `None` if these are not the data of a list.
pub(crate) fn parse_parts(data: &[u8]) -> Option<Parts> {
    let lines = std::str::from_utf8(data).ok()?.strip_prefix(PARTS)?.strip_prefix('\n')?;
    let part = |line: &str| match line.split_once('\t') {
        Some((name, zone)) => (name.to_owned(), Some(zone.to_owned())),
        None => (line.to_owned(), None),
    };
    Some(lines.lines().filter(|line| !line.is_empty()).map(part).collect())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn members_and_parts_are_read_as_they_were_written() {
        let plain = MemberRecord::default();
        assert_eq!(plain.encode(), "member 1\nassignment 1\nweight 1\n");
        let zoned = MemberRecord { version: 7, weight: 3, zone: Some("rack 4".to_owned()) };
        for member in [plain, zoned] {
            assert_eq!(MemberRecord::parse(member.encode().as_bytes()), member);
        }
        let parts: Parts =
            [("s 0".to_owned(), None), ("s1".to_owned(), Some("a".to_owned()))].into();
        assert_eq!(encode_parts(&parts), "parts 1\ns 0\ns1\ta\n");
        assert_eq!(parse_parts(encode_parts(&parts).as_bytes()), Some(parts));
        assert_eq!(parse_parts(b"parts 1\n"), Some(Parts::new()));
    }

    #[test]
    fn foreign_data_are_those_of_a_plain_member_or_no_list() {
        let oldest = MemberRecord { version: 1, weight: 1, zone: None };
        for data in ["", "10.0.0.7:80", "member 1\nweight many\nassignment -2\nshoe size 43"] {
            assert_eq!(MemberRecord::parse(data.as_bytes()), oldest);
        }
        assert_eq!(MemberRecord::parse(b"member 1\nweight 0").weight, 1);
        assert_eq!(MemberRecord::parse(b"member 1\nweight 4000000000").weight, HEAVIEST);
        assert_eq!(parse_parts(b"s0\ns1"), None);
        assert_eq!(parse_parts(&[0xff]), None);
    }
}
