//! [`ProxyTraffic`]: what a proxy has seen.

use std::borrow::Cow;
use std::collections::VecDeque;
use std::net::SocketAddr;

use tokio_util::sync::CancellationToken;
use zk_curator_proto::records::{MultiOp, ReadOp};
use zk_curator_proto::{OpCode, Request};

use crate::collections::Map;

/// The maximum number of paths with counts of their own, and their maximum length in bytes.
const PATHS: usize = 10_000;
const PATH_LENGTH: usize = 1024;

/// The maximum number of children of one node with counts of their own or below them. Names that
/// are used once must not take the room of all other paths.
const CHILDREN: usize = 1000;

/// The length of a sequence number.
const DIGITS: usize = 10;

/// The lengths of the groups of a GUID, with hyphens between them, and without hyphens.
const GROUPS: [usize; 5] = [8, 4, 4, 4, 12];
const GUID: usize = 32;

/// The maximum number of sessions without a connection.
const SESSIONS: usize = 1000;

/// The requests and sessions that a [`FaultProxy`](crate::FaultProxy) has seen.
///
/// A request counts once it has arrived, before rules decide about it: delayed, refused and lost
/// requests count too. Requests that wait in [`Flow::Stalled`](crate::Flow::Stalled) do not, nor do
/// those discarded by [`Flow::Lost`](crate::Flow::Lost).
#[derive(Debug, Clone, Default)]
pub struct ProxyTraffic {
    requests: Map<OpCode, u64>,
    unknown: u64,
    paths: Map<String, Map<OpCode, u64>>,
    /// The counted paths and their ancestors, with the number of their children among them.
    known: Map<String, usize>,
    other_paths: u64,
    sessions: Map<i64, ProxySession>,
}

/// A session in the [`ProxyTraffic`].
#[non_exhaustive]
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ProxySession {
    /// The session id.
    pub id: i64,
    /// The address of the client's last connection.
    pub peer: SocketAddr,
    /// The number of the server of that connection, from 0, in the order of the builder.
    pub server: usize,
    /// `true` if the client has a connection through the proxy.
    pub connected: bool,
    /// The number of requests.
    pub requests: u64,
}

impl ProxyTraffic {
    /// Returns the number of requests with this opcode, including pings. A multi counts once.
    #[must_use]
    pub fn requests(&self, opcode: OpCode) -> u64 {
        self.requests.get(&opcode).copied().unwrap_or_default()
    }

    /// Returns the number of requests of each opcode, sorted by the number on the wire.
    #[must_use]
    pub fn opcodes(&self) -> Vec<(OpCode, u64)> {
        sorted(&self.requests)
    }

    /// Returns the number of requests that the proxy cannot decode, or that are longer than its
    /// limit. Rules do not see them.
    #[must_use]
    pub const fn unknown_requests(&self) -> u64 {
        self.unknown
    }

    /// Returns the number of requests for this path. Each operation of a multi counts as a request.
    /// Paths that differ only in a sequence number (ten digits at the end) count as one path: those
    /// of the nodes, and that of their create, which has no number yet. So do paths that differ
    /// only in GUIDs, such as those in the names of protected nodes: 32 hexadecimal digits, also in
    /// groups of 8, 4, 4, 4 and 12 with hyphens.
    #[must_use]
    pub fn requests_of(&self, path: &str) -> u64 {
        self.paths.get(&*counted(path)).into_iter().flat_map(Map::values).sum()
    }

    /// Returns the number of requests for this path of each opcode, sorted by the number on the
    /// wire. The operations of a multi count with their own opcodes. Sequence numbers and GUIDs do
    /// not matter, as for [`requests_of`](Self::requests_of).
    #[must_use]
    pub fn opcodes_of(&self, path: &str) -> Vec<(OpCode, u64)> {
        self.paths.get(&*counted(path)).map(sorted).unwrap_or_default()
    }

    /// Returns the paths with counts, sorted, without sequence numbers and with `*` for a GUID: the
    /// first 10,000 of at most 1,024 bytes, below the first 1,000 children of each node.
    #[must_use]
    pub fn paths(&self) -> Vec<&str> {
        let mut paths: Vec<_> = self.paths.keys().map(String::as_str).collect();
        paths.sort_unstable();
        paths
    }

