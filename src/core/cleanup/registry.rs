use std::collections::BTreeMap;
use std::fmt;
use std::sync::Arc;

use zk_curator_client::internal::Signal;

use super::Cleanup;
use super::slot::CleanupSlot;
use crate::core::fencing::FencingToken;
use crate::core::metrics::{JANITOR_BACKLOG, Meter, OWNED_NODES, WATCHES};
use crate::error::LeftBehind;

/// A node with a guard.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct HeldNode {
    /// The path of the node on the server, without the chroot.
    pub path: String,
    /// The fencing token.
    pub token: FencingToken,
    /// The number of the session that created it: see
    /// [`ConnectionStatus::session_epoch`](crate::ConnectionStatus::session_epoch).
    pub session_epoch: u64,
}

/// The kind of a watch.
#[non_exhaustive]
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum HeldWatchKind {
    /// A watch for one change of the read state.
    Oneshot,
    /// A watch for all changes, until it is dropped.
    Persistent,
}

/// A watch that a caller waits on.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct HeldWatch {
    /// The path of the node on the server.
    pub path: String,
    /// The kind of the watch.
    pub kind: HeldWatchKind,
}

/// A pending deletion of the janitor.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct PendingDeletion {
    /// The path of the node to delete. If the node has to be found first, the parent and the prefix
    /// of its name.
    pub path: String,
    /// `true` if the deletion ends with its session.
    pub bound: bool,
}

/// The nodes, watches and cleanups of a framework, by registration.
#[derive(Debug, Clone)]
pub(crate) struct Resources(Arc<Signal<CleanupRegistryInner>>, Meter);

#[derive(Debug, Default)]
struct CleanupRegistryInner {
    next: u64,
    resources: BTreeMap<u64, Resource>,
    /// The number of cleanups for each path.
    owed: BTreeMap<String, usize>,
    /// The number of resources that may still cause a deletion that outlives the session.
    persistent: usize,
    /// The first cleanups that ended without success, and the number of the others.
    left: BTreeMap<u64, String>,
    more_left: usize,
}

enum Resource {
    /// A node of a guard. The flag is `true` if the node outlives its session.
    Node(HeldNode, bool),
    Watch(HeldWatch),
    Cleanup(PendingDeletion),
    /// The cleanup of an unfinished future, by the path of its operation.
    PendingCleanup(String, Arc<CleanupSlot>),
}

/// One entry, which ends when this is dropped.
#[derive(Debug)]
#[must_use = "dropping it removes the entry"]
pub(crate) struct ResourceRegistration {
    resources: Resources,
    number: u64,
}

impl Resources {
    pub(crate) fn new(meter: Meter) -> Self {
        Self(Arc::new(Signal::new(CleanupRegistryInner::default())), meter)
    }

    pub(crate) const fn meter(&self) -> &Meter {
        &self.1
    }

    /// Registers the node of a guard. It is `persistent` if its deletion outlives the session.
    pub(crate) fn node(
        &self,
        path: &str,
        token: FencingToken,
        session_epoch: u64,
        persistent: bool,
    ) -> ResourceRegistration {
        self.hold(Resource::Node(
            HeldNode { path: path.to_owned(), token, session_epoch },
            persistent,
        ))
    }

    /// Registers the persistent cleanup of a future.
    pub(crate) fn pending(&self, path: &str, slot: &Arc<CleanupSlot>) -> ResourceRegistration {
        self.hold(Resource::PendingCleanup(path.to_owned(), Arc::clone(slot)))
    }

    pub(crate) fn watch(&self, path: &str, kind: HeldWatchKind) -> ResourceRegistration {
        self.hold(Resource::Watch(HeldWatch { path: path.to_owned(), kind }))
    }

    pub(crate) fn cleanup(&self, path: String, bound: bool) -> ResourceRegistration {
        self.hold(Resource::Cleanup(PendingDeletion { path, bound }))
    }

    pub(crate) fn lists(&self) -> (Vec<HeldNode>, Vec<HeldWatch>, Vec<PendingDeletion>) {
        let (mut nodes, mut watches, mut cleanups) = (Vec::new(), Vec::new(), Vec::new());
        self.0.look(|inner| {
            for resource in inner.resources.values() {
                match resource {
                    Resource::Node(node, _) => nodes.push(node.clone()),
                    Resource::Watch(watch) => watches.push(watch.clone()),
                    Resource::Cleanup(cleanup) => cleanups.push(cleanup.clone()),
                    Resource::PendingCleanup(..) => {}
                }
            }
        });
        (nodes, watches, cleanups)
    }

