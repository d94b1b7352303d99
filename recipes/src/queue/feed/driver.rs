use std::future::{IntoFuture, pending};
use std::mem;
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use futures_util::future::join_all;
use tokio::time::Instant;
use tracing::debug;
use zk_curator::internal::sleep;
use zk_curator::op::Started;
use zk_curator::path::ZPath;
use zk_curator::watch::{Watch, Watched};
use zk_curator::{CreateMode, Error, ErrorKind, OwnedNode, Stat};

use super::buckets::BucketDeletion;
use super::effects::{FeedEffect, FeedInput, FeedWatchKey, ListingOptions};
use super::machine::FeedMachine;
use super::watches::FeedWatches;
use crate::advice;
use crate::contender::Contender;
use crate::measure;
use crate::observe::QUEUE_DEPTH;
use crate::order::OrderRule;
use crate::queue::wire::layout::{QueueLayout, at_least_one};
use crate::queue::wire::name::{TAKER, WAITER};

/// The maximum time between two reads of the clock while waiting for an item that is due later.
const CLOCK_CHECKED: Duration = Duration::from_secs(1);

/// The number of open buckets whose items are counted for the depth of a queue.
const COUNTED_BUCKETS: usize = 16;

/// Lists the items of a queue for one consumer, and waits when there are none.
pub(in crate::queue) struct FeedDriver {
    pub(in crate::queue) layout: QueueLayout,
    pub(in crate::queue) core: FeedMachine,
    /// The line of waiting consumers, of which only the first watches the items.
    line: Option<ZPath>,
    guard: AnchorNode,
    watches: FeedWatches,
    /// `true` if there are new items.
    check: Option<Check>,
    /// `true` if there was at most one item when our turn in line came.
    expects_to_wait: bool,
}

/// An ephemeral node of ours among the items.
///
/// The parent may be deleted, by the servers if it is an empty container, or by another client. A
/// parent that is created again assigns the same names again. As long as our node exists, the
/// parent is the same. An item that was listed after our node was created is removed in one
/// transaction with a write of our node, so a new item of the same name is never removed instead.
enum AnchorNode {
    /// No such node is needed: the parent is assumed to stay.
    None,
    Wanted(Option<Arc<OwnedNode>>),
}

/// Our turn to wait for items. It belongs to a call, so that a call that no longer waits does not
/// block other consumers.
pub(in crate::queue) type Turn = Option<OwnedNode>;

/// A read of the parent.
type Check = Started<Result<Option<Stat>, Error>>;

/// Watches that came with responses, which the core does not know yet.
type Armed = Vec<(FeedWatchKey, Watch)>;

impl FeedDriver {
    pub(in crate::queue) fn new(
        layout: QueueLayout,
        line: Option<ZPath>,
        refresh_after: u32,
    ) -> Self {
        let core = FeedMachine::new(layout.kind, refresh_after);
        let (guard, watches) = (AnchorNode::None, FeedWatches::default());
        measure::consumer(&layout.zk, layout.kind.recipe());
        Self { layout, core, line, guard, watches, check: None, expects_to_wait: false }
    }

    /// Refuses settings that make no sense.
    pub(in crate::queue) fn check_settings(&self) -> Result<(), crate::queue::error::Error> {
        self.layout.check()?;
        let refresh_after = self.core.refresh_after();
        at_least_one(&self.layout.path, "min_items_before_refresh", refresh_after).map(drop)
    }

    /// Lists the items only while a node of ours among them exists.
    pub(in crate::queue) fn guarded(mut self) -> Self {
        self.guard = AnchorNode::Wanted(None);
        self
    }

    /// Returns our node among the items, if one is wanted and exists.
    pub(in crate::queue) fn guard(&self) -> Option<&Arc<OwnedNode>> {
        match &self.guard {
            AnchorNode::Wanted(Some(node)) if node.is_ours() => Some(node),
            _ => None,
        }
    }

    /// Returns `true` if each listed name still belongs to the same node, or to none.
    pub(in crate::queue) fn is_guarded(&self) -> bool {
        matches!(self.guard, AnchorNode::None) || self.guard().is_some()
    }

    /// Notes that our node among the items no longer exists.
    pub(in crate::queue) fn unguard(&mut self) {
        if let AnchorNode::Wanted(node) = &mut self.guard {
            *node = None;
        }
    }

