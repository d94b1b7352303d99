//! Debug builds warn of futures that are left alone when it is their turn.

use std::future::Future;

use zk_curator::CuratorFramework;

/// Awaits `wait`. In debug builds, a warning is logged if it was woken and then not polled for ten
/// seconds: the node at the path may then have an unused turn, for which other clients wait.
#[cfg(not(debug_assertions))]
pub(crate) async fn attended<F: Future>(_zk: &CuratorFramework, _path: &str, wait: F) -> F::Output {
    wait.await
}

#[cfg(debug_assertions)]
pub(crate) use debug::attended;

#[cfg(debug_assertions)]
mod debug {
    use std::future::poll_fn;
    use std::pin::pin;
    use std::sync::Arc;
    use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
    use std::task::{Context, Wake, Waker};
    use std::time::Duration;

    use tokio::runtime::Handle;
    use tokio::time::timeout;
    use tokio_util::sync::CancellationToken;
    use tracing::warn;
    use zk_curator::internal::Locked;

    use super::{CuratorFramework, Future};

    /// The time within which a woken future must be polled.
    const PATIENCE: Duration = Duration::from_secs(10);

    /// As of a release build, with a warning.
    pub(crate) async fn attended<F: Future>(
        zk: &CuratorFramework,
        path: &str,
        wait: F,
    ) -> F::Output {
        let attention = Arc::new(Attention {
            zk: zk.clone(),
            path: path.to_owned(),
            waker: Locked::new(Waker::noop().clone()),
            polls: AtomicU64::new(0),
            is_timed: AtomicBool::new(false),
            over: CancellationToken::new(),
        });
        let _over = attention.over.clone().drop_guard();
        let waker = Waker::from(Arc::clone(&attention));
        let mut wait = pin!(wait);
        poll_fn(|cx| {
            *attention.waker.lock() = cx.waker().clone();
            attention.polls.fetch_add(1, Ordering::Relaxed);
            wait.as_mut().poll(&mut Context::from_waker(&waker))
        })
        .await
    }

    /// The waker of a wait.
    struct Attention {
        zk: CuratorFramework,
        path: String,
        /// The waker of the task.
        waker: Locked<Waker>,
        polls: AtomicU64,
        /// `true` if a timer runs.
        is_timed: AtomicBool,
        /// Cancelled when the wait has ended, or was dropped: no timer outlives it.
        over: CancellationToken,
    }

    impl Wake for Attention {
        fn wake(self: Arc<Self>) {
            self.wake_by_ref();
        }

        fn wake_by_ref(self: &Arc<Self>) {
            let polls = self.polls.load(Ordering::Relaxed);
            // No timer without a runtime: then there is no warning.
            if Handle::try_current().is_ok() && !self.is_timed.swap(true, Ordering::Relaxed) {
                let this = Arc::clone(self);
                self.zk.spawn(async move {
                    if timeout(PATIENCE, this.over.cancelled()).await.is_ok() {
                        return;
                    }
                    this.is_timed.store(false, Ordering::Relaxed);
                    if this.polls.load(Ordering::Relaxed) == polls {
                        warn!(
                            path = this.path,
                            "a future was woken and left alone: it may hold a turn that others wait for"
                        );
                    }
                });
            }
            let waker = self.waker.lock().clone();
            waker.wake();
        }
    }
}
