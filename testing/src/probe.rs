//! [`Probe`]: a printable snapshot of a server, for assertions.

use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use zk_curator_proto::OpCode;
use zk_curator_proto::records::{Acl, Stat};

use crate::collections::Map;
use crate::member::MemberId;
use crate::state::State;
use crate::tree::{Node, Owner};
use crate::watch::WatchKind;

/// A snapshot of what a server knows: nodes, sessions, watches, and counts of what has happened.
///
/// Its own nodes, `/`, `/zookeeper` and those below, are there to ask about, but [`Probe::paths`] and the
/// printed form leave them out: a server without nodes of clients has no paths.
#[derive(Clone)]
pub struct Probe {
    root: Arc<Node>,
    sessions: Vec<ProbeSession>,
    watches: Vec<ProbeWatch>,
    requests: Map<OpCode, u64>,
    notifications: u64,
    connections: u64,
    zxid: i64,
}

/// A session in a [`Probe`].
#[non_exhaustive]
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ProbeSession {
    /// Its id.
    pub id: i64,
    /// The negotiated timeout.
    pub timeout: Duration,
    /// Whether it has a connection.
    pub connected: bool,
    /// The paths of its ephemeral nodes, sorted.
    pub ephemerals: Vec<String>,
    /// The identities that `auth` has added to its connection, as `scheme:name`. Never credentials.
    pub identities: Vec<String>,
}

/// A watch in a [`Probe`].
#[non_exhaustive]
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub struct ProbeWatch {
    /// The session whose connection it belongs to.
    pub session: i64,
    /// The node.
    pub path: String,
    /// Its kind.
    pub kind: WatchKind,
}

impl Probe {
    pub(crate) fn of(state: &State, at: MemberId) -> Self {
        let member = &state.members[at];
        let session = |(id, session): (i64, &crate::session::Session)| {
            let connection = session
                .connection
                .and_then(|place| state.members[place.member].connections.get(&place.connection));
            let identities = connection.into_iter().flat_map(|connection| connection.identities.iter());
            ProbeSession {
                id,
                timeout: Duration::from_millis(session.timeout),
                connected: connection.is_some(),
                ephemerals: member.tree.ephemerals(id).map(ToString::to_string).collect(),
                identities: identities
                    .filter(|identity| identity.scheme != "ip")
                    .map(|identity| format!("{}:{}", identity.scheme, identity.user()))
                    .collect(),
            }
        };
        let watch = |(watcher, path, kind): (u64, Arc<str>, WatchKind)| {
            let session = member.connections.get(&watcher)?.session?;
            Some(ProbeWatch { session, path: path.to_string(), kind })
        };
        let mut watches: Vec<_> = member.watches.list().into_iter().filter_map(watch).collect();
        watches.sort_unstable();
        Self {
            root: Arc::clone(member.tree.root()),
            sessions: state.sessions.iter().map(session).collect(),
            watches,
            requests: member.counters.requests.clone(),
            notifications: member.counters.notifications,
            connections: member.counters.connections,
            zxid: member.zxid,
        }
    }

    /// The paths of all nodes but the server's own, sorted.
    #[must_use]
    pub fn paths(&self) -> Vec<String> {
        self.of_clients().map(|(path, _)| path).collect()
    }

    /// Whether there is a node at `path`.
    #[must_use]
    pub fn exists(&self, path: &str) -> bool {
        self.root.get(path).is_some()
    }

    /// The names of the children of a node, sorted; none when there is no such node.
    #[must_use]
    pub fn children(&self, path: &str) -> Vec<&str> {
        let node = self.root.get(path);
        let mut names: Vec<_> = node.into_iter().flat_map(|node| node.child_names()).collect();
        names.sort_unstable();
        names
    }

    /// The stat of a node, as clients see it.
    #[must_use]
    pub fn stat(&self, path: &str) -> Option<Stat> {
        self.root.get(path).map(Node::stat)
    }

    /// The data of a node; `None` when there is no such node or its data are Java's `null`.
    #[must_use]
    pub fn data(&self, path: &str) -> Option<Bytes> {
        self.root.get(path)?.data().map(Bytes::copy_from_slice)
    }

    /// The ACL of a node; empty when there is no such node.
    #[must_use]
    pub fn acl(&self, path: &str) -> &[Acl] {
        self.root.get(path).map_or(&[], |node| node.acl())
    }

    /// Whether a node is a container. Clients cannot tell: the stat does not show it.
    #[must_use]
    pub fn is_container(&self, path: &str) -> bool {
        self.root.get(path).is_some_and(|node| node.owner() == Owner::Container)
    }

