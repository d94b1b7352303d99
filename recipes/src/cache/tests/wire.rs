//! The wire between the server and the client: messages are sent, arrive, or are lost.

use zk_curator::{ErrorKind, EventType, WatchedEvent};

use super::model::{Checked, Model, Place, Sent};
use super::server::Write;
use super::setup::{Fault, Flaw};
use crate::cache::state::{CacheRead, CacheReadAnswer, ReadKind};
use crate::cache::told::{CheckpointInput, CheckpointOutcome};

impl Model {
    pub(super) fn commit(&mut self, writes: &[Write]) {
        let events = self.server.commit(writes);
        if !self.is_connected {
            return;
        }
        let events: Vec<_> = if self.setup.is_persistent {
            events.into_iter().map(|event| (event, None)).collect()
        } else {
            events.iter().flat_map(|event| self.fired(event)).collect()
        };
        let (count, zxid) = (events.len(), self.server.zxid);
        for (at, (event, place)) in events.into_iter().enumerate() {
            let event = if self.setup.tells_zxids { event } else { event.with_zxid(None) };
            self.wire.push_back(Sent::Event { event, zxid, is_last: at + 1 == count, place });
        }
    }

    /// The one-shot watches that a change fires, with their events.
    fn fired(&mut self, change: &WatchedEvent) -> Vec<(WatchedEvent, Option<Place>)> {
        let mut fired = Vec::new();
        let mut fire = |path: &str, what, kind| {
            let place = (path.to_owned(), what);
            if self.set.remove(&place) {
                let event = WatchedEvent::new(kind, path.to_owned()).with_zxid(change.zxid());
                fired.push((event, Some(place)));
            }
        };
        let path = change.path.as_str();
        match change.event_type {
            EventType::NodeDeleted => {
                // A reason to read the node.
                fire(path, ReadKind::Data, EventType::NodeDataChanged);
                fire(path, ReadKind::Names, EventType::NodeDataChanged);
            }
            kind => fire(path, ReadKind::Data, kind),
        }
        if change.event_type != EventType::NodeDataChanged
            && let Some((parent, _)) = path.rsplit_once('/')
        {
            let parent = if parent.is_empty() { "/" } else { parent };
            fire(parent, ReadKind::Names, EventType::NodeChildrenChanged);
        }
        fired
    }

    /// Sets the one-shot watches again, and fires the watches that have missed something.
    fn set_again(&mut self) {
        for (place, is_for_creation) in self.watched.clone() {
            let (path, what) = &place;
            let kind = match (self.server.nodes.get(path), what) {
                (Some(_), ReadKind::Data) if is_for_creation => Some(EventType::NodeCreated),
                (None, ReadKind::Data) if is_for_creation => None,
                (Some(node), ReadKind::Data) if node.mzxid <= self.seen => None,
                (Some(node), ReadKind::Names) if node.pzxid <= self.seen => None,
                (Some(_), ReadKind::Names) => Some(EventType::NodeChildrenChanged),
                (Some(_) | None, _) => Some(EventType::NodeDataChanged),
            };
            let Some(kind) = kind else {
                self.set.insert(place);
                continue;
            };
            let event = WatchedEvent::new(kind, path.clone());
            self.wire.push_back(Sent::Event { event, zxid: 0, is_last: true, place: Some(place) });
        }
    }

    /// The one-shot watch that a read leaves, and whether it waits for the node to be created.
    pub(super) fn left(&self, job: &CacheRead, answer: &CacheReadAnswer) -> Option<(Place, bool)> {
        let is_for_creation = matches!(answer, CacheReadAnswer::Missing);
        let is_left = match answer {
            CacheReadAnswer::Data(_) | CacheReadAnswer::Names(_) => true,
            CacheReadAnswer::Missing => job.what == ReadKind::Data && &*job.path == self.setup.root,
            CacheReadAnswer::Failed(_) => false,
        };
        let is_left = is_left && !self.setup.is_persistent;
        is_left.then(|| ((job.path.to_string(), job.what), is_for_creation))
    }

