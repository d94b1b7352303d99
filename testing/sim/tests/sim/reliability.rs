//! The table of simulated seeds in `docs/reliability.md`.

use std::collections::BTreeSet;

use zk_curator_sim::scenarios;

const PAGE: &str = include_str!("../../../../docs/reliability.md");

#[test]
fn the_table_of_simulated_seeds_has_a_row_for_each_workload() {
    let (_, rest) = PAGE.split_once("<!-- written by scripts/reliability").expect("a table");
    let (table, _) = rest.split_once("<!-- end of the table -->").expect("its end");
    let mut rows = table.lines().filter(|line| line.starts_with('|'));
    let columns = rows.next().expect("a header").matches('|').count();
    assert!(rows.next().is_some_and(|line| line.starts_with("|---")));
    let mut names = BTreeSet::new();
    for row in rows {
        assert_eq!(row.matches('|').count(), columns, "{row}");
        let name = row.strip_prefix("| `").and_then(|row| row.split_once('`')).expect(row).0;
        assert!(names.insert(name), "{name} is in the table twice");
    }
    let workloads = scenarios::ALL.iter().filter(|scenario| !scenario.is_demonstration());
    let expected: BTreeSet<_> = workloads.map(|scenario| scenario.name()).collect();
    assert_eq!(names, expected, "scripts/reliability table");
}
