use std::fmt;

use bytes::Bytes;
use futures_util::Stream;
use zk_curator::path::{SequenceSuffix, ZPath};
use zk_curator::watch::{Watch, until_error};
use zk_curator::{CuratorFramework, Error as ZkError, ErrorKind, EventType, FencingToken};

use super::{Error, Participant, tag};
use crate::participant::in_order;
use crate::path::child;

/// A value that a leader has published.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct Proclaimed {
    /// The leader: the path of its node.
    pub leader: String,
    /// The value.
    pub value: Bytes,
    /// The leader's fencing token.
    pub fencing_token: FencingToken,
}

impl From<Participant> for Proclaimed {
    fn from(participant: Participant) -> Self {
        let Participant { path, label, fencing_token } = participant;
        Self { leader: path, value: label, fencing_token }
    }
}

/// Follows who leads in an [`Election`](super::Election) and what it proclaims; [`into_stream`](Self::into_stream)
/// makes it a [`Stream`].
///
/// It watches the leader's node alone, so it is woken by what it has to tell, however many candidates come and go: once
/// for a value, which it reads with one request, and once for the end of a leader, after which it sends two. While nobody leads it watches the
/// children of the election.
///
/// The latest value is told; of values that follow each other quickly some may be left out. Nothing older is told after
/// something newer, also where another server lags behind.
pub struct Observer {
    zk: CuratorFramework,
    path: String,
    /// Fires when it is time to look; nothing if it is time.
    watch: Option<Watch>,
    /// The name of the node that was first: it stays so for as long as it exists.
    leader: Option<String>,
    /// The place that was returned last; nothing if nobody led.
    told: Option<Option<Place>>,
    /// The newest that was told.
    newest: Option<Place>,
}

/// The place of a value in history: the transactions that created the node, and changed it last.
type Place = (i64, i64);

impl Observer {
    pub(super) fn new(zk: &CuratorFramework, path: &str) -> Self {
        Self { zk: zk.clone(), path: path.to_owned(), watch: None, leader: None, told: None, newest: None }
    }

    /// The leader and its value, or `None` while nobody leads: at the first call the present ones, then whenever they
    /// change. Waits through every outage.
    ///
    /// # Errors
    /// * [`Error::Framework`] when the election cannot be read, for example for `InvalidPath` or `NoAuth`. The next call
    ///   tries again.
    /// * [`Error::Closed`] when the framework was closed.
    ///
    /// # Cancel safety
    /// Nothing is lost.
    pub async fn next(&mut self) -> Result<Option<Proclaimed>, Error> {
        let parent = ZPath::for_operation("observe", self.path.as_str())?;
        loop {
            if let Some(watch) = &mut self.watch {
                let event = watch.await;
                self.watch = None;
                if !event.is_ok_and(|event| event.event_type == EventType::NodeDataChanged) {
                    self.leader = None;
                }
            }
            let (place, seen) = match self.look(&parent).await {
                Ok(seen) => seen.unzip(),
                Err(error) => {
                    self.zk.ride_out(error).await?;
                    continue;
                }
            };
            if self.told != Some(place) && (place.is_none() || place >= self.newest) {
                self.told = Some(place);
                self.newest = self.newest.max(place);
                return Ok(seen);
            }
        }
    }

    /// Returns the leaders as a stream that ends after the first error.
    pub fn into_stream(self) -> impl Stream<Item = Result<Option<Proclaimed>, Error>> + Send + 'static {
        until_error(self, |observer| Box::pin(observer.next()))
    }

    /// Looks who leads, and leaves a watch for its next change.
    async fn look(&mut self, parent: &ZPath) -> Result<Option<(Place, Proclaimed)>, ZkError> {
        loop {
            let candidates = match self.leader.take() {
                Some(leader) => vec![leader],
                None => in_order(&self.zk, parent, tag::ELECTION).await?,
            };
            for name in candidates {
                let path = child(parent, &name);
                match self.zk.get_data(path.as_str()).watched().await {
                    Ok(watched) => {
                        let (value, stat) = watched.value;
                        (self.watch, self.leader) = (Some(watched.watch), Some(name));
                        let fencing_token = FencingToken::new(stat.czxid);
                        let proclaimed = Proclaimed { leader: path, value, fencing_token };
                        return Ok(Some(((stat.czxid, stat.mzxid), proclaimed)));
                    }
                    // Gone since it was listed.
                    Err(error) if error.kind() == ErrorKind::NoNode => {}
                    Err(error) => return Err(error),
                }
            }
            if let Some(watch) = self.nobody(parent).await? {
                self.watch = Some(watch);
                return Ok(None);
            }
        }
    }

    /// A watch that fires when somebody comes, if nobody has come.
    async fn nobody(&self, parent: &ZPath) -> Result<Option<Watch>, ZkError> {
        match self.zk.children(parent.as_str()).watched().await {
            Ok(watched) => {
                let is_candidate = |name: &String| SequenceSuffix::after(name, tag::ELECTION).is_some();
                Ok((!watched.value.0.iter().any(is_candidate)).then_some(watched.watch))
            }
            Err(error) if error.kind() == ErrorKind::NoNode => {
                let watched = self.zk.exists(parent.as_str()).watched().await?;
                Ok(watched.value.is_none().then_some(watched.watch))
            }
            Err(error) => Err(error),
        }
    }
}

impl fmt::Debug for Observer {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Observer").field("path", &self.path).finish_non_exhaustive()
    }
}
