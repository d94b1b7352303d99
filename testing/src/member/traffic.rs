//! Counters of connections.

use zk_curator_proto::OpCode;

use crate::collections::Map;

/// Counters of a connection since its creation or the last reset.
#[derive(Debug, Clone)]
pub(crate) struct Traffic {
    pub(crate) received: u64,
    pub(crate) sent: u64,
    /// The last request, by its name in four-letter words.
    pub(crate) last_operation: &'static str,
    /// The last xid that was not negative.
    pub(crate) last_xid: i64,
    /// The zxid of the last response.
    pub(crate) last_zxid: i64,
    /// The time of the last response, in milliseconds since the server was created.
    pub(crate) last_response: u64,
    /// The creation time, in milliseconds since the Unix epoch.
    pub(crate) established: i64,
}

impl Traffic {
    pub(super) const fn since(established: i64) -> Self {
        let last_operation = "NA";
        Self {
            received: 0,
            sent: 0,
            last_operation,
            last_xid: -1,
            last_zxid: -1,
            last_response: 0,
            established,
        }
    }
}

/// Counters of a member since the server was created.
#[derive(Debug, Clone, Default)]
pub(crate) struct Counters {
    pub(crate) requests: Map<OpCode, u64>,
    pub(crate) notifications: u64,
    pub(crate) connections: u64,
    /// Packets since the creation or the last reset.
    pub(crate) received: u64,
    pub(crate) sent: u64,
}
