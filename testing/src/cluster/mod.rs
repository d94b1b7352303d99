//! [`TestCluster`]: several embedded servers that agree on what is written.

mod builder;
mod lag;
mod probe;

use std::io;
use std::sync::Arc;
use std::time::Duration;

use zk_curator_proto::ErrorCode;

pub use builder::TestClusterBuilder;
pub use lag::LagGuard;
pub use probe::{ClusterProbe, MemberProbe, MemberRole};

use crate::NodeWrite;
use crate::journal::{Fault, Journal};
use crate::network::MemoryConnector;
use crate::rule::{RuleGuard, RuleRequest, Rules, Verdict};
use crate::server::TestServer;
use crate::shared::Ensemble;
use crate::snapshot::Snapshot;
use crate::state::State;

/// An ensemble of ZooKeeper servers inside this process.
///
/// Every member is a [`TestServer`] with its tree, its watches and its connections, and so with all that one can do:
/// [`TestCluster::member`] gives rules, `hold`, `partition` from the clients, `disconnect_all` and so on of one member.
/// What members share is the order of transactions and the sessions. Members are counted from zero; the servers they
/// play are called `zk1`, `zk2` and so on.
///
/// What is written is applied by each member at its own pace, at once unless [`TestCluster::lag`] says otherwise.
/// What ZooKeeper guarantees holds: one order of writes; a session reads its own writes and never goes back, whichever
/// member it moves to; `sync` makes a member catch up. What it does not guarantee can be had: stale reads, sessions that
/// are refused by a member that knows less than they do, leaders that change, members without a quorum.
///
/// Members run on the current tokio runtime, in real or in paused time. In the latter two runs of a test are the same.
///
/// ```
/// use zk_curator_testing::TestCluster;
///
/// # #[tokio::main(flavor = "current_thread")]
/// # async fn main() -> std::io::Result<()> {
/// let cluster = TestCluster::start(3).await;
/// println!("connect a client to {}", cluster.connect_string());
///
/// let lagging = cluster.lag(0);                    // reads of member 0 are stale from here on
/// cluster.kill(2).await;                           // a member less; another one leads if it did
/// cluster.restart(2).await?;
/// drop(lagging);                                   // member 0 catches up
/// cluster.partition(&[&[0], &[1, 2]]);             // member 0 drops its clients
/// assert!(cluster.leader().is_some_and(|leader| leader != 0), "{}", cluster.probe());
/// cluster.heal();
/// # Ok(())
/// # }
/// ```
///
/// Cheap to clone: clones are handles to the same members. They end when the last handle to each is dropped.
#[derive(Debug, Clone)]
pub struct TestCluster {
    ensemble: Arc<Ensemble>,
    members: Arc<[TestServer]>,
}

impl TestCluster {
    /// Starts so many servers on free TCP ports of 127.0.0.1. One alone is a standalone server.
    ///
    /// # Panics
    /// Outside a tokio runtime, when no port can be bound, or when `members` is not between 1 and 99;
    /// [`TestClusterBuilder::start`] returns errors.
    ///
    /// # Cancel safety
    /// Dropping the future starts nothing.
    pub async fn start(members: usize) -> Self {
        match Self::builder(members).start().await {
            Ok(cluster) => cluster,
            Err(error) => panic!("cannot start {members} servers: {error}"),
        }
    }

    /// Starts so many servers that are reached through [`TestCluster::connector`] only, and work under a paused
    /// clock.
    ///
    /// # Panics
    /// Outside a tokio runtime, or when `members` is not between 1 and 99.
    ///
    /// # Cancel safety
    /// Dropping the future starts nothing.
    pub async fn in_memory(members: usize) -> Self {
        match Self::builder(members).tcp(false).start().await {
            Ok(cluster) => cluster,
            Err(error) => panic!("cannot start {members} servers: {error}"),
        }
    }

    /// An ensemble of so many servers with other settings.
    pub fn builder(members: usize) -> TestClusterBuilder {
        TestClusterBuilder::new(members)
    }

    /// The members.
    #[must_use]
    pub fn members(&self) -> &[TestServer] {
        &self.members
    }

