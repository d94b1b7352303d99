//! Where the tasks of a client run: the [`Spawn`] trait.

use std::fmt::Debug;
use std::future::Future;
use std::pin::Pin;

use tokio::runtime::Handle;

/// A task of a client: it ends by itself.
pub type BackgroundTask = Pin<Box<dyn Future<Output = ()> + Send>>;

/// Starts the background tasks of a client.
///
/// Without one they run where the client is made. A service whose runtime may be busy for longer than a session lasts
/// (handlers that block, long computations) gives them a runtime of their own, which is what a
/// [`Handle`] is for: pings are sent and answers read there, so the session lives on. That keeps the session, not the
/// promise to do something about its loss: who holds a lock and does not get to run does not learn that it is lost
/// either. The futures of operations run where they are awaited.
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
/// Other implementations may wrap the tasks, to count them or, in a simulation, to stop and end them.
pub trait Spawn: Debug + Send + Sync + 'static {
    /// Starts a task, which has to run within a tokio runtime with its timers, and, for TCP, its I/O enabled. It must
    /// not block; a task that cannot be started is dropped, and the client has ended then.
    fn spawn(&self, task: BackgroundTask);
}

impl Spawn for Handle {
    fn spawn(&self, task: BackgroundTask) {
        drop(Self::spawn(self, task));
    }
}
