//! Events of queues.

use std::fmt;
use std::time::Duration;

use serde::{Deserialize, Serialize};
use zk_curator::observe::Outcome;

use super::name::Name;

/// An event of an item, or of a consumer of a queue.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[non_exhaustive]
pub enum Queue {
    /// The client begins to put an item into a queue.
    Putting {
        /// The queue.
        queue: Name,
        /// The name of the item. It is unique in the history, unless the
        /// [checker](crate::checkers::Delivery::equals) knows of equal items. An item with an id
        /// has the name `id`, or `id#number` where ids are used repeatedly.
        item: Name,
        /// The rank: a priority, or a time. Items with a lower rank come first. The same for all
        /// items of a queue without ranks.
        rank: i64,
    },
    /// The client has finished putting an item into a queue.
    Put {
        /// The queue.
        queue: Name,
        /// The item.
        item: Name,
        /// [`Outcome::Sure`] if the item is in the queue.
        outcome: Outcome,
    },
    /// The client begins to wait for an item, of a queue where waiting can keep items from other
    /// clients. The wait ends with the next [`Taken`](Self::Taken) or [`Untaken`](Self::Untaken) of
    /// the same client.
    Taking {
        /// The queue.
        queue: Name,
        /// The number of items that it claims at a time, at least 1. The first one is delivered,
        /// the others by the next calls.
        ahead: u32,
        /// The time for which an item may still be claimed after the wait ended, or its owner died.
        linger: Duration,
    },
    /// The client no longer waits, and may have kept items from other clients without getting them:
    /// it gave up, was refused, or its session changed. The next attempt can get the claimed items.
    Untaken {
        /// The queue.
        queue: Name,
    },
    /// The client has got an item to work on. If a queue delivers an item by removing it,
    /// [`Done`](Self::Done) follows `Taken` directly.
    Taken {
        /// The queue.
        queue: Name,
        /// The item.
        item: Name,
        /// The number of the delivery of this item according to the queue, from 1.
        attempt: u32,
    },
    /// The client has processed an item, and is about to remove it from the queue.
    /// [`Done`](Self::Done) by the same client tells the outcome. If the client is killed first,
    /// the outcome is unknown.
    Finishing {
        /// The queue.
        queue: Name,
        /// The item.
        item: Name,
    },
    /// The client has processed an item and removed it from the queue.
    Done {
        /// The queue.
        queue: Name,
        /// The item.
        item: Name,
        /// [`Outcome::Sure`] if the item is gone, and the rest of its transaction is applied.
        outcome: Outcome,
    },
    /// The client returns an item to the queue. Recorded before other clients can see it.
    Returned {
        /// The queue.
        queue: Name,
        /// The item.
        item: Name,
    },
    /// Up to `count` deliveries may have been counted that no client received: a consumer was
    /// dropped while it claimed an item, its claim returned an error, or the connection has changed
    /// since the last record of the same client.
    Unseen {
        /// The queue.
        queue: Name,
        /// The maximum number, for one item.
        count: u32,
    },
    /// The client is about to move an item to the dead letters, regardless of the number of its
    /// deliveries.
    Rejecting {
        /// The queue.
        queue: Name,
        /// The item.
        item: Name,
    },
    /// An item became a dead letter, because it failed too often.
    Dead {
        /// The queue.
        queue: Name,
        /// The item.
        item: Name,
    },
    /// An item was refused, because the queue has another one with its id. Comes between
    /// [`Putting`](Self::Putting) and [`Put`](Self::Put) of the same client.
    Refused {
        /// The queue.
        queue: Name,
        /// The item.
        item: Name,
    },
    /// The client begins to remove items of a queue by their id. They may belong to any client.
    Withdrawing {
        /// The queue.
        queue: Name,
        /// The id of the items.
        id: Name,
    },
    /// The client has removed items of a queue by their id.
    Withdrawn {
        /// The queue.
        queue: Name,
        /// The id of the items.
        id: Name,
        /// The number of removed items: exact if `outcome` is [`Outcome::Sure`], the maximum if it
        /// is unknown.
        count: u32,
        /// [`Outcome::Sure`] if the items are gone.
        outcome: Outcome,
    },
    /// The queue had no item with this id at some moment since the same client last began to
    /// [withdraw](Self::Withdrawing) the id, or to [finish](Self::Finishing) an item with it. The
    /// client knows this because its delete was confirmed.
    Vacant {
        /// The queue.
        queue: Name,
        /// The id.
        id: Name,
    },
}

names! { Queue:
    Putting "putting", Put "put", Taking "taking", Untaken "untaken", Taken "taken",
    Finishing "finishing", Done "done", Returned "returned", Unseen "unseen", Rejecting "rejecting",
    Dead "dead", Refused "refused", Withdrawing "withdrawing", Withdrawn "withdrawn",
    Vacant "vacant",
}

impl fmt::Display for Queue {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Putting { queue, item, rank: 0 } => write!(f, "puts {item} into {queue}"),
            Self::Putting { queue, item, rank } => {
                write!(f, "puts {item} into {queue}, rank {rank}")
            }
            Self::Put { queue, item, outcome } => {
                write!(f, "has put {item} into {queue}: {outcome}")
            }
            Self::Taking { queue, .. } => write!(f, "waits for an item of {queue}"),
            Self::Untaken { queue } => write!(f, "has received no item of {queue}"),
            Self::Taken { queue, item, attempt } => {
                write!(f, "takes {item} from {queue}, delivery {attempt}")
            }
            Self::Finishing { queue, item } => write!(f, "is about to remove {item} from {queue}"),
            Self::Done { queue, item, outcome } => {
                write!(f, "has processed {item} of {queue}: {outcome}")
            }
            Self::Returned { queue, item } => write!(f, "returns {item} to {queue}"),
            Self::Unseen { queue, count } => {
                write!(f, "may have missed {count} counted deliveries of {queue}")
            }
            Self::Rejecting { queue, item } => write!(f, "is about to reject {item} of {queue}"),
            Self::Dead { queue, item } => write!(f, "makes {item} of {queue} a dead letter"),
            Self::Refused { queue, item } => {
                write!(f, "{queue} refuses {item}, because it has an item with its id")
            }
            Self::Withdrawing { queue, id } => write!(f, "withdraws {id} from {queue}"),
            Self::Withdrawn { queue, id, count, outcome } => {
                write!(f, "has withdrawn {count} of {id} from {queue}: {outcome}")
            }
            Self::Vacant { queue, id } => {
                write!(f, "has deleted every item of {id} in {queue}")
            }
        }
    }
}
