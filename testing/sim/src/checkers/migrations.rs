use std::collections::BTreeMap;

use super::{Checker, Violation};
use crate::history::{Event, History, Migration, Name};

/// Checks the calls that apply sets of migrations.
///
/// * No migration is applied by two calls, whether they succeed or [fail after
///   that](Migration::Incomplete).
/// * A call with an [altered](Migration::Calling) set does not succeed.
/// * A call does not succeed if one with more migrations of the set had succeeded before it began.
/// * A call finds [more](Migration::Ahead) migrations only if another call knows more, and
///   [another](Migration::Mismatch) migration only if its own is altered.
#[derive(Debug, Clone, Default)]
#[non_exhaustive]
pub struct Migrations;

const NAME: &str = "migrations";

#[derive(Debug, Clone)]
struct Call<'a> {
    begun: usize,
    set: &'a Name,
    known: u32,
    altered: bool,
}

impl Checker for Migrations {
    fn check(&self, history: &History) -> Result<(), Violation> {
        let mut calls: BTreeMap<u64, Call<'_>> = BTreeMap::new();
        let mut applied: BTreeMap<(&Name, u32), usize> = BTreeMap::new();
        // For each set, the successful calls: the place of the result, and the known migrations.
        let mut succeeded: BTreeMap<&Name, Vec<(usize, u32)>> = BTreeMap::new();
        for (place, record) in history.records().iter().enumerate() {
            let Event::Migration(event) = &record.event else { continue };
            let (Migration::Calling { call, .. }
            | Migration::Migrated { call, .. }
            | Migration::Incomplete { call, .. }
            | Migration::Ahead { call }
            | Migration::Mismatch { call }) = event;
            if let Migration::Calling { set, known, altered, .. } = event {
                let (known, altered) = (*known, *altered);
                calls.insert(*call, Call { begun: place, set, known, altered });
                continue;
            }
            let Some(of) = calls.get(call).cloned() else { continue };
            let broken = |what: String, mut places: Vec<usize>| {
                places.extend([of.begun, place]);
                Err(Violation::new(NAME, what, places))
            };
            if let Migration::Migrated { applied: migrations, .. }
            | Migration::Incomplete { applied: migrations, .. } = event
            {
                for migration in migrations {
                    if let Some(before) = applied.insert((of.set, *migration), place) {
                        let what = format!("{migration} of {} is applied twice", of.set);
                        return broken(what, vec![before]);
                    }
                }
            }
            match event {
                Migration::Migrated { .. } if of.altered => {
                    return broken(format!("an altered set {} succeeds", of.set), vec![]);
                }
                Migration::Migrated { .. } => {
                    let done = succeeded.entry(of.set).or_default();
                    let newer = done.iter().find(|(at, known)| *at < of.begun && *known > of.known);
                    if let Some((at, _)) = newer {
                        return broken(format!("an older set {} succeeds", of.set), vec![*at]);
                    }
                    done.push((place, of.known));
                }
                Migration::Mismatch { .. } if !of.altered => {
                    return broken(format!("a set {} that is right is refused", of.set), vec![]);
                }
                Migration::Ahead { .. } => {
                    let mut others = calls.values().filter(|call| call.set == of.set);
                    if !others.any(|call| call.known > of.known) {
                        return broken(format!("no set {} has more migrations", of.set), vec![]);
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

    const CHECKER: Migrations = Migrations;

    fn calling(call: u64, known: u32, altered: bool) -> Migration {
        Migration::Calling { call, set: "s".into(), known, altered }
    }

    fn migrated(call: u64, applied: &[u32]) -> Migration {
        Migration::Migrated { call, applied: applied.to_vec() }
    }

    #[test]
    fn a_migration_is_applied_by_one_call() {
        let calls = || [(0, 1, calling(1, 2, false)), (1, 2, calling(2, 2, false))];
        let end = |one: &[u32], other: &[u32]| {
            calls().into_iter().chain([(2, 1, migrated(1, one)), (3, 2, migrated(2, other))])
        };
        passes(&CHECKER, end(&[0], &[1]));
        passes(&CHECKER, end(&[0, 1], &[]));
        fails(&CHECKER, end(&[0, 1], &[1]), "1 of s is applied twice", &[2, 1, 3]);
        let failed = (2, 1, Migration::Incomplete { call: 1, applied: vec![0] });
        let end =
            |other: &[u32]| calls().into_iter().chain([failed.clone(), (3, 2, migrated(2, other))]);
        passes(&CHECKER, end(&[1]));
        fails(&CHECKER, end(&[0, 1]), "0 of s is applied twice", &[2, 1, 3]);
    }

    #[test]
    fn an_older_set_succeeds_only_before_a_newer_one() {
        let newer = [(0, 1, calling(1, 3, false)), (1, 1, migrated(1, &[]))];
        let older = |at| [(at, 2, calling(2, 2, false)), (at + 9, 2, migrated(2, &[]))];
        let lines = newer.clone().into_iter().chain(older(2));
        fails(&CHECKER, lines, "an older set s succeeds", &[1, 2, 3]);
        let [begin, end] = older(0);
        passes(&CHECKER, [begin].into_iter().chain(newer).chain([end]));
    }

    #[test]
    fn differences_have_a_reason() {
        let ends = |altered, end| [(0, 1, calling(1, 2, altered)), (1, 1, end)];
        passes(&CHECKER, ends(true, Migration::Mismatch { call: 1 }));
        fails(
            &CHECKER,
            ends(false, Migration::Mismatch { call: 1 }),
            "a set s that is right is refused",
            &[0, 1],
        );
        fails(&CHECKER, ends(true, migrated(1, &[])), "an altered set s succeeds", &[0, 1]);
        let ahead = ends(false, Migration::Ahead { call: 1 });
        fails(&CHECKER, ahead.clone(), "no set s has more migrations", &[0, 1]);
        passes(&CHECKER, [(0, 2, calling(2, 3, false))].into_iter().chain(ahead));
    }
}
