//! Lines of the shell: words, a pipe to a program, and relative paths.

use crate::path::absolute;
use crate::words;

/// A line.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum ShellLine {
    Empty,
    Exit,
    Pwd,
    Cd(String),
    /// A command of the system.
    System(String),
    /// A command of `zkc`, and the program that reads its output.
    Command {
        words: Vec<String>,
        pipe: Option<String>,
    },
}

/// Parses a line.
pub(super) fn parse(line: &str, at: &str) -> Result<ShellLine, String> {
    let line = line.trim();
    if line.is_empty() || line.starts_with('#') {
        return Ok(ShellLine::Empty);
    }
    if let Some(command) = line.strip_prefix('!') {
        return Ok(ShellLine::System(command.trim().to_owned()));
    }
    let (command, pipe) = match pipe(line) {
        Some(place) => (&line[..place], Some(line[place + 1..].trim().to_owned())),
        None => (line, None),
    };
    let words = words::split(command)?;
    let mut words = words.into_iter();
    let line = match (words.next().as_deref(), words.len()) {
        (None, _) => return Err("no command before the pipe".to_owned()),
        (Some("exit" | "quit"), 0) => ShellLine::Exit,
        (Some("pwd"), 0) => ShellLine::Pwd,
        (Some("cd"), 0) => ShellLine::Cd("/".to_owned()),
        (Some("cd"), 1) => ShellLine::Cd(absolute(at, &words.next().unwrap_or_default())),
        (Some("cd"), _) => return Err("cd takes one path".to_owned()),
        (Some(first), _) => {
            let mut all = vec![first.to_owned()];
            all.extend(words);
            ShellLine::Command { words: all, pipe }
        }
    };
    Ok(line)
}

/// Returns the place of the first `|` outside quotes.
fn pipe(line: &str) -> Option<usize> {
    let (mut quote, mut escaped) = (None, false);
    for (place, letter) in line.char_indices() {
        match (letter, quote) {
            _ if escaped => escaped = false,
            ('\\', None | Some('"')) => escaped = true,
            (_, Some(open)) if letter == open => quote = None,
            ('\'' | '"', None) => quote = Some(letter),
            ('|', None) => return Some(place),
            _ => {}
        }
    }
    None
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn command(words: &[&str], pipe: Option<&str>) -> ShellLine {
        let words = words.iter().map(ToString::to_string).collect();
        ShellLine::Command { words, pipe: pipe.map(ToOwned::to_owned) }
    }

    #[test]
    fn lines_are_commands() {
        let parse = |line| parse(line, "/a").expect(line);
        assert_eq!(parse("  # a comment"), ShellLine::Empty);
        assert_eq!(parse("ls -l | head -n 3"), command(&["ls", "-l"], Some("head -n 3")));
        assert_eq!(parse("set /a 'x|y'"), command(&["set", "/a", "x|y"], None));
        assert_eq!(parse("cd ../b"), ShellLine::Cd("/b".to_owned()));
        assert_eq!(parse("cd"), ShellLine::Cd("/".to_owned()));
        assert_eq!(parse("!date"), ShellLine::System("date".to_owned()));
        assert_eq!(parse("exit"), ShellLine::Exit);
    }

    proptest! {
        #[test]
        fn no_line_panics(line: String) {
            drop(parse(&line, "/"));
        }
    }
}
