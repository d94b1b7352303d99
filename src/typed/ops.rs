use bytes::Bytes;
use zk_curator_client::Version;

use super::Typed;
use crate::error::ErrorKind;
use crate::op::{CheckOp, CreateOp, DeleteOp, SetDataOp, TransactionOp};
use crate::value::{Failure, ToData};

/// Operations of transactions, for [`Transaction::with`](crate::op::Transaction::with).
///
/// ```
/// # #[tokio::main(flavor = "current_thread")] async fn main() -> Result<(), Box<dyn std::error::Error>> {
/// # let server = zk_curator_testing::TestServer::start().await;
/// # let zk = zk_curator::CuratorFramework::builder().connect_string(server.connect_string()).build()?;
/// # zk.start().await?;
/// let accounts = zk.typed::<i64>();
/// accounts.create("/accounts/a", &100).await?;
/// accounts.create("/accounts/b", &0).await?;
/// let (a, b) = (accounts.get("/accounts/a").await?, accounts.get("/accounts/b").await?);
/// zk.transaction()
///     .with(accounts.replace_op("/accounts/a", &(a.value - 30), a.stat.version))
///     .with(accounts.replace_op("/accounts/b", &(b.value + 30), b.stat.version))
///     .commit()
///     .await?;
/// assert_eq!(accounts.get("/accounts/b").await?.value, 30);
/// # zk.close().await?; Ok(()) }
/// ```
///
/// Paths are within the namespace of the transaction. A value that cannot be encoded makes the
/// transaction fail with `InvalidArgument`, and nothing is sent.
impl<T: ToData> Typed<T> {
    /// Creates a node of the configured kind, with the configured ACL. The parent has to exist.
    pub fn create_op(&self, path: impl Into<String>, value: &T) -> TransactionOp {
        let (data, refused) = encoded(value);
        let mut op = CreateOp::new(path).data(data).mode(self.mode);
        if let Some(ttl) = self.ttl {
            op = op.ttl(ttl);
        }
        if let Some(acl) = &self.acl {
            op = op.acl(acl.clone());
        }
        let op = match self.zk.compresses(None) {
            Some(true) => op.compressed(),
            Some(false) => op.uncompressed(),
            None => op,
        };
        or_refused(op, refused)
    }

    /// Replaces the value of a node unconditionally. Unlike [`put`](Self::put), the operation
    /// requires that the node exists: transactions have no operation that creates or replaces.
    #[doc(alias = "updateOp")]
    pub fn put_op(&self, path: impl Into<String>, value: &T) -> TransactionOp {
        self.replace_op(path, value, Version::Any)
    }

    /// Replaces the value of a node that must have this version.
    pub fn replace_op(
        &self,
        path: impl Into<String>,
        value: &T,
        version: impl Into<Version>,
    ) -> TransactionOp {
        let (data, refused) = encoded(value);
        let op = SetDataOp::new(path, data).version(version);
        let op = match self.zk.compresses(None) {
            Some(true) => op.compressed(),
            Some(false) => op.uncompressed(),
            None => op,
        };
        or_refused(op, refused)
    }
}

/// Operations of transactions that need no value.
impl<T> Typed<T> {
    /// Deletes a node: at any version, unless [`DeleteOp::version`] sets one.
    pub fn delete_op(&self, path: impl Into<String>) -> DeleteOp {
        DeleteOp::new(path)
    }

    /// Checks that a node exists: at any version, unless [`CheckOp::version`] sets one.
    #[doc(alias = "checkExistsOp")]
    pub fn check_op(&self, path: impl Into<String>) -> CheckOp {
        CheckOp::new(path)
    }
}

fn encoded<T: ToData>(value: &T) -> (Bytes, Option<Failure>) {
    match value.to_data() {
        Ok(data) => (data, None),
        Err(why) => (Bytes::new(), Some(why)),
    }
}

fn or_refused(op: impl Into<TransactionOp>, refused: Option<Failure>) -> TransactionOp {
    let op = op.into();
    match refused {
        Some(why) => op.refused(ErrorKind::InvalidArgument, why),
        None => op,
    }
}
