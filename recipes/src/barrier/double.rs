use std::future::IntoFuture;

use bytes::Bytes;
use futures_util::future::join;
use tracing::debug;
use zk_curator::op::{CreateOp, SetDataOp, Transaction, fan_out};
use zk_curator::path::ZPath;
use zk_curator::watch::Watch;
use zk_curator::{CreateMode, CuratorFramework, ErrorCode, ErrorKind, OwnedNode};

use super::ready::{BarrierSite, Ready};
use super::rules::{self, EntryStep, MEMBER, READY, ReadyMeaning};
use super::{Error, RoundPlace};
use crate::participant::{Participant, participants_at};

/// The number of requests in flight while the ages of members are read.
const FAN_OUT: usize = 64;

/// Lets a number of members begin a round of work together, and end it together, round after round.
///
/// # Layout
/// ```text
/// /barriers/sort                           container, made on first use; its version counts our rounds
///   ├─ _c_<uuid>-member-0000000007         ephemeral, sequential: a member, in one round; data: its label
///   ├─ _c_<uuid>-member-0000000008         another one
///   └─ ready                               persistent, from the beginning of a round to its end; data: the names of
///                                          its members, a line each, below "members of the round:"
/// ```
/// The layout of Apache Curator's `DistributedDoubleBarrier`, to which names and data mean nothing:
/// Java and Rust can be members of one barrier. Every child but `ready` is a member.
///
/// # Protocol
/// The double barrier of
/// [ZooKeeper's recipes](https://zookeeper.apache.org/doc/current/recipes.html#sc_doubleBarriers),
/// with a `ready` that says whose round it is. To enter:
/// 1. Create a node, list the members, and watch for `ready`, in one round trip.
/// 2. The member that completes the number creates `ready`, in a transaction that checks that all
///    members exist.
/// 3. When `ready` exists, read it, with a watch for its end. Continue if it contains our name.
///
/// A member that waits also watches its own node. If a third party deletes it before the round
/// begins, go to 1.
///
/// To leave:
///
/// 4. The lowest member waits until the highest is gone, lists the members that are left, and so
///    on, until it is alone. Then it deletes `ready` and its own node, in one transaction.
/// 5. Every other one watches the lowest, and deletes its own node.
/// 6. When `ready` is gone, the round is over. When only the lowest is, it has died: list who is
///    left, and wait for the lowest of those.
///
/// For n members, a round is about 7n requests and 4n notifications at the server, and at most six
/// round trips if all arrive at the same time.
///
/// # Guarantees
/// * [`enter`](Self::enter) returns only after all members of a round were in the barrier at
///   the same time.
/// * [`leave`](RoundPlace::leave) succeeds only after every member of the round has begun to leave,
///   or has died.
/// * Rounds follow each other without a pause: a member that has left may enter immediately.
///   Otherwise Curator's members hang, or pass too early, because they distinguish rounds only by
///   the number of members.
/// * More than there can be are refused.
///
/// # Assumptions
/// * All members say the same number. Only members write here.
/// * Members may write the barrier's own node: the beginning of a round empties its data, so that
///   its version counts rounds.
/// * A member that dies counts until its session is over; it does not block members that leave, and
///   another one may take its place in the next round.
/// * Where Java takes part, rounds have to be apart: see above.
///
/// # Connection loss
/// * SUSPENDED: members keep waiting.
/// * LOST: [`Error::Lost`], also while the member waits to enter: the round may have begun, and be
///   over, without it. It may enter again.
/// * RECONNECTED in the same session: nothing has happened to the nodes; watches fire for missed
///   changes.
///
/// # Cancel safety
/// Every future may be dropped at any point: no node of a member stays behind. When all members of
/// a round die, or drop it, `ready` stays, until the next one enters.
///
/// # Example
/// ```
/// # #[tokio::main(flavor = "current_thread")] async fn main() -> Result<(), Box<dyn std::error::Error>> {
/// # let server = zk_curator_testing::TestServer::start().await;
/// # let zk = zk_curator::CuratorFramework::builder().connect_string(server.connect_string()).build()?;
/// # zk.start().await?;
/// use zk_curator_recipes::barrier::DistributedDoubleBarrier;
///
/// let barrier = DistributedDoubleBarrier::new(&zk, "/barriers/sort", 2);
/// let member = || async {
///     let round = barrier.enter().await?; // both are here
///     round.leave().await // both are done
/// };
/// let (one, two) = tokio::join!(member(), member());
/// one?;
/// two?;
/// # zk.close().await?;
/// # Ok(()) }
/// ```
#[derive(Debug, Clone)]
pub struct DistributedDoubleBarrier {
    zk: CuratorFramework,
    path: String,
    members: usize,
    label: Bytes,
}

