//! The state that a registration and its task share.

use std::collections::VecDeque;

use bytes::Bytes;
use tokio::sync::oneshot;
use zk_curator::{CuratorFramework, Error};

use super::attempt::UnansweredWrite;
use super::state::{Gate, RegistrationState};
use crate::measure::Registering;

/// Makes the new record from the current one, and the position of the gate with it.
pub(super) type RecordEdit = Box<dyn FnMut(&Bytes, Gate) -> Result<(Bytes, Gate), Error> + Send>;

/// A change of the record, to be written.
pub(super) struct RecordChange {
    pub(super) edit: RecordEdit,
    /// `true` if the record is written even if it stays the same.
    pub(super) is_forced: bool,
    /// `true` for a move of the gate.
    pub(super) is_of_gate: bool,
    /// `true` if it does no harm to apply it twice.
    pub(super) is_repeatable: bool,
    pub(super) attempt: Option<UnansweredWrite>,
    pub(super) done: oneshot::Sender<Result<(), Error>>,
}

impl RecordChange {
    /// A change that does no harm if it is applied twice.
    pub(super) fn repeatable(edit: RecordEdit, done: oneshot::Sender<Result<(), Error>>) -> Self {
        let (is_forced, is_of_gate) = (false, false);
        Self { edit, is_forced, is_of_gate, is_repeatable: true, attempt: None, done }
    }

    pub(super) fn answer(self, result: Result<(), Error>) {
        // Sending fails if the caller no longer waits.
        drop(self.done.send(result));
    }
}

/// The requested end of a registration.
#[derive(Debug, Clone, Copy)]
pub(super) struct RequestedEnd {
    pub(super) deletes: bool,
}

pub(super) struct RegistrationShared {
    pub(super) state: RegistrationState,
    /// The number of changes of the state.
    pub(super) changed: u64,
    pub(super) path: String,
    pub(super) changes: VecDeque<RecordChange>,
    /// Counts the gates: each replaces the one before it.
    pub(super) gates: u64,
    /// `true` while the gate keeps the instance out of traffic.
    pub(super) is_gated: bool,
    pub(super) ending: Option<RequestedEnd>,
    /// `true` once the task has ended.
    pub(super) has_ended: bool,
    /// `true` if it has ended with the node deleted.
    pub(super) is_deleted: bool,
    /// `true` if the task did not end by itself: its runtime was shut down.
    pub(super) is_aborted: bool,
    /// The number of failures to delete the node. `failure` is the last one.
    pub(super) failures: u64,
    pub(super) failure: Option<Error>,
    measured: Registering,
}

impl RegistrationShared {
    pub(super) fn new(path: String, zk: &CuratorFramework) -> Self {
        Self {
            state: RegistrationState::Connecting,
            changed: 0,
            path,
            changes: VecDeque::new(),
            gates: 0,
            is_gated: false,
            ending: None,
            has_ended: false,
            is_deleted: false,
            is_aborted: false,
            failures: 0,
            failure: None,
            measured: Registering::begin(zk),
        }
    }

    pub(super) const fn is_registered(&self) -> bool {
        matches!(self.state, RegistrationState::Registered { .. } | RegistrationState::Suspended)
    }

    pub(super) fn publish(&mut self, state: RegistrationState) {
        if !self.state.is_alike(&state) {
            self.state = state;
            self.changed += 1;
            self.measured.is_registered(self.is_registered());
            if matches!(self.state, RegistrationState::Superseded { .. }) {
                self.measured.superseded();
            }
        }
    }

    /// Queues a change. It takes the place of an earlier move of the gate, or of an earlier write
    /// of the same record for which no caller waits. Returns the changes that are not written any
    /// more, to be dropped without the lock.
    pub(super) fn queue(&mut self, change: RecordChange) -> Vec<RecordChange> {
        if self.has_ended || self.ending.is_some() {
            return vec![change];
        }
        let is_replaced = |earlier: &RecordChange| {
            let is_renewed = change.is_forced && earlier.is_forced && earlier.done.is_closed();
            is_renewed || change.is_of_gate && earlier.is_of_gate
        };
        let (replaced, kept): (Vec<_>, Vec<_>) = self.changes.drain(..).partition(is_replaced);
        self.changes = kept.into();
        self.changes.push_back(change);
        replaced
    }

    pub(super) fn not_ended(&mut self, error: Error) {
        self.failure = Some(error);
        self.failures += 1;
    }

    /// Marks the end of the task. Returns the changes that were not written. Dropping them tells
    /// their callers that the registration has ended.
    #[must_use]
    pub(super) fn end(&mut self, is_deleted: bool) -> VecDeque<RecordChange> {
        self.has_ended = true;
        self.is_deleted |= is_deleted;
        let was_deleted = matches!(self.state, RegistrationState::Deleted) && self.ending.is_none();
        if !self.state.is_final() && !was_deleted {
            self.publish(RegistrationState::Ended);
        }
        self.measured.end();
        std::mem::take(&mut self.changes)
    }
}
