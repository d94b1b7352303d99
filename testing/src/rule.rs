//! Fault rules: what is to happen to requests that match.
//!
//! A rule is a function from a request to a [`Verdict`]. It sees every request a server can decode, pings,
//! `auth` and `closeSession` included, but not the handshake of a connection. Rules are asked in the order of
//! their installation, and the first verdict other than [`Verdict::Pass`] wins.
//!
//! ```
//! # #[tokio::main(flavor = "current_thread")]
//! # async fn main() {
//! use zk_curator_testing::{TestServer, Verdict};
//!
//! let server = TestServer::in_memory().await;
//! let lost = server
//!     .rule(|request| if request.is_create_under("/locks") { Verdict::LoseReply } else { Verdict::Pass })
//!     .times(1);
//! assert_eq!(lost.hits(), 0);
//! # }
//! ```

use std::fmt;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, Weak};
use std::time::Duration;

use zk_curator_client::Signal;
use zk_curator_proto::records::{MultiOp, ReadOp};
use zk_curator_proto::{ErrorCode, OpCode, Request};

pub use crate::glob::matches as path_matches;

/// What happens to a request.
///
/// TCP does not lose a request and go on: a lost request or reply is a connection that ended.
#[non_exhaustive]
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Verdict {
    /// Nothing special.
    Pass,
    /// It arrives this much later, and with it everything the connection sends after it. It is applied
    /// *after* the delay, even when the client has closed the connection by then, as bytes in flight are; it
    /// is not when the server has ended the connection or the session has moved to another one. Watch events
    /// still reach the connection meanwhile, and other connections are not delayed.
    Delay(Duration),
    /// It is answered with this error and not applied.
    Refuse(ErrorCode),
    /// It is not applied. Answers and events from before it are still sent, then the connection ends.
    LoseRequest,
    /// It is applied. Answers and events from before it are still sent, then the connection ends: its answer
    /// and its events for the same connection are lost. Events for other connections go out.
    LoseReply,
    /// It is not applied and the connection ends at once: answers and events not yet sent are lost too.
    Disconnect,
}

/// A request as a rule sees it.
#[derive(Debug, Clone, Copy)]
pub struct RuleRequest<'a> {
    session_id: i64,
    request: &'a Request,
}

impl<'a> RuleRequest<'a> {
    pub(crate) const fn new(session_id: i64, request: &'a Request) -> Self {
        Self { session_id, request }
    }

    /// The session of the connection.
    #[must_use]
    pub const fn session_id(&self) -> i64 {
        self.session_id
    }

    /// The opcode in the header.
    #[must_use]
    pub const fn opcode(&self) -> OpCode {
        self.request.opcode()
    }

    /// The request itself.
    #[must_use]
    pub const fn request(&self) -> &'a Request {
        self.request
    }

    /// The node it is about; of a multi, that of its first operation. Without a sequence number.
    #[must_use]
    pub fn path(&self) -> Option<&'a str> {
        self.paths().next()
    }

    /// The nodes it is about: one, or of a multi or a multi read one per operation. Without sequence numbers.
    pub fn paths(&self) -> impl Iterator<Item = &'a str> {
        let reads = match self.request {
            Request::MultiRead(ops) => ops.as_slice(),
            _ => &[],
        };
        let ops = self.ops().iter().map(MultiOp::path).chain(reads.iter().map(ReadOp::path));
        self.request.path().into_iter().chain(ops)
    }

    /// Whether it, or any operation of a multi, is about this node.
    #[must_use]
    pub fn is_about(&self, path: &str) -> bool {
        self.paths().any(|about| about == path)
    }

    /// Whether it, or any operation of a multi, is about a node that this pattern describes: `*` stands for any
    /// characters but a slash, `?` for one, and a component `**` for any number of components, none included.
    #[must_use]
    pub fn matches(&self, pattern: &str) -> bool {
        self.paths().any(|path| path_matches(pattern, path))
    }

    /// Whether it has this opcode. The operations of a multi do not count.
    #[must_use]
    pub fn is(&self, opcode: OpCode) -> bool {
        self.opcode() == opcode
    }

    /// Whether it, or any operation of a multi, creates a node of any mode.
    #[must_use]
    pub fn is_create(&self) -> bool {
        self.creates().next().is_some()
    }

    /// Whether it, or any operation of a multi, creates a child of `parent`.
    #[must_use]
    pub fn is_create_under(&self, parent: &str) -> bool {
        self.creates().any(|path| crate::tree::parent(path) == parent)
    }

    /// Whether it, or any operation of a multi, deletes a node.
    #[must_use]
    pub fn is_delete(&self) -> bool {
        self.is(OpCode::Delete) || self.ops().iter().any(|op| op.opcode() == OpCode::Delete)
    }

    fn ops(&self) -> &'a [MultiOp] {
        match self.request {
            Request::Multi(ops) => ops,
            _ => &[],
        }
    }

    fn creates(&self) -> impl Iterator<Item = &'a str> {
        let creates = |opcode| {
            matches!(opcode, OpCode::Create | OpCode::Create2 | OpCode::CreateContainer | OpCode::CreateTtl)
        };
        let itself = self.request.path().filter(|_| creates(self.opcode()));
        itself.into_iter().chain(self.ops().iter().filter(move |op| creates(op.opcode())).map(MultiOp::path))
    }
}