    /// Returns the number of requests for all other paths.
    #[must_use]
    pub const fn requests_of_other_paths(&self) -> u64 {
        self.other_paths
    }

    /// Returns the sessions, sorted by id: those with a connection, and the last 1,000 others.
    #[must_use]
    pub fn sessions(&self) -> Vec<&ProxySession> {
        let mut sessions: Vec<_> = self.sessions.values().collect();
        sessions.sort_unstable_by_key(|session| session.id);
        sessions
    }

    /// Returns the session with this id.
    #[must_use]
    pub fn session(&self, id: i64) -> Option<&ProxySession> {
        self.sessions.get(&id)
    }

    fn count_path(&mut self, path: &str, opcode: OpCode) {
        let path = counted(path);
        if !self.paths.contains_key(&*path) && !self.admit(&path) {
            self.other_paths += 1;
            return;
        }
        let counts = self.paths.entry(path.into_owned()).or_default();
        *counts.entry(opcode).or_default() += 1;
    }

    /// Makes room for the count of a path, if there is any. Every new ancestor needs room, too.
    fn admit(&mut self, path: &str) -> bool {
        if path.len() > PATH_LENGTH {
            return false;
        }
        let new: Vec<_> =
            ancestors(path).take_while(|path| !self.known.contains_key(*path)).collect();
        let Some(first) = new.last() else { return true };
        let parent = ancestors(first).nth(1);
        let siblings = parent.and_then(|parent| self.known.get(parent)).copied();
        if self.known.len() + new.len() > PATHS || siblings.unwrap_or(0) >= CHILDREN {
            return false;
        }
        for path in new {
            self.known.entry(path.to_owned()).or_default();
            if let Some(parent) = ancestors(path).nth(1) {
                *self.known.entry(parent.to_owned()).or_default() += 1;
            }
        }
        true
    }
}

/// Returns a path and its ancestors, the root last.
fn ancestors(path: &str) -> impl Iterator<Item = &str> {
    std::iter::successors(Some(path), |path| match path.rsplit_once('/') {
        Some(("", "")) | None => None,
        Some(("", _)) => Some("/"),
        Some((parent, _)) => Some(parent),
    })
}

/// Returns the path under which requests for a path count. Otherwise the nodes of a lock would fill
/// the table.
fn counted(path: &str) -> Cow<'_, str> {
    let mut path = without_guids(path);
    // The last ten digits of a GUID are no sequence number, but one may follow a GUID.
    let end = without_number(&path).len();
    match &mut path {
        Cow::Borrowed(path) => *path = &path[..end],
        Cow::Owned(path) => path.truncate(end),
    }
    match path {
        Cow::Borrowed(path) => without_guids(path),
        Cow::Owned(path) => Cow::Owned(without_guids(&path).into_owned()),
    }
}

/// Replaces each GUID by an asterisk.
fn without_guids(path: &str) -> Cow<'_, str> {
    let (mut replaced, mut rest) = (String::new(), path);
    while let Some(start) = rest.find(|letter: char| letter.is_ascii_hexdigit()) {
        let (before, from) = rest.split_at(start);
        replaced.push_str(before);
        if let Some(length) = guid(from) {
            replaced.push('*');
            rest = &from[length..];
        } else {
            let end = from.find(|letter: char| !letter.is_ascii_hexdigit()).unwrap_or(from.len());
            replaced.push_str(&from[..end]);
            rest = &from[end..];
        }
    }
    if replaced.len() + rest.len() == path.len() {
        return Cow::Borrowed(path);
    }
    replaced.push_str(rest);
    Cow::Owned(replaced)
}

/// Returns the length of the GUID at the beginning of a text. No hexadecimal digit follows it.
fn guid(text: &str) -> Option<usize> {
    let digits = |text: &str| text.bytes().take_while(u8::is_ascii_hexdigit).count();
    if digits(text) == GUID {
        return Some(GUID);
    }
    let mut at = 0;
    for (group, length) in GROUPS.into_iter().enumerate() {
        if group > 0 {
            at += text[at..].starts_with('-').then_some(1)?;
        }
        if digits(&text[at..]) != length {
            return None;
        }
        at += length;
    }
    Some(at)
}

/// Removes the sequence number at the end of a path, if there is one.
fn without_number(path: &str) -> &str {
    let at = path.len().saturating_sub(DIGITS);
    match path.split_at_checked(at) {
        Some((rest, number)) if number.len() == DIGITS && is_number(number) => rest,
        _ => path,
    }
}

