//! Jobs that workers claim, execute and complete, each claim and each end of it a checked transaction.
//!
//! # Layout
//! ```text
//! /jobs                                                persistent, as all below that is not said to be otherwise
//!   ├─ all
//!   │    └─ <id>                                           data: the job; there as long as anything is known of it
//!   ├─ pending                                         data: `buckets 1`
//!   │    └─ b-100000000|0000000003                        sequential: a bucket, as of a LockingQueue
//!   │         └─ job-100000000|<id>|<attempts>|0000000007     sequential at first: its number is its place
//!   ├─ executing
//!   │    └─ <uuid>                                         an attempt: data: the job, the session, the worker
//!   ├─ leases
//!   │    └─ <uuid>                                         ephemeral: of the worker with that attempt; data: its name, or `-`
//!   ├─ later
//!   │    └─ <time>|<uuid>                                  a delayed job: when it is pending again, in milliseconds since 1970, and
//!   │                                                      its last attempt; data: the name of its place, why it has failed
//!   ├─ done                                            data: `buckets 1`
//!   │    └─ b|<hash>                                       a bucket, one of 1,024, by the id
//!   │         └─ <id>                                          data: the result
//!   ├─ failed                                          the same
//!   │    └─ b|<hash>
//!   │         └─ <id>                                          data: how often it was tried, and why it failed at last
//!   ├─ ids                                             submissions under way, as of a FifoQueue
//!   ├─ _r_<uuid>                                       ephemeral: a receipt of a worker that settles jobs
//!   ├─ line                                            container: workers that wait for a job
//!   └─ cleaner                                         container: the election of the cleaner
//! ```
//!
//! Pending jobs, results and failures are found as well where an earlier version of this crate has put them, without buckets.
//!
//! # Protocol
//! 1. Submit: in one transaction, create the job, its place among the pending, and a node with an id, as of
//!    [`FifoQueue`](super::FifoQueue).
//! 2. Claim: create a lease of a name that nobody else has; in one transaction, make sure of the lease, delete the place
//!    among the pending, create the attempt; read the job. All three in one flight.
//! 3. Complete: in one [certain](zk_curator::certain) transaction, make sure of the lease, delete it, delete the attempt, and keep the result, or delete
//!    the job. Give back or fail: the same, and create it again at its old place among the pending, or among the failed. Fail for a
//!    time: the same, and create it among the delayed.
//! 4. Clean: of the workers, one is elected to look for attempts without a lease. In one transaction it creates and deletes
//!    the lease, which proves that there is none, deletes the attempt, and creates the job again at its old place; or
//!    among the failed, if that was its last attempt.
//! 5. Bring back: when the time of a delayed job has come, the cleaner deletes it there and creates it again at its old place, in
//!    one transaction.
//! 6. Forget: once a minute the cleaner lists what is kept of jobs that are done or have failed. It deletes what exceeds the
//!    [limits](Jobs::keep_done), the job and its result in one transaction, from the oldest.
//!
//! A job costs four requests and two flights, after its submission.
//!
//! # Guarantees
//! * A job that is submitted is pending, executing, delayed, done or failed, at any moment in one of these states; with its id
//!   it is there once. Of the jobs that are done or have failed, the newest 10,000 are kept each, unless
//!   [set otherwise](Jobs::keep_done).
//! * A worker that has lost its lease, with its session or because somebody took it away, can neither complete the job nor
//!   fail it ([`Error::Lost`](super::Error::Lost)): however long it was paused, and whatever becomes of the job meanwhile. Its work
//!   elsewhere is for the [fencing token](Job::fencing_token) to tell, which grows from attempt to attempt.
//! * A job is not taken from a worker whose session lives. It is claimed again at the latest when that session is over, the
//!   cleaner has found out, and another worker comes to it.
//! * Jobs are claimed in the order of their [priority](Submission::priority), and of those with the same in the order of their
//!   submission; what comes back has its old place, among those that a worker
//!   lists next: a worker works through its list, of 10,000 jobs at most.
//! * No name is given twice, also when somebody deletes all of it and it is created again.
//!
//! # Assumptions
//! Only users of these jobs write here. The clock of the servers, by which it is said [since](JobState::Executing)
//! when a job is executed, is for people. The clocks of workers decide when a delayed job is pending again: of the worker that has
//! failed, and of the cleaner. The clock of the cleaner decides which jobs are too old to be kept, beside that of the servers. Earlier
//! versions of this crate do not bring delayed jobs back: these wait until a cleaner is elected that does.
//!
//! # Access control
//! New nodes get the ACL of the framework's [provider](zk_curator::acl::AclProvider). Everybody who uses the jobs may read all of
//! it, and has these rights:
//!
//! | node | who submits | workers and cleaners |
//! |---|---|---|
//! | `/jobs` | – | create, delete: receipts |
//! | `all` | create; delete, to cancel and to forget | delete |
//! | `pending` | create, write: buckets | create, delete: buckets |
//! | a bucket of it | create, write; delete, to cancel | create, delete, write |
//! | `executing`, `leases` | – | create, delete |
//! | `later` | delete, to cancel | create, delete |
//! | `done`, `failed` | delete, to forget and to retry | create: buckets; write, to upgrade the layout |
//! | a bucket of these | delete, to forget and to retry | create; delete, of what is not kept |
//! | `ids` | create, delete, write | – |
//! | `line`, `cleaner` | – | create, delete |
//!
//! The first user of the jobs creates these, which takes the right to create children of `/jobs`. A worker looks whether they are
//! there by creating them; so workers need it in any case. A right that is missing is an
//! [`Error::Framework`](super::Error::Framework) with
//! `NoAuth` and a path: without that to create children of `/jobs`, the end of a job fails with the path of the
//! receipt, `/jobs/_r_<uuid>`, and the job is given back.
//!
//! # Connection loss
//! * SUSPENDED: workers hold on to their jobs.
//! * LOST: the leases are gone with the session, [`Job::lost`] resolves, and the cleaner gives the jobs to others.
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
//! let listed = &jobs.inspect().await?[0];
//! assert!(matches!(&listed.state, JobState::Executing { worker, .. } if worker == "worker-1"));
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
mod later;
mod places;
mod record;
mod retention;
mod worker;

pub use handle::{Jobs, Submission};
pub use inspect::{JobInfo, JobState};
pub use job::{Job, Task};
pub use retention::Retention;
pub use worker::Worker;
