//! The engine of all consumers: works through a list of the items, and waits when there are none.

use std::collections::{BTreeSet, VecDeque};
use std::future::{Future, IntoFuture, pending};
use std::mem;
use std::pin::Pin;
use std::sync::Arc;
use std::task::Context;
use std::time::Duration;

use bytes::Bytes;
use futures_util::future::{join_all, select_all};
use tokio::time::{Instant, sleep};
use tracing::debug;
use zk_curator::op::Started;
use zk_curator::path::ZPath;
use zk_curator::watch::Watch;
use zk_curator::{CreateMode, Error, ErrorKind, OwnedNode, Stat};

use super::layout::{QueueLayout, at_least_one};
use super::name::{Kind, Place, TAKER, is_taker};
use super::shelves::{Listed, Shelves, forget_fired};
use crate::contender::Contender;
use crate::order::Rule;

/// Of a longer queue so many items are kept in memory at a time.
const LONGEST_LIST: usize = 10_000;
/// After so many items in a row that others have taken, the queue is listed anew.
const MISSES: u32 = 16;
/// After this time without an event those that wait look at the claims of others.
const QUIET: Duration = Duration::from_millis(500);
/// After this time it is tried again whether an item is still claimed by others, unless the claim is watched.
const TRIED_AGAIN: Duration = Duration::from_secs(1);
/// The longest time for which an item that is due later is waited for without a look at the clock that says so.
const CLOCK_CHECKED: Duration = Duration::from_secs(1);
/// The number of items that are remembered to have been handed out here.
const HANDED_OUT: usize = 256;
/// So many nodes are watched at a time for the items behind them to become free.
const WATCHED_AT_ONCE: usize = 64;

/// The names of the items, first come first, as one consumer works through them.
pub(super) struct Feed {
    pub(super) layout: QueueLayout,
    /// Where those wait in line of whom only the first waits for items.
    line: Option<ZPath>,
    /// Where new items may come before old ones: after how many items it is looked whether there are any.
    refresh_after: u32,
    guard: Guard,
    names: VecDeque<(Place, String)>,
    /// The parent when it was listed.
    listed: Option<Stat>,
    watch: Option<Watch>,
    /// The buckets in it.
    shelves: Shelves,
    /// Whether there are new items.
    check: Option<Check>,
    taken: u32,
    misses: u32,
    blocked: Vec<Blocked>,
    /// What is not touched again, because it was reported.
    aside: BTreeSet<String>,
    /// What is to be reported: nodes that are no items.
    foreign: VecDeque<String>,
    /// The last items that were claimed and handed out here. When one comes back, this process knows.
    handed_out: VecDeque<String>,
    /// Whether every item of the last listing is in the list, blocked, or gone.
    is_complete: bool,
    /// Whether there was at most one item when ours was the first turn in line.
    has_waited: bool,
}

/// An ephemeral node of ours among the items.
///
/// Their parent may be taken away, by the servers if it is a container and empty, or by somebody; whoever creates it anew
/// begins their names anew. As long as our node is there, it is the same parent. What was listed after our node was created
/// is removed in one transaction with a write of it, and so is never another of the same name.
enum Guard {
    /// There is to be none: the parent is taken to stay.
    None,
    Wanted(Option<Arc<OwnedNode>>),
}

/// Our turn to wait for items. It belongs to a call: who does not wait any more is in nobody's way.
pub(super) type Turn = Option<OwnedNode>;

/// A look at the parent.
type Check = Started<Result<Option<Stat>, Error>>;

/// An item that cannot be taken as long as some node stays as it is.
struct Blocked {
    name: String,
    why: Why,
    /// The path of the node.
    on: String,
    watch: Option<Watch>,
    since: Instant,
}

impl Blocked {
    fn new(name: &str, why: Why, on: String) -> Self {
        Self { name: name.to_owned(), why, on, watch: None, since: Instant::now() }
    }

    fn is_stale(&self) -> bool {
        self.why == Why::Claimed && self.watch.is_none() && self.since.elapsed() >= TRIED_AGAIN
    }
}

/// The state of an item of the list, as read.
pub(super) enum Seen {
    Free,
    /// Claimed, as long as the node at this path exists.
    Claimed(String),
    Gone,
}