    /// Removes the next item from the list and returns it, if it is due.
    pub(in crate::queue) fn pop(&mut self) -> Option<String> {
        self.core.items.pop(self.layout.now())
    }

    /// Returns the error for a node among the items that is not an item.
    pub(in crate::queue) fn foreign(&self, name: &str) -> crate::queue::error::Error {
        debug!(path = %self.layout.path, name, "not an item of the queue");
        crate::queue::error::Error::Foreign { path: self.layout.item(name) }
    }

    /// Forgets the list.
    pub(in crate::queue) fn reset(&mut self) {
        self.core.reset();
        self.check = None;
    }

    /// Notes that an item has been taken, or will be: its requests are ahead of all requests that
    /// are sent now.
    pub(in crate::queue) fn took(&mut self, turn: &mut Turn) {
        // The next consumer in line may search for more items.
        *turn = None;
        self.core.took();
    }

    fn has_work(&self) -> bool {
        self.core.items.has_work(self.layout.now())
    }

    /// Requests a check for new items, if these may come first and a check is due.
    pub(in crate::queue) fn start_check(&mut self) {
        if self.core.is_refresh_due() {
            let look = self.layout.zk.exists(self.layout.path.as_str());
            self.check = Some(look.into_future().start());
        }
    }

    /// Discards the list if there are new items that may come first. Returns `true` if it did.
    /// `is_ahead` is `true` if the caller has items off the list that are not taken yet.
    pub(in crate::queue) async fn refreshed(&mut self, is_ahead: bool) -> Result<bool, Error> {
        if !self.core.is_refresh_due() || !self.core.has_list(is_ahead) {
            return Ok(false);
        }
        if self.check.is_none() {
            self.start_check();
        }
        let Some(look) = &mut self.check else { return Ok(false) };
        let stat = look.await;
        self.check = None;
        let stat = stat?;
        self.note_fired();
        Ok(self.core.refreshed(stat.as_ref().map(Into::into)))
    }

    /// Lists the items, without waiting. Returns `true` if there are any.
    pub(in crate::queue) async fn look(&mut self) -> Result<bool, Error> {
        self.list(false).await?;
        Ok(self.has_work())
    }

    /// Lists the items except one, which is claimed.
    pub(in crate::queue) async fn list_others(&mut self, claimed: &str) -> Result<(), Error> {
        self.list(false).await?;
        self.core.items.remove(claimed);
        Ok(())
    }

    /// Lists the items. If none can be taken, waits until this may have changed.
    pub(in crate::queue) async fn more(&mut self, turn: &mut Turn) -> Result<(), Error> {
        let in_line = turn.as_ref().is_some_and(OwnedNode::is_ours);
        if let Some(line) = self.line.clone().filter(|_| !in_line) {
            // A consumer that waited for its last item waits for the next.
            if !mem::take(&mut self.expects_to_wait) && self.look().await? {
                return Ok(());
            }
            // A consumer that is not the first need not wake for a released item.
            self.core.unwatch_blocked();
            // The consumers ahead leave in their order, unless they die. A check would cost a
            // request for each of them.
            let rule = OrderRule {
                looks_ahead: false,
                watches_itself: false,
                ..OrderRule::exclusive(WAITER)
            };
            let data = Bytes::new();
            let mut place = Contender::enter(&self.layout.zk, &line, &rule, &data).await?;
            // When our predecessor is gone, it was the first, or it has died. In the second case
            // two consumers search for items this time.
            place.step().await?;
            *turn = Some(place.into_node());
        }
        self.note_fired();
        if !self.core.is_current() || !matches!(self.guard, AnchorNode::None) {
            self.list(true).await?;
        }
        self.expects_to_wait = self.line.is_some() && self.core.items.len() < 2;
        if !self.has_work() {
            self.perform(FeedInput::Wait, turn.as_ref()).await?;
        }
        Ok(())
    }

    async fn list(&mut self, is_watched: bool) -> Result<(), Error> {
        let enough = self.layout.bucket_size().div_ceil(4) as usize;
        let order = ListingOptions { is_watched, is_guarded: self.is_guarded(), enough };
        self.perform(FeedInput::List(order), None).await?;
        self.check = None;
        if cfg!(feature = "metrics") {
            self.measure_depth().await;
        }
        Ok(())
    }

