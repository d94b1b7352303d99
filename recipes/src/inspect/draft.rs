//! A finding in the making.

use std::collections::BTreeSet;

use zk_curator::SessionId;
use zk_curator::certain::is_receipt;

use super::details::Details;
use super::finding::{Contender, Finding, Library, RecipeKind, Role};
use super::node::Node;
use super::within::within;
use crate::lock::is_revocation;

/// A finding without the nodes that remain: [`finish`](Self::finish) computes them, so that no
/// child is forgotten.
pub(super) struct FindingDraft<'n> {
    root: &'n Node,
    /// Directories of the layout whose children contend.
    inside: Vec<&'n Node>,
    finding: Finding,
}

impl<'n> FindingDraft<'n> {
    pub(super) fn new(root: &'n Node, kind: RecipeKind, library: Library) -> Self {
        let finding = Finding {
            path: root.path.clone(),
            kind,
            library,
            is_guess: false,
            is_partial: root.is_partial(),
            stat: root.stat,
            holders: Vec::new(),
            waiting: Vec::new(),
            parts: Vec::new(),
            ignored: Vec::new(),
            details: Details::None,
        };
        Self { root, inside: Vec::new(), finding }
    }

    pub(super) const fn root(&self) -> &'n Node {
        self.root
    }

    /// Notes that the nodes also fit other uses.
    pub(super) const fn guess(&mut self) {
        self.finding.is_guess = true;
    }

    pub(super) fn details(&mut self, details: Details) {
        self.finding.details = details;
    }

    /// Adds a node that belongs to the layout, and does not contend.
    pub(super) fn part(&mut self, node: &Node) {
        let name = self.relative(&node.path);
        self.finding.parts.push(name);
    }

    /// Adds a node that clients create for their session, and that does not contend. A persistent
    /// one contends: nothing ends it.
    pub(super) fn part_of_session(&mut self, node: &Node, role: Role) {
        if node.is_persistent() {
            self.holds(self.contender(node, role, None));
        } else {
            self.part(node);
        }
    }

    /// Adds another node of a contender that is counted already.
    pub(super) fn part_of(&mut self, node: &Contender) {
        self.finding.parts.push(node.name.clone());
    }

    /// Adds a directory of the layout whose children contend.
    pub(super) fn inside(&mut self, directory: &'n Node) {
        self.part(directory);
        let is_unread = self.root.stat.is_some() && directory.stat.is_none();
        self.finding.is_partial |= directory.is_partial() || is_unread;
        self.inside.push(directory);
    }

    pub(super) fn contender(&self, node: &Node, role: Role, sequence: Option<i32>) -> Contender {
        let owner = node.stat.filter(|_| node.is_ephemeral());
        // kazoo's lease with an end is a persistent node with a time.
        let has_end = role == Role::Lease;
        Contender {
            path: node.path.clone(),
            name: self.relative(&node.path),
            sequence,
            label: node.data.clone(),
            session: owner.map(|stat| SessionId::new(stat.ephemeral_owner)),
            is_persistent: node.is_persistent() && role.is_of_session() && !has_end,
            role,
            stat: node.stat,
            waits_on: None,
            is_revoked: node.is_ephemeral() && is_revocation(&node.data),
            within: within(&node.data),
        }
    }

    pub(super) fn holds(&mut self, contender: Contender) {
        self.finding.holders.push(contender);
    }

    pub(super) fn waits(&mut self, contender: Contender) {
        self.finding.waiting.push(contender);
    }

    /// Takes contenders out of suspicion that are persistent by design.
    pub(super) fn allow_persistent(&mut self, is_allowed: impl Fn(&str) -> bool) {
        for contender in &mut self.finding.holders {
            contender.is_persistent &= !is_allowed(&contender.path);
        }
    }

    pub(super) fn finish(mut self) -> Finding {
        let finding = &self.finding;
        let mut covered: BTreeSet<&str> = finding.parts.iter().map(String::as_str).collect();
        for contender in finding.holders.iter().chain(&finding.waiting) {
            let name = contender.name.as_str();
            covered.insert(name);
            covered.extend(name.match_indices('/').map(|(slash, _)| &name[..slash]));
        }
        let is_unread = |contender: &Contender| contender.stat.is_none();
        let has_unread = finding.holders.iter().chain(&finding.waiting).any(is_unread);
        let (mut parts, mut ignored) = (Vec::new(), Vec::new());
        let listed = self.inside.iter().copied().chain([self.root]);
        for node in listed.flat_map(|directory| &directory.children) {
            let name = self.relative(&node.path);
            if covered.contains(name.as_str()) {
                continue;
            }
            if is_receipt(node.name()) { parts.push(name) } else { ignored.push(name) }
        }
        self.finding.parts.extend(parts);
        self.finding.parts.sort_unstable();
        ignored.sort_unstable();
        self.finding.ignored = ignored;
        self.finding.is_partial |= self.root.stat.is_some() && has_unread;
        self.finding
    }

    fn relative(&self, path: &str) -> String {
        let below = path.strip_prefix(self.root.path.trim_end_matches('/')).unwrap_or(path);
        below.strip_prefix('/').unwrap_or(below).to_owned()
    }
}