/// Why an item cannot be taken.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Why {
    /// Somebody has claimed it, as long as the node exists.
    Claimed,
    /// Its producer is not sure of it, as long as the node exists and has this version, if that is one.
    Unconfirmed {
        /// Whether nothing behind it may be taken either.
        strict: bool,
        version: Option<i32>,
    },
}

impl Why {
    const fn is_strict(self) -> bool {
        matches!(self, Self::Unconfirmed { strict: true, .. })
    }

    /// Whether it may be taken when others can, though nobody has said so.
    const fn passes_with_time(self) -> bool {
        matches!(self, Self::Unconfirmed { strict: false, .. })
    }

    /// Whether the node is not as it was any more.
    fn is_over(self, stat: &Stat) -> bool {
        matches!(self, Self::Unconfirmed { version: Some(version), .. } if version != stat.version)
    }
}

impl Feed {
    pub(super) fn new(layout: QueueLayout, line: Option<ZPath>, refresh_after: u32) -> Self {
        Self {
            layout,
            line,
            refresh_after,
            guard: Guard::None,
            names: VecDeque::new(),
            listed: None,
            watch: None,
            shelves: Shelves::default(),
            check: None,
            taken: 0,
            misses: 0,
            blocked: Vec::new(),
            aside: BTreeSet::new(),
            foreign: VecDeque::new(),
            handed_out: VecDeque::new(),
            is_complete: false,
            has_waited: false,
        }
    }

    /// Refuses settings that make no sense.
    pub(super) fn check_settings(&self) -> Result<(), super::Error> {
        at_least_one("min_items_before_refresh", self.refresh_after).map(drop)
    }

    /// Nothing is listed but under the protection of a node of ours among the items.
    pub(super) fn guarded(mut self) -> Self {
        self.guard = Guard::Wanted(None);
        self
    }

    /// Our node among the items, if there is to be one and it is there.
    pub(super) fn guard(&self) -> Option<&Arc<OwnedNode>> {
        match &self.guard {
            Guard::Wanted(Some(node)) if node.is_ours() => Some(node),
            _ => None,
        }
    }

    /// Whether what was listed and read is still what is there under these names, or gone.
    pub(super) fn is_guarded(&self) -> bool {
        matches!(self.guard, Guard::None) || self.guard().is_some()
    }

    /// Our node among the items is not there any more.
    pub(super) fn unguard(&mut self) {
        if let Guard::Wanted(node) = &mut self.guard {
            *node = None;
        }
    }

    /// The next item of the list, if it is due.
    pub(super) fn pop(&mut self) -> Option<String> {
        if !self.has_next() {
            return None;
        }
        self.is_complete = false;
        self.names.pop_front().map(|(_, name)| name)
    }

    /// The same, if it is wanted.
    pub(super) fn pop_if(&mut self, is_wanted: impl FnOnce(&Self, &str) -> bool) -> Option<String> {
        let (_, name) = self.names.front()?;
        if is_wanted(self, name) { self.pop() } else { None }
    }

    /// Whether an item comes before another.
    pub(super) fn is_before(&self, name: &str, other: &str) -> bool {
        self.layout.kind.place(name) < self.layout.kind.place(other)
    }

    /// The path of a node among the items that is none, once.
    pub(super) fn pop_foreign(&mut self) -> Option<String> {
        self.foreign.pop_front()
    }

    fn has_next(&self) -> bool {
        self.until_due() == Some(Duration::ZERO)
    }

    /// How long it is until the next item is due; `None` if there is none.
    fn until_due(&self) -> Option<Duration> {
        Some(until_due(&self.layout, self.names.front()?.0))
    }

    /// The first names of the list that are due, at most so many.
    pub(super) fn front(&self, count: usize) -> Vec<String> {
        let is_due = |place: Place| until_due(&self.layout, place) == Duration::ZERO;
        let due = self.names.iter().take(count).take_while(|(place, _)| is_due(*place));
        due.map(|(_, name)| name.clone()).collect()
    }

