//! [`Condition`]: what `until` waits for.

use serde::Deserialize;
use zk_curator_testing::{ClusterProbe, Probe};

use super::value::{Hex, NodePath};

/// A condition of `until`.
#[non_exhaustive]
#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
#[serde(try_from = "Fields")]
pub enum Condition {
    /// The node exists.
    Exists(NodePath),
    /// The node does not exist.
    Absent(NodePath),
    /// The node has exactly this number of children.
    Children(NodePath, u64),
    /// At least this number of watches is set on the path.
    Watches(NodePath, u64),
    /// There are exactly this number of sessions.
    Sessions(u64),
    /// The session does not exist.
    SessionEnded(Hex),
    /// The session has a connection.
    SessionConnected(Hex),
    /// The session has no connection.
    SessionDisconnected(Hex),
    /// The rule has fired at least this number of times.
    Rule(String, u64),
    /// There is a leader, or there is none.
    Leader(bool),
}

/// The fields of all conditions.
#[derive(Default, Deserialize)]
#[serde(default, deny_unknown_fields)]
struct Fields {
    exists: Option<NodePath>,
    absent: Option<NodePath>,
    children: Option<NodePath>,
    count: Option<u64>,
    watches: Option<NodePath>,
    at_least: Option<u64>,
    sessions: Option<u64>,
    session_ended: Option<Hex>,
    session_connected: Option<Hex>,
    session_disconnected: Option<Hex>,
    rule: Option<String>,
    hits: Option<u64>,
    leader: Option<bool>,
}

impl TryFrom<Fields> for Condition {
    type Error = String;

    fn try_from(fields: Fields) -> Result<Self, String> {
        let Fields { children, count, watches, at_least, rule, hits, .. } = fields;
        let needs = |condition: &str, field: &str| {
            format!("the condition `{condition}` needs `{field}`, and no other has it")
        };
        if children.is_some() != count.is_some() {
            return Err(needs("children", "count"));
        } else if watches.is_some() != at_least.is_some() {
            return Err(needs("watches", "at_least"));
        } else if rule.is_some() != hits.is_some() {
            return Err(needs("rule", "hits"));
        }
        let mut given = [
            fields.exists.map(Self::Exists),
            fields.absent.map(Self::Absent),
            children.zip(count).map(|(path, count)| Self::Children(path, count)),
            watches.zip(at_least).map(|(path, count)| Self::Watches(path, count)),
            fields.sessions.map(Self::Sessions),
            fields.session_ended.map(Self::SessionEnded),
            fields.session_connected.map(Self::SessionConnected),
            fields.session_disconnected.map(Self::SessionDisconnected),
            rule.zip(hits).map(|(rule, hits)| Self::Rule(rule, hits)),
            fields.leader.map(Self::Leader),
        ]
        .into_iter()
        .flatten();
        match (given.next(), given.next()) {
            (Some(condition), None) => Ok(condition),
            _ => Err(format!("a condition is one of {}", Self::NAMES.join(", "))),
        }
    }
}

impl Condition {
    /// The names of all conditions.
    pub const NAMES: &[&str] = &[
        "exists",
        "absent",
        "children",
        "watches",
        "sessions",
        "session_ended",
        "session_connected",
        "session_disconnected",
        "rule",
        "leader",
    ];

    /// Returns `true` if the state of an ensemble, or of a single server, satisfies the condition.
    /// A condition on a rule is never satisfied here.
    #[must_use]
    pub fn holds(&self, probe: &ClusterProbe) -> bool {
        let latest = probe.latest();
        let count = |number: usize| number as u64;
        match self {
            Self::Exists(path) => latest.exists(path.as_str()),
            Self::Absent(path) => !latest.exists(path.as_str()),
            // Counted without the names: this is asked after every transaction.
            Self::Children(path, number) => latest
                .stat(path.as_str())
                .is_some_and(|stat| u64::try_from(stat.num_children) == Ok(*number)),
            Self::Watches(path, at_least) => {
                let of = |probe: &Probe| {
                    probe.watches().iter().filter(|watch| watch.path == path.as_str()).count()
                };
                count(probe.members().iter().map(|member| of(&member.probe)).sum()) >= *at_least
            }
            Self::Sessions(number) => count(latest.sessions().len()) == *number,
            Self::SessionEnded(id) => latest.session(id.get()).is_none(),
            Self::SessionConnected(id) => {
                latest.session(id.get()).is_some_and(|session| session.connected)
            }
            Self::SessionDisconnected(id) => {
                latest.session(id.get()).is_none_or(|session| !session.connected)
            }
            Self::Rule(..) => false,
            Self::Leader(exists) => probe.leader().is_some() == *exists,
        }
    }
}
