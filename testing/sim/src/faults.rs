//! The faults of a run: a list of [`Fault`]s with their times.

use std::collections::BTreeSet;
use std::fmt;
use std::time::Duration;

use fastrand::Rng;

use super::seed;
use zk_curator_testing::Direction;

/// A fault, and the time at which it happens.
#[derive(Debug, Clone, PartialEq, Eq)]
#[expect(clippy::exhaustive_structs, reason = "made by users who list the faults of a run")]
pub struct Fault {
    /// The time from the start of the run to the start of the fault.
    pub at: Duration,
    /// The duration of the fault; ignored for faults that happen at one moment.
    pub lasts: Duration,
    /// The action.
    pub action: FaultAction,
}

/// The kind and the parameters of a fault. Clients and servers are counted from zero.
#[non_exhaustive]
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum FaultAction {
    /// A request is lost with this probability, and its connection ends.
    LoseRequests {
        /// The number of the client.
        client: u32,
        /// The reciprocal of the probability, at least 1.
        one_in: u32,
    },
    /// With this probability, a request is executed, but its connection ends without the response.
    LoseReplies {
        /// The number of the client.
        client: u32,
        /// The reciprocal of the probability, at least 1.
        one_in: u32,
    },
    /// With this probability, a request is delayed, and so is everything that the connection sends
    /// after it.
    DelayRequests {
        /// The number of the client.
        client: u32,
        /// The reciprocal of the probability, at least 1.
        one_in: u32,
        /// The maximum delay.
        most: Duration,
    },
    /// The connection of a client is reset, once.
    Disconnect {
        /// The number of the client.
        client: u32,
    },
    /// Nothing gets through between a client and a server, or only in one direction.
    CutLink {
        /// The number of the client.
        client: u32,
        /// The number of the server.
        server: usize,
        /// The direction that is cut.
        direction: Direction,
    },
    /// Nothing gets through between a client and all servers, or only in one direction.
    CutClient {
        /// The number of the client.
        client: u32,
        /// The direction that is cut.
        direction: Direction,
    },
    /// The latency between a client and the servers is higher.
    SlowNetwork {
        /// The number of the client.
        client: u32,
        /// The maximum time for one way.
        most: Duration,
    },
    /// A server is cut off from the other servers, but clients can reach it.
    IsolateServer {
        /// The number of the server.
        server: usize,
    },
    /// The process of a server ends, and is restarted.
    KillServer {
        /// The number of the server.
        server: usize,
    },
    /// The process of a server stops, and then continues.
    StopServer {
        /// The number of the server.
        server: usize,
    },
    /// All servers are down, and come back. The servers end no session in between; only the clocks
    /// of the clients do.
    Outage,
    /// Another server becomes the leader.
    ChangeLeader,
    /// A server applies committed transactions late, so its reads are stale.
    Lag {
        /// The number of the server.
        server: usize,
        /// The delay after the commit; `None` for the rest of the fault.
        by: Option<Duration>,
    },
    /// A server is overloaded, and refuses a request with `Throttled` with this probability. This
    /// is Apache ZooKeeper's `throttled_op_wait_time`.
    Throttle {
        /// The number of the server; `None` for all of them.
        server: Option<usize>,
        /// The reciprocal of the probability; 1 for all requests.
        one_in: u32,
    },
    /// The servers end the session of a client, as an administrator can.
    Expire {
        /// The number of the client.
        client: u32,
    },
    /// The servers remove empty containers.
    ReapContainers,
    /// The whole world stands still and continues later, as a machine does after a suspend.
    Jump {
        /// The time that passes.
        by: Duration,
    },
    /// The process of a client stops, and then continues (SIGSTOP, SIGCONT).
    PauseClient {
        /// The number of the client.
        client: u32,
    },
    /// The process of a client is killed (SIGKILL), and is restarted.
    KillClient {
        /// The number of the client.
        client: u32,
        /// `true` if the servers do not learn that the connections have ended, as if the machine
        /// were gone.
        silently: bool,
    },
    /// The tasks of a client run late, as on a busy machine.
    Busy {
        /// The number of the client.
        client: u32,
        /// The maximum delay.
        most: Duration,
    },
    /// An operator deletes a node and everything below it. `place` selects it among the nodes that
    /// [an operator may delete](super::Sim::operator), sorted by path.
    Operate {
        /// The place among all matching nodes, in units of 1/65,536 of their number.
        place: u16,
    },
    /// A client closes its frameworks in the middle of its work, and begins again with new ones.
    Close {
        /// The number of the client.
        client: u32,
        /// `true` if the client drops what it has acquired only after the frameworks are closed.
        late: bool,
    },
    /// With this probability, a future is dropped before it is ready, if the workload allows
    /// cancelling it.
    Cancel {
        /// The reciprocal of the probability, at least 1.
        one_in: u32,
    },
}

