use std::collections::BTreeMap;
use std::fmt;
use std::sync::Arc;

use zk_curator_client::Signal;

use super::chore::Chore;
use super::fencing::FencingToken;
use super::metrics;
use super::slot::Slot;
use crate::error::LeftBehind;

/// A node that a guard answers for.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct HeldNode {
    /// Its path on the server, without the chroot.
    pub path: String,
    /// Its fencing token.
    pub token: FencingToken,
    /// The session it was made in: see [`ConnectionStatus::session_epoch`](crate::ConnectionStatus::session_epoch).
    pub session_epoch: u64,
}

/// The kind of a watch.
#[non_exhaustive]
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum WatchKind {
    /// One change, of whatever was read.
    Oneshot,
    /// All changes, until it is dropped.
    Persistent,
}

/// A watch that somebody waits on.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct HeldWatch {
    /// The node's path on the server.
    pub path: String,
    /// Its kind.
    pub kind: WatchKind,
}

/// A deletion that the janitor owes.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct HeldChore {
    /// The node that has to go; or, when it has to be found first, its parent and how its name begins.
    pub path: String,
    /// Whether it ends with its session.
    pub bound: bool,
}

/// The nodes, watches and chores of a framework, by ticket.
#[derive(Debug, Clone)]
pub(crate) struct Held(Arc<Signal<Things>>);

impl Default for Held {
    fn default() -> Self {
        Self(Arc::new(Signal::new(Things::default())))
    }
}

#[derive(Debug, Default)]
struct Things {
    next: u64,
    things: BTreeMap<u64, Thing>,
    /// The number of chores for each path.
    owed: BTreeMap<String, usize>,
    /// The number of things that may still owe a deletion that outlives the session.
    lasting: usize,
    /// The first chores that ended without being done, and how many more there were.
    left: BTreeMap<u64, String>,
    more_left: usize,
}

enum Thing {
    /// Of a guard, and whether the node outlives its session.
    Node(HeldNode, bool),
    Watch(HeldWatch),
    Chore(HeldChore),
    /// The cleanup of an unfinished future, by the path that it was called with.
    Debt(String, Arc<Slot>),
}

/// Stands for one thing that is held; dropped with it.
#[derive(Debug)]
#[must_use = "it is held as long as this lives"]
pub(crate) struct Ticket {
    held: Held,
    number: u64,
}

impl Held {
    /// A node of a guard. `lasting` is whether the guard comes to owe a deletion that outlives the session.
    pub(crate) fn node(&self, path: &str, token: FencingToken, session_epoch: u64, lasting: bool) -> Ticket {
        self.hold(Thing::Node(HeldNode { path: path.to_owned(), token, session_epoch }, lasting))
    }

    /// Cleanup that a future may owe beyond its session.
    pub(crate) fn debt(&self, path: &str, slot: &Arc<Slot>) -> Ticket {
        self.hold(Thing::Debt(path.to_owned(), Arc::clone(slot)))
    }

    pub(crate) fn watch(&self, path: &str, kind: WatchKind) -> Ticket {
        self.hold(Thing::Watch(HeldWatch { path: path.to_owned(), kind }))
    }

    pub(crate) fn chore(&self, path: String, bound: bool) -> Ticket {
        self.hold(Thing::Chore(HeldChore { path, bound }))
    }

    pub(crate) fn lists(&self) -> (Vec<HeldNode>, Vec<HeldWatch>, Vec<HeldChore>) {
        let (mut nodes, mut watches, mut chores) = (Vec::new(), Vec::new(), Vec::new());
        self.0.look(|held| {
            for thing in held.things.values() {
                match thing {
                    Thing::Node(node, _) => nodes.push(node.clone()),
                    Thing::Watch(watch) => watches.push(watch.clone()),
                    Thing::Chore(chore) => chores.push(chore.clone()),
                    Thing::Debt(..) => {}
                }
            }
        });
        (nodes, watches, chores)
    }

    /// Whether the deletion of this node is owed.
    pub(crate) fn owes(&self, path: &str) -> bool {
        self.0.look(|held| held.owes(path))
    }

    /// Waits until the deletion of this node is not owed any more.
    pub(crate) async fn settled(&self, path: &str) {
        self.0.until(|held| !held.owes(path)).await;
    }

    /// Waits until the chores of now that end with their session have ended.
    pub(crate) async fn released(&self) {
        let is_bound = |thing: &Thing| matches!(thing, Thing::Chore(HeldChore { bound: true, .. }));
        let before = self.0.look(|held| held.next);
        self.0.until(|held| !held.things.range(..before).any(|(_, thing)| is_bound(thing))).await;
    }

