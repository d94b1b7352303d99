//! Runs feeds on a queue that other clients change at every moment. Responses and events come in
//! every order in which a server may send them: exhaustively for the first moments, at random for
//! longer runs.

use std::collections::{BTreeMap, BTreeSet};
use std::mem;
use std::time::Duration;

use proptest::prelude::*;
use tokio::time::Instant;

use super::buckets::BucketDeletion;
use super::choices::Choices;
use super::effects::{FeedEffect, FeedInput, FeedWatchKey, ListingOptions, ParentStat};
use super::machine::FeedMachine;
use crate::queue::wire::name::{Bucket, ItemMeta, NamingRules, TAKER, priority};
use crate::size;

/// The number of effects after which a call must have returned.
const MOST_EFFECTS: usize = 200;
/// With the sizes of a model, a listing stops after this number of free items.
const ENOUGH: usize = 2;

/// The queue at a server, and the actions of other clients.
struct World {
    kind: NamingRules,
    stat: ParentStat,
    buckets: BTreeMap<String, WorldBucket>,
    /// The names of items and of our node next to buckets.
    beside: BTreeSet<String>,
    /// The number of the next node.
    next: u32,
    /// The items that other clients have claimed.
    claimed: BTreeSet<String>,
    watches: BTreeMap<FeedWatchKey, String>,
    /// Events that are not reported yet.
    events: Vec<FeedWatchKey>,
}

#[derive(Default)]
struct WorldBucket {
    names: BTreeSet<String>,
    version: i32,
}

/// The names of the items in the queue.
fn names(world: &World) -> impl Iterator<Item = String> {
    let in_buckets = world.buckets.values().flat_map(|bucket| bucket.names.iter());
    let all = in_buckets.chain(&world.beside).filter(|name| world.kind.place(name).is_some());
    all.cloned().collect::<Vec<_>>().into_iter()
}

impl World {
    fn new(kind: NamingRules) -> Self {
        Self {
            kind,
            stat: ParentStat { czxid: 1, cversion: 0, children: 0 },
            buckets: BTreeMap::new(),
            beside: BTreeSet::new(),
            next: 0,
            claimed: BTreeSet::new(),
            watches: BTreeMap::new(),
            events: Vec::new(),
        }
    }

    /// Fires the watches on a node.
    fn changed(&mut self, node: &str) {
        let (watches, events) = (&mut self.watches, &mut self.events);
        watches.retain(|watched, on| {
            if on == node {
                events.push(watched.clone());
            }
            on != node
        });
    }

    fn parent_changed(&mut self, growth: i32) {
        self.stat.cversion += 1;
        self.stat.children += growth;
        self.changed("");
    }

    fn put(&mut self) {
        self.next += 1;
        let middle = match self.kind {
            NamingRules::Locking => ItemMeta { priority: 0, id: "a", times: 0 }.to_string(),
            NamingRules::Priority => priority(if self.next.is_multiple_of(3) { -1 } else { 1 }),
            _ => String::new(),
        };
        let item = format!("{}{middle}{:010}", self.kind.tag(), self.next);
        if !self.kind.has_buckets() {
            self.beside.insert(item);
            return self.parent_changed(1);
        }
        if self.buckets.is_empty() {
            self.roll();
        }
        let (bucket, open) = self.buckets.iter_mut().next_back().unwrap();
        open.names.insert(format!("{bucket}/{item}"));
        let bucket = bucket.clone();
        self.changed(&bucket);
    }

    /// Closes the open bucket, and opens the next.
    fn roll(&mut self) {
        self.next += 1;
        self.buckets.values_mut().next_back().into_iter().for_each(|last| last.version = 1);
        self.buckets
            .insert(format!("{}{:010}", Bucket::base(0), self.next), WorldBucket::default());
        self.parent_changed(1);
    }

    /// Removes an item. Returns `true` if it existed.
    fn remove(&mut self, name: &str) -> bool {
        self.claimed.remove(name);
        self.changed(&format!("{name}/claim"));
        if self.beside.remove(name) {
            self.parent_changed(-1);
            return true;
        }
        let bucket = name.rsplit_once('/').map_or("", |(bucket, _)| bucket).to_owned();
        let was_there =
            self.buckets.get_mut(&bucket).is_some_and(|bucket| bucket.names.remove(name));
        if was_there {
            self.changed(&bucket);
        }
        was_there
    }

    /// The other clients do something, or nothing.
    fn act(&mut self, choices: &mut Choices) {
        let first = names(self).find(|name| !self.claimed.contains(name));
        match choices.choose(if self.kind == NamingRules::Locking { 6 } else { 4 }) {
            1 => self.put(),
            2 if self.kind.has_buckets() => self.roll(),
            3 => drop(first.map(|name| self.remove(&name))),
            4 => drop(first.map(|name| self.claimed.insert(name))),
            5 => self.release(),
            _ => {}
        }
    }

