use bytes::Bytes;
use zk_curator::path::ZPath;
use zk_curator::{CuratorFramework, Error, ErrorKind, OwnedNode};

use super::{Error as LeaderError, Participant};
use crate::contender::{Contender, Kept};
use crate::order::Rule;
use crate::participant::{first_participant, participants};

/// The candidates, in their order; the first leads.
#[derive(Debug, Clone)]
pub(super) struct Queue {
    pub(super) zk: CuratorFramework,
    pub(super) path: String,
    /// The data of our nodes.
    pub(super) data: Bytes,
    pub(super) rule: Rule,
}

/// Our place in a queue, if we have one. Dropped, it is given up.
pub(super) type Place<'a> = Option<Contender<'a>>;

impl Queue {
    pub(super) fn new(zk: &CuratorFramework, path: impl Into<String>, tag: &'static str) -> Self {
        Self {
            zk: zk.uncompressed(),
            path: path.into(),
            data: Bytes::new(),
            rule: Rule { watches_itself: true, ..Rule::exclusive(tag) },
        }
    }

    /// The parent of the candidates' nodes.
    pub(super) fn parent(&self, operation: &'static str) -> Result<ZPath, Error> {
        ZPath::for_operation(operation, self.path.as_str())
    }

    /// Waits for our turn, through every outage: our node, and the watch on it if it had to wait. Fails only with what
    /// trying again does not mend.
    ///
    /// The place is the caller's, who may give it up in the middle and wait for that.
    pub(super) async fn turn<'a>(
        &'a self,
        parent: &'a ZPath,
        place: &mut Place<'a>,
    ) -> Result<(OwnedNode, Option<Kept>), Error> {
        self.zk.wait_connected().await?; // CURATOR-110
        loop {
            match self.try_turn(parent, place).await {
                Ok(true) => {}
                Ok(false) => continue,
                Err(error) => {
                    self.zk.ride_out(error).await?;
                    continue;
                }
            }
            if let Some(contender) = place.take() {
                return Ok(contender.into_parts());
            }
        }
    }

    /// Goes on waiting in the queue, or enters it.
    async fn try_turn<'a>(&'a self, parent: &'a ZPath, place: &mut Place<'a>) -> Result<bool, Error> {
        let contender = match place {
            Some(contender) => {
                contender.refresh().await?;
                contender
            }
            None => place.insert(Contender::enter(&self.zk, parent, &self.rule, &self.data).await?),
        };
        contender.step().await
    }

    pub(super) async fn participants(&self) -> Result<Vec<Participant>, Error> {
        participants(&self.zk, &self.parent("participants")?, &self.rule.tag).await
    }

    pub(super) async fn leader(&self) -> Result<Option<Participant>, Error> {
        first_participant(&self.zk, &self.parent("leader")?, &self.rule.tag).await
    }
}

/// Leaves the election, and waits for the answer.
pub(super) async fn withdraw(node: OwnedNode) -> Result<(), LeaderError> {
    match node.delete().await {
        // Gone is gone.
        Err(error) if error.kind() == ErrorKind::NoNode || error.is_session_lost() => Ok(()),
        result => Ok(result?),
    }
}
