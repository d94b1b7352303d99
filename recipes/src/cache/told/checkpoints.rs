//! The moments at which everything is read that was reported before, and the callers that wait for
//! them. Pure: reports of the driver in, effects out.
//!
//! # A caller of `synced`
//! 1. It waits until a barrier can be sent.
//! 2. It waits for the barrier. Only one is in flight: callers that arrive in between share the
//!    next one. On a new connection they share the request to a quorum.
//! 3. The barrier has a response: it waits for a checkpoint that begins after this.
//! 4. That checkpoint is reached: the call returns.
//!
//! A caller of `refresh` waits until all missed changes are requested, then until all its own reads
//! are in flight, and continues with 3. If changes may have been missed, it begins again.
//!
//! # Rules
//! 1. Events of a transaction come before every response that shows it. So the newest transaction
//!    that a response has shown is noted first, then all events are taken, and then a checkpoint
//!    begins: when everything is read that is needed at that moment, the contents are not older
//!    than that transaction.
//! 2. There is no checkpoint while changes may have been missed whose reads are not requested.
//! 3. No checkpoint is published while the server refuses reads.
//! 4. The contents are exactly the server's if no read is left, and a request that was sent after
//!    the last event has a response.

use std::collections::VecDeque;

use zk_curator::Error;

use super::callers::{Caller, Questions, WaitingRefresh, push};
use crate::cache::state::ReadsLeft;

/// The progress of the session, compared with the connected server.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum CheckpointStanding {
    /// The watch reports nothing, because there is no connection.
    Disarmed,
    /// The contents may be newer than the server. Nothing is read until a quorum has responded.
    Ahead,
    /// Changes may have been missed whose reads are not requested yet.
    Behind,
    /// All reads for missed changes are requested.
    Current,
}

/// The requests whose responses the checkpoints need.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum CheckpointRequest {
    /// Reads of nodes.
    Reads,
    /// Asks a quorum on a new connection, before anything is read.
    Gate,
    /// Asks a quorum because callers wait.
    Barrier,
    /// Asks the connected server if it has applied transactions after the last event.
    Proof,
}

/// The outcome of a request.
#[derive(Debug)]
pub(crate) enum CheckpointOutcome {
    Answered,
    /// A temporary error.
    Passing,
    Failed(Error),
}

/// The current state of the driver.
#[derive(Debug, Clone, Copy)]
pub(crate) struct CheckpointFacts {
    pub(crate) standing: CheckpointStanding,
    /// The newest transaction that a response has shown.
    pub(crate) seen: Option<i64>,
    pub(crate) progress: ReadsLeft,
}

/// A report of the driver.
#[derive(Debug)]
pub(crate) enum CheckpointInput<C> {
    /// Callers have made requests.
    Asked(Questions<C>),
    /// This number of events was passed to the state.
    Heard(u64),
    /// The connection is lost.
    Disconnected,
    /// Changes may have been missed.
    Missed,
    /// Requests can be sent. `needs_proof` if a caller waits for an exact state.
    Send { standing: CheckpointStanding, needs_proof: bool },
    /// The response to a request that was sent after `heard` events.
    Answered { request: CheckpointRequest, heard: u64, outcome: CheckpointOutcome },
    /// Something may have changed.
    Turn(CheckpointFacts),
    /// All events were taken after [`CheckpointEffect::Begin`] had named the transaction, and the
    /// state has this mark.
    Begun { zxid: i64, mark: u64, facts: CheckpointFacts },
    /// The session is over.
    Ended,
    /// There is no session, for this reason.
    Failed(Error),
}

/// The next step of the driver.
#[derive(Debug)]
pub(crate) enum CheckpointEffect<C> {
    Send(CheckpointRequest),
    /// Reads these paths, and everything below them, again.
    Refresh(Vec<String>),
    /// Takes all events that have come and begins a checkpoint: see [`CheckpointInput::Begun`].
    Begin {
        zxid: i64,
    },
    /// The contents are not older than a transaction.
    Publish {
        zxid: i64,
        is_exact: bool,
    },
    Answer {
        callers: Vec<C>,
        answer: Result<i64, Error>,
    },
    /// The server of the new connection has everything that was shown.
    OpenGate,
    /// Sends nothing for a while.
    Rest,
}

/// A moment after which everything was read that had been reported before it.
#[derive(Debug)]
struct Checkpoint<C> {
    /// The contents are not older than this transaction from then on.
    zxid: i64,
    /// Its number in the state.
    mark: u64,
    callers: Vec<C>,
}

