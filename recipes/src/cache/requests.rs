//! The requests of a cache, and their answers.

use std::future::IntoFuture;

use bytes::Bytes;
use futures_util::future::BoxFuture;
use zk_curator::op::{OpFuture, ReadResult};
use zk_curator::watch::Watch;
use zk_curator::{CuratorFramework, Error, ErrorKind, Stat};

use super::node::CachedNode;
use super::reads::{Answer, Cause, Job, What};
use super::source::read_watched;

/// What the requests of one session have in common.
pub(super) struct Requests {
    pub(super) zk: CuratorFramework,
    pub(super) root: String,
    pub(super) decompressed: Option<bool>,
    /// Whether the data are stored.
    pub(super) keeps_data: bool,
    /// Whether each read leaves a watch.
    pub(super) are_watched: bool,
}

/// The reads of one request, and their answers.
pub(super) struct Batch {
    pub(super) jobs: Vec<Job>,
    pub(super) answers: Result<Vec<Result<ReadResult, Error>>, Error>,
    /// Those that the reads have left.
    pub(super) watches: Vec<((Box<str>, What), Watch)>,
    /// The cause of what was found out when it was sent.
    pub(super) sent: Cause,
    /// The number of events before it was sent.
    pub(super) events: u64,
}

/// The answer to a request that reads nothing, and the number of the waiter on whose behalf it was sent.
pub(super) struct Barrier {
    pub(super) waiter: Option<u64>,
    pub(super) answer: Result<(), Error>,
    /// The number of events before it was sent.
    pub(super) events: u64,
}

impl Requests {
    /// Reads nodes, after so many events.
    pub(super) fn read(&self, jobs: Vec<Job>, sent: Cause, events: u64) -> BoxFuture<'static, Batch> {
        if self.are_watched {
            let (zk, root) = (self.zk.clone(), self.root.clone());
            let decompressed = self.decompressed;
            return Box::pin(async move {
                let (answers, watches) = read_watched(zk, &root, &jobs, decompressed).await;
                Batch { jobs, answers: Ok(answers), watches, sent, events }
            });
        }
        let mut read = self.zk.multi_read().per_request(jobs.len());
        match self.decompressed {
            Some(true) => read = read.decompressed(),
            Some(false) => read = read.undecompressed(),
            None => {}
        }
        for job in &jobs {
            read = match job.what {
                What::Data => read.get_data(&*job.path),
                What::Names => read.children(&*job.path),
            };
        }
        let read = read.into_future();
        Box::pin(async move { Batch { jobs, answers: read.await, watches: Vec::new(), sent, events } })
    }

    /// A request of the root.
    pub(super) fn look(&self) -> OpFuture<Option<Stat>> {
        self.zk.exists(self.root.as_str()).into_future()
    }

    /// A request that is answered after everything that is committed.
    pub(super) fn quorum(&self) -> OpFuture<Option<Stat>> {
        self.zk.exists(self.root.as_str()).linearizable().into_future()
    }

    /// The answer to a read, if it is one.
    pub(super) fn answer(&self, job: &Job, answer: Result<ReadResult, Error>) -> Option<Answer> {
        Some(match answer {
            Ok(ReadResult::Data { data, stat }) => {
                // A small value must not keep the whole answer in memory.
                let data = if self.keeps_data { Bytes::copy_from_slice(&data) } else { Bytes::new() };
                Answer::Data(CachedNode { path: job.path.clone(), data, stat })
            }
            Ok(ReadResult::Children { names }) => Answer::Names(names),
            Ok(_) => Answer::Failed(ErrorKind::Malformed),
            Err(error) if error.kind() == ErrorKind::NoNode => Answer::Missing,
            Err(error) if error.is_transient() => return None,
            Err(error) => Answer::Failed(error.kind()),
        })
    }
}
