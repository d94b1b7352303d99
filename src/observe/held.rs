use std::collections::BTreeMap;
use std::fmt;
use std::sync::Arc;

use zk_curator_client::Signal;

use super::metrics;
use crate::owned_node::FencingToken;

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

/// What a watch is about.
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
    /// What it is about.
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

/// What is held through a framework, by ticket.
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
    /// How many chores there are for a path.
    owed: BTreeMap<String, usize>,
}

#[derive(Debug)]
enum Thing {
    Node(HeldNode),
    Watch(HeldWatch),
    Chore(HeldChore),
}

/// Stands for one thing that is held; dropped with it.
#[derive(Debug)]
#[must_use = "it is held as long as this lives"]
pub(crate) struct Ticket {
    held: Held,
    number: u64,
}

impl Held {
    pub(crate) fn node(&self, path: &str, token: FencingToken, session_epoch: u64) -> Ticket {
        self.hold(Thing::Node(HeldNode { path: path.to_owned(), token, session_epoch }))
    }

    pub(crate) fn watch(&self, path: &str, kind: WatchKind) -> Ticket {
        self.hold(Thing::Watch(HeldWatch { path: path.to_owned(), kind }))
    }

    pub(crate) fn chore(&self, path: String, bound: bool) -> Ticket {
        metrics::backlog(1.0);
        self.hold(Thing::Chore(HeldChore { path, bound }))
    }

    pub(crate) fn lists(&self) -> (Vec<HeldNode>, Vec<HeldWatch>, Vec<HeldChore>) {
        let (mut nodes, mut watches, mut chores) = (Vec::new(), Vec::new(), Vec::new());
        self.0.look(|held| {
            for thing in held.things.values() {
                match thing {
                    Thing::Node(node) => nodes.push(node.clone()),
                    Thing::Watch(watch) => watches.push(watch.clone()),
                    Thing::Chore(chore) => chores.push(chore.clone()),
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

    fn hold(&self, thing: Thing) -> Ticket {
        let number = self.0.modify(|held| {
            let number = held.next;
            held.next += 1;
            if let Thing::Chore(chore) = &thing {
                *held.owed.entry(chore.path.clone()).or_default() += 1;
            }
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

impl Drop for Ticket {
    fn drop(&mut self) {
        let thing = self.held.0.modify(|held| held.remove(self.number));
        if let Some(Thing::Chore(_)) = thing {
            metrics::backlog(-1.0);
        }
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
