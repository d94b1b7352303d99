//! The Rust client of the comparison: one workload a process, as `benches/peers/PROTOCOL.md` says.
#![expect(clippy::print_stdout, clippy::print_stderr, reason = "the harness listens")]

mod caches;
mod counters;
mod discovery;
mod leader;
mod leases;
mod locks;
mod migrations;
mod partitions;
mod queues;
mod rounds;
mod scale;
mod servers;
mod stage;
mod transactions;
mod typed;

use std::process::ExitCode;

use crate::shared::{self, fleet, growth, outage, raw};
pub(crate) use stage::Result;
use stage::Stage;

/// The workloads of this client.
const WORKLOADS: [&str; 62] = [
    "raw-get",
    "raw-set",
    "raw-create-delete",
    "mutex",
    "mutex-drop",
    "many-locks",
    "shared-mutex",
    "shared-mutex-plain",
    "handover",
    "read-write",
    "semaphore",
    "leader",
    "double-barrier",
    "queue-simple-put",
    "queue-simple-take",
    "queue-put",
    "queue-take",
    "queue-take-window",
    "queue-priority-put",
    "queue-priority-take",
    "queue-locking-put",
    "queue-locking-take",
    "queue-own-locking-take",
    "queue-fifo-take",
    "two-phase",
    "counter",
    "counter-tasks",
    "cache-load",
    "cache-change",
    "cache-reconnect",
    "cache-reconnect-changed",
    "cache-reconnect-many",
    "scale-cache-reconnect",
    "scale-cache",
    "scale-waiters",
    "scale-sessions",
    "scale-queue",
    "scale-watches",
    "fleet-return",
    "cut",
    "expiry",
    "discovery-register",
    "discovery-query",
    "discovery-load",
    "discovery-change",
    "discovery-pick",
    "scale-registrations",
    "migrate-none",
    "migrate-missing",
    "migrate-fleet",
    "children-with-data",
    "typed-get",
    "typed-modify",
    "watch-data",
    "stm",
    "stm-contended",
    "lease",
    "once-per",
    "partition-join",
    "partition-leave",
    "startup",
    "embedded-server",
];

pub(crate) async fn main() -> ExitCode {
    match run().await {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("peer: {error}");
            ExitCode::FAILURE
        }
    }
}

async fn run() -> Result<()> {
    let Some(mut stage) = Stage::from_arguments()? else {
        WORKLOADS.iter().for_each(|name| println!("{name}"));
        return Ok(());
    };
    workload(&mut stage).await?;
    stage.end().await;
    Ok(())
}

#[expect(clippy::too_many_lines, reason = "one story")]
async fn workload(stage: &mut Stage) -> Result<()> {
    match stage.workload.clone().as_str() {
        "raw-get" => raw::get(stage).await,
        "raw-set" => raw::set(stage).await,
        "raw-create-delete" => raw::create_delete(stage).await,
        "mutex" => shared::locks::alone(stage, locks::mutex, false).await,
        "mutex-drop" => shared::locks::alone(stage, locks::mutex, true).await,
        "many-locks" => shared::locks::many(stage, locks::mutex).await,
        "shared-mutex" => shared::locks::shared(stage, locks::batches).await,
        "shared-mutex-plain" => shared::locks::shared(stage, locks::mutex).await,
        "handover" => shared::locks::handover(stage, locks::mutex).await,
        "read-write" => locks::read_write(stage).await,
        "semaphore" => locks::semaphore(stage).await,
        "leader" => leader::fail_over(stage).await,
        "double-barrier" => rounds::double_barrier(stage).await,
        "two-phase" => rounds::two_phase(stage).await,
        "counter" => counters::sessions(stage).await,
        "counter-tasks" => counters::tasks(stage).await,
        "cache-load" => caches::load(stage).await,
        "cache-change" => caches::change(stage).await,
        "cache-reconnect" => caches::reconnect(stage, 1, stage.size, 0).await,
        "cache-reconnect-changed" => caches::reconnect(stage, 1, stage.size, 10).await,
        "cache-reconnect-many" => caches::reconnect(stage, stage.size, 1000, 10).await,
        "scale-cache-reconnect" => caches::reconnect(stage, stage.size, 5000, 10).await,
        "scale-cache" => caches::large(stage).await,
        "queue-simple-put" => queues::simple_put(stage).await,
        "queue-simple-take" => queues::simple_take(stage).await,
        "queue-put" | "queue-locking-put" => queues::put(stage).await,
        "queue-take" => queues::take(stage, 1).await,
        "queue-take-window" => queues::take(stage, stage.size).await,
        "queue-priority-put" => queues::priority_put(stage).await,
        "queue-priority-take" => queues::priority_take(stage).await,
        "queue-locking-take" => queues::locking_take(stage).await,
        "queue-own-locking-take" => queues::own_locking_take(stage).await,
        "queue-fifo-take" => queues::fifo_take(stage).await,
        "scale-waiters" => scale::waiters(stage).await,
        "scale-sessions" => growth::sessions(stage).await,
        "scale-queue" => queues::take_of_many(stage).await,
        "scale-watches" => growth::watches(stage).await,
        "fleet-return" => fleet::come_back(stage).await,
        "cut" | "expiry" => outage::reads(stage).await,
        "discovery-register" => discovery::register(stage).await,
        "discovery-query" => discovery::query(stage).await,
        "discovery-load" => discovery::load(stage).await,
        "discovery-change" => discovery::change(stage).await,
        "discovery-pick" => discovery::pick(stage).await,
        "scale-registrations" => discovery::many(stage).await,
        "migrate-none" => migrations::none(stage).await,
        "migrate-missing" => migrations::missing(stage).await,
        "migrate-fleet" => migrations::fleet(stage).await,
        "children-with-data" => typed::children(stage).await,
        "typed-get" => typed::get(stage).await,
        "typed-modify" => typed::modify(stage).await,
        "watch-data" => typed::watch(stage).await,
        "stm" => transactions::transfer(stage).await,
        "stm-contended" => transactions::contended(stage).await,
        "lease" => leases::take(stage).await,
        "once-per" => leases::once_per(stage).await,
        "partition-join" => partitions::join(stage).await,
        "partition-leave" => partitions::leave(stage).await,
        "startup" => growth::startup(stage).await,
        "embedded-server" => servers::embedded(stage).await,
        other => Err(format!("there is no workload {other}").into()),
    }
}
