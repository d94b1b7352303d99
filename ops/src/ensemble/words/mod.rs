//! The responses to four-letter words, parsed: those of Apache ZooKeeper 3.4 to 3.9 and of
//! ClickHouse Keeper. Pure: [`probe`](super::probe) sends the words.
//!
//! Parsing never fails as a whole. Lines that are not understood are skipped, and a missing line
//! is a missing value, because each version adds lines of its own.
//!
//! ```
//! use zk_curator_ops::ensemble::words::{ServerMode, SrvrResponse};
//!
//! let text = "Zookeeper version: 3.9.3-abc, built on 2024-10-17\nMode: leader\n";
//! let srvr = SrvrResponse::parse(text).expect("a response to srvr");
//! assert_eq!(srvr.release(), Some("3.9.3"));
//! assert_eq!(srvr.mode, Some(ServerMode::Leader));
//! assert_eq!(srvr.connections, None);
//! ```

mod clients;
mod dump;
mod ending;
mod server;
mod watches;

pub use clients::{ClientConnection, connections};
pub(crate) use dump::java_date;
pub use dump::{DumpResponse, DumpedSession, dump};
pub(crate) use server::release;
pub use server::{ConfResponse, MntrResponse, ServerMode, SrvrResponse};
pub use watches::{WatchLists, WatchSummary, lists};

/// Declares the words.
macro_rules! words {
    ($($(#[$meta:meta])* $name:ident = $text:literal,)*) => {
        /// A four-letter word that only reads.
        #[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
        #[cfg_attr(feature = "serde", derive(serde::Serialize), serde(rename_all = "lowercase"))]
        #[non_exhaustive]
        pub enum FourLetterWord {
            $($(#[$meta])* $name,)*
        }

        impl FourLetterWord {
            /// All words.
            pub const ALL: &[Self] = &[$(Self::$name,)*];

            /// Returns the four letters.
            #[must_use]
            pub const fn text(self) -> &'static str {
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
    /// `rw`, or `ro` in read-only mode.
    Isro = "isro",
    /// All metrics.
    Mntr = "mntr",
    /// `imok` if the process runs.
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

impl FourLetterWord {
    /// Parses a word; `None` if it is not known, or if it changes the server.
    #[must_use]
    pub fn parse(text: &str) -> Option<Self> {
        Self::ALL.iter().copied().find(|word| word.text() == text)
    }
}

/// The reason why a server did not execute a word.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub enum WordRefusal {
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
#[must_use]
pub fn refusal(response: &str) -> Option<WordRefusal> {
    // The longest of these responses has fewer bytes. A name or a value may contain any text.
    let start = response.trim();
    // A server without watches answers `wchp` with an empty line.
    if response.is_empty() {
        Some(WordRefusal::Silent)
    } else if start.len() > 100 {
        None
    } else if start.get(4..).is_some_and(|rest| rest.starts_with(NOT_LISTED)) {
        Some(WordRefusal::NotListed)
    } else if start.starts_with("This ") && start.ends_with("not currently serving requests") {
        Some(WordRefusal::NotServing)
    } else {
        None
    }
}

#[cfg(test)]
mod tests;
