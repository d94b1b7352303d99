use bytes::Bytes;
use zk_curator::op::Transaction;
use zk_curator::watch::Watch;
use zk_curator::{CuratorFramework, ErrorKind, FencingToken, OwnedNode};

use super::leadership::TermLog;
use super::queue::{CandidateQueue, withdraw};
use super::{Error, Leadership, Observer, Proclaimed, tag};
use crate::contender::Contender;
use crate::measure::Candidacy;

/// An election in the style of etcd: the leader publishes a value, which all other clients can
/// observe. Cheap to clone.
///
/// # Layout
/// ```text
/// /services/orders                         container, made by the first candidate
///   ├─ _c_<uuid>-election-0000000007       ephemeral, sequential: the leader; data: its value
///   └─ _c_<uuid>-election-0000000009       waits for …0007, with a getData watch; data: the value that it will publish
/// ```
///
/// # Protocol
/// * campaign: as of [`LeaderLatch`](super::LeaderLatch), with the value as the data of the node.
///   So it is published when the turn comes, without another request.
/// * proclaim: replace the data of the own node.
/// * resign: delete it.
/// * observe: watch the node that is first: see [`Observer`].
///
/// There is no task: a candidate that has not won waits in the future of
/// [`campaign`](Self::campaign), and the leader has an [`Elected`].
///
/// # Guarantees, assumptions
/// As of [`LeaderLatch`](super::LeaderLatch). A value is never seen that its leader has not
/// campaigned with or proclaimed, and the fencing tokens that an observer sees grow.
///
/// # Connection loss
/// See [the table](super#when-leadership-ends). An [`Elected`] whose term has ended has to campaign
/// again.
///
/// # Cancel safety
/// A campaign that is dropped leaves the election in the background.
///
/// # Example
/// ```
/// # #[tokio::main(flavor = "current_thread")] async fn main() -> Result<(), Box<dyn std::error::Error>> {
/// # let server = zk_curator_testing::TestServer::start().await;
/// # let zk = zk_curator::CuratorFramework::builder().connect_string(server.connect_string()).build()?;
/// # zk.start().await?;
/// use zk_curator_recipes::leader::Election;
///
/// let election = Election::new(&zk, "/services/orders");
/// let mut observer = election.observe();
/// assert_eq!(observer.next().await?, None);
///
/// let mut elected = election.campaign("10.0.0.1:80").await?;
/// assert_eq!(observer.next().await?.unwrap().value, "10.0.0.1:80");
/// elected.proclaim("10.0.0.1:8080").await?;
/// assert_eq!(election.leader().await?.unwrap().value, "10.0.0.1:8080");
/// elected.resign().await?;
/// # zk.close().await?;
/// # Ok(()) }
/// ```
#[derive(Debug, Clone)]
pub struct Election {
    queue: CandidateQueue,
}

impl Election {
    /// The election at a path. Nothing is sent; a path that is not valid is refused when it is
    /// used.
    pub fn new(zk: &CuratorFramework, path: impl Into<String>) -> Self {
        Self { queue: CandidateQueue::new(zk, path, tag::ELECTION, "election") }
    }

    /// Takes part in the election of kazoo's `Election`, which needs no settings for it: names our
    /// nodes as kazoo does, `_c_<uuid>-__lock__<number>`, and waits for kazoo's, and for nodes with
    /// the name by default as well. All Rust candidates have to set it; Java candidates cannot.
    ///
    /// The parent is a persistent node, and not a container. Values are what
    /// kazoo's `contenders()` returns, as UTF-8. See also
    /// [`InterProcessMutex::with_kazoo`](crate::lock::InterProcessMutex::with_kazoo).
    #[must_use]
    pub fn with_kazoo(mut self) -> Self {
        self.queue = self.queue.with_kazoo();
        self
    }

    /// The path of the election.
    #[must_use]
    pub fn path(&self) -> &str {
        &self.queue.path
    }

    /// Waits until we lead, with `value`, however long it takes. Compose with
    /// `tokio::time::timeout`.
    ///
    /// Every campaign is a candidate of its own: a second one, through the same framework as well,
    /// waits until the first has resigned. A leader publishes another value with
    /// [`Elected::proclaim`]. (etcd's second campaign of one session proclaims instead; here two
    /// parts of a process that share a session do not lead at the same time.)
    ///
    /// # Errors
    /// [`Error::Framework`] when the path is not valid, or an operation fails for longer than the
    /// retry policy allows. Nothing stays behind.
    ///
    /// # Cancel safety
    /// Dropping the future leaves the election in the background.
    pub async fn campaign(&self, value: impl Into<Bytes>) -> Result<Elected, Error> {
        let CandidateQueue { zk, rule, .. } = &self.queue;
        let (parent, value) = (self.queue.parent("campaign")?, value.into());
        let candidacy = self.queue.candidacy();
        loop {
            let contender = Contender::enter(zk, &parent, rule, &value).await?.turn().await?;
            let (node, kept) = contender.into_parts();
            if let Some((leadership, watch)) = Leadership::begin(zk, &node, kept).await? {
                let told = TermLog::begin(&leadership, self.queue.recipe);
                return Ok(Elected {
                    zk: zk.clone(),
                    node,
                    leadership,
                    _watch: watch,
                    told,
                    _candidacy: candidacy,
                });
            }
        }
    }

