//! What the clients of a run did and saw, in order: a [`History`].
//!
//! A workload writes down what it believes, as [`Event`]s: that it waits for a lock, that it has it, that it uses what
//! the lock protects. Whatever injects faults writes down what it did to whom. The
//! [checkers](crate::checkers) read nothing else.
//!
//! # What to write down, and when
//! * An `…ing` **before** the call whose effect it announces, everything else **after** the answer. A call that is
//!   cancelled or fails in the middle has an announcement and no more; where the difference matters, there is an event
//!   that says so ([`Missed`](Event::Missed), [`Outcome::Unknown`]).
//! * The belief to hold something begins with [`Acquired`](Event::Acquired) and ends with the first of
//!   [`Lost`](Event::Lost), [`Releasing`](Event::Releasing) and the end of the process. [`Released`](Event::Released)
//!   is written only when the server has confirmed that it was held until then.
//! * Numbers of holds and calls are unique in the whole history.
//!
//! Printed, a history is a timeline with one line a record, the same for the same history, byte for byte:
//! ```
//! use std::time::Duration;
//!
//! use zk_curator_sim::{Event, History, history::{Mode, ProcessId, ResourceUse}};
//!
//! let orders = || "orders".into();
//! let mut history = History::new();
//! let mut at_ms = |ms, event| history.record(Duration::from_millis(ms), ProcessId::client(1), event);
//! at_ms(5, Event::Acquiring { resource: orders(), mode: Mode::Exclusive, hold: 7 });
//! at_ms(9, Event::Acquired { resource: orders(), mode: Mode::Exclusive, hold: 7, token: 0x1f });
//! at_ms(12, Event::Used { resource: orders(), hold: 7, token: 0x1f, outcome: ResourceUse::Accepted(1) });
//! at_ms(14, Event::Releasing { hold: 7 });
//!
//! let timeline = [
//!     "    0     0.005000  c1     acquires orders (exclusive), #7",
//!     "    1     0.009000  c1     holds orders (exclusive), #7, token 0x1f",
//!     "    2     0.012000  c1     uses orders, #7, token 0x1f: accepted as use 1",
//!     "    3     0.014000  c1     releases #7",
//! ];
//! assert!(history.to_string().lines().eq(timeline));
//! ```

mod cache;
mod names;

use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use serde::{Deserialize, Serialize};

pub use cache::{CacheStep, Look, News, NodeState, Nodes};

/// What clients and servers did and saw, in the order in which it was written down.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct History {
    records: Vec<Record>,
}

/// One line of a [`History`].
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct Record {
    /// When, since the start of the run: simulated time, or real.
    pub at: Duration,
    /// Whose it is.
    pub who: ProcessId,
    /// What.
    pub event: Event,
}

/// Whose record it is, or to whom it happened.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[non_exhaustive]
pub enum ProcessId {
    /// The servers, the network, whoever injects faults.
    World,
    /// A process.
    Client {
        /// Which one.
        number: u32,
        /// How often it was started anew: zero at first, one more after each [`Event::Killed`].
        incarnation: u32,
    },
}

impl ProcessId {
    /// The client with this number, in its first life.
    #[must_use]
    pub const fn client(number: u32) -> Self {
        Self::Client { number, incarnation: 0 }
    }
}

impl fmt::Display for ProcessId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::World => f.pad("-"),
            Self::Client { number, incarnation: 0 } => f.pad(&format!("c{number}")),
            Self::Client { number, incarnation } => f.pad(&format!("c{number}.{incarnation}")),
        }
    }
}

/// A name of something: a resource, a queue, an item, a transaction. Cheap to clone; made of a string with `into()`.
pub type Name = Arc<str>;

/// As what something is held.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[non_exhaustive]
pub enum Mode {
    /// Alone: a mutex, or a lock for writing.
    Exclusive,
    /// Together with others in the same mode: a lock for reading.
    Shared,
    /// One of at most so many: a semaphore.
    Lease,
    /// As the leader.
    Leader,
}

impl fmt::Display for Mode {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Exclusive => "exclusive",
            Self::Shared => "shared",
            Self::Lease => "lease",
            Self::Leader => "leader",
        })
    }
}

/// What a protected resource did with a use of it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[non_exhaustive]
pub enum ResourceUse {
    /// It took effect, as the one with this place among all accepted uses of the resource: a count of them, or the
    /// version of the znode that was written.
    Accepted(u64),
    /// It was refused and had no effect: the token was too old.
    Refused,
}