    /// Measures the number of items, including those in buckets that were not listed. A bucket
    /// counts as full if its priority has a later one; the items in the last bucket of each
    /// priority are counted by a request.
    fn measure_depth(&self) -> impl Future<Output = ()> + Send + use<> {
        let (mut full, mut last) = (0, Vec::new());
        for (name, has_next) in self.core.unlisted_buckets() {
            if has_next {
                full += 1;
            } else if last.len() < COUNTED_BUCKETS {
                last.push(self.layout.zk.exists(self.layout.item(name)).into_future());
            }
        }
        let known = self.core.items.len() + full * self.layout.bucket_size() as usize;
        let depth = QUEUE_DEPTH.of(&self.layout.zk, [self.layout.path.as_str()]);
        async move {
            let counted = join_all(last).await.into_iter().flatten().flatten();
            let counted: usize =
                counted.map(|stat| usize::try_from(stat.num_children).unwrap_or(0)).sum();
            depth.set_number(known + counted);
        }
    }

    /// Reports to the core, and performs its effects, until there are no more.
    async fn perform(
        &mut self,
        mut input: FeedInput,
        turn: Option<&OwnedNode>,
    ) -> Result<(), Error> {
        let mut armed = Armed::new();
        loop {
            // Events come before the responses to later requests. Events of a watch that a response
            // has set come after it.
            self.note_fired();
            let effect = self.core.step(input, Instant::now());
            self.watches.extend(armed.drain(..));
            input = match effect {
                FeedEffect::ListParent { is_watched } => {
                    list_parent(&self.layout, is_watched, &mut armed).await?
                }
                FeedEffect::WatchParent => {
                    let exists = self.layout.zk.exists(self.layout.path.as_str()).watched().await?;
                    armed.push((FeedWatchKey::Parent, exists.watch));
                    FeedInput::ParentExists(exists.value.is_some())
                }
                FeedEffect::ListBuckets { names, is_watched } => {
                    list_buckets(&self.layout, names, is_watched, &mut armed).await?
                }
                FeedEffect::DeleteBuckets(buckets) => delete_buckets(&self.layout, buckets).await,
                FeedEffect::CreateGuard => {
                    self.create_guard().await?;
                    FeedInput::Guarded(self.is_guarded())
                }
                FeedEffect::WatchBlocked(nodes) => {
                    watch_blocked(&self.layout, nodes, &mut armed).await?
                }
                FeedEffect::LookAt(paths) => {
                    let seen = self.layout.zk.children_of_each(paths).await?;
                    FeedInput::AreThere(seen.iter().map(Option::is_some).collect())
                }
                FeedEffect::Wait { quiet } => self.wait(quiet, turn).await,
                FeedEffect::Done => return Ok(()),
            };
        }
    }

    /// Reports fired watches to the core.
    pub(in crate::queue) fn note_fired(&mut self) {
        let Self { core, watches, .. } = self;
        watches.retain(|watched| core.is_armed(watched));
        watches.take_fired().iter().for_each(|watched| core.fired(watched));
    }

    async fn create_guard(&mut self) -> Result<(), Error> {
        self.unguard();
        let create =
            self.layout.zk.create(self.layout.item(TAKER)).mode(CreateMode::EphemeralSequential);
        // The data of the parent show that it has buckets.
        let has_buckets = self.layout.kind.has_buckets();
        let create = if has_buckets { create } else { create.creating_parents_as_containers() };
        match create.protected().data("-").owned().await {
            Ok(node) => self.guard = AnchorNode::Wanted(Some(Arc::new(node))),
            Err(error) if error.kind() == ErrorKind::NoNode => {}
            Err(error) => return Err(error),
        }
        Ok(())
    }

    /// Waits for an event.
    async fn wait(&mut self, quiet: Option<Duration>, turn: Option<&OwnedNode>) -> FeedInput {
        let Self { layout, core, watches, .. } = self;
        let due = async {
            let Some(place) = core.items.first() else { return pending().await };
            // The clock that determines when it is due may be changed during the wait.
            loop {
                match Duration::from_millis(core.items.until_due(place, layout.now())) {
                    Duration::ZERO => return,
                    time => sleep(time.min(CLOCK_CHECKED)).await,
                }
            }
        };
        let is_quiet = async {
            match quiet {
                Some(quiet) => sleep(quiet).await,
                None => pending().await,
            }
        };
        let turn_lost = turn.map(|turn| turn.ownership().session_lost());
        let turn_lost = async {
            match turn_lost {
                Some(lost) => lost.await,
                None => pending().await,
            }
        };
        let fired = tokio::select! {
            biased;
            () = turn_lost => None,
            fired = watches.next() => Some(fired),
            () = due => None,
            () = is_quiet => return FeedInput::Quiet,
        };
        fired.iter().for_each(|watched| self.core.fired(watched));
        FeedInput::Woken
    }
}