fn is_number(text: &str) -> bool {
    text.bytes().all(|byte| byte.is_ascii_digit())
}

fn sorted(counts: &Map<OpCode, u64>) -> Vec<(OpCode, u64)> {
    let mut counts: Vec<_> = counts.iter().map(|(opcode, count)| (*opcode, *count)).collect();
    counts.sort_unstable_by_key(|(opcode, _)| opcode.code());
    counts
}

/// The traffic so far, and the present connections.
#[derive(Debug, Default)]
pub(super) struct Live {
    pub(super) traffic: ProxyTraffic,
    connections: Map<u64, Connection>,
    last_connection: u64,
    /// The sessions without a connection, in the order in which they lost it.
    left: VecDeque<i64>,
    /// The last connection of each session.
    carriers: Map<i64, u64>,
}

#[derive(Debug)]
struct Connection {
    peer: SocketAddr,
    /// The number of its server.
    server: usize,
    session: Option<i64>,
    /// Ends the connection.
    cut: CancellationToken,
}

impl Live {
    /// Adds a connection to a server, which `cut` ends. Returns its number.
    pub(super) fn open(&mut self, peer: SocketAddr, server: usize, cut: CancellationToken) -> u64 {
        self.last_connection += 1;
        let connection = Connection { peer, server, session: None, cut };
        self.connections.insert(self.last_connection, connection);
        self.last_connection
    }

    /// The server has granted a session to a connection.
    pub(super) fn has_session(&mut self, id: u64, session: i64) {
        let Some(connection) = self.connections.get_mut(&id) else { return };
        connection.session = Some(session);
        let (peer, server) = (connection.peer, connection.server);
        self.carriers.insert(session, id);
        self.left.retain(|left| *left != session);
        let new = ProxySession { id: session, peer, server, connected: true, requests: 0 };
        let known = self.traffic.sessions.entry(session).or_insert(new);
        (known.peer, known.server, known.connected) = (peer, server, true);
    }

    /// Removes a connection. Its session may have moved to another one.
    pub(super) fn close(&mut self, id: u64) {
        let closed = self.connections.remove(&id);
        let Some(session) = closed.and_then(|connection| connection.session) else { return };
        if self.carriers.get(&session) != Some(&id) {
            return;
        }
        if let Some(known) = self.traffic.sessions.get_mut(&session) {
            known.connected = false;
        }
        self.left.push_back(session);
        if self.left.len() > SESSIONS
            && let Some(session) = self.left.pop_front()
        {
            self.carriers.remove(&session);
            self.traffic.sessions.remove(&session);
        }
    }

    /// Counts a request.
    pub(super) fn count(&mut self, session: i64, request: &Request) {
        let opcode = request.opcode();
        *self.traffic.requests.entry(opcode).or_default() += 1;
        if let Some(known) = self.traffic.sessions.get_mut(&session) {
            known.requests += 1;
        }
        let count = |(path, opcode)| self.traffic.count_path(path, opcode);
        match request {
            Request::Multi(ops) => {
                ops.iter().map(|op| (MultiOp::path(op), op.opcode())).for_each(count);
            }
            Request::MultiRead(ops) => {
                ops.iter().map(|op| (ReadOp::path(op), op.opcode())).for_each(count);
            }
            _ => request.path().map(|path| (path, opcode)).into_iter().for_each(count),
        }
    }

    /// Counts a request that the proxy does not understand.
    pub(super) fn count_unknown(&mut self, session: i64) {
        self.traffic.unknown += 1;
        if let Some(known) = self.traffic.sessions.get_mut(&session) {
            known.requests += 1;
        }
    }

    /// Cuts the matching connections. Returns their number, without those that are cut already.
    pub(super) fn cut(&self, matches: impl Fn(SocketAddr, Option<i64>) -> bool) -> usize {
        let open = self.connections.values().filter(|connection| !connection.cut.is_cancelled());
        let cut = open.filter(|connection| matches(connection.peer, connection.session));
        cut.map(|connection| connection.cut.cancel()).count()
    }

    /// Returns the number of connections to a server, without those that are cut already.
    pub(super) fn connections(&self, server: usize) -> usize {
        let open = self.connections.values().filter(|connection| !connection.cut.is_cancelled());
        open.filter(|connection| connection.server == server).count()
    }
}

