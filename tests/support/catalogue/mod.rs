//! The catalogue of public calls: one row for each call that is async, with the set-up that it
//! needs. Drivers disturb all of them alike.

mod discovery;
mod framework;
mod locks;
mod queues;
mod recipes;

use std::any::Any;
use std::cell::{Cell, RefCell};
use std::fmt;
use std::rc::Rc;
use std::time::SystemTime;

use futures_util::FutureExt as _;
use futures_util::future::{LocalBoxFuture, try_join};
use tokio::time::Instant;
use zk_curator::{CuratorFramework, CuratorFrameworkBuilder, Error, ErrorKind, Recoverable};
use zk_curator_testing::TestServer;

use crate::{builder, start};

/// A public call.
#[non_exhaustive]
#[derive(Debug, Clone, Copy)]
pub struct Row {
    /// The area, the type and the method, then a comma and the case, if there are several.
    pub name: &'static str,
    /// The set-up, whose output is the call.
    pub set_up: fn(Stage) -> LocalBoxFuture<'static, Result<Call, Failure>>,
}

/// A call that was set up. Its output keeps the nodes that a user would keep, such as a guard.
pub type Call = LocalBoxFuture<'static, Result<Box<dyn Any>, Failure>>;
/// The settings of a framework.
pub type Setting = fn(CuratorFrameworkBuilder, &TestServer) -> CuratorFrameworkBuilder;
/// The settings of the framework of the call, and of the other one.
pub type Settings = [Setting; 2];

/// All rows.
pub fn rows() -> impl Iterator<Item = Row> {
    let areas = [framework::ROWS, locks::ROWS, queues::ROWS, recipes::ROWS, discovery::ROWS];
    areas.into_iter().flatten().copied()
}

/// Lists rows: a name, the statements of the set-up, and the call.
macro_rules! list {
    ($($name:literal: |$stage:ident| { $($set_up:tt)* } => $call:expr;)*) => {
        pub(super) const ROWS: &[super::Row] = &[$(super::Row {
            name: $name,
            set_up: |$stage| Box::pin(async move {
                $($set_up)*
                let call: super::Call = Box::pin(async move {
                    let kept: Box<dyn std::any::Any> = Box::new($call);
                    Ok(kept)
                });
                Ok(call)
            }),
        }),*];
    };
}
use list;

impl Row {
    /// The public call without the case.
    pub fn call(&self) -> &'static str {
        self.name.split(',').next().unwrap()
    }

    /// The name of the area.
    pub fn area(&self) -> &'static str {
        self.name.split(':').next().unwrap()
    }

    /// The name of the method.
    pub fn method(&self) -> &'static str {
        self.call().rsplit(':').next().unwrap()
    }
}

/// What a row is set up on.
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

/// An error of any recipe.
#[non_exhaustive]
#[derive(Debug, Clone)]
pub struct Failure {
    /// The kind of the error of the framework, if it is one.
    pub kind: Option<ErrorKind>,
    pub operation: &'static str,
    pub path: String,
    pub is_retryable: bool,
    pub may_have_applied: bool,
    pub text: String,
}

impl fmt::Display for Failure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} (kind {:?}", self.text, self.kind)?;
        f.write_str(if self.may_have_applied { ", may have applied)" } else { ")" })
    }
}

impl Failure {
    /// An expectation of a row that was not met.
    pub fn new(text: impl Into<String>) -> Self {
        let (kind, operation, path) = (None, "", String::new());
        let (is_retryable, may_have_applied) = (false, false);
        Self { kind, operation, path, is_retryable, may_have_applied, text: text.into() }
    }

    fn of(error: &(impl Recoverable + fmt::Display), flags: [bool; 2]) -> Self {
        let [is_retryable, may_have_applied] = flags;
        let inner = error.framework_error();
        Self {
            kind: inner.map(Error::kind),
            operation: inner.map_or("", Error::operation),
            path: inner.map_or("", Error::path).to_owned(),
            is_retryable,
            may_have_applied,
            text: error.to_string(),
        }
    }
}

impl From<Error> for Failure {
    fn from(error: Error) -> Self {
        Self::of(&error, [error.is_transient(), error.may_have_applied()])
    }
}

macro_rules! failures {
    ($($error:ty),*) => {
        $(impl From<$error> for Failure {
            fn from(error: $error) -> Self {
                Self::of(&error, [error.is_retryable(), error.may_have_applied()])
            }
        })*
    };
}

failures! {
    zk_curator_recipes::barrier::Error,
    zk_curator_recipes::config::Error,
    zk_curator_recipes::counter::Error,
    zk_curator_recipes::lease::Error,
    zk_curator_recipes::lock::Error,
    zk_curator_recipes::migration::Error,
    zk_curator_recipes::name::Error,
    zk_curator_recipes::partition::Error,
    zk_curator_recipes::queue::Error,
    zk_curator_recipes::schedule::Error,
    zk_curator_recipes::shared::Error,
    zk_curator_recipes::stm::Error,
    zk_curator_recipes::two_phase::Error
}

impl From<zk_curator_recipes::leader::Error> for Failure {
    fn from(error: zk_curator_recipes::leader::Error) -> Self {
        let closed = matches!(error, zk_curator_recipes::leader::Error::Closed);
        let failure = Self::of(&error, [error.is_retryable(), error.may_have_applied()]);
        Self { kind: failure.kind.or_else(|| closed.then_some(ErrorKind::Closed)), ..failure }
    }
}

impl From<zk_curator_discovery::RegistrationError> for Failure {
    fn from(error: zk_curator_discovery::RegistrationError) -> Self {
        let inner = error.framework_error();
        let applied = inner.is_some_and(Error::may_have_applied);
        let is_retryable = inner.is_some_and(Error::is_transient);
        Self::of(&error, [is_retryable, applied])
    }
}
