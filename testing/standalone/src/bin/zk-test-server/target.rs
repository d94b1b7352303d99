//! [`Servers`]: what the control port controls.

use std::collections::BTreeMap;
use std::fmt::Display;
use std::sync::{Mutex, MutexGuard, PoisonError};

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use serde_json::{Map, Value, json};
use zk_curator_proto::{ErrorCode, OpCode};
use zk_curator_testing::{LagGuard, Probe, RuleGuard, TestCluster, TestServer};
use zk_test_server::control::message::nothing;
use zk_test_server::control::rule::operation_name;
use zk_test_server::control::value::Hex;
use zk_test_server::control::{Call, CallError, Code, Condition, Decide, Target};

/// The largest shift of the wall clock by one call, in milliseconds.
const MAX_SHIFT: i64 = u32::MAX as i64;

/// A server, or the members of an ensemble.
pub(crate) struct Servers {
    cluster: TestCluster,
    /// `true` if a single server is read-only from the start.
    is_read_only: bool,
    lags: Mutex<Lags>,
}

#[derive(Default)]
struct Lags {
    next: u64,
    present: BTreeMap<u64, LagGuard>,
}

type Result<T = Value> = std::result::Result<T, CallError>;

impl Target for Servers {
    const KIND: &'static str = "server";

    fn connect_string(&self) -> String {
        self.cluster.connect_string()
    }

    fn install(&self, member: Option<usize>, decide: Decide) -> Result<RuleGuard> {
        match member {
            None => Ok(self.cluster.rule(decide)),
            Some(_) => Ok(self.member("add_rule", member)?[0].rule(decide)),
        }
    }

    async fn perform(&self, call: Call) -> Result {
        let name = call.name();
        match call {
            Call::Info {} => Ok(self.info()),
            Call::Stop { member } => {
                for server in self.member(name, member)? {
                    server.stop().await;
                }
                Ok(nothing())
            }
            Call::Start { member } => {
                let stopped =
                    self.member(name, member)?.iter().filter(|server| !server.is_running());
                self.restart(name, stopped).await
            }
            Call::Restart { member } => self.restart(name, self.member(name, member)?.iter()).await,
            Call::SetReadOnly { member, read_only } => {
                for server in self.member(name, member)? {
                    server.set_read_only(read_only);
                }
                Ok(nothing())
            }
            Call::Reset {} => self.reset().await,
            Call::Pause { .. }
            | Call::Resume { .. }
            | Call::Partition { .. }
            | Call::Split { .. }
            | Call::Heal { .. } => self.cut(&call).map(|()| nothing()),
            Call::Expire { .. } | Call::Disconnect { .. } => self.end_session(&call),
            Call::Lag { .. } | Call::EndLag { .. } | Call::ChangeLeader { .. } => self.lead(&call),
            Call::Advance { by_ms } => {
                self.cluster.advance(by_ms.get());
                Ok(nothing())
            }
            Call::ShiftWallClock { member, by_ms } => {
                if !(-MAX_SHIFT..=MAX_SHIFT).contains(&by_ms) {
                    let text = format!("{name}: `by_ms` is not from -{MAX_SHIFT} to {MAX_SHIFT}");
                    return Err(CallError::new(Code::BadRequest, text));
                }
                for server in self.member(name, member)? {
                    server.shift_wall_clock(by_ms);
                }
                Ok(nothing())
            }
            Call::SetVersion { .. }
            | Call::SetSequence { .. }
            | Call::Remove { .. }
            | Call::ReapContainers {} => self.change_nodes(&call),
            Call::Probe { member } => self.probe(name, member),
            Call::Journal {} => Ok(self.journal()),
            _ => Err(CallError::unsupported(name, "zk-test-server cannot do it")),
        }
    }

    async fn wait(&self, condition: &Condition) -> Result<()> {
        self.cluster.until(|probe| condition.holds(probe)).await;
        Ok(())
    }

