//! A gate keeps an instance out of traffic while a check in its process fails.

use std::sync::Arc;
use std::time::Duration;

use tokio::sync::oneshot;
use tokio::time::timeout;
use tracing::{info, warn};
use zk_curator::internal::{Signal, sleep};
use zk_curator::{CuratorFramework, Error};

use super::shared::{RecordChange, RecordEdit, RegistrationShared};
use super::state::Gate;

/// The shortest time between two checks.
const SHORTEST: Duration = Duration::from_millis(10);

impl Gate {
    /// Applies an edit of the user, who sees and sets `enabled` as if there were no gate.
    pub(super) fn through(self, enabled: &mut bool, edit: impl FnOnce(&mut bool)) -> Self {
        match self {
            Self::Closed { wanted } if !*enabled => {
                *enabled = wanted;
                edit(enabled);
                Self::Closed { wanted: std::mem::replace(enabled, false) }
            }
            // An operator has put the instance back. That counts until the check fails again.
            Self::Closed { .. } => {
                edit(enabled);
                Self::Closed { wanted: *enabled }
            }
            Self::Open => {
                edit(enabled);
                Self::Open
            }
        }
    }

    /// Takes the instance out of traffic, because the check fails.
    pub(super) const fn close(self, enabled: &mut bool) -> Self {
        match self {
            Self::Open => Self::Closed { wanted: std::mem::replace(enabled, false) },
            Self::Closed { .. } => self,
        }
    }

    /// Puts the instance back, if the user wants it, because the check passes.
    pub(super) const fn open(self, enabled: &mut bool) -> Self {
        if let Self::Closed { wanted: true } = self {
            *enabled = true;
        }
        Self::Open
    }
}

/// Returns the edit that opens the gate (`true`) or closes it.
pub(super) type Move = Box<dyn Fn(bool) -> RecordEdit + Send + Sync>;

/// The task of a gate.
pub(super) struct Keeper {
    pub(super) zk: CuratorFramework,
    pub(super) shared: Arc<Signal<RegistrationShared>>,
    pub(super) gate: u64,
    pub(super) every: Duration,
    pub(super) edit: Move,
}

/// A move of the gate that is being written.
struct GateMove {
    opens: bool,
    result: oneshot::Receiver<Result<(), Error>>,
}

impl Keeper {
    /// Runs the check until the registration ends, or has another gate.
    pub(super) async fn run<C: Future<Output = bool>>(self, check: impl FnMut() -> C) {
        let is_over = |shared: &RegistrationShared| {
            shared.has_ended || shared.ending.is_some() || shared.gates != self.gate
        };
        tokio::select! {
            biased;
            () = self.shared.until(is_over) => {}
            () = self.follow(check) => {}
        }
    }

    async fn follow<C: Future<Output = bool>>(&self, mut check: impl FnMut() -> C) {
        let every = self.every.max(SHORTEST);
        // The position of the gate that the ensemble has; `None` if that is not known. At first, a
        // move of an earlier gate may be under way.
        let mut is_open = None;
        let mut pending: Option<GateMove> = None;
        loop {
            let passes = timeout(every, check()).await.unwrap_or(false);
            if let Some(GateMove { opens, mut result }) = pending.take() {
                match result.try_recv() {
                    Ok(Ok(())) => is_open = Some(opens),
                    Ok(Err(error)) => {
                        self.zk.report_background_error(error);
                        is_open = None;
                    }
                    Err(oneshot::error::TryRecvError::Empty) if opens == passes => {
                        pending = Some(GateMove { opens, result });
                    }
                    // Another result follows, or the registration has ended.
                    Err(_) => is_open = None,
                }
            }
            if pending.is_none() && is_open != Some(passes) {
                pending = self.push(passes);
            }
            sleep(every).await;
        }
    }

    /// Queues a move of the gate. It replaces an earlier move that was not sent yet.
    fn push(&self, opens: bool) -> Option<GateMove> {
        let (change, result) = moved(&self.edit, opens);
        let (path, is_gated, _dropped) = self.shared.modify(|shared| {
            if shared.gates != self.gate || shared.has_ended || shared.ending.is_some() {
                return None;
            }
            Some((shared.path.clone(), shared.is_gated, shared.queue(change)))
        })?;
        match (opens, is_gated) {
            (true, true) => info!(path, "the check passes: the instance is put back into traffic"),
            (false, false) => warn!(path, "the check fails: the instance is taken out of traffic"),
            _ => {}
        }
        Some(GateMove { opens, result })
    }
}

/// Returns a move of the gate, and its result.
pub(super) fn moved(
    edit: &Move,
    opens: bool,
) -> (RecordChange, oneshot::Receiver<Result<(), Error>>) {
    let (done, result) = oneshot::channel();
    let change = RecordChange { is_of_gate: true, ..RecordChange::repeatable(edit(opens), done) };
    (change, result)
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[derive(Debug, Clone, Copy)]
    enum Step {
        Check(bool),
        User(bool),
        Operator(bool),
    }

    fn steps() -> impl Strategy<Value = Vec<Step>> {
        let step = (0..3, any::<bool>()).prop_map(|(kind, on)| match kind {
            0 => Step::Check(on),
            1 => Step::User(on),
            _ => Step::Operator(on),
        });
        prop::collection::vec(step, 0..40)
    }

    proptest! {
        /// In traffic only if the check passes and the user wants it, or an operator has said so.
        #[test]
        fn user_and_check_both_have_to_agree(steps in steps()) {
            let (mut gate, mut enabled, mut wanted, mut passes) = (Gate::Open, true, true, true);
            let mut is_overridden = false;
            for step in steps {
                match step {
                    Step::Check(now) if now != passes => {
                        passes = now;
                        is_overridden &= !now;
                        gate = if now {
                            gate.open(&mut enabled)
                        } else {
                            gate.close(&mut enabled)
                        };
                    }
                    Step::Check(_) => {}
                    Step::User(on) => {
                        wanted = on;
                        gate = gate.through(&mut enabled, |enabled| *enabled = on);
                        is_overridden &= on;
                    }
                    Step::Operator(on) => {
                        // While the gate is closed, only `true` can be told from its own.
                        if passes {
                            wanted = on;
                        } else {
                            is_overridden = on;
                        }
                        enabled = on;
                    }
                }
                if is_overridden {
                    prop_assert!(enabled, "{step:?}");
                } else if !passes {
                    prop_assert!(!enabled, "{step:?}");
                } else if matches!(step, Step::User(_)) {
                    prop_assert_eq!(enabled, wanted);
                }
            }
            // Once the user has spoken with the gate open, that holds.
            gate = gate.open(&mut enabled);
            gate = gate.through(&mut enabled, |enabled| *enabled = false);
            gate = gate.close(&mut enabled);
            let gate = gate.open(&mut enabled);
            prop_assert!(!enabled && gate == Gate::Open);
        }
    }
}
