//! The nodes in memory, as a tree of names.

use std::collections::BTreeMap;
use std::ops::Bound;
use std::sync::Arc;

use super::node::CachedNode;

/// A place in the tree. It may be known by its name only, as a node that was listed and not read yet.
#[derive(Debug, Default)]
pub(super) struct Entry {
    pub(super) node: Option<Arc<CachedNode>>,
    /// In a box: most nodes have no children.
    pub(super) dir: Option<Box<Dir>>,
}

/// The children of a node.
#[derive(Debug, Default)]
pub(super) struct Dir {
    /// The `pzxid` of the server's node when it had exactly these children; `None` if that is not known.
    pub(super) listed: Option<i64>,
    pub(super) children: BTreeMap<Box<str>, Entry>,
}

impl Entry {
    pub(super) fn child_count(&self) -> usize {
        self.dir.as_ref().map_or(0, |dir| dir.children.len())
    }

    /// The children, which are exactly those of the server if the node has none there.
    pub(super) fn dir_mut(&mut self) -> &mut Dir {
        let childless = self.node.as_ref().filter(|node| node.stat.num_children == 0);
        let listed = childless.map(|node| node.stat.pzxid);
        self.dir.get_or_insert_with(|| Box::new(Dir { listed, children: BTreeMap::new() }))
    }
}

/// The nodes at and below a root.
#[derive(Debug)]
pub(super) struct Tree {
    root: String,
    entry: Entry,
    nodes: usize,
}

impl Tree {
    pub(super) fn new(root: String) -> Self {
        Self { root, entry: Entry::default(), nodes: 0 }
    }

    pub(super) fn root(&self) -> &str {
        &self.root
    }

    /// The number of nodes that have been read.
    pub(super) const fn len(&self) -> usize {
        self.nodes
    }

    /// The path below the root, without a slash in front; `None` for a path that is not at or below the root.
    pub(super) fn relative<'a>(&self, path: &'a str) -> Option<&'a str> {
        if self.root == "/" {
            return path.strip_prefix('/');
        }
        match path.strip_prefix(self.root.as_str())? {
            "" => Some(""),
            below => below.strip_prefix('/'),
        }
    }

    /// The number of names below the root; `None` for a path that is not at or below the root.
    pub(super) fn depth(&self, path: &str) -> Option<usize> {
        self.relative(path).map(|below| names(below).count())
    }

    pub(super) fn entry(&self, path: &str) -> Option<&Entry> {
        names(self.relative(path)?)
            .try_fold(&self.entry, |entry, name| entry.dir.as_ref()?.children.get(name))
    }

    pub(super) fn entry_mut(&mut self, path: &str) -> Option<&mut Entry> {
        let below = self.relative(path)?;
        names(below).try_fold(&mut self.entry, |entry, name| entry.dir.as_mut()?.children.get_mut(name))
    }

    pub(super) fn node(&self, path: &str) -> Option<&Arc<CachedNode>> {
        self.entry(path)?.node.as_ref()
    }

    /// The place of a path, with its parents.
    pub(super) fn make(&mut self, path: &str) -> Option<&mut Entry> {
        let below = self.relative(path)?;
        Some(names(below).fold(&mut self.entry, |entry, name| {
            let children = &mut entry.dir_mut().children;
            if !children.contains_key(name) {
                children.insert(name.into(), Entry::default());
            }
            children.get_mut(name).expect("invariant: inserted if it was missing")
        }))
    }

    /// Replaces a node, and returns the one before. Its children stay.
    pub(super) fn put(&mut self, node: Arc<CachedNode>) -> Option<Arc<CachedNode>> {
        let path = node.path.clone();
        let old = self.make(&path)?.node.replace(node);
        self.nodes += usize::from(old.is_none());
        old
    }

    /// Takes a node out of its place, and leaves its children.
    pub(super) fn take(&mut self, path: &str) -> Option<Arc<CachedNode>> {
        let old = self.entry_mut(path)?.node.take();
        self.nodes -= usize::from(old.is_some());
        old
    }

    /// Removes a node with everything below it; returns those that had been read, children after their parents.
    pub(super) fn remove(&mut self, path: &str) -> Vec<Arc<CachedNode>> {
        let removed = match path.rsplit_once('/') {
            _ if path == self.root => std::mem::take(&mut self.entry),
            Some((parent, name)) => {
                let parent = if parent.is_empty() { "/" } else { parent };
                let dir = self.entry_mut(parent).and_then(|entry| entry.dir.as_mut());
                dir.and_then(|dir| dir.children.remove(name)).unwrap_or_default()
            }
            None => Entry::default(),
        };
        self.gather(removed)
    }

    /// Removes everything below a node; returns those that had been read.
    pub(super) fn remove_below(&mut self, path: &str) -> Vec<Arc<CachedNode>> {
        let dir = self.entry_mut(path).and_then(|entry| entry.dir.take());
        self.gather(Entry { node: None, dir })
    }

    fn gather(&mut self, entry: Entry) -> Vec<Arc<CachedNode>> {
        let (mut nodes, mut todo) = (Vec::new(), vec![entry]);
        while let Some(Entry { node, dir }) = todo.pop() {
            nodes.extend(node);
            todo.extend(dir.into_iter().flat_map(|dir| dir.children.into_values()));
        }
        self.nodes -= nodes.len();
        nodes
    }

    /// The nodes that have been read at and below a path: parents before their children, and these in the order of their
    /// names.
    pub(super) fn walk(&self, path: &str) -> Walk<'_> {
        Walk { todo: self.entry(path).into_iter().collect() }
    }

    /// The paths of all places, read or not.
    pub(super) fn places(&self) -> Vec<String> {
        let mut places = Vec::new();
        let mut todo = vec![(self.root.clone(), &self.entry)];
        while let Some((path, entry)) = todo.pop() {
            for (name, child) in entry.dir.iter().flat_map(|dir| &dir.children) {
                todo.push((crate::path::child(&path, name), child));
            }
            places.push(path);
        }
        places
    }
}

/// The names in a relative path.
fn names(below: &str) -> impl Iterator<Item = &str> {
    below.split('/').filter(|name| !name.is_empty())
}

/// The paths below this one.
pub(super) fn below(path: &str) -> (Bound<Box<str>>, Bound<Box<str>>) {
    let parent = path.trim_end_matches('/');
    let first = format!("{parent}/").into_boxed_str();
    // The path of ZooKeeper's root is that of its children without a name.
    let first = if path == "/" { Bound::Excluded(first) } else { Bound::Included(first) };
    // The character after the slash.
    (first, Bound::Excluded(format!("{parent}0").into_boxed_str()))
}

/// Takes out of a map what belongs to the paths below this one.
pub(super) fn take_below<V>(map: &mut BTreeMap<Box<str>, V>, path: &str) -> Vec<(Box<str>, V)> {
    let below: Vec<_> = map.range(below(path)).map(|(path, _)| path.clone()).collect();
    below.into_iter().filter_map(|path| map.remove_entry(&path)).collect()
}

/// Nodes of a tree: parents before their children.
#[derive(Debug)]
pub(super) struct Walk<'a> {
    todo: Vec<&'a Entry>,
}

impl<'a> Iterator for Walk<'a> {
    type Item = &'a Arc<CachedNode>;

    fn next(&mut self) -> Option<Self::Item> {
        loop {
            let entry = self.todo.pop()?;
            self.todo.extend(entry.dir.iter().flat_map(|dir| dir.children.values().rev()));
            if let Some(node) = &entry.node {
                return Some(node);
            }
        }
    }
}