/// What a client knows of the effect of a request.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[non_exhaustive]
pub enum Outcome {
    /// It took effect.
    Sure,
    /// It may have taken effect, or may still.
    Unknown,
    /// It had no effect and will have none.
    Failed,
}

impl fmt::Display for Outcome {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Sure => "done",
            Self::Unknown => "nobody knows",
            Self::Failed => "failed",
        })
    }
}

/// What is asked of a shared object, such as a counter.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[non_exhaustive]
pub enum Operation {
    /// Its value: answered with [`Answer::Value`].
    Get,
    /// Replaces the value: answered with [`Answer::Done`].
    Set(i64),
    /// Adds to the value: answered with the new [`Answer::Value`].
    Add(i64),
    /// Replaces the value if it is the expected one: answered with [`Answer::Done`] or [`Answer::Differs`].
    CompareAndSet {
        /// The value that it should have.
        expected: i64,
        /// The one that it gets.
        new: i64,
    },
}

impl fmt::Display for Operation {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Get => f.write_str("get"),
            Self::Set(value) => write!(f, "set {value}"),
            Self::Add(value) => write!(f, "add {value}"),
            Self::CompareAndSet { expected, new } => write!(f, "set {new} if it is {expected}"),
        }
    }
}

/// What a shared object answered.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[non_exhaustive]
pub enum Answer {
    /// This value.
    Value(i64),
    /// It was done.
    Done,
    /// It was not done, for the value is another one.
    Differs,
    /// It had no effect and will have none.
    Failed,
    /// It may have taken effect, or may still: an answer was lost.
    Unknown,
}

impl fmt::Display for Answer {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Value(value) => write!(f, "{value}"),
            Self::Done => f.write_str("done"),
            Self::Differs => f.write_str("another value"),
            Self::Failed => f.write_str("failed"),
            Self::Unknown => f.write_str("nobody knows"),
        }
    }
}

/// Why an answer is [unknown](Answer::Unknown).
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[non_exhaustive]
pub enum Doubt {
    /// The session ended between the call and its answer.
    SessionEnded,
    /// The deadline of the operation passed.
    Deadline,
    /// The caller has dropped its future.
    Cancelled,
    /// It was called without a proof that outlasts a lost reply.
    Unproven,
    /// None of these.
    Unexplained,
}

impl fmt::Display for Doubt {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::SessionEnded => "the session has ended",
            Self::Deadline => "the deadline has passed",
            Self::Cancelled => "it was cancelled",
            Self::Unproven => "there is no receipt",
            Self::Unexplained => "no reason",
        })
    }
}

/// What happened.
///
/// `hold` is the number of one attempt to hold something and of what comes of it, `id` that of one call.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[non_exhaustive]
pub enum Event {
    /// The process runs.
    Started,
    /// The process was stopped: nothing in it runs, its connections stay (SIGSTOP).
    Paused,
    /// The process goes on (SIGCONT).
    Resumed,
    /// The process has ended without a word (SIGKILL).
    Killed,
    /// Its session was ended by an act on the server, before its time: the process cannot know yet.
    Expired,
    /// The process has done all that it had to do.
    Finished,

    /// Begins to acquire.
    Acquiring {
        /// What.
        resource: Name,
        /// As what.
        mode: Mode,
        /// The number of this attempt.
        hold: u64,
    },
    /// Holds what it wanted, and believes so until [`Lost`](Self::Lost), [`Releasing`](Self::Releasing) or the end.
    Acquired {
        /// What.
        resource: Name,
        /// As what.
        mode: Mode,
        /// The number of this attempt.
        hold: u64,
        /// The fencing token.
        token: i64,
    },
    /// An attempt that has ended with nothing held: given up, cancelled, failed.
    Missed {
        /// Which attempt.
        hold: u64,
    },
    /// Has learnt that it does not hold it any more.
    Lost {
        /// What.
        hold: u64,
    },
    /// Lets go, or drops what it holds.
    Releasing {
        /// What.
        hold: u64,
    },
    /// The server has confirmed that it was held until it was released.
    Released {
        /// What.
        hold: u64,
    },
    /// The hold is a node of this name that was created before its fencing token was issued: a writer became a reader.
    Node {
        /// What.
        hold: u64,
        /// The last component of its path, which is unique.
        name: Name,
    },
    /// Somebody begins to take by force what an attempt has come to, or waits for.
    Seized {
        /// From which attempt.
        hold: u64,
    },
    /// What the lock protects was used.
    Used {
        /// What.
        resource: Name,
        /// On the strength of what.
        hold: u64,
        /// The token that went with it.
        token: i64,
        /// What the resource did.
        outcome: ResourceUse,
    },

