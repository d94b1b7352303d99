//! The responses to four-letter words.

use std::fmt::{self, Write};
use std::net::SocketAddr;

use super::date::Date;
use super::word::Word;
use crate::access::java_address;
use crate::clock::millis;
use crate::config::Config;
use crate::ensemble::State;
use crate::ids::{MemberId, Place};
use crate::member::{Connection, Member};
use crate::quorum::{ELECTION_PORT, QUORUM_PORT, Role, membership};

/// The response of a server without a quorum.
const NOT_SERVING: &str = "This ZooKeeper instance is not currently serving requests\n";

/// Sends the response to a word, and ends the connection.
pub(crate) fn answer(state: &mut State, here: Place, word: Word) {
    let Place { member: at, connection: id } = here;
    let member = state.member_mut(at);
    member.connections_mut().count_received(id);
    match word {
        Word::Crst => member.connections_mut().reset_traffic(),
        Word::Srst => member.connections_mut().reset_counters(),
        Word::Stmk(mask) => member.set_trace_mask(mask),
        _ => {}
    }
    let mut text = String::new();
    let report = Report { state, member: state.member(at), at };
    // Writing into a string does not fail.
    if report.write_response(word, &mut text).is_ok()
        && let Some(connection) = state.member(at).connections().get(id)
    {
        connection.outbox().push_raw(text.as_bytes());
    }
    state.seal(here);
}

/// The member that a word asks about.
struct Report<'a> {
    state: &'a State,
    member: &'a Member,
    at: MemberId,
}