    /// Returns `true` if a guard has a node that satisfies `is_it`.
    pub(crate) fn any_node(&self, is_it: impl Fn(&HeldNode) -> bool) -> bool {
        let is_it =
            |resource: &Resource| matches!(resource, Resource::Node(node, _) if is_it(node));
        self.0.look(|inner| inner.resources.values().any(is_it))
    }

    /// Returns `true` if the deletion of this node is pending.
    pub(crate) fn owes(&self, path: &str) -> bool {
        self.0.look(|inner| inner.owes(path))
    }

    /// Waits until the deletion of this node is no longer pending.
    pub(crate) async fn settled(&self, path: &str) {
        self.0.until(|inner| !inner.owes(path)).await;
    }

    /// Waits until the present cleanups that end with their session have ended.
    pub(crate) async fn released(&self) {
        let is_bound = |resource: &Resource| {
            matches!(resource, Resource::Cleanup(PendingDeletion { bound: true, .. }))
        };
        let before = self.0.look(|inner| inner.next);
        self.0
            .until(|inner| !inner.resources.range(..before).any(|(_, resource)| is_bound(resource)))
            .await;
    }

    /// Waits until no resource is left that may cause a deletion that outlives the session.
    pub(crate) async fn quiet(&self) {
        self.0.until(|inner| inner.persistent == 0).await;
    }

    /// Takes the cleanups from the futures.
    pub(crate) fn take_pending(&self) -> Vec<Cleanup> {
        let slots: Vec<_> = self.0.look(|inner| {
            let slots = inner.resources.values().filter_map(|resource| match resource {
                Resource::PendingCleanup(_, slot) => Some(Arc::clone(slot)),
                _ => None,
            });
            slots.collect()
        });
        slots.into_iter().filter_map(|slot| slot.take()).collect()
    }

    /// Returns the nodes that outlive the session, and that are not deleted unless more is done.
    pub(crate) fn left(&self) -> LeftBehind {
        self.0.look(|inner| {
            let alive = inner.resources.iter().filter_map(|(number, resource)| match resource {
                Resource::Node(HeldNode { path, .. }, true) => Some((number, path)),
                Resource::Cleanup(PendingDeletion { path, bound: false }) => Some((number, path)),
                Resource::PendingCleanup(path, slot) if slot.is_owed() => Some((number, path)),
                _ => None,
            });
            let paths: BTreeMap<_, _> = inner.left.iter().chain(alive).collect();
            LeftBehind::new(paths.into_values(), inner.more_left)
        })
    }

    fn hold(&self, resource: Resource) -> ResourceRegistration {
        resource.measure(&self.1, 1.0);
        let number = self.0.modify(|inner| {
            let number = inner.next;
            inner.next += 1;
            if let Resource::Cleanup(cleanup) = &resource {
                *inner.owed.entry(cleanup.path.clone()).or_default() += 1;
            }
            inner.persistent += usize::from(resource.is_persistent());
            inner.resources.insert(number, resource);
            number
        });
        ResourceRegistration { resources: self.clone(), number }
    }
}

impl CleanupRegistryInner {
    fn owes(&self, path: &str) -> bool {
        self.owed.contains_key(path)
    }

    fn remove(&mut self, number: u64) -> Option<Resource> {
        let resource = self.resources.remove(&number)?;
        self.persistent -= usize::from(resource.is_persistent());
        if let Resource::Cleanup(cleanup) = &resource
            && let Some(owed) = self.owed.get_mut(&cleanup.path)
        {
            *owed -= 1;
            if *owed == 0 {
                self.owed.remove(&cleanup.path);
            }
        }
        Some(resource)
    }
}

impl Resource {
    const fn is_persistent(&self) -> bool {
        matches!(self, Self::Node(_, true) | Self::PendingCleanup(..))
    }

    fn measure(&self, meter: &Meter, change: f64) {
        let gauge = match self {
            Self::Node(..) => OWNED_NODES,
            Self::Watch(_) => WATCHES,
            Self::Cleanup(_) => JANITOR_BACKLOG,
            Self::PendingCleanup(..) => return,
        };
        gauge.series(meter, []).add(change);
    }
}

