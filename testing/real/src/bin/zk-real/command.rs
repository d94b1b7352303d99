//! The commands for the members of an ensemble, as lines of text.

use std::fmt;

/// The list of commands, for `--help` and `help`.
pub(crate) const COMMANDS: &str = "\
commands:
  kill MEMBER…       kill members (SIGKILL)
  stop MEMBER…       end members (SIGTERM)
  start MEMBER…      start killed or stopped members with their data, and wait until they serve
  restart MEMBER…    stop members that run, start all of them, and wait until they serve
  pause MEMBER…      suspend members (SIGSTOP): they keep their connections, and do not respond
  resume MEMBER…     resume paused members (SIGCONT)
  leader             print the number of the leader, as soon as there is one
  synced             wait until all members that run have what the leader has: before the end of another one
  status             print the role of each member: leader, follower, electing, unreachable, paused or stopped
  help               print this list
  quit               end all members and the program, with exit code 0

A MEMBER is a number, from 1, or `leader`, `follower` (the first one), or `all` (those that the command applies to).
No member serves without a majority, so start several together if too few run: `start 1 2`.";

/// A line of standard input.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Command {
    /// Changes the state of members.
    Change(Action, Vec<Member>),
    /// Prints the leader.
    Leader,
    /// Waits until all members that run have what the leader has.
    Synced,
    /// Prints the roles.
    Status,
    /// Prints the list of commands.
    Help,
    /// Ends the program.
    Quit,
}

/// A change of the state of a member.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Action {
    Kill,
    Stop,
    Start,
    Restart,
    Pause,
    Resume,
}

/// A member of an ensemble, as a command names it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Member {
    /// The member with this index, from zero.
    Index(usize),
    /// The leader.
    Leader,
    /// The first follower.
    Follower,
    /// All members that the command applies to.
    All,
}

/// A line that is no command.
#[derive(Debug, PartialEq, Eq, thiserror::Error)]
pub(crate) enum ParseError {
    #[error("there is no such command; `help` lists them")]
    UnknownCommand,
    #[error("{0} takes no members")]
    TakesNoMembers(&'static str),
    #[error("{0} wants a member: a number, `leader`, `follower` or `all`")]
    NoMember(Action),
    #[error("there is no member {word}; the members are 1 to {members}")]
    UnknownMember { word: String, members: usize },
}

impl Command {
    /// Parses the words of a line for an ensemble of `members`.
    ///
    /// # Errors
    /// The first word is no command, or the others do not fit it.
    pub(crate) fn parse(words: &[&str], members: usize) -> Result<Self, ParseError> {
        let Some((&name, rest)) = words.split_first() else {
            return Err(ParseError::UnknownCommand);
        };
        let alone = |name, command| match rest {
            [] => Ok(command),
            _ => Err(ParseError::TakesNoMembers(name)),
        };
        let change = |action| {
            if rest.is_empty() {
                return Err(ParseError::NoMember(action));
            }
            let named = rest.iter().map(|word| Member::parse(word, members));
            Ok(Self::Change(action, named.collect::<Result<_, _>>()?))
        };
        match name {
            "kill" => change(Action::Kill),
            "stop" => change(Action::Stop),
            "start" => change(Action::Start),
            "restart" => change(Action::Restart),
            "pause" => change(Action::Pause),
            "resume" => change(Action::Resume),
            "leader" => alone("leader", Self::Leader),
            "synced" => alone("synced", Self::Synced),
            "status" => alone("status", Self::Status),
            "help" => alone("help", Self::Help),
            "quit" => alone("quit", Self::Quit),
            _ => Err(ParseError::UnknownCommand),
        }
    }
}

impl Member {
    fn parse(word: &str, members: usize) -> Result<Self, ParseError> {
        match word {
            "leader" => Ok(Self::Leader),
            "follower" => Ok(Self::Follower),
            "all" => Ok(Self::All),
            _ => (1..=members)
                .position(|number| number.to_string() == word)
                .map(Self::Index)
                .ok_or_else(|| ParseError::UnknownMember { word: word.to_owned(), members }),
        }
    }
}

impl fmt::Display for Action {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Kill => "kill",
            Self::Stop => "stop",
            Self::Start => "start",
            Self::Restart => "restart",
            Self::Pause => "pause",
            Self::Resume => "resume",
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Parses a line for three members.
    fn parse(line: &str) -> Result<Command, ParseError> {
        Command::parse(&line.split_whitespace().collect::<Vec<_>>(), 3)
    }

    #[test]
    fn every_listed_command_is_parsed() {
        let mut changes = Vec::new();
        for line in COMMANDS.lines().skip(1).take_while(|line| !line.is_empty()) {
            let name = line.split_whitespace().next().unwrap();
            if line.contains("MEMBER…") {
                let Ok(Command::Change(action, members)) = parse(&format!("{name} 2")) else {
                    panic!("{line}")
                };
                assert_eq!((action.to_string().as_str(), members), (name, vec![Member::Index(1)]));
                assert_eq!(parse(name), Err(ParseError::NoMember(action)));
                changes.push(name);
            } else {
                assert!(
                    matches!(parse(name), Ok(command) if !matches!(command, Command::Change(..)))
                );
                let error = parse(&format!("{name} 1")).unwrap_err();
                assert_eq!(error.to_string(), format!("{name} takes no members"));
            }
        }
        assert_eq!(changes, ["kill", "stop", "start", "restart", "pause", "resume"]);
    }

    #[test]
    fn members_are_numbers_from_one_or_roles() {
        for (words, expected) in [
            ("1", vec![Member::Index(0)]),
            ("3", vec![Member::Index(2)]),
            ("leader", vec![Member::Leader]),
            ("follower", vec![Member::Follower]),
            ("all", vec![Member::All]),
            ("  3\t leader ", vec![Member::Index(2), Member::Leader]),
        ] {
            let parsed = parse(&format!("pause {words}"));
            assert_eq!(parsed, Ok(Command::Change(Action::Pause, expected)), "{words}");
        }
    }

    #[test]
    fn unknown_members_and_commands_are_refused() {
        for word in ["0", "4", "-1", "+1", "01", "1,2", "Leader", "kill"] {
            let error = parse(&format!("kill 1 {word}")).unwrap_err();
            let expected = format!("there is no member {word}; the members are 1 to 3");
            assert_eq!(error.to_string(), expected);
        }
        for line in ["", "Kill 1", "kil 1", "1 kill", "exit"] {
            assert_eq!(parse(line), Err(ParseError::UnknownCommand), "{line}");
        }
    }
}
