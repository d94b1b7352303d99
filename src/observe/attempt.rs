use std::fmt;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

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
pub struct Attempt<R: Recorder>(Hold<R>);

/// The belief to hold a resource. It ends with [`lost`](Self::lost), [`releasing`](Self::releasing)
/// or its drop, which records [`Releasing`](Step::Releasing). Declare it after the guard, so that
/// it is dropped first.
#[must_use = "dropping it records that the resource is released"]
pub struct Held<R: Recorder> {
    hold: Hold<R>,
    token: FencingToken,
}

/// An attempt, and the hold that it leads to. Its drop records the end, if there was none.
struct Hold<R: Recorder> {
    recorder: R,
    resource: Arc<str>,
    mode: HoldMode,
    number: u64,
    is_held: bool,
    is_over: AtomicBool,
}

impl<R: Recorder> Hold<R> {
    /// Records the end of the attempt or of the hold. Only the first end counts.
    fn end(&self, step: Step<'static>) {
        if !self.is_over.swap(true, Ordering::Relaxed) {
            self.recorder.record(step);
        }
    }
}

impl<R: Recorder> Drop for Hold<R> {
    fn drop(&mut self) {
        let hold = self.number;
        self.end(if self.is_held { Step::Releasing { hold } } else { Step::Missed { hold } });
    }
}

impl<R: Recorder> Attempt<R> {
    /// Records that a resource is about to be acquired. Call it before the call that acquires it.
    pub fn begin(recorder: R, resource: impl Into<Arc<str>>, mode: HoldMode) -> Self {
        let (number, resource) = (recorder.next_attempt(), resource.into());
        recorder.record(Step::Acquiring { resource: &resource, mode, hold: number });
        let (is_held, is_over) = (false, AtomicBool::new(false));
        Self(Hold { recorder, resource, mode, number, is_held, is_over })
    }

    /// Returns the number of the attempt, and of the hold that it leads to.
    #[must_use]
    pub const fn number(&self) -> u64 {
        self.0.number
    }

    /// Replaces the resource, for an attempt that learns it only when it succeeds: the next item of
    /// a queue, for example.
    pub fn for_resource(mut self, resource: impl Into<Arc<str>>) -> Self {
        self.0.resource = resource.into();
        self
    }

    /// Records that the resource is held, with the token of the guard.
    pub fn acquired(self, token: FencingToken) -> Held<R> {
        let mut hold = self.0;
        hold.is_held = true;
        let Hold { recorder, resource, mode, number, .. } = &hold;
        recorder.record(Step::Acquired { resource, mode: *mode, hold: *number, token });
        Held { hold, token }
    }
}

impl<R: Recorder> Held<R> {
    /// Returns the resource.
    #[must_use]
    pub fn resource(&self) -> &str {
        &self.hold.resource
    }

    /// Returns the way in which the resource is held.
    #[must_use]
    pub const fn mode(&self) -> HoldMode {
        self.hold.mode
    }

    /// Returns the number of the hold.
    #[must_use]
    pub const fn number(&self) -> u64 {
        self.hold.number
    }

    /// Returns the token of the guard.
    #[must_use]
    pub const fn token(&self) -> FencingToken {
        self.token
    }

    /// Records that the resource was used, with the token of this hold. A service that goes on
    /// after the end of the hold records its uses, too.
    pub fn used(&self, outcome: UseOutcome) {
        let Hold { recorder, resource, number, .. } = &self.hold;
        recorder.record(Step::Used { resource, hold: *number, token: self.token, outcome });
    }

    /// Records that the resource is known to be lost, unless the hold has ended before.
    pub fn lost(&self) {
        self.hold.end(Step::Lost { hold: self.number() });
    }

    /// Records that the resource is about to be released, unless the hold has ended before. Call it
    /// before the call that releases it.
    pub fn releasing(&self) {
        self.hold.end(Step::Releasing { hold: self.number() });
    }

    /// Records that a server has confirmed the release: the resource was held until
    /// [`releasing`](Self::releasing) was called. If the outcome of the release is unknown, do not
    /// call it.
    pub fn released(&self) {
        self.releasing();
        self.hold.recorder.record(Step::Released { hold: self.number() });
    }
}

impl<R: Recorder> fmt::Debug for Hold<R> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { resource, mode, number, .. } = self;
        write!(f, "{resource} ({mode}), #{number}")
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
        assert_eq!(dropped, ["acquiring orders (exclusive), #7", "missed #7"]);
    }

    #[test]
    fn hold_ends_once() {
        let held = |end: fn(Held<&dyn Recorder>)| {
            let lines = lines(|recorder| {
                end(Attempt::begin(recorder, "o", HoldMode::Leader).acquired(token()));
            });
            assert_eq!(lines[1], "acquired o (leader), #7, token 0x1f");
            lines[2..].to_vec()
        };
        assert_eq!(held(|held| drop(held)), ["releasing #7"]);
        assert_eq!(held(|held| held.lost()), ["lost #7"]);
        assert_eq!(held(|held| held.releasing()), ["releasing #7"]);
        assert_eq!(held(|held| held.released()), ["releasing #7", "released #7"]);
        let lost = held(|held| {
            held.lost();
            held.releasing();
        });
        assert_eq!(lost, ["lost #7"]);
    }

    #[test]
    fn use_is_recorded_until_the_drop() {
        let used = lines(|recorder| {
            let attempt =
                Attempt::begin(recorder, "queue", HoldMode::Exclusive).for_resource("item");
            let held = attempt.acquired(token());
            held.used(UseOutcome::Accepted(3));
            held.lost();
            held.used(UseOutcome::Refused);
        });
        let steps = [
            "acquiring queue (exclusive), #7",
            "acquired item (exclusive), #7, token 0x1f",
            "used item, #7, token 0x1f: accepted as use 3",
            "lost #7",
            "used item, #7, token 0x1f: refused",
        ];
        assert_eq!(used, steps);
    }

    #[test]
    fn handles_of_a_recorder_are_recorders() {
        let lines = Arc::new(Lines::default());
        let attempt = Attempt::begin(Arc::clone(&lines), "o", HoldMode::Permit);
        assert_eq!(attempt.number(), 7);
        drop(attempt);
        assert_eq!(lines.0.lock().unwrap().len(), 2);
    }
}