    /// Returns the leader and its value; `None` if there is no leader. The first candidate leads,
    /// or will lead as soon as it learns that it is first.
    ///
    /// # Errors
    /// [`Error::Framework`] as every read of the framework.
    ///
    /// # Cancel safety
    /// Nothing is changed.
    pub async fn leader(&self) -> Result<Option<Proclaimed>, Error> {
        Ok(self.queue.leader().await?.map(Proclaimed::from))
    }

    /// Follows the leader and its value, among the candidates of an `Election`. Those of a
    /// [`LeaderLatch`](super::LeaderLatch) or a [`LeaderSelector`](super::LeaderSelector) are
    /// followed by [`LeaderLatch::observe`](super::LeaderLatch::observe) and
    /// [`LeaderSelector::observe`](super::LeaderSelector::observe); an observer that finds such
    /// candidates here logs a warning. Nothing is sent before the first [`Observer::next`], which
    /// refuses an invalid path.
    #[must_use]
    pub fn observe(&self) -> Observer {
        Observer::new(&self.queue.zk, self.path(), self.queue.tag)
    }
}

/// Leads in an [`Election`].
///
/// # Cancel safety
/// Dropping it resigns in the background.
#[derive(Debug)]
#[must_use = "dropping it resigns in the background"]
pub struct Elected {
    /// Ends before the node does.
    told: TermLog,
    zk: CuratorFramework,
    node: OwnedNode,
    leadership: Leadership,
    /// Kept until it fires with the end of the node: to give it up would be a request.
    _watch: Watch,
    _candidacy: Candidacy,
}

impl Elected {
    /// The leadership, without the duty to resign; cheap to clone and to give to tasks.
    #[must_use]
    pub const fn leadership(&self) -> &Leadership {
        &self.leadership
    }

    /// Returns the fencing token, which is higher than the tokens of all earlier leaders.
    #[must_use]
    pub const fn fencing_token(&self) -> FencingToken {
        self.leadership.fencing_token()
    }

    /// Returns `true` if this client knows that it no longer leads: see [`Leadership::is_over`].
    /// Sends nothing.
    #[must_use]
    pub fn is_over(&self) -> bool {
        self.leadership.is_over()
    }

    /// Resolves when this client no longer leads: see [`Leadership::lost`].
    ///
    /// # Cancel safety
    /// Nothing is lost.
    pub async fn lost(&self) {
        self.leadership.lost().await;
    }

    /// Begins a transaction that is only applied while we lead: see [`Leadership::fenced`].
    pub fn fenced(&self) -> Transaction {
        self.leadership.fenced()
    }

    /// Publishes another value: one request.
    ///
    /// # Errors
    /// * [`Error::Lost`] if this client no longer leads.
    /// * [`Error::Framework`] when it cannot be known whether it is published, for example after a
    ///   connection loss for longer than the retry policy allows.
    ///
    /// # Cancel safety
    /// The value may be published or not.
    pub async fn proclaim(&mut self, value: impl Into<Bytes>) -> Result<(), Error> {
        // In the session of the node or not at all: in the next one, a node that the servers have
        // not expired yet could still be written.
        let zk = self.zk.bound_to_session();
        if self.leadership.is_over() {
            return Err(self.loss());
        }
        let zk = zk.map_err(|error| match error.kind() {
            ErrorKind::Closed => Error::Closed { path: self.node.path().to_owned() },
            _ => error.into(),
        })?;
        // Only we write here, so that a repetition does no harm.
        match zk.set_data(self.node.path(), value).idempotent().await {
            Ok(_) => Ok(()),
            // The value may be published.
            Err(error) if error.may_have_applied() => Err(Error::Framework(error)),
            Err(error) if error.kind() == ErrorKind::NoNode || error.is_session_lost() => {
                Err(self.loss())
            }
            Err(error) => Err(error.into()),
        }
    }

    fn loss(&self) -> Error {
        Error::Lost { path: self.node.path().to_owned() }
    }

    /// Resigns, and waits for the response.
    ///
    /// # Errors
    /// [`Error::Framework`] when the servers do not let us delete our node, for example for
    /// `NoAuth`. It is not an error if they cannot be reached: after the time that the retry policy
    /// allows, the janitor continues, and
    /// [`wait_until_released`](CuratorFramework::wait_until_released) waits until the node is gone.
    ///
    /// # Cancel safety
    /// The leader resigns in any case.
    pub async fn resign(self) -> Result<(), Error> {
        let Self { node, told, .. } = self;
        drop(told);
        withdraw(node).await
    }
}