    /// Replaces the first names of the list by those that are not claimed. Those that are have the path of the claim;
    /// those that are gone have neither.
    pub(super) fn replace_front(&mut self, seen: Vec<Seen>) {
        let mut free = Vec::new();
        for seen in seen {
            let Some(item) = self.names.pop_front() else { break };
            match seen {
                Seen::Free => free.push(item),
                Seen::Claimed(on) => self.block_claimed(&item.1, on),
                Seen::Gone => {}
            }
        }
        for item in free.into_iter().rev() {
            self.names.push_front(item);
        }
    }

    /// Whether there is something to do without waiting.
    fn has_work(&self) -> bool {
        self.has_next() || !self.foreign.is_empty()
    }

    /// Whether the list has so many items.
    pub(super) fn has_at_least(&self, count: usize) -> bool {
        self.names.len() >= count
    }

    /// Whether items cannot be taken although they are there.
    pub(super) const fn is_blocked(&self) -> bool {
        !self.blocked.is_empty()
    }

    /// An item is reported, and not looked at again.
    pub(super) fn put_aside(&mut self, name: String) {
        self.aside.insert(name);
    }

    /// The producer of an item is not sure of it, as long as one node has this version and another exists. If that is
    /// `strict`, those behind it cannot be taken either.
    pub(super) fn block_unconfirmed(&mut self, name: &str, node: (String, i32), other: String, strict: bool) {
        if strict {
            self.names.clear();
            self.is_complete = false;
        }
        for (on, version) in [(node.0, Some(node.1)), (other, None)] {
            let why = Why::Unconfirmed { strict, version };
            self.blocked.push(Blocked::new(name, why, on));
        }
    }

    /// Another client has claimed an item, as long as a node exists.
    pub(super) fn block_claimed(&mut self, name: &str, on: String) {
        self.blocked.push(Blocked::new(name, Why::Claimed, on));
    }

    /// Puts items back that are blocked by nodes which are not watched: whether there were any.
    pub(super) fn retry_unwatched(&mut self) -> bool {
        self.free(|blocked| blocked.watch.is_none())
    }

    /// Items that are back at their place. Where others may come first that are not listed yet, a listing finds them.
    pub(super) fn put_back(&mut self, names: impl IntoIterator<Item = String>) {
        let mut names = names.into_iter().peekable();
        if self.names.is_empty() && self.can_be_reordered() {
            self.is_complete &= names.peek().is_none();
            return;
        }
        for name in names {
            if let Some(place) = self.layout.kind.place(&name) {
                let item = (place, name);
                if let Err(at) = self.names.binary_search(&item) {
                    self.names.insert(at, item);
                }
            }
        }
    }

    /// Those of the blocked items are back whose node has changed by now.
    pub(super) fn poll_freed(&mut self, cx: &mut Context<'_>) {
        self.free(|blocked| blocked.watch.as_mut().is_some_and(|watch| Pin::new(watch).poll(cx).is_ready()));
    }

    /// Those are back that were found claimed so long ago that it is time to try again: whether there are any.
    pub(super) fn try_stale(&mut self) -> bool {
        self.free(|blocked| blocked.is_stale())
    }

    fn free(&mut self, mut is_freed: impl FnMut(&mut Blocked) -> bool) -> bool {
        let mut freed = Vec::new();
        self.blocked.retain_mut(|blocked| {
            let is_freed = is_freed(blocked);
            if is_freed {
                freed.push(mem::take(&mut blocked.name));
            }
            !is_freed
        });
        let is_any = !freed.is_empty();
        self.put_back(freed);
        is_any
    }

    /// Nothing is known to be blocked any more.
    pub(super) fn unblock(&mut self) {
        self.is_complete &= self.blocked.is_empty();
        self.blocked.clear();
    }

    /// An item is not blocked any more.
    pub(super) fn unblock_item(&mut self, name: &str) {
        self.is_complete = false;
        self.blocked.retain(|blocked| blocked.name != name);
    }

    /// Forgets the list.
    pub(super) fn reset(&mut self) {
        self.names.clear();
        self.check = None;
        self.misses = 0;
        self.is_complete = false;
    }

    /// An item has been taken, or will be: what was sent for that is ahead of everything that is sent now.
    pub(super) fn took(&mut self, turn: &mut Turn) {
        // The next in line may look for more.
        *turn = None;
        self.misses = 0;
        self.taken = self.taken.saturating_add(1);
    }

