//! [`Ensemble`]: the state behind its lock, and signals of changes.

use std::time::Duration;

use tokio::sync::Notify;
use zk_curator_client::internal::Signal;
use zk_curator_client::internal::{Locked, LockedGuard};

use super::snapshot::Snapshot;
use super::state::State;
use crate::config::Config;
use crate::ids::MemberId;

/// The state shared by the members of an ensemble, or of a single server.
#[derive(Debug)]
pub(crate) struct Ensemble {
    state: Locked<State>,
    /// Counts changes of the state.
    changed: Signal<u64>,
    /// Wakes the deadline task of each member.
    deadlines_changed: Vec<Notify>,
    limits: Limits,
}

/// The limits of a connection.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Limits {
    /// The longest frame a client may send, in bytes.
    pub(crate) frame: usize,
    /// The most bytes queued for a client.
    pub(crate) backlog: usize,
    /// The longest time a connection may have no session.
    pub(crate) session_within: Duration,
}

impl Ensemble {
    pub(crate) fn new(config: Config, members: usize, snapshot: Option<Snapshot>) -> Self {
        Self {
            limits: Limits {
                frame: config.max_frame,
                backlog: config.max_backlog,
                session_within: config.session_within,
            },
            state: Locked::new(State::new(config, members, snapshot)),
            changed: Signal::default(),
            deadlines_changed: (0..members).map(|_| Notify::new()).collect(),
        }
    }

    /// Reads the state.
    pub(crate) fn look<R>(&self, look: impl FnOnce(&State) -> R) -> R {
        look(&self.lock())
    }

    /// Changes the state, and wakes tasks that wait for changes.
    pub(crate) fn update<R>(&self, update: impl FnOnce(&mut State) -> R) -> R {
        let mut state = self.lock();
        let result = update(&mut state);
        let must_wake = state.take_new_deadline();
        drop(state);
        if must_wake {
            self.deadlines_changed();
        }
        self.changed.modify(|version| *version = version.wrapping_add(1));
        result
    }

    /// Counts changes.
    pub(crate) const fn changes(&self) -> &Signal<u64> {
        &self.changed
    }

    /// Returns `true` if this is a single server.
    pub(crate) const fn is_one(&self) -> bool {
        self.deadlines_changed.len() == 1
    }

    pub(crate) const fn limits(&self) -> Limits {
        self.limits
    }

    /// Waits until a value read from the state satisfies a condition, and returns it.
    pub(crate) async fn until<P>(
        &self,
        probe: impl Fn(&State) -> P,
        mut condition: impl FnMut(&P) -> bool,
    ) -> P {
        loop {
            let seen = self.changed.look(|version| *version);
            let probed = self.look(&probe);
            if condition(&probed) {
                return probed;
            }
            self.changed.until(|version| *version != seen).await;
        }
    }

    /// Wakes the deadline tasks: the next deadline may be earlier than they know.
    pub(crate) fn deadlines_changed(&self) {
        for member in &self.deadlines_changed {
            member.notify_one();
        }
    }

    /// Waits until a member must read the next deadline again.
    pub(crate) async fn deadline_changed(&self, at: MemberId) {
        self.deadlines_changed[at].notified().await;
    }

    fn lock(&self) -> LockedGuard<'_, State> {
        self.state.lock()
    }
}
