//! [`Probe`]: a printable snapshot of a server, for assertions.

use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use zk_curator_proto::OpCode;
use zk_curator_proto::records::{Acl, Stat};

use crate::collections::Map;
use crate::ensemble::State;
use crate::ids::MemberId;
use crate::session::Session;
use crate::tree::{Node, Owner};
use crate::watch::WatchKind;

/// A snapshot of a server: nodes, sessions, watches, and counts of events.
///
/// The nodes that every server has, `/`, `/zookeeper` and those below, can be queried, but
/// [`Probe::paths`] and the printed form leave them out.
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
    /// The session id.
    pub id: i64,
    /// The negotiated timeout.
    pub timeout: Duration,
    /// `true` if it has a connection.
    pub connected: bool,
    /// The paths of its ephemeral nodes, sorted.
    pub ephemerals: Vec<String>,
    /// The identities that `auth` added to its connection, as `scheme:name`. Never credentials.
    pub identities: Vec<String>,
}

/// A watch in a [`Probe`].
#[non_exhaustive]
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub struct ProbeWatch {
    /// The session of the connection that owns the watch.
    pub session: i64,
    /// The watched path.
    pub path: String,
    /// The kind of the watch.
    pub kind: WatchKind,
}

impl Probe {
    pub(crate) fn of(state: &State, at: MemberId) -> Self {
        let member = state.member(at);
        let session = |(id, session): (i64, &Session)| {
            let connection = session
                .connection()
                .and_then(|place| state.member(place.member).connections().get(place.connection));
            let identities =
                connection.into_iter().flat_map(|connection| connection.identities().iter());
            ProbeSession {
                id,
                timeout: Duration::from_millis(session.timeout()),
                connected: connection.is_some(),
                ephemerals: member.tree().ephemerals(id).map(ToString::to_string).collect(),
                identities: identities
                    .filter(|identity| identity.scheme != "ip")
                    .map(|identity| format!("{}:{}", identity.scheme, identity.user()))
                    .collect(),
            }
        };
        let watch = |(watcher, path, kind): (u64, Arc<str>, WatchKind)| {
            let session = member.connections().session_of(watcher)?;
            Some(ProbeWatch { session, path: path.to_string(), kind })
        };
        let mut watches: Vec<_> = member.watches().list().into_iter().filter_map(watch).collect();
        watches.sort_unstable();
        Self {
            root: Arc::clone(member.tree().root()),
            sessions: state.sessions().iter().map(session).collect(),
            watches,
            requests: member.connections().counters().requests.clone(),
            notifications: member.connections().counters().notifications,
            connections: member.connections().counters().connections,
            zxid: member.zxid(),
        }
    }

    /// Returns the paths of all nodes except the server's own, sorted.
    #[must_use]
    pub fn paths(&self) -> Vec<String> {
        self.of_clients().map(|(path, _)| path).collect()
    }

    /// Returns `true` if there is a node at `path`.
    #[must_use]
    pub fn exists(&self, path: &str) -> bool {
        self.root.get(path).is_some()
    }

    /// Returns the names of the children of a node, sorted; empty if the node does not exist.
    #[must_use]
    pub fn children(&self, path: &str) -> Vec<&str> {
        let node = self.root.get(path);
        let mut names: Vec<_> = node.into_iter().flat_map(|node| node.child_names()).collect();
        names.sort_unstable();
        names
    }

    /// Returns the stat of a node, as clients see it.
    #[must_use]
    pub fn stat(&self, path: &str) -> Option<Stat> {
        self.root.get(path).map(Node::stat)
    }

    /// Returns the data of a node; `None` if the node does not exist or its data are Java's `null`.
    #[must_use]
    pub fn data(&self, path: &str) -> Option<Bytes> {
        self.root.get(path)?.data().map(Bytes::copy_from_slice)
    }

    /// Returns the ACL of a node; empty if the node does not exist.
    #[must_use]
    pub fn acl(&self, path: &str) -> &[Acl] {
        self.root.get(path).map_or(&[], |node| node.acl())
    }

    /// Returns `true` if a node is a container. The stat does not show it to clients.
    #[must_use]
    pub fn is_container(&self, path: &str) -> bool {
        self.root.get(path).is_some_and(|node| node.owner() == Owner::Container)
    }

    /// Returns the time to live of a node, if it has one. The stat does not show it to clients.
    #[must_use]
    pub fn ttl(&self, path: &str) -> Option<Duration> {
        match self.root.get(path)?.owner() {
            Owner::Ttl(millis) => Some(Duration::from_millis(millis.unsigned_abs())),
            _ => None,
        }
    }

    /// Returns the owner of a node as ZooKeeper stores it: a session id, `i64::MIN` for a
    /// container, `0xff` in the top byte above milliseconds for a node with a time to live, zero
    /// otherwise.
    #[must_use]
    pub fn stored_owner(&self, path: &str) -> Option<i64> {
        self.root.get(path).map(|node| node.owner().encoded())
    }

    /// Returns the open sessions, sorted by id.
    #[must_use]
    pub fn sessions(&self) -> &[ProbeSession] {
        &self.sessions
    }

    /// Returns the session with this id, if it is open.
    #[must_use]
    pub fn session(&self, id: i64) -> Option<&ProbeSession> {
        self.sessions.iter().find(|session| session.id == id)
    }

    /// Returns the ephemeral nodes of a session, sorted; empty if it is not open.
    #[must_use]
    pub fn ephemerals(&self, session: i64) -> &[String] {
        self.session(session).map_or(&[], |session| &session.ephemerals)
    }

    /// Returns the watches of all connections, sorted by session, path and kind.
    #[must_use]
    pub fn watches(&self) -> &[ProbeWatch] {
        &self.watches
    }

    /// Returns the number of requests received with this opcode. Requests that a rule loses or
    /// disconnects do not count; refused requests and lost replies do, and delayed requests do
    /// after their delay.
    #[must_use]
    pub fn requests(&self, opcode: OpCode) -> u64 {
        self.requests.get(&opcode).copied().unwrap_or(0)
    }

    /// Returns the total number of requests received.
    #[must_use]
    pub fn total_requests(&self) -> u64 {
        self.requests.values().sum()
    }

    /// Returns the total number of watch events sent.
    #[must_use]
    pub const fn notifications(&self) -> u64 {
        self.notifications
    }

    /// Returns the total number of connections accepted.
    #[must_use]
    pub const fn connections(&self) -> u64 {
        self.connections
    }

    /// Returns the zxid of the last transaction.
    #[must_use]
    pub const fn zxid(&self) -> i64 {
        self.zxid
    }

    /// Returns the nodes of clients, by path.
    fn of_clients(&self) -> impl Iterator<Item = (String, &Node)> {
        let own = |path: &str| {
            matches!(path, "/" | "/zookeeper" | "/zookeeper/quota" | "/zookeeper/config")
        };
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
