//! A site over an embedded server.

use std::time::Duration;

use axum::Router;
use zk_curator::{CuratorFramework, CuratorFrameworkBuilder};
use zk_curator_testing::TestServer;

use super::error::BrowserError;
use super::site::Site;

/// The session timeout, which the servers grant.
const SESSION: Duration = Duration::from_secs(40);

/// Connects a client whose session does not end on a busy machine.
///
/// # Cancel safety
/// If the future is dropped, nothing stays.
pub async fn connect(builder: CuratorFrameworkBuilder) -> Result<CuratorFramework, BrowserError> {
    let zk = builder.session_timeout(SESSION).connection_timeout(SESSION).build()?;
    zk.start().await?;
    Ok(zk)
}

/// A [`Site`] whose router uses a framework that is connected to an embedded server.
#[derive(Debug)]
pub struct Explorer {
    site: Site,
    zk: CuratorFramework,
    server: TestServer,
}

impl Explorer {
    /// Starts a server, a framework, and a site with the router that `router` makes for this
    /// framework.
    ///
    /// # Panics
    /// As [`TestServer::start`].
    ///
    /// # Cancel safety
    /// If the future is dropped, nothing stays.
    pub async fn start(
        router: impl FnOnce(&CuratorFramework) -> Router,
    ) -> Result<Self, BrowserError> {
        let server = TestServer::start().await;
        let zk = connect(server.framework()).await?;
        Ok(Self { site: Site::serve(router(&zk))?, zk, server })
    }

    /// Returns the server, which can fail.
    #[must_use]
    pub const fn server(&self) -> &TestServer {
        &self.server
    }

    /// Returns the framework of the router.
    #[must_use]
    pub const fn zk(&self) -> &CuratorFramework {
        &self.zk
    }

    /// Returns the site, which can be stopped.
    pub const fn site(&mut self) -> &mut Site {
        &mut self.site
    }

    /// Returns the address of a path, as [`Site::url`].
    #[must_use]
    pub fn url(&self, path: &str) -> String {
        self.site.url(path)
    }
}
