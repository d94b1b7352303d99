//! The framework for programs without async code, such as build tools and command lines.
//!
//! A [`CuratorFramework`] of this module has a runtime with one thread of its own, which keeps the
//! session alive whatever the program does. Its methods wait in the calling thread. All clones
//! share the session and the thread. [`run`](CuratorFramework::run) performs any operation of the
//! [async framework](crate::CuratorFramework), with all of its options; the methods for single
//! operations are short for it. Locks are in `zk_curator_recipes::blocking`.
//!
//! ```
//! # fn main() -> Result<(), Box<dyn std::error::Error>> {
//! # let runtime = tokio::runtime::Runtime::new()?;
//! # let server = runtime.block_on(zk_curator_testing::TestServer::start());
//! # let connect_string = server.connect_string();
//! use zk_curator::{CreateMode, CuratorFramework, blocking};
//!
//! let builder = CuratorFramework::builder().connect_string(connect_string);
//! let zk = blocking::CuratorFramework::connect(builder)?;
//! zk.create("/builds", "")?;
//! let mode = CreateMode::PersistentSequential;
//! let build = zk.run(|zk| zk.create("/builds/b-").mode(mode).protected().data("queued"))?;
//! zk.set_data(&build.path, "done")?;
//!
//! let states = zk.run(async |zk| {
//!     let mut states = Vec::new();
//!     for name in zk.children("/builds").await? {
//!         states.push(zk.get_data(format!("/builds/{name}")).await?);
//!     }
//!     Ok::<_, zk_curator::Error>(states)
//! })?;
//! assert_eq!(states, ["done"]);
//! zk.close()?;
//! # Ok(()) }
//! ```
//!
//! # In async code
//!
//! Methods that wait panic in async code, that is, in a task or a `block_on` of any tokio runtime:
//! "Cannot start a runtime from within a runtime". So they cannot wait for themselves. Async code
//! includes everything that the framework calls on its own thread, such as the tasks that
//! [`spawn`](crate::CuratorFramework::spawn) starts. Threads of `tokio::task::spawn_blocking` may
//! wait.
//!
//! # The end
//!
//! [`close`](CuratorFramework::close) ends the session and returns its errors. The drop of the last
//! clone closes as well, and waits for the end of the session, for the [close
//! timeout](CuratorFrameworkBuilder::close_timeout) at most, so that a program that ends with `?`
//! leaves nothing behind. In async code, and in other threads of a tokio runtime, it does not wait.
//! A failure is only logged, at WARN.
//!
//! A process that ends in another way leaves its ephemeral nodes, and so its locks, until the
//! session expires: by `std::process::exit`, by a signal, or with a clone in a `static` or in a
//! thread that still runs.

use std::fmt;
use std::future::IntoFuture;
use std::io;
use std::sync::Arc;
use std::thread::{self, JoinHandle};
use std::time::Duration;

use bytes::Bytes;
use tokio::runtime::{Builder, Handle};
use tokio::time::timeout;
use tokio_util::sync::CancellationToken;

use crate::{Created, CuratorFrameworkBuilder, Error, ErrorKind, Result, Stat};

/// The name of the thread.
const THREAD: &str = "zk-curator";

/// A handle to ZooKeeper whose methods wait in the calling thread: see the [module](self).
///
/// Cheap to clone. It is [`Send`] and [`Sync`]: threads may use one session together.
#[derive(Clone)]
pub struct CuratorFramework {
    shared: Arc<BlockingShared>,
}

struct BlockingShared {
    zk: crate::CuratorFramework,
    runtime: Handle,
    /// Cancelled with the last handle.
    unused: CancellationToken,
    thread: Option<JoinHandle<()>>,
}

impl CuratorFramework {
    /// Builds a framework, starts it on a thread of its own, and waits until a server is reached,
    /// at most for the [connection timeout](CuratorFrameworkBuilder::connection_timeout).
    ///
    /// # Errors
    /// As [`build`](CuratorFrameworkBuilder::build) and [`start`](crate::CuratorFramework::start).
    /// `ConnectionLoss`, with the [cause](Error::cause), if the operating system refuses a thread
    /// or its files. The framework is closed then.
    ///
    /// # Panics
    /// Panics in [async code](self#in-async-code).
    pub fn connect(builder: CuratorFrameworkBuilder) -> Result<Self> {
        let refused =
            |why| Error::new(ErrorKind::ConnectionLoss, "connect", "").because(Arc::new(why));
        let zk = Self { shared: Arc::new(BlockingShared::new(builder.build()?).map_err(refused)?) };
        zk.run(|zk| zk.start())?;
        Ok(zk)
    }

    /// Returns the async framework. It belongs to the thread of this one, and is closed with it.
    #[must_use]
    pub fn framework(&self) -> &crate::CuratorFramework {
        &self.shared.zk
    }

