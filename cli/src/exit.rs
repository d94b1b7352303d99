//! Exit codes, and failures with the code and the text of each.

use std::fmt;
use std::io;
use std::process::ExitCode;

use zk_curator::{Error, ErrorKind};
use zk_curator_discovery::RegistrationError;
use zk_curator_ops::history;
use zk_curator_ops::node::hex;
use zk_curator_ops::text::shell_word;
use zk_curator_ops::tree::unreadable::UnreadableReason;
use zk_curator_recipes::{barrier, config, counter, leader, lock, queue, schedule};

/// An exit code of `zkc`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Exit(u8);

/// Defines the exit codes, and the table of their meanings.
macro_rules! exits {
    ($($(#[doc = $meaning:literal])+ $name:ident = $code:literal;)*) => {
        impl Exit {
            $($(#[doc = $meaning])+ pub(crate) const $name: Self = Self($code);)*
        }

        /// The codes, with the lines of their meanings.
        const MEANINGS: &[(Exit, &[&str])] = &[$((Exit::$name, &[$($meaning),+])),*];
    };
}

exits! {
    /// Done.
    DONE = 0;
    /// The answer is no (`exists`, `grep`, `wait`, `queue take`, `lock --try`), or there are
    /// findings (`diff`, `status`, `doctor`, `rolling-restart`, `history diff` and
    /// `history check`).
    NO = 1;
    /// Invalid arguments or data, a change that was not confirmed, or another failure.
    USAGE = 2;
    /// No connection to a server, or no response in time.
    NO_CONNECTION = 3;
    /// A node does not exist.
    NO_NODE = 4;
    /// No permission, or read-only.
    NO_PERMISSION = 5;
    /// Conflict: another version, an existing node, children, or a lock that is no longer
    /// held.
    CONFLICT = 6;
    /// The outcome is unknown: the change may have been applied.
    UNKNOWN = 7;
    /// Done in part, or the output lacks nodes that cannot be read.
    PARTLY = 8;
    /// The lock, the leadership or the membership was lost or revoked, and the command was
    /// stopped.
    LOCK_LOST = 123;
    /// The lock was not obtained in the given time.
    NOT_OBTAINED = 124;
    /// A failure before the command was started.
    BEFORE_COMMAND = 125;
    /// The command cannot be executed.
    NOT_EXECUTABLE = 126;
    /// The command was not found.
    NOT_FOUND = 127;
    /// Interrupted while waiting; 128+n for signal n.
    INTERRUPTED = 130;
}

/// The meaning of all other codes.
const OTHER: &str = "the exit code of the command that ran; 128+n if signal n has ended it";

/// Returns the exit codes for the help and the guide, each with the lines of its meaning.
pub(crate) fn meanings() -> Vec<(String, String)> {
    let known = MEANINGS.iter().map(|(exit, lines)| (exit.0.to_string(), meaning(lines)));
    known.chain([("any other".to_owned(), OTHER.to_owned())]).collect()
}

/// Returns a meaning as part of a sentence.
fn meaning(lines: &[&str]) -> String {
    let lines: Vec<_> = lines.iter().map(|line| line.trim()).collect();
    let text = lines.join("\n");
    let mut letters = text.trim_end_matches('.').chars();
    let first = letters.next().map(|letter| letter.to_ascii_lowercase());
    first.into_iter().chain(letters).collect()
}

/// The exit codes of every command that runs another one.
#[cfg(unix)]
const AROUND_A_COMMAND: [Exit; 4] =
    [Exit::BEFORE_COMMAND, Exit::NOT_EXECUTABLE, Exit::NOT_FOUND, Exit::INTERRUPTED];

/// Returns the exit codes for the help of a command that runs another one: when it has the code of
/// that one, the `own` codes with their meanings here, and those that all of these commands have.
#[cfg(unix)]
pub(crate) fn around_a_command(of_that_one: &str, own: &[(Exit, &str)]) -> String {
    let common = MEANINGS.iter().filter(|(exit, _)| AROUND_A_COMMAND.contains(exit));
    let common = common.map(|(exit, lines)| (*exit, meaning(lines)));
    let own = own.iter().map(|(exit, meaning)| (*exit, (*meaning).to_owned()));
    let lines = own.chain(common).map(|(exit, meaning)| format!("  {:<3}  {meaning}", exit.0));
    let lines: Vec<_> = [format!("  {of_that_one}")].into_iter().chain(lines).collect();
    format!("Exit codes:\n{}", lines.join("\n"))
}

impl Exit {
    pub(crate) const fn code(self) -> u8 {
        self.0
    }

    /// The code of the command that ran under `zkc`.
    pub(crate) const fn of_command(code: u8) -> Self {
        Self(code)
    }
}

impl From<Exit> for ExitCode {
    fn from(exit: Exit) -> Self {
        Self::from(exit.0)
    }
}

/// A failed command: one line for people, with an optional hint, and the exit code.
#[derive(Debug)]
pub(crate) struct CommandFailure {
    exit: Exit,
    message: String,
    hint: Option<String>,
    /// The path of a node that does not exist.
    missing: Option<String>,
}

impl CommandFailure {
    pub(crate) fn new(exit: Exit, message: impl Into<String>) -> Self {
        Self { exit, message: message.into(), hint: None, missing: None }
    }

    pub(crate) fn usage(message: impl Into<String>) -> Self {
        Self::new(Exit::USAGE, message)
    }

    /// A node that does not exist.
    pub(crate) fn no_node(path: &str) -> Self {
        let missing = Some(path.to_owned());
        Self { missing, ..Self::new(Exit::NO_NODE, format!("no node: {path}")) }
    }

    /// Replaces the exit code.
    pub(crate) const fn with_exit(mut self, exit: Exit) -> Self {
        self.exit = exit;
        self
    }

    /// Adds a text that is printed in parentheses, after those that were added before.
    pub(crate) fn hint(mut self, hint: impl Into<String>) -> Self {
        let hint = hint.into();
        self.hint =
            Some(self.hint.map_or_else(|| hint.clone(), |first| format!("{first}; {hint}")));
        self
    }

    pub(crate) const fn exit(&self) -> Exit {
        self.exit
    }

    /// Returns the path of the missing node, if that is the failure.
    pub(crate) fn missing(&self) -> Option<&str> {
        self.missing.as_deref()
    }
}

impl fmt::Display for CommandFailure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.message)?;
        self.hint.as_ref().map_or(Ok(()), |hint| write!(f, " ({hint})"))
    }
}

impl From<Error> for CommandFailure {
    fn from(error: Error) -> Self {
        let (exit, kind) = classify(&error);
        let path = error.path();
        match error.kind() {
            ErrorKind::NoNode if !path.is_empty() && !error.may_have_applied() => {
                Self::no_node(path)
            }
            ErrorKind::NodeExists | ErrorKind::NotEmpty | ErrorKind::NoAuth
                if !path.is_empty() && !error.may_have_applied() =>
            {
                Self::new(exit, format!("{kind}: {path}"))
            }
            _ => Self::new(exit, format!("{kind}: {error}")),
        }
    }
}

/// Returns the exit code of an error, and the words that begin its line.
fn classify(error: &Error) -> (Exit, &'static str) {
    if error.may_have_applied() {
        return (Exit::UNKNOWN, "unknown outcome");
    }
    let kind = match error.kind() {
        ErrorKind::TransactionFailed { .. } => error.clone().of_operation(error.operation()).kind(),
        kind => kind,
    };
    match kind {
        ErrorKind::ConnectionLoss
        | ErrorKind::OperationTimeout
        | ErrorKind::SessionMoved
        | ErrorKind::SessionExpired
        | ErrorKind::Throttled
        | ErrorKind::Overloaded
        | ErrorKind::NotStarted
        | ErrorKind::Closed => (Exit::NO_CONNECTION, "no connection"),
        ErrorKind::NoNode => (Exit::NO_NODE, "no node"),
        ErrorKind::NoAuth | ErrorKind::AuthFailed => (Exit::NO_PERMISSION, "no permission"),
        ErrorKind::ReadOnly => (Exit::NO_PERMISSION, "read-only server"),
        ErrorKind::NodeExists => (Exit::CONFLICT, "node exists"),
        ErrorKind::BadVersion => (Exit::CONFLICT, "other version"),
        ErrorKind::NotEmpty => (Exit::CONFLICT, "not empty"),
        ErrorKind::OwnershipLost => (Exit::CONFLICT, "no longer held"),
        ErrorKind::LeftBehind => (Exit::PARTLY, "done in part"),
        _ => (Exit::USAGE, "failed"),
    }
}

/// Converts the errors of recipes: their own ones have a text of their own.
macro_rules! of_recipes {
    ($($error:path),*) => {$(
        impl From<$error> for CommandFailure {
            fn from(error: $error) -> Self {
                use $error as Of;
                match error {
                    Of::Framework(error) => error.into(),
                    error if error.may_have_applied() => {
                        Self::new(Exit::UNKNOWN, format!("unknown outcome: {error}"))
                    }
                    error => Self::new(Exit::CONFLICT, error.to_string()),
                }
            }
        }
    )*};
}

of_recipes!(
    counter::Error,
    queue::Error,
    config::Error,
    schedule::Error,
    barrier::Error,
    lock::Error,
    leader::Error
);

impl From<RegistrationError> for CommandFailure {
    fn from(error: RegistrationError) -> Self {
        match error {
            RegistrationError::Framework(error) => error.into(),
            RegistrationError::Superseded { .. }
            | RegistrationError::Refused { .. }
            | RegistrationError::Deleted { .. } => Self::new(Exit::CONFLICT, error.to_string()),
            error => Self::usage(error.to_string()),
        }
    }
}

impl From<zk_curator_ops::Error> for CommandFailure {
    fn from(error: zk_curator_ops::Error) -> Self {
        Self::from(&error)
    }
}

impl From<&zk_curator_ops::Error> for CommandFailure {
    fn from(error: &zk_curator_ops::Error) -> Self {
        use zk_curator_ops::Error as Of;
        match error {
            Of::Framework(error) => error.clone().into(),
            Of::Interrupted { changes: 0, source } => {
                Self::from(&**source).hint("nothing was changed")
            }
            Of::Interrupted { changes, source } => {
                let done =
                    format!("done in part: {changes} changes; then {}", Self::from(&**source));
                Self::new(Exit::PARTLY, done)
            }
            Of::File { path, source, .. } => Self::usage(format!("{}: {source}", path.display())),
            Of::Output { source } => Self::usage(format!("standard output: {source}")),
            Of::Damaged { path, damage } => Self::usage(format!("{}: {damage}", path.display())),
            Of::InvalidConnectString(source) => Self::usage(source.to_string()),
            Of::BelongsToServers { .. } | Of::IsRoot => Self::usage(format!("refused: {error}")),
            Of::NoNode { path } => Self::no_node(path),
            Of::Unreadable { reason, .. } => {
                let is_forbidden = *reason == UnreadableReason::Failed(ErrorKind::NoAuth);
                let exit = if is_forbidden { Exit::NO_PERMISSION } else { Exit::USAGE };
                Self::new(exit, error.to_string())
            }
            Of::HiddenAcl { .. } => Self::new(Exit::NO_PERMISSION, error.to_string()),
            Of::NodeExists { .. } => Self::new(Exit::CONFLICT, error.to_string()),
            Of::Changed { path } => Self::new(Exit::CONFLICT, format!("changed since: {path}")),
            Of::History(error) => Self::from(error),
            error => with_hint(error),
        }
    }
}

impl From<history::Error> for CommandFailure {
    fn from(error: history::Error) -> Self {
        Self::from(&error)
    }
}

impl From<&history::Error> for CommandFailure {
    fn from(error: &history::Error) -> Self {
        use history::Error as Of;
        let failure = match error {
            Of::Io { source, .. } => Self::usage(format!("{error}: {source}")),
            Of::InvalidAcl { source, .. } => Self::usage(format!("{error}: {source}")),
            Of::NoSuchNode { path, zxid } => {
                return Self::no_node(path).hint(format!("after transaction {}", hex(*zxid)));
            }
            Of::NotDeleted { .. } => Self::new(Exit::NO_NODE, error.to_string()),
            error => Self::usage(error.to_string()),
        };
        match error {
            Of::Damaged { .. } | Of::Gap { .. } => failure.hint("see --skip-damaged"),
            Of::NoBase { .. } | Of::NoLogs { .. } | Of::NotDeleted { .. } => {
                failure.hint("zkc history check tells how far back the files go")
            }
            Of::NothingFound { .. } => failure.hint("name dataDir or dataLogDir of a server"),
            Of::DuplicateLog { .. } => failure.hint("name the directories of one server"),
            _ => failure,
        }
    }
}

/// Returns the failure of an operation that an option or another command can avoid.
fn with_hint(error: &zk_curator_ops::Error) -> CommandFailure {
    use zk_curator_ops::Error as Of;
    let (exit, text, hint) = match error {
        Of::UncheckedAdminServer => {
            (Exit::USAGE, "the admin server cannot be checked".to_owned(), "HTTPS needs --tls-ca")
        }
        Of::InvalidAcl { .. } => (
            Exit::USAGE,
            error.to_string(),
            "write SCHEME:ID:PERMISSIONS, such as world:anyone:cdrwa, or open, read, creator; \
             a comma in an id is \\,",
        ),
        Of::PathTooLong { .. } => {
            (Exit::USAGE, error.to_string(), "nothing was written; `backup` has no such limit")
        }
        Of::NotEmpty { .. } => (Exit::CONFLICT, error.to_string(), "pass -r"),
        Of::Ephemeral { .. } => (Exit::CONFLICT, error.to_string(), "it belongs to a live session"),
        Of::HiddenPassword { path } => (
            Exit::USAGE,
            format!("{path}: the ACL in the file hides a password"),
            "--acl default, or back up with ADMIN rights",
        ),
        error => return of_plan(error),
    };
    CommandFailure::new(exit, text).hint(hint)
}

/// Returns the failure of a plan that is refused, or that was applied in part.
fn of_plan(error: &zk_curator_ops::Error) -> CommandFailure {
    use zk_curator_ops::Error as Of;
    let (exit, text, hint) = match error {
        Of::Conflicts { nodes } => (
            Exit::CONFLICT,
            format!("conflict: {nodes} nodes exist and differ; nothing was changed"),
            "see --on-conflict",
        ),
        Of::Contenders { nodes } => (
            Exit::USAGE,
            format!(
                "refused: {nodes} contenders of recipes would become persistent, and no session \
                 would ever remove them; nothing was changed"
            ),
            "--ephemerals skip leaves them out; --persist-contenders accepts it",
        ),
        Of::LowCounters { nodes } => (
            Exit::USAGE,
            format!(
                "refused: new sequential children of {nodes} nodes would sort before restored ones"
            ),
            "--burn-sequences raises the counters; --ignore-sequences accepts it",
        ),
        Of::ChangedDuringCopy { from, to } => {
            let text = format!("{from} changed during the copy and was not removed");
            let (from, to) = (shell_word(from), shell_word(to));
            let hint = format!("zkc diff {from} {to} shows the differences");
            return CommandFailure::new(Exit::PARTLY, text).hint(hint);
        }
        error => return CommandFailure::usage(error.to_string()),
    };
    CommandFailure::new(exit, text).hint(hint)
}

impl From<io::Error> for CommandFailure {
    fn from(error: io::Error) -> Self {
        Self::usage(format!("failed: {error}"))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_comparison_is_proposed_as_words_of_a_shell() {
        let (from, to) = ("/it's".to_owned(), "/$(b)".to_owned());
        let error = zk_curator_ops::Error::ChangedDuringCopy { from, to };
        let told = CommandFailure::from(error).to_string();
        assert!(told.ends_with(r"(zkc diff '/it'\''s' '/$(b)' shows the differences)"), "{told}");
    }

    #[test]
    fn the_guide_has_the_exit_codes() {
        let page = concat!(env!("CARGO_MANIFEST_DIR"), "/../docs/book/src/operating/zkc.md");
        let page = std::fs::read_to_string(page).expect("a page of the guide");
        let (_, section) = page.split_once("\n## Exit codes\n").expect("a section");
        let rows = section.lines().skip_while(|line| !line.starts_with('|')).skip(2);
        let table: Vec<_> = rows.take_while(|line| line.starts_with('|')).collect();
        let row = |(code, meaning): (String, String)| {
            format!("| {code} | {} |", meaning.replace('\n', " "))
        };
        assert_eq!(table, meanings().into_iter().map(row).collect::<Vec<_>>());
    }
}
