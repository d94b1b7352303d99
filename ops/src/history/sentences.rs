//! Changes, moments and explanations as sentences.

use std::fmt;
use std::time::Duration;

use zk_curator::{ErrorCode, SessionId};

use super::change::{Change, DeletionCause, Moment, NodeState, Operation};
use super::explain::Explanation;
use super::recipe_names::RecipeNode;
use super::stat::Owner;
use super::who::{Author, Deletion};
use crate::node::hex;
use crate::text;

/// The time to the millisecond, and the transaction.
impl fmt::Display for Moment {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}  {}", text::rfc3339_millis(self.time_ms), hex(self.zxid))
    }
}

impl Change {
    /// Returns the session that requested the change, or `leader`.
    #[must_use]
    pub fn requested_by(&self) -> String {
        author(self.session)
    }

    /// Returns the change in one line: time, transaction, session, operation, path, and
    /// [details](Self::details). The path has all of its characters.
    #[must_use]
    pub fn line(&self) -> String {
        let when = text::rfc3339_millis(self.at.time_ms);
        let (zxid, author) = (hex(self.at.zxid), self.requested_by());
        let operation = self.operation.name();
        let mut line = format!("{when}  {zxid:<12}  {author:<18}  {operation:<14}");
        if let Some(path) = &self.path {
            line.push_str("  ");
            line.push_str(path);
        }
        let mut separator = "  ";
        for detail in self.details() {
            line.push_str(separator);
            line.push_str(&detail);
            separator = ", ";
        }
        // An operation without a path is followed by spaces.
        line.truncate(line.trim_end().len());
        line
    }

    /// Returns the kind of the node, its versions and sizes, the cause, and the place in a
    /// transaction, as far as they are known and belong to the operation.
    #[must_use]
    pub fn details(&self) -> Vec<String> {
        let mut details = Vec::new();
        let (before, after) = (self.before.as_ref(), self.after.as_ref());
        match self.operation {
            Operation::Create => {
                details.extend(after.and_then(kind));
                details.extend(after.and_then(size));
            }
            Operation::Delete => {
                details.extend(before.and_then(|state| state.version).map(|old| format!("v{old}")));
                details.extend(before.and_then(size));
                let cause = self.deletion.filter(|cause| *cause != DeletionCause::Request);
                details.extend(cause.map(|cause| cause.to_string()));
            }
            Operation::SetData | Operation::Reconfig => {
                let version = |state: &NodeState| state.version.map(|one| format!("v{one}"));
                details.extend(between(before.and_then(version), after.and_then(version)));
                details.extend(between(before.and_then(size), after.and_then(size)));
            }
            Operation::SetAcl => {
                let version = |state: &NodeState| state.aversion.map(|one| format!("v{one}"));
                let versions = between(before.and_then(version), after.and_then(version));
                details.extend(versions.map(|versions| format!("ACL {versions}")));
            }
            Operation::CreateSession => {
                let timeout = self.session_timeout_ms;
                details.extend(timeout.map(|ms| format!("timeout {}", duration(ms))));
            }
            Operation::CloseSession => details.extend(self.session_end.map(|end| end.to_string())),
            Operation::Error => details.extend(self.error_name()),
        }
        if let Some(place) = self.multi {
            details.push(format!("part {} of {} of a transaction", place.index + 1, place.count));
        }
        details
    }

    /// Returns the name of the error of a failed request.
    #[must_use]
    pub fn error_name(&self) -> Option<String> {
        let name = |code: ErrorCode| code.to_string();
        let error = |code| ErrorCode::from_code(code).map_or_else(|| "failed".to_owned(), name);
        self.error.map(error)
    }
}

impl Explanation {
    /// Returns the operation as a participle, such as `deleted`, or as its name.
    #[must_use]
    pub const fn verb(&self) -> &'static str {
        if self.deletion.is_some() { "deleted" } else { self.change.operation.name() }
    }

    /// Returns who requested the change: a session and its request, the end of a session, or the
    /// leader.
    #[must_use]
    pub fn by(&self) -> String {
        let change = &self.change;
        match (change.session.get(), change.deletion) {
            (0, _) => "the leader".to_owned(),
            (_, Some(DeletionCause::SessionEnd(_))) => {
                format!("the end of session {}", change.session)
            }
            _ => format!("session {}, request {}", change.session, change.cxid),
        }
    }

    /// Returns the reasons of the change.
    #[must_use]
    pub fn causes(&self) -> Vec<String> {
        let change = &self.change;
        let mut causes: Vec<String> =
            change.deletion.iter().map(DeletionCause::to_string).collect();
        if let Some(place) = change.multi {
            let (part, count) = (place.index + 1, place.count);
            causes.push(format!("it was part {part} of {count} of a transaction"));
        }
        let recipe = change.path.as_deref().and_then(RecipeNode::of);
        if let Some(recipe) = recipe.filter(|_| change.is_clean_up_of_recipe()) {
            causes
                .push(format!("its session deleted its own node of a {recipe}: a usual clean-up"));
        }
        causes
    }

    /// Returns the run of deletions, if it deleted more than this node.
    #[must_use]
    pub fn run(&self) -> Vec<String> {
        self.deletion.as_ref().filter(|deletion| deletion.nodes > 1).map(run).unwrap_or_default()
    }

    /// Returns what else happened to the node: a later change, and earlier deletions. The path of a
    /// later change has all of its characters.
    #[must_use]
    pub fn notes(&self) -> Vec<String> {
        let later = self.later.as_ref().map(|later| format!("a later change: {}", later.line()));
        let mut notes: Vec<_> = later.into_iter().collect();
        if self.deletion.is_some() && self.deletions > 1 {
            let earlier = self.deletions - 1;
            notes.push(format!("earlier deletions of it in the logs: {earlier}"));
        }
        notes
    }
}

