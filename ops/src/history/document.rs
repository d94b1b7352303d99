//! Changes and their authors as JSON: in the output of `zkc history` and in the REST interface of the
//! explorer.

use serde_json::{Value, json};

use super::change::{Change, DeletionCause, Moment, NodeState};
use super::stat::Owner;
use super::who::{Author, Deletion, EphemeralHistory};
use crate::node::hex;
use crate::text::rfc3339_millis;

impl Moment {
    /// Returns the transaction and its time.
    #[must_use]
    pub fn value(self) -> Value {
        json!({ "time": rfc3339_millis(self.time_ms), "zxid": hex(self.zxid) })
    }
}

impl Change {
    /// Returns all but the states of the node, whose data not everyone may read.
    #[must_use]
    pub fn value(&self) -> Value {
        let session = Some(self.session).filter(|session| session.get() != 0);
        json!({
            "time": rfc3339_millis(self.at.time_ms),
            "zxid": hex(self.at.zxid),
            "session": session.map(|session| session.to_string()),
            "cxid": self.cxid,
            "operation": self.operation.name(),
            "path": self.path,
            "part": self.multi.map(|place| json!({ "index": place.index, "count": place.count })),
            "cause": self.deletion.map(DeletionCause::name),
            "ended_by": self.session_end.map(|end| end.name()),
            "timeout_ms": self.session_timeout_ms,
            "error": self.error_name(),
            "error_code": self.error,
        })
    }
}

impl NodeState {
    /// Returns all but the data.
    #[must_use]
    pub fn value(&self) -> Value {
        json!({
            "kind": self.owner.map(Owner::kind),
            "owner": self.owner.and_then(Owner::session).map(|session| session.to_string()),
            "ttl_ms": self.owner.and_then(Owner::ttl_ms),
            "version": self.version,
            "aversion": self.aversion,
            "size": self.size,
        })
    }
}

impl Deletion {
    /// Returns the extent of the deletion.
    #[must_use]
    pub fn value(&self) -> Value {
        json!({
            "first": self.first.value(),
            "nodes": self.nodes,
            "other_changes": self.other_changes,
        })
    }
}

impl Author {
    /// Returns the session and its identity, without its nodes and its changes.
    #[must_use]
    pub fn value(&self) -> Value {
        let (session, identity) = (&self.session, self.identity());
        json!({
            "session": session.id.to_string(),
            "timeout_ms": session.timeout_ms,
            "begun": session.begun.map(Moment::value),
            "ended": session.ended.map(|(at, _)| at.value()),
            "ended_by": session.ended.map(|(_, end)| end.name()),
            "last": session.last.map(Moment::value),
            "requests": session.transactions,
            "label": identity.label,
            "address": identity.address,
            "ephemeral_count": self.ephemeral_count,
            "nearby_count": self.nearby_count,
        })
    }
}

impl EphemeralHistory {
    /// Returns all but the data.
    #[must_use]
    pub fn value(&self) -> Value {
        let identity = self.identity();
        json!({
            "path": self.path,
            "label": identity.label,
            "address": identity.address,
            "created": self.created.map(Moment::value),
            "deleted": self.deleted.map(Moment::value),
        })
    }
}
