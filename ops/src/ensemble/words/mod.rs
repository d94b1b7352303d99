//! The responses to four-letter words, parsed: those of Apache ZooKeeper 3.4 to 3.9 and of
//! ClickHouse Keeper.
//!
//! Parsing never fails as a whole. Lines that are not understood are skipped, and a missing line
//! is a missing value, because each version adds lines of its own.

mod clients;
mod dump;
mod id;
mod server;
mod watches;

pub(crate) use clients::{ClientConnection, connections};
pub(crate) use dump::{Dump, DumpedSession, dump, java_date};
pub(crate) use server::{Conf, Mntr, ServerMode, Srvr, release};
pub(crate) use watches::{Lists, WatchSummary, lists};

/// Declares the words.
macro_rules! words {
    ($($(#[$meta:meta])* $name:ident = $text:literal,)*) => {
        /// A four-letter word that only reads.
        #[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
        pub(crate) enum Word {
            $($(#[$meta])* $name,)*
        }

        impl Word {
            pub(crate) const ALL: &[Self] = &[$(Self::$name,)*];

            /// Returns the four letters.
            pub(crate) const fn text(self) -> &'static str {
                match self {
                    $(Self::$name => $text,)*
                }
            }
        }
    };
}

words! {
    /// The configuration.
    Conf = "conf",
    /// The connections, with their sessions.
    Cons = "cons",
    /// The sizes of the files.
    Dirs = "dirs",
    /// The sessions, and their ephemeral nodes.
    Dump = "dump",
    /// The environment.
    Envi = "envi",
    /// The trace mask.
    Gtmk = "gtmk",
    /// The digests of the tree.
    Hash = "hash",
    /// Whether the server is in read-only mode.
    Isro = "isro",
    /// All metrics.
    Mntr = "mntr",
    /// Whether the process runs.
    Ruok = "ruok",
    /// The state of the server.
    Srvr = "srvr",
    /// The state of the server, and its connections.
    Stat = "stat",
    /// The watches by session.
    Wchc = "wchc",
    /// The watches by path.
    Wchp = "wchp",
    /// The number of watches.
    Wchs = "wchs",
}

impl Word {
    /// Parses a word; `None` if it is not known, or if it changes the server.
    pub(crate) fn parse(text: &str) -> Option<Self> {
        Self::ALL.iter().copied().find(|word| word.text() == text)
    }
}

/// The reason why a server did not execute a word.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum FlwRefusal {
    /// The word is not in `4lw.commands.whitelist`.
    NotListed,
    /// The server has no quorum, or is not ready yet.
    NotServing,
    /// The server closed the connection without a response.
    Silent,
}

/// The response to a word outside the whitelist, after the word.
const NOT_LISTED: &str = " is not executed because it is not in the white";

/// Returns the reason why a word was not executed, if this response is a refusal.
pub(crate) fn refusal(response: &str) -> Option<FlwRefusal> {
    // The longest of these responses has fewer bytes. A name or a value may contain any text.
    let start = response.trim();
    // A server without watches answers `wchp` with an empty line.
    if response.is_empty() {
        Some(FlwRefusal::Silent)
    } else if start.len() > 100 {
        None
    } else if start.get(4..).is_some_and(|rest| rest.starts_with(NOT_LISTED)) {
        Some(FlwRefusal::NotListed)
    } else if start.starts_with("This ") && start.ends_with("not currently serving requests") {
        Some(FlwRefusal::NotServing)
    } else {
        None
    }
}

#[cfg(test)]
mod tests;
