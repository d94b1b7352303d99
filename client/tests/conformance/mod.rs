//! The requirements on every ZooKeeper server, and on the client with every server: one list of
//! cases, which runs unchanged on the embedded server, on three embedded servers, on Apache
//! ZooKeeper and on an ensemble of three.
//!
//! Each case has its own chroot, and a relay where it needs a failing network. `CONFORMANCE=name`
//! selects cases.
#![allow(
    dead_code,
    unused_imports,
    clippy::allow_attributes,
    clippy::unwrap_used,
    reason = "each test binary uses another part of it, and all of it is for tests"
)]

mod connections;
mod disruption;
mod operations;
mod order;
mod sessions;
mod watches;

use std::net::SocketAddr;
use std::pin::Pin;
use std::sync::Arc;
use std::time::{Duration, Instant};

use tokio::sync::{Mutex, Semaphore};
use tokio::time::timeout;
use zk_curator_client::{ClientInfo, CreateMode, Error, SessionState, ZooKeeper, ZooKeeperBuilder};
use zk_curator_real::{RealEnsemble, RealZooKeeper};
use zk_curator_testing::wait::{self, spend};
use zk_curator_testing::{
    ErrorCode, FaultProxy, OpCode, RuleRequest, TestCluster, Verdict, ZooKeeperVersion,
};

use crate::common::{is_connected, open, start, suite, until};

/// The session timeout of most cases.
const TIMEOUT: Duration = Duration::from_secs(12);
/// The time limit of a case.
const LIMIT: Duration = Duration::from_secs(200);
/// The time for which the embedded server is down when it is killed.
const OUTAGE: Duration = Duration::from_millis(50);
/// The first release that knows `whoAmI`.
const WHO_AM_I_SINCE: (u32, u32) = (3, 7);
/// The number of cases that run concurrently where they share a server.
const AT_ONCE: usize = 4;

type Run = Pin<Box<dyn Future<Output = ()> + Send>>;

/// Calls a macro with the names of all cases: first the cases that do not disturb the servers, some
/// of which take seconds (`long`) or more (`huge`), and then the others.
macro_rules! for_each_case {
    ($call:ident) => {
        $call! {
            suite {
                nodes_are_created_read_written_and_deleted
                every_kind_of_node_is_created
                transactions_apply_all_or_name_the_failure
                one_shot_watches_fire_once_for_what_they_watch
                results_come_in_the_order_of_the_calls
                large_data_come_back_whole
                arguments_that_make_no_sense_are_refused_here
                identities_are_accepted
            }
            shared {
                operations: acls_are_read_replaced_and_enforced
                operations: many_reads_in_one_request_fail_each_for_itself
                operations: a_transaction_creates_every_kind_of_node
                operations: null_data_differ_from_empty_data
                operations: a_session_knows_its_ephemeral_nodes_and_its_identities
                operations: descendants_are_counted
                operations: the_configuration_is_read_and_changing_it_refused
                operations: timeouts_are_negotiated
                watches: persistent_watches_report_their_events
                watches: events_carry_their_transaction_since_3_9
                watches: watches_are_removed_by_kind_and_all_at_once
                watches: a_dropped_handle_removes_the_watch_on_the_server
                watches: one_shot_watches_fire_for_changes_during_a_cut
                watches: responses_after_a_cut_show_no_change_before_its_watch_fires
                watches: persistent_watches_survive_cuts_and_say_so
                connections: identities_survive_cuts
                connections: requests_without_a_connection_follow_the_policy
                connections: an_address_without_a_server_fails_in_time
                connections: a_session_that_the_server_ended_is_expired
                sessions: a_resumed_session_has_its_nodes_and_not_its_watches
                sessions: a_wrong_password_ends_the_client_and_not_the_session
                sessions: a_session_moves_to_the_servers_that_are_listed_now
                sessions: a_client_that_reaches_no_server_in_time_ends
                sessions: clients_that_allow_read_only_servers_are_served_as_usual
                order: responses_to_ten_thousand_requests_in_flight_are_in_order
                order: a_create_and_its_read_share_a_flight
            }
            long {
                watches: twenty_five_thousand_watches_survive_a_cut
                connections: a_burst_of_forty_transitions_is_seen_whole
                connections: a_silent_network_is_connection_loss_in_time
                connections: an_outage_costs_few_attempts_and_the_session_times_out
                sessions: a_session_that_has_expired_is_not_taken_up
                sessions: deadlines_tell_whether_a_request_was_sent
                sessions: a_session_that_has_moved_is_written_by_its_last_client
                order: lost_requests_have_correct_errors
            }
            huge {
                watches: a_hundred_thousand_watches_survive_a_cut
            }
            alone {
                watches: a_rearmed_watch_tells_whether_anything_was_missed
                disruption: a_killed_server_loses_no_acknowledged_write
                disruption: sessions_and_watches_survive_the_death_of_a_server
                sessions: read_only_servers_serve_reads_until_one_is_writable
            }
        }
    };
}
pub(crate) use for_each_case;