    /// The time to live of a node that has one. Clients cannot tell: the stat does not show it.
    #[must_use]
    pub fn ttl(&self, path: &str) -> Option<Duration> {
        match self.root.get(path)?.owner() {
            Owner::Ttl(millis) => Some(Duration::from_millis(millis.unsigned_abs())),
            _ => None,
        }
    }

    /// The owner of a node as ZooKeeper stores it: a session, `i64::MIN` of a container, `0xff` in the top byte
    /// and the milliseconds below of a node with a time to live, zero of any other.
    #[must_use]
    pub fn stored_owner(&self, path: &str) -> Option<i64> {
        self.root.get(path).map(|node| node.owner().encoded())
    }

    /// The sessions that live, sorted by id.
    #[must_use]
    pub fn sessions(&self) -> &[ProbeSession] {
        &self.sessions
    }

    /// The session with this id, if it lives.
    #[must_use]
    pub fn session(&self, id: i64) -> Option<&ProbeSession> {
        self.sessions.iter().find(|session| session.id == id)
    }

    /// The ephemeral nodes of a session, sorted; none when it does not live.
    #[must_use]
    pub fn ephemerals(&self, session: i64) -> &[String] {
        self.session(session).map_or(&[], |session| &session.ephemerals)
    }

    /// The watches of all connections, sorted by session, path and kind.
    #[must_use]
    pub fn watches(&self) -> &[ProbeWatch] {
        &self.watches
    }

    /// How many requests with this opcode have arrived. Those a rule lost or cut off have not; those it refused
    /// or whose answer it lost have, and so has one that is delayed, but only after its delay.
    #[must_use]
    pub fn requests(&self, opcode: OpCode) -> u64 {
        self.requests.get(&opcode).copied().unwrap_or(0)
    }

    /// How many requests have arrived in all.
    #[must_use]
    pub fn total_requests(&self) -> u64 {
        self.requests.values().sum()
    }

    /// How many watch events have been sent in all.
    #[must_use]
    pub const fn notifications(&self) -> u64 {
        self.notifications
    }

    /// How many connections have been accepted in all.
    #[must_use]
    pub const fn connections(&self) -> u64 {
        self.connections
    }

    /// The last transaction.
    #[must_use]
    pub const fn zxid(&self) -> i64 {
        self.zxid
    }

    /// The nodes of clients, by path.
    fn of_clients(&self) -> impl Iterator<Item = (String, &Node)> {
        let own = |path: &str| matches!(path, "/" | "/zookeeper" | "/zookeeper/quota" | "/zookeeper/config");
        let mut nodes: Vec<_> = self.root.walk("/").filter(|(path, _)| !own(path)).collect();
        nodes.sort_unstable_by(|a, b| a.0.cmp(&b.0));
        nodes.into_iter()
    }
}

impl fmt::Display for Probe {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        writeln!(f, "zxid {:#x}", self.zxid)?;
        for (path, node) in self.of_clients() {
            write!(f, "{path} = ")?;
            match node.data() {
                None => f.write_str("null")?,
                Some(data) => write!(f, "\"{}\"", data.escape_ascii())?,
            }
            match node.owner() {
                Owner::None => {}
                Owner::Session(id) => write!(f, " ephemeral of {id:#x}")?,
                Owner::Container => f.write_str(" container")?,
                Owner::Ttl(millis) => write!(f, " ttl {millis} ms")?,
            }
            let stat = node.stat();
            writeln!(
                f,
                " version {} cversion {} czxid {:#x} mzxid {:#x} pzxid {:#x}",
                stat.version, stat.cversion, stat.czxid, stat.mzxid, stat.pzxid
            )?;
        }
        for session in &self.sessions {
            let state = if session.connected { "connected" } else { "not connected" };
            write!(f, "session {:#x} timeout {:?} {state}", session.id, session.timeout)?;
            if !session.ephemerals.is_empty() {
                write!(f, " owns {}", session.ephemerals.join(" "))?;
            }
            if !session.identities.is_empty() {
                write!(f, " is {}", session.identities.join(" "))?;
            }
            writeln!(f)?;
        }
        for watch in &self.watches {
            writeln!(f, "watch {} of {:#x} on {}", watch.kind, watch.session, watch.path)?;
        }
        write!(f, "{} connections, {} notifications", self.connections, self.notifications)?;
        let mut requests: Vec<_> = self.requests.iter().collect();
        requests.sort_unstable_by_key(|(opcode, _)| opcode.code());
        for (opcode, count) in requests {
            write!(f, ", {count} {opcode:?}")?;
        }
        writeln!(f)
    }
}

/// The same as [`Display`](fmt::Display), for failed assertions.
impl fmt::Debug for Probe {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Probe\n{self}")
    }
}
