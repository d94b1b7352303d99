//! The nodes in memory, as a tree of names.

use std::collections::BTreeMap;
use std::collections::btree_map::Range;
use std::ops::Bound;
use std::sync::Arc;

use super::node::CachedNode;
use super::pace::Sizes;
use crate::path::child;

/// A place in the tree. Only its name may be known, if the node was listed but not read yet.
#[derive(Debug, Default)]
pub(crate) struct TreeEntry {
    pub(crate) node: Option<Arc<CachedNode>>,
    /// Boxed, because most nodes have no children.
    pub(crate) dir: Option<Box<Dir>>,
}

/// The children of a node.
#[derive(Debug, Default)]
pub(crate) struct Dir {
    /// The `pzxid` of the server's node when it had exactly these children; `None` if unknown.
    pub(crate) listed: Option<i64>,
    pub(crate) children: BTreeMap<Box<str>, TreeEntry>,
    /// The sizes of the nodes that were read for the first time.
    pub(crate) sizes: Sizes,
}

impl TreeEntry {
    pub(crate) fn child_count(&self) -> usize {
        self.dir.as_ref().map_or(0, |dir| dir.children.len())
    }

    /// Returns the children. They are exactly the server's if the node has none there.
    pub(crate) fn dir_mut(&mut self) -> &mut Dir {
        let childless = self.node.as_ref().filter(|node| node.stat.num_children == 0);
        let listed = childless.map(|node| node.stat.pzxid);
        self.dir.get_or_insert_with(|| Box::new(Dir { listed, ..Dir::default() }))
    }

    /// The children after this name, or all.
    fn children_after(&self, name: Option<&str>) -> Option<Range<'_, Box<str>, Self>> {
        let first = name.map_or(Bound::Unbounded, Bound::Excluded);
        Some(self.dir.as_ref()?.children.range::<str, _>((first, Bound::Unbounded)))
    }
}

/// The nodes at and below a root.
#[derive(Debug)]
pub(crate) struct CacheTree {
    root: String,
    entry: TreeEntry,
    nodes: usize,
}

impl CacheTree {
    pub(crate) fn new(root: String) -> Self {
        Self { root, entry: TreeEntry::default(), nodes: 0 }
    }

    pub(crate) fn root(&self) -> &str {
        &self.root
    }

    /// The number of nodes that have been read and are kept.
    pub(crate) const fn len(&self) -> usize {
        self.nodes
    }

