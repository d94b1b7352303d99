//! What goes wrong in a run, and when: a list of [`Fault`]s.

use std::fmt;
use std::time::Duration;

use fastrand::Rng;

use super::seed;
use zk_curator_testing::Direction;

/// Something that goes wrong, and is put right again.
#[derive(Debug, Clone, PartialEq, Eq)]
#[expect(clippy::exhaustive_structs, reason = "made by those who list the faults of a run")]
pub struct Fault {
    /// When it begins, since the start of the run.
    pub at: Duration,
    /// How long it lasts; without effect for what happens at once.
    pub lasts: Duration,
    /// What it is.
    pub action: FaultAction,
}

/// What goes wrong. Clients and servers are counted from zero.
#[non_exhaustive]
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum FaultAction {
    /// One request in so many does not arrive, and its connection ends.
    LoseRequests {
        /// Whose.
        client: u32,
        /// One in so many.
        one_in: u32,
    },
    /// One request in so many is carried out, but its connection ends without the answer.
    LoseReplies {
        /// Whose.
        client: u32,
        /// One in so many.
        one_in: u32,
    },
    /// One request in so many arrives late, and what the connection sends after it.
    DelayRequests {
        /// Whose.
        client: u32,
        /// One in so many.
        one_in: u32,
        /// By how much at most.
        most: Duration,
    },
    /// The connection of a client is reset, once.
    Disconnect {
        /// Whose.
        client: u32,
    },
    /// Nothing gets through between a client and a server, or not in one direction.
    CutLink {
        /// Which client.
        client: u32,
        /// Which server.
        server: usize,
        /// Which way.
        direction: Direction,
    },
    /// Nothing gets through between a client and all servers, or not in one direction.
    CutClient {
        /// Which client.
        client: u32,
        /// Which way.
        direction: Direction,
    },
    /// Everything between a client and the servers takes longer.
    SlowNetwork {
        /// Which client.
        client: u32,
        /// How long one way takes at most.
        most: Duration,
    },
    /// A server is cut off from the other servers. Clients reach it.
    IsolateServer {
        /// Which one.
        server: usize,
    },
    /// The process of a server ends, and is started again.
    KillServer {
        /// Which one.
        server: usize,
    },
    /// The process of a server does nothing, and then goes on.
    StopServer {
        /// Which one.
        server: usize,
    },
    /// All servers are down, and come back: no session ends meanwhile but by the clocks of the clients.
    Outage,
    /// Another server becomes the leader.
    ChangeLeader,
    /// A server applies what is committed late: its reads are stale.
    Lag {
        /// Which one.
        server: usize,
        /// So long after the commit; `None` at the end of the fault.
        by: Option<Duration>,
    },
    /// The session of a client is ended by the servers, as by an administrator.
    Expire {
        /// Whose.
        client: u32,
    },
    /// Empty containers are removed, now.
    ReapContainers,
    /// The whole world stands still and goes on later, as on a machine that was suspended.
    Jump {
        /// By how much.
        by: Duration,
    },
    /// The process of a client does nothing, and then goes on (SIGSTOP, SIGCONT).
    PauseClient {
        /// Which one.
        client: u32,
    },
    /// The process of a client ends without a word, and is started again.
    KillClient {
        /// Which one.
        client: u32,
        /// Its machine is gone: the servers do not learn that the connections have ended.
        silently: bool,
    },
    /// The tasks of a client run late, as on a busy machine.
    Busy {
        /// Which one.
        client: u32,
        /// By how much at most.
        most: Duration,
    },
    /// A node of those that [an operator may delete](super::Sim::operator) is deleted, and what is below it: the first of
    /// those that come at or after this place of all, in the order of their paths.
    Operate {
        /// Which one: of 65,536.
        place: u16,
    },
    /// A client closes its frameworks in the middle of its work, and begins anew with others.
    Close {
        /// Which one.
        client: u32,
        /// What it has acquired is dropped only when they are closed, and not before.
        late: bool,
    },
    /// Futures are dropped before they are ready, one in so many of those that the workload lets be cancelled.
    Cancel {
        /// One in so many.
        one_in: u32,
    },
}

/// The kinds of faults, to choose from.
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
    /// All of them.
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

    /// Its name, as on the command line of `zk-sim`.
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

    /// The one with this name.
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
        // Half of them are over before anybody is missed, some outlast a session.
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
    /// Its kind.
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

    /// Whether it happens at one moment.
    #[must_use]
    pub const fn is_at_once(&self) -> bool {
        self.kind().is_at_once()
    }
}

impl fmt::Display for FaultAction {
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
            Self::LoseReplies { client, one_in } => write!(f, "one reply in {one_in} to c{client} is lost"),
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
            Self::IsolateServer { server } => write!(f, "zk{} is cut off from the other servers", server + 1),
            Self::KillServer { server } => write!(f, "zk{} is killed", server + 1),
            Self::StopServer { server } => write!(f, "zk{} stands still", server + 1),
            Self::Outage => f.write_str("all servers are down"),
            Self::ChangeLeader => f.write_str("another server leads"),
            Self::Lag { server, by: Some(by) } => write!(f, "zk{} lags by {by:?}", server + 1),
            Self::Lag { server, by: None } => write!(f, "zk{} lags", server + 1),
            Self::Expire { client } => write!(f, "the session of c{client} is ended"),
            Self::ReapContainers => f.write_str("empty containers are removed"),
            Self::Jump { by } => write!(f, "the world stands still for {by:?}"),
            Self::PauseClient { client } => write!(f, "c{client} is stopped"),
            Self::KillClient { client, silently: false } => write!(f, "c{client} is killed"),
            Self::KillClient { client, silently: true } => write!(f, "the machine of c{client} is gone"),
            Self::Busy { client, most } => write!(f, "the tasks of c{client} run up to {most:?} late"),
            Self::Operate { place } => write!(f, "an operator deletes a node, that at {place:#06x}"),
            Self::Close { client, late: false } => write!(f, "c{client} closes what it has connected"),
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

/// Which faults a run has. Made by [`Faults::none`], [`Faults::random`], [`Faults::of`] or [`Faults::list`].
#[derive(Debug, Clone)]
pub struct Faults(Choice);

#[derive(Debug, Clone)]
enum Choice {
    Random(Vec<FaultKind>),
    Listed(Vec<Fault>),
}

/// What a schedule is drawn for.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Scale {
    pub(crate) clients: u32,
    pub(crate) servers: usize,
    pub(crate) session: Duration,
    /// The last fault begins no later.
    pub(crate) horizon: Duration,
}

/// The most faults of a random schedule.
const MOST: usize = 16;

impl Default for Faults {
    /// [`Faults::random`].
    fn default() -> Self {
        Self::random()
    }
}

impl Faults {
    /// None at all. The network takes its time, and tasks run in the order that the seed wants.
    #[must_use]
    pub const fn none() -> Self {
        Self(Choice::Listed(Vec::new()))
    }

    /// One to sixteen of all kinds, as the seed wants.
    #[must_use]
    pub fn random() -> Self {
        Self::of(FaultKind::ALL.iter().copied())
    }

    /// One to sixteen of these kinds, as the seed wants; a kind that is named twice is twice as likely.
    #[must_use]
    pub fn of(kinds: impl IntoIterator<Item = FaultKind>) -> Self {
        Self(Choice::Random(kinds.into_iter().collect()))
    }

    /// These ones.
    #[must_use]
    pub fn list(faults: impl IntoIterator<Item = Fault>) -> Self {
        Self(Choice::Listed(faults.into_iter().collect()))
    }

    /// The faults of a run with this seed, in the order in which they begin.
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