    /// Begins to put an item into a queue.
    Putting {
        /// Where.
        queue: Name,
        /// Unique in the history, unless the [checker](crate::checkers::Delivery::equals) knows of items that are equal. An
        /// item that has an id has the name `id`, or `id#number` where ids are used again.
        item: Name,
        /// Items with a lower rank come first: a priority, or a time. The same for all where there are none.
        rank: i64,
    },
    /// Has put an item into a queue, or not.
    Put {
        /// Where.
        queue: Name,
        /// Which one.
        item: Name,
        /// Whether it is there.
        outcome: Outcome,
    },
    /// Begins to wait for an item, of a queue where that can keep items from others for a while. Ends with the next
    /// [`Taken`](Self::Taken) or [`Untaken`](Self::Untaken) of the same client.
    Taking {
        /// From where.
        queue: Name,
        /// How many it claims at a time, from one: the first is handed out, the others by the next calls.
        ahead: u32,
        /// How long an item can be claimed yet after it was given up, or its owner has died.
        linger: Duration,
    },
    /// Does not wait any more, and may have kept items from others that it has not got: it has given up, was refused, or its
    /// session has changed meanwhile. The next attempt can get what was claimed.
    Untaken {
        /// From where.
        queue: Name,
    },
    /// Has got an item to work on. Of a queue that gives items out by removing them, `Taken` and
    /// [`Done`](Self::Done) are one after the other.
    Taken {
        /// From where.
        queue: Name,
        /// Which one.
        item: Name,
        /// Which delivery of this item it is by what the queue says, from one.
        attempt: u32,
    },
    /// Has worked off an item, and is about to remove it from the queue. What comes of it, [`Done`](Self::Done) by the same
    /// client says; who is killed before cannot tell.
    Finishing {
        /// From where.
        queue: Name,
        /// Which one.
        item: Name,
    },
    /// An item was worked off, and is to be gone from the queue.
    Done {
        /// From where.
        queue: Name,
        /// Which one.
        item: Name,
        /// Whether it is gone, and whatever goes with it in a transaction is done.
        outcome: Outcome,
    },
    /// Gives an item back, for others; written before they can see it.
    Returned {
        /// To where.
        queue: Name,
        /// Which one.
        item: Name,
    },
    /// An item was put aside, for it failed too often.
    Dead {
        /// Of which queue.
        queue: Name,
        /// Which one.
        item: Name,
    },

    /// An item was refused, because there is another one with its id. Comes between [`Putting`](Self::Putting) and
    /// [`Put`](Self::Put) of the same client.
    Refused {
        /// By which queue.
        queue: Name,
        /// Which one.
        item: Name,
    },

    /// Begins to remove items of a queue by their id, whoever has them.
    Withdrawing {
        /// From where.
        queue: Name,
        /// Their id.
        id: Name,
    },
    /// Has removed items of a queue by their id.
    Withdrawn {
        /// From where.
        queue: Name,
        /// Their id.
        id: Name,
        /// How many: exactly if that is [sure](Outcome::Sure), at most if it is unknown.
        count: u32,
        /// Whether they are gone.
        outcome: Outcome,
    },
    /// There was nothing with this id at some moment since the same client last began to [withdraw](Self::Withdrawing) it, or to
    /// [work off](Self::Finishing) an item with it: because that one surely has deleted what there was.
    Vacant {
        /// Of which queue.
        queue: Name,
        /// The id.
        id: Name,
    },