    /// Another client releases an item.
    fn release(&mut self) {
        if let Some(name) = self.claimed.pop_first() {
            self.changed(&format!("{name}/claim"));
        }
    }

    fn children(&self) -> Vec<String> {
        self.buckets.keys().chain(&self.beside).cloned().collect()
    }

    /// Acts as a server for the request of an effect: returns the response, and sets the watches.
    fn execute(&mut self, effect: FeedEffect) -> (FeedInput, Vec<(FeedWatchKey, String)>) {
        let mut watches = Vec::new();
        let answer = match effect {
            FeedEffect::ListParent { is_watched } => {
                watches.extend(is_watched.then(|| (FeedWatchKey::Parent, String::new())));
                FeedInput::Parent(Some((self.children(), self.stat)))
            }
            FeedEffect::ListBuckets { names, is_watched } => {
                let list = |name: String| {
                    let bucket = self.buckets.get(&name);
                    if is_watched && bucket.is_some() {
                        watches.push((FeedWatchKey::Bucket(name.clone()), name.clone()));
                    }
                    let children = bucket
                        .map(|bucket| (bucket.names.iter().cloned().collect(), bucket.version));
                    (name, children)
                };
                FeedInput::Buckets(names.into_iter().map(list).collect())
            }
            FeedEffect::DeleteBuckets(buckets) => {
                let delete = |(name, version): (String, i32)| {
                    let is_stale = |bucket: &WorldBucket| {
                        !bucket.names.is_empty() || bucket.version != version
                    };
                    if self.buckets.get(&name).is_some_and(is_stale) {
                        return (name, BucketDeletion::Unknown);
                    }
                    if self.buckets.remove(&name).is_some() {
                        self.changed(&name);
                        self.parent_changed(-1);
                    }
                    (name, BucketDeletion::Done)
                };
                FeedInput::Deleted(buckets.into_iter().map(delete).collect())
            }
            FeedEffect::CreateGuard => {
                self.beside.insert(format!("_c_a-{TAKER}0000000001"));
                self.parent_changed(1);
                FeedInput::Guarded(true)
            }
            FeedEffect::WatchBlocked(nodes) => {
                let watch = |(number, path): (u64, String)| {
                    let is_there = self.claimed.iter().any(|name| path == format!("{name}/claim"));
                    watches.extend(is_there.then_some((FeedWatchKey::Blocked(number), path)));
                    (number, is_there.then_some(0))
                };
                FeedInput::BlockedOn(nodes.into_iter().map(watch).collect())
            }
            FeedEffect::LookAt(paths) => {
                let is_there = |path: &String| {
                    self.claimed.iter().any(|name| *path == format!("{name}/claim"))
                };
                FeedInput::AreThere(paths.iter().map(is_there).collect())
            }
            FeedEffect::WatchParent | FeedEffect::Wait { .. } | FeedEffect::Done => {
                unreachable!("{effect:?}")
            }
        };
        (answer, watches)
    }
}

/// A consumer of the world.
struct Play {
    world: World,
    feed: FeedMachine,
    choices: Choices,
    is_guarded: bool,
    now: Instant,
    taken: Vec<String>,
    requests: usize,
}

impl Play {
    fn new(kind: NamingRules, choices: Choices) -> Self {
        Self {
            world: World::new(kind),
            feed: FeedMachine::new(kind, 1),
            choices,
            is_guarded: kind != NamingRules::Fifo,
            now: Instant::now(),
            taken: Vec::new(),
            requests: 0,
        }
    }

    /// Reports some events, at least this number.
    fn tell(&mut self, at_least: usize) {
        let most = self.world.events.len() - at_least;
        let count = at_least + if most == 0 { 0 } else { self.choices.choose(most + 1) };
        self.world.events.drain(..count).for_each(|watched| self.feed.fired(&watched));
    }

