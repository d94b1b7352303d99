//! What consumers may have kept from others while they waited for items.

use std::collections::BTreeMap;
use std::time::Duration;

use crate::history::{Event, History, Name, ProcessId, Record};

/// An item, by its queue and its name.
pub(super) type Item<'a> = (&'a Name, &'a Name);

pub(super) struct Put {
    pub(super) producer: ProcessId,
    pub(super) rank: i64,
    pub(super) begun: usize,
    /// Where its producer was sure.
    pub(super) sure: Option<usize>,
    /// Where somebody first had it, or may have.
    pub(super) seen: usize,
}

/// Somebody has waited for an item, and has claimed what it did not get, or got later.
struct Attempt<'a> {
    who: ProcessId,
    queue: &'a Name,
    /// Before this place it had claimed nothing.
    begun: usize,
    /// After this place it has claimed nothing more.
    ended: usize,
    /// After this it has nothing any more of what it has not got.
    until: Duration,
    /// What it has got: nothing if it may have kept others from more.
    got: Vec<Item<'a>>,
}

/// All attempts of a history.
#[derive(Default)]
pub(super) struct Attempts<'a> {
    attempts: Vec<Attempt<'a>>,
    /// By the place where an item was taken: since when its consumer may have meant to take it.
    since: BTreeMap<usize, Duration>,
    /// The same, where it was claimed for the call that got it: where that began.
    alone: BTreeMap<usize, usize>,
}

/// One consumer at one queue.
struct Waiting<'a> {
    who: ProcessId,
    queue: &'a Name,
    ahead: usize,
    linger: Duration,
    /// Where each of its attempts began, when, and whether it came to nothing.
    begun: Vec<(usize, Duration, bool)>,
    is_open: bool,
    /// Its last attempt, if that has got something.
    got: Option<usize>,
    /// Those that came to nothing, and how many deliveries it takes until their claims are handed out.
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

    /// What it has claimed, after this place nothing more, and after this time it has nothing any more of what it has not got.
    fn attempt(&self, ended: usize, until: Duration) -> Attempt<'a> {
        Attempt { who: self.who, queue: self.queue, begun: self.first().0, ended, until, got: Vec::new() }
    }

    /// Where, and when, the first claim was made that may be handed out now: those of attempts that came to nothing are handed
    /// out by the next.
    fn first(&self) -> (usize, Duration) {
        let mut ahead = self.ahead.saturating_sub(1);
        let mut attempts = self.begun.iter().rev();
        let (mut place, mut at) = attempts.next().map_or((0, Duration::ZERO), |(place, at, _)| (*place, *at));
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
                Event::Taking { queue, ahead, linger } => {
                    let waiting = waiting.entry((*who, queue)).or_insert_with(|| Waiting::new(*who, queue));
                    (waiting.ahead, waiting.linger) = (*ahead as usize, *linger);
                    waiting.begun.push((place, *at, false));
                    (waiting.is_open, waiting.got) = (true, None);
                }
                Event::Taken { queue, item, .. } => {
                    let Some(waiting) = waiting.get_mut(&(*who, queue)) else { continue };
                    let (first, since) = waiting.first();
                    all.since.insert(place, since);
                    if std::mem::take(&mut waiting.is_open) {
                        if waiting.begun.last().is_some_and(|(begun, ..)| *begun == first) {
                            all.alone.insert(place, first);
                        }
                        let until = at.saturating_add(waiting.linger);
                        waiting.got = Some(all.attempts.len());
                        all.attempts.push(waiting.attempt(place, until));
                        all.settle(waiting, until);
                    }
                    if let Some(attempt) = waiting.got.and_then(|attempt| all.attempts.get_mut(attempt)) {
                        attempt.got.push((queue, item));
                    }
                }
                Event::Untaken { queue } => {
                    if let Some(waiting) = waiting.get_mut(&(*who, queue)).filter(|waiting| waiting.is_open) {
                        all.leave(waiting, place);
                    }
                }
                Event::Killed => {
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

    /// Its attempt has come to nothing.
    fn leave(&mut self, waiting: &mut Waiting<'a>, ended: usize) {
        waiting.unsettled.push((self.attempts.len(), waiting.ahead));
        self.attempts.push(waiting.attempt(ended, Duration::MAX));
        waiting.is_open = false;
        if let Some((_, _, came_to_nothing)) = waiting.begun.last_mut() {
            *came_to_nothing = true;
        }
    }

    /// An item was handed out, and with it the first of what was claimed before.
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

    /// Where the call began for which the item was claimed that was taken at `place`, if it is known to be that.
    pub(super) fn chosen_after(&self, place: usize) -> Option<usize> {
        self.alone.get(&place).copied()
    }

    /// Whether somebody may have kept `item` from `who` when that one took another, at the place `before`.
    pub(super) fn kept(
        &self,
        puts: &BTreeMap<Item<'a>, Put>,
        (item, put): (Item<'_>, &Put),
        who: ProcessId,
        before: usize,
    ) -> bool {
        let since = self.since.get(&before).copied().unwrap_or_default();
        // Given back for it, because it came first and was put later, or somebody else has had it meanwhile.
        let gives_way = |got: &Item<'a>, ended: usize| {
            // Nobody can tell which one it is, if there are several of that name.
            puts.get(got).is_none_or(|got| {
                let is_first = put.sure.is_none_or(|sure| sure > got.begun);
                let comes_first = got.rank < put.rank || (got.rank == put.rank && is_first);
                comes_first && (got.sure.is_none_or(|sure| sure > put.begun) || got.seen < ended)
            })
        };
        self.attempts.iter().any(|attempt| {
            let meanwhile = attempt.begun < before && attempt.ended > put.begun;
            let late = attempt.who != who && attempt.got.contains(&item);
            let kept = attempt.got.iter().all(|got| gives_way(got, attempt.ended)) && attempt.until >= since;
            attempt.queue == item.0 && meanwhile && (late || kept)
        })
    }
}
