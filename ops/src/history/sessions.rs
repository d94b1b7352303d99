//! The sessions in the logs.

use std::collections::BTreeMap;

use zk_curator::SessionId;

use super::change::{Moment, SessionEnd};
use super::error::Result;
use super::index::Index;
use super::logs::Logs;
use super::records::{Record, Txn};
#[cfg(feature = "serde")]
use super::serial;
use super::snapshot::Snapshot;

/// A session, as far as the files tell it. Local sessions are not in the logs.
#[derive(Debug, Clone, PartialEq, Eq)]
#[cfg_attr(feature = "serde", derive(serde::Serialize))]
#[non_exhaustive]
pub struct SessionHistory {
    /// The session.
    #[cfg_attr(feature = "serde", serde(serialize_with = "serial::session"))]
    pub id: SessionId,
    /// Its timeout in milliseconds; `None` if it began before the logs and no snapshot contains it.
    pub timeout_ms: Option<i32>,
    /// Its begin; `None` if it began before the logs, or is local.
    pub begun: Option<Moment>,
    /// Its end and the reason; `None` if it did not end within the logs.
    pub ended: Option<(Moment, SessionEnd)>,
    /// Its last request that is in the logs: its begin, a change, a failed request, or its end by
    /// the client. Reads and pings are not in the logs.
    pub last: Option<Moment>,
    /// The number of its requests in the logs, including begin and end.
    pub transactions: u64,
}

impl SessionHistory {
    pub(super) const fn new(id: SessionId) -> Self {
        Self { id, timeout_ms: None, begun: None, ended: None, last: None, transactions: 0 }
    }

    /// Returns `true` if a transaction of this id begins another session. Servers derive ids from
    /// the time since their host was started, which can repeat.
    pub(super) const fn is_replaced_by(&self, record: &Record<'_>) -> bool {
        self.ended.is_some() && matches!(record.txn, Txn::CreateSession { .. })
    }

    /// Adds a transaction of the session.
    pub(super) fn add(&mut self, record: &Record<'_>) {
        if self.is_replaced_by(record) {
            *self = Self::new(self.id);
        }
        let at = Moment::of(&record.header);
        self.transactions += 1;
        match record.txn {
            Txn::CreateSession { timeout_ms } => {
                (self.timeout_ms, self.begun) = (Some(timeout_ms), Some(at));
            }
            Txn::CloseSession(_) => {
                let end = SessionEnd::of(&record.header);
                // The client can close it while it expires. The first of both has ended it.
                self.ended = self.ended.or(Some((at, end)));
                if end == SessionEnd::Server {
                    return;
                }
            }
            _ => {}
        }
        self.last = Some(at);
    }
}

impl Index {
    /// Returns the sessions in the logs and snapshots, sorted by id: all of them, or the
    /// [selected](Index::session) one. If an id was used again, the last session with it. Other
    /// filters have no effect. The memory is bounded by the number of sessions.
    ///
    /// # Errors
    /// The errors of reading the files.
    pub fn sessions(&self) -> Result<Vec<SessionHistory>> {
        let mut sessions = BTreeMap::new();
        let is_selected =
            |id: SessionId| self.selection.session.is_none_or(|selected| selected == id);
        for (id, timeout_ms) in self.snapshot_sessions()? {
            if is_selected(id) {
                let session = sessions.entry(id).or_insert_with(|| SessionHistory::new(id));
                session.timeout_ms = Some(timeout_ms);
            }
        }
        let mut logs = self.logs();
        while let Some(record) = logs.next_record()? {
            let id = record.header.session;
            // The leader's own requests have no session.
            if id.get() != 0 && is_selected(id) {
                let session = sessions.entry(id).or_insert_with(|| SessionHistory::new(id));
                session.add(&record);
            }
        }
        Ok(sessions.into_values().collect())
    }

    /// Returns a reader of all logs.
    pub(super) fn logs(&self) -> Logs {
        self.settings.logs(&self.files)
    }

    /// Returns the sessions in the snapshots. Only the beginning of the files is read.
    pub(super) fn snapshot_sessions(&self) -> Result<Vec<(SessionId, i32)>> {
        let mut sessions = Vec::new();
        for file in &self.files.snapshots {
            match Snapshot::open(&file.path) {
                Ok(snapshot) => {
                    let found = snapshot.sessions().iter();
                    sessions.extend(found.map(|session| (session.id, session.timeout_ms)));
                }
                Err(error) if self.settings.passes_over(&error) => {}
                Err(error) => return Err(error),
            }
        }
        sessions.sort_unstable();
        sessions.dedup();
        Ok(sessions)
    }
}