    /// Performs effects until the call returns, or must wait. Returns `true` if it waits.
    fn perform(&mut self, mut input: FeedInput) -> bool {
        for _ in 0..MOST_EFFECTS {
            let is_guarded = matches!(input, FeedInput::Guarded(true));
            self.is_guarded |= is_guarded;
            let effect = self.feed.step(input, self.now);
            match effect {
                FeedEffect::Done => return false,
                FeedEffect::Wait { quiet } => {
                    self.check_wait(quiet);
                    return true;
                }
                _ => {}
            }
            self.requests += 1;
            self.world.act(&mut self.choices);
            let (answer, watches) = self.world.execute(effect);
            // Responses come after the events of earlier changes.
            let before = self.world.events.len();
            self.world.watches.extend(watches.clone());
            if self.choices.depth == 0 {
                self.world.act(&mut self.choices);
            }
            // A watch that the response has set reports its events after the response.
            let is_new = |watched: &FeedWatchKey| watches.iter().any(|(new, _)| new == watched);
            let (early, late) = self.world.events.split_at(before);
            let (late, rest): (Vec<_>, Vec<_>) = late.iter().cloned().partition(is_new);
            self.world.events = [early, &rest, &late].concat();
            let told =
                before + if rest.is_empty() { 0 } else { self.choices.choose(rest.len() + 1) };
            self.world.events.drain(..told).for_each(|watched| self.feed.fired(&watched));
            input = answer;
        }
        panic!("it does not return");
    }

    /// A consumer may wait only if an event, or the time, will show it every item that can be
    /// taken.
    fn check_wait(&self, quiet: Option<Duration>) {
        let untold = !self.world.events.is_empty();
        let free = names(&self.world).find(|name| !self.world.claimed.contains(name));
        assert!(
            untold || free.is_none() || (quiet.is_some() && self.feed.is_blocked()),
            "waits though {free:?} is there: {:?}",
            self.feed
        );
    }

    fn list(&mut self, is_watched: bool) {
        let order = ListingOptions { is_watched, is_guarded: self.is_guarded, enough: ENOUGH };
        assert!(!self.perform(FeedInput::List(order)), "a listing does not wait");
        self.world.act(&mut self.choices);
    }

    /// Takes the items of the list.
    fn take(&mut self) {
        while let Some(name) = self.feed.items.pop(0) {
            if self.world.claimed.contains(&name) {
                self.feed.block_claimed(&name, format!("{name}/claim"), self.now);
            } else if self.world.remove(&name) {
                self.feed.took();
                self.taken.push(name);
            } else {
                self.feed.missed();
            }
            self.world.act(&mut self.choices);
            self.feed.return_freed();
        }
    }

    /// Waits for more, as a consumer does.
    fn more(&mut self) {
        if !self.feed.is_current() {
            self.list(true);
        }
        if self.feed.items.has_work(0) {
            return;
        }
        self.tell(0);
        let mut input = FeedInput::Wait;
        for _ in 0..4 {
            if !self.perform(input) {
                return;
            }
            self.world.act(&mut self.choices);
            input = if self.world.events.is_empty() { FeedInput::Quiet } else { FeedInput::Woken };
            self.tell(self.world.events.len().min(1));
        }
    }

    /// Runs until no client acts any more and everything is taken, and returns the taken items.
    fn finish(mut self) -> Vec<String> {
        while !self.world.claimed.is_empty() {
            self.world.release();
        }
        self.choices = Choices::default();
        for _ in 0..20 {
            self.take();
            if names(&self.world).next().is_none() {
                return self.taken;
            }
            self.now += Duration::from_millis(300);
            self.more();
        }
        panic!("{:?} is never taken: {:?}", names(&self.world).next(), self.feed);
    }
}

/// The moment after which other clients act.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum From {
    /// The consumer lists a queue with an item.
    Listing,
    /// The consumer lists an empty queue, to wait for an item.
    Waiting,
}

/// Lists and takes while other clients act, and then takes the rest.
fn play(kind: NamingRules, from: From, choices: Choices) -> (Vec<String>, Choices) {
    let mut play = Play::new(kind, choices);
    if from == From::Listing {
        play.world.put();
    }
    if kind.has_buckets() {
        play.world.roll();
        play.world.roll();
    }
    if from == From::Listing {
        play.list(false);
        play.take();
    }
    play.more();
    let choices = Choices { next: 0, ..mem::take(&mut play.choices) };
    (play.finish(), choices)
}

fn check_order(kind: NamingRules, taken: &[String]) {
    let distinct: BTreeSet<&String> = taken.iter().collect();
    assert_eq!(distinct.len(), taken.len(), "taken twice: {taken:?}");
    if matches!(kind, NamingRules::Fifo | NamingRules::Plain) {
        let places: Vec<_> = taken.iter().map(|name| kind.place(name)).collect();
        assert!(places.is_sorted(), "{taken:?}");
    }
}

