//! The engine under locks and elections: a protected ephemeral sequential node that waits for its turn.

use std::future::IntoFuture;

use bytes::Bytes;
use futures_util::future::{select_all, try_join_all};
use tracing::debug;
use zk_curator::path::ZPath;
use zk_curator::watch::Watch;
use zk_curator::{CreateMode, CuratorFramework, Error, ErrorKind, EventType, OwnedNode, WatchEnded};

use crate::attention::attended;
use crate::order::{self, Order, Rule, Verdict};
use crate::participant::by_creation;
use crate::path::child;

/// A node in a queue of nodes. Dropped, it leaves the queue, whatever its future was doing.
///
/// Its steps are those of the lock in ZooKeeper's recipes:
/// 1. Create the node.
/// 2. List the children, in the same flight.
/// 3. It is our turn if there is nobody before us to wait for.
/// 4. Else watch the last of those before us, and the last but one: when the latter is gone, go to 2 ahead of time.
/// 5. When the last is gone, go to 2; but it is our turn at once if it was the only one, for then nothing lower
///    is left.
pub(crate) struct Contender<'a> {
    zk: &'a CuratorFramework,
    parent: &'a ZPath,
    rule: &'a Rule,
    data: &'a Bytes,
    node: OwnedNode,
    siblings: Vec<String>,
    watches: Watches,
}

/// A watch on our own node, left while it waited.
pub(crate) struct Kept {
    pub(crate) watch: Watch,
    /// The state of the connection before that: see [`ConnectionStatus::epoch`](zk_curator::ConnectionStatus::epoch). If it
    /// is the same now, every earlier change of the node would have come before any later event.
    pub(crate) since: u64,
}

/// Why a wait for other nodes has ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Gone {
    /// The node that was waited for.
    Blocker,
    /// The one before it: look again.
    Ahead,
    /// Our own node.
    Own,
    /// Our session is over, and our node with it.
    Session,
}

impl<'a> Contender<'a> {
    /// Creates the node and lists the queue, in one flight.
    pub(crate) async fn enter(
        zk: &'a CuratorFramework,
        parent: &'a ZPath,
        rule: &'a Rule,
        data: &'a Bytes,
    ) -> Result<Self, Error> {
        let (node, siblings) = create(zk, parent, rule, data).await?; // steps 1 and 2
        Ok(Self { zk, parent, rule, data, node, siblings, watches: Watches::default() })
    }

    /// Waits for its turn, however long it takes.
    pub(crate) async fn turn(mut self) -> Result<Self, Error> {
        while !self.step().await? {
            self.refresh().await?; // 2
        }
        Ok(self)
    }

    /// Waits until it is our turn; or, and then not `true`, until it may be: the queue has to be
    /// [listed again](Self::refresh).
    pub(crate) async fn step(&mut self) -> Result<bool, Error> {
        loop {
            let (on, ahead, next) = match self.verdict().await? {
                Verdict::Granted if self.node.is_ours() => return Ok(true), // 3
                Verdict::Granted | Verdict::Vanished => {
                    self.reenter().await?;
                    continue;
                }
                Verdict::Wait { on, ahead, next } => (on.to_owned(), ahead.map(str::to_owned), next),
            };
            // The list is long where many wait, and each of them would keep it. It is read again before it is needed,
            // unless nobody else is before us.
            self.siblings = if next { vec![self.node.name().to_owned(), on.clone()] } else { Vec::new() };
            // 4
            match self.gone(&on, ahead.as_deref()).await? {
                Gone::Blocker => return Ok(next && self.node.is_ours()), // 5
                Gone::Ahead => self.refresh().await?,
                Gone::Own | Gone::Session => self.reenter().await?,
            }
        }
    }

    /// Whether it is our turn, by the queue as last listed. Never waits for others.
    pub(crate) async fn is_turn(&self) -> Result<bool, Error> {
        Ok(self.verdict().await? == Verdict::Granted && self.node.is_ours())
    }

    /// The node, if it is its turn already. Never waits for others.
    pub(crate) async fn turn_now(self) -> Result<Option<OwnedNode>, Error> {
        // Otherwise dropping it takes the node away.
        Ok(self.is_turn().await?.then_some(self.node))
    }

    /// The node, out of the queue or in it.
    pub(crate) fn into_node(self) -> OwnedNode {
        self.node
    }

    /// The node, and the watch on it if there is one.
    pub(crate) fn into_parts(mut self) -> (OwnedNode, Option<Kept>) {
        let own = self.watches.take(self.node.name());
        (self.node, own)
    }

    /// The node.
    pub(crate) const fn node(&self) -> &OwnedNode {
        &self.node
    }

    /// The names of the children, as last listed; not after a [`step`](Self::step).
    pub(crate) fn siblings(&self) -> &[String] {
        &self.siblings
    }

