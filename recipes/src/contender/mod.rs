//! The engine under locks and elections: a protected ephemeral sequential node that waits for its
//! turn.

mod requests;

use bytes::Bytes;
use tracing::debug;
use zk_curator::path::ZPath;
use zk_curator::{CuratorFramework, Error, ErrorKind, OwnedNode};

pub(crate) use self::requests::KeptWatch;
use self::requests::{ContenderWatches, create};
use crate::advice;
use crate::order::{self, ContenderOrder, OrderRule, TurnStep};
use crate::participant::by_creation;

/// A node in a queue of nodes. Dropped, it leaves the queue, whatever its future was doing.
///
/// Its steps are those of the lock in ZooKeeper's recipes, all of them in [`step`](Self::step):
/// 1. Create the node.
/// 2. List the children, the first time in the same round trip.
/// 3. It is our turn if no node that we wait for is before ours.
/// 4. Otherwise watch the last of those before us, and the last but one: when the latter is gone,
///    go to 2 early. Watch our own node as well: when that is gone, go to 1.
/// 5. When the last is gone, go to 2; but it is our turn immediately if it was the only one and our
///    own node still exists, because nothing lower is left.
pub(crate) struct Contender<'a> {
    zk: &'a CuratorFramework,
    parent: &'a ZPath,
    rule: &'a OrderRule,
    data: &'a Bytes,
    node: OwnedNode,
    listing: ContenderListing,
    watches: ContenderWatches,
    has_waited: bool,
}

/// The names of the children.
enum ContenderListing {
    Fresh(Vec<String>),
    /// To be listed again. A contender that waits keeps no names: the list is long where many wait.
    Stale,
}

/// Why a wait for other nodes has ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Gone {
    /// The node that was waited for.
    Blocker,
    /// The one before it.
    Ahead,
    /// Our own node.
    Own,
    /// Our session is over, and our node with it.
    Session,
}

impl<'a> Contender<'a> {
    /// Creates the node and lists the queue, in one round trip.
    pub(crate) async fn enter(
        zk: &'a CuratorFramework,
        parent: &'a ZPath,
        rule: &'a OrderRule,
        data: &'a Bytes,
    ) -> Result<Self, Error> {
        let (node, siblings) = create(zk, parent, rule, data).await?; // 1 and 2
        advice::of_kazoo(zk, parent, rule, &siblings);
        let listing = ContenderListing::Fresh(siblings);
        Ok(Self {
            zk,
            parent,
            rule,
            data,
            node,
            listing,
            watches: ContenderWatches::default(),
            has_waited: false,
        })
    }

    /// Waits for its turn, however long it takes.
    pub(crate) async fn turn(mut self) -> Result<Self, Error> {
        while !self.step().await? {}
        Ok(self)
    }

    /// Waits until it is our turn. Returns `false` if it may be our turn, and the next step will
    /// list the queue: the caller may [do so](Self::refresh) together with other requests.
    pub(crate) async fn step(&mut self) -> Result<bool, Error> {
        loop {
            if matches!(self.listing, ContenderListing::Stale) {
                self.refresh().await?; // 2
            }
            let (on, ahead, next) = match self.verdict().await? {
                TurnStep::Granted if self.is_ours() => return Ok(true), // 3
                TurnStep::Granted | TurnStep::Vanished => {
                    self.reenter().await?; // 1 and 2
                    continue;
                }
                TurnStep::Wait { on, ahead, next } => {
                    (on.to_owned(), ahead.map(str::to_owned), next)
                }
            };
            if !std::mem::replace(&mut self.has_waited, true) {
                advice::of_own_session(
                    self.zk,
                    self.parent,
                    self.rule,
                    &self.node,
                    self.siblings(),
                );
            }
            self.listing = ContenderListing::Stale;
            // 4
            match self.gone(&on, ahead.as_deref()).await? {
                Gone::Blocker => return Ok(next && self.is_ours() && self.is_there()), // 5
                Gone::Ahead => {}
                Gone::Own | Gone::Session => self.reenter().await?,
            }
        }
    }

