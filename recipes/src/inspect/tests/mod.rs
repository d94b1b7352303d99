//! Trees as text, for the tests of the pure parts.

mod any_names;
mod deadlocks;
mod layouts;
mod stores;
mod verdicts;

use zk_curator::Stat;

use super::node::Node;
use super::{Contender, Finding, recognise};
use crate::path::child;

/// Replaces `{a}` by a UUID and `{A}` by one without hyphens, for each letter from a to f.
fn text(text: &str) -> String {
    let mut text = text.to_owned();
    for letter in 'a'..='f' {
        let digits = letter.to_string().repeat(32);
        let uuid =
            [&digits[..8], &digits[..4], &digits[..4], &digits[..4], &digits[..12]].join("-");
        text = text.replace(&format!("{{{letter}}}"), &uuid);
        text = text.replace(&format!("{{{}}}", letter.to_ascii_uppercase()), &digits);
    }
    text
}

/// Builds a tree from lines `relative/path @session =data`, created in this order. Nodes above a
/// line's node exist without a line. A line `.` is the root. In data, `\n` is a line feed.
fn tree(path: &str, lines: &str) -> Node {
    let mut root = persistent(Node::new(path), 1);
    let lines = text(lines);
    for (czxid, line) in (2..).zip(lines.lines().map(str::trim).filter(|line| !line.is_empty())) {
        let (head, data) = line.split_once(" =").unwrap_or((line, ""));
        let (name, session) = head.split_once(" @").unwrap_or((head, "0"));
        let mut node = &mut root;
        for name in name.split('/').filter(|name| *name != ".") {
            node = descend(node, name, czxid);
        }
        node.data = data.replace("\\n", "\n").into();
        node.stat = Some(Stat {
            ephemeral_owner: session.trim().parse().unwrap(),
            ..node.stat.unwrap_or_default()
        });
    }
    root
}

fn persistent(node: Node, czxid: i64) -> Node {
    node.stat(Stat { czxid, mzxid: czxid, ctime: czxid, ..Stat::default() })
}

fn descend<'n>(node: &'n mut Node, name: &str, czxid: i64) -> &'n mut Node {
    let index = node.children.iter().position(|child| child.name() == name).unwrap_or_else(|| {
        let below = persistent(Node::new(child(&node.path, name)), czxid);
        node.children.push(below);
        if let Some(stat) = &mut node.stat {
            stat.num_children += 1;
            stat.cversion += 1;
        }
        node.children.len() - 1
    });
    &mut node.children[index]
}

/// Writes a finding in the form of the tables: the kind, and a line for each list that is not
/// empty.
fn written(finding: &Finding) -> String {
    let guess = if finding.is_guess { ", perhaps" } else { "" };
    let mut lines = vec![format!("{} of {}{guess}", finding.kind, finding.library)];
    let contenders = |contenders: &[Contender]| {
        let one = |one: &Contender| format!("{} {}", one.role, one.name);
        contenders.iter().map(one).collect::<Vec<_>>()
    };
    let lists = [
        ("holds", contenders(&finding.holders)),
        ("waits", contenders(&finding.waiting)),
        ("part", finding.parts.clone()),
        ("ignored", finding.ignored.clone()),
    ];
    for (list, names) in lists {
        lines.extend(names.iter().map(|name| format!("{list} {name}")));
    }
    lines.join("\n")
}

/// Recognises a tree at `/r`.
#[track_caller]
fn assert_recognised(lines: &str, expected: &str) {
    let expected: Vec<_> =
        expected.lines().map(str::trim).filter(|line| !line.is_empty()).collect();
    assert_eq!(written(&recognise(&tree("/r", lines))), text(&expected.join("\n")), "{lines}");
}
