//! The command line of the screens: `:`.

use super::model::Screen;

/// A line.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Line {
    Nothing,
    Quit,
    Show(Screen),
    /// The tree at a path.
    Go(String),
    Filter(String),
    /// Order by the first column whose title begins so.
    Sort(String),
    /// A command of `zkc`.
    Command(String),
}

/// Parses a line.
pub(crate) fn parse(line: &str) -> Line {
    let line = line.trim();
    let (word, rest) = line.split_once(' ').unwrap_or((line, ""));
    let rest = rest.trim().to_owned();
    let screen = Screen::ALL.into_iter().find(|(.., name)| *name == word);
    match (word, screen) {
        ("", _) => Line::Nothing,
        ("q" | "quit", _) if rest.is_empty() => Line::Quit,
        ("filter", _) => Line::Filter(rest),
        ("sort", _) => Line::Sort(rest.to_lowercase()),
        // `tree /a` and `watches --by-path` are commands.
        (_, Some((screen, ..))) if rest.is_empty() => Line::Show(screen),
        _ if word.starts_with('/') && rest.is_empty() => Line::Go(word.to_owned()),
        _ => Line::Command(line.to_owned()),
    }
}

/// Returns why a command is not run below the screens: it has the terminal, or it does not end.
pub(crate) fn refusal(words: &[String]) -> Option<&'static str> {
    const HAVE_TERMINAL: [&str; 4] = ["edit", "shell", "top", "man"];
    const DO_NOT_END: [&str; 8] =
        ["watch", "wait", "lock", "semaphore", "elect", "cron", "serve", "completions"];
    let mut names = words.iter().map(String::as_str).filter(|word| !word.starts_with('-'));
    let (command, verb) = (names.next()?, names.next());
    match (command, verb) {
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
    use super::*;

    #[test]
    fn lines_are_screens_paths_settings_and_commands() {
        let text = str::to_owned;
        for (line, expected) in [
            ("", Line::Nothing),
            ("  ", Line::Nothing),
            ("q", Line::Quit),
            ("clients", Line::Show(Screen::Clients)),
            ("hot ", Line::Show(Screen::Hot)),
            ("/locks/a", Line::Go(text("/locks/a"))),
            ("filter  10.0 ", Line::Filter(text("10.0"))),
            ("filter", Line::Filter(text(""))),
            ("sort REQ", Line::Sort(text("req"))),
            ("tree /a", Line::Command(text("tree /a"))),
            ("get '/a b'", Line::Command(text("get '/a b'"))),
            ("/a b", Line::Command(text("/a b"))),
        ] {
            assert_eq!(parse(line), expected, "{line:?}");
        }
    }

    #[test]
    fn commands_without_an_end_are_refused() {
        let words = |line: &str| line.split(' ').map(str::to_owned).collect::<Vec<_>>();
        for line in ["watch /a", "edit /a", "top", "lock /a", "group join /g a", "-q shell"] {
            assert!(refusal(&words(line)).is_some(), "{line}");
        }
        for line in ["get /a", "group ls /g", "rm -r /a", "why /locks/a"] {
            assert_eq!(refusal(&words(line)), None, "{line}");
        }
        assert_eq!(refusal(&[]), None);
    }
}