    /// Returns `true` if it is our turn, by the queue as last listed. Never waits for others.
    pub(crate) async fn is_turn(&self) -> Result<bool, Error> {
        Ok(self.verdict().await? == TurnStep::Granted && self.is_ours())
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

    /// The node, and the watch on it if it has waited.
    pub(crate) fn into_parts(mut self) -> (OwnedNode, Option<KeptWatch>) {
        let own = self.watches.take(self.node.name());
        (self.node, own)
    }

    /// The node.
    pub(crate) const fn node(&self) -> &OwnedNode {
        &self.node
    }

    /// The names of the children, as last listed; none while it waits.
    pub(crate) fn siblings(&self) -> &[String] {
        match &self.listing {
            ContenderListing::Fresh(names) => names,
            ContenderListing::Stale => &[],
        }
    }

    /// The node, if nobody else is before it but the one with this name. Never waits for others.
    pub(crate) async fn turn_after(mut self, name: &str) -> Result<Option<OwnedNode>, Error> {
        if let ContenderListing::Fresh(names) = &mut self.listing {
            names.retain(|sibling| sibling != name);
        }
        self.turn_now().await
    }

    /// Returns `true` if the node is of the present session, and that is not over by the clock
    /// either: code that runs first after a long stop comes here before the client's task can tell.
    fn is_ours(&self) -> bool {
        self.node.is_ours() && !self.node.ownership().is_over()
    }

    /// Returns `true` if the watch on our own node shows that it still exists. After a reconnect,
    /// events do not come in the order of the changes.
    fn is_there(&mut self) -> bool {
        !self.rule.watches_itself || self.watches.holds(self.zk, self.node.name())
    }

    /// Judges our node by the queue as last listed.
    async fn verdict(&self) -> Result<TurnStep<'_>, Error> {
        let names = match order::contenders(self.siblings(), self.rule, self.node.name()) {
            ContenderOrder::BySequence(queue) => {
                return Ok(order::verdict(&queue, self.rule, self.node.name()));
            }
            ContenderOrder::ByCreation(names) => names,
        };
        let queue = by_creation(self.zk, self.parent, names.into_iter()).await?;
        Ok(order::verdict(&queue, self.rule, self.node.name()))
    }

    /// Enters the queue again, at its end: the node is gone, or its session is.
    async fn reenter(&mut self) -> Result<(), Error> {
        debug!(path = self.node.path(), "entering the queue again");
        self.watches = ContenderWatches::default();
        let (node, siblings) = create(self.zk, self.parent, self.rule, self.data).await?;
        (self.node, self.listing) = (node, ContenderListing::Fresh(siblings));
        Ok(())
    }

    /// Lists the queue again.
    pub(crate) async fn refresh(&mut self) -> Result<(), Error> {
        let names = match self.zk.children(self.parent.as_str()).await {
            Ok(names) => names,
            // The parent is gone, and our node with it.
            Err(error) if error.kind() == ErrorKind::NoNode => Vec::new(),
            Err(error) => return Err(error),
        };
        self.listing = ContenderListing::Fresh(names);
        Ok(())
    }

    /// Waits until one of the nodes is gone: the only way to wait here.
    async fn gone(&mut self, on: &str, ahead: Option<&str>) -> Result<Gone, Error> {
        let session_lost = self.node.ownership().session_lost();
        let own = self.rule.watches_itself.then(|| self.node.name());
        let names: Vec<&str> = own.into_iter().chain([on]).chain(ahead).collect();
        let gone = tokio::select! {
            biased;
            () = session_lost => return Ok(Gone::Session),
            gone = self.watches.gone(self.zk, self.parent, self.node.path(), &names) => gone?,
        };
        Ok(match gone {
            None => Gone::Session,
            Some(name) if name == on => Gone::Blocker,
            Some(name) if Some(name) == ahead => Gone::Ahead,
            Some(_) => Gone::Own,
        })
    }
}
