//! The help: commands in groups, exit codes, and examples of every command.

use std::collections::BTreeMap;

use clap::Command;

use crate::commands::{CommandGroup, GROUPS};
use crate::exit;

/// The sections with examples.
const EXAMPLES: &str = include_str!("examples.txt");

/// The end of the help of `zkc`.
const MORE: &str = "`zkc help COMMAND` shows the options of a command, and examples.";

/// Adds groups, exit codes and examples to the help of a command tree.
pub(crate) fn complete(tree: Command) -> Command {
    let sections = sections();
    let (template, groups) = (template(&tree), groups(&tree, &sections));
    let tree = tree.help_template(template).before_help(groups).after_help(exit_codes());
    with_examples(tree, "", &sections)
}

/// Returns the template of the help of `zkc`. clap has no headings for commands, so the groups take
/// the place of its list.
fn template(tree: &Command) -> String {
    let header = tree.get_styles().get_header();
    format!(
        "{{about-with-newline}}\n{{usage-heading}} {{usage}}\n\n{{before-help}}\
         {header}Options:{header:#}\n{{options}}{{after-help}}"
    )
}

/// Returns the commands in groups, each with an example.
fn groups(tree: &Command, sections: &BTreeMap<&'static str, &'static str>) -> String {
    let (header, literal) = (tree.get_styles().get_header(), tree.get_styles().get_literal());
    let widths = tree.get_subcommands().map(|command| command.get_name().len());
    let width = widths.max().unwrap_or_default();
    let mut text = String::new();
    for group in GROUPS {
        text.push_str(&format!("{header}{}:{header:#}\n", group.title));
        for command in commands_of(group, tree) {
            let (name, about) = (command.get_name(), about(command));
            text.push_str(&format!("  {literal}{name:<width$}{literal:#}  {about}\n"));
        }
        if let Some(line) = example_of(group, tree, sections) {
            text.push_str(&format!("  Example: {line}\n"));
        }
        text.push('\n');
    }
    text.trim_end().to_owned()
}

/// Returns the commands of a group, in its order.
fn commands_of<'a>(
    group: &'a CommandGroup,
    tree: &'a Command,
) -> impl Iterator<Item = &'a Command> {
    group.names().filter_map(move |name| tree.find_subcommand(name))
}

/// Returns the description of a command, with its other names.
fn about(command: &Command) -> String {
    let about = command.get_about().map(ToString::to_string).unwrap_or_default();
    let aliases: Vec<_> = command.get_visible_aliases().collect();
    if aliases.is_empty() { about } else { format!("{about} [alias: {}]", aliases.join(", ")) }
}

/// Returns the first example of the first command of a group.
fn example_of(
    group: &CommandGroup,
    tree: &Command,
    sections: &BTreeMap<&'static str, &'static str>,
) -> Option<&'static str> {
    let first = commands_of(group, tree).next()?;
    let section = sections.get(first.get_name()).copied()?;
    section.lines().find(|line| line.starts_with("zkc "))
}

/// Returns the table of exit codes, and how to find more.
fn exit_codes() -> String {
    let mut text = "Exit codes:\n".to_owned();
    for (code, meaning) in exit::meanings() {
        let meaning = meaning.replace('\n', "\n             ");
        text.push_str(&format!("  {code:<9}  {meaning}\n"));
    }
    text.push('\n');
    text.push_str(MORE);
    text
}

/// Returns the sections of the examples.
fn sections() -> BTreeMap<&'static str, &'static str> {
    let sections = EXAMPLES.split("\n[").skip(1).filter_map(|section| section.split_once("]\n"));
    sections.map(|(words, lines)| (words, lines.trim_end())).collect()
}

/// Ends the help of all commands below a command with their examples. `words` are those of the
/// command.
fn with_examples(
    command: Command,
    words: &str,
    sections: &BTreeMap<&'static str, &'static str>,
) -> Command {
    let names: Vec<_> =
        command.get_subcommands().map(|command| command.get_name().to_owned()).collect();
    names.iter().fold(command, |command, name| {
        let words = format!("{words} {name}");
        command.mut_subcommand(name, |command| {
            let command = match sections.get(words.trim_start()) {
                Some(lines) => with_section(command, lines),
                None => command,
            };
            with_examples(command, &words, sections)
        })
    })
}

/// Ends the help of a command with examples.
fn with_section(command: Command, lines: &str) -> Command {
    let help = command.get_after_help().map(|help| format!("{help}\n\n")).unwrap_or_default();
    let lines: Vec<_> = lines.lines().map(|line| format!("  {line}")).collect();
    command.after_help(format!("{help}Examples:\n{}", lines.join("\n")))
}

