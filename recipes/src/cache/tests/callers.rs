//! The callers of the cache: their requests, their way through the checkpoints, and the guarantees
//! at their return.

use std::cell::Cell;
use std::rc::Rc;

use proptest::prelude::*;
use zk_curator::Error;

use super::model::{Checked, Model, Sent};
use super::setup::{Fault, Flaw};
use crate::cache::told::{
    Caller, CheckpointEffect, CheckpointFacts, CheckpointInput, CheckpointOutcome,
    CheckpointRequest, CheckpointStanding, Questions, WaitingRefresh,
};

/// A caller with this number.
#[derive(Debug)]
pub(super) struct Asker {
    number: usize,
    has_given_up: Rc<Cell<bool>>,
}

impl Caller for Asker {
    fn has_given_up(&self) -> bool {
        self.has_given_up.get()
    }
}

/// The request of a caller.
#[derive(Debug)]
struct Question {
    /// The path to refresh; `None` for a caller of `synced`.
    path: Option<String>,
    /// The last transaction of the server when it was asked.
    zxid: i64,
    /// The number of requests that had been served before.
    served: u64,
    is_answered: bool,
    has_given_up: Rc<Cell<bool>>,
}

/// A request without reads in flight.
#[derive(Debug)]
pub(super) struct Asked {
    pub(super) number: u64,
    pub(super) request: CheckpointRequest,
    heard: u64,
    pub(super) outcome: Option<CheckpointOutcome>,
}

#[derive(Debug, Default)]
pub(super) struct Callers {
    questions: Vec<Question>,
    pub(super) asked: Vec<Asked>,
    /// `true` if a caller waits for an exact state.
    pub(super) needs_proof: bool,
    /// The last published transaction that the contents are not older than, and `true` if they were
    /// declared to be exactly the server's.
    published: (i64, bool),
}

impl Model {
    /// A caller of `synced`, or of `refresh` for this path.
    pub(super) fn question(&mut self, path: Option<String>) -> Checked {
        let has_given_up = Rc::new(Cell::new(false));
        let caller =
            Asker { number: self.callers.questions.len(), has_given_up: Rc::clone(&has_given_up) };
        let mut questions = Questions::default();
        match &path {
            Some(path) => questions.refreshes.push(WaitingRefresh { path: path.clone(), caller }),
            None => questions.syncs.push(caller),
        }
        let (zxid, served) = (self.server.zxid, self.served);
        let question = Question { path, zxid, served, is_answered: false, has_given_up };
        self.callers.questions.push(question);
        self.report(CheckpointInput::Asked(questions))
    }

    /// A caller of `reflects` that waits for the last transaction that was seen.
    pub(super) fn check_last(&mut self) -> Checked {
        self.report(CheckpointInput::Asked(Questions { check: true, ..Questions::default() }))
    }

    pub(super) fn give_up(&self, number: usize) {
        if let Some(at) = number.checked_rem(self.callers.questions.len()) {
            self.callers.questions[at].has_given_up.set(true);
        }
    }

    pub(super) const fn standing(&self) -> CheckpointStanding {
        match (self.is_armed, self.is_ahead, self.needs_sweep) {
            (false, ..) => CheckpointStanding::Disarmed,
            (true, true, _) => CheckpointStanding::Ahead,
            (true, false, true) => CheckpointStanding::Behind,
            (true, false, false) => CheckpointStanding::Current,
        }
    }

    fn facts(&mut self) -> CheckpointFacts {
        let mut progress = self.state.progress();
        match self.setup.flaw {
            Flaw::EarlyCheckpoint => progress.reached = u64::MAX,
            Flaw::EarlyRefresh => progress.is_refreshing = false,
            Flaw::RefusedIsRead => progress.is_refused = false,
            _ => {}
        }
        CheckpointFacts { standing: self.standing(), seen: Some(self.seen), progress }
    }

    /// Begins checkpoints, and publishes the reached ones.
    pub(super) fn turn(&mut self) -> Checked {
        let facts = self.facts();
        self.report(CheckpointInput::Turn(facts))
    }

    /// Passes a report to the checkpoints, and performs their effects.
    pub(super) fn report(&mut self, input: CheckpointInput<Asker>) -> Checked {
        for effect in self.checkpoints.step(input) {
            self.perform(effect)?;
        }
        Ok(())
    }

