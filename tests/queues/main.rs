//! Queues and jobs, by subject: what each does, its faults, and its cancellation at every step,
//! side by side.
#![expect(clippy::unwrap_used, reason = "helpers of a test are not recognised as tests")]

mod queue;
mod queue_buckets;
mod queue_cancel;
mod queue_cost;
mod queue_drain;
mod queue_exactly_once;
mod queue_faults;
mod queue_foreign;
mod queue_jobs;
mod queue_jobs_delayed;
mod queue_jobs_list;
mod queue_jobs_retention;
mod queue_kept;
mod queue_limits;
mod queue_locking;
mod queue_many;
mod queue_names;
mod queue_peek;
mod queue_rights;
mod queue_rights_tables;
mod queue_run;
mod queue_sharder;
