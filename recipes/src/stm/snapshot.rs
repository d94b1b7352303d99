use bytes::Bytes;
use zk_curator::op::ReadResult;
use zk_curator::{CuratorFramework, Error as ZkError, ErrorKind, Stat};

/// Returns the data and stats of several nodes in one state, in the order of the paths; `None` for
/// a node that does not exist. One request, without a transaction.
///
/// The state may be as old as that of every read of ZooKeeper. For the newest state, run a
/// transaction that is [`linearizable`](super::Transaction::linearizable), which takes as many
/// round trips and is not in conflict with other clients either.
///
/// # Errors
/// As every read of the framework, if one of the nodes cannot be read. `Unsupported` on servers
/// before ZooKeeper 3.6; `ResponseTooLarge`.
///
/// # Cancel safety
/// Nothing is changed.
///
/// ```
/// # #[tokio::main(flavor = "current_thread")] async fn main() -> Result<(), Box<dyn std::error::Error>> {
/// # let server = zk_curator_testing::TestServer::start().await;
/// # let zk = zk_curator::CuratorFramework::builder().connect_string(server.connect_string()).build()?;
/// # zk.start().await?;
/// use zk_curator_recipes::stm::snapshot_of;
///
/// zk.create("/a").data("1").await?;
/// let nodes = snapshot_of(&zk, ["/a", "/none"]).await?;
/// let (data, _) = nodes[0].clone().expect("it exists");
/// assert_eq!((&data[..], &nodes[1]), (&b"1"[..], &None));
/// # zk.close().await?;
/// # Ok(()) }
/// ```
pub async fn snapshot_of(
    zk: &CuratorFramework,
    paths: impl IntoIterator<Item = impl Into<String>>,
) -> Result<Vec<Option<(Bytes, Stat)>>, ZkError> {
    let mut request = zk.multi_read().in_one_request();
    for path in paths {
        request = request.get_data(path);
    }
    let node = |result: Result<ReadResult, ZkError>| match result {
        Ok(result) => Ok(result.into_data()),
        Err(error) if error.kind() == ErrorKind::NoNode => Ok(None),
        Err(error) => Err(error),
    };
    request.await?.into_iter().map(node).collect()
}
