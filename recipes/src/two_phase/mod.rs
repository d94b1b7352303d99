//! Two-phase commit: several sites do something together, or none of them does.
//!
//! # Layout
//! ```text
//! /transactions                     container, made on first use
//!   └─ order-17                     persistent: the transaction; version 0 until it is decided, then 1
//!        ├─ _t_1f0c52a0-…           its identity: a name that no other transaction has
//!        ├─ orders                  the site "orders": empty at version 0, then its vote `commit` or `abort`, then `done`
//!        └─ stock                   the same of "stock"
//! ```
//! The data of the transaction node are lines of text, an empty line, and the unchanged payload:
//! ```text
//! two-phase commit 2
//! state preparing                   or `committed`, `aborted`
//! form coordinated                  or `symmetric`, `ephemeral`
//! deadline_ms 60000
//! id 1f0c52a0-…                     that of the identity
//! site orders                       one line for each, in the order of the coordinator
//! site stock
//! ```
//! In the forms `symmetric` and `coordinated` the coordinator creates the nodes of the sites,
//! persistent; in `ephemeral` each site creates its own with its vote, ephemeral, until it is done:
//! then a persistent one takes its place.
//!
//! Every write, and the removal, checks the identity in the same transaction of ZooKeeper. So a
//! late party never votes in, decides or removes a later transaction at the same path; it gets
//! [`Gone`](Error::Gone). While a transaction begins, an ephemeral [receipt](zk_curator::certain)
//! is beside it.
//!
//! # Protocol
//! [ZooKeeper's
//! recipe](https://zookeeper.apache.org/doc/current/recipes.html#sc_recipes_twoPhasedCommit), in
//! the three forms it describes ([`Form`]):
//! 1. The coordinator creates the node of the transaction, its identity and, but for `ephemeral`,
//!    the nodes of the sites: all in one [certain](zk_curator::certain) transaction of ZooKeeper,
//!    which is never applied twice.
//! 2. A site casts its vote to commit in a transaction that checks version 0 of the transaction
//!    node and of its own. So it votes once, and not after the decision.
//! 3. A site casts its vote to abort in a transaction that writes the decision, `aborted`, too: one
//!    vote to abort is enough.
//! 4. If all votes exist, and there was no decision after the last one was seen, all of them are to
//!    commit. `coordinated`: the coordinator writes `committed` at version 0. `ephemeral`: the
//!    same, in a transaction that also checks that the node of every site is still there.
//!    `symmetric`: every site that has seen it knows; nothing needs to be written. The coordinator
//!    does, for later readers.
//! 5. A party that finds the deadline passed and a vote missing writes `aborted` at version 0;
//!    `symmetric`: together with a check that the missing vote is still missing. So does the
//!    coordinator when an ephemeral vote is gone.
//! 6. Sites that have carried out the decision write `done`. When all are, the coordinator, or
//!    [`sweep`], removes all nodes in one transaction.
//!
//! The messages of a commit, counted at a server from the begin until all sites know, when all have
//! joined before the first vote and vote one after another; requests and notifications:
//!
//! | sites | `symmetric` | `coordinated` | `ephemeral` |
//! |---|---|---|---|
//! | 3 | 34 and 12 | 16 and 7 | 18 and 7 |
//! | 10 | 167 and 110 | 44 and 21 | 46 and 21 |
//! | 50 | 2764 and 2600 | 204 and 101 | 206 and 101 |
//!
//! Of n sites that is `(n + 1)²` reads and about as many notifications, and `4n + 4` and `4n + 6`
//! requests and `2n + 1` notifications.
//!
//! # Guarantees
//! * Atomic: all sites that learn the outcome learn the same one, forever.
//! * Valid: it is [`Committed`](Outcome::Committed) only if every site has voted to commit; it is
//!   if all have, and in time.
//! * It ends: at the deadline at the latest, if any party that waits for it is alive. Any number of
//!   new coordinators can replace a crashed one ([`Coordinator::resume`]). They can only complete
//!   the outcome that the nodes determine.
//!
//! The rules are pure functions; a test tries every order of every step of three sites, with stale
//! reads, crashes, lost requests and lost replies everywhere.
//!
//! # Assumptions
//! * A site is one process at a time, and can keep its promise to commit across a crash: it writes
//!   all needed data to disk before it votes.
//! * No other client writes to the nodes. Deadlines are counted by each party for itself; clocks
//!   need not agree.
//! * All nodes are written in one request at the beginning, and removed in one at the end, so
//!   payload and names of the sites have to fit into one, which is 1 MiB on servers that are not
//!   configured otherwise.
//!
//! # Connection loss
//! * SUSPENDED: waiters keep waiting. Writes whose response is lost are resolved by
//!   reading.
//! * LOST: the same, but for the votes of the form `ephemeral`: the transaction is aborted unless
//!   it was decided before.
//!
//! # Cancel safety
//! Every future may be dropped at any point. Nothing is left behind except on purpose: the
//! transaction, and the votes that were cast.
//!
//! # Errors
//! [`Error`].
//!
//! # Example
//! ```
//! # #[tokio::main(flavor = "current_thread")] async fn main() -> Result<(), Box<dyn std::error::Error>> {
//! # let server = zk_curator_testing::TestServer::start().await;
//! # let zk = zk_curator::CuratorFramework::builder().connect_string(server.connect_string()).build()?;
//! # zk.start().await?;
//! use zk_curator_recipes::two_phase::{Coordinator, Outcome, Site, Vote};
//!
//! let path = "/transactions/order-17";
//! let mut coordinator = Coordinator::begin(&zk, path, ["orders", "stock"], "3 of article 7").await?;
//!
//! // Elsewhere:
//! let mut orders = Site::join(&zk, path, "orders").await?;
//! let mut stock = Site::join(&zk, path, "stock").await?;
//! assert_eq!(orders.payload(), "3 of article 7");
//! orders.vote(Vote::Commit).await?;
//! stock.vote(Vote::Commit).await?;
//!
//! assert_eq!(coordinator.outcome().await?, Outcome::Committed);
//! for mut site in [orders, stock] {
//!     assert_eq!(site.outcome().await?, Outcome::Committed);
//!     // … carry it out, then:
//!     site.acknowledge().await?;
//! }
//! coordinator.clean_up().await?;
//! # zk.close().await?;
//! # Ok(()) }
//! ```