/// A kind of fault.
#[non_exhaustive]
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum FaultKind {
    /// [`FaultAction::LoseRequests`].
    LoseRequests,
    /// [`FaultAction::LoseReplies`].
    LoseReplies,
    /// [`FaultAction::DelayRequests`].
    DelayRequests,
    /// [`FaultAction::Disconnect`].
    Disconnect,
    /// [`FaultAction::CutLink`].
    CutLink,
    /// [`FaultAction::CutClient`].
    CutClient,
    /// [`FaultAction::SlowNetwork`].
    SlowNetwork,
    /// [`FaultAction::IsolateServer`].
    IsolateServer,
    /// [`FaultAction::KillServer`].
    KillServer,
    /// [`FaultAction::StopServer`].
    StopServer,
    /// [`FaultAction::Outage`].
    Outage,
    /// [`FaultAction::ChangeLeader`].
    ChangeLeader,
    /// [`FaultAction::Lag`].
    Lag,
    /// [`FaultAction::Throttle`].
    Throttle,
    /// [`FaultAction::Expire`].
    Expire,
    /// [`FaultAction::ReapContainers`].
    ReapContainers,
    /// [`FaultAction::Jump`].
    Jump,
    /// [`FaultAction::PauseClient`].
    PauseClient,
    /// [`FaultAction::KillClient`].
    KillClient,
    /// [`FaultAction::Busy`].
    Busy,
    /// [`FaultAction::Operate`].
    Operator,
    /// [`FaultAction::Close`].
    Close,
    /// [`FaultAction::Cancel`].
    Cancel,
}

impl FaultKind {
    /// All kinds.
    pub const ALL: &[Self] = &[
        Self::LoseRequests,
        Self::LoseReplies,
        Self::DelayRequests,
        Self::Disconnect,
        Self::CutLink,
        Self::CutClient,
        Self::SlowNetwork,
        Self::IsolateServer,
        Self::KillServer,
        Self::StopServer,
        Self::Outage,
        Self::ChangeLeader,
        Self::Lag,
        Self::Throttle,
        Self::Expire,
        Self::ReapContainers,
        Self::Jump,
        Self::PauseClient,
        Self::KillClient,
        Self::Busy,
        Self::Cancel,
        Self::Operator,
        Self::Close,
    ];

