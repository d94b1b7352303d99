//! The four-letter words: a client that sends one of them instead of a handshake is answered in text.

use std::fmt::{self, Write};
use std::net::SocketAddr;

use zk_curator_proto::OpCode;

use crate::access::java_address;
use crate::builder::Config;
use crate::clock::millis;
use crate::member::{Connection, Member, MemberId, Role, Traffic};
use crate::quorum::{ELECTION_PORT, QUORUM_PORT};
use crate::state::State;
use crate::watch::ConnectionId;

/// A word this server knows.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Word {
    Conf,
    Cons,
    Crst,
    Dirs,
    Dump,
    Envi,
    Gtmk,
    Isro,
    Mntr,
    Ruok,
    Srst,
    Srvr,
    Stat,
    /// With the mask that follows it.
    Stmk(i64),
    Wchc,
    Wchp,
    Wchs,
}

/// What the first bytes of a connection are.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Opening {
    Word(Word),
    /// A word, but not yet what belongs to it.
    Part,
    /// The length of a frame, or too little to tell.
    Frame,
}

/// What Apache ZooKeeper traces unless it is told otherwise: requests, packets between servers, sessions, warnings.
pub(crate) const DEFAULT_TRACE_MASK: i64 = 1 << 1 | 1 << 4 | 1 << 5 | 1 << 8;

impl Word {
    /// The word that begins a connection.
    pub(crate) fn parse(bytes: &[u8]) -> Opening {
        let Some((word, rest)) = bytes.split_first_chunk() else { return Opening::Frame };
        if word != b"stmk" {
            return Self::named(word).map_or(Opening::Frame, Opening::Word);
        }
        rest.first_chunk().map_or(Opening::Part, |mask| Opening::Word(Self::Stmk(i64::from_be_bytes(*mask))))
    }

    const fn named(word: &[u8; 4]) -> Option<Self> {
        Some(match word {
            b"conf" => Self::Conf,
            b"cons" => Self::Cons,
            b"crst" => Self::Crst,
            b"dirs" => Self::Dirs,
            b"dump" => Self::Dump,
            b"envi" => Self::Envi,
            b"gtmk" => Self::Gtmk,
            b"isro" => Self::Isro,
            b"mntr" => Self::Mntr,
            b"ruok" => Self::Ruok,
            b"srst" => Self::Srst,
            b"srvr" => Self::Srvr,
            b"stat" => Self::Stat,
            b"wchc" => Self::Wchc,
            b"wchp" => Self::Wchp,
            b"wchs" => Self::Wchs,
            _ => return None,
        })
    }
}

/// How the words name the last request of a connection.
pub(crate) const fn operation(opcode: OpCode) -> &'static str {
    match opcode {
        OpCode::Create | OpCode::Create2 | OpCode::CreateTtl | OpCode::CreateContainer => "CREA",
        OpCode::Delete => "DELE",
        OpCode::Exists => "EXIS",
        OpCode::GetData => "GETD",
        OpCode::SetData => "SETD",
        OpCode::GetAcl => "GETA",
        OpCode::SetAcl => "SETA",
        OpCode::GetChildren | OpCode::GetChildren2 => "GETC",
        OpCode::Sync => "SYNC",
        OpCode::Ping => "PING",
        OpCode::Multi => "MULT",
        OpCode::MultiRead => "MLTR",
        OpCode::CheckWatches => "CHKW",
        OpCode::RemoveWatches => "REMW",
        OpCode::SetWatches => "SETW",
        OpCode::SetWatches2 => "STW2",
        OpCode::AddWatch => "ADDW",
        OpCode::GetEphemerals => "GETE",
        OpCode::GetAllChildrenNumber => "GETACN",
        OpCode::WhoAmI => "HOMI",
        OpCode::CloseSession => "CLOS",
        _ => "NA",
    }
}

/// What a server without a quorum answers.
const NOT_SERVING: &str = "This ZooKeeper instance is not currently serving requests\n";

