//! The requests of a contender. In debug builds their futures warn if they are left alone.

use std::future::IntoFuture;

use bytes::Bytes;
use futures_util::FutureExt as _;
use futures_util::future::{select_all, try_join_all};
use zk_curator::path::ZPath;
use zk_curator::watch::{Watch, Watched};
use zk_curator::{
    CreateMode, CuratorFramework, Error, ErrorKind, EventType, OwnedNode, WatchEnded,
};

use crate::advice;
use crate::attention::attended;
use crate::order::OrderRule;
use crate::path::child;

/// Creates the node of a contender and lists its siblings, in one round trip.
pub(super) async fn create(
    zk: &CuratorFramework,
    parent: &ZPath,
    rule: &OrderRule,
    data: &Bytes,
) -> Result<(OwnedNode, Vec<String>), Error> {
    let create = zk.create(child(parent, &rule.tag)).mode(CreateMode::EphemeralSequential);
    let create = if rule.parent_stays {
        create.creating_parents()
    } else {
        create.creating_parents_as_containers()
    };
    let create = create.protected().data(data.clone()).owned_with_siblings();
    attended(zk, parent.as_str(), create.into_future()).await
}

/// A watch on our own node, left while it waited.
#[derive(Debug)]
pub(crate) struct KeptWatch {
    pub(crate) watch: Watch,
    /// The state of the connection before that: see
    /// [`ConnectionStatus::epoch`](zk_curator::ConnectionStatus::epoch). If it is the same now,
    /// every earlier change of the node would have come before any later event.
    pub(crate) since: u64,
}

impl KeptWatch {
    /// Returns `true` if the node has not changed since, as far as the responses tell that have
    /// arrived on this connection.
    pub(crate) fn holds(&mut self, zk: &CuratorFramework) -> bool {
        // The state is read last: whatever was before it was on this connection.
        (&mut self.watch).now_or_never().is_none() && zk.status().epoch == self.since
    }
}

/// Watches on siblings, kept from one wait to the next.
#[derive(Default)]
pub(super) struct ContenderWatches(Vec<WatchedNode>);

struct WatchedNode {
    name: String,
    /// Nothing if the node was gone when it was read.
    watch: Option<KeptWatch>,
}

impl ContenderWatches {
    /// The watch on this node, if there is one.
    pub(super) fn take(&mut self, name: &str) -> Option<KeptWatch> {
        let index = self.0.iter().position(|watched| watched.name == name)?;
        self.0.swap_remove(index).watch
    }

    /// Returns `true` if the node is watched and still exists, as far as the responses tell that
    /// have arrived on this connection.
    pub(super) fn holds(&mut self, zk: &CuratorFramework, name: &str) -> bool {
        let watched = self.0.iter_mut().find(|watched| watched.name == name);
        watched.and_then(|watched| watched.watch.as_mut()).is_some_and(|kept| kept.holds(zk))
    }

    /// Waits until one of the nodes is gone, and returns the first of them; `None` if the session
    /// is over. `own` is the path of the node that waits.
    pub(super) async fn gone<'n>(
        &mut self,
        zk: &CuratorFramework,
        parent: &ZPath,
        own: &str,
        names: &[&'n str],
    ) -> Result<Option<&'n str>, Error> {
        attended(zk, own, self.watch(zk, parent, names)).await
    }

    /// Watches through `getData`, not `exists`, because the latter leaves a watch even on a node
    /// that is already gone.
    async fn watch<'n>(
        &mut self,
        zk: &CuratorFramework,
        parent: &ZPath,
        names: &[&'n str],
    ) -> Result<Option<&'n str>, Error> {
        let place = |name: &str| names.iter().position(|given| *given == name);
        self.0.retain(|watched| place(&watched.name).is_some());
        loop {
            let is_new = |name: &&str| !self.0.iter().any(|watched| watched.name == *name);
            let reads = names.iter().copied().filter(is_new).map(|name| read(zk, parent, name));
            // In one round trip.
            let new = try_join_all(reads).await?;
            self.0.extend(new);
            self.0.sort_by_key(|watched| place(&watched.name));
            let (gone, index, _) =
                select_all(self.0.iter_mut().map(|watched| Box::pin(watched.gone()))).await;
            let WatchedNode { name, .. } = self.0.swap_remove(index);
            match gone {
                Ok(true) => return Ok(place(&name).map(|index| names[index])),
                // Its data have changed: watch it again.
                Ok(false) => {}
                Err(_) => return Ok(None),
            }
        }
    }
}

impl WatchedNode {
    /// Waits until something has happened: whether the node is gone.
    async fn gone(&mut self) -> Result<bool, WatchEnded> {
        match &mut self.watch {
            Some(KeptWatch { watch, .. }) => Ok(watch.await?.event_type == EventType::NodeDeleted),
            None => Ok(true),
        }
    }
}

async fn read(zk: &CuratorFramework, parent: &ZPath, name: &str) -> Result<WatchedNode, Error> {
    let since = zk.status().epoch;
    let path = child(parent, name);
    let watch = match zk.get_data(path.as_str()).watched().await {
        Ok(Watched { value: (_, stat), watch, .. }) => {
            advice::of_node(zk, "wait", &path, &stat);
            Some(KeptWatch { watch, since })
        }
        Err(error) if error.kind() == ErrorKind::NoNode => None,
        Err(error) => return Err(error),
    };
    Ok(WatchedNode { name: name.to_owned(), watch })
}
