//! The [`Spawn`] trait, which starts the tasks of a client.

use std::fmt::Debug;
use std::future::Future;
use std::pin::Pin;

use tokio::runtime::Handle;

/// A task of a client. It ends by itself.
pub type BackgroundTask = Pin<Box<dyn Future<Output = ()> + Send>>;

/// Starts the background tasks of a client.
///
/// By default they run on the runtime in which the client is created. If that runtime may be busy
/// for longer than a session lasts (handlers that block, long computations), give the tasks a
/// separate runtime, by its [`Handle`]. Pings are sent and responses read there, so the session
/// stays alive. A starved task of the service still does not notice that its lock is lost. The
/// futures of operations run where they are awaited.
///
/// ```
/// # fn main() -> Result<(), Box<dyn std::error::Error>> {
/// use std::sync::Arc;
/// use zk_curator_client::ZooKeeper;
///
/// let sessions = tokio::runtime::Builder::new_multi_thread()
///     .worker_threads(1)
///     .thread_name("zookeeper")
///     .enable_all()
///     .build()?;
/// let zk = ZooKeeper::builder("zk1:2181").spawner(Arc::new(sessions.handle().clone())).connect()?;
/// # drop(zk);
/// # Ok(()) }
/// ```
///
/// Other implementations may wrap the tasks, for example to count them or, in a simulation, to stop
/// and end them.
pub trait Spawn: Debug + Send + Sync + 'static {
    /// Starts a task within a tokio runtime with timers and, for TCP, I/O enabled. This method must
    /// not block. If it drops the task, the client ends.
    fn spawn(&self, task: BackgroundTask);
}

impl Spawn for Handle {
    fn spawn(&self, task: BackgroundTask) {
        drop(Self::spawn(self, task));
    }
}