/// The servers under test.
pub(crate) struct Target {
    pub(crate) addresses: Vec<SocketAddr>,
    pub(crate) version: ZooKeeperVersion,
    /// True if the server knows `whoAmI`, that is, from version 3.7.
    pub(crate) knows_who_am_i: bool,
    /// The shortest and the longest session timeout that it grants.
    pub(crate) timeouts: (Duration, Duration),
    /// `true` if a server without a quorum continues as read-only.
    pub(crate) has_read_only: bool,
    servers: Mutex<Servers>,
}

pub(crate) enum Servers {
    Embedded(TestCluster),
    Standalone(Box<RealZooKeeper>),
    Ensemble(RealEnsemble),
}

impl Target {
    /// Returns one or several servers, which continue as read-only without a quorum.
    pub(crate) fn embedded(servers: TestCluster, version: ZooKeeperVersion) -> Self {
        Self {
            addresses: servers
                .members()
                .iter()
                .map(|server| server.addr().expect("on TCP"))
                .collect(),
            version,
            knows_who_am_i: true,
            timeouts: (Duration::from_millis(20), Duration::from_secs(40)),
            has_read_only: true,
            servers: Mutex::new(Servers::Embedded(servers)),
        }
    }

    /// Lets embedded servers refuse a kind of request from now on.
    pub(crate) async fn refuse(&self, opcode: OpCode, code: ErrorCode) {
        if let Servers::Embedded(servers) = &*self.servers.lock().await {
            let refuse = move |request: &RuleRequest<'_>| match request.is(opcode) {
                true => Verdict::Refuse(code),
                false => Verdict::Pass,
            };
            servers.rule(refuse).forget();
        }
    }

    pub(crate) async fn standalone(server: RealZooKeeper) -> Self {
        Self {
            addresses: vec![server.addr()],
            version: server.version().await.unwrap(),
            knows_who_am_i: server.release().await.unwrap() >= WHO_AM_I_SINCE,
            timeouts: (Duration::from_secs(1), Duration::from_secs(60)),
            has_read_only: false,
            servers: Mutex::new(Servers::Standalone(Box::new(server))),
        }
    }

    /// `has_read_only` as it was configured.
    pub(crate) async fn ensemble(ensemble: RealEnsemble, has_read_only: bool) -> Self {
        Self {
            addresses: ensemble.servers().iter().map(RealZooKeeper::addr).collect(),
            version: ensemble.server(0).version().await.unwrap(),
            knows_who_am_i: ensemble.server(0).release().await.unwrap() >= WHO_AM_I_SINCE,
            timeouts: (Duration::from_millis(400), Duration::from_secs(60)),
            has_read_only,
            servers: Mutex::new(Servers::Ensemble(ensemble)),
        }
    }

    /// Kills the leader, or the only server, and starts it again after `meanwhile`.
    pub(crate) async fn kill_and_restart(&self, meanwhile: impl Future<Output = ()>) {
        match &mut *self.servers.lock().await {
            Servers::Embedded(servers) => {
                let leader = servers.leader().unwrap_or(0);
                servers.kill(leader).await;
                meanwhile.await;
                // Without a pause it would be back before any client notices.
                spend(OUTAGE).await;
                servers.restart(leader).await.unwrap();
            }
            Servers::Standalone(server) => {
                server.kill().await.unwrap();
                meanwhile.await;
                server.restart().await.unwrap();
            }
            Servers::Ensemble(ensemble) => {
                ensemble.wait_until_synced().await.unwrap();
                let leader = ensemble.leader().await.unwrap();
                ensemble.kill(leader).await.unwrap();
                meanwhile.await;
                ensemble.restart(leader).await.unwrap();
            }
        }
    }

    /// Leaves one read-only server running while `meanwhile` runs.
    pub(crate) async fn read_only<T>(&self, meanwhile: impl Future<Output = T>) -> T {
        match &mut *self.servers.lock().await {
            Servers::Embedded(servers) => {
                let left = servers.leader().unwrap_or(0);
                let others = (0..self.addresses.len()).filter(|server| *server != left);
                for other in others.clone() {
                    servers.kill(other).await;
                }
                servers.member(left).set_read_only(true);
                let output = meanwhile.await;
                servers.member(left).set_read_only(false);
                for other in others {
                    servers.restart(other).await.unwrap();
                }
                output
            }
            Servers::Standalone(_) => unreachable!("it has no other server to lose"),
            Servers::Ensemble(ensemble) => {
                ensemble.wait_until_synced().await.unwrap();
                let left = ensemble.leader().await.unwrap();
                let others: Vec<_> =
                    (0..self.addresses.len()).filter(|server| *server != left).collect();
                for other in &others {
                    ensemble.kill(*other).await.unwrap();
                }
                let left = ensemble.server(left);
                let mode = async || left.four_letter_word("isro").await;
                wait::until(async || mode().await.is_ok_and(|mode| mode == "ro")).await;
                let output = meanwhile.await;
                for other in others {
                    ensemble.restart(other).await.unwrap();
                }
                output
            }
        }
    }
}