type Decide = dyn Fn(&RuleRequest<'_>) -> Verdict + Send + Sync;

struct Rule {
    decide: Box<Decide>,
    /// How many requests it lets pass that it would have fired at.
    skip: AtomicU64,
    /// How often it may fire.
    limit: AtomicU64,
    /// How often it was going to fire.
    taken: AtomicU64,
    /// How often it has fired, its effect included.
    hits: Signal<u64>,
}

impl Rule {
    fn take_one(&self) -> bool {
        let one_less = |skip: u64| skip.checked_sub(1);
        if self.skip.fetch_update(Ordering::AcqRel, Ordering::Acquire, one_less).is_ok() {
            return false;
        }
        let limit = self.limit.load(Ordering::Acquire);
        let more = |taken: u64| (taken < limit).then(|| taken + 1);
        self.taken.fetch_update(Ordering::AcqRel, Ordering::Acquire, more).is_ok()
    }
}

/// The rules of a server.
#[derive(Default)]
pub(crate) struct Rules {
    installed: Mutex<Arc<[Arc<Rule>]>>,
}

impl fmt::Debug for Rules {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Rules").field("installed", &self.lock().len()).finish()
    }
}

impl Rules {
    /// Installs one rule in several places.
    pub(crate) fn install<'a>(
        places: impl IntoIterator<Item = &'a Arc<Self>>,
        decide: impl Fn(&RuleRequest<'_>) -> Verdict + Send + Sync + 'static,
    ) -> RuleGuard {
        let rule = Arc::new(Rule {
            decide: Box::new(decide),
            skip: AtomicU64::new(0),
            limit: AtomicU64::new(u64::MAX),
            taken: AtomicU64::new(0),
            hits: Signal::new(0),
        });
        let add = |place: &'a Arc<Self>| {
            let mut installed = place.lock();
            *installed = installed.iter().chain([&rule]).cloned().collect();
            Arc::downgrade(place)
        };
        let places = places.into_iter().map(add).collect();
        RuleGuard { rule, places }
    }

    /// The verdict about a request. The functions of the rules run without any lock held.
    pub(crate) fn judge(&self, session_id: i64, request: &Request) -> Judgement {
        let installed = Arc::clone(&self.lock());
        let request = RuleRequest::new(session_id, request);
        for rule in installed.iter() {
            let verdict = (rule.decide)(&request);
            if verdict != Verdict::Pass && rule.take_one() {
                return Judgement { verdict, rule: Some(Arc::clone(rule)) };
            }
        }
        Judgement { verdict: Verdict::Pass, rule: None }
    }

    fn remove(&self, rule: &Arc<Rule>) {
        let mut installed = self.lock();
        *installed = installed.iter().filter(|other| !Arc::ptr_eq(other, rule)).cloned().collect();
    }

    fn lock(&self) -> MutexGuard<'_, Arc<[Arc<Rule>]>> {
        self.installed.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// A verdict, and who is to hear when it has taken effect.
pub(crate) struct Judgement {
    pub(crate) verdict: Verdict,
    rule: Option<Arc<Rule>>,
}

impl Judgement {
    /// Counts the hit.
    pub(crate) fn has_taken_effect(&self) {
        if let Some(rule) = &self.rule {
            rule.hits.modify(|hits| *hits += 1);
        }
    }
}

/// An installed rule. Dropping it removes the rule; [`RuleGuard::forget`] keeps it.
#[must_use = "dropping the guard removes the rule"]
pub struct RuleGuard {
    rule: Arc<Rule>,
    places: Vec<Weak<Rules>>,
}

impl fmt::Debug for RuleGuard {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("RuleGuard").field("hits", &self.hits()).finish_non_exhaustive()
    }
}

impl RuleGuard {
    /// Lets `n` requests pass at which the rule would have fired, before it does: `after(2).times(1)` is the third
    /// one alone. Without it there are none.
    pub fn after(self, n: u64) -> Self {
        self.rule.skip.store(n, Ordering::Release);
        self
    }

    /// Lets the rule fire at most `n` times in all. Without it there is no limit.
    pub fn times(self, n: u64) -> Self {
        self.rule.limit.store(n, Ordering::Release);
        self
    }

    /// How often the rule has fired. A hit counts when its effect is there; that of a [`Verdict::Delay`] when
    /// the delay begins.
    #[must_use]
    pub fn hits(&self) -> u64 {
        self.rule.hits.look(|hits| *hits)
    }

    /// Waits until the rule has fired as often as [`RuleGuard::times`] lets it, or once when there is no limit.
    ///
    /// # Cancel safety
    /// Dropping the future has no effect.
    pub async fn fired(&self) {
        let limit = self.rule.limit.load(Ordering::Acquire);
        self.fired_times(if limit == u64::MAX { 1 } else { limit }).await;
    }

    /// Waits until the rule has fired `n` times.
    ///
    /// # Cancel safety
    /// Dropping the future has no effect.
    pub async fn fired_times(&self, n: u64) {
        self.rule.hits.until(|hits| *hits >= n).await;
    }

    /// Keeps the rule for as long as the server lives.
    pub fn forget(mut self) {
        self.places.clear();
    }
}

impl Drop for RuleGuard {
    fn drop(&mut self) {
        for place in self.places.iter().filter_map(Weak::upgrade) {
            place.remove(&self.rule);
        }
    }
}
