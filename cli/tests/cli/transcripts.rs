//! Runs the examples of the guide, and compares their output.

use std::path::Path;

use regex::Regex;

use crate::support::Zkc;

/// The pages with examples of `zkc`. A block of the language `console` is one or more commands,
/// each after `$ `, with their output.
const PAGES: [&str; 3] = ["locks-in-scripts.md", "on-call.md", "zkc.md"];

#[tokio::test]
async fn the_examples_of_the_guide_are_true() {
    for page in PAGES {
        follow(page, &Zkc::start().await).await;
    }
}

#[tokio::test]
#[ignore = "slow: scripts/test-all"]
async fn the_examples_are_true_on_apache_zookeeper() {
    for page in PAGES {
        let name = "the_examples_are_true_on_apache_zookeeper";
        let Some(server) = zk_curator_real::or_skip(name).await else { return };
        let mut zkc = Zkc::start().await;
        zkc.servers = server.connect_string();
        follow(page, &zkc).await;
    }
}

/// Runs the commands of a page, and compares their output.
pub(crate) async fn follow(page: &str, zkc: &Zkc) {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../docs/book/src/operating");
    let text = std::fs::read_to_string(folder.join(page)).expect("a page of the guide");
    let commands = commands(&text);
    assert!(commands.len() > 8, "{page} has few examples: {}", commands.len());
    for Example { command, output } in commands {
        let told = run(zkc, &command).await;
        assert_eq!(without_chance(&told), without_chance(&output), "{page}: {command}\n{told}");
    }
}

struct Example {
    command: String,
    output: String,
}

/// Returns the commands of all blocks.
fn commands(page: &str) -> Vec<Example> {
    let mut examples: Vec<Example> = Vec::new();
    let mut is_example = false;
    for line in page.lines() {
        match line {
            "```console" => is_example = true,
            "```" => is_example = false,
            _ if !is_example => {}
            _ => match (line.strip_prefix("$ "), examples.last_mut()) {
                (Some(command), _) => {
                    examples.push(Example { command: command.to_owned(), output: String::new() });
                }
                (None, Some(example)) => {
                    example.output.push_str(line);
                    example.output.push('\n');
                }
                (None, None) => panic!("output before a command: {line}"),
            },
        }
    }
    examples
}

/// Runs a line in a shell that finds `zkc`, and returns all of its output.
async fn run(zkc: &Zkc, line: &str) -> String {
    let mut command = zkc.program("sh", &["-c", &format!("exec 2>&1; {line}")]);
    let child = command.spawn().expect("sh");
    crate::support::end(child, "").await.stdout
}

/// Replaces times, sessions and ports, which differ from run to run, and spaces between columns.
fn without_chance(text: &str) -> String {
    let replaced = [
        (r"\d{4}-\d\d-\d\d[ T]\d\d:\d\d:\d\d(\.\d+)?Z?", "TIME"),
        (r"\d\d:\d\d:\d\d", "TIME"),
        (r"0x[0-9a-f]+", "HEX"),
        (r"127\.0\.0\.1:\d+", "ADDRESS"),
        (r"_c_[0-9a-f-]{36}", "GUID"),
        (r"\d+(\.\d+)? (s|ms|m|h|d)\b", "DURATION"),
        (r"(DURATION )+", "DURATION "),
        (r" {2,}", "  "),
    ];
    let text = replaced.iter().fold(text.to_owned(), |text, (pattern, name)| {
        Regex::new(pattern).expect("a pattern").replace_all(&text, *name).into_owned()
    });
    text.lines().map(str::trim_end).collect::<Vec<_>>().join("\n")
}
