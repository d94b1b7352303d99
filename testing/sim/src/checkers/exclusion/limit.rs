//! How many leases there may be, where a shared number says so.

use std::collections::BTreeMap;

use crate::History;
use crate::checkers::holds::Hold;
use crate::history::{Answer, Event, Operation};

/// The limits that may have been in force.
#[derive(Debug)]
pub(super) struct Limits {
    settings: Vec<Setting>,
    /// Where each attempt began, by the place of its [`Event::Acquired`].
    begun: BTreeMap<usize, usize>,
}

/// One limit.
#[derive(Debug)]
struct Setting {
    limit: usize,
    /// The place of the call; none of the limit at first.
    called: Option<usize>,
    /// The place of the answer that it is done; none if that is not certain.
    done: Option<usize>,
}

impl Setting {
    fn is_before(&self, place: usize) -> bool {
        self.done.is_some_and(|done| done < place)
    }
}

impl Limits {
    /// Those of an object that has this value at first.
    pub(super) fn of(history: &History, object: &str, initial: usize) -> Self {
        let mut settings = BTreeMap::new();
        let mut attempts: BTreeMap<u64, usize> = BTreeMap::new();
        let mut begun = BTreeMap::new();
        let limit = |value: i64| usize::try_from(value).unwrap_or_default();
        settings.insert(None, Setting { limit: initial, called: None, done: Some(0) });
        for (place, record) in history.records().iter().enumerate() {
            match &record.event {
                Event::Call { id, object: of, operation: Operation::Set(value) } if **of == *object => {
                    settings
                        .insert(Some(*id), Setting { limit: limit(*value), called: Some(place), done: None });
                }
                Event::Return { id, answer: Answer::Failed } => drop(settings.remove(&Some(*id))),
                Event::Return { id, answer: Answer::Done } => {
                    if let Some(setting) = settings.get_mut(&Some(*id)) {
                        setting.done = Some(place);
                    }
                }
                Event::Acquiring { hold, .. } => drop(attempts.insert(*hold, place)),
                Event::Acquired { hold, .. } => {
                    begun.insert(place, attempts.get(hold).copied().unwrap_or_default());
                }
                _ => {}
            }
        }
        Self { settings: settings.into_values().collect(), begun }
    }

    /// The highest that may have been in force while a hold was acquired.
    pub(super) fn highest(&self, hold: &Hold) -> usize {
        let begun = self.begun.get(&hold.acquired).copied().unwrap_or_default();
        let is_over = |setting: &Setting| {
            let replaces = |other: &&Setting| {
                let later = |called| setting.done.is_some_and(|done| done < called);
                other.called.is_some_and(later) && other.is_before(begun)
            };
            self.settings.iter().any(|other| replaces(&other))
        };
        let came = self.settings.iter().filter(|setting| setting.called.is_none_or(|at| at < hold.acquired));
        came.filter(|setting| !is_over(setting)).map(|setting| setting.limit).max().unwrap_or_default()
    }
}