    /// An item is handed out under a claim.
    pub(super) fn handed_out(&mut self, name: String) {
        if self.handed_out.len() == HANDED_OUT {
            self.handed_out.pop_front();
        }
        self.handed_out.push_back(name);
    }

    /// An item was taken by somebody else: whether the list is given up because of that.
    pub(super) fn missed(&mut self) -> bool {
        self.misses += 1;
        let too_many = self.misses >= MISSES;
        if too_many {
            self.reset();
        }
        too_many
    }

    /// Whether new items may come before old ones.
    pub(super) const fn can_be_reordered(&self) -> bool {
        matches!(self.layout.kind, Kind::Priority | Kind::Delay | Kind::Locking | Kind::Job)
    }

    /// Asks whether there are new items, where these may come first, and if it is time for that.
    pub(super) fn start_check(&mut self) {
        if self.can_be_reordered() && self.taken >= self.refresh_after {
            let look = self.layout.zk.exists(self.layout.path.as_str());
            self.check = Some(look.into_future().start());
        }
    }

    /// Gives up the list if there are new items, where these may come first: whether it did. `is_ahead` is whether the
    /// caller has items in its hands that are not taken yet.
    pub(super) async fn refreshed(&mut self, is_ahead: bool) -> Result<bool, Error> {
        let has_list = is_ahead || !self.names.is_empty();
        let Some(listed) = self.listed.filter(|_| has_list && self.can_be_reordered()) else {
            return Ok(false);
        };
        if self.taken < self.refresh_after {
            return Ok(false);
        }
        if self.check.is_none() {
            self.start_check();
        }
        let Some(look) = &mut self.check else { return Ok(false) };
        let stat = look.await;
        self.check = None;
        self.taken = 0;
        let is_new =
            stat?.is_none_or(|stat| stat.czxid != listed.czxid || created_between(&listed, &stat) != 0);
        // What has changed in buckets before is known by now: events come before answers.
        let is_new = if self.layout.buckets.is_some() { is_new || self.has_news() } else { is_new };
        if is_new {
            self.reset();
        }
        Ok(is_new)
    }

    /// Whether items may have come to buckets that come before what is listed.
    fn has_news(&mut self) -> bool {
        self.forget_fired();
        let first = self.names.front().map_or(i64::MAX, |(place, _)| place.rank);
        self.watch.is_none() || self.shelves.has_news_before(first)
    }

    fn forget_fired(&mut self) {
        forget_fired(&mut self.watch);
        self.shelves.watches().for_each(forget_fired);
    }

    /// Lists the items, without waiting.
    pub(super) async fn look(&mut self) -> Result<bool, Error> {
        self.list(false).await?;
        Ok(self.has_work())
    }

    /// Lists the items but for one, which is claimed.
    pub(super) async fn list_others(&mut self, claimed: &str) -> Result<(), Error> {
        self.list(false).await?;
        self.names.retain(|(_, name)| name != claimed);
        Ok(())
    }

    /// Lists the items, and waits if there are none, or none that can be taken, until that may have changed.
    pub(super) async fn more(&mut self, turn: &mut Turn) -> Result<(), Error> {
        let in_line = turn.as_ref().is_some_and(OwnedNode::is_ours);
        if let Some(line) = self.line.clone().filter(|_| !in_line) {
            // One who had to wait for its last item has to wait for the next.
            if !mem::take(&mut self.has_waited) && self.look().await? {
                return Ok(());
            }
            // Who is not the first is not to be woken by what becomes free.
            self.blocked.iter_mut().for_each(|blocked| blocked.watch = None);
            // Those ahead leave in their order, unless they die: to look ahead would cost a request for each that leaves.
            let rule = Rule { looks_ahead: false, ..Rule::exclusive("wait-") };
            let data = Bytes::new();
            let mut place = Contender::enter(&self.layout.zk, &line, &rule, &data).await?;
            // When the one before us is gone, it was the first, or has died: then there are two that look for items for once.
            place.step().await?;
            *turn = Some(place.into_node());
        }
        let is_watched = self.watch.is_some() && self.shelves.is_watched();
        let is_current = self.is_complete && is_watched && matches!(self.guard, Guard::None);
        if !is_current || !self.names.is_empty() {
            self.list(true).await?;
        }
        self.has_waited = self.line.is_some() && !self.has_at_least(2);
        if !self.has_work() {
            self.wait(turn.as_ref()).await?;
        }
        Ok(())
    }

