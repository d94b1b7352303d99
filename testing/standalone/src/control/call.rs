//! [`Call`]: what a request asks for.

use serde::Deserialize;
use serde_json::{Map, Value};

use super::condition::Condition;
use super::rule::RuleSpec;
use super::value::{Hex, Millis, NodePath, Secret};

macro_rules! calls {
    (
        $($(#[$doc:meta])* $name:ident = $call:literal {
            $($(#[$of_field:meta])* $field:ident: $type:ty,)*
        },)*
    ) => {
        /// A call with its parameters. The guide describes each.
        #[non_exhaustive]
        #[derive(Debug, Clone, PartialEq, Deserialize)]
        #[serde(tag = "call", deny_unknown_fields)]
        #[expect(missing_docs, reason = "the parameters are described in the guide")]
        pub enum Call {
            $($(#[$doc])* #[serde(rename = $call)] $name { $($(#[$of_field])* $field: $type,)* },)*
            /// Installs a rule.
            #[serde(rename = "add_rule")]
            AddRule(RuleSpec),
        }

        impl Call {
            /// The names of all calls.
            pub const NAMES: &[&str] = &[$($call,)* "add_rule"];

            /// Returns the name.
            #[must_use]
            pub const fn name(&self) -> &'static str {
                match self {
                    $(Self::$name { .. } => $call,)*
                    Self::AddRule(_) => "add_rule",
                }
            }
        }
    };
}

calls! {
    /// Begins.
    Hello = "hello" { version: i64, token: Secret, },
    /// Returns addresses and roles.
    Info = "info" {},
    /// Stops members.
    Stop = "stop" { member: Option<usize>, },
    /// Starts members that are stopped.
    Start = "start" { member: Option<usize>, },
    /// Stops and starts members.
    Restart = "restart" { member: Option<usize>, },
    /// Suspends members.
    Pause = "pause" { member: Option<usize>, },
    /// Ends `pause`.
    Resume = "resume" { member: Option<usize>, },
    /// Cuts the network between members and their clients.
    Partition = "partition" { member: Option<usize>, },
    /// Cuts the network between sides of the ensemble.
    Split = "split" { sides: Vec<Vec<usize>>, },
    /// Ends `partition` and `split`.
    Heal = "heal" { member: Option<usize>, },
    /// Enters or leaves read-only mode.
    SetReadOnly = "set_read_only" { member: Option<usize>, read_only: bool, },
    /// Expires a session.
    Expire = "expire" { session: Hex, },
    /// Closes connections.
    Disconnect = "disconnect" { session: Option<Hex>, },
    /// Lets a follower apply commits later.
    Lag = "lag" { member: usize, delay_ms: Option<Millis>, },
    /// Ends `lag`.
    EndLag = "end_lag" { lag: u64, },
    /// Elects another leader.
    ChangeLeader = "change_leader" { member: Option<usize>, },
    /// Advances the clock.
    Advance = "advance" { by_ms: Millis, },
    /// Shifts the clock of `ctime` and `mtime`.
    ShiftWallClock = "shift_wall_clock" { member: Option<usize>, by_ms: i64, },
    /// Sets the version of the data.
    SetVersion = "set_version" { path: NodePath, version: i32, },
    /// Sets the next sequence number.
    SetSequence = "set_sequence" { path: NodePath, next: i32, },
    /// Deletes a node and all below.
    Remove = "remove" { path: NodePath, },
    /// Deletes empty containers and expired nodes.
    ReapContainers = "reap_containers" {},
    /// Returns the hits of a rule.
    Rule = "rule" { rule: String, },
    /// Removes a rule.
    RemoveRule = "remove_rule" { rule: String, },
    /// Removes all rules.
    RemoveRules = "remove_rules" {},
    /// Returns the present state.
    Probe = "probe" { member: Option<usize>, },
    /// Waits for a condition.
    Until = "until" { condition: Condition, timeout_ms: Millis, },
    /// Returns the injected faults.
    Journal = "journal" {},
    /// Ends all faults.
    Reset = "reset" {},
}

impl Call {
    /// Reads a call from its name, `call`, and its parameters.
    ///
    /// # Errors
    /// A text of one line that describes the error.
    pub fn parse(fields: Map<String, Value>) -> Result<Self, String> {
        let name = match fields.get("call") {
            Some(Value::String(name)) => name.clone(),
            _ => return Err("`call` must be the name of a call".to_owned()),
        };
        if !Self::NAMES.contains(&name.as_str()) {
            return Err(format!("'{name}' is not a call of the protocol"));
        }
        // A client that has no leader must not stop every member.
        if let Some(parameter) = null_in(&fields) {
            return Err(format!("{name}: `{parameter}` is null; leave it out for its default"));
        }
        serde_json::from_value(Value::Object(fields)).map_err(|error| match name.as_str() {
            // The error of serde would quote the token.
            "hello" => "hello: needs `version`, an integer, and `token`, a string".to_owned(),
            _ => format!("{name}: {error}"),
        })
    }
}

/// Returns the name of a parameter that is null, also of one in an object.
fn null_in(fields: &Map<String, Value>) -> Option<&str> {
    fields.iter().find_map(|(name, value)| match value {
        Value::Null => Some(name.as_str()),
        Value::Object(fields) => null_in(fields),
        _ => None,
    })
}
