//! Who holds what: findings of recipes, joined with the sessions that the servers know.

use std::time::Duration;

use serde_json::{Value, json};
use zk_curator_recipes::inspect::{
    Contender, Finding, KnownSession, RecipeKind, Sessions, verdicts,
};

use crate::app::App;
use crate::ensemble::probe::Options;
use crate::ensemble::sessions;
use crate::exit::Failure;
use crate::node;
use crate::output::{data, printable, time};

/// The facts about the sessions, and what is not known of them.
pub(crate) struct Facts {
    sessions: Sessions,
    details: sessions::Sessions,
}

impl Facts {
    /// Asks the servers. A server that does not answer only makes the facts incomplete.
    pub(crate) async fn gather(app: &App, options: &Options) -> Result<Self, Failure> {
        // The servers are asked while the session begins.
        let (zk, details) = tokio::join!(app.zk(), sessions::sessions(app, options));
        let own = zk?.session();
        let details = details.unwrap_or_else(|failure| sessions::Sessions {
            notes: vec![failure.to_string()],
            ..Default::default()
        });
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
            sessions.insert(*id, known);
        }
        if details.all_connections {
            sessions.all_servers_asked();
        }
        if let Some(own) = own {
            sessions.own(own.id);
        }
        Ok(Self { sessions, details })
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

    /// Describes the session of a contender: its client, and whether it is alive.
    fn session(&self, contender: &Contender) -> (String, String) {
        let Some(id) = contender.session else {
            return ("persistent: stays without its client".to_owned(), String::new());
        };
        let details = self.details.by_id.get(&id);
        let connection = self.sessions.connection(id);
        let timeout = details.and_then(|session| session.timeout).map(time::duration);
        let state = match (connection, self.sessions.is_disconnected(id)) {
            (Some(_), _) => "alive".to_owned(),
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
    facts: &Facts,
    contender: &Contender,
    title: &str,
    now: i64,
) -> Vec<String> {
    let label = match contender.label.as_ref() {
        [] => "(no label)".to_owned(),
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
        first.push("asked to let go".to_owned());
    }
    let (state, client) = facts.session(contender);
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
pub(crate) fn contender_value(facts: &Facts, contender: &Contender, now: i64) -> Value {
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
        "created": contender.created_ms().and_then(time::rfc3339),
        "age_seconds": age,
        "token": contender.token().map(|token| node::hex(token.get())),
        "waits_on": contender.waits_on,
        "revoked": contender.is_revoked,
        "connected": connected,
        "client": session.and_then(|session| session.address.clone()),
        "server": session.and_then(|session| session.server.clone()),
        "timeout_ms": session.and_then(|session| session.timeout).map(millis),
    })
}

fn millis(duration: Duration) -> u64 {
    u64::try_from(duration.as_millis()).unwrap_or(u64::MAX)
}

/// Returns the kind of a recipe with its library, such as `mutex (Curator)`.
pub(crate) fn kind(finding: &Finding) -> String {
    if finding.kind == RecipeKind::Unknown {
        return "no recipe is recognised".to_owned();
    }
    let guess = if finding.is_guess { "perhaps " } else { "" };
    format!("{guess}{} ({})", finding.kind, finding.library)
}
