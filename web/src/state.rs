//! The state that all requests share.

use std::sync::Arc;
use std::time::Duration;

use axum::http::StatusCode;
use tokio::sync::{Semaphore, SemaphorePermit};
use tokio::time::timeout;
use zk_curator::internal::Locked;
use zk_curator::{ClientInfo, CuratorFramework};

use crate::changes::Changes;
use crate::destinations::Destinations;
use crate::ensemble::EnsembleSampler;
use crate::history::{HistorySource, PastView};
use crate::impersonation::Impersonation;
use crate::journal::Journals;
use crate::live::{Hub, MemoKey, SharedRead};
use crate::options::{Probe, WebOptions};
use crate::problem::{Problem, ProblemKind, RequestResult};
use crate::reads::{
    CardRead, Growth, Listing, ListingQuery, NodeRead, RecipesRead, ServicesRead, SessionCache,
    WhyRead, list, read_card, read_node, read_recipes, read_services, read_why,
};
use crate::search::SearchLimits;
use crate::security::{
    Authentication, BackOff, ChangePermit, Hosts, Keys, Redaction, RequestRates, Sessions,
    StreamLimits, Viewer,
};
use crate::show::visible;
use crate::transfer::{
    CompareWith, Comparison, Uploads, WorkPlaces, compare, problem_of, until_gone,
};

/// The time for the reads and changes of one request. A person does not wait longer.
const DEADLINE: Duration = Duration::from_secs(5);
/// The number of reads of whole subtrees at the same time: each may take some 24 MiB.
const SUBTREES: usize = 4;
/// The time to wait for the place of such a read.
const PLACE_WITHIN: Duration = Duration::from_secs(4);
/// The pause between two samples of the servers by default.
const EVERY: Duration = Duration::from_secs(5);
/// The time in which the servers have to name the identities of the session.
const IDENTITY: Duration = Duration::from_millis(500);

/// An explorer.
#[derive(Debug)]
pub(crate) struct Web {
    pub(crate) zk: CuratorFramework,
    pub(crate) hub: Arc<Hub>,
    /// The sessions that the servers know.
    pub(crate) known_sessions: Arc<SessionCache>,
    growth: Growth,
    /// `None` if the servers are not asked.
    ensemble: Option<Arc<EnsembleSampler>>,
    pub(crate) write: bool,
    pub(crate) tls: bool,
    /// `true` if pages are live.
    pub(crate) live: bool,
    /// The time that a session of a user lasts.
    pub(crate) session_time: Duration,
    pub(crate) base: String,
    /// The pages to which a user returns after signing in.
    pub(crate) destinations: Destinations,
    pub(crate) max_body: usize,
    pub(crate) hosts: Hosts,
    pub(crate) authentication: Authentication,
    pub(crate) redaction: Redaction,
    pub(crate) keys: Keys,
    pub(crate) sessions: Arc<Sessions>,
    pub(crate) back_off: Arc<BackOff>,
    pub(crate) rates: Arc<RequestRates>,
    pub(crate) streams: Arc<StreamLimits>,
    /// The running searches: one of each user.
    pub(crate) searches: Arc<StreamLimits>,
    pub(crate) search_limits: SearchLimits,
    /// The places for reads of whole subtrees.
    subtrees: Arc<Semaphore>,
    /// The places for backups, comparisons, restores and reads of the past.
    transfers: Arc<StreamLimits>,
    pub(crate) uploads: Arc<Uploads>,
    pub(crate) journals: Arc<Journals>,
    /// The files of the past, if there are any.
    history: Option<Arc<HistorySource>>,
    history_all_data: bool,
    /// The sessions of the users, if each has one.
    pub(crate) impersonation: Option<Impersonation>,
    /// The identities of the session with this epoch.
    identity: Locked<Option<(u64, String)>>,
}

