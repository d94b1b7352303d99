//! The tables of `PROTOCOL.md` list what the programs understand.

use std::collections::BTreeSet;

use zk_test_server::control::rule::OPERATIONS;
use zk_test_server::control::{Call, Code, Condition};

const PAGE: &str = include_str!("../PROTOCOL.md");

/// Returns the rows of the table below this line, as cells, without its head.
fn rows(head: &str) -> Vec<Vec<&'static str>> {
    let (_, table) = PAGE.split_once(&format!("\n{head}\n")).expect("a table of the page");
    let rows = table.lines().skip(1).take_while(|line| line.starts_with('|'));
    rows.map(|line| line.split('|').skip(1).map(str::trim).collect()).collect()
}

/// Returns what is in backticks.
fn code(cell: &'static str) -> impl Iterator<Item = &'static str> {
    cell.split('`').skip(1).step_by(2)
}

fn assert_same<'a>(listed: impl Iterator<Item = &'a str>, known: impl Iterator<Item = &'a str>) {
    let (listed, known): (Vec<_>, BTreeSet<_>) = (listed.collect(), known.collect());
    assert_eq!(listed.len(), known.len(), "nothing is listed twice: {listed:?}");
    assert_eq!(listed.into_iter().collect::<BTreeSet<_>>(), known);
}

#[test]
fn the_page_lists_every_call() {
    let rows = rows("| Call | Parameters | Result | Effect |");
    assert_same(rows.iter().flat_map(|row| code(row[0])), Call::NAMES.iter().copied());
}

#[test]
fn the_page_lists_every_error_code() {
    let rows = rows("| Error code | Meaning |");
    assert_same(
        rows.iter().flat_map(|row| code(row[0])),
        Code::ALL.iter().map(|code| code.as_str()),
    );
}

#[test]
fn the_page_lists_every_operation() {
    let rows = rows("| Parameter | Meaning | Default |");
    let row = rows.iter().find(|row| row[0] == "`operation`").expect("the row of `operation`");
    assert_same(code(row[1]), OPERATIONS.iter().copied());
}

#[test]
fn the_page_lists_every_condition() {
    let mut names = Vec::new();
    for row in rows("| Condition | True when |") {
        for example in code(row[0]) {
            let condition: Condition = serde_json::from_str(example).expect(example);
            let name = example.split('"').nth(1).expect(example);
            assert!(format!("{condition:?}").to_lowercase().starts_with(&name.replace('_', "")));
            names.push(name);
        }
    }
    names.dedup();
    assert_same(names.into_iter(), Condition::NAMES.iter().copied());
}

#[test]
fn the_parameters_in_the_page_are_those_of_the_calls() {
    use serde_json::{Map, Value, json};
    for row in rows("| Call | Parameters | Result | Effect |") {
        let name = code(row[0]).next().expect("a name");
        let parameters: Vec<_> = match name {
            // Its parameters have a table of their own.
            "add_rule" => vec!["verdict"],
            _ => code(row[1]).collect(),
        };
        let mut fields = Map::from_iter([("call".to_owned(), Value::from(name))]);
        for parameter in &parameters {
            let value = match *parameter {
                "token" | "rule" => json!("text"),
                "path" => json!("/a"),
                "session" => json!("0x1"),
                "sides" => json!([[0], [1]]),
                "condition" => json!({ "leader": true }),
                "read_only" => json!(true),
                "verdict" => json!("disconnect"),
                _ => json!(1),
            };
            fields.insert((*parameter).to_owned(), value);
        }
        let call = Call::parse(fields.clone()).unwrap_or_else(|error| panic!("{name}: {error}"));
        assert_eq!(call.name(), name);
        // Parameters in brackets may be missing, the others may not.
        for parameter in parameters {
            let mut fewer = fields.clone();
            fewer.remove(parameter);
            let is_optional = row[1].contains(&format!("[`{parameter}`]"));
            assert_eq!(Call::parse(fewer).is_ok(), is_optional, "{name}: {parameter}");
        }
    }
}

#[test]
fn the_examples_of_the_page_are_requests() {
    let mut requests = 0;
    for block in PAGE.split("```json\n").skip(1) {
        let block = block.split("```").next().expect("a block");
        for value in serde_json::Deserializer::from_str(block).into_iter::<serde_json::Value>() {
            let serde_json::Value::Object(mut fields) = value.expect(block) else {
                panic!("{block}");
            };
            if fields.contains_key("call") {
                fields.remove("id").expect("an id");
                Call::parse(fields).expect(block);
                requests += 1;
            }
        }
    }
    assert_eq!(requests, 3);
}