    async fn list(&mut self, watched: bool) -> Result<(), Error> {
        // Dropped on the way, the list is not what the watches are for.
        self.is_complete = false;
        let has_buckets = self.layout.buckets.is_some();
        loop {
            let is_guarded = self.is_guarded();
            self.forget_fired();
            let is_known = has_buckets && self.watch.is_some() && !self.shelves.has_others;
            let mut children = Vec::new();
            if !is_known {
                match self.list_parent(watched || has_buckets).await? {
                    Some(listed) => children = listed,
                    None => continue,
                }
            }
            let mut left = BTreeSet::new();
            if has_buckets {
                if !is_known {
                    self.shelves.update(&mut children);
                }
                let listed = self.list_buckets(watched).await?;
                children.extend(listed.names);
                left = listed.left;
            }
            if !is_guarded && self.has_items(&children) {
                self.create_guard().await?;
                // What is there from now on is guarded.
                self.watch = None;
                continue;
            }
            if is_known {
                left.insert(String::new());
            }
            self.fill(children, &left);
            if has_buckets && self.names.is_empty() && self.watch.is_some() {
                // There may be a bucket by now that was not there at first. The watches of buckets are left to those who
                // wait: one that has fired wakes them.
                forget_fired(&mut self.watch);
                if self.watch.is_none() {
                    continue;
                }
            }
            return Ok(());
        }
    }

    /// Lists the children of the parent; `None` if it is to be listed again.
    async fn list_parent(&mut self, watched: bool) -> Result<Option<Vec<String>>, Error> {
        let path = self.layout.path.as_str();
        let children = self.layout.zk.children(path);
        let listed = if watched {
            children.watched().await.map(|watched| (watched.value, Some(watched.watch)))
        } else {
            children.with_stat().await.map(|value| (value, None))
        };
        match listed {
            Ok(((names, stat), watch)) => {
                if watched {
                    self.watch = watch;
                }
                if self.listed.is_some_and(|listed| listed.czxid != stat.czxid) {
                    // Of another queue at the same path.
                    self.aside.clear();
                    self.blocked.clear();
                    self.shelves = Shelves::default();
                }
                self.listed = Some(stat);
                Ok(Some(names))
            }
            // Not there yet, or a container that was empty (CURATOR-308). Who waits for items creates none, which
            // would stay if there never are any.
            Err(error) if error.kind() == ErrorKind::NoNode => {
                if watched {
                    let exists = self.layout.zk.exists(path).watched().await?;
                    if exists.value.is_some() {
                        return Ok(None);
                    }
                    self.watch = Some(exists.watch);
                }
                Ok(Some(Vec::new()))
            }
            Err(error) => Err(error),
        }
    }

    /// Lists as many of the buckets as there have to be for some items that can be taken.
    async fn list_buckets(&mut self, watched: bool) -> Result<Listed, Error> {
        // News of better items are events.
        let watched = watched || (self.can_be_reordered() && self.refresh_after != u32::MAX);
        let blocked: BTreeSet<&str> = self.blocked.iter().map(|blocked| blocked.name.as_str()).collect();
        let is_free = |name: &str| !blocked.contains(name) && !self.aside.contains(name);
        let enough = self.layout.buckets.as_ref().map_or(1, |buckets| buckets.size().div_ceil(4));
        self.shelves.list(&self.layout, watched, enough as usize, is_free).await
    }

    async fn create_guard(&mut self) -> Result<(), Error> {
        self.unguard();
        let create = self.layout.zk.create(self.layout.item(TAKER)).mode(CreateMode::EphemeralSequential);
        // The data of a parent of buckets say that it is one.
        let create =
            if self.layout.buckets.is_some() { create } else { create.creating_parents_as_containers() };
        match create.protected().data("-").owned().await {
            Ok(node) => self.guard = Guard::Wanted(Some(Arc::new(node))),
            Err(error) if error.kind() == ErrorKind::NoNode => {}
            Err(error) => return Err(error),
        }
        Ok(())
    }