/// Only on Unix can all examples be parsed: elsewhere, some commands take no command to run.
#[cfg(all(test, unix))]
mod tests {
    use std::ffi::OsString;

    use clap::{CommandFactory, FromArgMatches};

    use super::*;
    use crate::{Cli, args, words};

    /// The widest line, as for the help of clap.
    const WIDTH: usize = 100;

    fn tree() -> Command {
        complete(Cli::command())
    }

    /// Returns all commands below a command, each with its words.
    fn below<'a>(command: &'a Command, words: &str) -> Vec<(String, &'a Command)> {
        let mut all = Vec::new();
        for command in command.get_subcommands() {
            let words = format!("{words} {}", command.get_name());
            let further = below(command, &words);
            all.push((words.trim_start().to_owned(), command));
            all.extend(further);
        }
        all
    }

    /// Returns the words of the command that a line runs.
    fn command_of(line: &str) -> String {
        let words = words::split(line).expect(line);
        let words: Vec<_> = words.into_iter().map(OsString::from).collect();
        let parsed = args::parse(Cli::command(), &words);
        let matches = parsed.unwrap_or_else(|error| panic!("{line}: {error}"));
        assert!(Cli::from_arg_matches(&matches).is_ok(), "{line}");
        let (mut names, mut deepest) = (Vec::new(), &matches);
        while let Some((name, below)) = deepest.subcommand() {
            names.push(name);
            deepest = below;
        }
        names.join(" ")
    }

    #[test]
    fn every_command_is_in_one_group() {
        let tree = tree();
        let shown = tree.get_subcommands().filter(|command| !command.is_hide_set());
        let mut shown: Vec<_> = shown.map(|command| command.get_name().to_owned()).collect();
        let mut grouped: Vec<_> = GROUPS.iter().flat_map(CommandGroup::names).collect();
        shown.sort_unstable();
        grouped.sort_unstable();
        assert_eq!(grouped, shown);
    }

    #[test]
    fn the_help_shows_groups_and_exit_codes() {
        let mut wide = tree().term_width(WIDTH);
        for help in [wide.render_help(), wide.render_long_help()] {
            let help = help.to_string();
            for command in tree().get_subcommands() {
                let line = format!("\n  {} ", command.get_name());
                assert!(help.contains(&line), "{line}:\n{help}");
            }
            for group in GROUPS {
                let heading = format!("\n{}:\n  ", group.title);
                let (_, rest) = help.split_once(&heading).expect(group.title);
                let group_text = rest.split("\n\n").next().unwrap_or_default();
                assert!(group_text.contains("\n  Example: zkc "), "{group_text}");
            }
            for (code, meaning) in exit::meanings() {
                let line = meaning.lines().next().expect("a meaning");
                assert!(help.contains(&format!("\n  {code:<9}  {line}")), "{code}:\n{help}");
            }
            assert!(help.contains("--servers") && help.contains(MORE), "{help}");
        }
        let tree = tree();
        for text in [tree.get_before_help(), tree.get_after_help()] {
            let text = text.map(ToString::to_string).unwrap_or_default();
            assert!(text.lines().all(|line| line.chars().count() <= WIDTH), "{text}");
        }
    }

    #[test]
    fn every_command_has_examples_that_parse() {
        for (words, command) in below(&tree(), "") {
            let help = command.get_after_help().map(ToString::to_string).unwrap_or_default();
            let (_, examples) = help.split_once("Examples:\n").expect(&words);
            let mut lines = 0;
            for line in examples.lines() {
                assert!(line.chars().count() <= WIDTH, "{line}");
                if line.starts_with("  # ") {
                    continue;
                }
                let called = command_of(line.trim_start());
                let is_of_command = called == words || called.starts_with(&format!("{words} "));
                assert!(is_of_command, "{words}: {line}");
                lines += 1;
            }
            assert!((1..=3).contains(&lines), "{words}: {lines} examples");
        }
    }

    #[cfg(all(feature = "serve", feature = "shell", feature = "tui", feature = "web"))]
    #[test]
    fn every_section_belongs_to_a_command() {
        let tree = tree();
        let commands: Vec<_> = below(&tree, "").into_iter().map(|(words, _)| words).collect();
        for words in sections().keys() {
            assert!(commands.iter().any(|command| command == words), "{words}");
        }
        assert_eq!(EXAMPLES.matches("\n[").count(), sections().len(), "a section twice");
    }
}