    fn perform(&mut self, effect: CheckpointEffect<Asker>) -> Checked {
        match effect {
            CheckpointEffect::Send(request) => self.ask(request),
            CheckpointEffect::Refresh(paths) => {
                paths.iter().for_each(|path| self.state.refresh(path));
            }
            CheckpointEffect::Begin { zxid } => {
                if self.setup.flaw != Flaw::LateEvents {
                    self.hear(usize::MAX)?;
                }
                if self.standing() != CheckpointStanding::Current {
                    return self.turn();
                }
                let mark = self.state.checkpoint();
                let facts = self.facts();
                return self.report(CheckpointInput::Begun { zxid, mark, facts });
            }
            CheckpointEffect::Publish { zxid, is_exact } => return self.published(zxid, is_exact),
            CheckpointEffect::Answer { callers, answer } => {
                for Asker { number, .. } in callers {
                    self.answered(number, answer.as_ref().ok().copied())?;
                }
            }
            CheckpointEffect::OpenGate => self.is_ahead = false,
            CheckpointEffect::Rest => {}
        }
        Ok(())
    }

    fn published(&mut self, zxid: i64, is_exact: bool) -> Checked {
        prop_assert_eq!(self.standing(), CheckpointStanding::Current);
        prop_assert_eq!(self.state.refusal(), None);
        prop_assert!(zxid >= self.callers.published.0, "back to {zxid}");
        self.callers.published = (zxid, is_exact);
        self.check_not_older_than(zxid)?;
        if is_exact { self.check_equal(zxid) } else { Ok(()) }
    }

    /// Checks the guarantee to a caller.
    fn answered(&mut self, number: usize, zxid: Option<i64>) -> Checked {
        let question = &mut self.callers.questions[number];
        prop_assert!(!question.is_answered, "{question:?} has two results");
        question.is_answered = true;
        let Some(zxid) = zxid else { return Ok(()) };
        prop_assert_eq!(zxid, self.callers.published.0);
        let Some(path) = &question.path else {
            prop_assert!(zxid >= question.zxid, "{question:?} got {zxid}");
            return Ok(());
        };
        let below = format!("{}/", path.trim_end_matches('/'));
        for node in self.state.tree().walk(path) {
            let read = self.last_read.get(&*node.path).copied().unwrap_or(0);
            prop_assert!(*node.path == **path || node.path.starts_with(&below));
            prop_assert!(read > question.served, "{} was not read again", node.path);
        }
        Ok(())
    }

    fn ask(&mut self, request: CheckpointRequest) {
        let number = self.next_number();
        let mut asked = Asked { number, request, heard: self.checkpoints.heard(), outcome: None };
        if self.setup.flaw == Flaw::EarlyBarrier && request == CheckpointRequest::Barrier {
            asked.outcome = Some(CheckpointOutcome::Answered);
        }
        self.callers.asked.push(asked);
        self.submit(number);
    }

    /// The server responds to a request without reads.
    pub(super) fn serve_asked(&mut self, number: u64, fault: Option<Fault>) {
        let Some(asked) = self.callers.asked.iter().find(|asked| asked.number == number) else {
            return;
        };
        let outcome = match fault {
            None => CheckpointOutcome::Answered,
            Some(Fault::NoAuth) if asked.request == CheckpointRequest::Gate => {
                CheckpointOutcome::Answered
            }
            Some(Fault::Lost | Fault::Refused) => CheckpointOutcome::Passing,
            Some(Fault::NoAuth | Fault::Broken) => {
                CheckpointOutcome::Failed(Error::closed("cache", "/r"))
            }
        };
        self.wire.push_back(Sent::Outcome(number, outcome, self.server.zxid));
    }

    pub(super) fn receive_outcome(&mut self, number: u64, outcome: CheckpointOutcome) {
        let asked = self.callers.asked.iter_mut().find(|asked| asked.number == number);
        if let Some(asked) = asked {
            asked.outcome = Some(outcome);
        }
    }

    /// The cache takes the response to a request without reads.
    pub(super) fn take_outcome(&mut self) -> Checked {
        let is_answered = |asked: &Asked| asked.outcome.is_some();
        let Some(at) = self.callers.asked.iter().position(is_answered) else { return Ok(()) };
        let Asked { request, heard, outcome, .. } = self.callers.asked.remove(at);
        let outcome = outcome.unwrap_or(CheckpointOutcome::Passing);
        self.report(CheckpointInput::Answered { request, heard, outcome })
    }

    /// Returns `true` if no caller waits.
    pub(super) fn are_content(&self) -> bool {
        let is_done = |asked: &Question| asked.is_answered || asked.has_given_up.get();
        self.callers.asked.is_empty()
            && self.callers.questions.iter().all(is_done)
            && (!self.callers.needs_proof || self.callers.published.1)
    }

    /// Checks, when everything is at rest, that the last known transaction was published.
    pub(super) fn check_published(&mut self) -> Checked {
        self.turn()?;
        prop_assert_eq!(self.callers.published.0, self.seen);
        Ok(())
    }
}