    pub(super) fn serve(&mut self, fault: Option<(usize, Fault)>) {
        let Some(number) = self.requests.pop_front() else { return };
        self.served += 1;
        let Some(flight) = self.flights.iter().find(|flight| flight.number == number) else {
            return self.serve_asked(number, fault.map(|(_, fault)| fault));
        };
        let answer = |(at, job)| match fault {
            Some((which, fault)) if which % flight.jobs.len() == at => match fault {
                Fault::NoAuth => Ok(CacheReadAnswer::Failed(ErrorKind::NoAuth)),
                Fault::Broken => Ok(CacheReadAnswer::Failed(ErrorKind::Malformed)),
                Fault::Lost | Fault::Refused => Err(fault),
            },
            _ => Ok(self.server.answer(job, self.setup.size)),
        };
        let answers: Vec<_> = flight.jobs.iter().enumerate().map(answer).collect();
        for (job, answer) in flight.jobs.iter().zip(&answers) {
            let left = answer.as_ref().ok().and_then(|answer| self.left(job, answer));
            self.set.extend(left.map(|(place, _)| place));
            if job.what == ReadKind::Data && answer.is_ok() {
                self.last_read.insert(job.path.to_string(), self.served);
            }
        }
        self.wire.push_back(Sent::Answers(number, answers, self.server.zxid));
    }

    pub(super) fn receive(&mut self, count: usize) {
        for _ in 0..count {
            match self.wire.pop_front() {
                Some(Sent::Answers(number, answers, zxid)) => {
                    self.seen = self.seen.max(zxid);
                    // The cache may have forgotten the request.
                    let at = self.flights.iter().position(|flight| flight.number == number);
                    let Some(at) = at else { continue };
                    for (job, answer) in self.flights[at].jobs.iter().zip(&answers) {
                        let left = answer.as_ref().ok().and_then(|answer| self.left(job, answer));
                        self.watched.extend(left);
                    }
                    self.flights[at].answers = Some(Some((answers, zxid)));
                }
                Some(Sent::Outcome(number, outcome, zxid)) => {
                    self.seen = self.seen.max(zxid);
                    self.receive_outcome(number, outcome);
                }
                Some(Sent::Pong(zxid)) => self.seen = self.seen.max(zxid),
                Some(event) => {
                    match &event {
                        Sent::Event { place: Some(place), .. } => drop(self.watched.remove(place)),
                        Sent::Rearmed(..) => self.is_new_session = false,
                        _ => {}
                    }
                    self.arrived.push_back(event);
                }
                None => return,
            }
        }
    }

    pub(super) fn cut(&mut self, retries: bool) {
        if !self.is_connected {
            return;
        }
        self.is_connected = false;
        self.arrived.push_back(Sent::Disarmed);
        self.wire.clear();
        self.requests.clear();
        self.set.clear();
        for flight in self.flights.iter_mut().filter(|flight| flight.answers.is_none()) {
            if retries {
                self.again.push_front(flight.number);
            } else {
                flight.answers = Some(None);
            }
        }
        for asked in self.callers.asked.iter_mut().filter(|asked| asked.outcome.is_none()) {
            if retries {
                self.again.push_front(asked.number);
            } else {
                asked.outcome = Some(CheckpointOutcome::Passing);
            }
        }
    }

    pub(super) fn reconnect(&mut self) {
        if self.is_connected {
            return;
        }
        self.is_connected = true;
        if self.setup.is_persistent || self.is_new_session {
            let unchanged = self.setup.tells_unchanged && self.server.zxid == self.seen;
            self.wire.push_back(Sent::Rearmed(self.server.zxid, unchanged));
        } else {
            self.set_again();
            self.wire.push_back(Sent::CaughtUp(self.server.zxid));
        }
        self.requests = std::mem::take(&mut self.again);
    }

    pub(super) fn lose(&mut self) -> Checked {
        self.cut(false);
        self.arrived.clear();
        self.forget_flights();
        self.callers.asked.clear();
        self.again.clear();
        self.watched.clear();
        self.added.clear();
        self.is_new_session = true;
        self.is_armed = false;
        self.is_partial = true;
        self.report(CheckpointInput::Ended)?;
        self.state.forget_reads();
        self.needs_sweep = self.setup.flaw != Flaw::NoSweep;
        self.is_ahead = self.setup.asks_quorum && self.state.tree().len() > 0;
        Ok(())
    }

    pub(super) fn ping(&mut self) {
        if self.is_connected {
            self.wire.push_back(Sent::Pong(self.server.zxid));
        }
    }

    /// The client sends a request, or keeps it until the reconnect.
    pub(super) fn submit(&mut self, number: u64) {
        if self.is_connected { &mut self.requests } else { &mut self.again }.push_back(number);
    }
}
