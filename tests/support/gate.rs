//! Background tasks that stop while others run.

use std::future::poll_fn;
use std::pin::Pin;
use std::sync::{Arc, Mutex};
use std::task::{Poll, Waker};

use zk_curator::CuratorFramework;
use zk_curator_client::{BackgroundTask, Spawn};
use zk_curator_testing::TestServer;

use crate::{builder, start};

/// Stops the background tasks of a framework, as a stop of their runtime would.
#[derive(Debug, Default)]
pub struct Gate {
    waiting: Mutex<Option<Vec<Waker>>>,
}

impl Gate {
    /// Stops the tasks when they are polled next.
    pub fn close(&self) {
        *self.waiting.lock().unwrap() = Some(Vec::new());
    }

    /// Continues the tasks, after [`close`](Self::close).
    pub fn open(&self) {
        self.waiting
            .lock()
            .unwrap()
            .take()
            .expect("it was closed")
            .into_iter()
            .for_each(Waker::wake);
    }
}

#[derive(Debug)]
struct Gated(Arc<Gate>);

impl Spawn for Gated {
    fn spawn(&self, mut task: BackgroundTask) {
        let gate = Arc::clone(&self.0);
        tokio::spawn(poll_fn(move |cx| {
            if let Some(waiting) = &mut *gate.waiting.lock().unwrap() {
                waiting.push(cx.waker().clone());
                return Poll::Pending;
            }
            Pin::new(&mut task).poll(cx)
        }));
    }
}

/// Starts a framework whose background tasks can be stopped. Frameworks that are made from it share
/// the gate.
pub async fn gated(server: &TestServer) -> (CuratorFramework, Arc<Gate>) {
    let gate = Arc::new(Gate::default());
    let zk = start(builder(server).spawner(Arc::new(Gated(Arc::clone(&gate))))).await;
    (zk, gate)
}
