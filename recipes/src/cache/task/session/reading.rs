//! Requests with reads, and their responses.

use tokio::time::Instant;
use tracing::debug;
use zk_curator::{Error, ErrorKind};

use super::super::requests::ReadBatch;
use super::super::source::CacheEventSource;
use super::CacheSession;
use crate::cache::state::{CacheRead, StaleCause};
use crate::cache::told::{CheckpointInput, CheckpointOutcome, CheckpointRequest};
use crate::health::Health;

impl CacheSession<'_> {
    /// Sends the wanted reads, in as many requests as may be in flight.
    pub(super) fn read(&mut self) {
        while self.reads.len() < self.task.options.parallel {
            let (jobs, sent) = self.task.shared.arrange(|contents| {
                let jobs = self.halves.pop_front().unwrap_or_else(|| contents.state.next_batch());
                (jobs, contents.state.news())
            });
            if jobs.is_empty() {
                break;
            }
            let heard = self.task.checkpoints.heard();
            self.reads.push_back(self.requests.read(jobs, sent, heard));
        }
    }

    /// Processes the arrival of a response. Events arrive before the responses that show their
    /// changes; later events do no harm.
    pub(super) fn received(&mut self, mut batch: ReadBatch) {
        self.drain(None);
        if self.phase.is_stopped() {
            return;
        }
        if let CacheEventSource::Single(source) = &mut self.watch {
            source.add(std::mem::take(&mut batch.watches));
            // They may have fired before a checkpoint that has begun in between, without having
            // been received.
            self.drain(Some(batch.sent));
        }
        if !self.phase.is_stopped() {
            self.apply(batch);
        }
    }

    /// Processes the end of a request with reads.
    fn apply(&mut self, ReadBatch { jobs, answers, heard, .. }: ReadBatch) {
        let answers = match answers {
            Ok(answers) => {
                let outcome = CheckpointOutcome::Answered;
                self.step(CheckpointInput::Answered {
                    request: CheckpointRequest::Reads,
                    heard,
                    outcome,
                });
                answers
            }
            Err(error) if error.is_transient() || error.kind() == ErrorKind::Closed => {
                debug!(path = self.task.shared.root, %error, "reads failed, and will be repeated");
                return self.refused(&jobs, &error);
            }
            // One of the nodes may be the cause: a schema, for example, refuses a request as a
            // whole.
            Err(_) if jobs.len() > 1 => {
                let mut first = jobs;
                let second = first.split_off(first.len() / 2);
                return self.halves.extend([first, second]);
            }
            Err(error) => jobs.iter().map(|_| Err(error.clone())).collect(),
        };
        let (mut refused, mut answered) = (Vec::new(), Vec::new());
        for (job, answer) in jobs.into_iter().zip(answers) {
            match self.requests.answer(&job, answer) {
                Ok(answer) => answered.push((job, answer)),
                Err(error) => refused.push((job, error)),
            }
        }
        if refused.is_empty() {
            self.pauses.reset();
        }
        for (job, error) in refused {
            self.refused(&[job], &error);
        }
        self.task.shared.change(|contents| {
            contents.exact = None;
            let mut changes = Vec::new();
            for (job, answer) in answered {
                contents.state.answered(&job, answer, &mut changes);
            }
            contents.tell(changes);
        });
        self.plan_retry();
    }

    /// Processes reads without a result. A refusal only means that the current state of the nodes
    /// is unknown.
    fn refused(&mut self, jobs: &[CacheRead], error: &Error) {
        self.pauses.begin(&self.requests.zk);
        if !is_refusal(error) {
            return self.task.shared.arrange(|contents| contents.state.unanswered(jobs));
        }
        let refusal = self.task.shared.arrange(|contents| {
            contents.state.refused(jobs, error.kind());
            contents.state.refusal()
        });
        let Some(kind) = refusal else { return };
        self.task.health.report(Health::Waiting);
        if self.task.shared.look(|contents| contents.freshness.is_fresh()) {
            self.task.shared.change(|contents| {
                contents.becomes_stale(StaleCause::Refused(kind), Instant::now());
            });
        }
    }

    /// Schedules unreadable nodes to be read again, unless the reason lasts.
    fn plan_retry(&mut self) {
        if self.task.shared.look(|contents| contents.state.has_passing()) {
            self.retries.begin(&self.requests.zk);
        } else {
            self.retries.end();
            self.retries.reset();
        }
    }
}

/// Returns `true` if the server has responded, or nothing was sent despite a connection. The watch
/// reports when there is none.
fn is_refusal(error: &Error) -> bool {
    !matches!(
        error.kind(),
        ErrorKind::ConnectionLoss
            | ErrorKind::SessionMoved
            | ErrorKind::NotStarted
            | ErrorKind::Closed
    ) && !error.is_session_lost()
}
