//! The facts about the sessions of contenders, for the verdicts about a recipe.

use std::sync::Arc;
use std::time::Duration;

use zk_curator::{CuratorFramework, SessionId};
use zk_curator_recipes::inspect::{Contender, Finding, KnownSession, Sessions, verdicts};

use crate::ensemble::sessions::{self, EnsembleSession, EnsembleSessions};
use crate::ensemble::words::FourLetterWord;
use crate::ensemble::{EnsembleProbe, ProbeNote, notes};
use crate::error::Error;
use crate::node::parse_id;
use crate::path;
use crate::text::{self, printable};

/// The facts about the sessions, with notes about the unknown ones.
#[derive(Debug, Clone)]
pub struct SessionFacts {
    sessions: Sessions,
    details: EnsembleSessions,
}

/// A session in words.
#[derive(Debug, Clone, PartialEq, Eq)]
#[cfg_attr(feature = "serde", derive(serde::Serialize))]
#[non_exhaustive]
pub struct SessionWords {
    /// The state of its connection, and its timeout; `persistent` for a node without a session.
    pub state: String,
    /// The address of the client and its server; empty if they are not known.
    pub client: String,
}

impl SessionFacts {
    /// Asks the servers. A server that does not respond only makes the facts incomplete. The
    /// session of `zk` is recognised as that of this process.
    pub async fn gather(zk: &CuratorFramework, probe: &EnsembleProbe<'_>) -> Self {
        let details = sessions::sessions(probe).await.unwrap_or_else(|error| EnsembleSessions {
            notes: vec![ProbeNote::NotAsked { error: Arc::new(error) }],
            ..EnsembleSessions::default()
        });
        Self::of(details, zk.session().map(|session| session.id))
    }

    /// Returns the facts about these sessions. `own` is the session of this process.
    #[must_use]
    pub fn of(details: EnsembleSessions, own: Option<SessionId>) -> Self {
        let mut sessions = Sessions::new();
        for (id, session) in &details.by_id {
            let mut known = KnownSession::new();
            if let Some(timeout) = session.timeout {
                known = known.timeout(timeout);
            }
            if let (Some(server), Some(address)) = (&session.server, &session.address) {
                known = known.connected(server, address);
            }
            if let Some(silent) = session.silent {
                known = known.heard(silent);
            }
            if let Some(within) = session.within {
                known = known.expires(within);
            }
            sessions.insert(*id, known);
        }
        if details.all_connections {
            sessions.all_servers_asked();
        }
        if let Some(own) = own {
            sessions.own(own);
        }
        Self { sessions, details }
    }

    /// Adds the watches, so that a waiter without one is found. The servers are asked twice: a
    /// client that has just been notified has no watch until its next request. Servers with many
    /// watches are slow to respond.
    ///
    /// # Errors
    /// As of [`EnsembleProbe::members`]. A server that does not respond is a note.
    pub async fn add_watches(
        &mut self,
        zk: &CuratorFramework,
        probe: &EnsembleProbe<'_>,
    ) -> Result<(), Error> {
        let root = zk.server_path("/");
        for _ in 0..2 {
            let (members, reports) =
                probe.survey(&[FourLetterWord::Srvr, FourLetterWord::Wchp]).await?;
            if !members.are_all(&reports) || reports.iter().any(|report| report.wchp.is_err()) {
                self.details.notes.extend(notes(&reports));
                return Ok(());
            }
            for (path, ids) in reports.iter().flat_map(|report| report.wchp.iter().flatten()) {
                if !path::is_within(path, &root) {
                    continue;
                }
                let path = path::moved(path, &root, "/");
                for id in ids.iter().filter_map(|id| parse_id(id).ok()) {
                    self.sessions.watch(path.clone(), SessionId::new(id));
                }
            }
        }
        self.sessions.all_watches_known();
        Ok(())
    }

    /// Returns the sessions as the verdicts use them.
    #[must_use]
    pub const fn sessions(&self) -> &Sessions {
        &self.sessions
    }