impl Report<'_> {
    fn write_response(&self, word: Word, out: &mut String) -> fmt::Result {
        match word {
            Word::Ruok => out.write_str("imok"),
            Word::Isro if !self.serves() => out.write_str("null"),
            Word::Envi => self.write_environment(out),
            Word::Gtmk | Word::Stmk(_) => write!(out, "{}", self.member.trace_mask()),
            _ if !self.serves() => out.write_str(NOT_SERVING),
            Word::Isro => out.write_str(if self.is_read_only() { "ro" } else { "rw" }),
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
        let number = self.state.config().version.number();
        format!(
            "{number}-zk-curator-testing-{}, built on 1970-01-01 00:00 UTC",
            env!("CARGO_PKG_VERSION")
        )
    }

    fn mode(&self) -> &'static str {
        match self.role() {
            _ if self.is_read_only() => "read-only",
            Role::Standalone => "standalone",
            Role::Leader => "leader",
            Role::Follower => "follower",
            Role::Looking => "looking",
        }
    }

    /// Apache ZooKeeper counts the root twice, under both of its names.
    fn node_count(&self) -> usize {
        self.member.tree().count() + 1
    }

    fn write_version(&self, out: &mut String) -> fmt::Result {
        writeln!(out, "Zookeeper version: {}", self.full_version())?;
        if self.is_read_only() {
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
        writeln!(out, "Received: {}", self.member.connections().counters().received)?;
        writeln!(out, "Sent: {}", self.member.connections().counters().sent)?;
        writeln!(out, "Connections: {}", self.member.connections().len())?;
        writeln!(out, "Outstanding: 0")?;
        writeln!(out, "Zxid: {:#x}", self.member.zxid())?;
        writeln!(out, "Mode: {}", self.mode())?;
        writeln!(out, "Node count: {}", self.node_count())?;
        if self.role() == Role::Leader {
            out.write_str("Proposal sizes last/min/max: 0/0/0\n")?;
        }
        Ok(())
    }

    fn role(&self) -> Role {
        self.state.quorum().role(self.at)
    }

    fn serves(&self) -> bool {
        self.state.quorum().serves(self.at)
    }

    fn is_read_only(&self) -> bool {
        self.state.quorum().is_read_only(self.at)
    }

    fn write_connections(&self, brief: bool, out: &mut String) -> fmt::Result {
        for connection in self.member.connections().iter() {
            self.write_connection(connection, brief, out)?;
            out.write_str("\n")?;
        }
        Ok(())
    }

    fn write_connection(
        &self,
        connection: &Connection,
        brief: bool,
        out: &mut String,
    ) -> fmt::Result {
        let (peer, traffic, session) =
            (connection.peer(), connection.traffic(), connection.session());
        // 1 means waiting for bytes. Connections that sent a word wait for none.
        let waiting = u8::from(session.is_some());
        let (received, sent) = (traffic.received, traffic.sent);
        write!(out, " /{}[{waiting}](queued=0,recved={received},sent={sent}", java_peer(peer))?;
        let attached = session.and_then(|id| Some((id, self.state.sessions().get(id)?)));
        if let (false, Some((id, session))) = (brief, attached) {
            write!(out, ",sid={id:#x},lop={},est={}", traffic.last_operation, traffic.established)?;
            write!(out, ",to={}", session.timeout())?;
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
        for (path, node) in self.member.tree().root().walk("/") {
            ephemerals += usize::from(matches!(node.owner(), crate::tree::Owner::Session(_)));
            // The root is counted by its empty name too.
            bytes += path.len() + node.data().map_or(0, <[u8]>::len);
        }
        let local = self.state.sessions().ids(true).len();
        let numbers: [(&str, &dyn fmt::Display); 17] = [
            ("version", &self.full_version()),
            ("server_state", &self.mode()),
            ("ephemerals_count", &ephemerals),
            ("num_alive_connections", &self.member.connections().len()),
            ("avg_latency", &"0.0"),
            ("outstanding_requests", &0),
            ("znode_count", &self.node_count()),
            ("global_sessions", &(self.state.sessions().ids(false).len() - local)),
            ("local_sessions", &local),
            ("packets_sent", &self.member.connections().counters().sent),
            ("packets_received", &self.member.connections().counters().received),
            ("watch_count", &self.member.watches().len()),
            ("min_latency", &0),
            ("max_latency", &0),
            ("approximate_data_size", &bytes),
            ("uptime", &self.state.uptime(self.at)),
            ("auth_failed_count", &0),
        ];
        for (name, value) in numbers {
            writeln!(out, "zk_{name}\t{value}")?;
        }
        // The values of this process. Apache ZooKeeper too omits them on other systems.
        if let Some((open, most)) = file_descriptors() {
            writeln!(
                out,
                "zk_open_file_descriptor_count\t{open}\nzk_max_file_descriptor_count\t{most}"
            )?;
        }
        let (synced, lagging) = self.state.quorum().follower_counts();
        match self.role() {
            Role::Leader => {
                writeln!(out, "zk_quorum_size\t{}", self.state.members().len())?;
                writeln!(out, "zk_learners\t{}\nzk_synced_followers\t{synced}", synced + lagging)
            }
            Role::Follower => {
                writeln!(out, "zk_quorum_size\t{}", self.state.members().len())?;
                out.write_str("zk_peer_state\tfollowing - broadcast\n")
            }
            Role::Standalone | Role::Looking => Ok(()),
        }
    }

    fn write_dump(&self, out: &mut String) -> fmt::Result {
        out.write_str("SessionTracker dump:\n")?;
        self.write_sessions(out)?;
        out.write_str("ephemeral nodes dump:\n")?;
        let owners: Vec<_> = self.member.tree().owners().collect();
        writeln!(out, "Sessions with Ephemerals ({}):", owners.len())?;
        for (owner, paths) in owners {
            writeln!(out, "{owner:#x}:")?;
            for path in paths {
                writeln!(out, "\t{path}")?;
            }
        }
        // Connections do not expire here; their sessions do.
        out.write_str("Connections dump:\n")?;
        let count = self.member.connections().len();
        writeln!(
            out,
            "Connections Sets (1)/({count}):\n{count} expire at {}:",
            Date(self.state.clock().time())
        )?;
        for connection in self.member.connections().iter() {
            let (peer, session) = (java_peer(connection.peer()), connection.session().unwrap_or(0));
            writeln!(out, "\tip: /{peer} sessionId: {session:#x}")?;
        }
        Ok(())
    }

    /// A follower does not know when sessions expire.
    fn write_sessions(&self, out: &mut String) -> fmt::Result {
        if self.role() == Role::Follower {
            writeln!(out, "Global Sessions({}):", self.state.sessions().ids(false).len())?;
            for (id, session) in self.state.sessions().iter() {
                writeln!(out, "{id:#x}\t{}ms", session.timeout())?;
            }
            return Ok(());
        }
        let deadlines: Vec<_> = self.state.sessions().by_deadline().collect();
        let sessions = self.state.sessions().ids(false).len();
        writeln!(out, "Session Sets ({})/({sessions}):", deadlines.len())?;
        for (deadline, ids) in deadlines {
            writeln!(
                out,
                "{} expire at {}:",
                ids.len(),
                Date(self.state.clock().time_at(deadline))
            )?;
            for id in ids {
                writeln!(out, "\t{id:#x}")?;
            }
        }
        Ok(())
    }

    fn write_watch_summary(&self, out: &mut String) -> fmt::Result {
        let table = self.member.watches().of_nodes();
        let (watchers, paths) = (table.watchers().count(), table.paths().count());
        let total: usize = table.watchers().map(|(_, paths)| paths.len()).sum();
        writeln!(out, "{watchers} connections watching {paths} paths\nTotal watches:{total}")
    }

    fn write_watches_by_connection(&self, out: &mut String) -> fmt::Result {
        for (watcher, paths) in self.member.watches().of_nodes().watchers() {
            writeln!(out, "{:#x}", self.member.connections().session_of(watcher).unwrap_or(0))?;
            for path in paths {
                writeln!(out, "\t{path}")?;
            }
        }
        out.write_str("\n")
    }

    fn write_watches_by_path(&self, out: &mut String) -> fmt::Result {
        for (path, watchers) in self.member.watches().of_nodes().paths() {
            writeln!(out, "{path}")?;
            for watcher in watchers {
                writeln!(
                    out,
                    "\t{:#x}",
                    self.member.connections().session_of(watcher).unwrap_or(0)
                )?;
            }
        }
        out.write_str("\n")
    }

    fn write_configuration(&self, out: &mut String) -> fmt::Result {
        let Config { tick_time, max_client_connections, .. } = self.state.config();
        let (shortest, longest) = self.state.config().session_timeouts();
        writeln!(out, "clientPort={}", self.member.port().map_or(-1, i32::from))?;
        writeln!(out, "secureClientPort={}", self.member.tls_port().map_or(-1, i32::from))?;
        out.write_str("dataDir=memory\ndataDirSize=0\ndataLogDir=memory\ndataLogSize=0\n")?;
        writeln!(out, "tickTime={}", millis(*tick_time))?;
        writeln!(out, "maxClientCnxns={}", max_client_connections.unwrap_or(0))?;
        writeln!(out, "minSessionTimeout={}", millis(shortest))?;
        writeln!(out, "maxSessionTimeout={}", millis(longest))?;
        if self.state.is_alone() {
            return out.write_str("clientPortListenBacklog=-1\nserverId=0\n");
        }
        let id = self.at + 1;
        writeln!(
            out,
            "clientPortListenBacklog=-1\nserverId={id}\ninitLimit=10\nsyncLimit=5\nelectionAlg=3"
        )?;
        writeln!(
            out,
            "electionPort={ELECTION_PORT}\nquorumPort={QUORUM_PORT}\npeerType=0\nmembership: "
        )?;
        out.write_str(&membership(self.state.members().iter().map(Member::port)))
    }

    /// Writes fixed values, because there is no Java, and the machine does not matter.
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
        writeln!(
            out,
            "Environment:\nzookeeper.version={}\nhost.name=localhost",
            self.full_version()
        )?;
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

/// Returns the numbers of open files and of allowed open files of this process, where available.
fn file_descriptors() -> Option<(usize, u64)> {
    let open = std::fs::read_dir("/proc/self/fd").ok()?.count();
    let limits = std::fs::read_to_string("/proc/self/limits").ok()?;
    let files = limits.lines().find_map(|line| line.strip_prefix("Max open files"))?;
    Some((open, files.split_whitespace().next()?.parse().unwrap_or(u64::MAX)))
}

/// Returns an address with its port as Java writes it.
fn java_peer(peer: SocketAddr) -> String {
    let address = java_address(peer.ip());
    if address.contains(':') {
        format!("[{address}]:{}", peer.port())
    } else {
        format!("{address}:{}", peer.port())
    }
}
