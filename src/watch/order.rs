//! The order of the states that were read, as a pure function.

/// The place of a state in the history: the transaction that created the node, and the last one
/// that changed it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct HistoryPlace {
    pub(super) czxid: i64,
    /// The `mzxid` of data, or the `pzxid` of children.
    pub(super) changed: i64,
}

/// A state that was read.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct SeenState {
    /// The place; `None` if the node did not exist.
    pub(super) place: Option<HistoryPlace>,
    /// The session whose server responded.
    pub(super) session: u64,
    /// A transaction that is no older than the last one that the server had applied; `None` if none
    /// is known.
    pub(super) as_of: Option<i64>,
    /// `true` if the state was read behind a quorum.
    pub(super) is_confirmed: bool,
}

/// The relation of a state to the newest one before it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum StateRelation {
    /// A different state, which is not older.
    News,
    /// The same state.
    Known,
    /// A state that may be older. It has to be read again, behind a quorum.
    Doubtful,
}

/// The last accepted state.
#[derive(Debug, Clone, Copy, Default)]
pub(super) struct LastAccepted(Option<SeenState>);

impl LastAccepted {
    /// Judges a state, and accepts it unless it is doubtful.
    ///
    /// Within a session, no read is older than the previous one, because a server refuses a
    /// connection that has seen more than it knows. A server of a later session may lag behind,
    /// unless the client demanded otherwise. Its state is certainly newer if the change is younger
    /// than everything that the earlier server can have known. All other states are doubtful,
    /// including the absence of a node, which has no transaction id.
    pub(super) fn judge(&mut self, seen: SeenState) -> StateRelation {
        let Some(last) = self.0 else {
            self.0 = Some(seen);
            return StateRelation::News;
        };
        let is_same = seen.place == last.place;
        if seen.session == last.session || seen.is_confirmed {
            self.0 = Some(seen);
        } else if let Some(place) = seen.place {
            if is_same {
                // The state has not changed in between, so it does not matter which server knows
                // more.
                self.0 = Some(SeenState { as_of: last.as_of.max(seen.as_of), ..seen });
            } else if last.as_of.is_some_and(|as_of| place.changed > as_of) {
                self.0 = Some(seen);
            } else {
                return StateRelation::Doubtful;
            }
        } else if !is_same {
            return StateRelation::Doubtful;
        }
        // The node is absent in both sessions. It may have existed in between, and a lagging server
        // would show that, so this session does not replace the last one.
        if is_same { StateRelation::Known } else { StateRelation::News }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Returns the state after each transaction. The first is number 0.
    fn history(random: &mut fastrand::Rng, length: usize) -> Vec<Option<HistoryPlace>> {
        let mut states = vec![None];
        for zxid in 1..length {
            let (zxid, last) = (i64::try_from(zxid).unwrap(), states[zxid - 1]);
            states.push(match (last, random.u8(..4)) {
                (None, 0..2) => Some(HistoryPlace { czxid: zxid, changed: zxid }),
                (Some(_), 0) => None,
                (Some(place), 1) => Some(HistoryPlace { changed: zxid, ..place }),
                // A change of another node.
                (last, _) => last,
            });
        }
        states
    }

    /// Reads in sessions whose servers lag at random, but never go back within a session. `judge`
    /// decides which states are returned. Fails if they are not returned in the order in which they
    /// were true.
    fn tell(
        random: &mut fastrand::Rng,
        judge: fn(&mut LastAccepted, SeenState) -> StateRelation,
    ) -> Result<(), String> {
        let states = history(random, 30);
        let (mut order, mut session, mut told_at) = (LastAccepted::default(), 1, 0);
        // The last transactions that the server of this session, and the leader, know.
        let (mut server, mut leader) = (0, 0);
        for _ in 0..40 {
            leader = random.usize(leader..states.len().min(leader + 4));
            if random.u8(..4) == 0 {
                session += 1;
                server = random.usize(..=leader);
            }
            server = random.usize(server..=leader);
            let as_of = random.u8(..8) > 0;
            let mut seen = SeenState {
                place: states[server],
                session,
                as_of: as_of.then(|| i64::try_from(random.usize(server..=leader)).unwrap()),
                is_confirmed: false,
            };
            let mut verdict = judge(&mut order, seen);
            if verdict == StateRelation::Doubtful {
                server = leader;
                seen = SeenState { place: states[server], as_of: None, is_confirmed: true, ..seen };
                verdict = judge(&mut order, seen);
            }
            assert_ne!(verdict, StateRelation::Doubtful, "a confirmed state is not doubtful");
            // The first moment at which the state can have been true.
            let at = (told_at..states.len()).find(|at| states[*at] == seen.place);
            told_at = at.ok_or_else(|| format!("{seen:?} after {told_at} of {states:?}"))?;
        }
        Ok(())
    }

    #[test]
    fn no_older_state_follows_a_newer_one() {
        for seed in 0..20_000 {
            let told = tell(&mut fastrand::Rng::with_seed(seed), LastAccepted::judge);
            told.unwrap_or_else(|why| panic!("seed {seed}: {why}"));
        }
    }

    /// Shows that the test above can fail.
    #[test]
    fn a_client_that_believes_every_server_goes_back() {
        let believe =
            |order: &mut LastAccepted, seen| order.judge(SeenState { is_confirmed: true, ..seen });
        assert!((0..100).any(|seed| tell(&mut fastrand::Rng::with_seed(seed), believe).is_err()));
    }

    #[test]
    fn the_same_state_of_another_session_is_not_read_again() {
        let place = Some(HistoryPlace { czxid: 3, changed: 5 });
        let seen = |place, session, as_of| SeenState {
            place,
            session,
            as_of: Some(as_of),
            is_confirmed: false,
        };
        let mut order = LastAccepted::default();
        assert_eq!(order.judge(seen(place, 1, 9)), StateRelation::News);
        assert_eq!(order.judge(seen(place, 2, 7)), StateRelation::Known);
        let younger = Some(HistoryPlace { czxid: 3, changed: 10 });
        assert_eq!(order.judge(seen(younger, 3, 11)), StateRelation::News);
        assert_eq!(order.judge(seen(None, 4, 20)), StateRelation::Doubtful);
        assert_eq!(order.judge(seen(None, 3, 20)), StateRelation::News);
        assert_eq!(order.judge(seen(None, 4, 20)), StateRelation::Known);
        assert_eq!(
            order.judge(seen(Some(HistoryPlace { czxid: 14, changed: 14 }), 4, 20)),
            StateRelation::Doubtful
        );
    }
}
