use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use super::{Checker, Violation};
use crate::history::{Discovery, Event, Group, History, Lifecycle, Name, ProcessId, Written};

/// Checks what the servers did to the nodes of instances, transaction by transaction.
///
/// * **No gap.** While a client [serves](Discovery::Serving), the node with which it serves is
///   deleted only at the end of a session, by an operator, or by the transaction that creates the
///   next one. A node of a client that does not serve yet, or not again after such a loss, may be
///   deleted: the response to its create may have come too late.
/// * **No return.** After a client was told that its instance [is gone](Group::Parted), no node is
///   created at that path before it registers the next instance.
#[derive(Debug, Clone, Default)]
#[non_exhaustive]
pub struct Registered;

const NAME: &str = "registered";

/// A registration.
struct Member {
    whose: ProcessId,
    joining: Duration,
    /// The node, and the record that tells of it.
    node: Option<(Name, usize)>,
    serving: Duration,
    ending: Option<Duration>,
    /// When it was known to be gone, and the record.
    gone: Option<(Duration, usize)>,
}

impl Member {
    fn is_at(&self, path: &Name) -> bool {
        self.node.as_ref().is_some_and(|(node, _)| node == path)
    }

    fn serves(&self, path: &Name, at: Duration) -> bool {
        self.is_at(path) && self.serving < at && self.ending.is_none_or(|ending| at < ending)
    }
}

/// A write of a node: the place of its record, the time, the transaction, the path, the creation of
/// the node, and the kind.
type Write<'h> = (usize, Duration, i64, &'h Name, i64, Written);

/// Returns the members, and the writes of the servers.
fn read(history: &History) -> (BTreeMap<&Name, Member>, Vec<Write<'_>>) {
    let mut members: BTreeMap<&Name, Member> = BTreeMap::new();
    let mut writes = Vec::new();
    for (place, record) in history.records().iter().enumerate() {
        let at = record.at;
        match &record.event {
            Event::Group(Group::Joining { member, .. }) => {
                let (serving, ending, gone) = (Duration::MAX, None, None);
                let (whose, joining, node) = (record.who, at, None);
                let begun = Member { whose, joining, node, serving, ending, gone };
                members.insert(member, begun);
            }
            Event::Discovery(Discovery::Serving { member, path }) => {
                if let Some(member) = members.get_mut(member) {
                    (member.node, member.serving) = (Some((path.clone(), place)), at);
                }
            }
            Event::Discovery(Discovery::Ending { member }) => {
                if let Some(member) = members.get_mut(member) {
                    member.ending.get_or_insert(at);
                }
            }
            Event::Group(Group::Parted { member, .. }) => {
                if let Some(member) = members.get_mut(member) {
                    member.gone = Some((at, place));
                }
            }
            Event::Lifecycle(Lifecycle::Killed | Lifecycle::Finished) => {
                for member in members.values_mut().filter(|member| member.whose == record.who) {
                    member.ending.get_or_insert(at);
                }
            }
            Event::Discovery(Discovery::Written { at, zxid, path, czxid, how }) => {
                writes.push((place, *at, *zxid, path, *czxid, *how));
            }
            _ => {}
        }
    }
    (members, writes)
}

