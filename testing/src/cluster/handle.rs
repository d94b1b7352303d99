//! [`TestCluster`]: the handle to an embedded ensemble.

use std::io;
use std::sync::Arc;
use std::time::Duration;

use zk_curator_proto::ErrorCode;
use zk_curator_proto::records::Stat;

use super::lag::LagGuard;
use super::probe::ClusterProbe;
use crate::ensemble::{Ensemble, Journal, NodeWrite, Snapshot, State, faults};
use crate::rule::{RuleGuard, RuleRequest, Rules, Verdict};
use crate::server::{HasSession, TestServer};
use crate::session::Session;
use crate::wire::MemoryConnector;

/// An ensemble of ZooKeeper servers inside this process.
///
/// Each member is a [`TestServer`] with its own tree, watches and connections.
/// [`TestCluster::member`] gives access to rules, `hold`, `partition`, `disconnect_all` and so on
/// of one member. Members share sessions and the order of transactions. Members are counted from
/// zero; their host names are `zk1`, `zk2` and so on.
///
/// Each member applies writes immediately unless [`TestCluster::lag`] delays it. ZooKeeper's
/// guarantees hold: there is one order of writes, a session reads its own writes and never reads
/// older state, even after moving to another member, and `sync` makes a member catch up. Everything
/// else can happen: stale reads, sessions refused by a stale member, changes of leader, members
/// without a quorum.
///
/// Members run on the current tokio runtime, in real or paused time. Under a paused clock, runs are
/// deterministic.
///
/// ```
/// use zk_curator_testing::TestCluster;
///
/// # #[tokio::main(flavor = "current_thread")]
/// # async fn main() -> std::io::Result<()> {
/// let cluster = TestCluster::start(3).await;
/// println!("connect a client to {}", cluster.connect_string());
///
/// let lagging = cluster.lag(0);                    // reads of member 0 are stale from now on
/// cluster.kill(2).await;                           // a new leader is elected if it led
/// cluster.restart(2).await?;
/// drop(lagging);                                   // member 0 catches up
/// cluster.partition(&[&[0], &[1, 2]]);             // member 0 drops its clients
/// assert!(cluster.leader().is_some_and(|leader| leader != 0), "{}", cluster.probe());
/// cluster.heal();
/// # Ok(())
/// # }
/// ```
///
/// Cheap to clone: clones are handles to the same members. A member ends when its last handle is
/// dropped.
#[derive(Debug, Clone)]
pub struct TestCluster {
    ensemble: Arc<Ensemble>,
    members: Arc<[TestServer]>,
}

impl TestCluster {
    pub(super) const fn new(ensemble: Arc<Ensemble>, members: Arc<[TestServer]>) -> Self {
        Self { ensemble, members }
    }

    /// Returns the members.
    #[must_use]
    pub fn members(&self) -> &[TestServer] {
        &self.members
    }

    /// Returns a member.
    ///
    /// # Panics
    /// If there is no such member.
    #[must_use]
    pub fn member(&self, member: usize) -> &TestServer {
        &self.members[member]
    }

    /// Returns the connect string of all members: `127.0.0.1:port,…` or, in memory only,
    /// `zk1:2181,zk2:2181,…`.
    #[must_use]
    pub fn connect_string(&self) -> String {
        let hosts: Vec<_> = self.members.iter().map(TestServer::connect_string).collect();
        hosts.join(",")
    }

    /// Returns a connector that reaches the members through memory, by the names in the connect
    /// string.
    #[must_use]
    pub fn connector(&self) -> MemoryConnector {
        MemoryConnector::new(self.members.iter().map(TestServer::shared))
    }

    /// Returns the leader; `None` without a quorum and for a single server.
    #[must_use]
    pub fn leader(&self) -> Option<usize> {
        self.ensemble.look(|state| state.quorum().leader())
    }

    /// Keeps a member from applying transactions until the guard is dropped. The member serves
    /// stale reads, and responds to writes sent to it once it has caught up; later requests on the
    /// same connection wait behind them. New sessions begin once it has caught up. Sessions that
    /// have seen newer state are refused. `sync` makes the member apply everything committed so
    /// far; then it lags again.
    ///
    /// The member stays in the quorum. A leader never lags: a member that is elected catches up,
    /// and lags again after it is deposed.
    ///
    /// # Panics
    /// If there is no such member.
    pub fn lag(&self, member: usize) -> LagGuard {
        LagGuard::install(&self.ensemble, member, None)
    }

    /// As [`TestCluster::lag`], but the member applies each transaction this long after its commit,
    /// in whole milliseconds.
    ///
    /// # Panics
    /// If there is no such member.
    pub fn lag_by(&self, member: usize, delay: Duration) -> LagGuard {
        LagGuard::install(&self.ensemble, member, Some(delay))
    }

    /// Cuts the links between sets of members. Members in no set form one more set. Replaces an
    /// earlier partition.
    ///
    /// A side with more than half of all members continues, under a new leader if the old one is on
    /// another side. Members of other sides notice immediately: they drop their clients and refuse
    /// new ones, or serve reads to clients that accept a read-only server, see
    /// [`TestClusterBuilder::read_only`](crate::TestClusterBuilder::read_only). Clients still reach
    /// all members; see [`TestServer::partition`] and [`MemoryConnector::cut`] for links to
    /// clients.
    pub fn partition(&self, sides: &[&[usize]]) {
        let sides: Vec<_> = sides.iter().map(|side| side.to_vec()).collect();
        self.update(|state| faults::split(state, &sides));
    }

    /// Ends [`TestCluster::partition`].
    pub fn heal(&self) {
        self.update(faults::heal);
    }

