//! `inspect` recognises the nodes of Java Curator and of kazoo.

use std::fmt::Write;
use std::path::Path;
use std::process::Stdio;
use std::time::Duration;

use tokio::io::{AsyncBufReadExt, BufReader};
use tokio::process::{Child, Command};
use tokio::time::timeout;
use zk_curator_recipes::inspect::{Contender, Found, find, inspect};
use zk_curator_tests::{builder_for, start};

use crate::contest::compiled;

const BASE: &str = "/inspected";
const PATIENCE: Duration = Duration::from_secs(120);

const OF_CURATOR: &str = "\
/inspected/double: double barrier of Curator, perhaps; waits member
/inspected/latch: leader election of Curator; holds candidate one; waits candidate two
/inspected/mutex: mutex of Curator; holds exclusive one; waits exclusive two
/inspected/queue: simple queue of ZooKeeper's recipes; waits item one
/inspected/rw: read/write lock of Curator; holds reader one; waits writer two
/inspected/semaphore: semaphore of Curator; holds permit one; waits acquirer two
/inspected/group: group of Curator, perhaps; holds member one
";

const OF_KAZOO: &str = "\
/inspected/claims: queue with claims of kazoo; holds claim; waits item free
/inspected/double: double barrier of kazoo, perhaps; waits member two
/inspected/lease: lease with an end of kazoo; holds lease
/inspected/lock: mutex of kazoo; holds exclusive one; waits exclusive two
/inspected/party: group of kazoo; holds member one
/inspected/queue: priority queue of kazoo; waits item first, item late
/inspected/rw: read/write lock of kazoo; holds reader one; waits writer two
/inspected/semaphore: semaphore of kazoo; holds permit one; waits acquirer
/inspected/shallow: group of kazoo; holds member one
";

/// The findings as text, a line for each. Labels that are not those of the test, such as addresses,
/// are left out.
fn written(found: &Found, guesses: &[zk_curator_recipes::inspect::Finding]) -> String {
    let mut text = String::new();
    for finding in found.findings.iter().chain(guesses) {
        let guess = if finding.is_guess { ", perhaps" } else { "" };
        write!(text, "{}: {} of {}{guess}", finding.path, finding.kind, finding.library).unwrap();
        for (word, contenders) in [("holds", &finding.holders), ("waits", &finding.waiting)] {
            let contenders: Vec<_> = contenders.iter().map(described).collect();
            if !contenders.is_empty() {
                write!(text, "; {word} {}", contenders.join(", ")).unwrap();
            }
        }
        assert!(finding.ignored.is_empty() && !finding.is_partial, "{finding:?}");
        text.push('\n');
    }
    text
}

fn described(contender: &Contender) -> String {
    let label = contender.label_str();
    if ["one", "two", "first", "late", "free"].contains(&&*label) {
        format!("{} {label}", contender.role)
    } else {
        contender.role.to_string()
    }
}

/// Waits until a program has made all nodes, and compares the findings with lines in any order.
async fn recognises(mut program: Child, connect_string: &str, expected: &str) {
    let mut lines = BufReader::new(program.stdout.take().unwrap()).lines();
    assert_eq!(lines.next_line().await.unwrap().as_deref(), Some("READY"));
    let zk = start(builder_for(connect_string)).await;
    let found = find(&zk, BASE, 1000).await.unwrap();
    assert!(found.is_complete);
    // A search leaves guesses out, except groups.
    let double = inspect(&zk, format!("{BASE}/double")).await.unwrap();
    let text = written(&found, &[double]);
    let (mut lines, mut expected): (Vec<_>, Vec<_>) =
        (text.lines().collect(), expected.lines().collect());
    lines.sort_unstable();
    expected.sort_unstable();
    assert_eq!(lines, expected);
    // The node of a contender belongs to its recipe.
    for finding in found.findings.iter().filter(|finding| !finding.is_guess) {
        for contender in finding.holders.iter().chain(&finding.waiting) {
            let path = &inspect(&zk, &contender.path).await.unwrap().path;
            assert!(*path == finding.path || path.ends_with("-__lock__"), "{path}");
        }
    }
    zk.close().await.unwrap();
}

on_each_with_java! {
    curators_recipes_are_recognised,
    |servers| {
        let program = compiled("CuratorInspected.java").await;
        let child = program.spawn([&*servers, BASE]).unwrap();
        timeout(PATIENCE, recognises(child, &servers, OF_CURATOR)).await.unwrap();
    }
}

on_each_with_kazoo! {
    kazoos_recipes_are_recognised,
    |python, servers| {
        let script = Path::new(env!("CARGO_MANIFEST_DIR")).join("interop/kazoo_inspected.py");
        let mut kazoo = Command::new(&python);
        kazoo.arg("-B").arg(&script).args([&*servers, BASE]);
        let kazoo = kazoo.stdin(Stdio::piped()).stdout(Stdio::piped()).kill_on_drop(true).spawn();
        timeout(PATIENCE, recognises(kazoo.unwrap(), &servers, OF_KAZOO)).await.unwrap();
    }
}
