//! The changes that concern the viewers of a path.

use std::time::Duration;

use zk_curator::{EventType, WatchedEvent};

/// The part of the tree that a page shows.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Scope {
    /// A node, its children, and their numbers of children.
    Node,
    /// A recipe: everything below its node.
    Recipe,
    /// Everything below a node that may have many recipes. Reading it again is expensive.
    Subtree,
}

impl Scope {
    const ALL: [Self; 3] = [Self::Node, Self::Recipe, Self::Subtree];

    /// Returns the name in URLs.
    pub(crate) const fn name(self) -> &'static str {
        match self {
            Self::Node => "node",
            Self::Recipe => "recipe",
            Self::Subtree => "subtree",
        }
    }

    /// Returns the scope of a name; `None` for an unknown one.
    pub(crate) fn of(name: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|scope| scope.name() == name)
    }

    /// Returns the shortest time between two announcements.
    pub(super) const fn pause(self) -> Duration {
        Duration::from_millis(match self {
            Self::Node => 250,
            Self::Recipe => 500,
            Self::Subtree => 1_000,
        })
    }

    /// Returns the time after which viewers read again although no change was reported: the ages of
    /// sessions and the growth of queues change without one.
    pub(super) const fn tick(self) -> Option<Duration> {
        match self {
            Self::Node => None,
            Self::Recipe => Some(Duration::from_secs(10)),
            Self::Subtree => Some(Duration::from_secs(15)),
        }
    }

    /// Returns `true` if a page of `root` shows a change.
    pub(super) fn concerns(self, root: &str, event: &WatchedEvent) -> bool {
        let is_birth_or_death =
            matches!(event.event_type, EventType::NodeCreated | EventType::NodeDeleted);
        match levels_below(root, &event.path) {
            None => false,
            Some(0 | 1) => true,
            Some(2) => self != Self::Node || is_birth_or_death,
            Some(_) => self != Self::Node,
        }
    }

    /// Returns `true` if a page of `root` shows a node.
    pub(super) fn shows(self, root: &str, path: &str) -> bool {
        levels_below(root, path).is_some_and(|levels| self != Self::Node || levels <= 2)
    }
}

/// Returns the number of levels of `path` below `root`; `None` if it is elsewhere.
fn levels_below(root: &str, path: &str) -> Option<usize> {
    let root = if root == "/" { "" } else { root };
    let rest = path.strip_prefix(root)?;
    match rest {
        "" | "/" => Some(0),
        rest if rest.starts_with('/') => Some(rest.matches('/').count()),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn levels_are_counted_by_whole_names() {
        for (root, path, levels) in [
            ("/", "/", Some(0)),
            ("/", "/a", Some(1)),
            ("/a", "/a", Some(0)),
            ("/a", "/a/b/c", Some(2)),
            ("/a", "/ab", None),
            ("/a/b", "/a", None),
        ] {
            assert_eq!(levels_below(root, path), levels, "{root} {path}");
        }
    }

    #[test]
    fn deep_changes_do_not_count_on_the_page_of_a_node() {
        let event = |kind, path: &str| WatchedEvent::new(kind, path.to_owned());
        for (kind, path, is_of_node) in [
            (EventType::NodeDataChanged, "/a", true),
            (EventType::NodeDataChanged, "/a/b", true),
            (EventType::NodeCreated, "/a/b/c", true),
            (EventType::NodeDataChanged, "/a/b/c", false),
            (EventType::NodeCreated, "/a/b/c/d", false),
        ] {
            let event = event(kind, path);
            assert_eq!(Scope::Node.concerns("/a", &event), is_of_node, "{path}");
            assert!(Scope::Recipe.concerns("/a", &event), "{path}");
        }
        assert!(!Scope::Subtree.concerns("/a", &event(EventType::NodeCreated, "/ab")));
        assert!(Scope::Recipe.shows("/a", "/a/b/c/d") && !Scope::Node.shows("/a", "/a/b/c/d"));
    }

    #[test]
    fn scopes_have_names() {
        assert!(Scope::ALL.into_iter().all(|scope| Scope::of(scope.name()) == Some(scope)));
        assert_eq!(Scope::of("other"), None);
    }
}