impl State {
    /// Sends the answer to a word, and ends the connection.
    pub(crate) fn answer_word(&mut self, at: MemberId, id: ConnectionId, word: Word) {
        let member = &mut self.members[at];
        member.count_received(id);
        if word == Word::Crst {
            for connection in member.connections.values_mut() {
                connection.traffic = Traffic::since(connection.traffic.established);
            }
        }
        if word == Word::Srst {
            (member.counters.received, member.counters.sent) = (0, 0);
        }
        if let Word::Stmk(mask) = word {
            member.trace_mask = mask;
        }
        let mut answer = String::new();
        let report = Report { state: self, member: &self.members[at], at };
        // Writing into a string does not fail.
        if report.write_answer(word, &mut answer).is_ok()
            && let Some(connection) = self.members[at].connections.get(&id)
        {
            connection.outbox.push_raw(answer.as_bytes());
        }
        self.seal(at, id);
    }
}

/// What a word asks about.
struct Report<'a> {
    state: &'a State,
    member: &'a Member,
    at: MemberId,
}

impl Report<'_> {
    fn write_answer(&self, word: Word, out: &mut String) -> fmt::Result {
        match word {
            Word::Ruok => out.write_str("imok"),
            Word::Isro if !self.member.serves() => out.write_str("null"),
            Word::Envi => self.write_environment(out),
            Word::Gtmk | Word::Stmk(_) => write!(out, "{}", self.member.trace_mask),
            _ if !self.member.serves() => out.write_str(NOT_SERVING),
            Word::Isro => out.write_str(if self.member.read_only { "ro" } else { "rw" }),
            Word::Crst => out.write_str("Connection stats reset.\n"),
            Word::Srst => out.write_str("Server stats reset.\n"),
            Word::Srvr => self.write_server(out),
            Word::Stat => {
                self.write_version(out)?;
                out.write_str("Clients:\n")?;
                self.write_connections(true, out)?;
                out.write_str("\n")?;
                self.write_statistics(out)
            }
            Word::Cons => {
                self.write_connections(false, out)?;
                out.write_str("\n")
            }
            Word::Mntr => self.write_numbers(out),
            Word::Dump => self.write_dump(out),
            Word::Wchs => self.write_watch_summary(out),
            Word::Wchc => self.write_watches_by_connection(out),
            Word::Wchp => self.write_watches_by_path(out),
            Word::Conf => self.write_configuration(out),
            Word::Dirs => out.write_str("datadir_size: 0\nlogdir_size: 0\n"),
        }
    }

    fn full_version(&self) -> String {
        let number = self.member.config.version.number();
        format!("{number}-zk-curator-testing-{}, built on 1970-01-01 00:00 UTC", env!("CARGO_PKG_VERSION"))
    }

    const fn mode(&self) -> &'static str {
        match self.member.role {
            _ if self.member.read_only => "read-only",
            Role::Standalone => "standalone",
            Role::Leader => "leader",
            Role::Follower => "follower",
            Role::Looking => "looking",
        }
    }

    /// Apache ZooKeeper counts the root twice, under both of its names.
    fn node_count(&self) -> usize {
        self.member.tree.count() + 1
    }

    fn write_version(&self, out: &mut String) -> fmt::Result {
        writeln!(out, "Zookeeper version: {}", self.full_version())?;
        if self.member.read_only {
            out.write_str("READ-ONLY mode; serving only read-only clients\n")?;
        }
        Ok(())
    }

    fn write_server(&self, out: &mut String) -> fmt::Result {
        self.write_version(out)?;
        self.write_statistics(out)
    }

    /// Latencies are below a millisecond.
    fn write_statistics(&self, out: &mut String) -> fmt::Result {
        writeln!(out, "Latency min/avg/max: 0/0.0/0")?;
        writeln!(out, "Received: {}", self.member.counters.received)?;
        writeln!(out, "Sent: {}", self.member.counters.sent)?;
        writeln!(out, "Connections: {}", self.member.connections.len())?;
        writeln!(out, "Outstanding: 0")?;
        writeln!(out, "Zxid: {:#x}", self.member.zxid)?;
        writeln!(out, "Mode: {}", self.mode())?;
        writeln!(out, "Node count: {}", self.node_count())?;
        if self.leads() {
            out.write_str("Proposal sizes last/min/max: 0/0/0\n")?;
        }
        Ok(())
    }

    fn leads(&self) -> bool {
        self.member.role == Role::Leader
    }

    fn write_connections(&self, brief: bool, out: &mut String) -> fmt::Result {
        for connection in self.member.connections.values() {
            self.write_connection(connection, brief, out)?;
            out.write_str("\n")?;
        }
        Ok(())
    }

    fn write_connection(&self, connection: &Connection, brief: bool, out: &mut String) -> fmt::Result {
        let Connection { peer, traffic, session, .. } = connection;
        // One: waiting for bytes. Connections that ask for a word wait for none.
        let waiting = u8::from(session.is_some());
        let (received, sent) = (traffic.received, traffic.sent);
        write!(out, " /{}[{waiting}](queued=0,recved={received},sent={sent}", java_peer(*peer))?;
        let attached = session.and_then(|id| Some((id, self.state.sessions.get(id)?)));
        if let (false, Some((id, session))) = (brief, attached) {
            write!(out, ",sid={id:#x},lop={},est={}", traffic.last_operation, traffic.established)?;
            write!(out, ",to={}", session.timeout)?;
            if traffic.last_xid >= 0 {
                write!(out, ",lcxid={:#x}", traffic.last_xid)?;
            }
            write!(out, ",lzxid={:#x},lresp={}", traffic.last_zxid, traffic.last_response)?;
            out.write_str(",llat=0,minlat=0,avglat=0,maxlat=0")?;
        }
        out.write_str(")")
    }

    fn write_numbers(&self, out: &mut String) -> fmt::Result {
        let (mut ephemerals, mut bytes) = (0, 0);
        for (path, node) in self.member.tree.root().walk("/") {
            ephemerals += usize::from(matches!(node.owner(), crate::tree::Owner::Session(_)));
            // The root is counted by its empty name too.
            bytes += path.len() + node.data().map_or(0, <[u8]>::len);
        }
        let local = self.state.sessions.ids(true).len();
        let numbers: [(&str, &dyn fmt::Display); 17] = [
            ("version", &self.full_version()),
            ("server_state", &self.mode()),
            ("ephemerals_count", &ephemerals),
            ("num_alive_connections", &self.member.connections.len()),
            ("avg_latency", &"0.0"),
            ("outstanding_requests", &0),
            ("znode_count", &self.node_count()),
            ("global_sessions", &(self.state.sessions.ids(false).len() - local)),
            ("local_sessions", &local),
            ("packets_sent", &self.member.counters.sent),
            ("packets_received", &self.member.counters.received),
            ("watch_count", &self.member.watches.len()),
            ("min_latency", &0),
            ("max_latency", &0),
            ("approximate_data_size", &bytes),
            ("uptime", &self.state.clock.now()),
            ("auth_failed_count", &0),
        ];
        for (name, value) in numbers {
            writeln!(out, "zk_{name}\t{value}")?;
        }
        // Of this process, as there; on other systems neither server says anything.
        if let Some((open, most)) = file_descriptors() {
            writeln!(out, "zk_open_file_descriptor_count\t{open}\nzk_max_file_descriptor_count\t{most}")?;
        }
        let quorum = self.state.quorum_sizes();
        match self.member.role {
            Role::Leader => {
                let (synced, lagging) = quorum;
                writeln!(out, "zk_quorum_size\t{}", self.state.members.len())?;
                writeln!(out, "zk_learners\t{}\nzk_synced_followers\t{synced}", synced + lagging)
            }
            Role::Follower => {
                writeln!(out, "zk_quorum_size\t{}", self.state.members.len())?;
                out.write_str("zk_peer_state\tfollowing - broadcast\n")
            }
            Role::Standalone | Role::Looking => Ok(()),
        }
    }

    fn write_dump(&self, out: &mut String) -> fmt::Result {
        out.write_str("SessionTracker dump:\n")?;
        self.write_sessions(out)?;
        out.write_str("ephemeral nodes dump:\n")?;
        let owners: Vec<_> = self.member.tree.owners().collect();
        writeln!(out, "Sessions with Ephemerals ({}):", owners.len())?;
        for (owner, paths) in owners {
            writeln!(out, "{owner:#x}:")?;
            for path in paths {
                writeln!(out, "\t{path}")?;
            }
        }
        // Connections do not expire here; their sessions do.
        out.write_str("Connections dump:\n")?;
        let count = self.member.connections.len();
        writeln!(
            out,
            "Connections Sets (1)/({count}):\n{count} expire at {}:",
            Date(self.state.clock.time())
        )?;
        for Connection { peer, session, .. } in self.member.connections.values() {
            writeln!(out, "\tip: /{} sessionId: {:#x}", java_peer(*peer), session.unwrap_or(0))?;
        }
        Ok(())
    }

    /// A follower does not know when sessions expire.
    fn write_sessions(&self, out: &mut String) -> fmt::Result {
        if self.member.role == Role::Follower {
            writeln!(out, "Global Sessions({}):", self.state.sessions.ids(false).len())?;
            for (id, session) in self.state.sessions.iter() {
                writeln!(out, "{id:#x}\t{}ms", session.timeout)?;
            }
            return Ok(());
        }
        let deadlines: Vec<_> = self.state.sessions.by_deadline().collect();
        let sessions = self.state.sessions.ids(false).len();
        writeln!(out, "Session Sets ({})/({sessions}):", deadlines.len())?;
        for (deadline, ids) in deadlines {
            writeln!(out, "{} expire at {}:", ids.len(), Date(self.state.clock.time_at(deadline)))?;
            for id in ids {
                writeln!(out, "\t{id:#x}")?;
            }
        }
        Ok(())
    }

    fn write_watch_summary(&self, out: &mut String) -> fmt::Result {
        let table = self.member.watches.of_nodes();
        let (watchers, paths) = (table.watchers().count(), table.paths().count());
        let total: usize = table.watchers().map(|(_, paths)| paths.len()).sum();
        writeln!(out, "{watchers} connections watching {paths} paths\nTotal watches:{total}")
    }

    fn write_watches_by_connection(&self, out: &mut String) -> fmt::Result {
        for (watcher, paths) in self.member.watches.of_nodes().watchers() {
            writeln!(out, "{:#x}", self.member.session_of(watcher).unwrap_or(0))?;
            for path in paths {
                writeln!(out, "\t{path}")?;
            }
        }
        out.write_str("\n")
    }

    fn write_watches_by_path(&self, out: &mut String) -> fmt::Result {
        for (path, watchers) in self.member.watches.of_nodes().paths() {
            writeln!(out, "{path}")?;
            for watcher in watchers {
                writeln!(out, "\t{:#x}", self.member.session_of(watcher).unwrap_or(0))?;
            }
        }
        out.write_str("\n")
    }

    fn write_configuration(&self, out: &mut String) -> fmt::Result {
        let Config { tick_time, max_client_connections, .. } = &*self.member.config;
        let (shortest, longest) = self.member.config.session_timeouts();
        writeln!(out, "clientPort={}", self.member.port.map_or(-1, i32::from))?;
        writeln!(out, "secureClientPort={}", self.member.tls_port.map_or(-1, i32::from))?;
        out.write_str("dataDir=memory\ndataDirSize=0\ndataLogDir=memory\ndataLogSize=0\n")?;
        writeln!(out, "tickTime={}", millis(*tick_time))?;
        writeln!(out, "maxClientCnxns={}", max_client_connections.unwrap_or(0))?;
        writeln!(out, "minSessionTimeout={}", millis(shortest))?;
        writeln!(out, "maxSessionTimeout={}", millis(longest))?;
        if self.state.is_alone() {
            return out.write_str("clientPortListenBacklog=-1\nserverId=0\n");
        }
        let id = self.at + 1;
        writeln!(out, "clientPortListenBacklog=-1\nserverId={id}\ninitLimit=10\nsyncLimit=5\nelectionAlg=3")?;
        writeln!(out, "electionPort={ELECTION_PORT}\nquorumPort={QUORUM_PORT}\npeerType=0\nmembership: ")?;
        out.write_str(&self.state.membership())
    }

    /// There is no Java here, and what the machine is does not matter.
    fn write_environment(&self, out: &mut String) -> fmt::Result {
        let missing = [
            "java.version",
            "java.vendor",
            "java.home",
            "java.class.path",
            "java.library.path",
            "java.io.tmpdir",
            "java.compiler",
        ];
        writeln!(out, "Environment:\nzookeeper.version={}\nhost.name=localhost", self.full_version())?;
        for name in missing {
            writeln!(out, "{name}=<NA>")?;
        }
        writeln!(out, "os.name={}\nos.arch={}", std::env::consts::OS, std::env::consts::ARCH)?;
        for name in ["os.version", "user.name", "user.home", "user.dir"] {
            writeln!(out, "{name}=<NA>")?;
        }
        out.write_str("os.memory.free=0MB\nos.memory.max=0MB\nos.memory.total=0MB\n")
    }
}