    /// Comes to a barrier and waits for the others.
    Entering {
        /// Which one.
        barrier: Name,
        /// As whom.
        member: Name,
        /// The how manieth use of the barrier.
        round: u32,
    },
    /// Has passed the entrance.
    Entered {
        /// Which one.
        barrier: Name,
        /// As whom.
        member: Name,
        /// The how manieth use of the barrier.
        round: u32,
    },
    /// Comes to the exit and waits for the others.
    Leaving {
        /// Which one.
        barrier: Name,
        /// As whom.
        member: Name,
        /// The how manieth use of the barrier.
        round: u32,
    },
    /// Has passed the exit.
    Left {
        /// Which one.
        barrier: Name,
        /// As whom.
        member: Name,
        /// The how manieth use of the barrier.
        round: u32,
    },
    /// Has given up, or was refused, at the entrance or at the exit.
    Withdrew {
        /// Which one.
        barrier: Name,
        /// As whom.
        member: Name,
        /// The how manieth use of the barrier.
        round: u32,
    },

    /// A transaction begins that needs the votes of these sites.
    Proposed {
        /// Which transaction.
        txn: Name,
        /// Whose votes it takes.
        sites: Vec<Name>,
    },
    /// A site has voted in a commit; written before the vote can be seen by others.
    Voted {
        /// Which transaction.
        txn: Name,
        /// Which site.
        site: Name,
        /// For the commit.
        yes: bool,
    },
    /// A site, or the coordinator, has learnt the decision.
    Decided {
        /// Which transaction.
        txn: Name,
        /// Who.
        site: Name,
        /// To commit; to abort otherwise.
        commit: bool,
    },

    /// Begins to look at a transaction, at a path that is used again, in a session that is made to know what was there before.
    Opening {
        /// Which look: unique in the history.
        visit: u64,
    },
    /// Has seen which transaction it is.
    Opened {
        /// Which look.
        visit: u64,
        /// Which transaction.
        txn: Name,
    },
    /// Begins to remove a transaction, or does not know whether it has begun, in which case anybody may remove it.
    Removing {
        /// Which one.
        txn: Name,
    },
    /// Has removed a transaction that was decided, for sure.
    Ended {
        /// Which one.
        txn: Name,
    },
    /// Was told that there is no such transaction, which it had seen.
    Missing {
        /// Which one.
        txn: Name,
    },

    /// Begins to join a group.
    Joining {
        /// Which one.
        group: Name,
        /// As whom: unique in the history, also where one that has left joins again.
        member: Name,
    },
    /// Has left a group: a server has confirmed it.
    Parted {
        /// Which one.
        group: Name,
        /// As whom.
        member: Name,
    },
    /// Has seen who is in a group.
    Viewed {
        /// Which one.
        group: Name,
        /// Those that it has seen.
        members: Vec<Name>,
        /// Whoever has been gone for longer, in a time without faults, cannot be among them.
        lag: Duration,
    },

    /// An operator has deleted a node, and what was below it. What was held by them may be gone from then on, and those who
    /// hold it hear of it later.
    Removed {
        /// The node.
        path: Name,
        /// The transactions that had created them: fencing tokens of those who held something by them.
        tokens: Vec<i64>,
    },
    /// A client has deleted the node of another one, in place of its own, which an operator had deleted after the client had
    /// looked at it: the documented window of nodes with shared names. Written down at the end.
    Overtaken {
        /// The transaction that had created it: the fencing token of its holder.
        token: i64,
    },

    /// Calls a shared object.
    Call {
        /// The number of this call.
        id: u64,
        /// Which object.
        object: Name,
        /// What is asked.
        operation: Operation,
    },
    /// Has the answer to a call.
    Return {
        /// Which call.
        id: u64,
        /// The answer.
        answer: Answer,
    },

    /// The answer to a call is unknown, for this reason. Comes before the [`Return`](Self::Return) of the same client.
    Doubtful {
        /// Which call.
        id: u64,
        /// Why.
        why: Doubt,
    },
    /// Has got a number that nobody else gets.
    Issued {
        /// Of which sequence.
        sequence: Name,
        /// The number.
        number: i64,
    },
    /// Begins to count a key at a shared object that counts each once, or asks for it again.
    Counting {
        /// At which object.
        object: Name,
        /// Which key.
        key: Name,
    },
    /// A key was counted, now or before.
    Counted {
        /// At which object.
        object: Name,
        /// Which key.
        key: Name,
        /// The number of keys that were counted then, this one included.
        number: i64,
    },
    /// Was told the value of a shared object.
    Followed {
        /// Which object.
        object: Name,
        /// Unique in the history.
        follower: u64,
        /// The value.
        value: i64,
        /// The transaction that has written it.
        revision: i64,
    },

