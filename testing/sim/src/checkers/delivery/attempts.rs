//! The items that consumers may have kept from others while they waited.

use std::collections::BTreeMap;
use std::time::Duration;

use crate::history::{Event, History, Lifecycle, Name, ProcessId, Queue, Record};

/// An item, by its queue and its name.
pub(super) type Item<'a> = (&'a Name, &'a Name);

pub(super) struct Put {
    pub(super) producer: ProcessId,
    pub(super) rank: i64,
    pub(super) begun: usize,
    /// The place where the put was certain.
    pub(super) sure: Option<usize>,
    /// The first place where a client had the item, or may have had it.
    pub(super) seen: usize,
}

/// A wait for an item, during which a consumer claimed items that it did not get, or got later.
struct Attempt<'a> {
    who: ProcessId,
    queue: &'a Name,
    /// The consumer had claimed nothing before this place.
    begun: usize,
    /// The consumer claimed nothing more after this place.
    ended: usize,
    /// The consumer has no claim left after this time, except for items that it got.
    until: Duration,
    /// The items that it got. Empty if it may have kept more items from others.
    got: Vec<Item<'a>>,
}

/// All attempts of a history.
#[derive(Default)]
pub(super) struct Attempts<'a> {
    attempts: Vec<Attempt<'a>>,
    /// For each place where an item was taken: the earliest time at which the consumer may have
    /// claimed it.
    since: BTreeMap<usize, Duration>,
    /// For each item that was claimed by the call that returned it: the place where that call
    /// began.
    alone: BTreeMap<usize, usize>,
}

/// The state of one consumer at one queue.
struct Waiting<'a> {
    who: ProcessId,
    queue: &'a Name,
    ahead: usize,
    linger: Duration,
    /// For each attempt: the place and the time of its begin, and if it came to nothing.
    begun: Vec<(usize, Duration, bool)>,
    is_open: bool,
    /// The last attempt, if it got an item.
    got: Option<usize>,
    /// The attempts that came to nothing, each with the number of deliveries until all its claims
    /// are delivered.
    unsettled: Vec<(usize, usize)>,
}

impl<'a> Waiting<'a> {
    const fn new(who: ProcessId, queue: &'a Name) -> Self {
        Self {
            who,
            queue,
            ahead: 1,
            linger: Duration::ZERO,
            begun: Vec::new(),
            is_open: false,
            got: None,
            unsettled: Vec::new(),
        }
    }

    /// Returns an attempt that made its claims from the begin of the first of the last `calls`
    /// until `ended`. After `until` the consumer has no claim left, except for items that it got.
    fn attempt(&self, calls: usize, ended: usize, until: Duration) -> Attempt<'a> {
        let begun = self.first(calls).0;
        Attempt { who: self.who, queue: self.queue, begun, ended, until, got: Vec::new() }
    }

    /// Returns the place and the time at which the first of the last `calls` began. Calls that came
    /// to nothing do not count, because the next call delivers their claims.
    fn first(&self, calls: usize) -> (usize, Duration) {
        let mut ahead = calls.saturating_sub(1);
        let mut attempts = self.begun.iter().rev();
        let (mut place, mut at) =
            attempts.next().map_or((0, Duration::ZERO), |(place, at, _)| (*place, *at));
        for (before, when, came_to_nothing) in attempts {
            if !came_to_nothing {
                if ahead == 0 {
                    break;
                }
                ahead -= 1;
            }
            (place, at) = (*before, *when);
        }
        (place, at)
    }
}