    /// Returns the name that the command line of `zk-sim` uses.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::LoseRequests => "lose-requests",
            Self::LoseReplies => "lose-replies",
            Self::DelayRequests => "delay-requests",
            Self::Disconnect => "disconnect",
            Self::CutLink => "cut-link",
            Self::CutClient => "cut-client",
            Self::SlowNetwork => "slow-network",
            Self::IsolateServer => "isolate-server",
            Self::KillServer => "kill-server",
            Self::StopServer => "stop-server",
            Self::Outage => "outage",
            Self::ChangeLeader => "change-leader",
            Self::Lag => "lag",
            Self::Throttle => "throttle",
            Self::Expire => "expire",
            Self::ReapContainers => "reap-containers",
            Self::Jump => "jump",
            Self::PauseClient => "pause-client",
            Self::KillClient => "kill-client",
            Self::Busy => "busy",
            Self::Cancel => "cancel",
            Self::Operator => "operator",
            Self::Close => "close",
        }
    }

    /// Returns the kind with this name.
    #[must_use]
    pub fn named(name: &str) -> Option<Self> {
        Self::ALL.iter().copied().find(|kind| kind.name() == name)
    }

    fn draw(self, rng: &mut Rng, scale: &Scale) -> Fault {
        let client = rng.u32(..scale.clients.max(1));
        let server = rng.usize(..scale.servers.max(1));
        let direction = [Direction::Both, Direction::ToServer, Direction::ToClient][rng.usize(..3)];
        let session = millis(scale.session);
        let one_in = rng.u32(2..20);
        let most = Duration::from_millis([5, 50, 500][rng.usize(..3)]);
        let action = match self {
            Self::LoseRequests => FaultAction::LoseRequests { client, one_in },
            Self::LoseReplies => FaultAction::LoseReplies { client, one_in },
            Self::DelayRequests => FaultAction::DelayRequests { client, one_in, most },
            Self::Disconnect => FaultAction::Disconnect { client },
            Self::CutLink => FaultAction::CutLink { client, server, direction },
            Self::CutClient => FaultAction::CutClient { client, direction },
            Self::SlowNetwork => FaultAction::SlowNetwork { client, most },
            Self::IsolateServer => FaultAction::IsolateServer { server },
            Self::KillServer => FaultAction::KillServer { server },
            Self::StopServer => FaultAction::StopServer { server },
            Self::Outage => FaultAction::Outage,
            Self::ChangeLeader => FaultAction::ChangeLeader,
            Self::Lag => FaultAction::Lag { server, by: rng.bool().then_some(most) },
            Self::Throttle => FaultAction::Throttle {
                server: rng.bool().then_some(server),
                one_in: if rng.bool() { 1 } else { one_in },
            },
            Self::Expire => FaultAction::Expire { client },
            Self::ReapContainers => FaultAction::ReapContainers,
            Self::Jump => FaultAction::Jump { by: Duration::from_millis(rng.u64(1..=session * 2)) },
            Self::PauseClient => FaultAction::PauseClient { client },
            Self::KillClient => FaultAction::KillClient { client, silently: rng.bool() },
            Self::Busy => FaultAction::Busy { client, most },
            Self::Cancel => FaultAction::Cancel { one_in: one_in.min(6) },
            Self::Operator => FaultAction::Operate { place: rng.u16(..) },
            Self::Close => FaultAction::Close { client, late: rng.bool() },
        };
        let at = Duration::from_millis(rng.u64(0..=millis(scale.horizon)));
        // Half of the faults end before a server or a client is missed; some outlast a session.
        let longest = [session / 4, session / 2, session, session * 3][rng.usize(..4)];
        let lasts = Duration::from_millis(rng.u64(1..=longest.max(1)));
        Fault { at, lasts: if self.is_at_once() { Duration::ZERO } else { lasts }, action }
    }

    const fn is_at_once(self) -> bool {
        matches!(
            self,
            Self::Disconnect
                | Self::ChangeLeader
                | Self::Expire
                | Self::ReapContainers
                | Self::Jump
                | Self::Operator
                | Self::Close
        )
    }
}

impl fmt::Display for FaultKind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(self.name())
    }
}