impl Author {
    /// Returns the begin, the end, and the timeout and requests of the session.
    #[must_use]
    pub fn session_facts(&self) -> Vec<String> {
        let session = &self.session;
        // It can be a local session, whose begin and end are in no log.
        let begun = session.begun.map_or_else(
            || "the logs do not contain its begin".to_owned(),
            |at| format!("it began {at}"),
        );
        let ended = session.ended.map_or_else(
            || "it did not end within the logs".to_owned(),
            |(at, end)| format!("it ended {at}: {end}"),
        );
        let timeout = session.timeout_ms.map(|ms| format!("timeout {}, ", duration(ms)));
        let count = session.transactions;
        let requests = format!("{}{count} requests in the logs", timeout.unwrap_or_default());
        vec![begun, ended, requests]
    }

    /// Returns the label and the address of the [client](Self::identity), which the data of its
    /// ephemeral nodes claim.
    #[must_use]
    pub fn client(&self) -> Option<String> {
        let identity = self.identity();
        let mut client: Vec<_> = [identity.label, identity.address].into_iter().flatten().collect();
        // Some clients write only their address.
        client.dedup();
        let client = client.join("  ");
        (!client.is_empty()).then(|| format!("{client}  (from its ephemeral nodes)"))
    }

    /// Returns the changes near the requested time, without the change itself.
    pub fn others<'a>(&'a self, change: &'a Change) -> impl Iterator<Item = &'a Change> {
        self.nearby.iter().filter(|other| !other.is_same(change))
    }

    /// Returns the number of changes near the requested time, without the change itself. It is
    /// exact for the change that was [explained](super::Index::explain).
    ///
    /// A deletion that the end of a session does not list is not among these changes.
    #[must_use]
    pub fn others_count(&self, change: &Change) -> u64 {
        let own = self.nearby.iter().filter(|other| other.is_same(change)).count();
        self.nearby_count.saturating_sub(own as u64)
    }
}

fn run(deletion: &Deletion) -> Vec<String> {
    let (first, last) = (deletion.first, deletion.change.at);
    let took = text::duration(text::since(first.time_ms, last.time_ms));
    let nodes = deletion.nodes;
    let mut lines = vec![format!("it deleted {nodes} nodes in {took}, from {first} on")];
    if deletion.other_changes > 0 {
        lines.push(format!(
            "{} changes of other sessions in between; `undelete` does not contain them",
            deletion.other_changes
        ));
    }
    lines
}

fn author(session: SessionId) -> String {
    if session.get() == 0 { "leader".to_owned() } else { session.to_string() }
}

/// Returns a timeout in words.
fn duration(ms: i32) -> String {
    text::duration(Duration::from_millis(u64::try_from(ms).unwrap_or_default()))
}

fn kind(state: &NodeState) -> Option<String> {
    match state.owner? {
        Owner::None => None,
        Owner::Ttl { ttl_ms } => {
            let ttl = Duration::from_millis(ttl_ms.unsigned_abs());
            Some(format!("time to live {}", text::duration(ttl)))
        }
        owner => Some(owner.kind().to_owned()),
    }
}

fn size(state: &NodeState) -> Option<String> {
    state.size.map(|bytes| text::size(bytes as u64))
}

/// Returns both values, or the known one.
fn between(before: Option<String>, after: Option<String>) -> Option<String> {
    match (before, after) {
        (Some(before), Some(after)) if before != after => Some(format!("{before} → {after}")),
        (before, after) => after.or(before),
    }
}

#[cfg(test)]
mod tests {
    use super::super::sessions::SessionHistory;
    use super::*;

    #[test]
    fn a_begin_that_is_not_in_the_logs_may_be_local() {
        let author = Author {
            session: SessionHistory::new(SessionId::new(7)),
            ephemerals: Vec::new(),
            ephemeral_count: 0,
            nearby: Vec::new(),
            nearby_count: 0,
        };
        assert_eq!(author.session_facts()[0], "the logs do not contain its begin");
    }

    #[test]
    fn a_line_has_what_is_known() {
        let state = |version, size| NodeState {
            version: Some(version),
            size: Some(size),
            ..NodeState::default()
        };
        let mut change = Change {
            at: Moment { zxid: 0x11, time_ms: 1_700 },
            session: SessionId::new(0),
            cxid: 0,
            operation: Operation::SetData,
            path: Some("/a".to_owned()),
            multi: None,
            before: Some(state(0, 1)),
            after: Some(state(1, 1)),
            deletion: None,
            session_end: None,
            session_timeout_ms: None,
            error: None,
        };
        let line = change.line();
        assert!(line.starts_with("1970-01-01T00:00:01.700Z  0x11          leader  "), "{line}");
        assert!(line.ends_with("set-data        /a  v0 → v1, 1 B"), "{line}");
        (change.operation, change.error, change.path) = (Operation::Error, Some(-999), None);
        assert_eq!(change.details(), ["unknown error code -999"]);
    }
}
