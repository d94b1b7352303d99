use std::collections::BTreeMap;

use bytes::Bytes;

use super::{Error, Revision};
use zk_curator::value::FromData;

/// A value, and since when it is the value.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct ConfigEntry {
    /// The stored bytes.
    pub data: Bytes,
    /// When it was set: for [`Update::if_revision`](super::Update::if_revision).
    pub revision: Revision,
}

/// All values of a store, or those below one key, as they were together at one revision.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Snapshot {
    /// The path of the values, for errors.
    pub(super) path: String,
    pub(super) revision: Revision,
    pub(super) entries: BTreeMap<String, ConfigEntry>,
}

impl Snapshot {
    /// The revision of the store; [`Revision::NONE`] if there is none.
    #[must_use]
    pub const fn revision(&self) -> Revision {
        self.revision
    }

    /// The value of a key as this type; `None` if it has none.
    ///
    /// # Errors
    /// [`Error::Undecodable`] when it is none of this type.
    pub fn get<T: FromData>(&self, key: &str) -> Result<Option<T>, Error> {
        let Some(entry) = self.entries.get(key) else { return Ok(None) };
        match T::from_data(&entry.data) {
            Ok(value) => Ok(Some(value)),
            Err(source) => Err(Error::Undecodable { path: format!("{}/{key}", self.path), source }),
        }
    }

    /// The stored value of a key, and its revision.
    #[must_use]
    pub fn entry(&self, key: &str) -> Option<&ConfigEntry> {
        self.entries.get(key)
    }

    /// All values, by their keys in the order of these.
    #[must_use]
    pub const fn entries(&self) -> &BTreeMap<String, ConfigEntry> {
        &self.entries
    }

    /// Only this key, and those below it: for `db`, also `db.host` and `db.host.name`, but not
    /// `dbs`.
    #[must_use]
    pub fn below(&self, key: &str) -> Self {
        let entries = self.entries.iter().filter(|(other, _)| is_below(other, key));
        let entries = entries.map(|(key, entry)| (key.clone(), entry.clone())).collect();
        Self { path: self.path.clone(), revision: self.revision, entries }
    }
}

fn is_below(key: &str, top: &str) -> bool {
    key.strip_prefix(top).is_some_and(|rest| rest.is_empty() || rest.starts_with('.'))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn keys_are_below_whole_names() {
        for (key, top, below) in [
            ("db", "db", true),
            ("db.host", "db", true),
            ("db.host.name", "db", true),
            ("dbs", "db", false),
            ("d", "db", false),
            ("db.host", "db.host.name", false),
        ] {
            assert_eq!(is_below(key, top), below, "{key} {top}");
        }
    }
}
