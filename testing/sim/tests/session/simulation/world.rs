//! The state that all parts of a simulation share.

use std::sync::atomic::{AtomicBool, AtomicI64};
use std::sync::{Arc, Mutex};

use bytes::Bytes;
use zk_curator_client::{Acl, CreateMode, Op};
use zk_curator_testing::TestServer;

use super::network::Network;
use super::trace::Trace;

/// The number of nodes of each kind that the writer changes.
pub(super) const NODES: usize = 3;

/// Returns the path of a node that the writer changes: long, so that only few paths fit into a
/// frame.
pub(crate) fn node(parent: &str, n: usize) -> String {
    format!("/{parent}/{n}{}", "x".repeat(100))
}

/// The counts of a run.
#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct Stats {
    pub(crate) answered: u64,
    pub(crate) failed: u64,
    pub(crate) reconnects: u64,
    pub(crate) expired: u64,
    pub(crate) fired: u64,
    pub(crate) changed: u64,
    pub(crate) rearmed: u64,
    pub(crate) unchanged: u64,
    pub(crate) written: u64,
    pub(crate) checkpoints: u64,
}

/// The state that all parts of a simulation share.
pub(crate) struct World {
    pub(super) server: TestServer,
    pub(super) network: Network,
    pub(super) trace: Arc<Mutex<Trace>>,
    pub(super) stats: Mutex<Stats>,
    pub(super) model: Mutex<Model>,
    /// The session of the client under test, for the rules of the server. Zero for none.
    pub(super) session: AtomicI64,
    /// `true` if the server was made to expire that session.
    pub(super) forced: AtomicBool,
    pub(super) seed: u64,
}

impl World {
    pub(super) fn note(&self, what: impl FnOnce() -> String) {
        self.trace.lock().unwrap().note(what);
    }

    pub(super) fn count(&self, count: impl FnOnce(&mut Stats)) {
        count(&mut self.stats.lock().unwrap());
    }
}

pub(crate) fn create(path: &str) -> Op {
    let mode = CreateMode::Persistent;
    Op::Create {
        path: path.to_owned(),
        data: Some(Bytes::new()),
        acl: Acl::open_unsafe(),
        mode,
        ttl: None,
    }
}

/// The state that the writer has produced.
#[derive(Debug, Default)]
pub(crate) struct Model {
    /// The data versions of `/v/n`.
    pub(crate) versions: [i32; NODES],
    /// The data versions after the present write.
    pub(crate) writing: [i32; NODES],
}
