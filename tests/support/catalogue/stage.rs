//! What a row is set up on.

use std::cell::{Cell, RefCell};
use std::rc::Rc;
use std::time::SystemTime;

use futures_util::FutureExt as _;
use futures_util::future::try_join;
use tokio::time::Instant;
use zk_curator::{CuratorFramework, CuratorFrameworkBuilder, ErrorKind};
use zk_curator_testing::TestServer;

use super::failure::Failure;
use crate::{builder, start};

/// The settings of a framework.
pub type Setting = fn(CuratorFrameworkBuilder, &TestServer) -> CuratorFrameworkBuilder;
/// The settings of the framework of the call, and of the other one.
pub type Settings = [Setting; 2];

/// A server, the framework of a call, and another one.
#[derive(Debug, Clone)]
pub struct Stage {
    pub server: TestServer,
    /// The framework of the call.
    pub zk: CuratorFramework,
    at: Rc<RefCell<String>>,
    /// Another framework, which is not disturbed.
    pub other: CuratorFramework,
    begun: Instant,
    callback: Rc<Callback>,
    settings: Settings,
}

/// What the callback of a user does.
#[derive(Debug, Default)]
struct Callback {
    panics: Cell<bool>,
    calls: Cell<usize>,
}

impl Stage {
    /// A server, and frameworks that have started.
    pub async fn new(at: &str, settings: Settings) -> Self {
        Self::latent(at, settings).await.started().await
    }

    /// A server, a framework that was not started, and another one that was.
    pub async fn latent(at: &str, settings: Settings) -> Self {
        let server = TestServer::builder().tcp(false).wall_clock(SystemTime::UNIX_EPOCH);
        Self::on(server.start().await.unwrap(), Instant::now(), at, settings).await
    }

    async fn on(server: TestServer, begun: Instant, at: &str, settings: Settings) -> Self {
        let [ours, theirs] = settings;
        let zk = ours(builder(&server), &server).build().unwrap();
        let other = start(theirs(builder(&server), &server)).await;
        Self {
            server,
            zk,
            at: Rc::new(RefCell::new(at.to_owned())),
            other,
            begun,
            callback: Rc::default(),
            settings,
        }
    }

    /// The time of the server.
    pub fn now(&self) -> impl Fn() -> SystemTime + Send + Sync + 'static {
        let begun = self.begun;
        move || SystemTime::UNIX_EPOCH + begun.elapsed()
    }

    async fn started(self) -> Self {
        self.zk.start().await.unwrap();
        self
    }

    /// Other frameworks on the same server.
    pub async fn again(&self) -> Self {
        let server = self.server.clone();
        Self::on(server, self.begun, &self.at(), self.settings).await.started().await
    }

    /// Deletes a node with another framework while a call waits.
    ///
    /// # Errors
    /// As every delete.
    pub async fn and_delete<T>(
        &self,
        call: impl Future<Output = T>,
        path: impl Into<String>,
    ) -> Result<T, Failure> {
        let delete = self.other.delete(path).quietly().into_future();
        let (output, _) = try_join(call.map(Ok), delete).await?;
        Ok(output)
    }

    /// Creates the node of the call with another framework while the call waits.
    ///
    /// # Errors
    /// As every create.
    pub async fn and_create<T>(&self, call: impl Future<Output = T>) -> Result<T, Failure> {
        let create = self.other.create(self.at()).data("1").into_future();
        let (output, _) = try_join(call.map(Ok), create).await?;
        Ok(output)
    }

    /// The path of the call.
    pub fn at(&self) -> String {
        self.at.borrow().clone()
    }

    /// Changes the path of the call, after the set-up.
    pub fn move_to(&self, at: &str) {
        at.clone_into(&mut self.at.borrow_mut());
    }

    /// A path below that of the call.
    pub fn below(&self, name: &str) -> String {
        format!("{}/{name}", self.at())
    }

    /// Another path, of the same validity.
    pub fn beside(&self, name: &str) -> String {
        format!("{}-{name}", self.at())
    }

    /// The stage as another client sees it, which may prepare what the call needs.
    #[must_use]
    pub fn there(&self) -> Self {
        Self { zk: self.other.clone(), ..self.clone() }
    }

    /// Creates the node of the call with another framework, unless its path is bad.
    ///
    /// # Errors
    /// As every create.
    pub async fn make(&self) -> Result<(), Failure> {
        match self.other.create(self.at()).data("0").await {
            Err(error) if error.kind() != ErrorKind::InvalidPath => Err(error.into()),
            _ => Ok(()),
        }
    }

    /// The callback of a user, which panics if the driver wants it.
    pub fn call_back(&self) {
        self.callback.calls.set(self.callback.calls.get() + 1);
        assert!(!self.callback.panics.get(), "the callback panics");
    }

    /// The number of callbacks so far.
    pub fn callbacks(&self) -> usize {
        self.callback.calls.get()
    }

    /// Makes the next callbacks panic.
    pub fn panic_in_callbacks(&self) {
        self.callback.panics.set(true);
    }
}
