//! Jobs that workers claim, execute and complete. Each claim and each end of a claim is a checked
//! transaction.
//!
//! # Layout
//! ```text
//! /jobs                                                persistent, as are all nodes below unless noted
//!   ├─ all
//!   │    └─ <id>                                           data: the job; exists as long as the job is known
//!   ├─ pending                                         data: `buckets 1`
//!   │    └─ b-100000000|0000000003                        sequential: a bucket, as of a LockingQueue
//!   │         └─ job-100000000|<id>|<attempts>|0000000007     sequential at first: its number is its place
//!   ├─ executing
//!   │    └─ <uuid>                                         an attempt: data: the job, the session, the worker
//!   ├─ leases
//!   │    └─ <uuid>                                         ephemeral: the claim of the worker with that attempt; data: its name, or `-`
//!   ├─ later
//!   │    └─ <time>|<uuid>                                  a delayed job: the time at which it is pending again, in milliseconds since 1970, and
//!   │                                                      its last attempt; data: the name of its place, the reason of the failure
//!   ├─ done                                            data: `buckets 1`
//!   │    └─ b|<hash>                                       a bucket, one of 1,024, by the id
//!   │         └─ <id>                                          data: the result
//!   ├─ failed                                          the same
//!   │    └─ b|<hash>
//!   │         └─ <id>                                          data: the number of attempts, and the reason of the last failure
//!   ├─ ids                                             submissions under way, as of a FifoQueue
//!   ├─ _r_<uuid>                                       ephemeral: a receipt of a worker that settles jobs
//!   ├─ line                                            container: workers that wait for a job
//!   └─ cleaner                                         container: the election of the cleaner
//! ```
//!
//! # Protocol
//! 1. Submit: in one transaction, create the job, its place among the pending jobs, and a node with
//!    an id, as a [`FifoQueue`](super::FifoQueue) does.
//! 2. Claim: create the claim, a node with a unique name; in one transaction, check the claim, delete the
//!    place among the pending jobs, and create the attempt; read the job. All three in one round
//!    trip.
//! 3. Complete: in one [certain](zk_curator::certain) transaction, check the claim, delete it,
//!    delete the attempt, and keep the result or delete the job. Release or fail: the same, and
//!    create the job again at its old place among the pending jobs, or among the failed ones. Fail
//!    for a time: the same, and create it among the delayed jobs.
//! 4. Clean: the workers elect one of them to search for attempts without a claim. In one
//!    transaction it creates and deletes the claim, which proves that there is none, deletes the
//!    attempt, and creates the job again at its old place, or among the failed jobs if that was its
//!    last attempt.
//! 5. Bring back: when the time of a delayed job has come, the cleaner deletes it there and creates
//!    it again at its old place, in one transaction.
//! 6. Forget: once a minute the cleaner lists the kept results of done and failed jobs. It deletes
//!    those beyond the [limits](Jobs::keep_done), from the oldest, each job with its result in one
//!    transaction.
//!
//! After its submission, a job costs four requests and two round trips.
//!
//! # Guarantees
//! * At any moment a submitted job has exactly one state: pending, executing, delayed, done or
//!   failed. No two jobs have the same id. The newest 10,000 done jobs and the newest 10,000 failed
//!   jobs are kept, unless [set otherwise](Jobs::keep_done).
//! * A worker that has lost its claim, because its session ended or another client deleted it, can
//!   neither complete nor fail the job ([`Error::Lost`](super::Error::Lost)), no matter how long it
//!   was paused. Use the [fencing token](crate::queue::Delivery::fencing_token), which grows with
//!   every attempt, to reject its late writes to other systems.
//! * A job is not taken from a worker whose session is alive. After the end of the session, the
//!   cleaner makes the job pending again, and another worker claims it in its turn.
//! * Jobs are claimed in the order of their [priority](Submission::priority), and with equal
//!   priority in the order of their submission. A job that becomes pending again has its old place.
//!   A worker sees it with its next listing: it first processes its current list, of at most 10,000
//!   jobs.
//! * No name is used twice, even if the whole tree is deleted and created again.
//!
//! # Assumptions
//! Only users of these jobs write here. The time at which the [execution](JobState::Executing) of a
//! job began is from the servers' clock, and is only informative. The clocks of the worker that has
//! failed and of the cleaner decide when a delayed job is pending again. The clocks of the cleaner
//! and of the servers decide which jobs are too old to be kept. Earlier versions of this crate do
//! not make delayed jobs pending; these jobs wait until a newer cleaner is elected.
//!
//! # Access control
//! New nodes get the ACL of the framework's [provider](zk_curator::acl::AclProvider). Every user of
//! the jobs needs permission to read all nodes, and these permissions:
//!
//! | node | producers | workers and cleaners |
//! |---|---|---|
//! | `/jobs` | – | create, delete: receipts |
//! | `all` | create; delete, to cancel and to forget | delete |
//! | `pending` | create, write: buckets | create, delete: buckets |
//! | a bucket of it | create, write; delete, to cancel | create, delete, write |
//! | `executing`, `leases` | – | create, delete |
//! | `later` | delete, to cancel | create, delete |
//! | `done`, `failed` | – | create: buckets |
//! | a bucket of these | delete, to forget and to retry | create; delete, of results that are not kept |
//! | `ids` | create, delete, write | – |
//! | `line`, `cleaner` | – | create, delete |
//!
//! The first user of the jobs creates these nodes, for which it needs permission to create children
//! of `/jobs`. Workers always need this permission, because they check for the nodes by creating
//! them. If a permission is missing, an [`Error::Framework`](super::Error::Framework) has the kind
//! `NoAuth` and a path. Without permission to create children of `/jobs`, completing a job fails
//! with the path of the receipt, `/jobs/_r_<uuid>`, and the job is released.
//!
//! # Connection loss
//! * SUSPENDED: workers keep their jobs.
//! * LOST: the claims end with the session, [`Delivery::lost`](crate::queue::Delivery::lost)
//!   resolves, and the cleaner makes the jobs pending again.
//!
//! # Example
//! ```
//! # #[tokio::main(flavor = "current_thread")] async fn main() -> Result<(), Box<dyn std::error::Error>> {
//! # let server = zk_curator_testing::TestServer::start().await;
//! # let zk = zk_curator::CuratorFramework::builder().connect_string(server.connect_string()).build()?;
//! # zk.start().await?;
//! use zk_curator_recipes::queue::jobs::{JobState, Jobs};
//!
//! let jobs = Jobs::new(&zk, "/jobs").max_attempts(3);
//! let id = jobs.submit("resize cat.png").await?;
//!
//! let mut worker = jobs.worker("worker-1");
//! let job = worker.next().await?;
//! assert_eq!((job.data(), job.attempt()), (&"resize cat.png".into(), 1));
//! let listed = jobs.get(&id).await?.unwrap();
//! assert!(matches!(&listed.state, JobState::Executing { worker, .. } if worker == "worker-1"));
//! assert_eq!(jobs.counts().await?.executing, 1);
//! job.complete_with("cat-small.png").await?;
//!
//! assert_eq!(jobs.result(&id).await?.unwrap(), "cat-small.png");
//! jobs.forget(&id).await?;
//! # drop(worker);
//! # zk.close().await?;
//! # Ok(()) }
//! ```

mod cleaner;
mod handle;
mod inspect;
mod job;
mod kept;
pub(crate) mod later;
mod list;
mod listing;
mod phase;
mod places;
pub(crate) mod record;
mod retention;
mod worker;

pub use handle::{Jobs, Submission};
pub use inspect::{JobCounts, JobInfo, JobState};
pub use job::{Claimed, JobDelivery, JobTask, JobWorker};
pub use list::{JobList, JobPage};
pub use phase::JobPhase;
pub use retention::Retention;
