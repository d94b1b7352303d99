//! Notes about servers that did not tell something.

use std::fmt;
use std::sync::Arc;

use super::probe::{ProbeReport, ProbedServer};
use super::trouble::ProbeTrouble;
use super::words::FourLetterWord;
use crate::error::Error;

/// Something that a server did not tell, so that a result is incomplete.
#[derive(Debug, Clone)]
#[non_exhaustive]
pub enum ProbeNote {
    /// A server refuses words, because they are not in its whitelist.
    Refused {
        /// The server.
        server: ProbedServer,
        /// The words.
        words: Vec<FourLetterWord>,
    },
    /// A server did not respond to a word, for another reason.
    Trouble {
        /// The server.
        server: ProbedServer,
        /// The reason.
        trouble: ProbeTrouble,
    },
    /// The admin server of a server did not help.
    Admin {
        /// The server.
        server: ProbedServer,
        /// The reason.
        trouble: ProbeTrouble,
    },
    /// The client addresses of some members are not known, so they were not asked.
    NoAddress {
        /// The ids of the members without a client port in the configuration.
        members: Vec<u64>,
        /// The ids of the members whose client addresses other servers have.
        displaced: Vec<u64>,
    },
    /// No server told the members of the ensemble, so only the named servers were asked.
    MembersUnknown,
    /// No server was asked.
    NotAsked {
        /// The reason.
        error: Arc<Error>,
    },
}

impl fmt::Display for ProbeNote {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Refused { server, words } => {
                let names: Vec<_> = words.iter().map(|word| word.text()).collect();
                write!(f, "{server} refuses {}: ", names.join(", "))?;
                write!(f, "set {} in zoo.cfg", whitelist_line(words))
            }
            Self::Trouble { server, trouble } => write!(f, "{server}: {trouble}"),
            Self::Admin { server, trouble } => write!(f, "{server}: admin server: {trouble}"),
            Self::NoAddress { members, displaced } => {
                let note =
                    "without a client port in the configuration: name it in the connect string";
                let mut notes = Vec::new();
                if !members.is_empty() {
                    notes.push(format!("{} {note}", member_names(members)));
                }
                if !displaced.is_empty() {
                    notes.push(format!("{}: {DISPLACED}", member_names(displaced)));
                }
                f.write_str(&notes.join("; "))
            }
            Self::MembersUnknown => {
                f.write_str("no server tells the members: name all of them in the connect string")
            }
            Self::NotAsked { error } => error.fmt(f),
        }
    }
}

/// The reason why a member with a client address is not known.
pub(super) const DISPLACED: &str =
    "another server has its client address: check the ids of the servers (myid)";

/// Returns the names of members in the configuration.
pub(super) fn member_names(ids: &[u64]) -> String {
    let names: Vec<_> = ids.iter().map(|id| format!("server.{id}")).collect();
    names.join(", ")
}

/// Returns the notes about the words without a response, for the servers in their order.
#[must_use]
pub fn notes(reports: &[ProbeReport]) -> Vec<ProbeNote> {
    let mut notes = Vec::new();
    for report in reports {
        let mut words = report.unlisted();
        words.sort_unstable();
        let server = || report.server.clone();
        if !words.is_empty() {
            notes.push(ProbeNote::Refused { server: server(), words });
        }
        let mut others = report
            .refused()
            .into_iter()
            .filter(|(_, trouble)| **trouble != ProbeTrouble::NotListed);
        if let Some((_, trouble)) = others.next() {
            notes.push(ProbeNote::Trouble { server: server(), trouble: trouble.clone() });
        }
        if let Some(trouble) = &report.admin {
            notes.push(ProbeNote::Admin { server: server(), trouble: trouble.clone() });
        }
    }
    notes
}

/// Returns the line of `zoo.cfg` that allows the words of all operations, and these. It replaces
/// the line that there is.
#[must_use]
pub fn whitelist_line(refused: &[FourLetterWord]) -> String {
    let used = [
        FourLetterWord::Srvr,
        FourLetterWord::Mntr,
        FourLetterWord::Conf,
        FourLetterWord::Cons,
        FourLetterWord::Dump,
        FourLetterWord::Wchs,
    ];
    let more = refused.iter().copied().filter(|word| !used.contains(word));
    let words: Vec<_> = used.into_iter().chain(more).map(FourLetterWord::text).collect();
    format!("4lw.commands.whitelist={}", words.join(", "))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::ensemble::health::tests::serving;
    use crate::ensemble::words::ServerMode;

    #[test]
    fn a_refusal_names_the_line_that_allows_the_words() {
        let mut refusing = serving(1, ServerMode::Leader, 9);
        refusing.cons = Err(ProbeTrouble::NotListed);
        refusing.wchp = Err(ProbeTrouble::NotListed);
        refusing.admin = Some(ProbeTrouble::Late);
        let notes: Vec<_> = notes(&[refusing]).iter().map(ToString::to_string).collect();
        let expected = "zk:1 refuses cons, wchp: set 4lw.commands.whitelist=\
                        srvr, mntr, conf, cons, dump, wchs, wchp in zoo.cfg";
        assert_eq!(notes, [expected, "zk:1: admin server: no response in time"]);
    }
}