impl FaultAction {
    /// Returns the kind of the fault.
    #[must_use]
    pub const fn kind(&self) -> FaultKind {
        match self {
            Self::LoseRequests { .. } => FaultKind::LoseRequests,
            Self::LoseReplies { .. } => FaultKind::LoseReplies,
            Self::DelayRequests { .. } => FaultKind::DelayRequests,
            Self::Disconnect { .. } => FaultKind::Disconnect,
            Self::CutLink { .. } => FaultKind::CutLink,
            Self::CutClient { .. } => FaultKind::CutClient,
            Self::SlowNetwork { .. } => FaultKind::SlowNetwork,
            Self::IsolateServer { .. } => FaultKind::IsolateServer,
            Self::KillServer { .. } => FaultKind::KillServer,
            Self::StopServer { .. } => FaultKind::StopServer,
            Self::Outage => FaultKind::Outage,
            Self::ChangeLeader => FaultKind::ChangeLeader,
            Self::Lag { .. } => FaultKind::Lag,
            Self::Throttle { .. } => FaultKind::Throttle,
            Self::Expire { .. } => FaultKind::Expire,
            Self::ReapContainers => FaultKind::ReapContainers,
            Self::Jump { .. } => FaultKind::Jump,
            Self::PauseClient { .. } => FaultKind::PauseClient,
            Self::KillClient { .. } => FaultKind::KillClient,
            Self::Busy { .. } => FaultKind::Busy,
            Self::Cancel { .. } => FaultKind::Cancel,
            Self::Operate { .. } => FaultKind::Operator,
            Self::Close { .. } => FaultKind::Close,
        }
    }

    /// Returns `true` if the fault happens at one moment, without a duration.
    #[must_use]
    pub const fn is_at_once(&self) -> bool {
        self.kind().is_at_once()
    }
}

impl fmt::Display for FaultAction {
    #[expect(clippy::too_many_lines, reason = "a list of texts")]
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let arrow = |direction: &Direction| match direction {
            Direction::Both => "nothing gets through",
            Direction::ToServer => "nothing gets there",
            Direction::ToClient => "nothing comes back",
        };
        match self {
            Self::LoseRequests { client, one_in } => {
                write!(f, "one request in {one_in} of c{client} is lost")
            }
            Self::LoseReplies { client, one_in } => {
                write!(f, "one reply in {one_in} to c{client} is lost")
            }
            Self::DelayRequests { client, one_in, most } => {
                write!(f, "one request in {one_in} of c{client} is up to {most:?} late")
            }
            Self::Disconnect { client } => write!(f, "the connection of c{client} is reset"),
            Self::CutLink { client, server, direction } => {
                write!(f, "c{client} and zk{}: {}", server + 1, arrow(direction))
            }
            Self::CutClient { client, direction } => {
                write!(f, "c{client} and all servers: {}", arrow(direction))
            }
            Self::SlowNetwork { client, most } => {
                write!(f, "c{client} and all servers are up to {most:?} apart")
            }
            Self::IsolateServer { server } => {
                write!(f, "zk{} is cut off from the other servers", server + 1)
            }
            Self::KillServer { server } => write!(f, "zk{} is killed", server + 1),
            Self::StopServer { server } => write!(f, "zk{} stands still", server + 1),
            Self::Outage => f.write_str("all servers are down"),
            Self::ChangeLeader => f.write_str("another server leads"),
            Self::Lag { server, by: Some(by) } => write!(f, "zk{} lags by {by:?}", server + 1),
            Self::Lag { server, by: None } => write!(f, "zk{} lags", server + 1),
            Self::Throttle { server, one_in } => {
                let who = server.map_or_else(
                    || "every server".to_owned(),
                    |server| format!("zk{}", server + 1),
                );
                write!(f, "{who} throttles one request in {one_in}")
            }
            Self::Expire { client } => write!(f, "the session of c{client} is ended"),
            Self::ReapContainers => f.write_str("empty containers are removed"),
            Self::Jump { by } => write!(f, "the world stands still for {by:?}"),
            Self::PauseClient { client } => write!(f, "c{client} is stopped"),
            Self::KillClient { client, silently: false } => write!(f, "c{client} is killed"),
            Self::KillClient { client, silently: true } => {
                write!(f, "the machine of c{client} is gone")
            }
            Self::Busy { client, most } => {
                write!(f, "the tasks of c{client} run up to {most:?} late")
            }
            Self::Operate { place } => {
                write!(f, "an operator deletes a node, that at {place:#06x}")
            }
            Self::Close { client, late: false } => {
                write!(f, "c{client} closes what it has connected")
            }
            Self::Close { client, late: true } => {
                write!(f, "c{client} closes what it has connected while it works")
            }
            Self::Cancel { one_in } => write!(f, "one future in {one_in} is cancelled"),
        }
    }
}