#[test]
fn no_item_is_lost_in_any_order_of_responses() {
    let (depth, depth_locking) = (size(6, 7), size(4, 5));
    for (kind, from, depth) in [
        (NamingRules::Plain, From::Listing, depth),
        (NamingRules::Plain, From::Waiting, depth),
        (NamingRules::Fifo, From::Listing, depth),
        (NamingRules::Fifo, From::Waiting, depth),
        (NamingRules::Locking, From::Listing, depth_locking),
        (NamingRules::Locking, From::Waiting, depth_locking),
    ] {
        let mut choices = Choices { depth, ..Choices::default() };
        let mut count = 0;
        loop {
            let (taken, made) = play(kind, from, choices);
            check_order(kind, &taken);
            choices = made;
            count += 1;
            if !choices.advance() {
                break;
            }
        }
        assert!(count > 1000, "{kind:?} {from:?}: {count}");
    }
}

/// It watches 64 claims, and reads the remaining ones.
#[test]
fn claim_beyond_those_watched_is_looked_at() {
    let now = Instant::now();
    let mut feed = FeedMachine::new(NamingRules::Locking, 1);
    for number in 0..65 {
        feed.block_claimed(&number.to_string(), format!("/{number}"), now);
    }
    assert!(matches!(feed.step(FeedInput::Wait, now), FeedEffect::Wait { quiet: Some(_) }));
    let FeedEffect::WatchBlocked(watched) = feed.step(FeedInput::Quiet, now) else { panic!() };
    let versions = watched.iter().map(|(number, _)| (*number, Some(0))).collect();
    assert_eq!(
        feed.step(FeedInput::BlockedOn(versions), now),
        FeedEffect::LookAt(vec!["/64".to_owned()])
    );
    assert!(matches!(
        feed.step(FeedInput::AreThere(vec![true]), now),
        FeedEffect::Wait { quiet: Some(_) }
    ));
    assert_eq!(feed.step(FeedInput::Quiet, now), FeedEffect::LookAt(vec!["/64".to_owned()]));
    assert_eq!(feed.step(FeedInput::AreThere(vec![false]), now), FeedEffect::Done);
}

/// The first in line used to forget the event.
#[test]
fn item_that_comes_while_buckets_are_listed_ends_the_wait() {
    let now = Instant::now();
    let bucket = |number| format!("{}{number:010}", Bucket::base(0));
    let mut feed = FeedMachine::new(NamingRules::Fifo, 1);
    let order = ListingOptions { is_watched: true, is_guarded: true, enough: ENOUGH };
    assert_eq!(feed.step(FeedInput::List(order), now), FeedEffect::ListParent { is_watched: true });
    let stat = ParentStat { czxid: 1, cversion: 2, children: 2 };
    let listed = feed.step(FeedInput::Parent(Some((vec![bucket(1), bucket(2)], stat))), now);
    assert_eq!(listed, FeedEffect::ListBuckets { names: vec![bucket(1)], is_watched: true });
    let empty = |number| FeedInput::Buckets(vec![(bucket(number), Some((Vec::new(), 0)))]);
    let listed = feed.step(empty(1), now);
    assert_eq!(listed, FeedEffect::ListBuckets { names: vec![bucket(2)], is_watched: true });
    // An item arrives in the first bucket.
    feed.fired(&FeedWatchKey::Bucket(bucket(1)));
    assert_eq!(feed.step(empty(2), now), FeedEffect::Done);
    assert!(!feed.is_current());
    assert_eq!(
        feed.step(FeedInput::Wait, now),
        FeedEffect::Done,
        "it waits though an item is there"
    );
    // The next listing finds it, and reads no other bucket.
    let listed = feed.step(FeedInput::List(order), now);
    assert_eq!(listed, FeedEffect::ListBuckets { names: vec![bucket(1)], is_watched: true });
    let item = format!("{}/item-0000000001", bucket(1));
    let listed =
        feed.step(FeedInput::Buckets(vec![(bucket(1), Some((vec![item.clone()], 0)))]), now);
    assert_eq!((listed, feed.items.pop(0)), (FeedEffect::Done, Some(item)));
}

#[test]
fn an_empty_queue_that_is_watched_is_not_listed_again() {
    let mut play = Play::new(NamingRules::Fifo, Choices::default());
    play.world.roll();
    play.list(true);
    assert_eq!(play.requests, 2);
    assert!(play.feed.is_current());
    play.list(true);
    assert_eq!(play.requests, 2);
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(2000))]

    #[test]
    fn no_item_is_lost_in_long_plays(
        kind in prop::sample::select(vec![NamingRules::Plain, NamingRules::Fifo, NamingRules::Locking, NamingRules::Priority]),
        from in prop::sample::select(vec![From::Listing, From::Waiting]),
        made in prop::collection::vec(0..60_usize, 0..60),
    ) {
        let made = made.into_iter().map(|choice| (choice, 60)).collect();
        let (taken, _) = play(kind, from, Choices { made, ..Choices::default() });
        check_order(kind, &taken);
    }
}