    /// A member.
    ///
    /// # Panics
    /// When there is no such member.
    #[must_use]
    pub fn member(&self, member: usize) -> &TestServer {
        &self.members[member]
    }

    /// The connect string of all members: `127.0.0.1:port,…` or, in memory only, `zk1:2181,zk2:2181,…`.
    #[must_use]
    pub fn connect_string(&self) -> String {
        let hosts: Vec<_> = self.members.iter().map(TestServer::connect_string).collect();
        hosts.join(",")
    }

    /// Connects to the members through memory, by the names in the connect string.
    #[must_use]
    pub fn connector(&self) -> MemoryConnector {
        MemoryConnector::new(self.members.iter().map(TestServer::shared))
    }

    /// The member that leads; `None` while there is no quorum, or of a server alone.
    #[must_use]
    pub fn leader(&self) -> Option<usize> {
        self.ensemble.look(|state| state.quorum.leader)
    }

    /// Keeps a member from applying what is committed until the guard is dropped: it serves stale reads, and answers
    /// what is written through it when it has caught up. Requests that follow such a write on the same connection
    /// wait behind it. A new session at it begins when it has caught up, and one that has seen more elsewhere is
    /// refused. `sync` makes it catch up with what was committed by then, and it lags on from there.
    ///
    /// It is in the quorum all the same. A leader never lags: a member that becomes one catches up, and lags again when
    /// it is deposed.
    ///
    /// # Panics
    /// When there is no such member.
    pub fn lag(&self, member: usize) -> LagGuard {
        LagGuard::install(&self.ensemble, member, None)
    }

    /// As [`TestCluster::lag`], but the member applies everything so long after it was committed, in whole
    /// milliseconds.
    ///
    /// # Panics
    /// When there is no such member.
    pub fn lag_by(&self, member: usize, delay: Duration) -> LagGuard {
        LagGuard::install(&self.ensemble, member, Some(delay))
    }

    /// Cuts the links between sets of members; those in no set are one more together. It replaces what was cut before.
    ///
    /// A side with more than half of all members goes on, under a new leader if the old one is on another side. The
    /// members of the others notice at once: they drop their clients and refuse new ones, or serve
    /// reads to those that want no more, see [`TestClusterBuilder::read_only`]. Clients reach all members:
    /// [`TestServer::partition`] and [`MemoryConnector::cut`] are about these.
    pub fn partition(&self, sides: &[&[usize]]) {
        let sides: Vec<_> = sides.iter().map(|side| side.to_vec()).collect();
        self.update(|state| {
            state.record(None, Fault::Split(sides.clone()));
            state.split(&sides);
        });
    }

    /// Ends [`TestCluster::partition`].
    pub fn heal(&self) {
        self.update(|state| {
            state.record(None, Fault::Heal);
            state.split(&[]);
        });
    }

    /// Ends a member: [`TestServer::stop`]. Its connections are cut; what it has answered is not lost.
    ///
    /// # Panics
    /// When there is no such member.
    ///
    /// # Cancel safety
    /// As of [`TestServer::stop`].
    pub async fn kill(&self, member: usize) {
        self.member(member).stop().await;
    }

    /// Starts a member again: [`TestServer::restart`]. It has its log, and catches up.
    ///
    /// # Errors
    /// Those of binding its TCP port.
    ///
    /// # Panics
    /// When there is no such member.
    ///
    /// # Cancel safety
    /// As of [`TestServer::restart`].
    pub async fn restart(&self, member: usize) -> io::Result<()> {
        self.member(member).restart().await
    }

    /// Deposes the leader in favour of the member that would win an election without it, and returns that one; `None`
    /// when there is no leader, or nobody else to lead. All connections of the quorum are cut by it, and sessions have
    /// their whole timeout again.
    pub fn change_leader(&self) -> Option<usize> {
        self.update(|state| state.change_leader(None))
    }

    /// Makes a member the leader, as [`TestCluster::change_leader`] does; false when it leads already or has no
    /// quorum.
    pub fn make_leader(&self, member: usize) -> bool {
        self.update(|state| state.change_leader(Some(member))).is_some()
    }