impl Web {
    pub(crate) fn new(
        zk: &CuratorFramework,
        options: WebOptions,
        destinations: Destinations,
    ) -> Self {
        let WebOptions { write, hosts, base, tls, authentication, redaction, limits, .. } = options;
        let impersonation = options.impersonation;
        let probe = match options.probe {
            Probe::Asked(probe) => Some(probe),
            Probe::NotAsked => None,
        };
        let every = options.every.unwrap_or(EVERY);
        let keys = Keys::random();
        Self {
            zk: zk.with_deadline(DEADLINE),
            hub: Hub::new(zk.clone(), limits.watches),
            known_sessions: SessionCache::new(zk.clone(), probe.clone()),
            growth: Growth::default(),
            ensemble: probe.map(|probe| EnsembleSampler::new(zk.clone(), probe, every)),
            write,
            tls,
            live: limits.streams.min(limits.streams_of_one).min(limits.watches) > 0,
            session_time: limits.session_time,
            base,
            destinations,
            max_body: zk.max_frame(),
            hosts: Hosts::new(&hosts),
            authentication,
            sessions: Arc::new(Sessions::new(keys.clone(), limits.sessions, limits.session_time)),
            keys,
            back_off: Arc::new(BackOff::new(limits.attempts)),
            rates: Arc::new(RequestRates::new(limits.per_second, limits.burst)),
            streams: Arc::new(StreamLimits::new(limits.streams, limits.streams_of_one)),
            searches: Arc::new(StreamLimits::new(limits.searches, 1)),
            search_limits: limits.search,
            subtrees: Arc::new(Semaphore::new(SUBTREES)),
            transfers: Arc::new(StreamLimits::new(limits.transfers, limits.transfers_of_one())),
            uploads: Arc::new(Uploads::new(limits.upload)),
            journals: Journals::new(zk.clone(), redaction.clone(), limits.journals),
            history: HistorySource::new(options.history, limits.history).map(Arc::new),
            history_all_data: options.history_all_data,
            redaction,
            impersonation,
            identity: Locked::default(),
        }
    }

    /// Returns the explorer of a user: with a session of its own, and otherwise as this one.
    pub(crate) fn for_user(&self, zk: &CuratorFramework) -> Self {
        Self {
            zk: zk.with_deadline(DEADLINE),
            hub: Hub::new(zk.clone(), self.hub.most()),
            // The servers tell the sessions and their own state without an identity.
            known_sessions: Arc::clone(&self.known_sessions),
            growth: Growth::default(),
            ensemble: self.ensemble.clone(),
            write: self.write,
            tls: self.tls,
            live: self.live,
            session_time: self.session_time,
            base: self.base.clone(),
            destinations: self.destinations.clone(),
            max_body: zk.max_frame(),
            hosts: self.hosts.clone(),
            authentication: self.authentication.clone(),
            redaction: self.redaction.clone(),
            keys: self.keys.clone(),
            sessions: Arc::clone(&self.sessions),
            back_off: Arc::clone(&self.back_off),
            rates: Arc::clone(&self.rates),
            streams: Arc::clone(&self.streams),
            searches: Arc::clone(&self.searches),
            search_limits: self.search_limits,
            subtrees: Arc::clone(&self.subtrees),
            transfers: Arc::clone(&self.transfers),
            uploads: Arc::clone(&self.uploads),
            journals: Journals::new(zk.clone(), self.redaction.clone(), self.journals.most()),
            history: self.history.clone(),
            history_all_data: self.history_all_data,
            impersonation: None,
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
        let key = MemoKey::Children(path.to_owned(), query.clone());
        match self.hub.shared(path, key, read).await? {
            SharedRead::Children(listing) => Ok(listing),
            _ => Err(Problem::no_page()),
        }
    }

    /// Returns a node, read once for all of its viewers.
    pub(crate) async fn node(&self, path: &str) -> RequestResult<Arc<NodeRead>> {
        let read = || async {
            let node = read_node(&self.zk, path).await?;
            Ok::<_, zk_curator::Error>(SharedRead::Node(Arc::new(node)))
        };
        let key = MemoKey::Node(path.to_owned());
        match self.hub.shared(path, key, read).await? {
            SharedRead::Node(node) => Ok(node),
            _ => Err(Problem::no_page()),
        }
    }

    /// Returns the recipe for the page of a node, read once for all of its viewers.
    pub(crate) async fn card(&self, path: &str) -> RequestResult<Arc<CardRead>> {
        let read = || async {
            let card = read_card(&self.zk, path, &self.redaction).await;
            Ok::<_, Problem>(SharedRead::Card(Arc::new(card)))
        };
        let key = MemoKey::Card(path.to_owned());
        match self.hub.shared(path, key, read).await? {
            SharedRead::Card(card) => Ok(card),
            _ => Err(Problem::no_page()),
        }
    }

    /// Returns the recipe at a node with all of its contenders, read once for all of its viewers.
    pub(crate) async fn why(&self, path: &str) -> RequestResult<Arc<WhyRead>> {
        let read = || async {
            let why = read_why(&self.zk, path, &self.redaction).await?;
            Ok::<_, Problem>(SharedRead::Why(Arc::new(why)))
        };
        let key = MemoKey::Why(path.to_owned());
        match self.hub.shared(path, key, read).await? {
            SharedRead::Why(why) => Ok(why),
            _ => Err(Problem::no_page()),
        }
    }

    /// Returns the recipes below a node, read once for all of its viewers.
    pub(crate) async fn recipes(&self, root: &str) -> RequestResult<Arc<RecipesRead>> {
        let read = || async {
            let _place = self.subtree_place().await?;
            let read = read_recipes(&self.zk, root, &self.redaction, &self.growth);
            let (recipes, took) = read.await?;
            self.hub.paced(root, took);
            Ok::<_, Problem>(SharedRead::Recipes(Arc::new(recipes)))
        };
        match self.hub.shared(root, MemoKey::Recipes, read).await? {
            SharedRead::Recipes(recipes) => Ok(recipes),
            _ => Err(Problem::no_page()),
        }
    }

    /// Returns the services below a base path, read once for all of its viewers.
    pub(crate) async fn services(&self, base: &str) -> RequestResult<Arc<ServicesRead>> {
        let read = || async {
            let _place = self.subtree_place().await?;
            let services = read_services(&self.zk, base, &self.redaction).await?;
            Ok::<_, Problem>(SharedRead::Services(Arc::new(services)))
        };
        match self.hub.shared(base, MemoKey::Services, read).await? {
            SharedRead::Services(services) => Ok(services),
            _ => Err(Problem::no_page()),
        }
    }

    /// Waits for the place of a read of a whole subtree. Without a limit, the requests that a user
    /// may send at once would take gigabytes.
    async fn subtree_place(&self) -> RequestResult<SemaphorePermit<'_>> {
        match timeout(PLACE_WITHIN, self.subtrees.acquire()).await {
            Ok(Ok(place)) => Ok(place),
            Ok(Err(_)) | Err(_) => {
                let detail = "The nodes below other paths are being read. Try again in a moment.";
                Err(Problem::no_place("Too much at the same time", detail))
            }
        }
    }