impl DistributedDoubleBarrier {
    /// The barrier at a path, for `members` members. Nothing is sent; a path that is not valid, and
    /// a number that is zero, are refused when the barrier is used.
    ///
    /// The transaction that begins a round has a check for every member: with the default limit of
    /// a request, which is 1 MiB, there can be about five thousand.
    pub fn new(zk: &CuratorFramework, path: impl Into<String>, members: usize) -> Self {
        Self { zk: zk.uncompressed(), path: path.into(), members, label: Bytes::new() }
    }

    /// The data of our nodes, which operators can read. Default: none.
    #[must_use]
    pub fn label(mut self, label: impl Into<Bytes>) -> Self {
        self.label = label.into();
        self
    }

    /// The path of the barrier.
    #[must_use]
    pub fn path(&self) -> &str {
        &self.path
    }

    /// The number of members of a round.
    #[must_use]
    pub const fn members(&self) -> usize {
        self.members
    }

    /// Waits, without a time limit, until all members are in the barrier. With a limit, put it in
    /// [`tokio::time::timeout`]; [`participants`](Self::participants) then says who is there.
    ///
    /// # Errors
    /// After any error, our node goes away.
    /// * [`Error::OverSubscribed`] when the barrier is full without us, before the round or in it.
    /// * [`Error::Lost`] when our session has ended, or our node was deleted while the connection
    ///   was interrupted: a round may have begun with us, and be over.
    /// * [`Error::NoMembers`] when the barrier is for none.
    /// * [`Error::Framework`], as for a create, a read or a transaction. An adapter that has no
    ///   transactions cannot be a member.
    ///
    /// # Cancel safety
    /// Dropping the future deletes our node in the background. If the round has already begun, the
    /// other members treat this one as dead.
    pub async fn enter(&self) -> Result<RoundPlace, Error> {
        if self.members == 0 {
            return Err(Error::NoMembers { path: self.path.clone() });
        }
        let path = ZPath::for_operation("enter", self.path.as_str())?;
        let place = BarrierSite { zk: self.zk.clone(), path };
        let session = self.zk.session();
        // On the heap, for futures of callers that are small.
        let mut me = Box::pin(Entrant::arrive(self, place.clone())).await?; // 1
        loop {
            // If the response to a create is lost, and then the session, the next one has another
            // node: the round may have begun with the first.
            let owner = me.node.stat().ephemeral_owner;
            if session.is_some_and(|session| session.id.get() != owner) || !me.node.is_ours() {
                return Err(me.lost().await);
            }
            let ready = if me.may_have_begun {
                me.place.read_ready().await? // 3
            } else {
                match rules::entry(&me.children, me.node.name(), self.members) {
                    EntryStep::Begin(members) => Box::pin(me.begin(&members)).await?, // 2
                    EntryStep::Wait => {
                        if me.wait().await? == Waited::Disturbed && me.node.is_ours() {
                            me.look().await?;
                        }
                        continue;
                    }
                    // A third party has deleted our node. No round has begun with it, and none can
                    // any more: start again.
                    EntryStep::Vanished if me.saw_no_round() => {
                        debug!(
                            path = me.node.path(),
                            "the node was deleted before the round; entering again"
                        );
                        me = Box::pin(Entrant::arrive(self, place.clone())).await?;
                        continue;
                    }
                    EntryStep::Vanished => return Err(me.lost().await),
                    EntryStep::Refused => return Err(self.refusal()),
                }
            };
            let Some(ready) = ready else {
                me.look().await?;
                continue;
            };
            match me.standing(&ready).await? {
                ReadyMeaning::Member if me.node.is_ours() => {
                    return Ok(RoundPlace::new(me.place, me.node, ready, me.own));
                }
                ReadyMeaning::Member => return Err(me.lost().await),
                ReadyMeaning::Underway => return Err(self.refusal()),
                ReadyMeaning::Over | ReadyMeaning::Unsaid => {
                    Box::pin(me.place.sweep(ready.began.czxid)).await?;
                    me.look().await?;
                }
            }
        }
    }

