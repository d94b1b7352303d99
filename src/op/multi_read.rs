use bytes::Bytes;
use futures_util::future::try_join_all;
use zk_curator_client::{Data, Error as RawError, Read, ReadResponse, Stat};

use super::{OpTarget, awaits, call_options, decompression_options, fan_out, freshness_options};
use crate::core::FAN_OUT;
use crate::error::{Error, ErrorKind, Result};
use crate::framework::CuratorFramework;
use crate::schema::Intent;

/// The number of nodes that one request reads by default.
const PER_REQUEST: usize = 256;

/// Reads many nodes: one request for every 256 reads by [default](Self::per_request), all in one
/// round trip. Each read succeeds or fails by itself.
///
/// Servers before ZooKeeper 3.6, and raw clients without `multiRead`, get one request for each read
/// instead. A request with long paths that exceeds the
/// [limit](crate::CuratorFrameworkBuilder::max_frame) is sent in halves, and so is one whose
/// response exceeds [its limit](crate::CuratorFrameworkBuilder::max_response), down to the node
/// that is too large by itself. Only the read of that node fails, with `TooLarge` or
/// `ResponseTooLarge`.
///
/// Fails if a request as a whole fails: without a connection, or with `InvalidPath`.
///
/// ```
/// # #[tokio::main(flavor = "current_thread")] async fn main() -> Result<(), Box<dyn std::error::Error>> {
/// # let server = zk_curator_testing::TestServer::start().await;
/// # let zk = zk_curator::CuratorFramework::builder().connect_string(server.connect_string()).build()?;
/// # zk.start().await?;
/// use zk_curator::ErrorKind;
///
/// zk.create("/a").data("1").await?;
/// zk.create("/a/b").await?;
/// let answers = zk.multi_read().get_data("/a").children("/a").get_data("/none").await?;
/// let (data, stat) = answers[0].clone()?.into_data().expect("as asked for");
/// assert_eq!((&data[..], stat.version), (&b"1"[..], 0));
/// assert_eq!(answers[1].clone()?.into_children().expect("as asked for"), ["b"]);
/// assert_eq!(answers[2].as_ref().unwrap_err().kind(), ErrorKind::NoNode);
/// # zk.close().await?;
/// # Ok(()) }
/// ```
#[derive(Debug)]
#[must_use = "nothing is sent until it is awaited"]
pub struct MultiReadBuilder {
    target: OpTarget,
    /// The reads, with paths within the namespace.
    reads: Vec<Read>,
    per_request: usize,
    /// `true` if several requests will not do.
    is_one_state: bool,
    decompressed: Option<bool>,
}

/// The response to one read of a [`MultiReadBuilder`].
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub enum ReadResult {
    /// The response to [`get_data`](MultiReadBuilder::get_data).
    Data {
        /// The data; empty if `is_null`.
        data: Bytes,
        /// `true` if the node has Java's `null` instead of data, which differs from empty data.
        is_null: bool,
        /// The stat.
        stat: Stat,
    },
    /// The response to [`children`](MultiReadBuilder::children).
    Children {
        /// The names, in no order.
        names: Vec<String>,
    },
}

impl ReadResult {
    /// Returns the data and the stat, if this is the response to
    /// [`get_data`](MultiReadBuilder::get_data).
    #[must_use]
    pub fn into_data(self) -> Option<(Bytes, Stat)> {
        match self {
            Self::Data { data, stat, .. } => Some((data, stat)),
            Self::Children { .. } => None,
        }
    }

    /// Returns the names, if this is the response to [`children`](MultiReadBuilder::children).
    #[must_use]
    pub fn into_children(self) -> Option<Vec<String>> {
        match self {
            Self::Children { names } => Some(names),
            Self::Data { .. } => None,
        }
    }
}

impl CuratorFramework {
    /// Begins to read many nodes in one request.
    ///
    /// **Awaiting returns** `Vec<Result<ReadResult>>`, in the order of the reads. See
    /// [`MultiReadBuilder`].
    pub fn multi_read(&self) -> MultiReadBuilder {
        let target = OpTarget::new(self.clone(), "multi_read", String::new());
        MultiReadBuilder {
            target,
            reads: Vec::new(),
            per_request: PER_REQUEST,
            is_one_state: false,
            decompressed: None,
        }
    }
}

impl MultiReadBuilder {
    /// Reads the data of a node.
    pub fn get_data(self, path: impl Into<String>) -> Self {
        self.with(Read::Data(path.into()))
    }

    /// Lists the children of a node.
    pub fn children(self, path: impl Into<String>) -> Self {
        self.with(Read::Children(path.into()))
    }

