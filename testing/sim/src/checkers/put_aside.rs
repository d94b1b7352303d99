use std::collections::BTreeMap;

use super::{Checker, Violation};
use crate::history::{Event, History, Lifecycle, Name, Operator, Queue};

/// Checks that an item becomes a [dead letter](Queue::Dead) only after it was [taken](Queue::Taken)
/// the permitted number of times, unless it was [rejected](Queue::Rejecting).
///
/// A delivery is counted before it reaches the consumer. So it may be counted without being taken
/// if the consumer is lost in between. Since the put of the item began, one delivery may be missing
/// for each of these events:
/// * a process was [killed](Lifecycle::Killed);
/// * an operator has [deleted](Operator::Removed) a claim;
/// * a client reports it with [`Unseen`](Queue::Unseen): its connection has changed, its call has
///   failed, or it has dropped its consumer. A dropped call of a consumer that is used again does
///   not count, nor does a run that is stopped and drained.
#[derive(Debug, Clone)]
pub struct PutAside {
    deliveries: usize,
}

impl PutAside {
    /// Creates a checker that permits this number of deliveries.
    #[must_use]
    pub const fn after(deliveries: u32) -> Self {
        Self { deliveries: deliveries as usize }
    }
}

#[derive(Default)]
struct Item {
    begun: usize,
    taken: Vec<usize>,
    is_rejected: bool,
    dead: Option<usize>,
}

impl Checker for PutAside {
    fn check(&self, history: &History) -> Result<(), Violation> {
        let mut items: BTreeMap<(&Name, &Name), Item> = BTreeMap::new();
        let mut excuses = Vec::new();
        for (place, record) in history.records().iter().enumerate() {
            match &record.event {
                Event::Queue(Queue::Putting { queue, item, .. }) => {
                    items.entry((queue, item)).or_default().begun = place;
                }
                Event::Queue(Queue::Taken { queue, item, .. }) => {
                    items.entry((queue, item)).or_default().taken.push(place);
                }
                Event::Queue(Queue::Rejecting { queue, item }) => {
                    items.entry((queue, item)).or_default().is_rejected = true;
                }
                Event::Queue(Queue::Dead { queue, item }) => {
                    items.entry((queue, item)).or_default().dead.get_or_insert(place);
                }
                Event::Queue(Queue::Unseen { count, .. }) => excuses.push((place, *count as usize)),
                Event::Lifecycle(Lifecycle::Killed) | Event::Operator(Operator::Removed { .. }) => {
                    excuses.push((place, 1));
                }
                _ => {}
            }
        }
        for ((queue, name), item) in items {
            let Some(dead) = item.dead.filter(|_| !item.is_rejected) else { continue };
            let since = excuses.iter().filter(|(place, _)| *place > item.begun);
            let excused = since.fold(0_usize, |sum, (_, count)| sum.saturating_add(*count));
            if item.taken.len().saturating_add(excused) < self.deliveries {
                let got = item.taken.len();
                let broken =
                    format!("{name} of {queue} became a dead letter after {got} deliveries");
                let records = [&[item.begun][..], &item.taken, &[dead]].concat();
                return Err(Violation::new("put aside", broken, records));
            }
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::checkers::script::{fails, passes};

    const CHECKER: PutAside = PutAside::after(2);

    fn line(event: impl Into<Event>) -> (u64, u32, Event) {
        (0, 1, event.into())
    }

    fn putting() -> (u64, u32, Event) {
        line(Queue::Putting { queue: "q".into(), item: "i".into(), rank: 0 })
    }

    fn taken() -> (u64, u32, Event) {
        line(Queue::Taken { queue: "q".into(), item: "i".into(), attempt: 1 })
    }

    fn dead() -> (u64, u32, Event) {
        line(Queue::Dead { queue: "q".into(), item: "i".into() })
    }

    #[test]
    fn an_undelivered_item_is_found() {
        passes(&CHECKER, [putting(), taken(), taken(), dead()]);
        fails(
            &CHECKER,
            [putting(), taken(), dead()],
            "i of q became a dead letter after 1 deliveries",
            &[0, 1, 2],
        );
        fails(&CHECKER, [putting(), dead()], "after 0 deliveries", &[0, 1]);
        passes(&CHECKER, [putting(), taken()]);
    }

    #[test]
    fn consumers_that_are_lost_are_an_excuse() {
        let unseen = |count| line(Queue::Unseen { queue: "q".into(), count });
        passes(&CHECKER, [putting(), taken(), unseen(1), dead()]);
        passes(&CHECKER, [putting(), unseen(u32::MAX), dead()]);
        passes(&CHECKER, [putting(), taken(), line(Lifecycle::Killed), dead()]);
        fails(&CHECKER, [putting(), unseen(1), dead()], "after 0 deliveries", &[0, 2]);
        // The unseen delivery was before the put of the item.
        fails(&CHECKER, [unseen(1), putting(), taken(), dead()], "after 1 deliveries", &[1, 2, 3]);
    }

    #[test]
    fn item_that_is_rejected_may_have_had_one_delivery() {
        let rejecting = line(Queue::Rejecting { queue: "q".into(), item: "i".into() });
        passes(&CHECKER, [putting(), taken(), rejecting, dead()]);
    }
}
