//! The health of background tasks, as a stream.
//!
//! A handle with a background task has a method `health`, which returns a [`HealthWatch`].

use std::fmt;
use std::sync::Arc;

use futures_util::future::select_all;
use futures_util::stream::{Stream, unfold};
use zk_curator::internal::Signal;
use zk_curator::{Error, ErrorKind, TaskError};

/// The health of a background task.
#[derive(Debug, Clone, Default)]
#[non_exhaustive]
pub enum Health {
    /// It waits for a connection, or for other clients.
    #[default]
    Waiting,
    /// Its work is done, as far as this client knows.
    Working,
    /// An operation failed with a permanent error, such as `NoAuth`. It is retried in the
    /// background, unless the settings of the handle are invalid.
    Failed(Error),
}

/// Follows the [`Health`] of a background task.
///
/// A slow reader misses changes in between, but never the latest.
pub struct HealthWatch {
    tasks: Vec<Arc<Signal<HealthReport>>>,
    told: Option<HealthKind>,
}

/// The latest health of a task.
#[derive(Debug, Default)]
struct HealthReport {
    health: Health,
    changes: u64,
    has_ended: bool,
}

/// Changes between these states are reported.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum HealthKind {
    Waiting,
    Working,
    Failed(ErrorKind),
}

/// Reports the health of a task. Dropped with the task, it ends the stream.
#[derive(Debug, Default)]
pub(crate) struct HealthReporter(Arc<Signal<HealthReport>>);

impl Health {
    const fn kind(&self) -> HealthKind {
        match self {
            Self::Waiting => HealthKind::Waiting,
            Self::Working => HealthKind::Working,
            Self::Failed(error) => HealthKind::Failed(error.kind()),
        }
    }

    /// The health of two tasks that do one work.
    pub(crate) fn and(self, other: Self) -> Self {
        match (self, other) {
            (Self::Failed(error), _) | (_, Self::Failed(error)) => Self::Failed(error),
            (Self::Waiting, _) | (_, Self::Waiting) => Self::Waiting,
            (Self::Working, Self::Working) => Self::Working,
        }
    }
}

impl HealthReporter {
    pub(crate) fn watch(&self) -> HealthWatch {
        HealthWatch { tasks: vec![Arc::clone(&self.0)], told: None }
    }

    /// Reports the health, if it has changed.
    pub(crate) fn report(&self, health: Health) {
        if self.0.look(|report| report.health.kind() != health.kind()) {
            self.0.modify(|report| {
                report.health = health;
                report.changes += 1;
            });
        }
    }
}

impl Drop for HealthReporter {
    fn drop(&mut self) {
        let is_panic = std::thread::panicking();
        self.0.modify(|report| {
            if is_panic {
                report.health =
                    Health::Failed(TaskError::Panicked.of_operation("background task", ""));
            }
            report.has_ended = true;
            report.changes += 1;
        });
    }
}

impl HealthWatch {
    /// The health of a handle whose settings are invalid: it has no task.
    pub(crate) fn refused(error: Error) -> Self {
        let reporter = HealthReporter::default();
        reporter.report(Health::Failed(error));
        reporter.watch()
    }

    /// Returns a watch that begins with the present health.
    pub(crate) fn restarted(&self) -> Self {
        Self { tasks: self.tasks.clone(), told: None }
    }

    /// Follows another task of the same handle too.
    pub(crate) fn and(mut self, other: Self) -> Self {
        self.tasks.extend(other.tasks);
        self
    }

    /// Returns the present health at the first call, then the latest after every change; `None`
    /// when the task has ended, with its handle or the framework.
    ///
    /// # Cancel safety
    /// Nothing is lost.
    pub async fn next(&mut self) -> Option<Health> {
        loop {
            let (mut health, mut has_ended, mut seen) = (Health::Working, false, Vec::new());
            for task in &self.tasks {
                health = health.and(task.look(|report| report.health.clone()));
                // Without one of them the work is not done.
                has_ended |= task.look(|report| report.has_ended);
                seen.push(task.look(|report| report.changes));
            }
            if has_ended && matches!(health, Health::Working) {
                // No task keeps it so.
                return None;
            }
            if self.told != Some(health.kind()) {
                self.told = Some(health.kind());
                return Some(health);
            }
            if has_ended {
                return None;
            }
            let changed = |(task, seen): (&Arc<Signal<HealthReport>>, u64)| {
                let task = Arc::clone(task);
                Box::pin(async move { task.until(|report| report.changes != seen).await })
            };
            select_all(self.tasks.iter().zip(seen).map(changed)).await;
        }
    }

    /// Returns the health as a stream.
    pub fn into_stream(self) -> impl Stream<Item = Health> + Send + 'static {
        unfold(self, async |mut watch| watch.next().await.map(|health| (health, watch)))
    }
}

impl fmt::Debug for HealthWatch {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("HealthWatch").field("told", &self.told).finish_non_exhaustive()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn failed(path: &str) -> Health {
        Health::Failed(Error::invalid_argument("test", path, "refused"))
    }

    #[tokio::test]
    async fn changes_are_reported_once_and_the_end_last() {
        let reporter = HealthReporter::default();
        let mut watch = reporter.watch();
        assert!(matches!(watch.next().await, Some(Health::Waiting)));
        reporter.report(Health::Working);
        reporter.report(failed("/a"));
        reporter.report(failed("/b"));
        assert!(matches!(watch.next().await, Some(Health::Failed(error)) if error.path() == "/a"));
        drop(reporter);
        assert!(watch.next().await.is_none());
        assert!(watch.next().await.is_none());
    }

    #[tokio::test]
    async fn a_task_that_has_ended_does_not_work() {
        let reporter = HealthReporter::default();
        let mut watch = reporter.watch();
        reporter.report(Health::Working);
        assert!(matches!(watch.next().await, Some(Health::Working)));
        drop(reporter);
        assert!(watch.next().await.is_none());
        assert!(watch.restarted().next().await.is_none());
    }

    #[tokio::test]
    async fn two_tasks_are_as_healthy_as_the_worse_one() {
        let (one, two) = (HealthReporter::default(), HealthReporter::default());
        let mut watch = one.watch().and(two.watch());
        assert!(matches!(watch.next().await, Some(Health::Waiting)));
        one.report(Health::Working);
        two.report(Health::Working);
        assert!(matches!(watch.next().await, Some(Health::Working)));
        two.report(failed("/a"));
        assert!(matches!(watch.next().await, Some(Health::Failed(_))));
        drop(two);
        assert!(watch.next().await.is_none());
        drop(one);
    }

    #[tokio::test]
    async fn invalid_settings_are_reported_before_the_end() {
        let mut watch = HealthWatch::refused(Error::invalid_argument("test", "/a", "refused"));
        assert!(matches!(watch.next().await, Some(Health::Failed(_))));
        assert!(watch.next().await.is_none());
    }
}
