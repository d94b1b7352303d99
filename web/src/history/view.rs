//! The values of the past that are shown.
//!
//! The files know the rights of nodes, and nothing of users. So a value is shown if everyone could
//! read it at that time, and the settings do not hide it.

use bytes::Bytes;
use zk_curator_ops::history::{Author, Change, Explanation, NodeState};
use zk_curator_ops::path::{is_within, moved};

use crate::security::Redaction;

/// The part of the past that an explorer shows.
#[derive(Debug, Clone)]
pub(crate) struct PastView {
    /// The root of the explorer, by its path on the servers.
    top: String,
    redaction: Redaction,
    /// `true` if values are shown whatever their rights.
    shows_all: bool,
}

/// The data of a node at a time.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum PastValue {
    /// The node did not exist.
    Absent,
    NotRequested,
    /// The files do not tell it.
    Unknown,
    Hidden(HiddenReason),
    Data {
        data: Bytes,
        is_null: bool,
    },
}

/// The reason why data are not shown.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum HiddenReason {
    Redacted,
    Rights,
    UnknownRights,
}

/// A change by the paths of the explorer. Its states have no data: they are in the values.
#[derive(Debug, Clone)]
pub(crate) struct PastChange {
    /// The path below the root of the explorer.
    pub(crate) path: String,
    pub(crate) change: Change,
    pub(crate) before: PastValue,
    pub(crate) after: PastValue,
}

/// An explanation, in which all data are left out that are not shown.
#[derive(Debug, Clone)]
pub(crate) struct PastWho {
    pub(crate) explanation: Explanation,
    pub(crate) change: PastChange,
}

impl HiddenReason {
    pub(crate) const fn sentence(self) -> &'static str {
        match self {
            Self::Redacted => "The data are hidden: the settings treat them as a secret.",
            Self::Rights => {
                "The data are hidden: the rights of that time did not let everyone read them."
            }
            Self::UnknownRights => {
                "The data are hidden: the files do not tell who could read them at that time."
            }
        }
    }
}

impl PastValue {
    /// Returns data; Java's `null` is `None`.
    pub(super) fn of(data: Option<Bytes>) -> Self {
        let is_null = data.is_none();
        Self::Data { data: data.unwrap_or_default(), is_null }
    }
}

impl PastView {
    pub(crate) const fn new(top: String, redaction: Redaction, shows_all: bool) -> Self {
        Self { top, redaction, shows_all }
    }

    pub(crate) const fn shows_all(&self) -> bool {
        self.shows_all
    }

    /// Returns the path of a node on the servers.
    pub(super) fn server_path(&self, path: &str) -> String {
        moved(path, "/", &self.top)
    }

    /// Returns a path on the servers as a path of this explorer; `None` if it has no such node.
    pub(crate) fn local(&self, path: &str) -> Option<String> {
        is_within(path, &self.top).then(|| moved(path, &self.top, "/"))
    }

    /// Returns the reason why the data of a node are not shown. `anyone_reads` is the right of that
    /// time; `None` if it is unknown.
    pub(crate) fn hidden(&self, path: &str, anyone_reads: Option<bool>) -> Option<HiddenReason> {
        match anyone_reads {
            _ if self.redaction.hides(path) => Some(HiddenReason::Redacted),
            _ if self.shows_all => None,
            Some(true) => None,
            Some(false) => Some(HiddenReason::Rights),
            None => Some(HiddenReason::UnknownRights),
        }
    }

    /// Returns the shown part of a change; `None` if it is not of a node of this explorer.
    pub(crate) fn change(&self, mut change: Change, with_data: bool) -> Option<PastChange> {
        let path = self.local(change.path.as_deref()?)?;
        change.path = Some(path.clone());
        let before = self.value(&path, change.before.as_mut(), with_data);
        let after = self.value(&path, change.after.as_mut(), with_data);
        Some(PastChange { path, change, before, after })
    }

    /// Returns the shown part of an explanation.
    pub(crate) fn who(&self, mut explanation: Explanation) -> Option<PastWho> {
        let change = self.change(explanation.change, true)?;
        explanation.change = change.change.clone();
        let later = explanation.later.and_then(|later| self.change(later, false));
        explanation.later = later.map(|later| later.change);
        if let Some(deletion) = &mut explanation.deletion {
            deletion.change = change.change.clone();
        }
        explanation.author = explanation.author.map(|author| self.author(author));
        Some(PastWho { explanation, change })
    }

    /// Takes the data out of a state.
    fn value(&self, path: &str, state: Option<&mut NodeState>, with_data: bool) -> PastValue {
        let Some(state) = state else { return PastValue::Absent };
        let data = state.data.take();
        if !with_data {
            return PastValue::NotRequested;
        }
        if let Some(reason) = self.hidden(path, state.anyone_reads) {
            return PastValue::Hidden(reason);
        }
        match (data, state.size) {
            (None, size) if size != Some(0) => PastValue::Unknown,
            (data, _) => PastValue::of(data),
        }
    }

    /// Leaves out the nodes of others, and data that are not shown: they name the client.
    fn author(&self, mut author: Author) -> Author {
        author.ephemerals.retain_mut(|node| {
            let Some(path) = self.local(&node.path) else { return false };
            if self.hidden(&path, node.anyone_reads).is_some() {
                node.data = None;
            }
            node.path = path;
            true
        });
        let nearby = std::mem::take(&mut author.nearby).into_iter().filter_map(|mut change| {
            if let Some(path) = &change.path {
                change.path = Some(self.local(path)?);
            }
            Some(without_data(change))
        });
        author.nearby = nearby.collect();
        author
    }
}

fn without_data(mut change: Change) -> Change {
    for state in [&mut change.before, &mut change.after].into_iter().flatten() {
        state.data = None;
    }
    change
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn values_need_the_rights_of_everyone() {
        let view = |shows_all| {
            PastView::new("/top".to_owned(), Redaction::new(["/secret"]).unwrap(), shows_all)
        };
        for (path, anyone_reads, by_default, with_all) in [
            ("/a", Some(true), None, None),
            ("/a", Some(false), Some(HiddenReason::Rights), None),
            ("/a", None, Some(HiddenReason::UnknownRights), None),
            ("/secret", Some(true), Some(HiddenReason::Redacted), Some(HiddenReason::Redacted)),
        ] {
            assert_eq!(view(false).hidden(path, anyone_reads), by_default, "{path}");
            assert_eq!(view(true).hidden(path, anyone_reads), with_all, "{path}");
        }
        let local = |path: &str| view(false).local(path);
        assert_eq!(local("/top/a").as_deref(), Some("/a"));
        assert_eq!((local("/top").as_deref(), local("/topper")), (Some("/"), None));
    }
}