mod coordinator;
mod inspect;
mod machine;
#[cfg(test)]
mod protocol_model;
pub(crate) mod record;
mod settle;
mod site;
mod sweep;

pub use coordinator::{Begin, Coordinator};
pub(crate) use inspect::state_of;
pub use inspect::{SiteState, TransactionInspection, inspect};
pub use site::Site;
pub use sweep::{Sweep, sweep};

/// The data of the node of a site that has acknowledged the decision.
const DONE: &[u8] = b"done";

/// The three forms of ZooKeeper's recipe.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default)]
#[expect(clippy::exhaustive_enums, reason = "the recipe has three")]
pub enum Form {
    /// Every site watches the votes of all sites. No site waits for a coordinator, but the number
    /// of messages grows with the square of the number of sites.
    Symmetric,
    /// The coordinator watches the votes and writes the decision; sites watch only that.
    #[default]
    Coordinated,
    /// As [`Coordinated`](Self::Coordinated), but the votes are ephemeral nodes of the sites: the
    /// death of a site that has voted, before the decision, is seen as an abort.
    Ephemeral,
}

impl Form {
    const ALL: [Self; 3] = [Self::Symmetric, Self::Coordinated, Self::Ephemeral];

    const fn name(self) -> &'static str {
        match self {
            Self::Symmetric => "symmetric",
            Self::Coordinated => "coordinated",
            Self::Ephemeral => "ephemeral",
        }
    }
}

/// The vote of a site.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
#[expect(clippy::exhaustive_enums, reason = "there is nothing in between")]
pub enum Vote {
    /// It promises to do its part.
    Commit,
    /// It cannot, or will not.
    Abort,
}

impl Vote {
    const fn text(self) -> &'static [u8] {
        match self {
            Self::Commit => b"commit",
            Self::Abort => b"abort",
        }
    }

    fn parse(data: &[u8]) -> Option<Self> {
        [Self::Commit, Self::Abort].into_iter().find(|vote| vote.text() == data)
    }
}

/// The decision.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
#[expect(clippy::exhaustive_enums, reason = "there is nothing in between")]
pub enum Outcome {
    /// All sites do their parts.
    Committed,
    /// None does.
    Aborted,
}

impl Error {
    /// The error of an operation that has sent a transaction before, whose outcome was not learned:
    /// what fails afterwards, such as a read, would say that nothing was applied.
    fn or_unknown(self, unknown: Option<&zk_curator::Error>) -> Self {
        match (self, unknown.filter(|unknown| unknown.may_have_applied())) {
            (Self::Framework(_), Some(unknown)) => unknown.clone().into(),
            (error, _) => error,
        }
    }
}

/// The reason why a party could not continue.
#[non_exhaustive]
#[derive(Debug, Clone, thiserror::Error)]
pub enum Error {
    /// There is a node at the path of a transaction that was to begin.
    #[error("there is already a node at {path}")]
    Exists {
        /// The path.
        path: String,
    },
    /// The transaction does not exist yet, or no longer exists.
    #[error("there is no transaction at {path}")]
    Gone {
        /// The path.
        path: String,
    },
    /// The data of the node do not describe a transaction.
    #[error("the node {path} is not a transaction")]
    NotATransaction {
        /// The path.
        path: String,
    },
    /// The transaction does not know this site.
    #[error("{site:?} is not a site of the transaction {path}")]
    NotASite {
        /// The path of the transaction.
        path: String,
        /// The site.
        site: String,
    },
    /// It was decided before the vote.
    #[error("the transaction {path} is already decided: {outcome:?}")]
    Late {
        /// The path of the transaction.
        path: String,
        /// The decision.
        outcome: Outcome,
    },
    /// The site has voted otherwise.
    #[error("this site of the transaction {path} has already voted: {vote:?}")]
    AlreadyCast {
        /// The path of the transaction.
        path: String,
        /// Its vote.
        vote: Vote,
    },
    /// Nothing is decided yet.
    #[error("the transaction {path} is not decided")]
    Undecided {
        /// The path of the transaction.
        path: String,
    },
    /// A transaction was to begin without sites.
    #[error("the transaction {path} has no sites")]
    NoSites {
        /// The path of the transaction.
        path: String,
    },
    /// A site is given twice.
    #[error("the transaction {path} has the site {site:?} twice")]
    Duplicate {
        /// The path of the transaction.
        path: String,
        /// Its name.
        site: String,
    },
    /// The name of a site cannot be the name of a node.
    #[error("{site:?} is not a valid name for a site of the transaction {path}")]
    InvalidSite {
        /// The path of the transaction.
        path: String,
        /// The name.
        site: String,
    },
    /// An operation failed.
    #[error(transparent)]
    Framework(#[from] zk_curator::Error),
}

crate::failure::classify!(Error, retryable: [Self::Undecided { .. }], unknown: []);
