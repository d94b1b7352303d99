//! [`Proxied`]: what the control port controls.

use std::fmt::{self, Display};

use serde_json::{Map, Value, json};
use zk_curator_proto::OpCode;
use zk_curator_testing::{FaultProxy, Flow, ProxiedServer, ProxyTraffic, RuleGuard};
use zk_test_server::control::message::nothing;
use zk_test_server::control::rule::operation_name;
use zk_test_server::control::value::Hex;
use zk_test_server::control::{Call, CallError, Code, Condition, Decide, Target};

/// The maximum number of sessions in the message of a wait that takes too long.
const SHOWN: usize = 20;

/// The connections to the servers. A server is a member.
pub(crate) struct Proxied {
    proxy: FaultProxy,
}

type Result<T = Value> = std::result::Result<T, CallError>;

impl Target for Proxied {
    const KIND: &'static str = "proxy";

    fn connect_string(&self) -> String {
        self.proxy.connect_string()
    }

    fn install(&self, member: Option<usize>, decide: Decide) -> Result<RuleGuard> {
        match member {
            None => Ok(self.proxy.rule(decide)),
            Some(member) => Ok(self.member("add_rule", member)?.rule(decide)),
        }
    }

    async fn perform(&self, call: Call) -> Result {
        let name = call.name();
        match call {
            Call::Info {} => Ok(self.info()),
            Call::Stop { member } => self.each(name, member, |server| server.down()),
            Call::Start { member } => self.each(name, member, |server| server.up()),
            Call::Restart { member } => self.each(name, member, |server| {
                server.cut();
                server.up();
            }),
            Call::Partition { member } => {
                self.each(name, member, |server| set_flow(server, Flow::Stalled))
            }
            Call::Heal { member } => self.each(name, member, |server| set_flow(server, Flow::Open)),
            Call::Reset {} => self.each(name, None, |server| {
                set_flow(server, Flow::Open);
                server.up();
            }),
            Call::Disconnect { session } => self.disconnect(session),
            Call::Probe { member: None } => Ok(probe(&self.proxy)),
            Call::Probe { member: Some(_) } => {
                Err(CallError::unsupported(name, "a proxy counts for all members together"))
            }
            Call::Pause { .. } | Call::Resume { .. } => Err(CallError::unsupported(
                name,
                "a proxy cannot suspend a server; `partition` lets its clients wait",
            )),
            _ => Err(CallError::unsupported(name, "a proxy cannot do it")),
        }
    }

    async fn wait(&self, condition: &Condition) -> Result<()> {
        let connected = |traffic: &ProxyTraffic, id: Hex| {
            traffic.session(id.get()).is_some_and(|session| session.connected)
        };
        match condition {
            Condition::SessionConnected(id) => {
                self.proxy.until(|traffic| connected(traffic, *id)).await;
            }
            Condition::SessionDisconnected(id) => {
                self.proxy.until(|traffic| !connected(traffic, *id)).await;
            }
            _ => {
                let text = "a proxy knows only rules and the connections of sessions";
                return Err(CallError::unsupported("until", text));
            }
        }
        Ok(())
    }

    fn state(&self) -> impl Display {
        State(self.proxy.traffic())
    }
}

impl Proxied {
    pub(crate) const fn new(proxy: FaultProxy) -> Self {
        Self { proxy }
    }

    pub(crate) const fn proxy(&self) -> &FaultProxy {
        &self.proxy
    }

    fn member(&self, call: &str, member: usize) -> Result<ProxiedServer<'_>> {
        let mut servers = self.proxy.servers();
        let last = servers.len() - 1;
        servers.nth(member).ok_or_else(|| {
            let text = match last {
                0 => format!("{call}: there is no member {member}, only 0"),
                last => format!("{call}: there is no member {member}, only 0 to {last}"),
            };
            CallError::new(Code::NoSuchMember, text)
        })
    }

    /// Changes a member, or all.
    fn each(&self, call: &str, member: Option<usize>, change: fn(ProxiedServer<'_>)) -> Result {
        match member {
            None => self.proxy.servers().for_each(change),
            Some(member) => change(self.member(call, member)?),
        }
        Ok(nothing())
    }

    fn disconnect(&self, session: Option<Hex>) -> Result {
        let ended = match session {
            None => self.proxy.servers().map(|server| server.cut()).sum(),
            Some(session) => {
                let ended = self.proxy.disconnect(session.get());
                if !ended && self.proxy.traffic().session(session.get()).is_none() {
                    let text = format!("disconnect: there is no session {session}");
                    return Err(CallError::new(Code::NoSuchSession, text));
                }
                usize::from(ended)
            }
        };
        Ok(json!({ "connections": ended }))
    }

    fn info(&self) -> Value {
        let members = self.proxy.servers().map(|server| {
            json!({
                "address": server.connect_string(),
                "role": if server.is_down() { "stopped" } else { "proxy" },
                "behind": null,
                "server": server.server(),
            })
        });
        json!({
            "connect_string": self.proxy.connect_string(),
            "leader": null,
            "members": members.collect::<Vec<_>>(),
        })
    }
}

fn set_flow(server: ProxiedServer<'_>, flow: Flow) {
    server.requests(flow);
    server.replies(flow);
}

fn probe(proxy: &FaultProxy) -> Value {
    let traffic = proxy.traffic();
    let sessions = traffic.sessions().into_iter().map(|session| {
        json!({
            "session": Hex::from(session.id),
            "connected": session.connected,
            "peer": session.peer.to_string(),
            "member": session.server,
            "requests": session.requests,
        })
    });
    let path =
        |path: &&str| json!({ "path": path, "requests": by_operation(traffic.opcodes_of(path)) });
    json!({
        "connections": proxy.counts().connections,
        "sessions": sessions.collect::<Vec<_>>(),
        "requests": by_operation(traffic.opcodes()),
        "unknown_requests": traffic.unknown_requests(),
        "paths": traffic.paths().iter().map(path).collect::<Vec<_>>(),
        "requests_of_other_paths": traffic.requests_of_other_paths(),
    })
}

fn by_operation(opcodes: Vec<(OpCode, u64)>) -> Map<String, Value> {
    let mut counts = Map::new();
    for (opcode, count) in opcodes {
        if let Some(name) = operation_name(opcode) {
            let before = counts.get(name).and_then(Value::as_u64).unwrap_or(0);
            counts.insert(name.to_owned(), (before + count).into());
        }
    }
    counts
}

/// The sessions, one a line.
struct State(ProxyTraffic);

impl Display for State {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let sessions = self.0.sessions();
        writeln!(f, "{} sessions", sessions.len())?;
        for session in sessions.iter().take(SHOWN) {
            let state = if session.connected { "connected" } else { "disconnected" };
            let id = Hex::from(session.id);
            writeln!(f, "session {id} of {} {state}, {} requests", session.peer, session.requests)?;
        }
        Ok(())
    }
}
