use bytes::Bytes;
use zk_curator_client::{Stat, Version};

use super::parents::Parents;
use super::transaction_op::SetDataOp;
use super::{Target, Transaction, awaits, call_options};
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
/// With a version, it is repeated after an unknown outcome. Without one it is not, because a repetition could
/// overwrite what somebody else has written since, unless it is [`idempotent`](Self::idempotent); it then fails
/// with [`may_have_applied`](crate::Error::may_have_applied). A [`certain`](Self::certain) one finds out.
///
/// # Cancel safety
/// Once polled, the data may be replaced.
#[derive(Debug)]
#[must_use = "nothing is sent until it is awaited"]
pub struct SetDataBuilder {
    target: Target,
    data: Bytes,
    version: Version,
    idempotent: bool,
    compressed: Option<bool>,
}

impl SetDataBuilder {
    pub(crate) fn new(zk: CuratorFramework, path: String, data: Bytes) -> Self {
        let target = Target::new(zk, "set_data", path);
        Self { target, data, version: Version::Any, idempotent: false, compressed: None }
    }

    /// The version that the data must have; -1 for any, as in Java. Default: any.
    pub fn version(mut self, version: impl Into<Version>) -> Self {
        self.version = version.into();
        self
    }

    /// Succeeds, too, when the node has the data already: with a version if it is of the next one, which this
    /// write or an equal one has made. Repeats a write without a version after an unknown outcome.
    pub const fn idempotent(mut self) -> Self {
        self.idempotent = true;
        self
    }

    /// Stores the data compressed. Default: as the [framework](crate::CuratorFrameworkBuilder::enable_compression) does.
    pub const fn compressed(mut self) -> Self {
        self.compressed = Some(true);
        self
    }

    /// Stores the data as they are, also where the framework compresses.
    pub const fn uncompressed(mut self) -> Self {
        self.compressed = Some(false);
        self
    }

    /// Returns a transaction of this one operation.
    pub(crate) fn into_transaction(self) -> Transaction {
        let Self { target, data, version, idempotent, compressed } = self;
        let op = SetDataOp { path: target.path.clone(), data, version, compressed };
        let conflict = idempotent.then_some("a certain write cannot be idempotent");
        Transaction::single(target, op, Parents::default(), conflict)
    }

    async fn run(mut self) -> Result<Stat> {
        let path = self.target.server_path()?;
        self.target.admit(Intent::Write { data: Some(&self.data), acl: &[] })?;
        self.data = self.target.compress(self.compressed, self.data)?;
        let write = Write { data: &self.data, version: self.version, idempotent: self.idempotent };
        write.run(&self.target, &mut self.target.budget(), &path).await
    }
}

/// A replacement of data, by itself or as part of a create.
pub(super) struct Write<'a> {
    pub(super) data: &'a Bytes,
    pub(super) version: Version,
    pub(super) idempotent: bool,
}

impl Write<'_> {
    /// `path` is the server's.
    pub(super) async fn run<R>(
        &self,
        target: &Target<R>,
        budget: &mut Budget<'_>,
        path: &str,
    ) -> Result<Stat> {
        let repeatable = self.idempotent || self.version.is_exact();
        let written =
            target.write(budget, repeatable, |raw| raw.set_data(path, self.data, self.version)).await;
        match written {
            Err(error) if self.may_be_done(&error) && target.zk.state().is_connected() => {
                let present = target.read_within(budget, path, |raw, path| raw.get_data(path)).await;
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
