//! [`FencedSends`]: the order of fenced sends and of ends of ownerships, between threads.

use zk_curator_client::internal::Locked;

/// Lets a send that depends on an ownership come before the end of the ownership, or never.
#[derive(Debug, Default)]
pub(crate) struct FencedSends(Locked<()>);

impl FencedSends {
    /// Sends, unless `lost` finds the reason why not.
    pub(crate) fn send_unless<T, E>(
        &self,
        lost: impl FnOnce() -> Option<E>,
        send: impl FnOnce() -> T,
    ) -> Result<T, E> {
        let _ends_later = self.0.lock();
        match lost() {
            Some(lost) => Err(lost),
            None => Ok(send()),
        }
    }

    /// Ends an ownership. What depends on it was sent before this returns, or is never sent.
    pub(crate) fn end<T>(&self, end: impl FnOnce() -> T) -> T {
        let _no_send = self.0.lock();
        end()
    }
}

#[cfg(all(test, zk_threads))]
mod threads {
    use std::sync::Arc;

    use shuttle::thread;
    use zk_curator_client::internal::atomic::{AtomicBool, Ordering};

    use super::*;

    /// A lock is passed on to another task, which uses it at once, while the former holder sends.
    #[test]
    fn nothing_is_sent_after_the_end() {
        shuttle::check_dfs(
            || {
                let sends = Arc::new(FencedSends::default());
                let (is_over, sent) = (Arc::new(AtomicBool::new(false)), Arc::default());
                let former = {
                    let (sends, is_over, sent) =
                        (Arc::clone(&sends), Arc::clone(&is_over), Arc::clone(&sent));
                    thread::spawn(move || {
                        let lost = || is_over.load(Ordering::Acquire).then_some(());
                        sends.send_unless(lost, || record(&sent, "former")).is_ok()
                    })
                };
                sends.end(|| is_over.store(true, Ordering::Release));
                record(&sent, "next");
                let was_sent = former.join().expect("no panic");
                let expected = if was_sent { vec!["former", "next"] } else { vec!["next"] };
                assert_eq!(*sent.lock(), expected);
            },
            None,
        );
    }

    fn record(sent: &Locked<Vec<&'static str>>, who: &'static str) {
        sent.lock().push(who);
    }
}