/// The open checkpoints, and the callers at each stage.
#[derive(Debug)]
pub(crate) struct Checkpoints<C> {
    /// Callers whose barrier must be sent.
    waiting: Vec<C>,
    /// Callers that wait for the request of a new connection to a quorum, if there is one.
    gate: Option<Vec<C>>,
    /// Callers whose barrier is in flight, if there is one.
    barrier: Option<Vec<C>>,
    /// Callers that need a checkpoint that begins from now on.
    settling: Vec<C>,
    /// The pending refreshes, and the running ones.
    refreshes: Vec<WaitingRefresh<C>>,
    refreshing: Vec<WaitingRefresh<C>>,
    /// The checkpoints that were not reached yet, in their order.
    open: VecDeque<Checkpoint<C>>,
    /// `true` if a caller needs a checkpoint of the last known transaction.
    is_wanted: bool,
    /// The number of events, and how many of them came before a request that has a response, so
    /// that the last transaction of the server is not older.
    heard: u64,
    proven: u64,
    /// `true` if a request that will prove it is in flight.
    is_proving: bool,
}

impl<C: Caller> Checkpoints<C> {
    pub(crate) const fn new() -> Self {
        Self {
            waiting: Vec::new(),
            gate: None,
            barrier: None,
            settling: Vec::new(),
            refreshes: Vec::new(),
            refreshing: Vec::new(),
            open: VecDeque::new(),
            is_wanted: false,
            heard: 0,
            proven: 0,
            is_proving: false,
        }
    }

    /// The number of events in this session.
    pub(crate) const fn heard(&self) -> u64 {
        self.heard
    }

    /// Returns `true` if a response came after the last event. Otherwise another server may be
    /// behind the event: a reconnect only requires a server that has the last response.
    pub(crate) const fn is_proven(&self) -> bool {
        self.proven == self.heard
    }

    /// Returns `true` if a caller waits for the reads of a resync.
    pub(crate) const fn is_awaited(&self) -> bool {
        self.barrier.is_some() || self.is_proving || !self.settling.is_empty()
    }

    /// Processes a report, and returns the effects, in their order.
    pub(crate) fn step(&mut self, input: CheckpointInput<C>) -> Vec<CheckpointEffect<C>> {
        match input {
            CheckpointInput::Asked(questions) => self.asked(questions),
            CheckpointInput::Heard(count) => self.heard += count,
            CheckpointInput::Disconnected => {
                self.waiting.extend(self.gate.take().into_iter().flatten());
            }
            CheckpointInput::Missed => {
                self.refreshes.append(&mut self.refreshing);
                self.forget_open();
            }
            CheckpointInput::Send { standing, needs_proof } => {
                return self.send(standing, needs_proof);
            }
            CheckpointInput::Answered { request, heard, outcome } => {
                return self.answered(request, heard, outcome);
            }
            CheckpointInput::Turn(facts) => return self.turn(&facts),
            CheckpointInput::Begun { zxid, mark, facts } => return self.begun(zxid, mark, &facts),
            CheckpointInput::Ended => self.ended(),
            CheckpointInput::Failed(error) => return self.failed(error),
        }
        Vec::new()
    }

    fn asked(&mut self, Questions { check, syncs, refreshes }: Questions<C>) {
        self.is_wanted |= check;
        for caller in syncs {
            push(&mut self.waiting, caller);
        }
        for refresh in refreshes {
            push(&mut self.refreshes, refresh);
        }
    }

    fn send(
        &mut self,
        standing: CheckpointStanding,
        needs_proof: bool,
    ) -> Vec<CheckpointEffect<C>> {
        let mut effects = Vec::new();
        match standing {
            CheckpointStanding::Disarmed => return effects,
            CheckpointStanding::Ahead => {
                if self.gate.is_none() {
                    self.gate = Some(std::mem::take(&mut self.waiting));
                    effects.push(CheckpointEffect::Send(CheckpointRequest::Gate));
                }
                return effects;
            }
            CheckpointStanding::Behind | CheckpointStanding::Current => {}
        }
        self.waiting.retain(|caller| !caller.has_given_up());
        if self.barrier.is_none() && !self.waiting.is_empty() {
            self.barrier = Some(std::mem::take(&mut self.waiting));
            effects.push(CheckpointEffect::Send(CheckpointRequest::Barrier));
        }
        let can_refresh = standing == CheckpointStanding::Current && self.refreshing.is_empty();
        if can_refresh && !self.refreshes.is_empty() {
            self.refreshing = std::mem::take(&mut self.refreshes);
            self.refreshing.retain(|refresh| !refresh.has_given_up());
            let paths = self.refreshing.iter().map(|refresh| refresh.path.clone()).collect();
            effects.push(CheckpointEffect::Refresh(paths));
        }
        if needs_proof && !self.is_proven() && !self.is_proving {
            self.is_proving = true;
            effects.push(CheckpointEffect::Send(CheckpointRequest::Proof));
        }
        effects
    }

