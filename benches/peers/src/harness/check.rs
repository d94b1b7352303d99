//! Checks the results of a client.

use std::collections::BTreeMap;

use super::plan::{Case, reconnect};

/// Checks the `check` of a run. Not every client works again after an outage: that is a result.
///
/// # Errors
/// A text that names the first difference.
#[expect(clippy::too_many_lines, reason = "a list of checks")]
pub(super) fn verify(
    case: &Case,
    payload: usize,
    operations: usize,
    check: &str,
) -> Result<(), String> {
    let seen = parse(check).ok_or_else(|| format!("cannot read {check:?}"))?;
    let each = |name: &'static str| (name, Wanted::Is(case.operations));
    let wanted: &[(&str, Wanted)] = &match case.workload.name {
        "raw-get" | "scale-sessions" => vec![("bytes", Wanted::Is(case.operations * payload))],
        "raw-set" => vec![each("version")],
        "raw-create-delete" => vec![each("created"), each("deleted")],
        "mutex" | "mutex-drop" | "shared-mutex" | "shared-mutex-plain" | "handover"
        | "scale-waiters" => {
            vec![("max_holders", Wanted::Is(1)), each("acquired")]
        }
        "many-locks" => vec![
            ("max_holders", Wanted::Is(1)),
            each("acquired"),
            // Chosen at random, of 1,000.
            ("locks", Wanted::Within(case.operations.min(1000) / 2, 1000)),
        ],
        "fleet-return" => vec![
            ("bytes", Wanted::Is(case.size * case.operations * payload)),
            ("kept", Wanted::Is(case.size * case.operations)),
        ],
        "cut" | "expiry" => vec![
            ("asked", Wanted::Within(100, usize::MAX)),
            ("works", Wanted::Within(0, 1)),
            ("kept", Wanted::Within(0, 1)),
        ],
        "semaphore" => {
            vec![("max_holders", Wanted::Within(1, (case.size / 2).max(1))), each("acquired")]
        }
        "read-write" => {
            vec![("max_writers", Wanted::Is(1)), ("mixed", Wanted::Is(0)), each("acquired")]
        }
        "leader" => vec![("max_leaders", Wanted::Is(1)), each("terms")],
        "double-barrier" => vec![each("rounds"), ("early", Wanted::Is(0))],
        "two-phase" => vec![each("committed")],
        "counter" | "counter-tasks" => {
            vec![each("highest"), each("distinct")]
        }
        "cache-load" => vec![("nodes", Wanted::Is(case.size * case.operations))],
        "cache-change" | "discovery-change" | "scale-cache" | "watch-data" => vec![each("changes")],
        "discovery-register" => vec![each("registered")],
        "discovery-query" | "discovery-load" => {
            vec![("instances", Wanted::Is(case.size * case.operations))]
        }
        "discovery-pick" => {
            vec![each("picked"), ("distinct", Wanted::Is(case.size.min(case.operations)))]
        }
        "migrate-none" => vec![("already", Wanted::Is(case.size * case.operations))],
        "migrate-missing" => vec![("applied", Wanted::Is(case.size * case.operations))],
        "migrate-fleet" => vec![("applied", Wanted::Is(3 * case.operations))],
        "children-with-data" => vec![("nodes", Wanted::Is(case.size * case.operations))],
        "typed-get" => vec![each("read")],
        "typed-modify" | "stm-contended" => vec![each("highest")],
        "stm" => vec![each("moved"), ("total", Wanted::Is(0))],
        "lease" => vec![each("taken")],
        "once-per" => vec![each("runs"), each("distinct")],
        "partition-join" | "partition-leave" => {
            vec![("owners_at_once", Wanted::Is(1)), each("changes")]
        }
        "scale-registrations" => vec![each("updates")],
        "scale-watches" => vec![each("events")],
        "embedded-server" => vec![each("started")],
        name if name.ends_with("-put") => vec![each("items")],
        name if name.contains("queue") => vec![
            each("items"),
            each("distinct"),
            // Several threads of Curator promise none.
            (
                "order",
                Wanted::Among(if name == "queue-take-window" { &["ok", "none"] } else { &["ok"] }),
            ),
        ],
        name => {
            let of =
                reconnect(case).ok_or_else(|| format!("nobody knows what {name} has to see"))?;
            let changed = of.changes * case.operations;
            vec![
                ("nodes", Wanted::Is(of.clients * of.nodes)),
                ("changed", Wanted::Is(of.clients * changed)),
            ]
        }
    };
    if operations != case.operations {
        return Err(format!("{operations} operations instead of {}", case.operations));
    }
    for (key, wanted) in wanted {
        let value = seen.get(key).ok_or_else(|| format!("{key} is missing in {check:?}"))?;
        if !wanted.admits(value) {
            return Err(format!("{key} is {value}, and has to be {wanted:?}"));
        }
    }
    Ok(())
}

