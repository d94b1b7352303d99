//! Counts of the tasks on the runtime of a run: those of the simulation, and strays.

use std::future::poll_fn;
use std::io;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use async_trait::async_trait;
use tokio::runtime::{Handle, RuntimeMetrics};
use zk_curator_client::{Connector, Transport};

/// Counts the tasks of a runtime with one thread. Clones count together.
///
/// Nothing else runs while a process is polled, and no task ends. So the growth in the number of
/// tasks is the number that the poll has started: tasks that the simulation [knows](Self::expect),
/// and [strays](Self::strays).
#[derive(Debug, Clone)]
pub(crate) struct TaskCounter {
    runtime: RuntimeMetrics,
    /// The number of tasks that the simulation started while it polled a process.
    expected: Arc<AtomicUsize>,
}

impl TaskCounter {
    /// Counts the tasks of the present runtime.
    pub(crate) fn here() -> Self {
        Self { runtime: Handle::current().metrics(), expected: Arc::default() }
    }

    /// Calls a part of the simulation that may start tasks.
    pub(crate) fn expect<R>(&self, call: impl FnOnce() -> R) -> R {
        let before = self.runtime.num_alive_tasks();
        let result = call();
        let started = self.runtime.num_alive_tasks().saturating_sub(before);
        self.expected.fetch_add(started, Ordering::Relaxed);
        result
    }

    /// Calls code of a process. Returns the number of tasks that it started without the simulation.
    pub(crate) fn strays<R>(&self, call: impl FnOnce() -> R) -> (R, usize) {
        let others =
            || self.runtime.num_alive_tasks().wrapping_sub(self.expected.load(Ordering::Relaxed));
        let before = others();
        let result = call();
        (result, others().wrapping_sub(before))
    }
}

/// A connector whose servers start a task for each connection.
#[derive(Debug)]
pub(crate) struct Counted<C> {
    pub(crate) connector: C,
    pub(crate) census: TaskCounter,
}

#[async_trait]
impl<C: Connector> Connector for Counted<C> {
    async fn connect(&self, host: &str, port: u16) -> io::Result<Box<dyn Transport>> {
        let mut connect = self.connector.connect(host, port);
        poll_fn(|cx| self.census.expect(|| connect.as_mut().poll(cx))).await
    }
}
