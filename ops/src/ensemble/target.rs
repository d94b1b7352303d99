//! The servers to probe, and the framework that may help.

use std::fmt;
use std::pin::Pin;

use zk_curator::CuratorFramework;
use zk_curator_client::ConnectString;

use super::probe::{ProbeOptions, ProbedServer};
use crate::error::Error;

/// The future of [`FrameworkSource::framework`].
pub type FrameworkFuture<'a> =
    Pin<Box<dyn Future<Output = Option<&'a CuratorFramework>> + Send + 'a>>;

/// Provides a framework, and starts it only if a probe needs a session.
///
/// A [`CuratorFramework`] that is already started provides itself.
pub trait FrameworkSource: fmt::Debug + Send + Sync {
    /// Returns the framework if it was started before.
    fn started(&self) -> Option<&CuratorFramework>;

    /// Returns the framework, and starts it before if necessary. `None` if that failed.
    fn framework(&self) -> FrameworkFuture<'_>;
}

impl FrameworkSource for CuratorFramework {
    fn started(&self) -> Option<&CuratorFramework> {
        Some(self)
    }

    fn framework(&self) -> FrameworkFuture<'_> {
        Box::pin(std::future::ready(Some(self)))
    }
}

/// The servers of an ensemble, and how they are probed.
///
/// Most probes need no session: the servers respond to four-letter words without one. A framework
/// helps if they refuse the word `conf`: it then reads `/zookeeper/config`.
///
/// ```
/// # #[tokio::main(flavor = "current_thread")] async fn main() -> Result<(), Box<dyn std::error::Error>> {
/// # let server = zk_curator_testing::TestServer::start().await;
/// # let servers = server.connect_string();
/// use std::time::Duration;
///
/// use zk_curator_ops::ensemble::probe::ProbeOptions;
/// use zk_curator_ops::ensemble::words::FourLetterWord;
/// use zk_curator_ops::ensemble::{EnsembleProbe, health};
///
/// let options = ProbeOptions::new().within(Duration::from_secs(2));
/// let probe = EnsembleProbe::new(servers).with_options(options);
/// let (members, reports) = probe.survey(&[FourLetterWord::Srvr]).await?;
/// assert!(health::problems(&reports, members.voters()).is_empty());
/// assert_eq!(reports[0].role(), "standalone");
/// # Ok(()) }
/// ```
#[derive(Debug, Clone)]
pub struct EnsembleProbe<'a> {
    connect_string: String,
    options: ProbeOptions,
    source: Option<&'a dyn FrameworkSource>,
}

impl<'a> EnsembleProbe<'a> {
    /// Probes the servers of a connect string, without a session.
    #[must_use]
    pub fn new(connect_string: impl Into<String>) -> Self {
        Self {
            connect_string: connect_string.into(),
            options: ProbeOptions::default(),
            source: None,
        }
    }

    /// Probes the servers of a started framework. For servers with TLS,
    /// [`with_options`](Self::with_options) sets the connector.
    #[must_use]
    pub fn of(zk: &'a CuratorFramework) -> Self {
        Self::new(zk.connect_string()).with_framework(zk)
    }

    /// Sets how servers are probed. Default: [`ProbeOptions::new`].
    #[must_use]
    pub fn with_options(mut self, options: ProbeOptions) -> Self {
        self.options = options;
        self
    }

    /// Sets the framework for what needs a session. Default: none.
    #[must_use]
    pub fn with_framework(mut self, source: &'a dyn FrameworkSource) -> Self {
        self.source = Some(source);
        self
    }

    /// Returns how servers are probed.
    #[must_use]
    pub const fn options(&self) -> &ProbeOptions {
        &self.options
    }

    pub(crate) const fn source(&self) -> Option<&'a dyn FrameworkSource> {
        self.source
    }

    /// Returns the servers that the connect string names.
    ///
    /// # Errors
    /// [`InvalidConnectString`](Error::InvalidConnectString).
    pub fn named(&self) -> Result<Vec<ProbedServer>, Error> {
        let parsed: ConnectString = self.connect_string.parse()?;
        Ok(parsed.hosts.iter().map(ProbedServer::named).collect())
    }
}