    /// Returns the path below the root, without a leading slash; `None` for a path that is not at
    /// or below the root.
    pub(crate) fn relative<'a>(&self, path: &'a str) -> Option<&'a str> {
        if self.root == "/" {
            return path.strip_prefix('/');
        }
        match path.strip_prefix(self.root.as_str())? {
            "" => Some(""),
            below => below.strip_prefix('/'),
        }
    }

    /// The number of names below the root; `None` for a path that is not at or below the root.
    pub(crate) fn depth(&self, path: &str) -> Option<usize> {
        self.relative(path).map(|below| names(below).count())
    }

    pub(crate) fn entry(&self, path: &str) -> Option<&TreeEntry> {
        names(self.relative(path)?)
            .try_fold(&self.entry, |entry, name| entry.dir.as_ref()?.children.get(name))
    }

    pub(crate) fn entry_mut(&mut self, path: &str) -> Option<&mut TreeEntry> {
        let below = self.relative(path)?;
        names(below)
            .try_fold(&mut self.entry, |entry, name| entry.dir.as_mut()?.children.get_mut(name))
    }

    pub(crate) fn node(&self, path: &str) -> Option<&Arc<CachedNode>> {
        self.entry(path)?.node.as_ref()
    }

    /// The place of a path, with its parents.
    pub(crate) fn make(&mut self, path: &str) -> Option<&mut TreeEntry> {
        let below = self.relative(path)?;
        Some(names(below).fold(&mut self.entry, |entry, name| {
            let children = &mut entry.dir_mut().children;
            if !children.contains_key(name) {
                children.insert(name.into(), TreeEntry::default());
            }
            children.get_mut(name).expect("invariant: inserted if it was missing")
        }))
    }

    /// Replaces a node, and returns the one before. Its children stay.
    pub(crate) fn put(&mut self, node: Arc<CachedNode>) -> Option<Arc<CachedNode>> {
        let (path, is_kept) = (node.path.clone(), node.is_kept);
        let old = self.make(&path)?.node.replace(node);
        self.nodes += usize::from(is_kept);
        self.nodes -= usize::from(old.as_ref().is_some_and(|old| old.is_kept));
        old
    }

    /// Removes a node from its place, without its children.
    pub(crate) fn take(&mut self, path: &str) -> Option<Arc<CachedNode>> {
        let old = self.entry_mut(path)?.node.take();
        self.nodes -= usize::from(old.as_ref().is_some_and(|old| old.is_kept));
        old
    }

    /// Removes a node with everything below it; returns the nodes that had been read, children
    /// after their parents.
    pub(crate) fn remove(&mut self, path: &str) -> Vec<Arc<CachedNode>> {
        let removed = match path.rsplit_once('/') {
            _ if path == self.root => std::mem::take(&mut self.entry),
            Some((parent, name)) => {
                let parent = if parent.is_empty() { "/" } else { parent };
                let dir = self.entry_mut(parent).and_then(|entry| entry.dir.as_mut());
                dir.and_then(|dir| dir.children.remove(name)).unwrap_or_default()
            }
            None => TreeEntry::default(),
        };
        self.gather(removed)
    }

    /// Removes everything below a node; returns the nodes that had been read.
    pub(crate) fn remove_below(&mut self, path: &str) -> Vec<Arc<CachedNode>> {
        let dir = self.entry_mut(path).and_then(|entry| entry.dir.take());
        self.gather(TreeEntry { node: None, dir })
    }

    fn gather(&mut self, entry: TreeEntry) -> Vec<Arc<CachedNode>> {
        let (mut nodes, mut todo) = (Vec::new(), vec![entry]);
        while let Some(TreeEntry { node, dir }) = todo.pop() {
            nodes.extend(node);
            todo.extend(dir.into_iter().flat_map(|dir| dir.children.into_values()));
        }
        self.nodes -= nodes.iter().filter(|node: &&Arc<CachedNode>| node.is_kept).count();
        nodes
    }

    /// The nodes that have been read at and below a path: parents before their children, and these
    /// in the order of their names.
    pub(crate) fn walk<'t>(
        &'t self,
        path: &str,
    ) -> impl Iterator<Item = &'t Arc<CachedNode>> + use<'t> {
        let mut todo: Vec<&'t TreeEntry> = self.entry(path).into_iter().collect();
        std::iter::from_fn(move || {
            loop {
                let entry = todo.pop()?;
                todo.extend(entry.dir.iter().flat_map(|dir| dir.children.values().rev()));
                if let Some(node) = &entry.node {
                    return Some(node);
                }
            }
        })
    }

    /// The paths of the places at and below a path, read or not, parents before their children, and
    /// these in the order of their names: at most `count`, from the one after `last` on. That one
    /// may be gone.
    pub(crate) fn places_after(&self, top: &str, last: Option<&str>, most: usize) -> Vec<String> {
        let (Some(entry), Some(above)) = (self.entry(top), self.depth(top)) else {
            return Vec::new();
        };
        let (mut places, mut todo) = (Vec::new(), Vec::new());
        let (mut path, mut place) = (top.to_owned(), Some(entry));
        match last.and_then(|last| self.relative(last)) {
            None => places.push(path.clone()),
            Some(last) => {
                for name in names(last).skip(above) {
                    let Some(entry) = place else { break };
                    todo.push((path.clone(), entry.children_after(Some(name))));
                    place = entry.dir.as_ref().and_then(|dir| dir.children.get(name));
                    path = child(&path, name);
                }
            }
        }
        todo.extend(place.map(|entry| (path, entry.children_after(None))));
        while places.len() < most
            && let Some((path, children)) = todo.last_mut()
        {
            let Some((name, entry)) = children.as_mut().and_then(Iterator::next) else {
                todo.pop();
                continue;
            };
            let path = child(path, name);
            places.push(path.clone());
            todo.push((path, entry.children_after(None)));
        }
        places
    }
}

impl Drop for CacheTree {
    /// Level by level, because recursion over thousands of levels would overflow the stack.
    fn drop(&mut self) {
        let mut todo = vec![std::mem::take(&mut self.entry)];
        while let Some(TreeEntry { dir, .. }) = todo.pop() {
            todo.extend(dir.into_iter().flat_map(|dir| dir.children.into_values()));
        }
    }
}

/// The names in a relative path.
fn names(below: &str) -> impl Iterator<Item = &str> {
    below.split('/').filter(|name| !name.is_empty())
}

/// The paths below this one.
pub(crate) fn below(path: &str) -> (Bound<Box<str>>, Bound<Box<str>>) {
    let parent = path.trim_end_matches('/');
    let first = format!("{parent}/").into_boxed_str();
    // The prefix `/` is also the path of ZooKeeper's root, which is not below itself.
    let first = if path == "/" { Bound::Excluded(first) } else { Bound::Included(first) };
    // The character after the slash.
    (first, Bound::Excluded(format!("{parent}0").into_boxed_str()))
}

/// Removes the entries of the paths below this one from a map, and returns them.
pub(crate) fn take_below<V>(map: &mut BTreeMap<Box<str>, V>, path: &str) -> Vec<(Box<str>, V)> {
    let below: Vec<_> = map.range(below(path)).map(|(path, _)| path.clone()).collect();
    below.into_iter().filter_map(|path| map.remove_entry(&path)).collect()
}

/// The path of the parent; `None` for the root of ZooKeeper.
pub(super) fn parent(path: &str) -> Option<&str> {
    match path.rsplit_once('/')? {
        ("", "") => None,
        ("", _) => Some("/"),
        (parent, _) => Some(parent),
    }
}
