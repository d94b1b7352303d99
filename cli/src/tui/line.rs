//! The command line of the screens: `:`.

use clap::ArgMatches;

use super::model::ScreenName;

/// A line.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum TuiLine {
    Nothing,
    Quit,
    Show(ScreenName),
    /// The tree at a path.
    Go(String),
    Filter(String),
    /// Order by the first column whose title begins so.
    Sort(String),
    /// A command of `zkc`.
    Command(String),
}

/// Parses a line.
pub(crate) fn parse(line: &str) -> TuiLine {
    let line = line.trim();
    let (word, rest) = line.split_once(' ').unwrap_or((line, ""));
    let rest = rest.trim().to_owned();
    let screen = ScreenName::ALL.into_iter().find(|(.., name)| *name == word);
    match (word, screen) {
        ("", _) => TuiLine::Nothing,
        ("q" | "quit", _) if rest.is_empty() => TuiLine::Quit,
        ("filter", _) => TuiLine::Filter(rest),
        ("sort", _) => TuiLine::Sort(rest.to_lowercase()),
        // `tree /a` and `watches --by-path` are commands.
        (_, Some((screen, ..))) if rest.is_empty() => TuiLine::Show(screen),
        _ if word.starts_with('/') && rest.is_empty() => TuiLine::Go(word.to_owned()),
        _ => TuiLine::Command(line.to_owned()),
    }
}

/// Returns why a command is not run below the screens: it has the terminal, or it does not end.
pub(crate) fn refusal(matches: &ArgMatches) -> Option<&'static str> {
    const HAVE_TERMINAL: [&str; 5] = ["edit", "shell", "top", "man", "rolling-restart"];
    const DO_NOT_END: [&str; 8] =
        ["watch", "wait", "lock", "semaphore", "elect", "cron", "serve", "completions"];
    let (command, below) = matches.subcommand()?;
    match (command, below.subcommand_name()) {
        ("edit", _) => Some("press e in the tree"),
        _ if HAVE_TERMINAL.contains(&command) => Some("it needs the terminal"),
        _ if DO_NOT_END.contains(&command) => Some("it does not end by itself"),
        ("group", Some("join" | "follow" | "wait"))
        | ("discover", Some("register"))
        | ("config", Some("follow"))
        | ("barrier", Some("wait" | "enter"))
        | ("queue" | "jobs", Some("take" | "work")) => Some("it does not end by itself"),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use clap::CommandFactory;

    use super::*;

    #[test]
    fn lines_are_screens_paths_settings_and_commands() {
        let text = str::to_owned;
        for (line, expected) in [
            ("", TuiLine::Nothing),
            ("  ", TuiLine::Nothing),
            ("q", TuiLine::Quit),
            ("clients", TuiLine::Show(ScreenName::Clients)),
            ("hot ", TuiLine::Show(ScreenName::Hot)),
            ("/locks/a", TuiLine::Go(text("/locks/a"))),
            ("filter  10.0 ", TuiLine::Filter(text("10.0"))),
            ("filter", TuiLine::Filter(text(""))),
            ("sort REQ", TuiLine::Sort(text("req"))),
            ("tree /a", TuiLine::Command(text("tree /a"))),
            ("get '/a b'", TuiLine::Command(text("get '/a b'"))),
            ("/a b", TuiLine::Command(text("/a b"))),
        ] {
            assert_eq!(parse(line), expected, "{line:?}");
        }
    }

    #[test]
    fn commands_without_an_end_are_refused() {
        let refusal = |line: &str| {
            let words = std::iter::once("zkc").chain(line.split(' '));
            refusal(&crate::Cli::command().try_get_matches_from(words).expect(line))
        };
        for line in [
            "watch /a",
            "-o json watch /a",
            "edit /a",
            "--timeout 1s top",
            "lock /a -- true",
            "group join /g a",
            "-q shell",
        ] {
            assert!(refusal(line).is_some(), "{line}");
        }
        for line in ["get /a", "group ls /g", "--context edit rm -r /a", "why /locks/a"] {
            assert_eq!(refusal(line), None, "{line}");
        }
    }
}