    /// Sets the number of reads in one request, from 1; zero counts as 1. While a server executes a
    /// request, it responds to no other request of this session. Default: 256.
    pub fn per_request(mut self, reads: usize) -> Self {
        self.per_request = reads.max(1);
        self
    }

    /// Sends all reads in one request, or none. All results then show one state of the server,
    /// because servers apply no write during a request. Without this option, results of
    /// different requests may show different states.
    ///
    /// Fails with `Unsupported` on servers before ZooKeeper 3.6 and with raw clients without
    /// `multiRead`, with `TooLarge` if the request exceeds the
    /// [limit](crate::CuratorFrameworkBuilder::max_frame), and with `ResponseTooLarge` if the
    /// response exceeds [its limit](crate::CuratorFrameworkBuilder::max_response).
    /// [`per_request`](Self::per_request) has no effect.
    pub const fn in_one_request(mut self) -> Self {
        self.is_one_state = true;
        self
    }

    fn with(mut self, read: Read) -> Self {
        if self.target.path.is_empty() {
            path_of(&read).clone_into(&mut self.target.path);
        }
        self.reads.push(read);
        self
    }

    async fn run(self) -> Result<Vec<Result<ReadResult>>> {
        let reads = self
            .reads
            .iter()
            .map(|read| resolve(&self.target, read))
            .collect::<Result<Vec<_>>>()?;
        let answers = if self.is_one_state {
            read_at_once(&self.target, &reads).await?
        } else {
            read_chunks(&self.target, &reads, self.per_request).await?
        };
        let result = |(read, answer): (&Read, Result<ReadResponse>)| match answer? {
            ReadResponse::Data(Data { data, is_null, stat, .. }) => {
                let data = self.target.decompress_at(path_of(read), self.decompressed, data)?;
                Ok(ReadResult::Data { data, is_null, stat })
            }
            ReadResponse::Children(names) => Ok(ReadResult::Children { names }),
            _ => Err(Error::new(ErrorKind::Malformed, self.target.operation, path_of(read))),
        };
        Ok(self.reads.iter().zip(answers).map(result).collect())
    }
}

call_options!(MultiReadBuilder);
freshness_options!(MultiReadBuilder);
decompression_options!(MultiReadBuilder);
awaits!(MultiReadBuilder => Vec<Result<ReadResult>>, |this| this.run().await);

/// Lists the children of many nodes: one request for every 256 of them, all in one round trip, as a
/// [`MultiReadBuilder`].
///
/// Fails if one of the nodes cannot be read for another reason than that it does not exist.
#[derive(Debug)]
#[must_use = "nothing is sent until it is awaited"]
pub struct ChildrenOfEachBuilder {
    target: OpTarget,
    paths: Vec<String>,
}

impl CuratorFramework {
    /// Lists the children of many nodes, in one request where the server can do that.
    ///
    /// **Awaiting returns** `Vec<Option<Vec<String>>>`: in the order of the paths, the names of the
    /// children, or `None` for a node that does not exist. See [`ChildrenOfEachBuilder`].
    pub fn children_of_each(
        &self,
        paths: impl IntoIterator<Item = impl Into<String>>,
    ) -> ChildrenOfEachBuilder {
        let paths: Vec<String> = paths.into_iter().map(Into::into).collect();
        let first = paths.first().cloned().unwrap_or_default();
        ChildrenOfEachBuilder {
            target: OpTarget::new(self.clone(), "children_of_each", first),
            paths,
        }
    }
}

impl ChildrenOfEachBuilder {
    async fn run(self) -> Result<Vec<Option<Vec<String>>>> {
        let (target, paths) = (&self.target, self.paths);
        let reads = paths.into_iter().map(|path| resolve(target, &Read::Children(path)));
        let reads = reads.collect::<Result<Vec<_>>>()?;
        let names = |answer| match answer {
            Ok(ReadResponse::Children(names)) => Ok(Some(names)),
            Ok(_) => Err(Error::new(ErrorKind::Malformed, target.operation, &target.path)),
            Err(error) => found(Err(error)),
        };
        read_many(target, &reads).await?.into_iter().map(names).collect()
    }
}

call_options!(ChildrenOfEachBuilder);
awaits!(ChildrenOfEachBuilder => Vec<Option<Vec<String>>>, |this| this.run().await);

fn path_of(read: &Read) -> &str {
    match read {
        Read::Data(path) | Read::Children(path) => path,
        _ => "",
    }
}

