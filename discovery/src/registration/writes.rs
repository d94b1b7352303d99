//! The writes of changes of the record.

use std::time::Duration;

use bytes::Bytes;
use zk_curator::internal::unless_it_panics;
use zk_curator::retry::RetryNTimes;
use zk_curator::{Error, ErrorKind};

use super::attempt::{UnansweredWrite, WriteOutcome};
use super::driver::RegistrationDriver;
use super::machine::FoundNode;
use super::shared::RecordChange;
use super::state::Gate;
use crate::json::{is_document, is_enabled};

/// The outcome of writing a change.
enum Wrote {
    All,
    /// The response was lost, and others have written since: the error of the attempt.
    Perhaps(Error),
    /// The node was deleted or replaced.
    Nothing,
}

impl RegistrationDriver {
    /// Writes a change, if the node is still ours. The change stays queued if the node must be
    /// created first. `known` is the node as it was last read.
    pub(super) async fn change(
        &mut self,
        mut change: RecordChange,
        known: (FoundNode, Bytes),
    ) -> Result<(), Error> {
        let changed = self.write(&mut change, known).await;
        match changed {
            Ok(Wrote::All) => {
                change.answer(Ok(()));
                Ok(())
            }
            Ok(Wrote::Perhaps(error)) => {
                change.answer(Err(error));
                Ok(())
            }
            Ok(Wrote::Nothing) => {
                self.shared.modify(|shared| shared.changes.push_front(change));
                Ok(())
            }
            Err(error) if error.is_transient() || error.kind() == ErrorKind::SessionExpired => {
                self.shared.modify(|shared| shared.changes.push_front(change));
                Err(error)
            }
            Err(error) => {
                let unanswered = change.attempt.take().map(|attempt| attempt.error);
                change.answer(Err(unanswered.unwrap_or(error)));
                Ok(())
            }
        }
    }

    #[expect(clippy::too_many_lines, reason = "one write: send, judge, settle")]
    async fn write(
        &mut self,
        change: &mut RecordChange,
        known: (FoundNode, Bytes),
    ) -> Result<Wrote, Error> {
        let mut known = Some(known);
        loop {
            let known = known.take().filter(|_| change.attempt.is_none());
            let is_old = known.is_some();
            let known = match known {
                Some(known) => Some(known),
                None => self.read_own().await?,
            };
            let Some((found, data)) = known else { return Ok(Wrote::Nothing) };
            let attempt = change.attempt.take();
            let outcome = attempt.as_ref().map(|attempt| attempt.judge(&found, &data));
            if let (Some(attempt), Some(WriteOutcome::Applied)) = (&attempt, outcome) {
                self.wrote(data, attempt.gate);
                return Ok(Wrote::All);
            }
            let base = if is_document(&data) { &data } else { &self.record };
            let unknown = attempt.filter(|_| outcome == Some(WriteOutcome::Unknown));
            // An earlier attempt may have closed the gate, before another client has written, too.
            let closed = unknown.as_ref().map(|attempt| attempt.gate);
            let closed =
                closed.filter(|_| change.is_of_gate && matches!(is_enabled(base), Ok(false)));
            let gate = closed.unwrap_or(self.gate);
            let (new, gate) = match (self.edited(change, base, gate), unknown) {
                // It would change the record again.
                (Ok((new, _)), Some(attempt)) if new != data && !change.is_repeatable => {
                    return Ok(Wrote::Perhaps(attempt.error));
                }
                (Err(_), Some(attempt)) => return Ok(Wrote::Perhaps(attempt.error)),
                (edited, _) => edited?,
            };
            if new == data && !change.is_forced {
                if is_old {
                    // The record may be another one since.
                    continue;
                }
                self.wrote(data, gate);
                return Ok(Wrote::All);
            }
            // In the session of the node, if it has one. Not again after a lost response: two
            // attempts leave open which one was applied.
            let zk = if found.owner == 0 { self.zk.clone() } else { self.zk.bound_to_session()? };
            if self.is_of_before() {
                return Ok(Wrote::Nothing);
            }
            let write = zk.set_data(self.path.as_str(), new.clone()).version(found.version);
            match write.retry(RetryNTimes::new(0, Duration::ZERO)).await {
                Ok(stat) if Some(stat.czxid) == self.held() => {
                    self.wrote(new, gate);
                    return Ok(Wrote::All);
                }
                // The node was replaced between the read and the write, by one of the same version.
                Ok(_) => return Ok(Wrote::Nothing),
                // It was changed or deleted since it was read.
                Err(error) if matches!(error.kind(), ErrorKind::BadVersion | ErrorKind::NoNode) => {
                }
                Err(error) => {
                    if error.may_have_applied() {
                        let (czxid, version, before) = (found.czxid, found.version, data);
                        let error = error.clone();
                        change.attempt = Some(UnansweredWrite {
                            czxid,
                            version,
                            before,
                            data: new,
                            gate,
                            error,
                        });
                    }
                    return Err(error);
                }
            }
        }
    }

    /// Reads the node; `None` if it is not ours any more.
    async fn read_own(&mut self) -> Result<Option<(FoundNode, Bytes)>, Error> {
        match self.read().await? {
            Some((found, data)) if self.held() == Some(found.czxid) => Ok(Some((found, data))),
            found => {
                if !self.is_of_before() {
                    self.gone(found)?;
                }
                Ok(None)
            }
        }
    }

    /// Returns the record after a change, and the gate.
    fn edited(
        &self,
        change: &mut RecordChange,
        base: &Bytes,
        gate: Gate,
    ) -> Result<(Bytes, Gate), Error> {
        let edited = unless_it_panics(|| (change.edit)(base, gate));
        edited.unwrap_or_else(|| {
            Err(Error::invalid_argument("update", self.path.as_str(), "the edit has panicked"))
        })
    }

    /// The node has this record.
    fn wrote(&mut self, record: Bytes, gate: Gate) {
        self.record = record;
        if self.gate != gate {
            self.gate = gate;
            self.shared.modify(|shared| shared.is_gated = gate != Gate::Open);
        }
    }
}