/// How many files this process has open and how many it may have, where the system tells.
fn file_descriptors() -> Option<(usize, u64)> {
    let open = std::fs::read_dir("/proc/self/fd").ok()?.count();
    let limits = std::fs::read_to_string("/proc/self/limits").ok()?;
    let files = limits.lines().find_map(|line| line.strip_prefix("Max open files"))?;
    Some((open, files.split_whitespace().next()?.parse().unwrap_or(u64::MAX)))
}

/// An address and its port as Java writes them.
fn java_peer(peer: SocketAddr) -> String {
    let address = java_address(peer.ip());
    if address.contains(':') {
        format!("[{address}]:{}", peer.port())
    } else {
        format!("{address}:{}", peer.port())
    }
}

/// Milliseconds since the Unix epoch, as `Fri Nov 20 11:02:50 UTC 2026`.
struct Date(i64);

impl fmt::Display for Date {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        const DAYS: [&str; 7] = ["Thu", "Fri", "Sat", "Sun", "Mon", "Tue", "Wed"];
        const MONTHS: [&str; 12] =
            ["Jan", "Feb", "Mar", "Apr", "May", "Jun", "Jul", "Aug", "Sep", "Oct", "Nov", "Dec"];
        let seconds = u64::try_from(self.0 / 1000).unwrap_or(0);
        let (days, time) = (seconds / 86_400, seconds % 86_400);
        let (mut year, mut day) = (1970, days);
        let leap =
            |year: u64| year.is_multiple_of(4) && (!year.is_multiple_of(100) || year.is_multiple_of(400));
        while day >= 365 + u64::from(leap(year)) {
            day -= 365 + u64::from(leap(year));
            year += 1;
        }
        let february = 28 + u64::from(leap(year));
        let lengths = [31, february, 31, 30, 31, 30, 31, 31, 30, 31, 30, 31];
        for (name, length) in MONTHS.iter().zip(lengths) {
            if day < length {
                let weekday = DAYS.get(usize::try_from(days % 7).unwrap_or(0)).unwrap_or(&"Thu");
                let (hour, minute, second) = (time / 3600, time / 60 % 60, time % 60);
                let day = day + 1;
                return write!(f, "{weekday} {name} {day:02} {hour:02}:{minute:02}:{second:02} UTC {year}");
            }
            day -= length;
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn dates_are_those_of_java() {
        for (millis, text) in [
            (0, "Thu Jan 01 00:00:00 UTC 1970"),
            (951_782_400_000, "Tue Feb 29 00:00:00 UTC 2000"),
            (1_795_172_570_999, "Fri Nov 20 11:02:50 UTC 2026"),
            (4_107_542_399_000, "Sun Feb 28 23:59:59 UTC 2100"),
            (4_107_542_400_000, "Mon Mar 01 00:00:00 UTC 2100"),
        ] {
            assert_eq!(Date(millis).to_string(), text);
        }
    }

    #[test]
    fn words_are_not_frames() {
        assert_eq!(Word::parse(b"ruok"), Opening::Word(Word::Ruok));
        assert_eq!(Word::parse(b"ruo"), Opening::Frame);
        assert_eq!(Word::parse(b"\0\0\0\x2d"), Opening::Frame);
        assert_eq!(Word::parse(b"nope"), Opening::Frame);
        assert_eq!(Word::parse(b"stmk\0\0\0\0\0\0\x01"), Opening::Part);
        assert_eq!(Word::parse(b"stmk\0\0\0\0\0\0\x01\x02"), Opening::Word(Word::Stmk(0x102)));
    }
}