async fn list_parent(
    layout: &QueueLayout,
    is_watched: bool,
    armed: &mut Armed,
) -> Result<FeedInput, Error> {
    match list_node(layout, layout.path.as_str(), FeedWatchKey::Parent, is_watched, armed).await {
        Ok((names, stat)) => Ok(FeedInput::Parent(Some((names, (&stat).into())))),
        Err(error) if error.kind() == ErrorKind::NoNode => Ok(FeedInput::Parent(None)),
        Err(error) => Err(error),
    }
}

async fn list_buckets(
    layout: &QueueLayout,
    names: Vec<String>,
    is_watched: bool,
    armed: &mut Armed,
) -> Result<FeedInput, Error> {
    let lists = names.into_iter().map(|bucket| async move {
        let (mut armed, path) = (Armed::new(), layout.item(&bucket));
        let listed =
            list_node(layout, &path, FeedWatchKey::Bucket(bucket.clone()), is_watched, &mut armed)
                .await;
        let children = match listed {
            Ok((names, stat)) => {
                Some((names.iter().map(|name| format!("{bucket}/{name}")).collect(), stat.version))
            }
            Err(error) if error.kind() == ErrorKind::NoNode => None,
            Err(error) => return Err(error),
        };
        Ok(((bucket, children), armed))
    });
    let mut buckets = Vec::new();
    for listed in join_all(lists).await {
        let (bucket, watch) = listed?;
        buckets.push(bucket);
        armed.extend(watch);
    }
    Ok(FeedInput::Buckets(buckets))
}

async fn list_node(
    layout: &QueueLayout,
    path: &str,
    watched: FeedWatchKey,
    is_watched: bool,
    armed: &mut Armed,
) -> Result<(Vec<String>, Stat), Error> {
    let children = layout.zk.children(path);
    if !is_watched {
        return children.with_stat().await;
    }
    let listed = children.watched().await?;
    armed.push((watched, listed.watch));
    Ok(listed.value)
}

async fn delete_buckets(layout: &QueueLayout, buckets: Vec<(String, i32)>) -> FeedInput {
    let deletes = buckets.into_iter().map(|(name, version)| async move {
        let path = layout.item(&name);
        let deletion = match layout.zk.delete(&path).version(version).await {
            Ok(()) => BucketDeletion::Done,
            Err(error) => match error.kind() {
                ErrorKind::NoNode => BucketDeletion::Done,
                ErrorKind::NotEmpty | ErrorKind::BadVersion => BucketDeletion::Unknown,
                _ if error.is_transient() || error.kind() == ErrorKind::Closed => {
                    debug!(path, %error, "an empty bucket is not deleted yet");
                    BucketDeletion::Unknown
                }
                _ => {
                    layout.zk.report_background_error(error);
                    BucketDeletion::Refused
                }
            },
        };
        (name, deletion)
    });
    FeedInput::Deleted(join_all(deletes).await)
}

async fn watch_blocked(
    layout: &QueueLayout,
    nodes: Vec<(u64, String)>,
    armed: &mut Armed,
) -> Result<FeedInput, Error> {
    let reads = nodes.into_iter().map(|(number, path)| async move {
        match layout.zk.get_data(&path).watched().await {
            Ok(Watched { value: (_, stat), watch, .. }) => {
                advice::of_node(&layout.zk, "next", &path, &stat);
                Ok((number, Some((stat.version, watch))))
            }
            Err(error) if error.kind() == ErrorKind::NoNode => Ok((number, None)),
            Err(error) => Err(error),
        }
    });
    let mut versions = Vec::new();
    for read in join_all(reads).await {
        let (number, read) = read?;
        versions.push((number, read.as_ref().map(|(version, _)| *version)));
        armed.extend(read.map(|(_, watch)| (FeedWatchKey::Blocked(number), watch)));
    }
    Ok(FeedInput::BlockedOn(versions))
}