    /// Stops a member, see [`TestServer::stop`]. Its connections are cut. Acknowledged writes are
    /// not lost.
    ///
    /// # Panics
    /// If there is no such member.
    ///
    /// # Cancel safety
    /// As for [`TestServer::stop`].
    pub async fn kill(&self, member: usize) {
        self.member(member).stop().await;
    }

    /// Starts a member again, see [`TestServer::restart`]. It keeps its log, and catches up.
    ///
    /// # Errors
    /// Errors of binding its TCP port.
    ///
    /// # Panics
    /// If there is no such member.
    ///
    /// # Cancel safety
    /// As for [`TestServer::restart`].
    pub async fn restart(&self, member: usize) -> io::Result<()> {
        self.member(member).restart().await
    }

    /// Replaces the leader by the winner of an election without it, and returns the new leader;
    /// `None` without a leader or another candidate. Cuts all connections of the quorum. Sessions
    /// have their full timeout again.
    pub fn change_leader(&self) -> Option<usize> {
        self.update(|state| faults::change_leader(state, None))
    }

    /// Makes a member the leader, as [`TestCluster::change_leader`] does. Returns `false` if it
    /// already leads or has no quorum.
    pub fn make_leader(&self, member: usize) -> bool {
        self.update(|state| faults::change_leader(state, Some(member))).is_some()
    }

    /// Expires a session immediately, at any member: deletes its ephemeral nodes in one
    /// transaction, and ends its connection. Returns `true` if the session existed; always `false`
    /// without a leader. A lagging member ends the connection when it applies the transaction.
    pub fn expire(&self, of: impl HasSession) -> bool {
        let Some(session) = of.session_id() else { return false };
        self.ensemble.update(|state| faults::expire(state, session))
    }

    /// Returns `true` if a session is open. It may have no connection.
    #[must_use]
    pub fn has_session(&self, of: impl HasSession) -> bool {
        let Some(session) = of.session_id() else { return false };
        self.ensemble.look(|state| state.sessions().get(session).is_some())
    }

    /// Cuts the connection of a session. The session stays open. Returns `true` if it had a
    /// connection.
    pub fn disconnect(&self, of: impl HasSession) -> bool {
        let Some(session) = of.session_id() else { return false };
        self.ensemble.update(|state| faults::disconnect(state, session))
    }

    /// Returns the member that a session is connected to.
    #[must_use]
    pub fn attached_to(&self, session_id: i64) -> Option<usize> {
        let place = self
            .ensemble
            .look(|state| state.sessions().get(session_id).and_then(Session::connection));
        place.map(|place| place.member)
    }

    /// Holds all members as [`TestServer::hold`] does. No session expires and no quorum is lost,
    /// unlike when a single member is held.
    pub fn hold(&self) {
        self.update(faults::hold_all);
        for member in self.members.iter() {
            member.shared().block(|blocked| blocked.held = true);
        }
    }

    /// Ends [`TestCluster::hold`] and the hold of single members.
    pub fn release(&self) {
        self.update(faults::release_all);
        for member in self.members.iter() {
            member.shared().block(|blocked| blocked.held = false);
        }
        self.ensemble.deadlines_changed();
    }

    /// As [`TestServer::advance`], for all members.
    pub fn advance(&self, by: Duration) {
        self.update(|state| faults::advance(state, by));
    }

    /// As [`TestServer::set_version`], for all members.
    ///
    /// # Errors
    /// [`ErrorCode::NoNode`] if the node does not exist; [`ErrorCode::NotReadOnly`] without a
    /// leader.
    pub fn set_version(&self, path: &str, version: i32) -> Result<(), ErrorCode> {
        self.update(|state| faults::set_version(state, path, version))
    }

    /// As [`TestServer::set_sequence`], for all members.
    ///
    /// # Errors
    /// [`ErrorCode::NoNode`] if the node does not exist; [`ErrorCode::NotReadOnly`] without a
    /// leader.
    pub fn set_sequence(&self, path: &str, next: i32) -> Result<(), ErrorCode> {
        self.update(|state| faults::set_sequence(state, path, next))
    }

    /// As [`TestServer::remove`], for all members.
    ///
    /// # Errors
    /// As for [`TestServer::remove`].
    pub fn remove(&self, path: &str) -> Result<Vec<Stat>, ErrorCode> {
        self.update(|state| faults::remove(state, path))
    }

    /// As [`TestServer::writes`], for all members.
    #[must_use]
    pub fn writes(&self) -> Vec<NodeWrite> {
        self.ensemble.look(|state| state.writes().list().to_vec())
    }

    /// As [`TestServer::reap_containers`], for all members. Does nothing without a leader.
    pub fn reap_containers(&self) -> Vec<String> {
        self.update(State::reap)
    }

    /// Installs a fault rule on all members, which share its counts; [`TestServer::rule`] installs
    /// one on one member.
    pub fn rule(
        &self,
        decide: impl Fn(&RuleRequest<'_>) -> Verdict + Send + Sync + 'static,
    ) -> RuleGuard {
        Rules::install(self.members.iter().map(|member| member.shared().rules()), decide)
    }

    /// Returns the faults injected into all members, in order.
    #[must_use]
    pub fn journal(&self) -> Journal {
        self.ensemble.look(|state| state.journal().clone())
    }

    /// As [`TestServer::snapshot`], of the committed state.
    #[must_use]
    pub fn snapshot(&self) -> Snapshot {
        self.ensemble.look(State::snapshot)
    }

    /// Returns a snapshot of all members for assertions.
    #[must_use]
    pub fn probe(&self) -> ClusterProbe {
        self.ensemble.look(ClusterProbe::of)
    }

    /// As [`TestServer::until`], for a condition on all members.
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