#[cfg(test)]
mod tests {
    use zk_curator_proto::records::{DeleteRequest, ExistsRequest};

    use super::*;

    fn peer(port: u16) -> SocketAddr {
        ([127, 0, 0, 1], port).into()
    }

    fn exists(path: &str) -> Request {
        Request::Exists(ExistsRequest { path: path.into(), watch: false })
    }

    #[test]
    fn requests_count_per_opcode_and_path() {
        let mut live = Live::default();
        live.count(1, &exists("/a"));
        live.count(1, &exists("/a"));
        live.count(1, &Request::Ping);
        let delete = MultiOp::Delete(DeleteRequest { path: "/a".into(), version: -1 });
        live.count(1, &Request::Multi(vec![delete.clone(), delete]));
        live.count_unknown(1);
        let traffic = &live.traffic;
        let of = [OpCode::Exists, OpCode::Ping, OpCode::Multi, OpCode::Delete];
        assert_eq!(of.map(|opcode| traffic.requests(opcode)), [2, 1, 1, 0]);
        assert_eq!(traffic.requests_of("/a"), 4);
        assert_eq!(traffic.opcodes_of("/a"), [(OpCode::Delete, 2), (OpCode::Exists, 2)]);
        assert_eq!((traffic.paths(), traffic.unknown_requests()), (vec!["/a"], 1));
        assert_eq!((traffic.requests_of("/b"), traffic.opcodes_of("/b")), (0, Vec::new()));
    }

    #[test]
    fn sequence_numbers_are_left_out() {
        let mut live = Live::default();
        for number in 0..5 {
            live.count(1, &exists(&format!("/l/n-{number:010}")));
        }
        live.count(1, &exists("/l/n-"));
        for other in ["/l/n-000000001", "/l/n-00000000a1", "/ä000000001", "0000000001", "/"] {
            live.count(1, &exists(other));
            assert_eq!(live.traffic.requests_of(other), 1, "{other}");
        }
        let counts = ["/l/n-", "/l/n-0000000004"].map(|path| live.traffic.requests_of(path));
        assert_eq!((counts, live.traffic.paths().len()), ([6, 6], 6));
        assert_eq!(live.traffic.opcodes_of("/l/n-0000000009"), [(OpCode::Exists, 6)]);
    }

    #[test]
    fn guids_in_names_are_left_out() {
        let mut live = Live::default();
        let guid = |number: u128| format!("{number:032x}");
        let hyphenated = |number: u128| {
            let digits = guid(number);
            let cuts = [0..8, 8..12, 12..16, 16..20, 20..32];
            cuts.map(|cut| digits[cut].to_owned()).join("-")
        };
        for number in 0..2 * PATHS as u128 {
            let number = number << 64 | number;
            live.count(1, &exists(&format!("/c/_c_{}-lock-", hyphenated(number))));
            live.count(1, &exists(&format!("/c/_c_{}-lock-0000000007", hyphenated(number))));
            live.count(1, &exists(&format!("/k/{}__lock__0000000007", guid(number))));
            live.count(1, &exists(&format!("/jobs/{}/lease", hyphenated(number))));
        }
        live.count(1, &exists("/orders"));
        assert_eq!(live.traffic.requests_of("/orders"), 1);
        let paths = ["/c/_c_*-lock-", "/jobs/*/lease", "/k/*__lock__", "/orders"];
        assert_eq!(live.traffic.paths(), paths);
        let one = format!("/c/_c_{}-lock-0000000009", hyphenated(7));
        assert_eq!(live.traffic.requests_of(&one), 4 * PATHS as u64);
        for guid in [guid(7), hyphenated(7), guid(u128::MAX)] {
            for number in ["", "0000000001"] {
                assert_eq!(counted(&format!("/{guid}/{guid}{number}")), "/*/*", "{guid}{number}");
            }
        }
        // One digit less or more, or a group of another length.
        let (guid, hyphenated) = (guid(u128::MAX), hyphenated(u128::MAX));
        for other in [&guid[1..], &format!("{guid}a"), &hyphenated[1..], "ä-b", "a", "0/f-"] {
            let path = format!("/other/{other}");
            assert_eq!(counted(&path), path);
        }
    }