    fn state(&self) -> impl Display {
        self.cluster.probe()
    }
}

impl Servers {
    pub(crate) fn new(cluster: TestCluster, is_read_only: bool) -> Self {
        let is_read_only = is_read_only && cluster.members().len() == 1;
        Self { cluster, is_read_only, lags: Mutex::default() }
    }

    /// Returns a member, or all.
    fn member(&self, call: &str, member: Option<usize>) -> Result<&[TestServer]> {
        let all = self.cluster.members();
        match member {
            None => Ok(all),
            Some(member) => all
                .get(member)
                .map(std::slice::from_ref)
                .ok_or_else(|| self.no_member(call, member)),
        }
    }

    fn no_member(&self, call: &str, member: usize) -> CallError {
        let text = match self.cluster.members().len() - 1 {
            0 => format!("{call}: there is no member {member}, only 0"),
            last => format!("{call}: there is no member {member}, only 0 to {last}"),
        };
        CallError::new(Code::NoSuchMember, text)
    }

    fn must_be_ensemble(&self, call: &str) -> Result<()> {
        if self.cluster.members().len() > 1 {
            Ok(())
        } else {
            Err(CallError::unsupported(call, "this is a single server; use `--ensemble`"))
        }
    }

    async fn restart(
        &self,
        call: &str,
        servers: impl Iterator<Item = &TestServer> + Send,
    ) -> Result {
        for server in servers {
            server.restart().await.map_err(|error| failed(call, &error))?;
        }
        Ok(nothing())
    }

    async fn reset(&self) -> Result {
        // Dropping a guard ends its lag, which takes the lock of the servers, not this one.
        drop(std::mem::take(&mut self.lags().present));
        self.cluster.release();
        self.heal_all();
        for server in self.cluster.members() {
            server.set_read_only(self.is_read_only);
        }
        let stopped = self.cluster.members().iter().filter(|server| !server.is_running());
        self.restart("reset", stopped).await
    }

    fn heal_all(&self) {
        self.cluster.heal();
        for server in self.cluster.members() {
            server.heal();
        }
    }

    /// Suspends and resumes, cuts and heals.
    fn cut(&self, call: &Call) -> Result<()> {
        let each = |member, change: fn(&TestServer)| {
            self.member(call.name(), member).map(|servers| servers.iter().for_each(change))
        };
        match call {
            Call::Pause { member: None } => self.cluster.hold(),
            Call::Pause { member } => each(*member, TestServer::hold)?,
            Call::Resume { member: None } => self.cluster.release(),
            Call::Resume { member } => each(*member, TestServer::release)?,
            Call::Partition { member } => each(*member, TestServer::partition)?,
            Call::Heal { member: None } => self.heal_all(),
            Call::Heal { member } => each(*member, TestServer::heal)?,
            Call::Split { sides } => {
                self.must_be_ensemble(call.name())?;
                let mut seen = vec![false; self.cluster.members().len()];
                for member in sides.iter().flatten() {
                    let seen = seen
                        .get_mut(*member)
                        .ok_or_else(|| self.no_member(call.name(), *member))?;
                    if std::mem::replace(seen, true) {
                        let text = format!("split: member {member} is on two sides");
                        return Err(CallError::new(Code::BadRequest, text));
                    }
                }
                let sides: Vec<&[usize]> = sides.iter().map(Vec::as_slice).collect();
                self.cluster.partition(&sides);
            }
            _ => return Err(CallError::unsupported(call.name(), "this cuts nothing")),
        }
        Ok(())
    }