    /// Returns the members in the barrier, according to the connected server, in the order in which
    /// they have entered. Before a round, others are missing; in a round, these have not left it.
    /// Their [labels](Self::label) tell who they are.
    ///
    /// Use it when [`enter`](Self::enter) or [`leave`](RoundPlace::leave) has taken too long. A
    /// future that was dropped deletes its own node in the background, so this client may still be
    /// among them for a moment. One listing, and one read a member.
    ///
    /// # Errors
    /// [`Error::Framework`], as for every read.
    ///
    /// # Cancel safety
    /// Nothing is changed.
    pub async fn participants(&self) -> Result<Vec<Participant>, Error> {
        let (place, children) = self.look("participants").await?;
        let names = children.iter().filter(|name| *name != READY);
        let paths = names.map(|name| place.child(name)).collect();
        Ok(participants_at(&place.zk, paths).await?)
    }

    /// Returns the number of members that the next round waits for, according to the connected
    /// server; 0 if a round has begun. A client whose [`enter`](Self::enter) was just dropped may
    /// still count as present. One listing.
    ///
    /// # Errors
    /// [`Error::Framework`], as for every read.
    ///
    /// # Cancel safety
    /// Nothing is changed.
    pub async fn missing(&self) -> Result<usize, Error> {
        let (_, children) = self.look("missing").await?;
        Ok(if has_begun(&children) { 0 } else { self.members.saturating_sub(children.len()) })
    }

    async fn look(&self, operation: &'static str) -> Result<(BarrierSite, Vec<String>), Error> {
        let path = ZPath::for_operation(operation, self.path.as_str())?;
        let place = BarrierSite { zk: self.zk.clone(), path };
        let children = place.children().await?;
        Ok((place, children))
    }

    fn refusal(&self) -> Error {
        Error::OverSubscribed { path: self.path.clone(), members: self.members }
    }
}

/// A member that is about to enter. Dropping it removes its node.
struct Entrant {
    place: BarrierSite,
    node: OwnedNode,
    children: Vec<String>,
    /// `true` if the node `ready` may be there.
    may_have_begun: bool,
    /// Fires when it is created.
    beginning: Watch,
    /// [`ConnectionStatus::epoch`](zk_curator::ConnectionStatus::epoch) before the node was
    /// created. While it is unchanged, events arrive in the order of the changes, so a round that
    /// began with our node was seen.
    since: u64,
    /// `true` if `ready` was seen, or may have been there, since our node was created.
    seen_ready: bool,
    /// Fires when our node is deleted; left while we wait.
    own: Option<Watch>,
}

/// Why a wait for the beginning of a round ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Waited {
    /// The round may have begun.
    Begun,
    /// Something has happened to our node, or its session is over.
    Disturbed,
}

impl Entrant {
    /// Creates the node, lists the members, and watches for the beginning of the round, in one
    /// round trip.
    async fn arrive(barrier: &DistributedDoubleBarrier, place: BarrierSite) -> Result<Self, Error> {
        let create = place
            .zk
            .create(place.child(MEMBER))
            .mode(CreateMode::EphemeralSequential)
            .creating_parents_as_containers()
            .protected()
            .data(barrier.label.clone())
            .owned_with_siblings();
        let watched = place.zk.exists(place.ready()).watched();
        let since = place.zk.status().epoch;
        let (created, seen) = join(create.into_future(), watched.into_future()).await;
        let ((node, children), seen) = (created?, seen?);
        let may_have_begun = has_begun(&children) || seen.value.is_some();
        let beginning = seen.watch;
        Ok(Self {
            place,
            node,
            children,
            may_have_begun,
            beginning,
            since,
            seen_ready: may_have_begun,
            own: None,
        })
    }

    /// Returns `true` if no round has begun with our node, which is gone.
    fn saw_no_round(&self) -> bool {
        !self.seen_ready && self.place.zk.status().epoch == self.since
    }

