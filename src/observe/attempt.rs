use std::fmt;
use std::sync::Arc;

use super::{HoldMode, Recorder, Step, UseOutcome};
use crate::core::FencingToken;

/// An attempt to hold a resource, which records its steps. If it is dropped without success, it
/// records [`Missed`](Step::Missed).
///
/// ```
/// # use zk_curator::{CreateMode, CuratorFramework, Error};
/// use zk_curator::observe::{Attempt, HoldMode, Recorder, UseOutcome};
///
/// /// Writes the report if no other process does.
/// async fn report(zk: &CuratorFramework, recorder: &impl Recorder) -> Result<(), Error> {
///     let attempt = Attempt::begin(recorder, "report", HoldMode::Exclusive);
///     let node = zk.create("/reporter").mode(CreateMode::Ephemeral).owned().await?;
///     // Declared after the guard, so that it is dropped before the guard.
///     let held = attempt.acquired(node.ownership().fencing_token());
///     let written = node.ownership().fenced().set_data("/report", "…").commit().await?;
///     let version = written[0].stat().map_or(0, |stat| stat.version);
///     held.used(UseOutcome::Accepted(version.unsigned_abs().into()));
///     Ok(())
/// }
/// ```
#[must_use = "dropping it records that nothing was acquired"]
pub struct Attempt<R: Recorder>(Option<Hold<R>>);

/// The belief to hold a resource. When it is dropped, it records [`Releasing`](Step::Releasing).
/// Declare it after the guard, so that it is dropped first.
#[must_use = "dropping it records that the resource is released"]
pub struct Held<R: Recorder> {
    hold: Option<Hold<R>>,
    token: FencingToken,
}

/// The release of a resource in progress. If it is dropped, it records nothing, because it is
/// unknown if the resource was held until then.
#[must_use = "says whether the release was confirmed"]
pub struct Release<R: Recorder>(Option<Hold<R>>);

/// An attempt, and the hold that it leads to.
struct Hold<R> {
    recorder: R,
    resource: Arc<str>,
    mode: HoldMode,
    number: u64,
}

impl<R: Recorder> Hold<R> {
    /// Records a step that names only the hold.
    fn tell(&self, step: impl FnOnce(u64) -> Step<'static>) {
        self.recorder.record(step(self.number));
    }
}

impl<R: Recorder> Attempt<R> {
    /// Records that a resource is about to be acquired. Call it before the call that acquires it.
    pub fn begin(recorder: R, resource: impl Into<Arc<str>>, mode: HoldMode) -> Self {
        let (number, resource) = (recorder.next_attempt(), resource.into());
        recorder.record(Step::Acquiring { resource: &resource, mode, hold: number });
        Self(Some(Hold { recorder, resource, mode, number }))
    }

    /// Records that the resource is held, with the token of the guard.
    pub fn acquired(mut self, token: FencingToken) -> Held<R> {
        let hold = self.0.take();
        if let Some(Hold { recorder, resource, mode, number }) = &hold {
            recorder.record(Step::Acquired { resource, mode: *mode, hold: *number, token });
        }
        Held { hold, token }
    }
}

impl<R: Recorder> Drop for Attempt<R> {
    fn drop(&mut self) {
        if let Some(hold) = self.0.take() {
            hold.tell(|hold| Step::Missed { hold });
        }
    }
}

impl<R: Recorder> Held<R> {
    /// Records that the resource was used, with the token of this hold.
    pub fn used(&self, outcome: UseOutcome) {
        if let Some(Hold { recorder, resource, number, .. }) = &self.hold {
            recorder.record(Step::Used { resource, hold: *number, token: self.token, outcome });
        }
    }

    /// Records that the resource is known to be lost.
    pub fn lost(mut self) {
        if let Some(hold) = self.hold.take() {
            hold.tell(|hold| Step::Lost { hold });
        }
    }

    /// Records that the resource is about to be released. Call it before the call that releases it.
    pub fn releasing(mut self) -> Release<R> {
        let hold = self.hold.take();
        if let Some(hold) = &hold {
            hold.tell(|hold| Step::Releasing { hold });
        }
        Release(hold)
    }
}

impl<R: Recorder> Drop for Held<R> {
    fn drop(&mut self) {
        if let Some(hold) = self.hold.take() {
            hold.tell(|hold| Step::Releasing { hold });
        }
    }
}

impl<R: Recorder> Release<R> {
    /// Records that a server has confirmed the release.
    pub fn released(self) {
        if let Some(hold) = self.0 {
            hold.tell(|hold| Step::Released { hold });
        }
    }
}

impl<R> fmt::Debug for Hold<R> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { resource, mode, number, .. } = self;
        write!(f, "{resource} ({mode:?}), #{number}")
    }
}

impl<R: Recorder> fmt::Debug for Attempt<R> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("Attempt").field(&self.0).finish()
    }
}

impl<R: Recorder> fmt::Debug for Held<R> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Held").field("hold", &self.hold).field("token", &self.token).finish()
    }
}

impl<R: Recorder> fmt::Debug for Release<R> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("Release").field(&self.0).finish()
    }
}

#[cfg(test)]
mod tests {
    use std::sync::{Arc, Mutex};

    use super::{Attempt, Held, HoldMode, Recorder, Step, UseOutcome};
    use crate::FencingToken;

    #[derive(Default)]
    struct Lines(Mutex<Vec<String>>);

    impl Recorder for Lines {
        fn record(&self, step: Step<'_>) {
            self.0.lock().unwrap().push(step.to_string());
        }

        fn next_attempt(&self) -> u64 {
            7
        }
    }

    fn lines(service: impl FnOnce(&dyn Recorder)) -> Vec<String> {
        let lines = Lines::default();
        service(&lines);
        lines.0.into_inner().unwrap()
    }

    fn token() -> FencingToken {
        FencingToken::new(0x1f)
    }

    #[test]
    fn dropped_attempt_is_missed() {
        let dropped =
            lines(|recorder| drop(Attempt::begin(recorder, "orders", HoldMode::Exclusive)));
        assert_eq!(dropped, ["acquiring orders (Exclusive), #7", "missed #7"]);
    }

    #[test]
    fn hold_ends_once() {
        let held = |end: fn(Held<&dyn Recorder>)| {
            let lines = lines(|recorder| {
                end(Attempt::begin(recorder, "o", HoldMode::Leader).acquired(token()));
            });
            assert_eq!(lines[1], "acquired o (Leader), #7, token 0x1f");
            lines[2..].to_vec()
        };
        assert_eq!(held(|held| drop(held)), ["releasing #7"]);
        assert_eq!(held(|held| held.lost()), ["lost #7"]);
        assert_eq!(held(|held| drop(held.releasing())), ["releasing #7"]);
        assert_eq!(held(|held| held.releasing().released()), ["releasing #7", "released #7"]);
        let used = held(|held| held.used(UseOutcome::Accepted(3)));
        assert_eq!(used, ["used o, #7, token 0x1f: Accepted(3)", "releasing #7"]);
    }

    #[test]
    fn handles_of_a_recorder_are_recorders() {
        let lines = Arc::new(Lines::default());
        let held = Attempt::begin(Arc::clone(&lines), "o", HoldMode::Lease);
        assert_eq!(held.0.as_ref().unwrap().number, 7);
        drop(held);
        assert_eq!(lines.0.lock().unwrap().len(), 2);
    }
}