impl fmt::Display for Fault {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "at {:?} {}", self.at, self.action)?;
        if !self.action.is_at_once() {
            write!(f, " for {:?}", self.lasts)?;
        }
        Ok(())
    }
}

/// The choice of the faults of a run. Made by [`Faults::none`], [`Faults::random`], [`Faults::of`]
/// or [`Faults::list`].
#[derive(Debug, Clone)]
pub struct Faults(Choice);

#[derive(Debug, Clone)]
enum Choice {
    Random(Vec<FaultKind>),
    Listed(Vec<Fault>),
}

/// The parameters of a schedule.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Scale {
    pub(crate) clients: u32,
    pub(crate) servers: usize,
    pub(crate) session: Duration,
    /// The latest time at which a fault begins.
    pub(crate) horizon: Duration,
}

/// The maximum number of faults of a random schedule.
const MOST: usize = 16;

impl Default for Faults {
    /// Returns [`Faults::random`].
    fn default() -> Self {
        Self::random()
    }
}

impl Faults {
    /// Chooses no faults. The network still has latency, and tasks still run in the order that the
    /// seed draws.
    #[must_use]
    pub const fn none() -> Self {
        Self(Choice::Listed(Vec::new()))
    }

    /// Draws one to sixteen faults of all kinds.
    #[must_use]
    pub fn random() -> Self {
        Self::of(FaultKind::ALL.iter().copied())
    }

    /// Draws one to sixteen faults of these kinds. A kind that is named twice is twice as likely.
    #[must_use]
    pub fn of(kinds: impl IntoIterator<Item = FaultKind>) -> Self {
        Self(Choice::Random(kinds.into_iter().collect()))
    }

    /// Chooses exactly these faults.
    #[must_use]
    pub fn list(faults: impl IntoIterator<Item = Fault>) -> Self {
        Self(Choice::Listed(faults.into_iter().collect()))
    }

    /// Returns the kinds of the faults, without repetition.
    pub(crate) fn kinds(&self) -> BTreeSet<FaultKind> {
        match &self.0 {
            Choice::Random(kinds) => kinds.iter().copied().collect(),
            Choice::Listed(faults) => faults.iter().map(|fault| fault.action.kind()).collect(),
        }
    }

    /// Returns the faults of a run with this seed, in the order in which they begin.
    pub(crate) fn schedule(&self, seed: u64, scale: &Scale) -> Vec<Fault> {
        let mut faults = match &self.0 {
            Choice::Listed(faults) => faults.clone(),
            Choice::Random(kinds) if kinds.is_empty() => Vec::new(),
            Choice::Random(kinds) => {
                let mut rng = seed::rng(seed, "faults", 0);
                let count = rng.usize(1..=MOST);
                let scale = Scale { horizon: scale.horizon / [1, 3, 10][rng.usize(..3)], ..*scale };
                let one = |number: u64| {
                    let mut rng = seed::rng(seed, "fault", number);
                    kinds[rng.usize(..kinds.len())].draw(&mut rng, &scale)
                };
                (0..count as u64).map(one).collect()
            }
        };
        faults.sort_by_key(|fault| fault.at);
        faults
    }
}

fn millis(duration: Duration) -> u64 {
    u64::try_from(duration.as_millis()).unwrap_or(u64::MAX)
}
