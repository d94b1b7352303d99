//! The choices of a restore, as fields of a form.

use std::path::Path;

use zk_curator_ops::transfer::{AclPolicy, EphemeralsMode, OnExisting, OnLowCounter, Restore};

use crate::fields::Fields;

/// The choices of a restore. Every set of fields is one: an unknown value counts as the first one
/// of its field, which changes the least.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct RestoreChoice {
    /// `true` if the root of the nodes is that of the page, and not that of the file.
    pub(crate) is_here: bool,
    pub(crate) existing: OnExisting,
    pub(crate) ephemerals: EphemeralsMode,
    pub(crate) acls: AclPolicy,
    pub(crate) counters: OnLowCounter,
    pub(crate) deletes_extra: bool,
}

/// A choice between several values.
#[derive(Debug)]
pub(crate) struct ChoiceField<T: 'static> {
    pub(crate) name: &'static str,
    pub(crate) label: &'static str,
    /// The values, each with its name and its label. The first one is the default.
    pub(crate) values: &'static [(T, &'static str, &'static str)],
}

/// The root of the restored nodes.
pub(crate) const ROOT: ChoiceField<bool> = ChoiceField {
    name: "root",
    label: "Place",
    values: &[
        (false, "file", "where the nodes of the file were"),
        (true, "here", "here: the root of the file becomes the node of this page"),
    ],
};

/// The nodes that exist and differ.
pub(crate) const EXISTING: ChoiceField<OnExisting> = ChoiceField {
    name: "existing",
    label: "Nodes that exist and differ",
    values: &[
        (OnExisting::Fail, "fail", "change nothing at all"),
        (OnExisting::Keep, "keep", "leave them"),
        (OnExisting::Replace, "replace", "replace their data and rights"),
        (OnExisting::IfOlder, "if-older", "replace the older ones"),
    ],
};

/// The ephemeral nodes of the file. Ephemeral nodes of the explorer's session would disappear with
/// it, so they are no choice.
pub(crate) const EPHEMERALS: ChoiceField<EphemeralsMode> = ChoiceField {
    name: "ephemerals",
    label: "Ephemeral nodes",
    values: &[
        (EphemeralsMode::Skip, "skip", "leave them out"),
        (EphemeralsMode::Persistent, "persistent", "create persistent nodes"),
    ],
};

/// The rights.
pub(crate) const ACLS: ChoiceField<AclPolicy> = ChoiceField {
    name: "acls",
    label: "Rights",
    values: &[
        (AclPolicy::Keep, "keep", "those in the file"),
        (AclPolicy::Default, "default", "new nodes are open to everyone, others keep theirs"),
        (AclPolicy::Drop, "drop", "all nodes are open to everyone"),
    ],
};

/// The counters of sequential nodes.
pub(crate) const COUNTERS: ChoiceField<OnLowCounter> = ChoiceField {
    name: "counters",
    label: "Counters that are too low",
    values: &[
        (OnLowCounter::Refuse, "refuse", "change nothing at all"),
        (OnLowCounter::Burn, "burn", "raise them, by creating and deleting nodes"),
    ],
};

/// The name of the field for nodes that the file does not have.
pub(crate) const EXTRA: &str = "extra";

impl<T: Copy + PartialEq> ChoiceField<T> {
    fn of(&self, fields: &Fields) -> T {
        let given = fields.get(self.name);
        let chosen = self.values.iter().find(|(_, name, _)| Some(*name) == given);
        chosen.unwrap_or(&self.values[0]).0
    }

    fn name_of(&self, value: T) -> &'static str {
        self.values.iter().find(|(known, ..)| *known == value).map_or("", |(_, name, _)| *name)
    }
}

impl RestoreChoice {
    pub(crate) fn of(fields: &Fields) -> Self {
        Self {
            is_here: ROOT.of(fields),
            existing: EXISTING.of(fields),
            ephemerals: EPHEMERALS.of(fields),
            acls: ACLS.of(fields),
            counters: COUNTERS.of(fields),
            deletes_extra: fields.get(EXTRA) == Some("delete"),
        }
    }

    /// Returns the names and the values of the fields.
    pub(crate) fn fields(self) -> [(&'static str, &'static str); 6] {
        [
            (ROOT.name, ROOT.name_of(self.is_here)),
            (EXISTING.name, EXISTING.name_of(self.existing)),
            (EPHEMERALS.name, EPHEMERALS.name_of(self.ephemerals)),
            (ACLS.name, ACLS.name_of(self.acls)),
            (COUNTERS.name, COUNTERS.name_of(self.counters)),
            (EXTRA, if self.deletes_extra { "delete" } else { "" }),
        ]
    }

    /// Returns the restore of a file. `here` is the node of the page.
    pub(crate) fn restore(self, file: &Path, here: &str) -> Restore {
        let mut restore = Restore::new(file)
            .on_existing(self.existing)
            .ephemerals(self.ephemerals)
            .acls(self.acls)
            .on_low_counter(self.counters);
        if self.is_here {
            restore = restore.root(here);
        }
        if self.deletes_extra {
            restore = restore.delete_extra();
        }
        restore
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::fields::query;

    #[test]
    fn choices_survive_their_fields() {
        let fields = b"root=here&existing=if-older&ephemerals=persistent&acls=drop&counters=burn\
            &extra=delete";
        let choice = RestoreChoice::of(&Fields::parse(fields).unwrap());
        assert!(choice.is_here && choice.deletes_extra);
        let again = query(&choice.fields());
        let again = Fields::parse(again.trim_start_matches('?').as_bytes()).unwrap();
        assert_eq!(RestoreChoice::of(&again), choice);
    }

    #[test]
    fn unknown_choices_change_the_least() {
        let fields = b"root=x&existing=y&ephemerals=own&acls=z&counters=ignore&extra=yes";
        let choice = RestoreChoice::of(&Fields::parse(fields).unwrap());
        assert_eq!(choice, RestoreChoice::of(&Fields::default()));
        assert_eq!(
            (choice.existing, choice.ephemerals, choice.counters),
            (OnExisting::Fail, EphemeralsMode::Skip, OnLowCounter::Refuse)
        );
        assert!(!choice.is_here && !choice.deletes_extra);
    }
}
