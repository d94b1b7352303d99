//! The place of a client.

use std::ops::RangeInclusive;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU32, Ordering};
use std::time::Duration;

use zk_curator_client::internal::Locked;
use zk_curator_testing::{MemoryConnector, TestCluster};

use crate::client::{Ending, Rounds};
use crate::history::ProcessId;
use crate::process::Process;

/// The state of a client that outlasts its lives.
pub(super) struct ClientSlot {
    pub(super) number: u32,
    pub(super) incarnation: Arc<AtomicU32>,
    pub(super) begun: Rounds,
    /// The handle that ends the present life before its work is done.
    pub(super) ending: Arc<Locked<Arc<Ending>>>,
    pub(super) process: Option<Process>,
    /// The processes that were killed, or have finished.
    pub(super) former: Vec<Process>,
    /// The present machine of the client.
    pub(super) host: Arc<Locked<MemoryConnector>>,
    /// The earlier machines of the client.
    pub(super) former_hosts: Vec<MemoryConnector>,
    /// The latency of the network of the client.
    pub(super) latency: Option<RangeInclusive<Duration>>,
    pub(super) finished: bool,
    pub(super) paused: Arc<AtomicBool>,
}

impl ClientSlot {
    pub(super) fn new(number: u32, cluster: &TestCluster) -> Self {
        Self {
            number,
            incarnation: Arc::default(),
            begun: Rounds::default(),
            ending: Arc::default(),
            process: None,
            former: Vec::new(),
            host: Arc::new(Locked::new(cluster.connector())),
            former_hosts: Vec::new(),
            latency: None,
            finished: false,
            paused: Arc::default(),
        }
    }

    pub(super) fn who(&self) -> ProcessId {
        ProcessId::Client {
            number: self.number,
            incarnation: self.incarnation.load(Ordering::Relaxed),
        }
    }

    pub(super) fn is_paused(&self) -> bool {
        self.paused.load(Ordering::Relaxed)
    }

    pub(super) fn host(&self) -> MemoryConnector {
        self.host.lock().clone()
    }
}
