//! A resource that a lock protects, and that checks fencing tokens.

use super::history::{HoldMode, UseOutcome};
use zk_curator_client::internal::Locked;

/// A simulated resource that a lock protects. It refuses a use with a token that is too old, as
/// every resource should that the holders of a lock write to.
///
/// It remembers the highest token that it was used with. An exclusive use ([`HoldMode::Exclusive`],
/// [`HoldMode::Leader`]) needs that token or a higher one. A shared use ([`HoldMode::Shared`],
/// [`HoldMode::Permit`]) needs a token that is not lower than the highest token of an exclusive
/// use. So readers come in any order, but no reader comes after a later writer, and no writer after
/// a later reader.
#[derive(Debug, Default)]
pub struct FencedResource(Locked<Seen>);

#[derive(Debug, Default)]
struct Seen {
    accepted: u64,
    /// The highest token of a use in any mode.
    highest: Option<i64>,
    highest_alone: Option<i64>,
}

impl FencedResource {
    /// Uses the resource by a hold in this mode with this token.
    pub fn use_as(&self, mode: HoldMode, token: i64) -> UseOutcome {
        let mut seen = self.0.lock();
        let alone = matches!(mode, HoldMode::Exclusive | HoldMode::Leader);
        let newest = if alone { seen.highest } else { seen.highest_alone };
        if Some(token) >= newest {
            seen.accepted += 1;
            seen.highest = seen.highest.max(Some(token));
            if alone {
                seen.highest_alone = Some(token);
            }
            UseOutcome::Accepted(seen.accepted)
        } else {
            UseOutcome::Refused
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Returns the results of consecutive uses.
    fn uses(tokens: &[(HoldMode, i64)]) -> Vec<bool> {
        let resource = FencedResource::default();
        let accepted =
            |&(mode, token)| matches!(resource.use_as(mode, token), UseOutcome::Accepted(_));
        tokens.iter().map(accepted).collect()
    }

    #[test]
    fn old_tokens_are_refused() {
        use HoldMode::{Exclusive, Leader};
        assert_eq!(uses(&[(Exclusive, 5), (Exclusive, 5), (Exclusive, 4)]), [true, true, false]);
        assert_eq!(uses(&[(Leader, -3), (Leader, 7), (Leader, -3)]), [true, true, false]);
    }

    #[test]
    fn readers_come_in_any_order_between_writers() {
        use HoldMode::{Exclusive, Shared};
        let tokens = [(Exclusive, 5), (Shared, 8), (Shared, 7), (Shared, 5), (Shared, 4)];
        assert_eq!(uses(&tokens), [true, true, true, true, false]);
        // Writer 7 must not change what reader 8 has already read.
        assert_eq!(uses(&[(Shared, 8), (Exclusive, 7), (Exclusive, 9)]), [true, false, true]);
    }
}