    /// Performs an operation, and waits for its result: a builder of the [async
    /// framework](crate::CuratorFramework), or any future. It runs in the calling thread, so it may
    /// borrow, and need not be [`Send`]. Several threads may call this at the same time.
    ///
    /// ```
    /// # fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// # let runtime = tokio::runtime::Runtime::new()?;
    /// # let server = runtime.block_on(zk_curator_testing::TestServer::start());
    /// # let builder = zk_curator::CuratorFramework::builder().connect_string(server.connect_string());
    /// # let zk = zk_curator::blocking::CuratorFramework::connect(builder)?;
    /// # zk.create("/flag", "off")?;
    /// let mut flag = zk.framework().watch_data("/flag");
    /// let (data, _) = zk.run(|_| flag.next())?.expect("the node exists");
    /// assert_eq!(data, "off");
    /// # Ok(()) }
    /// ```
    ///
    /// # Panics
    /// Panics in [async code](self#in-async-code), and if the operation does.
    pub fn run<'a, F, Fut>(&'a self, operation: F) -> Fut::Output
    where
        F: FnOnce(&'a crate::CuratorFramework) -> Fut,
        Fut: IntoFuture,
    {
        let zk = &self.shared.zk;
        self.shared.runtime.block_on(async move { operation(zk).await })
    }

    /// Performs an operation as [`run`](Self::run) does, but drops it after a time, and returns
    /// `None`. "Cancel safety" in the documentation of the operation says what may remain. Cleanup
    /// of a dropped operation continues in the background, and `close` waits for it.
    ///
    /// Operations also have a deadline of their own, whose error tells if they may have been
    /// applied: `zk.run(|zk| zk.set_data("/a", "x").deadline(time))`.
    ///
    /// Zero only begins the operation. More than 30 years are no limit.
    ///
    /// # Panics
    /// Panics in [async code](self#in-async-code), and if the operation does.
    pub fn run_within<'a, F, Fut>(&'a self, time: Duration, operation: F) -> Option<Fut::Output>
    where
        F: FnOnce(&'a crate::CuratorFramework) -> Fut,
        Fut: IntoFuture,
    {
        self.run(async |zk| timeout(time, operation(zk)).await.ok())
    }

    /// Creates a persistent node: short for `run(|zk| zk.create(path).data(data))`.
    ///
    /// # Errors
    /// As [`CreateBuilder`](crate::op::CreateBuilder).
    ///
    /// # Panics
    /// Panics in [async code](self#in-async-code).
    pub fn create(&self, path: impl Into<String>, data: impl Into<Bytes>) -> Result<Created> {
        self.run(|zk| zk.create(path).data(data))
    }

    /// Reads the data of a node.
    ///
    /// # Errors
    /// As [`GetDataBuilder`](crate::op::GetDataBuilder).
    ///
    /// # Panics
    /// Panics in [async code](self#in-async-code).
    pub fn get_data(&self, path: impl Into<String>) -> Result<Bytes> {
        self.run(|zk| zk.get_data(path))
    }

    /// Replaces the data of a node, in any version.
    ///
    /// # Errors
    /// As [`SetDataBuilder`](crate::op::SetDataBuilder).
    ///
    /// # Panics
    /// Panics in [async code](self#in-async-code).
    pub fn set_data(&self, path: impl Into<String>, data: impl Into<Bytes>) -> Result<Stat> {
        self.run(|zk| zk.set_data(path, data))
    }

    /// Deletes a node, in any version.
    ///
    /// # Errors
    /// As [`DeleteBuilder`](crate::op::DeleteBuilder).
    ///
    /// # Panics
    /// Panics in [async code](self#in-async-code).
    pub fn delete(&self, path: impl Into<String>) -> Result<()> {
        self.run(|zk| zk.delete(path))
    }

    /// Returns the stat of a node; `None` if it does not exist.
    ///
    /// # Errors
    /// As [`ExistsBuilder`](crate::op::ExistsBuilder).
    ///
    /// # Panics
    /// Panics in [async code](self#in-async-code).
    pub fn exists(&self, path: impl Into<String>) -> Result<Option<Stat>> {
        self.run(|zk| zk.exists(path))
    }

    /// Returns the names of the children of a node, in no order.
    ///
    /// # Errors
    /// As [`ChildrenBuilder`](crate::op::ChildrenBuilder).
    ///
    /// # Panics
    /// Panics in [async code](self#in-async-code).
    pub fn children(&self, path: impl Into<String>) -> Result<Vec<String>> {
        self.run(|zk| zk.children(path))
    }

    /// Closes the framework, for all clones: performs the pending cleanup, and ends the session,
    /// within the [close timeout](CuratorFrameworkBuilder::close_timeout). Threads that wait for an
    /// operation get the error `Closed`.
    ///
    /// # Errors
    /// As [`close`](crate::CuratorFramework::close) of the async framework.
    ///
    /// # Panics
    /// Panics in [async code](self#in-async-code).
    pub fn close(&self) -> Result<()> {
        self.run(|zk| zk.close())
    }
}

impl fmt::Debug for CuratorFramework {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.shared.zk.fmt(f)
    }
}

impl BlockingShared {
    fn new(zk: crate::CuratorFramework) -> io::Result<Self> {
        let runtime = Builder::new_current_thread().enable_all().thread_name(THREAD).build()?;
        let (handle, unused) = (runtime.handle().clone(), CancellationToken::new());
        let (closing, last) = (zk.clone(), unused.clone());
        let serve = move || {
            // Calls borrow a handle, so none is left when the runtime ends.
            runtime.block_on(async {
                last.cancelled().await;
                // The framework logs what fails.
                drop(closing.close().await);
            });
            // The lookup of a host name cannot be ended.
            runtime.shutdown_background();
        };
        let thread = thread::Builder::new().name(THREAD.to_owned()).spawn(serve)?;
        Ok(Self { zk, runtime: handle, unused, thread: Some(thread) })
    }
}

impl Drop for BlockingShared {
    fn drop(&mut self) {
        self.unused.cancel();
        // Async code must not wait, and the thread of the runtime cannot wait for itself.
        if Handle::try_current().is_err()
            && let Some(thread) = self.thread.take()
        {
            // An error means that the thread has panicked, which was printed.
            drop(thread.join());
        }
    }
}