impl fmt::Debug for Resource {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Node(node, _) => node.fmt(f),
            Self::Watch(watch) => watch.fmt(f),
            Self::Cleanup(cleanup) => cleanup.fmt(f),
            Self::PendingCleanup(path, _) => path.fmt(f),
        }
    }
}

impl ResourceRegistration {
    /// Ends the cleanup with success. If it is dropped without this call, its node is left behind.
    pub(crate) fn settle(self) {
        self.end(true);
    }

    /// Passes the deletion of a node on to another registration.
    pub(crate) fn hand_over(&self) {
        self.resources.0.modify(|inner| {
            if let Some(Resource::Node(_, persistent @ true)) =
                inner.resources.get_mut(&self.number)
            {
                *persistent = false;
                inner.persistent -= 1;
            }
        });
    }

    fn end(&self, done: bool) {
        let resource = self.resources.0.modify(|inner| {
            let resource = inner.remove(self.number);
            if let Some(Resource::Cleanup(PendingDeletion { path, bound: false })) = &resource
                && !done
            {
                inner.left.insert(self.number, path.clone());
                if inner.left.len() > LeftBehind::MAX_PATHS {
                    inner.left.pop_last();
                    inner.more_left += 1;
                }
            }
            resource
        });
        if let Some(resource) = resource {
            resource.measure(&self.resources.1, -1.0);
        }
    }
}

impl Drop for ResourceRegistration {
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
            HeldWatchKind::Oneshot => "one-shot",
            HeldWatchKind::Persistent => "persistent",
        };
        write!(f, "{}  {kind}", self.path)
    }
}

impl fmt::Display for PendingDeletion {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let until = if self.bound { ", or ends with its session" } else { "" };
        write!(f, "{}  to be deleted{until}", self.path)
    }
}

#[cfg(all(test, zk_threads))]
mod threads {
    use shuttle::{future, thread};

    use super::*;

    fn node(resources: &Resources, path: &str) -> ResourceRegistration {
        resources.node(path, FencingToken::new(1), 1, true)
    }

    /// `close` waits until the guards of other threads have ended, or have passed their nodes on to
    /// the janitor: shuttle finds a wake-up that is missed.
    #[test]
    fn close_waits_for_every_guard() {
        shuttle::check_random(
            || {
                let resources = Resources::new(Meter::new(None));
                let first = node(&resources, "/first");
                let threads = ["/a", "/b"].map(|path| {
                    let guard = node(&resources, path);
                    let cleanup = resources.cleanup(path.to_owned(), false);
                    thread::spawn(move || {
                        guard.hand_over();
                        drop(guard);
                        cleanup.settle();
                    })
                });
                drop(first);
                future::block_on(resources.quiet());
                future::block_on(resources.settled("/a"));
                for thread in threads {
                    thread.join().expect("no panic");
                }
                let (nodes, _, deletions) = resources.lists();
                assert_eq!((nodes, deletions), (Vec::new(), Vec::new()));
                assert!(resources.left().paths().is_empty());
            },
            2_000,
        );
    }

    /// Guards that threads register at the same time are counted each for itself.
    #[test]
    fn guards_of_several_threads_are_counted() {
        shuttle::check_random(
            || {
                let resources = Resources::new(Meter::new(None));
                let threads = ["/a", "/b"].map(|path| {
                    let resources = resources.clone();
                    thread::spawn(move || node(&resources, path))
                });
                let guards = threads.map(|thread| thread.join().expect("no panic"));
                assert_eq!(resources.lists().0.len(), 2);
                drop(guards);
                assert!(resources.lists().0.is_empty());
            },
            2_000,
        );
    }

    /// A caller that waits for a deletion is woken by the end of the last one of its path.
    #[test]
    fn waiters_for_a_deletion_are_woken() {
        shuttle::check_dfs(
            || {
                let resources = Resources::new(Meter::new(None));
                let deletion = resources.cleanup("/a".to_owned(), false);
                let thread = thread::spawn(move || deletion.settle());
                future::block_on(resources.settled("/a"));
                assert!(!resources.owes("/a"));
                thread.join().expect("no panic");
            },
            None,
        );
    }
}
