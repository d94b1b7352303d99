use bytes::Bytes;
use tracing::debug;
use zk_curator::path::ZPath;
use zk_curator::{CuratorFramework, Error, ErrorKind, OwnedNode};

use super::{Error as LeaderError, Participant};
use crate::contender::{Contender, KeptWatch};
use crate::lock;
use crate::measure::Candidacy;
use crate::order::{Blocker, NodeTag, OrderRule};
use crate::participant::{first_participant, participants};

/// The candidates, in their order; the first leads.
#[derive(Debug, Clone)]
pub(super) struct CandidateQueue {
    pub(super) zk: CuratorFramework,
    pub(super) path: String,
    /// The data of our nodes.
    pub(super) data: Bytes,
    /// The tag of our nodes.
    pub(super) tag: &'static str,
    pub(super) rule: OrderRule,
    /// The name in metrics.
    pub(super) recipe: &'static str,
}

impl CandidateQueue {
    pub(super) fn new(
        zk: &CuratorFramework,
        path: impl Into<String>,
        tag: &'static str,
        recipe: &'static str,
    ) -> Self {
        Self {
            zk: zk.uncompressed(),
            path: path.into(),
            data: Bytes::new(),
            tag,
            rule: OrderRule::exclusive(tag),
            recipe,
        }
    }

    /// Names our nodes as kazoo does, and waits for kazoo's, and for those with the name before.
    pub(super) fn with_kazoo(mut self) -> Self {
        if self.tag == lock::tag::KAZOO {
            return self;
        }
        let before = Blocker { tag: NodeTag::Borrowed(self.tag), can_be_replaced: false };
        self.tag = lock::tag::KAZOO;
        self.rule = OrderRule { parent_stays: true, ..OrderRule::exclusive(self.tag) };
        self.rule.waits_for.push(before);
        self
    }

    /// The parent of the candidates' nodes.
    pub(super) fn parent(&self, operation: &'static str) -> Result<ZPath, Error> {
        ZPath::for_operation(operation, self.path.as_str())
    }

    /// Waits for our turn, through every outage. Returns our node, and the watch on it if there was
    /// a wait. Fails only with errors that a retry cannot fix.
    ///
    /// The caller owns the place of this client in the queue, so that it can give up in the middle
    /// and await the deletion. Dropping the place leaves the queue.
    pub(super) async fn turn<'a>(
        &'a self,
        parent: &'a ZPath,
        place: &mut Option<Contender<'a>>,
    ) -> Result<(OwnedNode, Option<KeptWatch>), Error> {
        self.zk.wait_connected().await?; // CURATOR-110
        loop {
            match self.try_turn(parent, place).await {
                Ok(true) => {}
                Ok(false) => continue,
                Err(error) => {
                    self.zk.wait_for_recovery(error).await?;
                    continue;
                }
            }
            if let Some(contender) = place.take() {
                return Ok(contender.into_parts());
            }
        }
    }

    /// Enters the queue, or continues to wait in it. Returns `true` if it is our turn.
    async fn try_turn<'a>(
        &'a self,
        parent: &'a ZPath,
        place: &mut Option<Contender<'a>>,
    ) -> Result<bool, Error> {
        let contender = match place {
            Some(contender) => {
                contender.refresh().await?;
                contender
            }
            None => place.insert(Contender::enter(&self.zk, parent, &self.rule, &self.data).await?),
        };
        contender.step().await
    }

    /// Counts this process as a candidate as long as the result lives.
    pub(super) fn candidacy(&self) -> Candidacy {
        Candidacy::begin(&self.zk, self.recipe)
    }

    pub(super) async fn participants(&self) -> Result<Vec<Participant>, Error> {
        participants(&self.zk, &self.parent("participants")?, &self.rule.tag).await
    }

    pub(super) async fn leader(&self) -> Result<Option<Participant>, Error> {
        first_participant(&self.zk, &self.parent("leader")?, &self.rule.tag).await
    }
}

/// Leaves the election, and waits for the response.
///
/// Succeeds even if no server can be reached: this client no longer leads or waits, and the janitor
/// deletes the node, or the node ends with its session. Fails with errors that the janitor cannot
/// fix, such as `NoAuth`.
pub(super) async fn withdraw(node: OwnedNode) -> Result<(), LeaderError> {
    match node.delete().await {
        // The node no longer exists.
        Err(error) if error.kind() == ErrorKind::NoNode || error.is_session_lost() => Ok(()),
        Err(error) if error.is_transient() => {
            debug!(%error, "the node of a candidate is deleted in the background");
            Ok(())
        }
        result => Ok(result?),
    }
}

/// Writes the settings of a recipe whose candidates are in its field `queue`.
macro_rules! candidate_settings {
    () => {
        /// Sets the id of our candidates, from the next one on. Default: empty.
        #[must_use]
        pub fn id(mut self, id: impl Into<bytes::Bytes>) -> Self {
            self.queue.data = id.into();
            self
        }

        /// Takes part in the election of kazoo's `Election`, which needs no settings for it: names
        /// our nodes as kazoo does, `_c_<uuid>-__lock__<number>`, and waits for kazoo's, and for
        /// nodes with the name by default as well. All Rust candidates have to set it; Java
        /// candidates cannot.
        ///
        /// The parent is a persistent node, and not a container. kazoo's `contenders()` decodes
        /// ids as UTF-8. See also
        /// [`InterProcessMutex::with_kazoo`](crate::lock::InterProcessMutex::with_kazoo).
        #[must_use]
        pub fn with_kazoo(mut self) -> Self {
            self.queue = self.queue.with_kazoo();
            self
        }
    };
}
pub(super) use candidate_settings;