    /// The node, if nobody else is before it but the one with this name. Never waits for others.
    pub(crate) async fn turn_after(mut self, name: &str) -> Result<Option<OwnedNode>, Error> {
        self.siblings.retain(|sibling| sibling != name);
        self.turn_now().await
    }

    /// Judges our node by the queue as last listed.
    async fn verdict(&self) -> Result<Verdict<'_>, Error> {
        let names = match order::contenders(&self.siblings, self.rule, self.node.name()) {
            Order::BySequence(queue) => return Ok(order::verdict(&queue, self.rule, self.node.name())),
            Order::ByCreation(names) => names,
        };
        let queue = by_creation(self.zk, self.parent, names.into_iter()).await?;
        Ok(order::verdict(&queue, self.rule, self.node.name()))
    }

    /// Enters the queue anew, at its end: the node is gone, or its session is.
    async fn reenter(&mut self) -> Result<(), Error> {
        debug!(path = self.node.path(), "entering the queue anew");
        self.watches = Watches::default();
        (self.node, self.siblings) = create(self.zk, self.parent, self.rule, self.data).await?;
        Ok(())
    }

    /// Lists the queue again.
    pub(crate) async fn refresh(&mut self) -> Result<(), Error> {
        match self.zk.children(self.parent.as_str()).await {
            Ok(names) => self.siblings = names,
            // The parent is gone, and so are we.
            Err(error) if error.kind() == ErrorKind::NoNode => self.siblings.clear(),
            Err(error) => return Err(error),
        }
        Ok(())
    }

    /// Waits until one of the nodes is gone: the only way to wait here.
    async fn gone(&mut self, on: &str, ahead: Option<&str>) -> Result<Gone, Error> {
        let session_lost = self.node.ownership().session_lost();
        let own = (self.rule.can_be_removed || self.rule.watches_itself).then(|| self.node.name());
        let names: Vec<&str> = own.into_iter().chain([on]).chain(ahead).collect();
        let gone = tokio::select! {
            biased;
            () = session_lost.cancelled() => return Ok(Gone::Session),
            gone = attended(self.zk, self.node.path(), self.watches.gone(self.zk, self.parent, &names)) => gone?,
        };
        Ok(match gone {
            None => Gone::Session,
            Some(name) if name == on => Gone::Blocker,
            Some(name) if Some(name) == ahead => Gone::Ahead,
            Some(_) => Gone::Own,
        })
    }
}

/// Watches on siblings, kept from one wait to the next.
#[derive(Default)]
struct Watches(Vec<Watched>);

struct Watched {
    name: String,
    /// Nothing if the node was gone when it was read.
    watch: Option<Kept>,
}

impl Watches {
    /// The watch on this node, if there is one.
    fn take(&mut self, name: &str) -> Option<Kept> {
        let index = self.0.iter().position(|watched| watched.name == name)?;
        self.0.swap_remove(index).watch
    }

    /// Waits until one of the nodes is gone, the first of them if there are several; `None` if the session is.
    ///
    /// It watches through `getData`, not `exists`, because the latter leaves a watch even on a node that is
    /// gone already.
    async fn gone<'n>(
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
            // In one flight.
            let new = try_join_all(reads).await?;
            self.0.extend(new);
            self.0.sort_by_key(|watched| place(&watched.name));
            let (gone, index, _) =
                select_all(self.0.iter_mut().map(|watched| Box::pin(watched.gone()))).await;
            let Watched { name, .. } = self.0.swap_remove(index);
            match gone {
                Ok(true) => return Ok(place(&name).map(|index| names[index])),
                // Its data have changed: watch it again.
                Ok(false) => {}
                Err(_) => return Ok(None),
            }
        }
    }
}

impl Watched {
    /// Waits until something has happened: whether the node is gone.
    async fn gone(&mut self) -> Result<bool, WatchEnded> {
        match &mut self.watch {
            Some(Kept { watch, .. }) => Ok(watch.await?.event_type == EventType::NodeDeleted),
            None => Ok(true),
        }
    }
}

async fn read(zk: &CuratorFramework, parent: &ZPath, name: &str) -> Result<Watched, Error> {
    let since = zk.status().epoch;
    let watch = match zk.get_data(child(parent, name)).watched().await {
        Ok(watched) => Some(Kept { watch: watched.watch, since }),
        Err(error) if error.kind() == ErrorKind::NoNode => None,
        Err(error) => return Err(error),
    };
    Ok(Watched { name: name.to_owned(), watch })
}

async fn create(
    zk: &CuratorFramework,
    parent: &ZPath,
    rule: &Rule,
    data: &Bytes,
) -> Result<(OwnedNode, Vec<String>), Error> {
    let create = zk.create(child(parent, &rule.tag)).mode(CreateMode::EphemeralSequential);
    let create =
        if rule.parent_stays { create.creating_parents() } else { create.creating_parents_as_containers() };
    let create = create.protected().data(data.clone()).owned_with_siblings();
    attended(zk, parent.as_str(), create.into_future()).await
}
