//! Who holds what: findings of recipes, joined with the sessions that the servers know.

use std::time::Duration;

use serde_json::{Value, json};
use zk_curator::SessionId;
use zk_curator_recipes::inspect::{
    Contender, Finding, KnownSession, RecipeKind, Sessions, verdicts,
};

use crate::app::App;
use crate::ensemble::flw::Word;
use crate::ensemble::probe::ProbeOptions;
use crate::ensemble::{self, sessions};
use crate::exit::CommandFailure;
use crate::holders::parse_token;
use crate::output::{data, printable, time};
use crate::{node, path};

/// The note about a recipe with nodes that were not read.
pub(crate) const PARTIAL: &str = "not all nodes were read: too many, or no permission";

/// The facts about the sessions, and what is not known of them.
pub(crate) struct SessionFacts {
    sessions: Sessions,
    details: sessions::EnsembleSessions,
}

impl SessionFacts {
    /// Asks the servers. A server that does not respond only makes the facts incomplete.
    pub(crate) async fn gather(app: &App, options: &ProbeOptions) -> Result<Self, CommandFailure> {
        // The servers are asked while the session begins.
        let (zk, details) = tokio::join!(app.zk(), sessions::sessions(app, options));
        let own = zk?.session().map(|session| session.id);
        let details = details.unwrap_or_else(|failure| sessions::EnsembleSessions {
            notes: vec![failure.to_string()],
            ..Default::default()
        });
        Ok(Self::of(details, own))
    }