    fn has_items(&self, names: &[String]) -> bool {
        names.iter().any(|name| self.layout.kind.place(name).is_some())
    }

    /// Takes over a listing. Some buckets may be `left`: nothing is known of what is in them, nor of what is beside buckets
    /// if the empty name is among them.
    fn fill(&mut self, children: Vec<String>, left: &BTreeSet<String>) {
        let kind = self.layout.kind;
        let is_left = |name: &String| left.contains(name.rsplit_once('/').map_or("", |(bucket, _)| bucket));
        let mut aside: BTreeSet<String> = self.aside.iter().filter(|name| is_left(name)).cloned().collect();
        let mut listed: Vec<(Place, String)> = Vec::new();
        for name in children {
            if self.aside.contains(&name) {
                aside.insert(name);
            } else if let Some(place) = kind.place(&name) {
                listed.push((place, name));
            } else if !is_taker(&name) {
                debug!(path = %self.layout.path, name, "not an item of the queue");
                self.foreign.push_back(self.layout.item(&name));
                aside.insert(name);
            }
        }
        // What is gone need not be remembered.
        self.aside = aside;
        if !self.blocked.is_empty() {
            let names: BTreeSet<&str> = listed.iter().map(|(_, name)| name.as_str()).collect();
            self.blocked.retain(|blocked| !blocked.is_stale() && names.contains(blocked.name.as_str()));
            let blocked: BTreeSet<&str> = self.blocked.iter().map(|blocked| blocked.name.as_str()).collect();
            let is_any_free = blocked.len() < names.len();
            if is_any_free {
                // Who puts another item may be sure of those before by now.
                self.blocked.retain(|blocked| !blocked.why.passes_with_time());
            }
        }
        let wall = self.blocked.iter().filter(|blocked| blocked.why.is_strict());
        let wall = wall.filter_map(|blocked| kind.place(&blocked.name)).min();
        let blocked: BTreeSet<&str> = self.blocked.iter().map(|blocked| blocked.name.as_str()).collect();
        listed.retain(|(place, name)| {
            !blocked.contains(name.as_str()) && wall.is_none_or(|wall| *place < wall)
        });
        let is_too_long = listed.len() > LONGEST_LIST;
        self.is_complete = !is_too_long && left.iter().all(String::is_empty);
        if is_too_long {
            listed.select_nth_unstable(LONGEST_LIST);
            listed.truncate(LONGEST_LIST);
            listed.shrink_to_fit();
        }
        listed.sort_unstable();
        self.names = listed.into();
        (self.check, self.taken, self.misses) = (None, 0, 0);
    }

    /// Waits until something has changed since the listing.
    async fn wait(&mut self, turn: Option<&OwnedNode>) -> Result<(), Error> {
        if self.watch_blocked(false).await? {
            return Ok(());
        }
        let mut quiet = QUIET;
        loop {
            let due = async {
                let Some((place, _)) = self.names.front() else { return pending().await };
                // The clock that says when it is due may be set while time passes.
                loop {
                    match until_due(&self.layout, *place) {
                        Duration::ZERO => return,
                        time => sleep(time.min(CLOCK_CHECKED)).await,
                    }
                }
            };
            let has_unwatched = self.blocked.iter().any(|blocked| blocked.watch.is_none());
            let is_quiet = async { if has_unwatched { sleep(quiet).await } else { pending().await } };
            let turn_lost = turn.map(|turn| turn.ownership().session_lost());
            let turn_lost = async {
                match turn_lost {
                    Some(lost) => lost.cancelled().await,
                    None => pending().await,
                }
            };
            let freed =
                first_of(self.blocked.iter_mut().filter_map(|blocked| blocked.watch.as_mut()).collect());
            let watches = [&mut self.watch].into_iter().chain(self.shelves.watches());
            let mut watches: Vec<&mut Option<Watch>> = watches.filter(|watch| watch.is_some()).collect();
            let changed = first_of(watches.iter_mut().filter_map(|watch| watch.as_mut()).collect());
            tokio::select! {
                biased;
                () = turn_lost => {}
                changed = changed => *watches[changed] = None,
                freed = freed => {
                    let mut watched = self.blocked.iter().filter(|blocked| blocked.watch.is_some());
                    // Whatever else it was blocked on: see again.
                    if let Some(name) = watched.nth(freed).map(|blocked| blocked.name.clone()) {
                        self.unblock_item(&name);
                    }
                }
                () = due => {}
                () = is_quiet => {
                    if !self.look_at_blocked().await? {
                        quiet = TRIED_AGAIN;
                        continue;
                    }
                }
            }
            return Ok(());
        }
    }

