//! A model of a cache: it processes the messages of the server, as the task of a cache does.

use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::sync::Arc;

use proptest::prelude::*;
use proptest::test_runner::TestCaseError;
use zk_curator::{ErrorKind, EventType, WatchedEvent};

use super::callers::{Asker, Callers};
use super::server::{Server, Write};
use super::setup::{Fault, Flaw, Setup, Step, is_kept};
use crate::cache::state::{CacheRead, CacheReadAnswer, CacheScope, Cause, ReadKind, TreeState};
use crate::cache::told::{
    CheckpointInput, CheckpointOutcome, CheckpointRequest, CheckpointStanding, Checkpoints,
};

/// The maximum number of requests in flight.
const PARALLEL: usize = 4;

/// The purpose of a one-shot watch.
pub(super) type Place = (String, ReadKind);

/// The messages that the server has sent.
#[derive(Debug)]
pub(super) enum Sent {
    Event {
        event: WatchedEvent,
        zxid: i64,
        is_last: bool,
        /// The one-shot watch that has fired.
        place: Option<Place>,
    },
    Disarmed,
    /// The watch was added again after this transaction, or all one-shot watches were. `true` if
    /// there was no transaction since the last response.
    Rearmed(i64, bool),
    /// The one-shot watches were set again in the same session, and the changes that they have
    /// missed were reported.
    CaughtUp(i64),
    /// The responses to a request, after this transaction.
    Answers(u64, Vec<Result<CacheReadAnswer, Fault>>, i64),
    /// The response to a request without reads.
    Outcome(u64, CheckpointOutcome, i64),
    /// The response to a ping.
    Pong(i64),
}

/// The responses to a request, and the newest transaction of the server.
pub(super) type Answers = (Vec<Result<CacheReadAnswer, Fault>>, i64);

/// A request and its responses.
#[derive(Debug)]
pub(super) struct Flight {
    pub(super) number: u64,
    pub(super) jobs: Vec<CacheRead>,
    /// The cause of reads, and the number of events, when it was sent.
    sent: Cause,
    heard: u64,
    /// `None` inside: the request has failed.
    pub(super) answers: Option<Option<Answers>>,
}

pub(super) struct Model {
    pub(super) setup: Setup,
    pub(super) server: Server,
    pub(super) state: TreeState,
    pub(super) checkpoints: Checkpoints<Asker>,
    pub(super) callers: Callers,
    pub(super) is_connected: bool,
    /// The one-shot watches of the server and of the client. `true` if a watch waits for the
    /// creation of its node.
    pub(super) set: BTreeSet<Place>,
    pub(super) watched: BTreeMap<Place, bool>,
    /// The watches of the client that the cache knows, and the events of the others.
    pub(super) added: BTreeSet<Place>,
    pub(super) unheard: Vec<(Place, Told)>,
    /// The last transaction that a response has shown.
    pub(super) seen: i64,
    pub(super) is_new_session: bool,
    /// Requests on their way to the server, and requests repeated after the reconnect.
    pub(super) requests: VecDeque<u64>,
    pub(super) again: VecDeque<u64>,
    pub(super) wire: VecDeque<Sent>,
    /// Events that have arrived and were not taken yet.
    pub(super) arrived: VecDeque<Sent>,
    pub(super) flights: VecDeque<Flight>,
    last_number: u64,
    /// The number of served requests, and the number of the last response for each path.
    pub(super) served: u64,
    pub(super) last_read: BTreeMap<String, u64>,
    pub(super) is_armed: bool,
    pub(super) is_ahead: bool,
    pub(super) needs_sweep: bool,
    /// The last transaction of which the cache has taken everything, and whether it has taken a
    /// part of another one.
    pub(super) handled: i64,
    pub(super) is_partial: bool,
    /// The last shown state of each path, and `true` if it was removed since then.
    pub(super) shown: BTreeMap<String, ((i64, i64), bool)>,
}

/// An event, its transaction, and whether it is the last one of that.
pub(super) type Told = (WatchedEvent, i64, bool);

pub(super) type Checked = Result<(), TestCaseError>;

impl Model {
    fn new(setup: Setup) -> Self {
        let filter = setup.is_filtered.then(|| {
            let filter: Arc<dyn Fn(&str) -> bool + Send + Sync> =
                Arc::new(|path| !path.ends_with("/b"));
            filter
        });
        let kept = setup.is_kept_in_part.then(|| {
            let kept: Arc<dyn Fn(&str) -> bool + Send + Sync> = Arc::new(is_kept);
            kept
        });
        let scope = CacheScope { max_depth: setup.max_depth, filter, kept };
        let mut state = TreeState::new(setup.root.to_owned(), scope, setup.most_bytes);
        state.at_a_time = setup.at_a_time;
        if !setup.is_persistent {
            state.watch_each();
        }
        Self {
            setup,
            server: Server::new(setup.root),
            state,
            checkpoints: Checkpoints::new(),
            callers: Callers::default(),
            is_connected: true,
            set: BTreeSet::new(),
            watched: BTreeMap::new(),
            added: BTreeSet::new(),
            unheard: Vec::new(),
            seen: 0,
            is_new_session: false,
            requests: VecDeque::new(),
            again: VecDeque::new(),
            wire: VecDeque::new(),
            arrived: VecDeque::from([Sent::Rearmed(0, false)]),
            flights: VecDeque::new(),
            last_number: 0,
            served: 0,
            last_read: BTreeMap::new(),
            is_armed: false,
            is_ahead: false,
            needs_sweep: true,
            handled: 0,
            is_partial: false,
            shown: BTreeMap::new(),
        }
    }

