//! The state that all requests share.

use std::sync::Arc;
use std::time::Duration;

use tokio::time::timeout;
use zk_curator::internal::Locked;
use zk_curator::{ClientInfo, CuratorFramework};

use crate::changes::Changes;
use crate::ensemble::EnsembleSampler;
use crate::live::{Hub, MemoKey, SharedRead};
use crate::options::WebOptions;
use crate::problem::{Problem, RequestResult};
use crate::reads::{Listing, ListingQuery, NodeRead, list, read_node};
use crate::search::SearchLimits;
use crate::security::{
    Authentication, BackOff, ChangePermit, Hosts, Keys, Redaction, RequestRates, Sessions,
    StreamLimits,
};
use crate::show::visible;

/// The time for the reads and changes of one request. A person does not wait longer.
const DEADLINE: Duration = Duration::from_secs(5);
/// The pause between two samples of the servers by default.
const EVERY: Duration = Duration::from_secs(5);
/// The time in which the servers have to name the identities of the session.
const IDENTITY: Duration = Duration::from_millis(500);

/// An explorer.
#[derive(Debug)]
pub(crate) struct Web {
    pub(crate) zk: CuratorFramework,
    pub(crate) hub: Arc<Hub>,
    pub(crate) ensemble: Arc<EnsembleSampler>,
    pub(crate) write: bool,
    pub(crate) tls: bool,
    /// `true` if pages are live.
    pub(crate) live: bool,
    /// The time that a session of a user lasts.
    pub(crate) session_time: Duration,
    pub(crate) base: String,
    pub(crate) max_body: usize,
    pub(crate) hosts: Hosts,
    pub(crate) authentication: Authentication,
    pub(crate) redaction: Redaction,
    pub(crate) keys: Keys,
    pub(crate) sessions: Sessions,
    pub(crate) back_off: BackOff,
    pub(crate) rates: RequestRates,
    pub(crate) streams: Arc<StreamLimits>,
    /// The running searches: one of each user.
    pub(crate) searches: Arc<StreamLimits>,
    pub(crate) search_limits: SearchLimits,
    /// The identities of the session with this epoch.
    identity: Locked<Option<(u64, String)>>,
}

impl Web {
    pub(crate) fn new(zk: &CuratorFramework, options: WebOptions) -> Self {
        let WebOptions { write, hosts, base, tls, authentication, redaction, limits, .. } = options;
        let every = options.every.unwrap_or(EVERY);
        let keys = Keys::random();
        Self {
            zk: zk.with_deadline(DEADLINE),
            hub: Hub::new(zk.clone(), limits.watches),
            ensemble: EnsembleSampler::new(zk.clone(), options.probe, every),
            write,
            tls,
            live: limits.streams.min(limits.streams_of_one).min(limits.watches) > 0,
            session_time: limits.session_time,
            base,
            max_body: zk.max_frame(),
            hosts: Hosts::new(&hosts),
            authentication,
            redaction,
            sessions: Sessions::new(keys.clone(), limits.sessions, limits.session_time),
            keys,
            back_off: BackOff::new(limits.attempts),
            rates: RequestRates::new(limits.per_second, limits.burst),
            streams: Arc::new(StreamLimits::new(limits.streams, limits.streams_of_one)),
            searches: Arc::new(StreamLimits::new(limits.searches, 1)),
            search_limits: limits.search,
            identity: Locked::default(),
        }
    }

    /// Returns the children of a node, read once for all of its viewers.
    pub(crate) async fn children(
        &self,
        path: &str,
        query: &ListingQuery,
    ) -> RequestResult<Arc<Listing>> {
        let read = || async {
            let listing = list(&self.zk, path, query).await?;
            Ok::<_, zk_curator::Error>(SharedRead::Children(Arc::new(listing)))
        };
        match self.hub.shared(path, MemoKey::Children(query.clone()), read).await? {
            SharedRead::Children(listing) => Ok(listing),
            SharedRead::Node(_) => Err(Problem::no_page()),
        }
    }

    /// Returns a node, read once for all of its viewers.
    pub(crate) async fn node(&self, path: &str) -> RequestResult<Arc<NodeRead>> {
        let read = || async {
            let node = read_node(&self.zk, path).await?;
            Ok::<_, zk_curator::Error>(SharedRead::Node(Arc::new(node)))
        };
        match self.hub.shared(path, MemoKey::Node, read).await? {
            SharedRead::Node(node) => Ok(node),
            SharedRead::Children(_) => Err(Problem::no_page()),
        }
    }

    /// Returns the means to change nodes, if that is allowed.
    pub(crate) fn changes<'a>(&'a self, permit: &'a ChangePermit) -> RequestResult<Changes<'a>> {
        if self.write {
            return Ok(Changes { zk: &self.zk, hub: &self.hub, permit });
        }
        Err(read_only())
    }

    /// Returns the identities by which the servers see this program, such as `digest:explorer`.
    pub(crate) async fn identity(&self) -> String {
        let status = self.zk.status();
        if !status.state.is_connected() {
            return "unknown".to_owned();
        }
        let epoch = status.session_epoch;
        let known = self.identity.lock().clone();
        if let Some((_, identity)) = known.filter(|(of, _)| *of == epoch) {
            return identity;
        }
        // Servers before ZooKeeper 3.7 do not know the request.
        let identity = match timeout(IDENTITY, self.zk.who_am_i().into_future()).await {
            Ok(Ok(identities)) => in_words(&identities),
            Ok(Err(_)) | Err(_) => return "unknown".to_owned(),
        };
        *self.identity.lock() = Some((epoch, identity.clone()));
        identity
    }
}

/// Returns the refusal of a change.
pub(crate) fn read_only() -> Problem {
    let detail = "This explorer only reads. It was started without permission to change nodes.";
    Problem::forbidden("Read-only explorer", detail)
}

fn in_words(identities: &[ClientInfo]) -> String {
    let one = |one: &ClientInfo| format!("{}:{}", visible(&one.scheme), visible(&one.user));
    let words: Vec<_> = identities.iter().map(one).collect();
    if words.is_empty() { "none".to_owned() } else { words.join(", ") }
}
