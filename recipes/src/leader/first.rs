use tracing::warn;
use zk_curator::internal::ReadFreshness;
use zk_curator::path::{SequenceSuffix, ZPath};
use zk_curator::watch::Watch;
use zk_curator::{CuratorFramework, Error as ZkError, ErrorKind, EventType};

use super::{Error, Participant, tag};
use crate::lock;
use crate::participant::in_order;
use crate::path::child;

/// The tags of elections, and what observes them.
const KINDS: [(&str, &str); 4] = [
    (tag::LATCH, "LeaderLatch::observe"),
    (tag::SELECTOR, "LeaderSelector::observe"),
    (tag::ELECTION, "Election::observe"),
    (lock::tag::KAZOO, "with_kazoo"),
];

/// Follows the first candidate of an election, and its data.
///
/// 1. List the candidates; in a new session behind a quorum, since its server may lag behind the
///    last one.
/// 2. Read the first one, and leave a watch on it: it stays first for as long as it exists.
/// 3. Without a candidate, leave a watch on the children, or on a parent that does not exist.
/// 4. When the data have changed, go to 2. When it is gone, or a candidate has arrived, go to 1.
pub(super) struct FirstCandidate {
    zk: CuratorFramework,
    path: String,
    tag: &'static str,
    /// A handle that is bound to the session in which a quorum has been asked.
    session: Option<CuratorFramework>,
    /// Fires when it is time to look; nothing if it is time.
    watch: Option<Watch>,
    /// The name of the node that was first.
    first: Option<String>,
    /// The place that was returned last; nothing in it if there was no candidate.
    told: Option<Option<CandidateHistory>>,
    /// `true` if it was logged that the candidates belong to another kind of election.
    has_warned: bool,
}

/// The place of a candidate and its data in history: the transactions that created the node, and
/// changed it last.
type CandidateHistory = (i64, i64);

impl FirstCandidate {
    pub(super) fn new(zk: &CuratorFramework, path: &str, tag: &'static str) -> Self {
        let (zk, path) = (zk.clone(), path.to_owned());
        Self {
            zk,
            path,
            tag,
            session: None,
            watch: None,
            first: None,
            told: None,
            has_warned: false,
        }
    }

    pub(super) fn path(&self) -> &str {
        &self.path
    }

    /// The first candidate: the present one at the first call, then whenever it changes. Waits
    /// through every outage.
    pub(super) async fn next(&mut self) -> Result<Option<Participant>, Error> {
        let parent = ZPath::for_operation("observe", self.path.as_str())?;
        loop {
            self.changed().await; // 4
            let (place, seen) = match self.look(&parent).await {
                Ok(seen) => seen.unzip(),
                Err(error) => {
                    self.session = None;
                    self.zk.wait_for_recovery(error).await?;
                    continue;
                }
            };
            // Within a session no read is older than the one before, and the first one is behind a
            // quorum.
            if self.told != Some(place) {
                self.told = Some(place);
                return Ok(seen);
            }
        }
    }

    /// Waits until it is time to look.
    async fn changed(&mut self) {
        let Some(watch) = &mut self.watch else { return };
        let event = watch.await;
        self.watch = None;
        match event {
            Ok(event) if event.event_type == EventType::NodeDataChanged => {}
            Ok(_) => self.first = None,
            // The session is over.
            Err(_) => (self.first, self.session) = (None, None),
        }
    }

    /// Reads which node is first, and leaves a watch for the next change.
    async fn look(
        &mut self,
        parent: &ZPath,
    ) -> Result<Option<(CandidateHistory, Participant)>, ZkError> {
        let (zk, mut read) = match &self.session {
            Some(session) => (session.clone(), ReadFreshness::AsIs),
            None => (self.zk.bound_to_session()?, ReadFreshness::Linearizable),
        };
        loop {
            // A node that was listed in the last session may be gone, and a lagging server would
            // still show it.
            let known = self.first.take().filter(|_| read == ReadFreshness::AsIs);
            let candidates = match known {
                Some(first) => vec![first],
                None => in_order(&zk, parent, self.tag, read).await?, // 1
            };
            (self.session, read) = (Some(zk.clone()), ReadFreshness::AsIs);
            for name in candidates {
                let path = child(parent, &name);
                // 2
                match zk.get_data(path.as_str()).watched().await {
                    Ok(watched) => {
                        let (label, stat) = watched.value;
                        (self.watch, self.first) = (Some(watched.watch), Some(name));
                        let place = (stat.czxid, stat.mzxid);
                        return Ok(Some((place, Participant::new(path, label, &stat))));
                    }
                    // Gone since it was listed.
                    Err(error) if error.kind() == ErrorKind::NoNode => {}
                    Err(error) => return Err(error),
                }
            }
            // 3
            if let Some(watch) = self.nobody(&zk, parent).await? {
                self.watch = Some(watch);
                return Ok(None);
            }
        }
    }

    /// A watch that fires when a candidate comes, if none has come.
    async fn nobody(
        &mut self,
        zk: &CuratorFramework,
        parent: &ZPath,
    ) -> Result<Option<Watch>, ZkError> {
        match zk.children(parent.as_str()).watched().await {
            Ok(watched) => {
                let (names, _) = watched.value;
                let is_there =
                    |tag| names.iter().any(|name| SequenceSuffix::after(name, tag).is_some());
                if is_there(self.tag) {
                    return Ok(None);
                }
                let other = KINDS.iter().find(|(tag, _)| is_there(tag));
                if let Some((_, observe)) =
                    other.filter(|_| !std::mem::replace(&mut self.has_warned, true))
                {
                    warn!(
                        framework = self.zk.name(),
                        path = self.path,
                        "the candidates here are of another kind of election, so this one has no leader: use {observe}"
                    );
                }
                Ok(Some(watched.watch))
            }
            Err(error) if error.kind() == ErrorKind::NoNode => {
                let watched = zk.exists(parent.as_str()).watched().await?;
                Ok(watched.value.is_none().then_some(watched.watch))
            }
            Err(error) => Err(error),
        }
    }
}
