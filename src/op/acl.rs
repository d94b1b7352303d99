use zk_curator_client::{Acl, Stat, Version};

use super::{OpTarget, awaits, call_options, output};
use crate::framework::CuratorFramework;
use crate::schema::Intent;

impl CuratorFramework {
    /// Reads the access control list of a node.
    ///
    /// **Awaiting returns** `Vec<Acl>`, or with [`with_stat`](GetAclBuilder::with_stat)
    /// `(Vec<Acl>, Stat)`.
    pub fn get_acl(&self, path: impl Into<String>) -> GetAclBuilder {
        GetAclBuilder::new(self.clone(), path.into())
    }

    /// Replaces the access control list of a node.
    ///
    /// **Awaiting returns** the new [`Stat`](crate::Stat).
    pub fn set_acl(&self, path: impl Into<String>, acl: Vec<Acl>) -> SetAclBuilder {
        SetAclBuilder::new(self.clone(), path.into(), acl)
    }
}

/// Reads the access control list of a node. Fails with `NoNode`, `NoAuth`.
///
/// If the client may not change the list, passwords of the scheme `digest` are shown as `x`.
#[derive(Debug)]
#[must_use = "nothing is sent until it is awaited"]
pub struct GetAclBuilder<R = output::Plain> {
    target: OpTarget<R>,
}

impl GetAclBuilder {
    pub(crate) fn new(zk: CuratorFramework, path: String) -> Self {
        Self { target: OpTarget::new(zk, "get_acl", path) }
    }

    /// **Awaiting returns** `(Vec<Acl>, Stat)`.
    pub fn with_stat(self) -> GetAclBuilder<output::WithStat> {
        GetAclBuilder { target: self.target.with_output() }
    }
}

call_options!(GetAclBuilder<R>);

awaits!(GetAclBuilder => Vec<Acl>, |this| {
    this.target.read(|raw, path| raw.get_acl(path)).await.map(|answer| answer.acl)
});

awaits!(GetAclBuilder<output::WithStat> => (Vec<Acl>, Stat), |this| {
    this.target.read(|raw, path| raw.get_acl(path)).await.map(|answer| (answer.acl, answer.stat))
});

/// Replaces the access control list of a node. Fails with `NoNode`, `BadVersion`, `InvalidAcl`,
/// `NoAuth`.
///
/// With a version, the write is repeated after an unknown outcome. Without one it is not repeated,
/// and fails with [`may_have_applied`](crate::Error::may_have_applied).
///
/// # Cancel safety
/// Once the future was polled, the list may be replaced.
#[derive(Debug)]
#[must_use = "nothing is sent until it is awaited"]
pub struct SetAclBuilder {
    target: OpTarget,
    acl: Vec<Acl>,
    version: Version,
}

impl SetAclBuilder {
    pub(crate) fn new(zk: CuratorFramework, path: String, acl: Vec<Acl>) -> Self {
        Self { target: OpTarget::new(zk, "set_acl", path), acl, version: Version::Any }
    }

    /// Sets the version that the list must have ([`Stat::aversion`]), which is not that of the
    /// data; -1 for any, as in Java. Default: any.
    pub fn version(mut self, version: impl Into<Version>) -> Self {
        self.version = version.into();
        self
    }
}

call_options!(SetAclBuilder);

awaits!(SetAclBuilder => Stat, |this| {
    let path = this.target.server_path()?;
    this.target.admit(Intent::Write { data: None, acl: &this.acl })?;
    let send = |raw: &dyn crate::raw::RawClient| raw.set_acl(&path, &this.acl, this.version);
    this.target.write(&mut this.target.budget(), this.version.is_exact(), send).await
});