    fn of(details: sessions::EnsembleSessions, own: Option<SessionId>) -> Self {
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
    /// client that has just been notified has no watch until its next request.
    pub(crate) async fn add_watches(
        &mut self,
        app: &App,
        options: &ProbeOptions,
    ) -> Result<(), CommandFailure> {
        let zk = app.zk().await?;
        let root = zk.server_path("/");
        for _ in 0..2 {
            let (members, reports) =
                ensemble::survey(app, &[Word::Srvr, Word::Wchp], options).await?;
            let is_complete = members.note().is_none();
            if !is_complete || reports.iter().any(|report| report.wchp.is_err()) {
                self.details.notes.extend(sessions::notes(&reports));
                return Ok(());
            }
            for (path, ids) in reports.iter().flat_map(|report| report.wchp.iter().flatten()) {
                if !path::is_within(path, &root) {
                    continue;
                }
                let path = path::moved(path, &root, "/");
                for id in ids.iter().filter_map(|id| parse_token(id).ok()) {
                    self.sessions.watch(path.clone(), SessionId::new(id));
                }
            }
        }
        self.sessions.all_watches_known();
        Ok(())
    }

    /// Returns `true` if the client of a contender may read a request to let go: its session has a
    /// connection that is not silent, as far as that is known.
    pub(crate) fn may_listen(&self, contender: &Contender) -> bool {
        contender.session.is_some_and(|id| {
            self.sessions.is_disconnected(id) != Some(true)
                && self.sessions.silent_for(id).is_none()
        })
    }

    /// Returns lines about the servers that did not tell something.
    pub(crate) fn notes(&self) -> &[String] {
        &self.details.notes
    }

    /// Returns the sentences about a finding.
    pub(crate) fn verdicts(&self, finding: &Finding) -> Vec<String> {
        verdicts(finding, &self.sessions)
            .iter()
            .map(|verdict| printable(&verdict.to_string()))
            .collect()
    }

    /// Returns the longest time until the end of a session without a connection, or with a silent
    /// one; `None` for others, and if it is unknown.
    fn gone_within(&self, id: SessionId) -> Option<Duration> {
        let is_ending = self.sessions.is_disconnected(id) == Some(true)
            || self.sessions.silent_for(id).is_some();
        self.sessions.expires_within(id).filter(|_| is_ending)
    }

    /// Describes the owner of an ephemeral node.
    pub(crate) fn owner(&self, id: SessionId) -> String {
        let (state, client) = self.session(Some(id));
        let client = if client.is_empty() { client } else { format!(", {client}") };
        format!("ephemeral: session {id} ({state}{client}) may create it again")
    }

    /// Describes a session: the state of its connection, and its client.
    fn session(&self, id: Option<SessionId>) -> (String, String) {
        let Some(id) = id else { return ("persistent".to_owned(), String::new()) };
        let details = self.details.by_id.get(&id);
        let connection = self.sessions.connection(id);
        let timeout = details.and_then(|session| session.timeout).map(time::duration);
        let state = match (connection, self.sessions.is_disconnected(id)) {
            (Some(_), _) => {
                match self.sessions.silent_for(id).zip(self.sessions.expires_within(id)) {
                    Some((silent, within)) => format!(
                        "silent for at least {}: gone in at most {}",
                        time::duration(silent),
                        time::duration(within)
                    ),
                    None => "connected".to_owned(),
                }
            }
            (None, Some(true)) => match self.sessions.expires_within(id) {
                Some(within) => {
                    format!("no connection: gone in at most {}", time::duration(within))
                }
                None => "no connection to any server".to_owned(),
            },
            _ => "its connection is not known".to_owned(),
        };
        let timeout = timeout.map(|timeout| format!(", timeout {timeout}")).unwrap_or_default();
        let client =
            connection.map(|at| format!("{}  on {}", at.address, at.server)).unwrap_or_default();
        (format!("{state}{timeout}"), client)
    }
}

/// Returns the lines about a contender, indented below a title of eight characters.
pub(crate) fn contender_lines(
    facts: &SessionFacts,
    contender: &Contender,
    title: &str,
    now: i64,
) -> Vec<String> {
    let label = match contender.label.as_ref() {
        [] => "(no label)".to_owned(),
        b"__REVOKE__" | b"unlock" => "(the request has replaced its label)".to_owned(),
        label => data::line(label, 60),
    };
    let since = contender.created_ms().map(|created| {
        let clock = time::rfc3339(created).unwrap_or_default().replace('T', " ");
        format!(
            "since {}, {}",
            clock.trim_end_matches('Z'),
            time::duration(time::since(created, now))
        )
    });
    let token = contender.token().map(|token| format!("token {}", node::hex(token.get())));
    let mut first = vec![format!("{title:<8} {label}")];
    first.extend(since);
    first.extend(token);
    if contender.is_revoked {
        first.push("asked to release it".to_owned());
    }
    let (mut state, client) = facts.session(contender.session);
    if contender.is_persistent {
        state.push_str(": no session will ever remove it");
    }
    let session = contender.session.map(|id| format!("session {id}"));
    let mut second = vec![format!("{:<8} {}", "", printable(&contender.name))];
    second.extend(session);
    second.push(state);
    let mut lines = vec![first.join("  "), second.join("  ")];
    if !client.is_empty() {
        lines.push(format!("{:<8} {client}", ""));
    }
    lines
}

/// Returns a contender for programs.
pub(crate) fn contender_value(facts: &SessionFacts, contender: &Contender, now: i64) -> Value {
    let session = contender.session.and_then(|id| facts.details.by_id.get(&id));
    let age = contender.created_ms().map(|created| time::since(created, now).as_secs_f64());
    let connected =
        contender.session.and_then(|id| facts.sessions.is_disconnected(id)).map(|not| !not);
    json!({
        "path": contender.path,
        "name": contender.name,
        "role": contender.role.to_string(),
        "label": data::value(&contender.label),
        "session": contender.session.map(|id| id.to_string()),
        "persistent": contender.is_persistent,
        "created": contender.created_ms().and_then(time::rfc3339),
        "age_seconds": age,
        "token": contender.token().map(|token| node::hex(token.get())),
        "waits_on": contender.waits_on,
        "revoked": contender.is_revoked,
        "connected": connected,
        "client": session.and_then(|session| session.address.clone()),
        "server": session.and_then(|session| session.server.clone()),
        "timeout_ms": session.and_then(|session| session.timeout).map(millis),
        "silent_ms": session.and_then(|session| session.silent).map(millis),
        "gone_within_ms": contender.session.and_then(|id| facts.gone_within(id)).map(millis),
        "within": contender.within.map(|id| id.to_string()),
    })
}

fn millis(duration: Duration) -> u64 {
    u64::try_from(duration.as_millis()).unwrap_or(u64::MAX)
}

/// Returns the contenders of a recipe that no session will ever remove.
pub(crate) fn persistent(finding: &Finding) -> impl Iterator<Item = &Contender> {
    let contenders = finding.holders.iter().chain(&finding.waiting);
    contenders.filter(|contender| contender.is_persistent)
}

/// Returns the kind of a recipe with its library, such as `mutex (Curator)`.
pub(crate) fn kind(finding: &Finding) -> String {
    if finding.kind == RecipeKind::Unknown {
        return "no recipe is recognised".to_owned();
    }
    let guess = if finding.is_guess { "perhaps " } else { "" };
    format!("{guess}{} ({})", finding.kind, finding.library)
}

#[cfg(test)]
mod tests {
    use zk_curator_recipes::inspect::{Node, recognise};

    use super::*;

    fn state(session: sessions::EnsembleSession) -> String {
        let stat = zk_curator::Stat { ephemeral_owner: 7, ..Default::default() };
        let node = Node::new("/a/lock-0000000001").stat(stat);
        let finding = recognise(&Node::new("/a").with(node));
        let details = sessions::EnsembleSessions {
            by_id: [(SessionId::new(7), session)].into(),
            all_connections: true,
            ..Default::default()
        };
        SessionFacts::of(details, None).session(finding.holders[0].session).0
    }

    #[test]
    fn a_connection_is_not_a_life() {
        let known = || sessions::EnsembleSession {
            address: Some("10.0.0.7:4000".to_owned()),
            server: Some("zk:1".to_owned()),
            timeout: Some(Duration::from_secs(30)),
            ..Default::default()
        };
        assert_eq!(state(known()), "connected, timeout 30 s");
        let silent = Some(Duration::from_secs(25));
        let told = "silent for at least 25 s: gone in at most 5.0 s, timeout 30 s";
        assert_eq!(state(sessions::EnsembleSession { silent, ..known() }), told);
        let away = sessions::EnsembleSession { address: None, within: silent, ..known() };
        assert_eq!(state(away), "no connection: gone in at most 25 s, timeout 30 s");
    }
}
