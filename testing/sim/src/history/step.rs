//! The events for the steps of a [`Recorder`](zk_curator::observe::Recorder).

use zk_curator::observe::Step;

use super::{Event, Hold, Queue};

impl From<Step<'_>> for Event {
    fn from(step: Step<'_>) -> Self {
        match step {
            Step::Acquiring { resource, mode, hold } => {
                Hold::Acquiring { resource: resource.into(), mode, hold }.into()
            }
            Step::Acquired { resource, mode, hold, token } => {
                let (resource, token) = (resource.into(), token.get());
                Hold::Acquired { resource, mode, hold, token }.into()
            }
            Step::Missed { hold } => Hold::Missed { hold }.into(),
            Step::Lost { hold } => Hold::Lost { hold }.into(),
            Step::Releasing { hold } => Hold::Releasing { hold }.into(),
            Step::Released { hold } => Hold::Released { hold }.into(),
            Step::Used { resource, hold, token, outcome } => {
                let (resource, token) = (resource.into(), token.get());
                Hold::Used { resource, hold, token, outcome }.into()
            }
            Step::Putting { queue, item, rank } => {
                Queue::Putting { queue: queue.into(), item: item.into(), rank }.into()
            }
            Step::Put { queue, item, outcome } => {
                Queue::Put { queue: queue.into(), item: item.into(), outcome }.into()
            }
            Step::Taken { queue, item, attempt } => {
                Queue::Taken { queue: queue.into(), item: item.into(), attempt }.into()
            }
            Step::Finishing { queue, item } => {
                Queue::Finishing { queue: queue.into(), item: item.into() }.into()
            }
            Step::Done { queue, item, outcome } => {
                Queue::Done { queue: queue.into(), item: item.into(), outcome }.into()
            }
            Step::Returned { queue, item } => {
                Queue::Returned { queue: queue.into(), item: item.into() }.into()
            }
            Step::Dead { queue, item } => {
                Queue::Dead { queue: queue.into(), item: item.into() }.into()
            }
            // A note, or a step that a later version adds.
            other => Self::Note { text: other.to_string() },
        }
    }
}

#[cfg(test)]
mod tests {
    use zk_curator::FencingToken;
    use zk_curator::observe::{HoldMode, Outcome, Step, UseOutcome};

    use crate::Event;

    #[test]
    fn steps_are_events_of_the_same_meaning() {
        let (resource, queue, item, hold) = ("orders", "mails", "m", 7);
        let (mode, token) = (HoldMode::Leader, FencingToken::new(0x1f));
        let (outcome, sure) = (UseOutcome::Accepted(3), Outcome::Sure);
        for (step, text) in [
            (Step::Acquiring { resource, mode, hold }, "acquires orders (leader), #7"),
            (
                Step::Acquired { resource, mode, hold, token },
                "holds orders (leader), #7, token 0x1f",
            ),
            (Step::Missed { hold }, "has not acquired #7"),
            (Step::Lost { hold }, "has lost #7"),
            (Step::Releasing { hold }, "releases #7"),
            (Step::Released { hold }, "has released #7"),
            (
                Step::Used { resource, hold, token, outcome },
                "uses orders, #7, token 0x1f: accepted as use 3",
            ),
            (Step::Putting { queue, item, rank: 0 }, "puts m into mails"),
            (Step::Put { queue, item, outcome: Outcome::Unknown }, "has put m into mails: unknown"),
            (Step::Taken { queue, item, attempt: 2 }, "takes m from mails, delivery 2"),
            (Step::Finishing { queue, item }, "is about to remove m from mails"),
            (Step::Done { queue, item, outcome: sure }, "has processed m of mails: done"),
            (Step::Returned { queue, item }, "returns m to mails"),
            (Step::Dead { queue, item }, "makes m of mails a dead letter"),
            (Step::Note { text: "a note" }, "a note"),
        ] {
            assert_eq!(Event::from(step).to_string(), text);
        }
    }
}
