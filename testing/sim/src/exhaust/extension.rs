//! The plans that extend a plan by one fault.

use super::fault::PointFault;
use super::plan::FaultPlan;
use super::point::DecisionPoint;

/// Returns the plans that have one more fault, at the points of a run with this plan. The new fault
/// is not before the last one, so every set of faults is in exactly one list.
pub(super) fn extensions(plan: &FaultPlan, points: &[DecisionPoint]) -> Vec<FaultPlan> {
    let last = plan.faults().last().copied();
    let decided = plan.faults().iter().rfind(|(_, fault)| fault.is_verdict());
    let from = last.map_or(0, |(last, _)| last);
    let mut found = Vec::new();
    for (number, point) in (0..).zip(points).skip(from as usize) {
        for fault in PointFault::at(point) {
            let is_new = last.is_none_or(|last| (number, fault) > last);
            let is_decided = fault.is_verdict() && decided.is_some_and(|(at, _)| *at == number);
            if is_new && !is_decided {
                found.push(plan.with(number, fault));
            }
        }
    }
    found
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;
    use std::time::Duration;

    use zk_curator_proto::OpCode;

    use super::super::point::PointKind;
    use super::*;

    fn request(client: u32, open: &[u32]) -> DecisionPoint {
        let kind = PointKind::Request {
            opcode: OpCode::Create,
            path: None,
            throttlable: true,
            operable: 0,
            open: open.to_vec(),
        };
        DecisionPoint { at: Duration::ZERO, client, kind }
    }

    fn texts(plan: &str, points: &[DecisionPoint]) -> Vec<String> {
        let plan = plan.parse().expect("a plan");
        extensions(&plan, points).iter().map(ToString::to_string).collect()
    }

    #[test]
    fn every_set_of_faults_is_made_once() {
        let points = [request(0, &[0]), request(1, &[0, 1])];
        let first = texts("none", &points);
        assert_eq!(first.iter().filter(|plan| plan.starts_with("0:")).count(), 9, "{first:?}");
        assert_eq!(first.iter().filter(|plan| plan.starts_with("1:")).count(), 11, "{first:?}");
        let mut pairs = BTreeSet::new();
        for plan in &first {
            for pair in texts(plan, &points) {
                assert!(pairs.insert(pair.clone()), "{pair} is made twice");
            }
        }
        // All pairs without those that decide twice about one request.
        let (verdicts, all) = (6 * 5 / 2 * 2, 20 * 19 / 2);
        assert_eq!(pairs.len(), all - verdicts);
    }
}
