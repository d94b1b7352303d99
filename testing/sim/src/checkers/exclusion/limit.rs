//! The number of permitted leases, where a shared number sets it.

use std::collections::BTreeMap;

use crate::History;
use crate::checkers::holds::Held;
use crate::history::{Answer, Event, Hold, Operation, Shared};

/// The limits that may have been in force.
#[derive(Debug)]
pub(super) struct Limits {
    settings: Vec<Setting>,
    /// The place where each attempt began, by the place of its [`Hold::Acquired`].
    begun: BTreeMap<usize, usize>,
}

/// One limit.
#[derive(Debug)]
struct Setting {
    limit: usize,
    /// The place of the call; `None` for the limit at first.
    called: Option<usize>,
    /// The place of the response that confirms it; `None` if it is not certain.
    done: Option<usize>,
}

impl Setting {
    fn is_before(&self, place: usize) -> bool {
        self.done.is_some_and(|done| done < place)
    }
}

impl Limits {
    /// Returns the limits of an object that has this value at first.
    pub(super) fn of(history: &History, object: &str, initial: usize) -> Self {
        let mut settings = BTreeMap::new();
        let mut attempts: BTreeMap<u64, usize> = BTreeMap::new();
        let mut begun = BTreeMap::new();
        let limit = |value: i64| usize::try_from(value).unwrap_or_default();
        settings.insert(None, Setting { limit: initial, called: None, done: Some(0) });
        for (place, record) in history.records().iter().enumerate() {
            match &record.event {
                Event::Shared(Shared::Call {
                    id,
                    object: of,
                    operation: Operation::Set(value),
                }) if **of == *object => {
                    settings.insert(
                        Some(*id),
                        Setting { limit: limit(*value), called: Some(place), done: None },
                    );
                }
                Event::Shared(Shared::Return { id, answer: Answer::Failed }) => {
                    settings.remove(&Some(*id));
                }
                Event::Shared(Shared::Return { id, answer: Answer::Done }) => {
                    if let Some(setting) = settings.get_mut(&Some(*id)) {
                        setting.done = Some(place);
                    }
                }
                Event::Hold(Hold::Acquiring { hold, .. }) => drop(attempts.insert(*hold, place)),
                Event::Hold(Hold::Acquired { hold, .. }) => {
                    begun.insert(place, attempts.get(hold).copied().unwrap_or_default());
                }
                _ => {}
            }
        }
        Self { settings: settings.into_values().collect(), begun }
    }

    /// Returns the highest limit that may have been in force while a hold was acquired.
    pub(super) fn highest(&self, hold: &Held) -> usize {
        let begun = self.begun.get(&hold.acquired).copied().unwrap_or_default();
        let is_over = |setting: &Setting| {
            let replaces = |other: &&Setting| {
                let later = |called| setting.done.is_some_and(|done| done < called);
                other.called.is_some_and(later) && other.is_before(begun)
            };
            self.settings.iter().any(|other| replaces(&other))
        };
        let came = self
            .settings
            .iter()
            .filter(|setting| setting.called.is_none_or(|at| at < hold.acquired));
        came.filter(|setting| !is_over(setting))
            .map(|setting| setting.limit)
            .max()
            .unwrap_or_default()
    }
}
