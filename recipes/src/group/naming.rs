//! The names of members, in Curator's and in kazoo's format: pure functions.

use zk_curator::certain::is_receipt;

/// kazoo's `Party._NODE_NAME`.
const PARTY: &str = "__party__";

/// The format of the names of a group.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(super) enum Naming {
    /// The name is the id.
    #[default]
    Curator,
    /// kazoo's `Party`: `<32hex>__party__`; the data are the id.
    Party,
    /// kazoo's `ShallowParty`: `<32hex>-<id>`; the data are the id too.
    ShallowParty,
}

impl Naming {
    /// The name of the node of a member; each `guid` is unique.
    pub(super) fn node(self, id: &str, guid: impl FnOnce() -> String) -> String {
        let hex = || guid().replace('-', "");
        match self {
            Self::Curator => id.to_owned(),
            Self::Party => format!("{}{PARTY}", hex()),
            Self::ShallowParty => format!("{}-{id}", hex()),
        }
    }

    /// Returns `true` for the node of a member, as kazoo does.
    pub(super) fn is_member(self, name: &str) -> bool {
        !is_receipt(name) && (self != Self::Party || name.contains(PARTY))
    }

    /// The id in a name, if all of it is there.
    pub(super) fn id_in(self, name: &str) -> Option<&str> {
        (self == Self::ShallowParty).then(|| name.split_once('-').map_or(name, |(_, id)| id))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const GUID: &str = "5e0a7c8e-0000-4000-8000-000000000001";
    const HEX: &str = "5e0a7c8e000040008000000000000001";

    #[test]
    fn names_are_those_of_curator_and_kazoo() {
        let guid = || GUID.to_owned();
        assert_eq!(Naming::Curator.node("w-1", guid), "w-1");
        assert_eq!(Naming::Party.node("w-1", guid), format!("{HEX}__party__"));
        assert_eq!(Naming::ShallowParty.node("w-1", guid), format!("{HEX}-w-1"));
    }

    #[test]
    fn members_are_found_as_by_kazoo() {
        assert!(Naming::Curator.is_member("w-1") && Naming::ShallowParty.is_member("w-1"));
        assert!(!Naming::Party.is_member("w-1"));
        assert!(Naming::Party.is_member(&format!("{HEX}__party__")));
        for naming in [Naming::Curator, Naming::Party, Naming::ShallowParty] {
            assert!(!naming.is_member(&format!("_r_{GUID}")));
        }
        assert_eq!(Naming::ShallowParty.id_in(&format!("{HEX}-w-1")), Some("w-1"));
        assert_eq!(Naming::ShallowParty.id_in("other"), Some("other"));
        assert_eq!(Naming::Party.id_in("a-b"), None);
    }
}
