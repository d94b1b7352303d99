use std::collections::BTreeMap;
use std::time::Duration;

use super::{Checker, Violation};
use crate::history::{Event, Group, History, Lifecycle, Name, ProcessId};

/// Checks that clients see only possible members of a group.
///
/// * A member is seen only after it has [begun to join](Group::Joining).
/// * No member is seen that is gone for longer than the [view](Group::Viewed) allows. A member is
///   gone when it has [left](Group::Parted), or its life has ended. ZooKeeper shows the nodes of a
///   session until it has expired on the servers, and a client that is cut off from the servers
///   sees no change. So the time counts only from the end of the faults.
#[derive(Debug, Clone, Default)]
#[non_exhaustive]
pub struct GroupViews;

const NAME: &str = "group views";

struct Membership {
    whose: ProcessId,
    joining: usize,
    /// The time of the end of the faults, and its record.
    over: Option<(Duration, usize)>,
}

impl Checker for GroupViews {
    fn check(&self, history: &History) -> Result<(), Violation> {
        let mut members: BTreeMap<(&Name, &Name), Membership> = BTreeMap::new();
        let mut no_more_faults = None;
        for (place, record) in history.records().iter().enumerate() {
            let at = record.at;
            match &record.event {
                Event::Group(Group::Joining { group, member }) => {
                    let membership = Membership { whose: record.who, joining: place, over: None };
                    if let Some(before) = members.insert((group, member), membership) {
                        let broken = format!("{member} joins {group} twice");
                        return Err(Violation::new(NAME, broken, vec![before.joining, place]));
                    }
                }
                Event::Group(Group::Parted { group, member }) => {
                    if let Some(membership) = members.get_mut(&(group, member)) {
                        membership.over.get_or_insert((at, place));
                    }
                }
                Event::Lifecycle(Lifecycle::Killed | Lifecycle::Finished) => {
                    for membership in
                        members.values_mut().filter(|member| member.whose == record.who)
                    {
                        membership.over.get_or_insert((at, place));
                    }
                }
                Event::FaultsOver => no_more_faults = Some(at),
                Event::Group(Group::Viewed { group, members: seen, lag }) => {
                    for member in seen {
                        let Some(membership) = members.get(&(group, member)) else {
                            let broken =
                                format!("{member} is seen in {group}, and has never joined");
                            return Err(Violation::new(NAME, broken, vec![place]));
                        };
                        let (Some((over, proof)), Some(calm)) = (membership.over, no_more_faults)
                        else {
                            continue;
                        };
                        if at > over.max(calm) + *lag {
                            let broken = format!(
                                "{member} is seen in {group}, and has been gone for too long"
                            );
                            return Err(Violation::new(
                                NAME,
                                broken,
                                vec![membership.joining, proof, place],
                            ));
                        }
                    }
                }
                _ => {}
            }
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::checkers::script::{fails, passes};

    const CHECKER: GroupViews = GroupViews;

    fn joining(member: &str) -> Event {
        Group::Joining { group: "g".into(), member: member.into() }.into()
    }

    fn parted(member: &str) -> Event {
        Group::Parted { group: "g".into(), member: member.into() }.into()
    }

    fn viewed<const N: usize>(members: [&str; N]) -> Event {
        let members = members.map(Name::from).to_vec();
        Group::Viewed { group: "g".into(), members, lag: Duration::from_millis(10) }.into()
    }

    #[test]
    fn members_are_seen_as_long_as_they_may_be() {
        passes(
            &CHECKER,
            [
                (0, 0, Event::FaultsOver),
                (1, 1, joining("a")),
                (2, 2, viewed(["a"])),
                (5, 1, parted("a")),
                (15, 2, viewed(["a"])),
                (16, 2, viewed([])),
            ],
        );
    }

    #[test]
    fn while_there_are_faults_views_may_be_old() {
        let began = [(1, 1, joining("a")), (5, 1, parted("a")), (500, 2, viewed(["a"]))];
        passes(&CHECKER, began);
        let began = [
            (1, 1, joining("a")),
            (5, 1, parted("a")),
            (500, 0, Event::FaultsOver),
            (509, 2, viewed(["a"])),
        ];
        passes(&CHECKER, began);
    }

    #[test]
    fn a_member_that_has_left_is_found() {
        let events = [
            (0, 0, Event::FaultsOver),
            (1, 1, joining("a")),
            (2, 1, joining("b")),
            (5, 1, parted("a")),
            (16, 2, viewed(["a", "b"])),
        ];
        fails(&CHECKER, events, "a is seen in g, and has been gone", &[1, 3, 4]);
        let old = [
            (1, 1, joining("a")),
            (5, 1, parted("a")),
            (500, 0, Event::FaultsOver),
            (511, 2, viewed(["a"])),
        ];
        fails(&CHECKER, old, "has been gone for too long", &[0, 1, 3]);
    }

    #[test]
    fn one_whose_process_has_ended_is_found() {
        for end in [Lifecycle::Killed, Lifecycle::Finished] {
            let events = [
                (0, 0, Event::FaultsOver),
                (1, 1, joining("a")),
                (2, 1, end.into()),
                (13, 2, viewed(["a"])),
            ];
            fails(&CHECKER, events, "has been gone for too long", &[1, 2, 3]);
        }
        // The end of another process does not count.
        let events = [
            (0, 0, Event::FaultsOver),
            (1, 1, joining("a")),
            (2, 2, Lifecycle::Killed.into()),
            (13, 3, viewed(["a"])),
        ];
        passes(&CHECKER, events);
    }

    #[test]
    fn member_that_never_joined_is_found() {
        fails(
            &CHECKER,
            [(1, 1, joining("a")), (2, 2, viewed(["a", "b"]))],
            "b is seen in g, and has never",
            &[1],
        );
        let other = Group::Joining { group: "h".into(), member: "a".into() }.into();
        fails(&CHECKER, [(1, 1, other), (2, 2, viewed(["a"]))], "has never joined", &[1]);
    }

    #[test]
    fn no_member_joins_twice() {
        fails(
            &CHECKER,
            [(1, 1, joining("a")), (2, 1, parted("a")), (3, 1, joining("a"))],
            "twice",
            &[0, 2],
        );
    }
}
