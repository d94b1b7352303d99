//! A router that serves on this machine.

use std::net::{Ipv4Addr, SocketAddr, TcpListener};
use std::time::Duration;

use axum::Router;
use tokio::runtime::{Builder, Runtime};
use zk_curator_real::free_port;

use super::error::{BrowserError, io_error};

/// The time that the tasks of a site may take to end, also on a busy machine.
const END: Duration = Duration::from_secs(30);

/// A router that serves on a free port of 127.0.0.1, in a runtime of its own. Dropping it ends it,
/// and all of its connections, as if its process were killed.
#[derive(Debug)]
pub struct Site {
    addr: SocketAddr,
    runtime: Option<Runtime>,
}

impl Site {
    /// Serves a router. Connections are accepted when this returns.
    pub fn serve(router: Router) -> Result<Self, BrowserError> {
        let addr = SocketAddr::from((Ipv4Addr::LOCALHOST, free_port()?));
        Ok(Self { addr, runtime: Some(begin(addr, router)?) })
    }

    /// Returns the address of a path, for example `http://127.0.0.1:20123/` for `/`.
    #[must_use]
    pub fn url(&self, path: &str) -> String {
        format!("http://{}{path}", self.addr)
    }

    /// Ends the site. New connections are refused when this returns. Has no effect if the site is
    /// stopped.
    ///
    /// # Cancel safety
    /// The site ends even if the future is dropped.
    pub async fn stop(&mut self) {
        let Some(runtime) = self.runtime.take() else { return };
        // The thread of a test may not wait for a runtime.
        let ended = tokio::task::spawn_blocking(move || runtime.shutdown_timeout(END));
        drop(ended.await);
    }

    /// Serves a router at the same address, after [`stop`](Self::stop) or in the place of the
    /// present one.
    ///
    /// # Cancel safety
    /// If the future is dropped, the site is stopped.
    pub async fn restart(&mut self, router: Router) -> Result<(), BrowserError> {
        self.stop().await;
        self.runtime = Some(begin(self.addr, router)?);
        Ok(())
    }
}

impl Drop for Site {
    fn drop(&mut self) {
        if let Some(runtime) = self.runtime.take() {
            runtime.shutdown_background();
        }
    }
}

fn begin(addr: SocketAddr, router: Router) -> Result<Runtime, BrowserError> {
    let listener = TcpListener::bind(addr)
        .and_then(|listener| listener.set_nonblocking(true).map(|()| listener))
        .map_err(io_error("listen on", addr.to_string()))?;
    let runtime = Builder::new_multi_thread().worker_threads(1).enable_all().build();
    let runtime = runtime.map_err(io_error("start", "a runtime"))?;
    runtime.spawn(async move {
        let listener = tokio::net::TcpListener::from_std(listener)?;
        axum::serve(listener, router).await
    });
    Ok(runtime)
}