    /// Expires a session at once, wherever it is connected: its ephemeral nodes are deleted in one transaction, and
    /// its connection ends. Returns whether it lived; false too while there is no leader to do it. A member that lags
    /// ends the connection when it applies the transaction.
    pub fn expire(&self, session_id: i64) -> bool {
        self.ensemble.expire(session_id)
    }

    /// Cuts the connection of a session, which lives on. Returns whether it had one.
    pub fn disconnect(&self, session_id: i64) -> bool {
        self.ensemble.disconnect(session_id)
    }

    /// The member that a session is connected to, if it is.
    #[must_use]
    pub fn attached_to(&self, session_id: i64) -> Option<usize> {
        self.ensemble.look(|state| Some(state.sessions.get(session_id)?.connection?.member))
    }

    /// Holds all members as [`TestServer::hold`] does: no session expires, and nobody loses a quorum. A member that is
    /// held alone is gone for the others.
    pub fn hold(&self) {
        self.update(State::hold_all);
        for member in self.members.iter() {
            member.shared().block(|blocked| blocked.held = true);
        }
    }

    /// Ends [`TestCluster::hold`], and that of single members.
    pub fn release(&self) {
        self.update(State::release_all);
        for member in self.members.iter() {
            member.shared().block(|blocked| blocked.held = false);
        }
        self.ensemble.deadlines_changed();
    }

    /// As [`TestServer::advance`], for all members.
    pub fn advance(&self, by: Duration) {
        self.update(|state| state.advance(by));
    }

    /// As [`TestServer::set_sequence`], for all members.
    ///
    /// # Errors
    /// [`ErrorCode::NoNode`] when there is no such node, [`ErrorCode::NotReadOnly`] while there is no leader.
    pub fn set_sequence(&self, path: &str, next: i32) -> Result<(), ErrorCode> {
        self.update(|state| state.set_sequence(path, next))
    }

    /// As [`TestServer::remove`], for all members.
    ///
    /// # Errors
    /// As there.
    pub fn remove(&self, path: &str) -> Result<Vec<i64>, ErrorCode> {
        self.update(|state| state.remove(path))
    }

    /// As [`TestServer::writes`]: what was agreed on.
    #[must_use]
    pub fn writes(&self) -> Vec<NodeWrite> {
        self.ensemble.look(|state| state.writes.list().to_vec())
    }

    /// As [`TestServer::reap_containers`], for all members: the leader decides. Nothing happens without one.
    pub fn reap_containers(&self) -> Vec<String> {
        self.update(State::reap)
    }

    /// Installs a fault rule on all members, which count its hits together; [`TestServer::rule`] does on one.
    pub fn rule(&self, decide: impl Fn(&RuleRequest<'_>) -> Verdict + Send + Sync + 'static) -> RuleGuard {
        Rules::install(self.members.iter().map(|member| member.shared().rules()), decide)
    }

    /// The faults that were injected into all members, in order.
    #[must_use]
    pub fn journal(&self) -> Journal {
        self.ensemble.look(|state| state.journal.clone())
    }

    /// As [`TestServer::snapshot`]: what the members have agreed on, to start other servers or clusters with.
    #[must_use]
    pub fn snapshot(&self) -> Snapshot {
        self.ensemble.look(State::snapshot)
    }

    /// What the members know now. Costs time in the size of their trees.
    #[must_use]
    pub fn probe(&self) -> ClusterProbe {
        self.ensemble.look(ClusterProbe::of)
    }

    /// As [`TestServer::until`], of a condition of all members.
    ///
    /// # Cancel safety
    /// Dropping the future has no effect.
    pub async fn until(&self, condition: impl FnMut(&ClusterProbe) -> bool) -> ClusterProbe {
        self.ensemble.until(ClusterProbe::of, condition).await
    }

    fn update<R>(&self, update: impl FnOnce(&mut State) -> R) -> R {
        let result = self.ensemble.update(update);
        self.ensemble.deadlines_changed();
        result
    }
}