    /// Makes sure that the node is gone. The client may have given its session up before the server
    /// does; it must not count in addition to the node that we may come back with.
    async fn lost(self) -> Error {
        let Self { place, node, .. } = self;
        let gone = place.zk.delete(node.path()).quietly();
        drop(node);
        if let Err(error) = gone.await {
            debug!(%error, "the node of a lost session may be there for as long as the session");
        }
        place.loss()
    }

    /// Lists the members again, and watches for the beginning of the round.
    async fn look(&mut self) -> Result<(), Error> {
        let watched = self.place.zk.exists(self.place.ready()).watched();
        let (seen, children) = join(watched.into_future(), self.place.children()).await;
        let (seen, children) = (seen?, children?);
        self.may_have_begun = has_begun(&children) || seen.value.is_some();
        self.seen_ready |= self.may_have_begun;
        (self.children, self.beginning) = (children, seen.watch);
        Ok(())
    }

    /// Waits until the round may have begun, or our node is gone.
    async fn wait(&mut self) -> Result<Waited, Error> {
        if self.own.is_none() {
            self.own = self.place.watch(self.node.name()).await?;
        }
        let session_lost = self.node.ownership().session_lost();
        let own = async {
            // No client writes to our node; an event other than its deletion causes another look,
            // too.
            if let Some(own) = &mut self.own {
                drop(own.await);
            }
        };
        let waited = tokio::select! {
            biased;
            // First: if the round began with our node, and that was deleted since, both have
            // happened.
            _ = &mut self.beginning => Waited::Begun,
            () = session_lost => Waited::Disturbed,
            () = own => Waited::Disturbed,
        };
        if waited == Waited::Disturbed {
            self.own = None;
        }
        self.may_have_begun = waited == Waited::Begun;
        self.seen_ready |= self.may_have_begun;
        Ok(waited)
    }

    /// Begins the round with these members, all of which must exist, and reads the result, in one
    /// round trip: another member may have begun it.
    async fn begin(&self, members: &[&str]) -> Result<Option<Ready>, Error> {
        let ready = CreateOp::new(self.place.ready()).data(rules::encode(members)).uncompressed();
        let others = members.iter().filter(|name| **name != self.node.name());
        let check =
            |transaction: Transaction, name: &&str| transaction.check(self.place.child(name), None);
        let transaction = others.fold(self.node.ownership().fenced(), check).with(ready);
        // A new version of the barrier for every round: see `BarrierSite::sweep`.
        let barrier = SetDataOp::new(self.place.path.as_str(), "").uncompressed();
        let transaction = transaction.with(barrier);
        let (begun, ready) = join(transaction.into_future(), self.place.read_ready()).await;
        match begun {
            Ok(_) => Ok(ready?),
            // The response to the read, or to the next one, shows the outcome.
            Err(unknown) if unknown.may_have_applied() => Ok(ready.map_err(|_| unknown)?),
            Err(error) if error.kind() == ErrorKind::OwnershipLost => Ok(ready?),
            // A member has gone, or the round has begun already.
            Err(error)
                if matches!(error.code(), Some(ErrorCode::NoNode | ErrorCode::NodeExists)) =>
            {
                Ok(ready?)
            }
            Err(error) => Err(error.into()),
        }
    }

    /// Returns the meaning of the node `ready` for us.
    async fn standing(&mut self, ready: &Ready) -> Result<ReadyMeaning, Error> {
        let began = &ready.began;
        let own = self.node.stat().czxid;
        let standing = began.standing(self.node.name(), own, &[]);
        if standing == ReadyMeaning::Member {
            return Ok(standing);
        }
        self.children = self.place.children().await?;
        let standing = began.standing(self.node.name(), own, &self.children);
        if standing != ReadyMeaning::Unsaid {
            return Ok(standing);
        }
        let mut others = self.children.clone();
        others.retain(|name| name != READY && name != self.node.name());
        let reads: Vec<_> =
            others.iter().map(|name| self.place.zk.exists(self.place.child(name))).collect();
        let ages = fan_out(FAN_OUT, reads).await;
        for age in ages {
            if age?.is_some_and(|stat| stat.czxid < began.czxid) {
                return Ok(ReadyMeaning::Underway);
            }
        }
        Ok(ReadyMeaning::Unsaid)
    }
}

fn has_begun(children: &[String]) -> bool {
    children.iter().any(|name| name == READY)
}
