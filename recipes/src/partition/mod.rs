//! A set of parts that the members of a group divide: each part has one owner.
//!
//! For shards, queues and topics that N workers share, while workers come and go. There is no
//! leader and no stored assignment: every member computes the same one.
//!
//! # Layout
//! ```text
//! /shards/orders                           container, made on first use
//!   ├─ list                                persistent: the names of the parts, if they are shared
//!   ├─ members                             container
//!   │    └─ w-7                            ephemeral: a member; data: its weight, its zone and the versions that it knows
//!   └─ parts                               container
//!        └─ s0                             container: the lock of a part
//!             └─ _c_<uuid>-lock-0000000007 ephemeral, sequential: the owner of the part; data: its id
//! ```
//! With [`with_kazoo`](SetPartitioner::with_kazoo), that of kazoo's `SetPartitioner`:
//! ```text
//! /shards/orders
//!   ├─ party
//!   │    └─ <32 hex digits>-w-7            ephemeral: a member; data: its id
//!   └─ locks
//!        └─ s0
//!             └─ <32 hex digits>__lock__0000000007, or _c_<uuid>-__lock__0000000007
//! ```
//!
//! # Protocol
//! 1. A member keeps its node in existence, and follows the nodes of the others.
//! 2. When members or parts have changed and [`settle`](SetPartitioner::settle) has passed, it
//!    assigns the parts by *bounded rendezvous*: each part goes to the member that is closest by a
//!    hash of the two names, among the members with room. The room of a member is its share by
//!    weight, rounded up, and a tenth of the share, rounded down.
//! 3. It acts on the differences only. For a part that was assigned to it, it acquires the
//!    [lock](crate::lock::InterProcessMutex) of the part, which waits for the present owner. Then
//!    the body begins.
//! 4. A part that is assigned to another member is revoked: its body ends within the time to
//!    [drain](SetPartitioner::drain), or is dropped. Then the lock is released, and the next owner
//!    begins.
//! 5. A member that [stops](crate::Run::until) revokes all its parts, and leaves the group
//!    after it has released the last one.
//!
//! A change of members costs a follower two requests. Acquiring a part costs three (in two round
//! trips), giving it up one. A part that stays costs none.
//!
//! # Guarantees
//! * A part has at most one owner whose lock node exists: if a [`fenced`](Partition::fenced)
//!   transaction succeeds, no other member owns the part. [Fencing
//!   tokens](Partition::fencing_token) grow from owner to owner.
//! * A body is dropped before the lock of its part is released.
//! * Members that see the same members and parts assign the same. If nothing changes any more,
//!   every part is owned by the member that it is assigned to, after `settle`, `leave_delay`, and
//!   the time that bodies need to end.
//! * A member that joins changes few other owners. With ten members and 1,000 parts, an eleventh
//!   moves 95 parts in the mean, and at most 110 in the tests. The others are not touched.
//! * Members that come and go all the time hold up no part that is not assigned to them.
//!
//! # Assumptions
//! * All members have the same parts, or [share](SetPartitioner::shared_parts) them. A part that
//!   only some members know is owned by at most one of these, or by none.
//! * Ids are different. The second member with an id waits until the first is gone.
//! * Only members write here. A lock node that is deleted ends the ownership of its part, and its
//!   body is dropped.
//!
//! # Connection loss
//! * SUSPENDED: parts are kept, and bodies continue, unless
//!   [`stop_when_suspended`](SetPartitioner::stop_when_suspended) is set. Changes are not seen.
//! * LOST: all bodies are dropped. The member joins again in the next session, and acquires the
//!   parts that are assigned to it then.
//! * RECONNECTED in the same session: changes in between are seen as one.
//!
//! # Cancel safety
//! Dropping the future of [`run`](SetPartitioner::run) drops the bodies, releases the parts and
//! leaves the group in the background.
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
//! use std::time::Duration;
//! use zk_curator_recipes::Shutdown;
//! use zk_curator_recipes::partition::{Partition, SetPartitioner};
//!
//! let shards = SetPartitioner::new(&zk, "/shards/orders", ["s0", "s1", "s2"]).id("w-7");
//! let shards = shards.settle(Duration::from_millis(50));
//!
//! let stop = Shutdown::new();
//! let body = |part: Partition| {
//!     let stop = stop.clone();
//!     async move {
//!         println!("works on {} with {}", part.name(), part.fencing_token());
//! #       if part.name() == "s2" { stop.begin(); }
//!         // Until another member is to have it.
//!         part.revoked().await;
//!         Ok::<_, std::io::Error>(())
//!     }
//! };
//! shards.run(body).until(stop.clone()).await?;
//! assert!(shards.view().await?.members.is_empty());
//! # zk.close().await?;
//! # Ok(()) }
//! ```

mod assign;
mod error;
mod follow;
mod held;
mod kazoo;
mod machine;
mod part;
mod partitioner;
pub(crate) mod record;
mod run;
pub(crate) mod site;
mod view;

pub use error::Error;
pub use follow::{OwnedPartition, PartitionEvent, PartitionWatch};
pub use held::Partition;
pub use part::Part;
pub use partitioner::SetPartitioner;
pub use view::{MemberView, PartView, PartitionView};
