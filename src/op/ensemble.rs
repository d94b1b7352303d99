use zk_curator_client::{Data, Error as RawError, Reconfiguration, Version};

use super::{OpTarget, awaits, call_options, output};
use crate::ensemble::EnsembleConfig;
use crate::error::{Error, ErrorKind, Result};
use crate::framework::CuratorFramework;
use crate::raw::RawClient;
use crate::watch::Watched;

impl CuratorFramework {
    /// Reads the configuration of the ensemble.
    ///
    /// **Awaiting returns** an [`EnsembleConfig`](crate::ensemble::EnsembleConfig).
    pub fn get_config(&self) -> ConfigBuilder {
        ConfigBuilder::new(self.clone())
    }

    /// Changes the members of the ensemble.
    ///
    /// **Awaiting returns** the new [`EnsembleConfig`](crate::ensemble::EnsembleConfig).
    pub fn reconfig(&self) -> ReconfigBuilder {
        ReconfigBuilder::new(self.clone())
    }
}

/// Reads the configuration of the ensemble, `/zookeeper/config`, regardless of namespace and
/// chroot.
#[derive(Debug)]
#[must_use = "nothing is sent until it is awaited"]
pub struct ConfigBuilder<R = output::Plain> {
    target: OpTarget<R>,
}

impl ConfigBuilder {
    pub(crate) fn new(zk: CuratorFramework) -> Self {
        Self { target: OpTarget::new(zk, "get_config", String::new()) }
    }

    /// **Awaiting returns** a [`Watched`] [`EnsembleConfig`]: the watch fires when the
    /// configuration changes.
    pub fn watched(self) -> ConfigBuilder<output::Watched> {
        ConfigBuilder { target: self.target.with_output() }
    }
}

fn config<R>(target: &OpTarget<R>, answer: &Data) -> Result<EnsembleConfig> {
    let malformed = |why| Error::new(ErrorKind::Malformed, target.operation, "").with_source(why);
    EnsembleConfig::parse(&answer.data).map_err(malformed)
}

call_options!(ConfigBuilder<R>);

awaits!(ConfigBuilder => EnsembleConfig, |this| {
    let answer = this.target.read_within(&mut this.target.budget(), "", |raw, _| raw.get_config()).await?;
    config(&this.target, &answer)
});

awaits!(ConfigBuilder<output::Watched> => Watched<EnsembleConfig>, |this| {
    let send = |raw: &dyn RawClient, _: &str| raw.get_config_watched();
    let (answer, watch) = this.target.read_within(&mut this.target.budget(), "", send).await?;
    // Its path is the server's, regardless of the namespace.
    Ok(Watched::within(config(&this.target, &answer)?, watch, &this.target.zk, crate::namespace::Namespace::default()))
});

/// Changes the members of the ensemble. The servers must have `reconfigEnabled`, and this client
/// needs permission to write to `/zookeeper/config`.
///
/// Names either the servers that [join](Self::joining) and [leave](Self::leaving), or all
/// [members](Self::members). Fails with `InvalidArgument` if both or neither are named, with
/// `BadVersion`, `NoAuth`, and with the codes `ReconfigDisabled`, `NewConfigNoQuorum`,
/// `ReconfigInProgress`.
///
/// With a version, the request is repeated after an unknown outcome. Without one it fails with
/// [`may_have_applied`](crate::Error::may_have_applied).
///
/// # Cancel safety
/// Once the future was polled, the members may be changed.
#[derive(Debug)]
#[must_use = "nothing is sent until it is awaited"]
pub struct ReconfigBuilder {
    target: OpTarget,
    joining: Vec<String>,
    leaving: Vec<String>,
    members: Vec<String>,
    version: Version<i64>,
}

impl ReconfigBuilder {
    pub(crate) fn new(zk: CuratorFramework) -> Self {
        let target = OpTarget::new(zk, "reconfig", String::new());
        Self {
            target,
            joining: Vec::new(),
            leaving: Vec::new(),
            members: Vec::new(),
            version: Version::Any,
        }
    }

    /// Adds or changes servers, in the form of a configuration file:
    /// `server.4=host:2888:3888;2181`.
    pub fn joining<S: Into<String>>(mut self, servers: impl IntoIterator<Item = S>) -> Self {
        self.joining.extend(servers.into_iter().map(Into::into));
        self
    }

    /// Removes servers by their ids, such as `4`.
    pub fn leaving<S: Into<String>>(mut self, ids: impl IntoIterator<Item = S>) -> Self {
        self.leaving.extend(ids.into_iter().map(Into::into));
        self
    }

    /// Replaces all members, in the form of a configuration file: `server.4=host:2888:3888;2181`.
    pub fn members<S: Into<String>>(mut self, servers: impl IntoIterator<Item = S>) -> Self {
        self.members.extend(servers.into_iter().map(Into::into));
        self
    }

    /// Sets the version that the configuration must have ([`EnsembleConfig::version`]); -1 for any,
    /// as in Java. Default: any.
    pub fn from_config(mut self, version: impl Into<Version<i64>>) -> Self {
        self.version = version.into();
        self
    }

    fn change(&self) -> Result<Reconfiguration> {
        let Self { joining, leaving, members, version, .. } = self;
        let (joining, leaving, members) = (joining.clone(), leaving.clone(), members.clone());
        let version = *version;
        match (joining.is_empty() && leaving.is_empty(), members.is_empty()) {
            (true, false) => Ok(Reconfiguration::Members { members, version }),
            (false, true) => Ok(Reconfiguration::Incremental { joining, leaving, version }),
            _ => {
                let why = "either members that join or leave, or all members";
                Err(self.target.error(RawError::InvalidArgument(why)))
            }
        }
    }
}

call_options!(ReconfigBuilder);

awaits!(ReconfigBuilder => EnsembleConfig, |this| {
    let change = this.change()?;
    let send = |raw: &dyn RawClient| raw.reconfig(&change);
    let answer = this.target.write(&mut this.target.budget(), this.version.is_exact(), send).await?;
    config(&this.target, &answer)
});
