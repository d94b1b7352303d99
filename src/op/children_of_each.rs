use std::future::IntoFuture;

use futures_util::future::try_join_all;
use zk_curator_client::{Error as RawError, ErrorCode, Read, ReadAnswer};

use super::{ChildrenBuilder, Target, awaits, call_options};
use crate::error::{Error, ErrorKind, Result};
use crate::framework::CuratorFramework;
use crate::schema::Intent;

/// The number of nodes that one request lists.
const PER_REQUEST: usize = 256;

/// Lists the children of many nodes: one request for every 256 of them, all in one flight.
///
/// Servers before ZooKeeper 3.6, and clients without `multiRead`, are sent one request for each node instead.
///
/// The nodes are not read at one moment. Fails when one of the nodes cannot be read for another reason than that it does
/// not exist.
#[derive(Debug)]
#[must_use = "nothing is sent until it is awaited"]
pub struct ChildrenOfEachBuilder {
    target: Target,
    paths: Vec<String>,
}

impl ChildrenOfEachBuilder {
    pub(crate) fn new(zk: CuratorFramework, paths: Vec<String>) -> Self {
        let first = paths.first().cloned().unwrap_or_default();
        Self { target: Target::new(zk, "children_of_each", first), paths }
    }

    async fn run(self) -> Result<Vec<Option<Vec<String>>>> {
        let reads = self.paths.iter().map(|path| self.read(path)).collect::<Result<Vec<_>>>()?;
        match try_join_all(reads.chunks(PER_REQUEST).map(|reads| self.read_many(reads))).await {
            Ok(lists) => Ok(lists.concat()),
            Err(error) if error.kind() == ErrorKind::Unsupported => self.read_each().await,
            Err(error) => Err(error),
        }
    }

    /// A node by its path on the server.
    fn read(&self, path: &str) -> Result<Read> {
        self.target.zk.core().schemas().admit(
            self.target.operation,
            path,
            Intent::Read { watched: false },
        )?;
        match zk_curator_client::path::validate(path) {
            Ok(()) => Ok(Read::Children(self.target.zk.ns().apply(path))),
            Err(why) => Err(Error::invalid_path(self.target.operation, path, why)),
        }
    }

    async fn read_many(&self, reads: &[Read]) -> Result<Vec<Option<Vec<String>>>> {
        let answers = self.target.read(|raw, _| raw.multi_read(reads)).await?;
        answers
            .into_iter()
            .map(|answer| match answer {
                Ok(ReadAnswer::Children(names)) => Ok(Some(names)),
                Err(RawError::Refused(ErrorCode::NoNode)) => Ok(None),
                Err(error) => Err(self.target.error(error)),
                Ok(_) => Err(Error::new(ErrorKind::Malformed, self.target.operation, &self.target.path)),
            })
            .collect()
    }

    async fn read_each(&self) -> Result<Vec<Option<Vec<String>>>> {
        let lists = self.paths.iter().map(|path| async move {
            let mut list = ChildrenBuilder::new(self.target.zk.clone(), path.clone());
            list.target.call = self.target.call.clone();
            match list.into_future().await {
                Ok(names) => Ok(Some(names)),
                Err(error) if error.kind() == ErrorKind::NoNode => Ok(None),
                Err(error) => Err(error),
            }
        });
        try_join_all(lists).await
    }
}

call_options!(ChildrenOfEachBuilder);
awaits!(ChildrenOfEachBuilder => Vec<Option<Vec<String>>>, |this| this.run().await);