    /// Something about a cache.
    Cache {
        /// Unique in the history.
        cache: u64,
        /// The event.
        step: CacheStep,
    },
    /// An answer has shown that a transaction is committed.
    Committed {
        /// The transaction.
        zxid: i64,
    },
    /// A write was answered.
    Wrote {
        /// The node.
        path: Name,
        /// Its state since this write.
        node: NodeState,
    },
    /// A transaction of the servers has changed a node. Written at the end of the run, in the order of the transactions.
    Applied {
        /// The transaction.
        zxid: i64,
        /// The node.
        path: Name,
        /// The transaction that created the node; `None` if it was deleted.
        czxid: Option<i64>,
    },

    /// A fault was injected, or taken back.
    Fault {
        /// Which one.
        text: String,
    },
    /// There will be no more faults: from now on everybody has to get on.
    FaultsOver,
    /// Something for the reader.
    Note {
        /// What.
        text: String,
    },
}

impl fmt::Display for Event {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Started => f.write_str("started"),
            Self::Paused => f.write_str("PAUSED"),
            Self::Resumed => f.write_str("RESUMED"),
            Self::Killed => f.write_str("KILLED"),
            Self::Expired => f.write_str("SESSION EXPIRED"),
            Self::Finished => f.write_str("finished"),
            Self::Acquiring { resource, mode, hold } => write!(f, "acquires {resource} ({mode}), #{hold}"),
            Self::Acquired { resource, mode, hold, token } => {
                write!(f, "holds {resource} ({mode}), #{hold}, token {token:#x}")
            }
            Self::Missed { hold } => write!(f, "misses #{hold}"),
            Self::Lost { hold } => write!(f, "has lost #{hold}"),
            Self::Releasing { hold } => write!(f, "releases #{hold}"),
            Self::Released { hold } => write!(f, "has released #{hold}"),
            Self::Node { hold, name } => write!(f, "holds #{hold} by {name}"),
            Self::Seized { hold } => write!(f, "SEIZES #{hold}"),
            Self::Used { resource, hold, token, outcome } => {
                write!(f, "uses {resource}, #{hold}, token {token:#x}: ")?;
                match outcome {
                    ResourceUse::Accepted(place) => write!(f, "accepted as use {place}"),
                    ResourceUse::Refused => f.write_str("refused"),
                }
            }
            Self::Putting { queue, item, rank: 0 } => write!(f, "puts {item} into {queue}"),
            Self::Putting { queue, item, rank } => write!(f, "puts {item} into {queue}, rank {rank}"),
            Self::Put { queue, item, outcome } => write!(f, "has put {item} into {queue}: {outcome}"),
            Self::Taking { queue, .. } => write!(f, "waits for an item of {queue}"),
            Self::Untaken { queue } => write!(f, "has got no item of {queue}"),
            Self::Taken { queue, item, attempt } => {
                write!(f, "takes {item} from {queue}, delivery {attempt}")
            }
            Self::Finishing { queue, item } => write!(f, "is about to remove {item} from {queue}"),
            Self::Done { queue, item, outcome } => write!(f, "has worked off {item} of {queue}: {outcome}"),
            Self::Returned { queue, item } => write!(f, "gives {item} back to {queue}"),
            Self::Dead { queue, item } => write!(f, "puts {item} of {queue} aside"),
            Self::Refused { queue, item } => {
                write!(f, "{queue} refuses {item}, for there is one with its id")
            }
            Self::Vacant { queue, id } => write!(f, "has deleted what there was of {id} in {queue}"),
            Self::Withdrawing { queue, id } => write!(f, "withdraws {id} from {queue}"),
            Self::Withdrawn { queue, id, count, outcome } => {
                write!(f, "has withdrawn {count} of {id} from {queue}: {outcome}")
            }
            Self::Entering { barrier, member, round } => {
                write!(f, "{member} comes to the entrance of {barrier}, round {round}")
            }
            Self::Entered { barrier, member, round } => {
                write!(f, "{member} has entered {barrier}, round {round}")
            }
            Self::Leaving { barrier, member, round } => {
                write!(f, "{member} comes to the exit of {barrier}, round {round}")
            }
            Self::Left { barrier, member, round } => write!(f, "{member} has left {barrier}, round {round}"),
            Self::Withdrew { barrier, member, round } => {
                write!(f, "{member} gives up {barrier}, round {round}")
            }
            Self::Proposed { txn, sites } => write!(f, "proposes {txn} to {}", sites.join(", ")),
            Self::Voted { txn, site, yes } => {
                write!(f, "{site} votes {} on {txn}", if *yes { "yes" } else { "no" })
            }
            Self::Decided { txn, site, commit } => {
                write!(f, "{site} sees {txn} {}", if *commit { "committed" } else { "aborted" })
            }
            Self::Opening { visit } => write!(f, "looks at a transaction, @{visit}"),
            Self::Opened { visit, txn } => write!(f, "sees that it is {txn}, @{visit}"),
            Self::Removing { txn } => write!(f, "is about to remove {txn}"),
            Self::Ended { txn } => write!(f, "has removed {txn}"),
            Self::Missing { txn } => write!(f, "misses {txn}"),
            Self::Joining { group, member } => write!(f, "joins {group} as {member}"),
            Self::Parted { group, member } => write!(f, "has left {group}, as {member}"),
            Self::Viewed { group, members, lag } => {
                write!(f, "sees in {group}, within {lag:?}: {}", members.join(", "))
            }
            Self::Removed { path, tokens } => {
                write!(f, "AN OPERATOR DELETES {path}, of")?;
                tokens.iter().try_for_each(|token| write!(f, " {token:#x}"))
            }
            Self::Overtaken { token } => write!(f, "WAS DELETED IN PLACE OF ANOTHER: {token:#x}"),
            Self::Call { id, object, operation } => write!(f, "calls {object}: {operation}, @{id}"),
            Self::Return { id, answer } => write!(f, "is answered: {answer}, @{id}"),
            Self::Doubtful { id, why } => write!(f, "cannot know the answer: {why}, @{id}"),
            Self::Issued { sequence, number } => write!(f, "gets {number} of {sequence}"),
            Self::Counting { object, key } => write!(f, "counts {key} at {object}"),
            Self::Counted { object, key, number } => {
                write!(f, "has counted {key} at {object}: number {number}")
            }
            Self::Followed { object, follower, value, revision } => {
                write!(f, "follower {follower} is told {object}: {value}, of {revision:#x}")
            }
            Self::Cache { cache, step } => write!(f, "cache {cache} {step}"),
            Self::Committed { zxid } => write!(f, "knows that {zxid:#x} is committed"),
            Self::Wrote { path, node } => write!(f, "has written {path}: {node}"),
            Self::Applied { zxid, path, czxid: None } => write!(f, "{zxid:#x} deleted {path}"),
            Self::Applied { zxid, path, czxid: Some(czxid) } if czxid == zxid => {
                write!(f, "{zxid:#x} created {path}")
            }
            Self::Applied { zxid, path, czxid: Some(czxid) } => {
                write!(f, "{zxid:#x} set the data of {path}, {czxid:#x}")
            }
            Self::Fault { text } => write!(f, "FAULT: {text}"),
            Self::FaultsOver => f.write_str("NO MORE FAULTS"),
            Self::Note { text } => f.write_str(text),
        }
    }
}