/// A case: the servers, and its chroot.
#[derive(Clone)]
pub(crate) struct Case {
    pub(crate) target: Arc<Target>,
    chroot: String,
}

impl Case {
    async fn new(target: Arc<Target>, name: &str) -> Self {
        let case = Self { target, chroot: String::new() };
        let zk = case.client().await;
        let chroot = format!("/{name}");
        zk.create(&chroot, b"", &open(), CreateMode::Persistent).await.unwrap();
        zk.close().await.unwrap();
        Self { chroot, ..case }
    }

    /// Returns the identities of a connection; `None` if servers do not know the request.
    pub(crate) async fn identities(&self, zk: &ZooKeeper) -> Option<Vec<ClientInfo>> {
        if self.target.knows_who_am_i { Some(zk.who_am_i().await.unwrap()) } else { None }
    }

    /// Returns a client of the servers.
    pub(crate) fn builder(&self) -> ZooKeeperBuilder {
        let hosts =
            self.target.addresses.iter().map(ToString::to_string).collect::<Vec<_>>().join(",");
        ZooKeeper::builder(format!("{hosts}{}", self.chroot)).session_timeout(TIMEOUT)
    }

    pub(crate) async fn client(&self) -> ZooKeeper {
        start(self.builder()).await
    }

    pub(crate) async fn relay(&self) -> FaultProxy {
        FaultProxy::start(&self.target.addresses).await.unwrap()
    }

    /// Returns a client of the servers behind a relay.
    pub(crate) fn through(&self, relay: &FaultProxy) -> ZooKeeperBuilder {
        let connect_string = format!("{}{}", relay.connect_string(), self.chroot);
        ZooKeeper::builder(connect_string).session_timeout(TIMEOUT)
    }

    pub(crate) async fn relayed(&self) -> (ZooKeeper, FaultProxy) {
        let relay = self.relay().await;
        (start(self.through(&relay)).await, relay)
    }
}

/// Cuts the connection of a client, runs `meanwhile`, and waits until the client is back.
pub(crate) async fn away(zk: &ZooKeeper, relay: &FaultProxy, meanwhile: impl Future<Output = ()>) {
    let mut states = zk.states();
    relay.down();
    until(&mut states, |state| state == SessionState::Disconnected).await;
    meanwhile.await;
    relay.up();
    until(&mut states, is_connected).await;
}

/// Returns the error code of a refused request.
pub(crate) fn refused<T: std::fmt::Debug>(result: Result<T, Error>) -> ErrorCode {
    match result {
        Err(Error::Refused(code)) => code,
        other => panic!("not refused: {other:?}"),
    }
}

