//! Which permits of a semaphore are granted. Pure.

use zk_curator::path::SequenceSuffix;

use crate::lock::tag;
use crate::order::is_in_order;

/// Returns `true` if all of our permits are among the names, and there are not more permits than
/// the limit up to the last of ours.
///
/// Permits that came later do not count: they are not granted before ours. There are none, unless
/// another client has deleted the turn of a waiter. If all permits counted, two such waiters would
/// wait for each other. Curator counts all, so whom it grants a permit is among the first as well.
pub(super) fn grants(names: &[String], ours: &[&str], limit: u32) -> bool {
    let numbers = || names.iter().filter_map(|name| number(name));
    let last = ours.iter().filter_map(|name| number(name)).max();
    let in_order = numbers().all(is_in_order);
    let all = numbers().filter(|number| !in_order || Some(*number) <= last).count();
    u32::try_from(all).is_ok_and(|all| all <= limit) && has(names, ours.iter().copied())
}

/// Returns `true` if all of our permits are among the names.
pub(super) fn has<'a>(names: &[String], mut ours: impl Iterator<Item = &'a str>) -> bool {
    ours.all(|own| names.iter().any(|name| name == own))
}

fn number(name: &str) -> Option<i64> {
    SequenceSuffix::after(name, tag::LEASE).map(|number| i64::from(number.get()))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn names(numbers: &[i32]) -> Vec<String> {
        numbers.iter().map(|number| format!("_c_1-lease-{number:010}")).collect()
    }

    fn grants_to(all: &[i32], ours: &[i32], limit: u32) -> bool {
        let ours = names(ours);
        grants(&names(all), &ours.iter().map(String::as_str).collect::<Vec<_>>(), limit)
    }

    #[test]
    fn as_many_leases_as_the_limit_are_granted() {
        assert!(grants_to(&[1, 2, 3], &[3], 3));
        assert!(!grants_to(&[1, 2, 3], &[3], 2));
        assert!(grants_to(&[1, 2, 3], &[1, 3], 3));
        assert!(!grants_to(&[1], &[1], 0));
        assert!(grants_to(&[], &[], 0));
    }

    #[test]
    fn later_leases_do_not_count() {
        assert!(grants_to(&[1, 2, 3], &[2], 2));
        assert!(!grants_to(&[1, 2, 3], &[2, 3], 2));
    }

    #[test]
    fn missing_leases_are_not_granted() {
        assert!(!grants_to(&[1, 2], &[3], 3));
        assert!(!grants_to(&[], &[1], 3));
    }

    #[test]
    fn all_leases_count_when_numbers_may_have_wrapped_around() {
        assert!(!grants_to(&[1, i32::MIN], &[1], 1));
        assert!(grants_to(&[1, i32::MIN], &[1], 2));
    }

    #[test]
    fn other_nodes_do_not_count() {
        let mut all = names(&[1]);
        all.push("notes".to_owned());
        assert!(grants(&all, &[all[0].as_str()], 1));
    }
}