    /// Nothing has happened for a while: watches the claims of others, as many as are watched at a time, and looks at the
    /// rest. Whether one of them is not as it was any more.
    async fn look_at_blocked(&mut self) -> Result<bool, Error> {
        Ok(self.watch_blocked(true).await? || self.free_unwatched().await?)
    }

    /// Watches nodes by which items are blocked: whether one of them is not as it was any more. The claims of others come and
    /// go while items do, so they are only watched on demand.
    async fn watch_blocked(&mut self, claims_of_others: bool) -> Result<bool, Error> {
        let handed_out = &self.handed_out;
        let is_wanted = |blocked: &Blocked| {
            claims_of_others || blocked.why != Why::Claimed || handed_out.contains(&blocked.name)
        };
        let first = self.blocked.iter_mut().filter(|blocked| is_wanted(blocked)).take(WATCHED_AT_ONCE);
        let new = first.filter(|blocked| blocked.watch.is_none());
        let reads = new.map(|blocked| async {
            let read = self.layout.zk.get_data(blocked.on.as_str()).watched().await;
            match read {
                // Since it was seen.
                Ok(read) if blocked.why.is_over(&read.value.1) => return Ok(Some(blocked.name.clone())),
                Ok(read) => blocked.watch = Some(read.watch),
                Err(error) if error.kind() == ErrorKind::NoNode => return Ok(Some(blocked.name.clone())),
                Err(error) => return Err(error),
            }
            Ok(None)
        });
        // In one flight.
        let freed: Vec<Option<String>> = join_all(reads).await.into_iter().collect::<Result<_, Error>>()?;
        let freed: BTreeSet<String> = freed.into_iter().flatten().collect();
        self.blocked.retain(|blocked| !freed.contains(&blocked.name));
        self.is_complete &= freed.is_empty();
        Ok(!freed.is_empty())
    }

    /// Looks at the nodes that are not watched, because there are too many: items are not blocked any more whose node is
    /// gone. Whether there are any.
    async fn free_unwatched(&mut self) -> Result<bool, Error> {
        let unwatched = self.blocked.iter().filter(|blocked| blocked.watch.is_none());
        let on: Vec<String> = unwatched.map(|blocked| blocked.on.clone()).collect();
        let mut seen = self.layout.zk.children_of_each(on).await?.into_iter();
        let unwatched = self.blocked.iter().filter(|blocked| blocked.watch.is_none());
        let freed =
            unwatched.filter(|blocked| seen.next().flatten().is_none() || blocked.why != Why::Claimed);
        let freed: BTreeSet<String> = freed.map(|blocked| blocked.name.clone()).collect();
        self.blocked.retain(|blocked| !freed.contains(&blocked.name));
        self.is_complete &= freed.is_empty();
        Ok(!freed.is_empty())
    }
}

/// The time until an item at this place is due.
fn until_due(layout: &QueueLayout, place: Place) -> Duration {
    let millis = if layout.kind == Kind::Delay { place.rank.saturating_sub(layout.now()) } else { 0 };
    Duration::from_millis(u64::try_from(millis).unwrap_or(0))
}

/// The place of the first watch that fires, whatever it says; never, if there is none.
async fn first_of(watches: Vec<&mut Watch>) -> usize {
    if watches.is_empty() {
        return pending().await;
    }
    select_all(watches).await.1
}

/// How many children were created between two looks at their parent: its child version counts creates and deletes.
fn created_between(before: &Stat, after: &Stat) -> i32 {
    let changes = after.cversion.wrapping_sub(before.cversion);
    let growth = after.num_children.wrapping_sub(before.num_children);
    changes.wrapping_add(growth) / 2
}
