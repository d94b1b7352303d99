use bytes::Bytes;
use zk_curator_client::{Error as RawError, ErrorCode, Stat};

use super::{Target, awaits};
use crate::error::Result;
use crate::framework::CuratorFramework;
use crate::retry::Budget;
use crate::schema::Intent;

/// Replaces the data of a node. Fails with `NoNode`, `BadVersion`, `TooLarge`.
///
/// With a version, it is repeated after an unknown outcome. Without one it is not, because a repetition could
/// overwrite what somebody else has written since; it then fails with
/// [`may_have_applied`](crate::Error::may_have_applied).
#[derive(Debug)]
#[must_use = "nothing is sent until it is awaited"]
pub struct SetDataBuilder {
    target: Target,
    data: Bytes,
    version: Option<i32>,
    compressed: Option<bool>,
}

impl SetDataBuilder {
    pub(crate) const fn new(zk: CuratorFramework, path: String, data: Bytes) -> Self {
        Self { target: Target::new(zk, "set_data", path), data, version: None, compressed: None }
    }

    /// The version that the data must have. Default: any.
    pub const fn version(mut self, version: i32) -> Self {
        self.version = Some(version);
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

    async fn run(mut self) -> Result<Stat> {
        let path = self.target.server_path()?;
        self.target.admit(Intent::Write { data: &self.data, acl: &[] })?;
        self.data = self.target.compress(self.compressed, self.data)?;
        let mut budget = Budget::new(self.target.zk.core());
        let mut unknown = None;
        loop {
            let session = self.target.session()?;
            match session.raw.set_data(&path, &self.data, self.version).await {
                Ok(stat) => return Ok(stat),
                // Refused the second time: the first may be why.
                Err(RawError::Refused(ErrorCode::BadVersion | ErrorCode::NoNode)) if unknown.is_some() => {
                    return unknown.map_or_else(|| Err(self.target.error(RawError::UnexpectedAnswer)), Err);
                }
                Err(error) => {
                    let error = self.target.error(error);
                    if error.may_have_applied() {
                        if self.version.is_none() {
                            return Err(error);
                        }
                        unknown.get_or_insert_with(|| error.clone());
                    }
                    budget
                        .spend(error, session.epoch)
                        .await
                        .map_err(|last| unknown.take().unwrap_or(last))?;
                }
            }
        }
    }
}

awaits!(SetDataBuilder => Stat, |this| this.run().await);