    fn write(&mut self, writes: &[Write], is_one: bool) {
        if is_one {
            return self.commit(writes);
        }
        for write in writes {
            self.commit(&[*write]);
        }
    }

    fn step(&mut self, step: &Step) -> Checked {
        match step {
            Step::Write(writes, is_one) => self.write(writes, *is_one),
            Step::CreateAll(number, is_one) => {
                let writes = self.server.create_all(*number);
                self.write(&writes, *is_one);
            }
            Step::DeleteAll(number, is_one) => {
                let writes = self.server.delete_all(*number);
                self.write(&writes, *is_one);
            }
            Step::Replace(number) => self.commit(&[Write::Delete(*number), Write::Create(*number)]),
            Step::WriteElsewhere => self.server.write_elsewhere(),
            Step::Send => self.send()?,
            Step::Serve(fault) => self.serve(*fault),
            Step::Receive(count) => self.receive(*count),
            Step::Hear(count) => self.hear(*count)?,
            Step::Answer => self.take_response()?,
            Step::TakeOutcome => self.take_outcome()?,
            Step::Ping => self.ping(),
            Step::Cut(retries) => self.cut(*retries),
            Step::Reconnect => self.reconnect(),
            Step::Lose => self.lose()?,
            Step::Sweep => self.sweep(),
            Step::Audit => self.state.audit(),
            Step::Refresh(number) => self.question(Some(self.server.path(*number)))?,
            Step::Retry => self.state.retry_passing(),
            Step::Turn => self.turn()?,
            Step::Sync => self.question(None)?,
            Step::Check => self.check_last()?,
            Step::GiveUp(number) => self.give_up(*number),
            Step::Prove(needs_proof) => self.callers.needs_proof = *needs_proof,
            Step::Rest => self.finish()?,
        }
        self.check()
    }

    pub(super) const fn next_number(&mut self) -> u64 {
        self.last_number += 1;
        self.last_number
    }

    fn send(&mut self) -> Checked {
        let standing = self.standing();
        if standing == CheckpointStanding::Disarmed {
            return Ok(());
        }
        self.report(CheckpointInput::Send { standing, needs_proof: self.callers.needs_proof })?;
        if standing == CheckpointStanding::Ahead || self.flights.len() >= PARALLEL {
            return Ok(());
        }
        let jobs = self.state.next_batch();
        if !jobs.is_empty() {
            let number = self.next_number();
            let (sent, heard) = (self.state.news(), self.checkpoints.heard());
            self.flights.push_back(Flight { number, jobs, sent, heard, answers: None });
            self.submit(number);
        }
        Ok(())
    }

    pub(super) fn hear(&mut self, count: usize) -> Checked {
        for _ in 0..count {
            match self.arrived.pop_front() {
                Some(Sent::Event { event, zxid, is_last, place }) => match place {
                    Some(place) if !self.added.remove(&place) => {
                        self.unheard.push((place, (event, zxid, is_last)));
                    }
                    _ => self.event((event, zxid, is_last), None)?,
                },
                Some(Sent::Disarmed) => self.disarmed()?,
                Some(Sent::Rearmed(zxid, unchanged)) => self.rearmed(zxid, unchanged)?,
                Some(Sent::CaughtUp(zxid)) => self.rearmed(zxid, true)?,
                _ => return Ok(()),
            }
            self.check()?;
        }
        Ok(())
    }

    /// Passes an event to the state. It may have been waiting since this time.
    fn event(&mut self, (event, zxid, is_last): Told, since: Option<Cause>) -> Checked {
        let is_lost =
            self.setup.flaw == Flaw::LostDeletions && event.event_type == EventType::NodeDeleted;
        if !is_lost && self.state.concerns(&event) {
            if self.setup.flaw != Flaw::UncountedEvents {
                self.report(CheckpointInput::Heard(1))?;
            }
            let cause = since.unwrap_or_else(|| self.state.news());
            self.change(|state, changes| state.event(&event, cause, changes))?;
        }
        self.is_partial = !is_last;
        if is_last {
            self.handled = self.handled.max(zxid);
        }
        Ok(())
    }