impl<'a> Attempts<'a> {
    pub(super) fn of(history: &'a History) -> Self {
        let mut all = Self::default();
        let mut waiting: BTreeMap<(ProcessId, &Name), Waiting<'_>> = BTreeMap::new();
        for (place, Record { at, who, event, .. }) in history.records().iter().enumerate() {
            match event {
                Event::Queue(Queue::Taking { queue, ahead, linger }) => {
                    let waiting =
                        waiting.entry((*who, queue)).or_insert_with(|| Waiting::new(*who, queue));
                    (waiting.ahead, waiting.linger) = (*ahead as usize, *linger);
                    waiting.begun.push((place, *at, false));
                    (waiting.is_open, waiting.got) = (true, None);
                }
                Event::Queue(Queue::Taken { queue, item, .. }) => {
                    let Some(waiting) = waiting.get_mut(&(*who, queue)) else { continue };
                    let (first, since) = waiting.first(waiting.ahead);
                    all.since.insert(place, since);
                    if std::mem::take(&mut waiting.is_open) {
                        if waiting.begun.last().is_some_and(|(begun, ..)| *begun == first) {
                            all.alone.insert(place, first);
                        }
                        let until = at.saturating_add(waiting.linger);
                        waiting.got = Some(all.attempts.len());
                        all.attempts.push(waiting.attempt(waiting.ahead, place, until));
                        all.settle(waiting, until);
                    }
                    if let Some(attempt) =
                        waiting.got.and_then(|attempt| all.attempts.get_mut(attempt))
                    {
                        attempt.got.push((queue, item));
                    }
                }
                Event::Queue(Queue::Untaken { queue }) => {
                    if let Some(waiting) =
                        waiting.get_mut(&(*who, queue)).filter(|waiting| waiting.is_open)
                    {
                        all.leave(waiting, place);
                    }
                }
                Event::Lifecycle(Lifecycle::Killed) => {
                    for (_, waiting) in waiting.iter_mut().filter(|((whose, _), _)| whose == who) {
                        if waiting.is_open || waiting.ahead > 1 {
                            all.leave(waiting, place);
                        }
                        let until = at.saturating_add(waiting.linger);
                        for (attempt, _) in waiting.unsettled.drain(..) {
                            all.end(attempt, until);
                        }
                    }
                }
                _ => {}
            }
        }
        for waiting in waiting.values_mut().filter(|waiting| waiting.is_open) {
            all.leave(waiting, history.records().len());
        }
        all
    }

    /// Records that an attempt came to nothing.
    fn leave(&mut self, waiting: &mut Waiting<'a>, ended: usize) {
        waiting.unsettled.push((self.attempts.len(), waiting.ahead));
        // A consumer that is stopped delivers the items that it has, even while it claims a better
        // one. That claim belongs to the call before.
        self.attempts.push(waiting.attempt(waiting.ahead + 1, ended, Duration::MAX));
        waiting.is_open = false;
        if let Some((_, _, came_to_nothing)) = waiting.begun.last_mut() {
            *came_to_nothing = true;
        }
    }

    /// Records that an item was delivered, and with it the first of the earlier claims.
    fn settle(&mut self, waiting: &mut Waiting<'_>, until: Duration) {
        waiting.unsettled.retain_mut(|(attempt, deliveries)| {
            *deliveries = deliveries.saturating_sub(1);
            if *deliveries == 0 {
                self.end(*attempt, until);
            }
            *deliveries > 0
        });
    }

    fn end(&mut self, attempt: usize, until: Duration) {
        if let Some(attempt) = self.attempts.get_mut(attempt) {
            attempt.until = until;
        }
    }

    /// Returns the place where the call began that claimed the item taken at `place`; `None` if it
    /// is not known that this call claimed it.
    pub(super) fn chosen_after(&self, place: usize) -> Option<usize> {
        self.alone.get(&place).copied()
    }

    /// Returns `true` if a client may have kept `item` from `who` when `who` took another item at
    /// the place `before`.
    pub(super) fn kept(
        &self,
        puts: &BTreeMap<Item<'a>, Put>,
        (item, put): (Item<'_>, &Put),
        who: ProcessId,
        before: usize,
    ) -> bool {
        let since = self.since.get(&before).copied().unwrap_or_default();
        // True if the consumer may have returned `got` for `item`: `got` comes first, and was put
        // later, or another client had it in between.
        let gives_way = |got: &Item<'a>, ended: usize| {
            // Items of the same name cannot be told apart.
            puts.get(got).is_none_or(|got| {
                let is_first = put.sure.is_none_or(|sure| sure > got.begun);
                let comes_first = got.rank < put.rank || (got.rank == put.rank && is_first);
                comes_first && (got.sure.is_none_or(|sure| sure > put.begun) || got.seen < ended)
            })
        };
        self.attempts.iter().any(|attempt| {
            let meanwhile = attempt.begun < before && attempt.ended > put.begun;
            let late = attempt.who != who && attempt.got.contains(&item);
            let kept = attempt.got.iter().all(|got| gives_way(got, attempt.ended))
                && attempt.until >= since;
            attempt.queue == item.0 && meanwhile && (late || kept)
        })
    }
}
