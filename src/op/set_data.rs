use bytes::Bytes;
use zk_curator_client::{Stat, Version};

use super::parents::Parents;
use super::settings::{compression_settings, version_setting};
use super::transaction_op::SetDataOp;
use super::{OpTarget, Transaction, awaits, call_options};
use crate::error::{Error, ErrorKind, Result};
use crate::framework::CuratorFramework;
use crate::retry::Budget;
use crate::schema::Intent;

impl CuratorFramework {
    /// Replaces the data of a node.
    ///
    /// **Awaiting returns** the new [`Stat`](crate::Stat).
    pub fn set_data(&self, path: impl Into<String>, data: impl Into<Bytes>) -> SetDataBuilder {
        SetDataBuilder::new(self.clone(), path.into(), data.into())
    }
}

/// Replaces the data of a node. Fails with `NoNode`, `BadVersion`, `TooLarge`.
///
/// With a version, the write is repeated after an unknown outcome, because an unchanged version
/// shows that no other write was applied. But the version of a node that is deleted and created
/// again begins at 0 again. If it reaches the expected version before the repetition, the
/// repetition overwrites its data. If that is possible, make the write [`certain`](Self::certain):
/// it then determines if the first attempt was applied, and is repeated only if not.
///
/// Without a version, the write is not repeated, because a repetition could overwrite a later write
/// of another client. It then fails with [`may_have_applied`](crate::Error::may_have_applied). An
/// [`idempotent`](Self::idempotent) write is repeated, and a certain write determines the outcome.
///
/// ```
/// # #[tokio::main(flavor = "current_thread")] async fn main() -> Result<(), Box<dyn std::error::Error>> {
/// # let server = zk_curator_testing::TestServer::start().await;
/// # let zk = zk_curator::CuratorFramework::builder().connect_string(server.connect_string()).build()?;
/// # zk.start().await?;
/// # zk.create("/jobs").await?;
/// # zk.create("/jobs/7").data("new").await?;
/// use zk_curator::certain::Receipt;
///
/// let receipt = Receipt::new(&zk, "/jobs");
/// zk.set_data("/jobs/7", "done").version(0).certain(&receipt).commit().await?;
/// # assert_eq!(zk.get_data("/jobs/7").await?, "done");
/// # zk.close().await?;
/// # Ok(()) }
/// ```
///
/// # Cancel safety
/// Once the future was polled, the data may be replaced.
#[derive(Debug)]
#[must_use = "nothing is sent until it is awaited"]
pub struct SetDataBuilder {
    target: OpTarget,
    data: Bytes,
    version: Version,
    idempotent: bool,
    compressed: Option<bool>,
}

impl SetDataBuilder {
    pub(crate) fn new(zk: CuratorFramework, path: String, data: Bytes) -> Self {
        let target = OpTarget::new(zk, "set_data", path);
        Self { target, data, version: Version::Any, idempotent: false, compressed: None }
    }

    version_setting!();

    /// Also succeeds if the node already has these data. With a version, the data must have the
    /// following version, which this write or an equal one has set. Without a version, the write is
    /// repeated after an unknown outcome.
    pub const fn idempotent(mut self) -> Self {
        self.idempotent = true;
        self
    }

    compression_settings!();

    /// Returns a transaction of this one operation.
    pub(crate) fn into_transaction(self) -> Transaction {
        let Self { target, data, version, idempotent, compressed } = self;
        let (path, data) = (target.path.clone(), Some(data));
        let op = SetDataOp { path, data, version, compressed };
        let conflict = idempotent.then_some("a certain write cannot be idempotent");
        Transaction::single(target, op, Parents::default(), conflict)
    }

    async fn run(mut self) -> Result<Stat> {
        let path = self.target.server_path()?;
        self.target.admit(Intent::Write { data: Some(&self.data), acl: &[] })?;
        self.data = self.target.compress(self.compressed, self.data)?;
        let write =
            DataWrite { data: &self.data, version: self.version, idempotent: self.idempotent };
        write.run(&self.target, &mut self.target.budget(), &path).await
    }
}

/// A replacement of data, by itself or as part of a create.
pub(super) struct DataWrite<'a> {
    pub(super) data: &'a Bytes,
    pub(super) version: Version,
    pub(super) idempotent: bool,
}

impl DataWrite<'_> {
    /// Sends the write. `path` is the server's.
    pub(super) async fn run<R>(
        &self,
        target: &OpTarget<R>,
        budget: &mut Budget<'_>,
        path: &str,
    ) -> Result<Stat> {
        let repeatable = self.idempotent || self.version.is_exact();
        let written = target
            .write(budget, repeatable, |raw| raw.set_data(path, self.data, self.version))
            .await;
        match written {
            Err(error) if self.may_be_done(&error) && target.zk.state().is_connected() => {
                let present =
                    target.read_within(budget, path, |raw, path| raw.get_data(path)).await;
                match present {
                    Ok(present) if self.is_done(&present) => Ok(present.stat),
                    _ => Err(error),
                }
            }
            written => written,
        }
    }

    fn may_be_done(&self, error: &Error) -> bool {
        let refused = error.kind() == ErrorKind::BadVersion;
        self.idempotent && self.version.is_exact() && (refused || error.may_have_applied())
    }

    fn is_done(&self, present: &zk_curator_client::Data) -> bool {
        let next = self.version.exactly().map(|version| version.wrapping_add(1));
        next == Some(present.stat.version) && present.data == *self.data
    }
}

call_options!(SetDataBuilder);

awaits!(SetDataBuilder => Stat, |this| this.run().await);