    fn answered(
        &mut self,
        request: CheckpointRequest,
        heard: u64,
        outcome: CheckpointOutcome,
    ) -> Vec<CheckpointEffect<C>> {
        let callers = match request {
            CheckpointRequest::Reads => None,
            CheckpointRequest::Gate => self.gate.take(),
            CheckpointRequest::Barrier => self.barrier.take(),
            CheckpointRequest::Proof => {
                self.is_proving = false;
                None
            }
        };
        let callers = callers.unwrap_or_default();
        match (outcome, request) {
            (CheckpointOutcome::Answered, _) => {
                self.proven = self.proven.max(heard);
                self.settling.extend(callers);
                let is_open = request == CheckpointRequest::Gate;
                is_open.then_some(CheckpointEffect::OpenGate).into_iter().collect()
            }
            (CheckpointOutcome::Failed(error), CheckpointRequest::Barrier) => {
                vec![CheckpointEffect::Answer { callers, answer: Err(error) }]
            }
            (CheckpointOutcome::Failed(_) | CheckpointOutcome::Passing, _) => {
                self.waiting.extend(callers);
                vec![CheckpointEffect::Rest]
            }
        }
    }

    fn turn(&mut self, facts: &CheckpointFacts) -> Vec<CheckpointEffect<C>> {
        if facts.standing != CheckpointStanding::Current {
            self.forget_open();
            return Vec::new();
        }
        if !self.refreshing.is_empty() && !facts.progress.is_refreshing {
            // All reads are requested: a checkpoint that begins now shows when they are done.
            self.settling.extend(self.refreshing.drain(..).map(|refresh| refresh.caller));
        }
        if self.needs_checkpoint(facts) {
            return facts.seen.map(|zxid| CheckpointEffect::Begin { zxid }).into_iter().collect();
        }
        self.publish(&facts.progress)
    }

    /// Returns `true` to begin a checkpoint: at first, after each reached one, and for each caller
    /// that needs one.
    fn needs_checkpoint(&self, facts: &CheckpointFacts) -> bool {
        let is_reached = |first: &Checkpoint<C>| first.mark <= facts.progress.reached;
        let last = self.open.back().map(|last| last.zxid);
        self.open.front().is_none_or(is_reached)
            || !self.settling.is_empty()
            || (self.is_wanted && facts.seen != last)
    }

    fn begun(&mut self, zxid: i64, mark: u64, facts: &CheckpointFacts) -> Vec<CheckpointEffect<C>> {
        if facts.standing != CheckpointStanding::Current {
            self.forget_open();
            return Vec::new();
        }
        self.is_wanted = false;
        self.forget_abandoned();
        let callers = std::mem::take(&mut self.settling);
        self.open.push_back(Checkpoint { zxid, mark, callers });
        self.publish(&facts.progress)
    }

    /// Publishes the last checkpoint that was reached.
    fn publish(&mut self, progress: &ReadsLeft) -> Vec<CheckpointEffect<C>> {
        let is_reached = |checkpoint: &&Checkpoint<C>| checkpoint.mark <= progress.reached;
        let count = self.open.iter().take_while(is_reached).count();
        let (mut reached, mut callers) = (None, Vec::new());
        for checkpoint in self.open.drain(..count) {
            reached = Some(checkpoint.zxid);
            callers.extend(checkpoint.callers);
        }
        let Some(zxid) = reached else { return Vec::new() };
        if progress.is_refused {
            // Later changes cannot be read.
            self.settling.extend(callers);
            return Vec::new();
        }
        // If all reads are done, this is the checkpoint that has just begun. After an event the
        // server is ahead of its last response.
        let is_exact = progress.is_settled && self.is_proven();
        let mut effects = vec![CheckpointEffect::Publish { zxid, is_exact }];
        if !callers.is_empty() {
            effects.push(CheckpointEffect::Answer { callers, answer: Ok(zxid) });
        }
        effects
    }

    /// Reads are needed before the state of the server can be known.
    fn forget_open(&mut self) {
        self.settling.extend(self.open.drain(..).flat_map(|checkpoint| checkpoint.callers));
    }

    /// Forgets callers that no longer wait, and checkpoints that only these needed.
    fn forget_abandoned(&mut self) {
        let mut is_first = true;
        self.open.retain_mut(|checkpoint| {
            checkpoint.callers.retain(|caller| !caller.has_given_up());
            std::mem::take(&mut is_first) || !checkpoint.callers.is_empty()
        });
    }

    /// The barriers are sent again in the next session.
    fn ended(&mut self) {
        self.forget_open();
        let sent = [self.barrier.take(), self.gate.take()].into_iter().flatten().flatten();
        self.waiting.extend(sent.chain(self.settling.drain(..)));
        self.refreshes.append(&mut self.refreshing);
        (self.heard, self.proven, self.is_proving) = (0, 0, false);
        self.is_wanted = false;
    }

    fn failed(&mut self, error: Error) -> Vec<CheckpointEffect<C>> {
        self.is_wanted = false;
        let refreshes = self.refreshes.drain(..).map(|refresh| refresh.caller);
        let callers = self.waiting.drain(..).chain(refreshes).collect();
        vec![CheckpointEffect::Answer { callers, answer: Err(error) }]
    }
}
