//! A thing that a lock protects, which knows fencing tokens.

use std::sync::{Mutex, PoisonError};

use super::history::{Event, Mode, Name, ResourceUse};

/// What a lock protects, in a simulation: it refuses whoever comes with a token that is too old, as every resource should
/// that clients of a lock write to.
///
/// It remembers the highest token that it was used with. Alone ([`Mode::Exclusive`], [`Mode::Leader`]) it can be used with
/// that one and with higher ones. With others ([`Mode::Shared`], [`Mode::Lease`]) it can be used with every token that is
/// not lower than the highest of those that used it alone: readers come in any order, but none after a later writer, and
/// no writer after a later reader.
#[derive(Debug)]
pub struct FencedResource {
    name: Name,
    seen: Mutex<Seen>,
}

#[derive(Debug, Default)]
struct Seen {
    accepted: u64,
    /// The highest token of a use in whatever mode.
    highest: Option<i64>,
    highest_alone: Option<i64>,
}

impl FencedResource {
    /// A resource that nobody has used yet.
    pub fn new(name: impl Into<Name>) -> Self {
        Self { name: name.into(), seen: Mutex::default() }
    }

    /// The name that it has in the history.
    #[must_use]
    pub const fn name(&self) -> &Name {
        &self.name
    }

    /// Uses it on the strength of a hold in this mode, and returns the [`Event::Used`] to be written down. Only the
    /// token decides.
    #[must_use]
    pub fn use_as(&self, mode: Mode, hold: u64, token: i64) -> Event {
        let mut seen = self.seen.lock().unwrap_or_else(PoisonError::into_inner);
        let alone = matches!(mode, Mode::Exclusive | Mode::Leader);
        let newest = if alone { seen.highest } else { seen.highest_alone };
        let outcome = if Some(token) >= newest {
            seen.accepted += 1;
            seen.highest = seen.highest.max(Some(token));
            if alone {
                seen.highest_alone = Some(token);
            }
            ResourceUse::Accepted(seen.accepted)
        } else {
            ResourceUse::Refused
        };
        Event::Used { resource: self.name.clone(), hold, token, outcome }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// What becomes of uses, one after the other.
    fn uses(tokens: &[(Mode, i64)]) -> Vec<bool> {
        let resource = FencedResource::new("orders");
        let accepted = |&(mode, token)| {
            let event = resource.use_as(mode, 1, token);
            matches!(event, Event::Used { outcome: ResourceUse::Accepted(_), .. })
        };
        tokens.iter().map(accepted).collect()
    }

    #[test]
    fn old_tokens_are_refused() {
        use Mode::{Exclusive, Leader};
        assert_eq!(uses(&[(Exclusive, 5), (Exclusive, 5), (Exclusive, 4)]), [true, true, false]);
        assert_eq!(uses(&[(Leader, -3), (Leader, 7), (Leader, -3)]), [true, true, false]);
    }

    #[test]
    fn readers_come_in_any_order_between_writers() {
        use Mode::{Exclusive, Shared};
        let tokens = [(Exclusive, 5), (Shared, 8), (Shared, 7), (Shared, 5), (Shared, 4)];
        assert_eq!(uses(&tokens), [true, true, true, true, false]);
        // Reader 8 has seen what writer 7 could still change.
        assert_eq!(uses(&[(Shared, 8), (Exclusive, 7), (Exclusive, 9)]), [true, false, true]);
    }
}