impl Checker for Registered {
    fn check(&self, history: &History) -> Result<(), Violation> {
        let (members, writes) = read(history);
        let mut served = BTreeSet::new();
        for member in members.values() {
            let Some((path, _)) = &member.node else { continue };
            let created = writes.iter().filter(|(_, at, _, node, _, how)| {
                (*node, *how) == (path, Written::Created) && *at <= member.serving
            });
            served.extend(created.map(|(_, _, zxid, ..)| *zxid).max());
        }
        for (place, at, zxid, path, czxid, how) in &writes {
            match how {
                Written::Expired => {}
                Written::Deleted => {
                    let is_replaced = writes.iter().any(|(_, _, other, node, _, how)| {
                        (other, node, *how) == (zxid, path, Written::Created)
                    });
                    if is_replaced && served.contains(czxid) {
                        served.insert(*zxid);
                    }
                    if is_replaced || history.has_removed(*czxid) || !served.contains(czxid) {
                        continue;
                    }
                    let found = members.iter().find(|(_, member)| member.serves(path, *at));
                    if let Some((name, Member { node: Some((_, serving)), .. })) = found {
                        let broken = format!("{path} is deleted while {name} serves");
                        return Err(Violation::new(NAME, broken, [*serving, *place]));
                    }
                }
                Written::Created => {
                    let gone = members.values().filter_map(|member| {
                        let gone = member.gone.filter(|(gone, _)| member.is_at(path) && gone < at);
                        gone.map(|gone| (gone, member.whose))
                    });
                    let Some(((gone, proof), whose)) = gone.max() else { continue };
                    let is_next = members.values().any(|member| {
                        member.whose == whose && (gone..=*at).contains(&member.joining)
                    });
                    if !is_next {
                        let broken = format!("{path} is back, and was unregistered");
                        return Err(Violation::new(NAME, broken, [proof, *place]));
                    }
                }
            }
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::checkers::script::{fails, passes};
    use crate::history::Operator;

    const NODE: &str = "/services/orders/c1";

    fn joining(member: &str) -> Event {
        Group::Joining { group: "orders".into(), member: member.into() }.into()
    }

    fn parted(member: &str) -> Event {
        Group::Parted { group: "orders".into(), member: member.into() }.into()
    }

    fn serving(member: &str) -> Event {
        Discovery::Serving { member: member.into(), path: NODE.into() }.into()
    }

    fn ending(member: &str) -> Event {
        Discovery::Ending { member: member.into() }.into()
    }

    fn written(at_ms: u64, zxid: i64, czxid: i64, how: Written) -> (u64, u32, Event) {
        let (at, path) = (Duration::from_millis(at_ms), NODE.into());
        (1_000, 0, Discovery::Written { at, zxid, path, czxid, how }.into())
    }

    fn served() -> [(u64, u32, Event); 2] {
        [(1, 1, joining("a")), (3, 1, serving("a"))]
    }

    #[test]
    fn nodes_that_end_for_a_reason_are_no_gap() {
        let lost = [written(2, 1, 1, Written::Created), written(9, 2, 1, Written::Expired)];
        passes(&Registered, served().into_iter().chain(lost));
        let replaced = [
            written(2, 1, 1, Written::Created),
            written(9, 2, 1, Written::Deleted),
            written(9, 2, 2, Written::Created),
        ];
        passes(&Registered, served().into_iter().chain(replaced));
        let removed = Operator::Removed { path: NODE.into(), tokens: vec![1] };
        let removed = [(9, 0, removed.into()), written(9, 2, 1, Written::Deleted)];
        passes(&Registered, served().into_iter().chain(removed));
        let ended = [(9, 1, ending("a")), written(9, 2, 1, Written::Deleted)];
        passes(&Registered, served().into_iter().chain(ended));
        let killed = [(8, 1, Lifecycle::Killed.into()), written(9, 2, 1, Written::Deleted)];
        passes(&Registered, served().into_iter().chain(killed));
    }

    #[test]
    fn a_gap_is_found() {
        let gap = [
            written(2, 1, 1, Written::Created),
            written(9, 2, 1, Written::Deleted),
            written(9, 3, 3, Written::Created),
        ];
        let events = served().into_iter().chain(gap);
        fails(&Registered, events, "is deleted while a serves", &[1, 3]);
    }

    #[test]
    fn a_node_that_was_created_after_a_loss_may_be_deleted() {
        let events = [
            written(2, 1, 1, Written::Created),
            written(5, 2, 1, Written::Expired),
            written(7, 3, 3, Written::Created),
            written(9, 4, 3, Written::Deleted),
        ];
        passes(&Registered, served().into_iter().chain(events));
        let replaced = [
            written(2, 1, 1, Written::Created),
            written(5, 2, 1, Written::Deleted),
            written(5, 2, 2, Written::Created),
            written(9, 4, 2, Written::Deleted),
        ];
        let events = served().into_iter().chain(replaced);
        fails(&Registered, events, "is deleted while a serves", &[1, 5]);
    }

    #[test]
    fn an_instance_that_comes_back_is_found() {
        let begun = || served().into_iter().chain([(5, 1, ending("a")), (6, 1, parted("a"))]);
        let back = [written(8, 3, 3, Written::Created)];
        fails(&Registered, begun().chain(back.clone()), "is back", &[3, 4]);
        passes(&Registered, begun().chain([(7, 1, joining("b"))]).chain(back));
    }
}
