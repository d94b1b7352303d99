//! Faults at decision points.

use std::collections::BTreeSet;
use std::sync::Arc;
use std::time::Duration;

use tokio::time::Instant;
use zk_curator_client::ErrorCode;
use zk_curator_client::internal::sleep_until;
use zk_curator_testing::{Direction, RuleGuard, Verdict};

use super::World;
use crate::exhaust::{PointFault, PointKind, PointRecorder, Struck};
use crate::faults::{Fault, FaultAction};
use crate::history::{Event, ProcessId};
use crate::process::HESITATION;

/// The time in which faults may begin, unless the workload says otherwise, in session timeouts.
const HORIZON: u32 = 5;
/// The time for which a request waits until the world has performed the faults before it.
const BEFORE: Duration = Duration::from_millis(1);
/// The time that a killed process takes to restart.
const RESTART: Duration = Duration::from_millis(100);
/// The time after the end of a session by the clock of its client in which it may still live for
/// the servers.
const MOMENT: Duration = Duration::from_millis(2);
/// The time that a request is late: longer than the requests of other clients take.
const LATE: Duration = Duration::from_millis(25);

impl World<'_> {
    /// Installs a rule that counts the requests of clients as decision points.
    pub(super) fn count_requests(&self, points: Arc<PointRecorder>) -> RuleGuard {
        let hosts: Vec<_> =
            self.seats.iter().map(|seat| (seat.number, Arc::clone(&seat.host))).collect();
        let (operator, run, cluster) = (self.operator(), self.run.clone(), self.cluster.clone());
        self.cluster.rule(move |request| {
            let session = request.session_id();
            let sessions: Vec<_> =
                hosts.iter().map(|(client, host)| (*client, host.lock().sessions())).collect();
            let of = sessions.iter().find(|(_, sessions)| sessions.contains(&session));
            let Some(&(client, _)) = of else { return Verdict::Pass };
            let operable = operator.nodes();
            let is_open = |sessions: &[i64]| sessions.iter().any(|id| cluster.has_session(*id));
            let open = sessions.iter().filter(|(_, sessions)| is_open(sessions));
            let kind = PointKind::Request {
                opcode: request.opcode(),
                path: request.path().map(str::to_owned),
                throttlable: request.is_throttlable(),
                operable: operable.len(),
                open: open.map(|(client, _)| *client).collect(),
            };
            let mut verdict = Verdict::Pass;
            for struck in points.reach(client, kind) {
                match struck.fault {
                    PointFault::Operate { node } => {
                        note(&run, struck);
                        if let Some(path) = operable.get(node) {
                            let _is_deleted = operator.delete(path);
                        }
                    }
                    PointFault::LoseRequest => verdict = Verdict::LoseRequest,
                    PointFault::LoseReply => verdict = Verdict::LoseReply,
                    PointFault::Throttle => verdict = Verdict::Refuse(ErrorCode::Throttled),
                    PointFault::Delay => verdict = Verdict::Delay(LATE),
                    PointFault::LoseReplyAndCut => {
                        verdict = Verdict::LoseReply;
                        points.perform(struck);
                    }
                    PointFault::LoseRequestAndCut => {
                        verdict = Verdict::LoseRequest;
                        points.perform(struck);
                    }
                    _ => {
                        if verdict == Verdict::Pass {
                            verdict = Verdict::Delay(BEFORE);
                        }
                        points.perform(struck);
                    }
                }
                if struck.fault.is_verdict() {
                    note(&run, struck);
                }
            }
            verdict
        })
    }

    /// Lets the faults happen at their points, until the last one is over, the clients have had
    /// time for all of their points, or all clients have finished. Returns `false` if the run has
    /// failed.
    pub(super) async fn play_plan(&mut self, points: &PointRecorder) -> bool {
        let session = self.sim.session_timeout;
        let began = Instant::now();
        let latest = began + self.sim.faults_within.unwrap_or(session * HORIZON);
        let mut ends: BTreeSet<(Instant, usize)> = BTreeSet::new();
        loop {
            let horizon = if self.all_rest(points) {
                // By then the sessions of processes that are gone have ended.
                latest.min(began + points.last_activity() + session + session / 2)
            } else {
                latest
            };
            let is_past = Instant::now() >= horizon;
            let first = ends.first().copied();
            if is_past && first.is_none() && points.is_idle() {
                // Some clients wait until there will be no more faults.
                points.fault_ends();
                break;
            }
            let next = match first {
                Some((end, _)) if is_past => end,
                Some((end, _)) => end.min(horizon),
                None => horizon,
            };
            tokio::select! {
                biased;
                () = self.run.failed() => return false,
                struck = points.next() => {
                    self.take_note_of_finished();
                    let stopped = self.stopped_for(&ends, struck.client);
                    ends.extend(self.strike(struck, stopped).await);
                }
                () = self.watch.all_finished(self.seats.len()) => break,
                () = points.rests() => {}
                () = sleep_until(next) => {
                    self.take_note_of_finished();
                    if let Some((end, index)) = first.filter(|(end, _)| *end <= Instant::now()) {
                        ends.remove(&(end, index));
                        self.end(index).await;
                        points.fault_ends();
                    }
                }
            }
        }
        points.end();
        self.undisturbed_since = points.last_fault();
        true
    }

    /// Returns `true` if all clients that have not finished wait until there are no more faults.
    fn all_rest(&self, points: &PointRecorder) -> bool {
        let (resting, finished) = (points.resting(), self.watch.finished());
        let rests = |seat: &u32| resting.contains(seat) || finished.contains(seat);
        self.seats.iter().map(|seat| &seat.number).all(rests)
    }

    /// Returns the time for which the process of a client is still stopped.
    fn stopped_for(&self, ends: &BTreeSet<(Instant, usize)>, client: u32) -> Duration {
        let stops = |index: usize| {
            matches!(
                &self.schedule[index].1.action,
                FaultAction::PauseClient { client: of } if *of == client
            )
        };
        let last = ends.iter().rev().find(|(_, index)| stops(*index));
        last.map_or(Duration::ZERO, |(end, _)| end.saturating_duration_since(Instant::now()))
    }

    /// Lets a fault happen. `stopped` is the time for which its process is still stopped. Returns
    /// the ends of what lasts, with their indexes.
    async fn strike(&mut self, struck: Struck, stopped: Duration) -> Vec<(Instant, usize)> {
        let session = self.sim.session_timeout;
        let long = session + session / 2;
        let client = struck.client;
        let (action, lasts) = match struck.fault {
            PointFault::Expire { client } => (FaultAction::Expire { client }, Duration::ZERO),
            PointFault::Disconnect { client } => {
                (FaultAction::Disconnect { client }, Duration::ZERO)
            }
            PointFault::ChangeLeader => (FaultAction::ChangeLeader, Duration::ZERO),
            PointFault::Close => (FaultAction::Close { client, late: false }, Duration::ZERO),
            PointFault::CloseFirst => (FaultAction::Close { client, late: true }, Duration::ZERO),
            PointFault::Jump => (FaultAction::Jump { by: long }, Duration::ZERO),
            PointFault::Kill => (FaultAction::KillClient { client, silently: false }, RESTART),
            PointFault::Vanish => (FaultAction::KillClient { client, silently: true }, RESTART),
            PointFault::CutToEnd => {
                let cut = FaultAction::CutClient { client, direction: Direction::Both };
                (cut, session + MOMENT)
            }
            // Its task waits when the process runs again; the process counts as delayed until then.
            PointFault::Hesitate => {
                (FaultAction::Busy { client, most: Duration::ZERO }, stopped + HESITATION)
            }
            PointFault::Pause => (FaultAction::PauseClient { client }, long),
            PointFault::PauseToEnd => (FaultAction::PauseClient { client }, session + MOMENT),
            PointFault::Cut | PointFault::LoseReplyAndCut | PointFault::LoseRequestAndCut => {
                (FaultAction::CutClient { client, direction: Direction::Both }, long)
            }
            PointFault::Lag => {
                let mut ends = Vec::new();
                // The leader does not lag.
                for server in 0..self.sim.servers {
                    ends.push(self.inject(FaultAction::Lag { server, by: None }, session).await);
                }
                return ends;
            }
            // The rule has decided about the request.
            PointFault::Operate { .. }
            | PointFault::LoseRequest
            | PointFault::LoseReply
            | PointFault::Throttle
            | PointFault::Delay
            | PointFault::Drop => return Vec::new(),
        };
        let end = self.inject(action, lasts).await;
        // The process has waited for this.
        self.reconcile().await;
        if lasts.is_zero() { Vec::new() } else { vec![end] }
    }

    /// Begins a fault now. Returns its end and its index.
    async fn inject(&mut self, action: FaultAction, lasts: Duration) -> (Instant, usize) {
        let index = self.schedule.len();
        self.schedule.push((index, Fault { at: self.run.elapsed(), lasts, action }));
        self.begin(index).await;
        (Instant::now() + lasts, index)
    }
}

/// Records a fault that a rule performs.
fn note(run: &crate::Run, struck: Struck) {
    let text = format!("[{}] {} of c{}", struck.point, struck.fault, struck.client);
    run.record(ProcessId::World, Event::Fault { text });
}