    fn disarmed(&mut self) -> Checked {
        self.is_armed = false;
        self.report(CheckpointInput::Disconnected)?;
        self.callers.asked.retain(|asked| asked.request != CheckpointRequest::Gate);
        self.is_ahead |= self.setup.asks_quorum && !self.checkpoints.is_proven();
        if self.is_ahead {
            self.forget_flights();
            self.needs_sweep |= self.state.is_sweeping();
            self.state.forget_reads();
            self.missed()?;
        }
        Ok(())
    }

    fn rearmed(&mut self, zxid: i64, unchanged: bool) -> Checked {
        self.is_armed = true;
        if !unchanged && !self.needs_sweep {
            self.state.missed();
            self.missed()?;
            self.needs_sweep = self.setup.flaw != Flaw::NoSweep;
        }
        (self.handled, self.is_partial) = (self.handled.max(zxid), false);
        Ok(())
    }

    fn missed(&mut self) -> Checked {
        if self.setup.flaw == Flaw::UntoldOutage {
            Ok(())
        } else {
            self.report(CheckpointInput::Missed)
        }
    }

    /// Drops these responses, and the watches that came with them.
    pub(super) fn forget_flights(&mut self) {
        self.flights.clear();
        self.unheard.clear();
    }

    fn take_response(&mut self) -> Checked {
        let Some(answers) = self.flights.front_mut().and_then(|flight| flight.answers.take())
        else {
            return Ok(());
        };
        if self.setup.flaw != Flaw::LateEvents {
            self.hear(usize::MAX)?;
        }
        let Some(Flight { jobs, sent, heard, .. }) = self.flights.pop_front() else {
            return Ok(());
        };
        let Some((answers, zxid)) = answers else {
            self.state.unanswered(&jobs);
            return Ok(());
        };
        self.add_watches(&jobs, &answers, sent)?;
        let outcome = CheckpointOutcome::Answered;
        self.report(CheckpointInput::Answered {
            request: CheckpointRequest::Reads,
            heard,
            outcome,
        })?;
        for (job, answer) in jobs.into_iter().zip(answers) {
            match answer {
                Ok(answer) => {
                    self.change(|state, changes| state.answered(&job, answer, changes))?;
                }
                Err(Fault::Refused) => self.state.refused(&[job], ErrorKind::Overloaded),
                Err(_) => self.state.unanswered(&[job]),
            }
        }
        self.handled = self.handled.max(zxid);
        Ok(())
    }

    /// From now on the cache knows the one-shot watches of a response. They may have fired.
    fn add_watches(
        &mut self,
        jobs: &[CacheRead],
        answers: &[Result<CacheReadAnswer, Fault>],
        sent: Cause,
    ) -> Checked {
        for (job, answer) in jobs.iter().zip(answers) {
            let left = answer.as_ref().ok().and_then(|answer| self.left(job, answer));
            let Some((place, _)) = left else { continue };
            let is_fired = |(fired, _): &mut (Place, Told)| *fired == place;
            let fired: Vec<_> = self.unheard.extract_if(.., is_fired).collect();
            if fired.is_empty() {
                self.added.insert(place);
            }
            for (_, told) in fired {
                let since = (self.setup.flaw != Flaw::LateWatches).then_some(sent);
                self.event(told, since)?;
            }
        }
        Ok(())
    }

    fn sweep(&mut self) {
        if self.standing() == CheckpointStanding::Behind {
            self.needs_sweep = false;
            self.state.sweep();
        }
    }

    /// Lets everything come to rest.
    fn finish(&mut self) -> Checked {
        self.reconnect();
        for round in 0.. {
            prop_assert!(round < 1000, "never at rest: {:?} {:?}", self.state, self.checkpoints);
            self.receive(usize::MAX);
            self.hear(usize::MAX)?;
            self.sweep();
            self.turn()?;
            self.send()?;
            self.serve(None);
            self.receive(usize::MAX);
            self.take_response()?;
            self.take_outcome()?;
            self.check()?;
            let is_read = self.flights.is_empty() && self.state.is_settled();
            if is_read && self.standing() == CheckpointStanding::Current && self.are_content() {
                break;
            }
        }
        self.check_published()
    }
}

/// Runs the steps, lets everything come to rest, and compares the cache with the server.
pub(super) fn run(setup: Setup, steps: &[Step]) -> Checked {
    let mut model = Model::new(setup);
    for step in steps {
        model.step(step)?;
    }
    model.finish()?;
    // Unreadable nodes are read after the next outage, or in the next session.
    if setup.is_persistent {
        model.server.write_elsewhere();
        model.cut(false);
    } else {
        model.lose()?;
    }
    model.finish()?;
    prop_assert!(model.state.unreadable().is_empty());
    prop_assert_eq!(model.handled, model.server.zxid);
    let there = model.server.nodes.iter().filter(|(path, _)| setup.covers(path));
    let there: BTreeMap<_, _> =
        there.map(|(path, node)| (path.clone(), (node.czxid, node.mzxid))).collect();
    prop_assert_eq!(model.tree(), there);
    Ok(())
}