impl History {
    /// No records yet.
    #[must_use]
    pub const fn new() -> Self {
        Self { records: Vec::new() }
    }

    /// Adds a record. Time does not go back: one that is earlier than the last gets the time of the last.
    pub fn record(&mut self, at: Duration, who: ProcessId, event: Event) {
        let at = self.records.last().map_or(at, |last| last.at.max(at));
        self.records.push(Record { at, who, event });
    }

    /// What is written down, in this order. Violations name records by their place here.
    #[must_use]
    pub fn records(&self) -> &[Record] {
        &self.records
    }

    /// The lines of some records only, in the order given: those of a violation, for example.
    #[must_use]
    pub fn excerpt(&self, places: &[usize]) -> String {
        let line = |&place: &usize| self.records.get(place).map(|record| Line(place, record).to_string());
        places.iter().filter_map(line).collect()
    }
}

/// A record and its place.
struct Line<'a>(usize, &'a Record);

impl fmt::Display for Line<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self(place, Record { at, who, event }) = self;
        writeln!(f, "{place:>5} {:>5}.{:06}  {who:<6} {event}", at.as_secs(), at.subsec_micros())
    }
}

impl fmt::Display for History {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.records.iter().enumerate().try_for_each(|(place, record)| Line(place, record).fmt(f))
    }
}