#[derive(Debug)]
enum Wanted {
    Is(usize),
    Within(usize, usize),
    Among(&'static [&'static str]),
}

impl Wanted {
    fn admits(&self, value: &str) -> bool {
        match *self {
            Self::Is(wanted) => value.parse() == Ok(wanted),
            Self::Within(least, most) => {
                value.parse().is_ok_and(|value| (least..=most).contains(&value))
            }
            Self::Among(wanted) => wanted.contains(&value),
        }
    }
}

/// `a=1 b=2`
fn parse(check: &str) -> Option<BTreeMap<&str, &str>> {
    check.split_whitespace().map(|pair| pair.split_once('=')).collect()
}

#[cfg(test)]
mod tests {
    use super::super::matrix::Setting;
    use super::super::plan::{Case, WORKLOADS};
    use super::*;

    fn case(name: &str, size: usize, operations: usize) -> Case {
        let workload = WORKLOADS.iter().find(|workload| workload.name == name).unwrap();
        Case { workload, setting: Setting::Loopback, size, operations, warmup: 0 }
    }

    #[test]
    fn what_has_to_be_seen_is_accepted_and_nothing_else() {
        let ok = |name, check| verify(&case(name, 8, 40), 100, 40, check);
        let good = [
            ("raw-get", "bytes=4000"),
            ("handover", "max_holders=1 acquired=40"),
            ("read-write", "max_writers=1 mixed=0 acquired=40"),
            ("semaphore", "max_holders=4 acquired=40"),
            ("leader", "max_leaders=1 terms=40"),
            ("double-barrier", "rounds=40 early=0"),
            ("many-locks", "max_holders=1 acquired=40 locks=39"),
            ("fleet-return", "bytes=32000 kept=320"),
            ("cut", "asked=200 works=0 kept=1"),
            ("queue-take", "items=40 distinct=40 order=ok"),
            ("queue-take-window", "items=40 distinct=40 order=none"),
            ("queue-put", "items=40"),
            ("queue-locking-put", "items=40"),
            ("cache-reconnect-many", "nodes=8000 changed=3200"),
        ];
        for (name, check) in good {
            assert_eq!(ok(name, check), Ok(()), "{name}");
        }
        let bad = [
            ("raw-get", "bytes=3999"),
            ("raw-get", ""),
            ("raw-get", "4000"),
            ("handover", "max_holders=2 acquired=40"),
            ("handover", "max_holders=0 acquired=40"),
            ("handover", "max_holders=1 acquired=39"),
            ("handover", "acquired=40"),
            ("read-write", "max_writers=1 mixed=1 acquired=40"),
            ("semaphore", "max_holders=5 acquired=40"),
            ("leader", "max_leaders=2 terms=40"),
            ("double-barrier", "rounds=40 early=1"),
            ("many-locks", "max_holders=2 acquired=40 locks=39"),
            ("many-locks", "max_holders=1 acquired=40 locks=1"),
            ("fleet-return", "bytes=31900 kept=320"),
            ("fleet-return", "bytes=32000 kept=319"),
            ("cut", "asked=20 works=1 kept=1"),
            ("expiry", "asked=200 works=2 kept=0"),
            ("queue-take", "items=40 distinct=39 order=ok"),
            ("queue-take", "items=40 distinct=40 order=wrong"),
            ("queue-take", "items=40 distinct=40 order=none"),
            ("queue-take-window", "items=40 distinct=40 order=wrong"),
            ("cache-reconnect-many", "nodes=8000 changed=3199"),
            ("cache-reconnect", "nodes=8 changed=1"),
        ];
        for (name, check) in bad {
            assert!(ok(name, check).is_err(), "{name}: {check}");
        }
        assert!(verify(&case("queue-put", 1, 40), 100, 39, "items=40").is_err());
    }

    #[test]
    fn every_workload_has_something_to_see() {
        for workload in WORKLOADS.iter().filter(|workload| workload.name != "startup") {
            let error = verify(&case(workload.name, 8, 40), 100, 40, "nothing=0").unwrap_err();
            assert!(error.contains("missing"), "{}: {error}", workload.name);
        }
    }
}