    #[test]
    fn names_that_are_used_once_leave_room_for_others() {
        let mut live = Live::default();
        for number in 0..PATHS {
            live.count(1, &exists(&format!("/jobs/order-{number}/lease")));
        }
        for path in ["/orders", "/orders/a/b", "/jobs", "/jobs/order-0/lease"] {
            let before = live.traffic.requests_of(path);
            live.count(1, &exists(path));
            assert_eq!(live.traffic.requests_of(path), before + 1, "{path}");
        }
        assert_eq!(live.traffic.requests_of_other_paths(), (PATHS - CHILDREN) as u64);
    }

    #[test]
    fn memory_for_paths_is_bounded() {
        let mut live = Live::default();
        live.count(1, &exists(&format!("/{}", "a".repeat(PATH_LENGTH))));
        let path = |number: usize| format!("/{}/{number}", number % 20);
        for number in 0..PATHS + 10 {
            live.count(1, &exists(&path(number)));
        }
        live.count(1, &exists(&path(0)));
        // The root and the twenty parents take room, too.
        let (room, counted) = (PATHS - 21, live.traffic.paths().len());
        assert_eq!((counted, live.traffic.known.len()), (room, PATHS));
        assert_eq!(live.traffic.requests_of(&path(0)), 2);
        assert_eq!(live.traffic.requests_of_other_paths(), (PATHS + 10 - room) as u64 + 1);
        let deep = format!("/deep{}", "/d".repeat(PATHS / 2));
        live.count(1, &exists(&deep));
        assert_eq!((live.traffic.requests_of(&deep), live.traffic.known.len()), (0, PATHS));
    }

    #[test]
    fn a_session_is_connected_until_its_last_connection_ends() {
        let mut live = Live::default();
        let first = live.open(peer(1), 0, CancellationToken::new());
        live.has_session(first, 7);
        let second = live.open(peer(2), 1, CancellationToken::new());
        live.has_session(second, 7);
        live.close(first);
        let expected =
            ProxySession { id: 7, peer: peer(2), server: 1, connected: true, requests: 0 };
        assert_eq!(live.traffic.sessions(), [&expected]);
        assert_eq!((live.connections(0), live.connections(1)), (0, 1));
        live.close(second);
        assert!(!live.traffic.session(7).unwrap().connected);
    }

    #[test]
    fn memory_for_sessions_is_bounded() {
        let mut live = Live::default();
        let stays = live.open(peer(1), 0, CancellationToken::new());
        live.has_session(stays, 0);
        for round in 0..3 {
            for session in 1..=SESSIONS as i64 {
                let id = live.open(peer(1), 0, CancellationToken::new());
                live.has_session(id, session + 100 * round);
                live.close(id);
            }
        }
        assert_eq!(live.traffic.sessions().len(), SESSIONS + 1);
        assert_eq!((live.carriers.len(), live.left.len()), (SESSIONS + 1, SESSIONS));
        assert!(live.traffic.session(0).unwrap().connected);
        assert_eq!(live.traffic.sessions()[1].id, 201);
    }

    #[test]
    fn one_client_is_cut() {
        let mut live = Live::default();
        let tokens = [1, 2].map(|port| {
            let token = CancellationToken::new();
            let id = live.open(peer(port), 0, token.clone());
            live.has_session(id, port.into());
            token
        });
        assert_eq!(live.cut(|_, session| session == Some(3)), 0);
        assert_eq!(live.cut(|_, session| session == Some(1)), 1);
        assert_eq!(tokens.each_ref().map(CancellationToken::is_cancelled), [true, false]);
        assert_eq!(live.cut(|from, _| from == peer(2)), 1);
        assert!(tokens[1].is_cancelled());
        // Their tasks have not ended yet.
        assert_eq!((live.cut(|_, _| true), live.connections(0)), (0, 0));
    }

    #[test]
    fn a_session_that_reconnects_often_evicts_no_other() {
        let mut live = Live::default();
        let mut lose = |session: i64| {
            let id = live.open(peer(1), 0, CancellationToken::new());
            live.has_session(id, session);
            live.close(id);
        };
        lose(1);
        (0..2 * SESSIONS).for_each(|_| lose(2));
        let ids: Vec<_> = live.traffic.sessions().iter().map(|session| session.id).collect();
        assert_eq!((ids, live.left.len()), (vec![1, 2], 2));
    }
}
