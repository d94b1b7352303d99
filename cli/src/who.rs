//! Texts about the holders of locks and other recipes.

use zk_curator_ops::holders::SessionFacts;
pub(crate) use zk_curator_ops::holders::{
    PARTIAL, contender_value, kind_words as kind, obstacle_line,
};
use zk_curator_recipes::inspect::Contender;

use crate::node;
use crate::output::{data, printable, time};

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
    let words = facts.describe(contender.session);
    let (mut state, client) = (words.state, words.client);
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
