//! The requests of a cache, and their responses.

use std::future::IntoFuture;

use bytes::Bytes;
use futures_util::future::BoxFuture;
use zk_curator::op::{OpFuture, ReadResult};
use zk_curator::watch::Watch;
use zk_curator::{CuratorFramework, Error, ErrorKind, Stat};

use super::source::read_watched;
use crate::cache::state::{CacheRead, CacheReadAnswer, CachedNode, Cause, ReadKind};
use crate::cache::told::{CheckpointOutcome, CheckpointRequest};

/// The settings that the requests of one session share.
pub(crate) struct Requests {
    pub(crate) zk: CuratorFramework,
    pub(crate) root: String,
    pub(crate) decompressed: Option<bool>,
    /// `true` if the data are stored.
    pub(crate) keeps_data: bool,
    /// `true` if each read sets a watch.
    pub(crate) are_watched: bool,
}

/// The reads of one request, and their responses.
pub(crate) struct ReadBatch {
    pub(crate) jobs: Vec<CacheRead>,
    pub(crate) answers: Result<Vec<Result<ReadResult, Error>>, Error>,
    /// The watches that the reads have set.
    pub(crate) watches: Vec<((Box<str>, ReadKind), Watch)>,
    /// The cause of reads at the time of the request.
    pub(crate) sent: Cause,
    /// The number of events before it was sent.
    pub(crate) heard: u64,
}

/// The response to a request that reads nothing.
pub(crate) struct CheckpointAnswer {
    pub(crate) request: CheckpointRequest,
    pub(crate) outcome: CheckpointOutcome,
    /// The number of events before it was sent.
    pub(crate) heard: u64,
}

impl Requests {
    /// Reads nodes, after `heard` events.
    pub(crate) fn read(
        &self,
        jobs: Vec<CacheRead>,
        sent: Cause,
        heard: u64,
    ) -> BoxFuture<'static, ReadBatch> {
        if self.are_watched {
            let (zk, root) = (self.zk.clone(), self.root.clone());
            let decompressed = self.decompressed;
            return Box::pin(async move {
                let (answers, watches) = read_watched(zk, &root, &jobs, decompressed).await;
                ReadBatch { jobs, answers: Ok(answers), watches, sent, heard }
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
                ReadKind::Data => read.get_data(&*job.path),
                ReadKind::Names => read.children(&*job.path),
            };
        }
        let read = read.into_future();
        Box::pin(async move {
            ReadBatch { jobs, answers: read.await, watches: Vec::new(), sent, heard }
        })
    }

    /// Sends a request that reads nothing, after `heard` events.
    pub(crate) fn ask(
        &self,
        request: CheckpointRequest,
        heard: u64,
    ) -> BoxFuture<'static, CheckpointAnswer> {
        let asked = match request {
            CheckpointRequest::Gate | CheckpointRequest::Barrier => self.quorum(),
            CheckpointRequest::Proof | CheckpointRequest::Reads => self.look(),
        };
        Box::pin(async move {
            let outcome = match asked.await {
                Ok(_) => CheckpointOutcome::Answered,
                // A quorum has also responded if the root must not be read. A read-only server
                // confirms nothing.
                Err(error)
                    if request == CheckpointRequest::Gate && error.kind() == ErrorKind::NoAuth =>
                {
                    CheckpointOutcome::Answered
                }
                Err(error) if error.is_transient() => CheckpointOutcome::Passing,
                Err(error) => CheckpointOutcome::Failed(error),
            };
            CheckpointAnswer { request, outcome, heard }
        })
    }

    /// A request of the root.
    fn look(&self) -> OpFuture<Option<Stat>> {
        self.zk.exists(self.root.as_str()).into_future()
    }

    /// A request whose response comes after everything that is committed.
    fn quorum(&self) -> OpFuture<Option<Stat>> {
        self.zk.exists(self.root.as_str()).linearizable().into_future()
    }

    /// Returns the response to a read, unless it is a temporary error.
    pub(crate) fn answer(
        &self,
        job: &CacheRead,
        answer: Result<ReadResult, Error>,
    ) -> Result<CacheReadAnswer, Error> {
        Ok(match answer {
            Ok(ReadResult::Data { data, stat, .. }) => {
                // A small value must not keep the whole response in memory.
                let data =
                    if self.keeps_data { Bytes::copy_from_slice(&data) } else { Bytes::new() };
                CacheReadAnswer::Data(CachedNode::new(&job.path, data, stat))
            }
            Ok(ReadResult::Children { names }) => CacheReadAnswer::Names(names),
            Ok(_) => CacheReadAnswer::Failed(ErrorKind::Malformed),
            Err(error) if error.kind() == ErrorKind::NoNode => CacheReadAnswer::Missing,
            Err(error) if error.is_transient() => return Err(error),
            Err(error) => CacheReadAnswer::Failed(error.kind()),
        })
    }
}