    /// Waits until nothing is left that may come to owe a deletion beyond the session.
    pub(crate) async fn quiet(&self) {
        self.0.until(|held| held.lasting == 0).await;
    }

    /// Takes from the futures what they owe.
    pub(crate) fn take_debts(&self) -> Vec<Chore> {
        let slots: Vec<_> = self.0.look(|held| {
            let slots = held.things.values().filter_map(|thing| match thing {
                Thing::Debt(_, slot) => Some(Arc::clone(slot)),
                _ => None,
            });
            slots.collect()
        });
        slots.into_iter().filter_map(|slot| slot.take()).collect()
    }

    /// The nodes that outlive the session, and that nobody will delete any more if nothing more is done.
    pub(crate) fn left(&self) -> LeftBehind {
        self.0.look(|held| {
            let alive = held.things.iter().filter_map(|(number, thing)| match thing {
                Thing::Node(HeldNode { path, .. }, true) => Some((number, path)),
                Thing::Chore(HeldChore { path, bound: false }) => Some((number, path)),
                Thing::Debt(path, slot) if slot.is_owed() => Some((number, path)),
                _ => None,
            });
            let paths: BTreeMap<_, _> = held.left.iter().chain(alive).collect();
            LeftBehind::new(paths.into_values(), held.more_left)
        })
    }

    fn hold(&self, thing: Thing) -> Ticket {
        thing.measure(1.0);
        let number = self.0.modify(|held| {
            let number = held.next;
            held.next += 1;
            if let Thing::Chore(chore) = &thing {
                *held.owed.entry(chore.path.clone()).or_default() += 1;
            }
            held.lasting += usize::from(thing.is_lasting());
            held.things.insert(number, thing);
            number
        });
        Ticket { held: self.clone(), number }
    }
}

impl Things {
    fn owes(&self, path: &str) -> bool {
        self.owed.contains_key(path)
    }

    fn remove(&mut self, number: u64) -> Option<Thing> {
        let thing = self.things.remove(&number)?;
        self.lasting -= usize::from(thing.is_lasting());
        if let Thing::Chore(chore) = &thing
            && let Some(owed) = self.owed.get_mut(&chore.path)
        {
            *owed -= 1;
            if *owed == 0 {
                self.owed.remove(&chore.path);
            }
        }
        Some(thing)
    }
}

impl Thing {
    const fn is_lasting(&self) -> bool {
        matches!(self, Self::Node(_, true) | Self::Debt(..))
    }

    #[cfg_attr(not(feature = "metrics"), expect(clippy::missing_const_for_fn, reason = "not with metrics"))]
    fn measure(&self, change: f64) {
        match self {
            Self::Node(..) => metrics::owned_nodes(change),
            Self::Watch(_) => metrics::watches(change),
            Self::Chore(_) => metrics::backlog(change),
            Self::Debt(..) => {}
        }
    }
}

impl fmt::Debug for Thing {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Node(node, _) => node.fmt(f),
            Self::Watch(watch) => watch.fmt(f),
            Self::Chore(chore) => chore.fmt(f),
            Self::Debt(path, _) => path.fmt(f),
        }
    }
}

impl Ticket {
    /// A chore is done. One that is dropped without that is left behind.
    pub(crate) fn settle(self) {
        self.end(true);
    }

    /// The deletion of a node is owed by somebody else.
    pub(crate) fn hand_over(&self) {
        self.held.0.modify(|held| {
            if let Some(Thing::Node(_, lasting @ true)) = held.things.get_mut(&self.number) {
                *lasting = false;
                held.lasting -= 1;
            }
        });
    }

    fn end(&self, done: bool) {
        let thing = self.held.0.modify(|held| {
            let thing = held.remove(self.number);
            if let Some(Thing::Chore(HeldChore { path, bound: false })) = &thing
                && !done
            {
                held.left.insert(self.number, path.clone());
                if held.left.len() > LeftBehind::MAX_PATHS {
                    held.left.pop_last();
                    held.more_left += 1;
                }
            }
            thing
        });
        if let Some(thing) = thing {
            thing.measure(-1.0);
        }
    }
}

impl Drop for Ticket {
    fn drop(&mut self) {
        self.end(false);
    }
}

impl fmt::Display for HeldNode {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}  token {}, session {}", self.path, self.token, self.session_epoch)
    }
}

impl fmt::Display for HeldWatch {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let kind = match self.kind {
            WatchKind::Oneshot => "one-shot",
            WatchKind::Persistent => "persistent",
        };
        write!(f, "{}  {kind}", self.path)
    }
}

impl fmt::Display for HeldChore {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let until = if self.bound { ", or ends with its session" } else { "" };
        write!(f, "{}  to be deleted{until}", self.path)
    }
}