    /// Returns everything that the servers told of a session.
    #[must_use]
    pub fn details(&self, id: SessionId) -> Option<&EnsembleSession> {
        self.details.by_id.get(&id)
    }

    /// Returns `true` if the client of a contender may read a request to release a lock. Its
    /// session then has a connection that is not silent, as far as that is known.
    #[must_use]
    pub fn may_listen(&self, contender: &Contender) -> bool {
        contender.session.is_some_and(|id| {
            self.sessions.is_disconnected(id) != Some(true)
                && self.sessions.silent_for(id).is_none()
        })
    }

    /// Returns the notes about servers that did not tell something.
    #[must_use]
    pub fn notes(&self) -> &[ProbeNote] {
        &self.details.notes
    }

    /// Returns the sentences about a finding.
    #[must_use]
    pub fn verdicts(&self, finding: &Finding) -> Vec<String> {
        verdicts(finding, &self.sessions)
            .iter()
            .map(|verdict| printable(&verdict.to_string()))
            .collect()
    }

    /// Returns the longest time until the end of a session without a connection, or with a silent
    /// one; `None` for others, and if it is unknown.
    #[must_use]
    pub fn gone_within(&self, id: SessionId) -> Option<Duration> {
        let is_ending = self.sessions.is_disconnected(id) == Some(true)
            || self.sessions.silent_for(id).is_some();
        self.sessions.expires_within(id).filter(|_| is_ending)
    }

    /// Describes a session: the state of its connection, and its client. `None` is that of a
    /// persistent node.
    #[must_use]
    pub fn describe(&self, id: Option<SessionId>) -> SessionWords {
        let Some(id) = id else {
            return SessionWords { state: "persistent".to_owned(), client: String::new() };
        };
        let connection = self.sessions.connection(id);
        let timeout = self.details(id).and_then(|session| session.timeout).map(text::duration);
        let state = match (connection, self.sessions.is_disconnected(id)) {
            (Some(_), _) => {
                match self.sessions.silent_for(id).zip(self.sessions.expires_within(id)) {
                    Some((silent, within)) => format!(
                        "silent for at least {}: gone in at most {}",
                        text::duration(silent),
                        text::duration(within)
                    ),
                    None => "connected".to_owned(),
                }
            }
            (None, Some(true)) => match self.sessions.expires_within(id) {
                Some(within) => {
                    format!("no connection: gone in at most {}", text::duration(within))
                }
                None => "no connection to any server".to_owned(),
            },
            _ => "its connection is not known".to_owned(),
        };
        let timeout = timeout.map(|timeout| format!(", timeout {timeout}")).unwrap_or_default();
        let client =
            connection.map(|at| format!("{}  on {}", at.address, at.server)).unwrap_or_default();
        SessionWords { state: format!("{state}{timeout}"), client }
    }
}

#[cfg(test)]
mod tests {
    use zk_curator_recipes::inspect::{Node, recognise};

    use super::*;

    fn state(session: EnsembleSession) -> String {
        let stat = zk_curator::Stat { ephemeral_owner: 7, ..Default::default() };
        let node = Node::new("/a/lock-0000000001").stat(stat);
        let finding = recognise(&Node::new("/a").with(node));
        let details = EnsembleSessions {
            by_id: [(SessionId::new(7), session)].into(),
            all_connections: true,
            ..Default::default()
        };
        SessionFacts::of(details, None).describe(finding.holders[0].session).state
    }

    #[test]
    fn a_connection_is_not_a_life() {
        let known = || EnsembleSession {
            address: Some("10.0.0.7:4000".to_owned()),
            server: Some("zk:1".to_owned()),
            timeout: Some(Duration::from_secs(30)),
            ..Default::default()
        };
        assert_eq!(state(known()), "connected, timeout 30 s");
        let silent = Some(Duration::from_secs(25));
        let told = "silent for at least 25 s: gone in at most 5.0 s, timeout 30 s";
        assert_eq!(state(EnsembleSession { silent, ..known() }), told);
        let away = EnsembleSession { address: None, within: silent, ..known() };
        assert_eq!(state(away), "no connection: gone in at most 25 s, timeout 30 s");
    }
}
