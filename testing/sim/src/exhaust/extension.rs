//! The plans that extend a plan by one fault.

use std::collections::BTreeSet;

use zk_curator_proto::OpCode;

use super::fault::PointFault;
use super::plan::FaultPlan;
use super::point::{DecisionPoint, PointKind};

/// Returns the plans that have one more fault, at the points of a run with this plan. The new fault
/// is not before the last one, so every set of faults is in exactly one list.
pub(super) fn extensions(plan: &FaultPlan, points: &[DecisionPoint]) -> Vec<FaultPlan> {
    let last = plan.faults().last().copied();
    let decided = plan.faults().iter().rfind(|(_, fault)| fault.is_verdict());
    let idle = idle(points);
    let is_request = |point: &DecisionPoint| matches!(point.kind, PointKind::Request { .. });
    let last_request = points.iter().rposition(is_request).unwrap_or_default();
    let mut clients = OpenSessions::default();
    let mut found = Vec::new();
    for (number, point) in (0..).zip(points) {
        clients.before(point);
        let is_past = last.is_none_or(|(last, _)| number >= last);
        if is_past && !idle.contains(&number) {
            let is_last = number as usize > last_request;
            for fault in PointFault::at(point, &clients.open, is_last) {
                let is_new = last.is_none_or(|last| (number, fault) > last);
                let is_decided = fault.is_verdict() && decided.is_some_and(|(at, _)| *at == number);
                if is_new && !is_decided {
                    found.push(plan.with(number, fault));
                }
            }
        }
        clients.after(point);
    }
    found
}

/// The clients that have a session, as far as the requests show.
#[derive(Debug, Default)]
struct OpenSessions {
    open: Vec<u32>,
}

impl OpenSessions {
    fn before(&mut self, point: &DecisionPoint) {
        if matches!(point.kind, PointKind::Request { .. }) && !self.open.contains(&point.client) {
            self.open.push(point.client);
            self.open.sort_unstable();
        }
    }

    fn after(&mut self, point: &DecisionPoint) {
        if matches!(point.kind, PointKind::Request { opcode: OpCode::CloseSession, .. }) {
            self.open.retain(|client| *client != point.client);
        }
    }
}

/// Returns the numbers of the points of a client that only repeats its pings, while no client does
/// anything else. A fault there is the same as in the first repetition, except that it is later.
fn idle(points: &[DecisionPoint]) -> BTreeSet<u32> {
    let clients: BTreeSet<u32> = points.iter().map(|point| point.client).collect();
    let mut idle = BTreeSet::new();
    for client in clients {
        let mut cycle = PingCycle::default();
        let mut before: Option<PingCycle> = None;
        for (number, point) in (0..).zip(points) {
            let is_other = matches!(point.kind, PointKind::Request { .. }) && !point.is_ping();
            if is_other || (point.client == client && matches!(point.kind, PointKind::Poll { .. }))
            {
                (cycle, before) = (PingCycle::default(), None);
            } else if point.client == client {
                cycle.points.push(number);
                if point.is_ping() {
                    let length = cycle.points.len();
                    if before.as_ref().is_some_and(|before| before.points.len() == length) {
                        idle.extend(&cycle.points);
                    }
                    before = Some(std::mem::take(&mut cycle));
                }
            }
        }
    }
    idle
}

/// The points of a client from one ping to the next.
#[derive(Debug, Default)]
struct PingCycle {
    points: Vec<u32>,
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;

    fn point(client: u32, kind: PointKind) -> DecisionPoint {
        DecisionPoint { at: Duration::ZERO, client, kind }
    }

    fn request(client: u32, opcode: OpCode) -> DecisionPoint {
        let kind = PointKind::Request {
            opcode,
            path: None,
            throttlable: opcode != OpCode::Ping,
            operable: 0,
        };
        point(client, kind)
    }

    fn texts(plan: &str, points: &[DecisionPoint]) -> Vec<String> {
        let plan = plan.parse().expect("a plan");
        extensions(&plan, points).iter().map(ToString::to_string).collect()
    }

    #[test]
    fn every_set_of_faults_is_made_once() {
        let points = [request(0, OpCode::Create), request(1, OpCode::Exists)];
        let first = texts("none", &points);
        assert_eq!(first.iter().filter(|plan| plan.starts_with("0:")).count(), 8, "{first:?}");
        assert_eq!(first.iter().filter(|plan| plan.starts_with("1:")).count(), 10, "{first:?}");
        let mut pairs = BTreeSet::new();
        for plan in &first {
            for pair in texts(plan, &points) {
                assert!(pairs.insert(pair.clone()), "{pair} is made twice");
            }
        }
        // All pairs without those that decide twice about one request.
        let (verdicts, all) = (5 * 4 / 2 * 2, 18 * 17 / 2);
        assert_eq!(pairs.len(), all - verdicts);
    }

    #[test]
    fn the_session_of_a_client_that_has_closed_does_not_expire() {
        let points = [request(0, OpCode::CloseSession), request(1, OpCode::Create)];
        let plans = texts("none", &points);
        assert!(plans.contains(&"0:expire-0".to_owned()));
        assert!(!plans.contains(&"1:expire-0".to_owned()));
    }

    #[test]
    fn repeated_pings_are_played_once() {
        let (wake, ping) = (point(0, PointKind::Wake), request(0, OpCode::Ping));
        let cycle = [wake.clone(), wake, ping];
        let mut points = [&cycle[..]; 3].concat();
        assert_eq!(idle(&points), (3..9).collect());
        // Another client does something after the second ping.
        points.insert(6, request(1, OpCode::Create));
        assert_eq!(idle(&points), (3..6).collect());
    }
}
