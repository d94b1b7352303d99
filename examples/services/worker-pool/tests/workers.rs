//! Every job is done, even if workers are killed or stopped.

use std::collections::BTreeSet;

use services_support::Service;
use zk_curator_testing::{Probe, TestServer};

const PROGRAM: &str = env!("CARGO_BIN_EXE_worker-pool");
const JOBS: usize = 12;

/// Returns the number of nodes two levels below a directory: the nodes in its buckets.
fn below(probe: &Probe, directory: &str) -> usize {
    let prefix = format!("/thumbnails/{directory}/");
    let inside = |path: &&String| path.strip_prefix(&prefix).is_some_and(|rest| rest.contains('/'));
    probe.paths().iter().filter(inside).count()
}

fn executing(probe: &Probe) -> usize {
    probe.children("/thumbnails/executing").len()
}

#[tokio::test]
async fn every_job_is_done_although_workers_are_killed_and_stopped() {
    let server = TestServer::start().await;
    let submitted = Service::start(PROGRAM, &server, &["submit", &JOBS.to_string()]);
    assert!(submitted.ended().await.success());
    assert_eq!(below(&server.probe(), "pending"), JOBS);

    // Killed while it has jobs: other workers execute them again.
    let mut killed = Service::start(PROGRAM, &server, &["work"]);
    let lost = [killed.line("begins ").await, killed.line("begins ").await];
    killed.kill().await;

    // Stopped while it has jobs: it finishes them, and takes no more.
    let mut stopped = Service::start(PROGRAM, &server, &["work"]);
    let mut begun = BTreeSet::from([stopped.line("begins ").await]);
    stopped.signal("TERM").await;
    let mut made = BTreeSet::new();
    loop {
        let line = stopped.next_line().await.expect("it says that it is drained");
        if let Some(image) = line.strip_prefix("begins ") {
            begun.insert(image.to_owned());
        } else if let Some(image) = line.strip_prefix("made ") {
            made.insert(image.trim_end_matches(" 64").to_owned());
        } else if line == "drained" {
            break;
        }
    }
    assert_eq!(begun, made, "it has finished all jobs that it began");
    assert!(begun.len() < JOBS - lost.len(), "it has taken jobs after the stop");
    assert!(stopped.ended().await.success());

    let mut last = Service::start(PROGRAM, &server, &["work"]);
    let mut again = BTreeSet::new();
    while !lost.iter().all(|image| again.contains(image)) {
        again.insert(last.line("begins ").await);
    }
    server.until(|probe| below(probe, "done") == JOBS && executing(probe) == 0).await;
    assert_eq!(below(&server.probe(), "pending"), 0, "{}", server.probe());
    last.signal("TERM").await;
    assert!(last.ended().await.success());
}