    /// Expires a session, or closes connections.
    fn end_session(&self, call: &Call) -> Result {
        let no_session = |session: &Hex| {
            let text = format!("{}: there is no session {session}", call.name());
            CallError::new(Code::NoSuchSession, text)
        };
        let exists = |session: &Hex| self.cluster.probe().latest().session(session.get()).is_some();
        match call {
            Call::Expire { session } if self.cluster.expire(session.get()) => Ok(nothing()),
            Call::Expire { session } if exists(session) => {
                Err(failed(call.name(), &"no leader can end the session"))
            }
            Call::Expire { session } => Err(no_session(session)),
            Call::Disconnect { session: Some(session) } => {
                let ended = self.cluster.disconnect(session.get());
                if !ended && !exists(session) {
                    return Err(no_session(session));
                }
                Ok(json!({ "connections": u64::from(ended) }))
            }
            _ => {
                let ended: usize =
                    self.cluster.members().iter().map(TestServer::disconnect_all).sum();
                Ok(json!({ "connections": ended }))
            }
        }
    }

    /// Lags, and changes of the leader.
    fn lead(&self, call: &Call) -> Result {
        self.must_be_ensemble(call.name())?;
        match call {
            Call::Lag { member, delay_ms } => {
                self.member(call.name(), Some(*member))?;
                let guard = match delay_ms {
                    None => self.cluster.lag(*member),
                    Some(delay) => self.cluster.lag_by(*member, delay.get()),
                };
                let mut lags = self.lags();
                lags.next += 1;
                let lag = lags.next;
                lags.present.insert(lag, guard);
                Ok(json!({ "lag": lag }))
            }
            Call::EndLag { lag } => {
                let ended = self.lags().present.remove(lag);
                ended.map(|_| nothing()).ok_or_else(|| {
                    CallError::new(Code::NoSuchLag, format!("end_lag: there is no lag {lag}"))
                })
            }
            Call::ChangeLeader { member: None } => match self.cluster.change_leader() {
                Some(leader) => Ok(json!({ "leader": leader })),
                None => Err(failed(call.name(), &"no other member can lead")),
            },
            Call::ChangeLeader { member: Some(member) } => {
                self.member(call.name(), Some(*member))?;
                if self.cluster.make_leader(*member) || self.cluster.leader() == Some(*member) {
                    Ok(json!({ "leader": member }))
                } else {
                    Err(failed(call.name(), &format!("member {member} cannot lead")))
                }
            }
            _ => Err(CallError::unsupported(call.name(), "this is not about a leader")),
        }
    }

    /// Changes nodes without a client.
    fn change_nodes(&self, call: &Call) -> Result {
        let error = |error: ErrorCode, path: &str| match error {
            ErrorCode::NoNode => {
                let text = format!("{}: there is no node {path}", call.name());
                CallError::new(Code::NoSuchNode, text)
            }
            other => failed(call.name(), &other),
        };
        match call {
            Call::SetVersion { path, version } => {
                let path = path.as_str();
                self.cluster.set_version(path, *version).map_err(|code| error(code, path))?;
                Ok(nothing())
            }
            Call::SetSequence { path, next } => {
                let path = path.as_str();
                self.cluster.set_sequence(path, *next).map_err(|code| error(code, path))?;
                Ok(nothing())
            }
            Call::Remove { path } => {
                let path = path.as_str();
                if is_of_server(path) {
                    let text = format!("remove: {path} is a node of the server itself");
                    return Err(CallError::new(Code::BadRequest, text));
                }
                let removed = self.cluster.remove(path).map_err(|code| error(code, path))?;
                let owners = removed.iter().map(|stat| stat.ephemeral_owner);
                let mut owners: Vec<_> = owners.filter(|owner| *owner != 0).collect();
                owners.sort_unstable();
                owners.dedup();
                let sessions: Vec<_> = owners.into_iter().map(Hex::from).collect();
                Ok(json!({ "sessions": sessions }))
            }
            _ => Ok(json!({ "paths": self.cluster.reap_containers() })),
        }
    }

    fn info(&self) -> Value {
        let probe = self.cluster.probe();
        let members = self.cluster.members().iter().zip(probe.members());
        let members = members.map(|(server, member)| {
            json!({
                "address": server.connect_string(),
                "role": member.role.to_string(),
                "behind": member.behind,
            })
        });
        json!({
            "connect_string": self.cluster.connect_string(),
            "leader": probe.leader(),
            "members": members.collect::<Vec<_>>(),
        })
    }