    /// Returns the places of a user for backups, comparisons, restores and reads of the past.
    pub(crate) fn transfers_of<'a>(&'a self, viewer: &'a Viewer) -> WorkPlaces<'a> {
        WorkPlaces { limits: &self.transfers, who: &viewer.counted_as }
    }

    /// Compares a subtree with another one, or with a file.
    pub(crate) async fn compared(
        &self,
        viewer: &Viewer,
        root: &str,
        with: CompareWith,
        acls: bool,
    ) -> RequestResult<Comparison> {
        let (zk, redaction, root) = (self.zk.clone(), self.redaction.clone(), root.to_owned());
        let compared = until_gone(self.transfers_of(viewer), move || async move {
            compare(&zk, &redaction, &root, with, acls).await
        });
        compared.await?.map_err(|error| problem_of(&error))
    }

    /// Returns the sampler of the servers, if they may be asked.
    pub(crate) fn ensemble(&self) -> RequestResult<&Arc<EnsembleSampler>> {
        self.ensemble.as_ref().ok_or_else(|| {
            let detail = "The settings of this explorer do not let it ask the servers.";
            Problem::forbidden("The servers are not asked", detail)
        })
    }

    /// Returns the files of the past, if the operator has named any.
    pub(crate) fn history(&self) -> RequestResult<&Arc<HistorySource>> {
        self.history.as_ref().ok_or_else(|| {
            let detail = "This explorer has no logs of a server: its operator can name them.";
            Problem::new(StatusCode::NOT_FOUND, ProblemKind::Usage, "No history", detail)
        })
    }

    /// Returns what is shown of the past.
    pub(crate) fn past_view(&self) -> PastView {
        PastView::new(self.zk.server_path("/"), self.redaction.clone(), self.history_all_data)
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
