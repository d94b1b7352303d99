//! Queues whose items are the children of one node: those of Curator, of ZooKeeper's recipes and of
//! kazoo.

use zk_curator::path::SequenceSuffix;

use crate::inspect::details::Details;
use crate::inspect::draft::FindingDraft;
use crate::inspect::finding::{Finding, Library, RecipeKind, Role};
use crate::inspect::node::Node;
use crate::path::is_uuid;
use crate::queue::wire::name::NamingRules;

/// The prefix of the items of kazoo's queues.
const ENTRY: &str = "entry-";
/// The parts of kazoo's `LockingQueue`.
const ENTRIES: &str = "entries";
const TAKEN: &str = "taken";
/// The prefix of the queues of a `QueueSharder`.
const SHARD: &str = "queue-";
/// The times from 2001 to 2100: a number in this range in a name is a due time rather than an id.
const TIMES: std::ops::Range<i64> = 1_000_000_000_000..4_100_000_000_000;

pub(super) fn recognise(node: &Node) -> Option<Finding> {
    kazoos_locking(node)
        .or_else(|| curators(node))
        .or_else(|| kazoos(node))
        .or_else(|| shards(node))
}

fn curators(node: &Node) -> Option<Finding> {
    let (kind, recipe, library, is_guess) = kind_of(node)?;
    let is_item = |child: &&Node| kind.place(child.name()).is_some();
    // Items are never ephemeral. Persistent claims alone cannot be told from items.
    if node.children.iter().filter(is_item).any(Node::is_ephemeral) {
        return Some(lock_path(node, kind));
    }
    let mut draft = FindingDraft::new(node, recipe, library);
    if is_guess {
        draft.guess();
    }
    let mut items: Vec<_> =
        node.children.iter().filter_map(|child| Some((kind.place(child.name())?, child))).collect();
    items.sort_by_key(|(place, child)| (*place, child.name().to_owned()));
    let details = Details::Queue { items: items.len(), claimed: 0, first_deliveries: None };
    for (place, child) in items {
        let sequence = place.sequence().cast_signed();
        draft.waits(draft.contender(child, Role::Item, Some(sequence)));
    }
    draft.details(details);
    Some(draft.finish())
}

/// The kind that most of the names need: an item that Curator has put back has a plain name in
/// every kind of queue.
fn kind_of(node: &Node) -> Option<(NamingRules, RecipeKind, Library, bool)> {
    let names = || node.children.iter().map(Node::name);
    let has = |kind: NamingRules| names().any(|name| kind.place(name).is_some());
    let time = |name: &str| NamingRules::Id.id_of(name).map(|id| i64::from_str_radix(id, 16));
    let is_time =
        |name: &str| time(name).is_none_or(|time| time.is_ok_and(|time| TIMES.contains(&time)));
    if has(NamingRules::Simple) {
        return Some((NamingRules::Simple, RecipeKind::SimpleQueue, Library::ZooKeeper, false));
    }
    // A name without a middle fits all of these.
    let plain = |name: &str| NamingRules::Plain.place(name).is_some();
    let marked = |kind: NamingRules| names().any(|name| !plain(name) && kind.place(name).is_some());
    let of_curator = |kind, recipe, is_guess| Some((kind, recipe, Library::Curator, is_guess));
    if marked(NamingRules::Priority) {
        of_curator(NamingRules::Priority, RecipeKind::PriorityQueue, false)
    } else if marked(NamingRules::Delay) && names().all(is_time) {
        of_curator(NamingRules::Delay, RecipeKind::DelayQueue, true)
    } else if marked(NamingRules::Id) {
        of_curator(NamingRules::Id, RecipeKind::IdQueue, false)
    } else if has(NamingRules::Plain) {
        of_curator(NamingRules::Plain, RecipeKind::Queue, false)
    } else {
        None
    }
}

/// The lock path of a queue: claims with the names of the items.
fn lock_path(node: &Node, kind: NamingRules) -> Finding {
    let mut draft = FindingDraft::new(node, RecipeKind::QueueLocks, Library::Curator);
    let mut claims: Vec<_> =
        node.children.iter().filter_map(|child| Some((kind.place(child.name())?, child))).collect();
    claims.sort_by_key(|(place, child)| (*place, child.name().to_owned()));
    for (place, child) in claims {
        let sequence = place.sequence().cast_signed();
        draft.holds(draft.contender(child, Role::Claim, Some(sequence)));
    }
    draft.finish()
}

/// kazoo's `Queue`.
fn kazoos(node: &Node) -> Option<Finding> {
    let entries = sorted_entries(node);
    if entries.is_empty() {
        return None;
    }
    let mut draft = FindingDraft::new(node, RecipeKind::PriorityQueue, Library::Kazoo);
    draft.details(Details::Queue { items: entries.len(), claimed: 0, first_deliveries: None });
    for entry in entries {
        draft.waits(draft.contender(entry, Role::Item, number_of(entry)));
    }
    Some(draft.finish())
}

/// kazoo's `LockingQueue`.
fn kazoos_locking(node: &Node) -> Option<Finding> {
    let (entries, taken) = (node.get(ENTRIES)?, node.get(TAKEN)?);
    let mut draft = FindingDraft::new(node, RecipeKind::LockingQueue, Library::Kazoo);
    draft.inside(entries);
    draft.inside(taken);
    let claims = sorted_entries(taken);
    let items = sorted_entries(entries);
    draft.details(Details::Queue {
        items: items.len(),
        claimed: claims.len(),
        first_deliveries: None,
    });
    for claim in claims {
        draft.holds(draft.contender(claim, Role::Claim, number_of(claim)));
    }
    for item in items {
        // A claimed item is a part: its claim stands for it.
        if taken.get(item.name()).is_some() {
            draft.part(item);
        } else {
            draft.waits(draft.contender(item, Role::Item, number_of(item)));
        }
    }
    Some(draft.finish())
}

/// kazoo's items in kazoo's order, which is that of the names.
fn sorted_entries(node: &Node) -> Vec<&Node> {
    let is_entry = |node: &&Node| number_of(node).is_some();
    let mut entries: Vec<_> = node.children.iter().filter(is_entry).collect();
    entries.sort_by_key(|entry| entry.name().to_owned());
    entries
}

/// The sequence number of an item of kazoo, `entry-PPP-NNNNNNNNNN`.
fn number_of(node: &Node) -> Option<i32> {
    let rest = node.name().strip_prefix(ENTRY)?;
    let (priority, _) = rest.split_once('-')?;
    let is_priority = priority.len() == 3 && priority.bytes().all(|byte| byte.is_ascii_digit());
    let number = SequenceSuffix::after(rest, "-")?.get();
    (is_priority && rest.len() == 4 + format!("{number:010}").len()).then_some(number)
}

fn shards(node: &Node) -> Option<Finding> {
    let is_shard = |node: &Node| node.name().strip_prefix(SHARD).is_some_and(is_uuid);
    if !node.children.iter().any(is_shard) {
        return None;
    }
    let mut draft = FindingDraft::new(node, RecipeKind::ShardedQueue, Library::Curator);
    node.children.iter().filter(|node| is_shard(node)).for_each(|shard| draft.part(shard));
    Some(draft.finish())
}