struct Entry {
    name: &'static str,
    run: fn(Case) -> Run,
    kind: Kind,
}

/// The needs of a case.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Kind {
    Shared,
    Huge,
    Alone,
}

macro_rules! list {
    (
        suite { $($suite:ident)* }
        shared { $($shared_in:ident: $shared:ident)* }
        long { $($long_in:ident: $long:ident)* }
        huge { $($huge_in:ident: $huge:ident)* }
        alone { $($alone_in:ident: $alone:ident)* }
    ) => {
        fn entries() -> Vec<Entry> {
            vec![
                $(Entry {
                    name: stringify!($suite),
                    run: |case| Box::pin(async move { suite::$suite(case.client().await).await }),
                    kind: Kind::Shared,
                },)*
                $(Entry {
                    name: stringify!($shared),
                    run: |case| Box::pin($shared_in::$shared(case)),
                    kind: Kind::Shared,
                },)*
                $(Entry {
                    name: stringify!($long),
                    run: |case| Box::pin($long_in::$long(case)),
                    kind: Kind::Shared,
                },)*
                $(Entry {
                    name: stringify!($huge),
                    run: |case| Box::pin($huge_in::$huge(case)),
                    kind: Kind::Huge,
                },)*
                $(Entry {
                    name: stringify!($alone),
                    run: |case| Box::pin($alone_in::$alone(case)),
                    kind: Kind::Alone,
                },)*
            ]
        }
    };
}
for_each_case!(list);

/// Runs a test without the limit of other tests, because each case has one.
pub(crate) fn on_threads(test: impl Future<Output = ()>) {
    tokio::runtime::Builder::new_multi_thread()
        .worker_threads(2)
        .enable_all()
        .build()
        .expect("a runtime")
        .block_on(test);
}

/// Runs one case.
pub(crate) async fn run(target: Target, name: &str) {
    let entry = entries().into_iter().find(|entry| entry.name == name).expect("a case");
    let case = Case::new(Arc::new(target), name).await;
    timeout(LIMIT, (entry.run)(case)).await.expect("the case hangs");
}

/// Runs all cases, or those that `CONFORMANCE` names, on shared servers.
pub(crate) async fn run_all(target: Target) {
    let wanted = wanted();
    run_if(target, |entry| entry.name.contains(&wanted)).await;
}

/// Does the same as [`run_all`], without the cases that take longest.
pub(crate) async fn run_but_huge(target: Target) {
    let wanted = wanted();
    run_if(target, |entry| entry.kind != Kind::Huge && entry.name.contains(&wanted)).await;
}

/// Runs the cases whose names contain one of these texts.
pub(crate) async fn run_those(target: Target, wanted: &[&str]) {
    run_if(target, |entry| wanted.iter().any(|part| entry.name.contains(part))).await;
}

fn wanted() -> String {
    std::env::var("CONFORMANCE").unwrap_or_default()
}

async fn run_if(target: Target, is_wanted: impl Fn(&Entry) -> bool) {
    let target = Arc::new(target);
    let places = Arc::new(Semaphore::new(AT_ONCE));
    let mut running = Vec::new();
    for entry in entries().into_iter().filter(is_wanted) {
        let (target, places) = (Arc::clone(&target), Arc::clone(&places));
        running.push((
            entry.name,
            tokio::spawn(async move {
                let places = places
                    .acquire_many(if entry.kind == Kind::Alone { AT_ONCE as u32 } else { 1 })
                    .await;
                let started = Instant::now();
                let case = Case::new(target, entry.name).await;
                timeout(LIMIT, (entry.run)(case)).await.expect("the case hangs");
                drop(places);
                started.elapsed()
            }),
        ));
    }
    let mut failed = Vec::new();
    let mut report = String::new();
    for (name, running) in running {
        match running.await {
            Ok(elapsed) => report.push_str(&format!("{name}: {:.1} s\n", elapsed.as_secs_f64())),
            Err(_) => failed.push(name),
        }
    }
    // The harness shows it when the test fails, and with --nocapture.
    std::io::Write::write_all(&mut std::io::stdout(), report.as_bytes()).unwrap();
    assert!(failed.is_empty(), "failed: {failed:?}");
}