    fn probe(&self, call: &str, member: Option<usize>) -> Result {
        self.member(call, member)?;
        let cluster = self.cluster.probe();
        let (nodes, counted): (&Probe, Vec<&Probe>) = match member {
            Some(member) => (cluster.member(member), vec![cluster.member(member)]),
            None => {
                (cluster.latest(), cluster.members().iter().map(|member| &member.probe).collect())
            }
        };
        let sum = |count: fn(&Probe) -> u64| counted.iter().map(|probe| count(probe)).sum::<u64>();
        let mut watches: Vec<_> = counted.iter().flat_map(|probe| probe.watches()).collect();
        watches.sort_unstable();
        let watches = watches.iter().map(|watch| {
            json!({
                "session": Hex::from(watch.session),
                "path": watch.path,
                "kind": watch.kind.to_string(),
            })
        });
        let mut requests = Map::new();
        for (opcode, name) in
            OpCode::ALL.iter().filter_map(|opcode| Some((*opcode, operation_name(*opcode)?)))
        {
            let count: u64 = counted.iter().map(|probe| probe.requests(opcode)).sum();
            if count > 0 {
                let sum = requests.get(name).and_then(Value::as_u64).unwrap_or(0) + count;
                requests.insert(name.to_owned(), sum.into());
            }
        }
        let paths = nodes.paths().into_iter().filter(|path| !is_of_server(path));
        Ok(json!({
            "zxid": Hex::from(nodes.zxid()),
            "connections": sum(Probe::connections),
            "notifications": sum(Probe::notifications),
            "nodes": paths.filter_map(|path| node(nodes, &path)).collect::<Vec<_>>(),
            "sessions": nodes.sessions().iter().map(session).collect::<Vec<_>>(),
            "watches": watches.collect::<Vec<_>>(),
            "requests": requests,
        }))
    }

    fn journal(&self) -> Value {
        let journal = self.cluster.journal();
        let entries = journal.entries().map(|entry| {
            json!({
                "at_ms": u64::try_from(entry.at.as_millis()).unwrap_or(u64::MAX),
                "member": entry.member,
                "fault": entry.fault.to_string(),
            })
        });
        json!({ "entries": entries.collect::<Vec<_>>() })
    }

    fn lags(&self) -> MutexGuard<'_, Lags> {
        self.lags.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Returns `true` for the nodes that every server has.
fn is_of_server(path: &str) -> bool {
    path == "/" || path == "/zookeeper" || path.starts_with("/zookeeper/")
}

fn node(probe: &Probe, path: &str) -> Option<Value> {
    let stat = probe.stat(path)?;
    let owner = (stat.ephemeral_owner != 0).then(|| Hex::from(stat.ephemeral_owner));
    let ttl = probe.ttl(path).map(|ttl| u64::try_from(ttl.as_millis()).unwrap_or(u64::MAX));
    Some(json!({
        "path": path,
        "data": probe.data(path).map(|data| STANDARD.encode(data)),
        "version": stat.version,
        "cversion": stat.cversion,
        "czxid": Hex::from(stat.czxid),
        "mzxid": Hex::from(stat.mzxid),
        "pzxid": Hex::from(stat.pzxid),
        "owner": owner,
        "container": probe.is_container(path),
        "ttl_ms": ttl,
        "children": stat.num_children,
    }))
}

fn session(session: &zk_curator_testing::ProbeSession) -> Value {
    json!({
        "session": Hex::from(session.id),
        "timeout_ms": u64::try_from(session.timeout.as_millis()).unwrap_or(u64::MAX),
        "connected": session.connected,
        "ephemerals": session.ephemerals,
        "identities": session.identities,
    })
}

fn failed(call: &str, why: &dyn Display) -> CallError {
    CallError::new(Code::Failed, format!("{call}: {why}"))
}