/// Returns the read to send, if it is allowed.
pub(super) fn resolve(target: &OpTarget, read: &Read) -> Result<Read> {
    let path = path_of(read);
    target.admit_at(path, Intent::Read { watched: false })?;
    let path = target.server_path_of(path)?;
    Ok(if matches!(read, Read::Data(_)) { Read::Data(path) } else { Read::Children(path) })
}

/// Sends reads whose paths are the server's: one request for every 256, all in one round trip. The
/// errors of single reads name their paths within the namespace.
pub(crate) async fn read_many(
    target: &OpTarget,
    reads: &[Read],
) -> Result<Vec<Result<ReadResponse>>> {
    read_chunks(target, reads, PER_REQUEST).await
}

pub(super) async fn read_chunks(
    target: &OpTarget,
    reads: &[Read],
    per_request: usize,
) -> Result<Vec<Result<ReadResponse>>> {
    let chunks = reads.chunks(per_request).map(|reads| Box::pin(read_chunk(target, reads)));
    match try_join_all(chunks).await {
        Ok(answers) => Ok(answers.into_iter().flatten().collect()),
        Err(error) if error.kind() == ErrorKind::Unsupported => {
            let alone = reads.iter().map(|read| read_alone(target, read));
            fan_out(FAN_OUT, alone).await.into_iter().collect()
        }
        Err(error) => Err(error),
    }
}

/// Sends one request.
async fn read_at_once(target: &OpTarget, reads: &[Read]) -> Result<Vec<Result<ReadResponse>>> {
    if reads.is_empty() {
        return Ok(Vec::new());
    }
    let answered = target.read(|raw, _| raw.multi_read(reads)).await?;
    let each = reads.iter().zip(answered);
    Ok(each.map(|(read, answer)| answer.map_err(|error| of(target, read, error))).collect())
}

/// Sends one request. If it or its response is too large, sends two requests for its halves, down
/// to single reads.
async fn read_chunk(target: &OpTarget, reads: &[Read]) -> Result<Vec<Result<ReadResponse>>> {
    let mut answers = Vec::with_capacity(reads.len());
    let mut todo = vec![reads];
    while let Some(reads) = todo.pop() {
        match target.read(|raw, _| raw.multi_read(reads)).await {
            Ok(answered) => {
                let each = reads.iter().zip(answered);
                answers.extend(
                    each.map(|(read, answer)| answer.map_err(|error| of(target, read, error))),
                );
            }
            Err(error) if is_too_large(&error) && reads.len() > 1 => {
                let (first, second) = reads.split_at(reads.len() / 2);
                todo.extend([second, first]);
            }
            Err(error) if is_too_large(&error) => {
                let culprit = reads.iter().map(|read| Err(error.clone().at(visible(target, read))));
                answers.extend(culprit);
            }
            Err(error) => return Err(error),
        }
    }
    Ok(answers)
}

/// Returns `true` if a smaller request may succeed.
fn is_too_large(error: &Error) -> bool {
    matches!(error.kind(), ErrorKind::TooLarge | ErrorKind::ResponseTooLarge)
}

async fn read_alone(target: &OpTarget, read: &Read) -> Result<Result<ReadResponse>> {
    let answer = match read {
        Read::Data(path) => target.read(|raw, _| raw.get_data(path)).await.map(ReadResponse::Data),
        other => {
            let children = target.read(|raw, _| raw.get_children(path_of(other))).await;
            children.map(|children| ReadResponse::Children(children.names))
        }
    };
    match answer {
        // The error concerns the node, not the connection, the session or the framework.
        Err(error)
            if !error.is_transient()
                && error.code().is_some()
                && error.kind() != ErrorKind::AuthFailed =>
        {
            let code = error.code().map(RawError::Refused);
            Ok(Err(code.map_or(error, |code| of(target, read, code))))
        }
        Err(error) if is_too_large(&error) => Ok(Err(error.at(visible(target, read)))),
        answer => answer.map(Ok),
    }
}

fn of(target: &OpTarget, read: &Read, error: RawError) -> Error {
    target.zk.core().error(target.operation, visible(target, read), error)
}

/// Returns the path of a read within the namespace.
fn visible<'r>(target: &OpTarget, read: &'r Read) -> &'r str {
    target.zk.ns().strip(path_of(read))
}

/// Returns `None` if the node does not exist.
pub(crate) fn found<T>(answer: Result<T>) -> Result<Option<T>> {
    match answer {
        Ok(answer) => Ok(Some(answer)),
        Err(error) if error.kind() == ErrorKind::NoNode => Ok(None),
        Err(error) => Err(error),
    }
}
