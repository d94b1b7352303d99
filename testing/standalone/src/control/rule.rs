//! [`RuleSpec`]: a rule as JSON or TOML, and its meaning.

use serde::Deserialize;
use zk_curator_proto::records::ReadOp;
use zk_curator_proto::{ErrorCode, OpCode, Request};
use zk_curator_testing::rule::path_matches;
use zk_curator_testing::{RuleRequest, Verdict};

use super::value::{Hex, Millis, NodePath};

macro_rules! operations {
    ($($name:ident = $text:literal: $($opcode:ident)|+,)*) => {
        /// An operation, in any of its forms.
        #[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize)]
        enum Operation {
            $(#[serde(rename = $text)] $name,)*
        }

        impl Operation {
            const fn of(opcode: OpCode) -> Option<Self> {
                match opcode {
                    $($(OpCode::$opcode)|+ => Some(Self::$name),)*
                    _ => None,
                }
            }

            const fn as_str(self) -> &'static str {
                match self {
                    $(Self::$name => $text,)*
                }
            }
        }

        /// The names of all operations.
        pub const OPERATIONS: &[&str] = &[$($text),*];
    };
}

operations! {
    Create = "create": Create | Create2 | CreateContainer | CreateTtl,
    Delete = "delete": Delete,
    Exists = "exists": Exists,
    GetData = "get_data": GetData,
    SetData = "set_data": SetData,
    GetAcl = "get_acl": GetAcl,
    SetAcl = "set_acl": SetAcl,
    GetChildren = "get_children": GetChildren | GetChildren2,
    Sync = "sync": Sync,
    Check = "check": Check,
    Multi = "multi": Multi,
    MultiRead = "multi_read": MultiRead,
    AddWatch = "add_watch": AddWatch,
    RemoveWatches = "remove_watches": RemoveWatches,
    CheckWatches = "check_watches": CheckWatches,
    SetWatches = "set_watches": SetWatches | SetWatches2,
    Auth = "auth": Auth,
    Sasl = "sasl": Sasl,
    Ping = "ping": Ping,
    CloseSession = "close_session": CloseSession,
    Reconfig = "reconfig": Reconfig,
    WhoAmI = "who_am_i": WhoAmI,
    GetEphemerals = "get_ephemerals": GetEphemerals,
    GetAllChildrenNumber = "get_all_children_number": GetAllChildrenNumber,
}

/// Returns the name of the operation with this opcode; `None` if clients do not send it.
#[must_use]
pub fn operation_name(opcode: OpCode) -> Option<&'static str> {
    Operation::of(opcode).map(Operation::as_str)
}

/// The parameters of `add_rule`.
#[derive(Debug, Clone, PartialEq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct RuleSpec {
    pub(super) name: Option<String>,
    operation: Option<Operations>,
    path: Option<NodePath>,
    under: Option<Parent>,
    session: Option<Hex>,
    pub(super) member: Option<usize>,
    #[serde(default)]
    pub(super) after: u64,
    pub(super) times: Option<Times>,
    verdict: VerdictSpec,
}

/// A number of times that a rule fires, at least 1.
#[derive(Debug, Clone, Copy, PartialEq, Deserialize)]
#[serde(try_from = "u64")]
pub(super) struct Times(u64);

impl Times {
    pub(super) const fn get(self) -> u64 {
        self.0
    }
}

impl TryFrom<u64> for Times {
    type Error = &'static str;

    fn try_from(times: u64) -> Result<Self, Self::Error> {
        if times > 0 { Ok(Self(times)) } else { Err("`times` is 0, so the rule would never fire") }
    }
}

/// The path of a parent, which is no pattern.
#[derive(Debug, Clone, PartialEq, Deserialize)]
#[serde(try_from = "NodePath")]
struct Parent(NodePath);

impl TryFrom<NodePath> for Parent {
    type Error = String;

    fn try_from(path: NodePath) -> Result<Self, String> {
        if path.as_str().contains(['*', '?']) {
            let path = path.as_str();
            return Err(format!("`under` takes no pattern such as '{path}', but `path` does"));
        }
        Ok(Self(path))
    }
}

/// One operation, or several.
#[derive(Debug, Clone, PartialEq, Deserialize)]
#[serde(try_from = "Names")]
struct Operations(Vec<Operation>);

#[derive(Deserialize)]
#[serde(untagged, expecting = "the name of an operation, or a list of names")]
enum Names {
    One(String),
    Several(Vec<String>),
}

impl TryFrom<Names> for Operations {
    type Error = String;

    fn try_from(names: Names) -> Result<Self, String> {
        let names = match names {
            Names::One(name) => vec![name],
            Names::Several(names) => names,
        };
        if names.is_empty() {
            return Err("`operation` is an empty list".to_owned());
        }
        let operation = |name: &String| {
            let known = OpCode::ALL.iter().filter_map(|opcode| Operation::of(*opcode));
            known
                .into_iter()
                .find(|operation| operation.as_str() == name)
                .ok_or_else(|| format!("'{name}' is not an operation"))
        };
        names.iter().map(operation).collect::<Result<_, _>>().map(Self)
    }
}

#[derive(Debug, Clone, Copy, PartialEq, Deserialize)]
#[serde(rename_all = "snake_case")]
enum VerdictSpec {
    LoseReply,
    LoseRequest,
    Disconnect,
    DelayMs(Millis),
    Refuse(Refusal),
}

/// The name of an error, or its code.
#[derive(Debug, Clone, Copy, PartialEq, Deserialize)]
#[serde(try_from = "NameOrCode")]
struct Refusal(ErrorCode);

#[derive(Deserialize)]
#[serde(untagged, expecting = "the name or the code of an error")]
enum NameOrCode {
    Name(String),
    Code(i32),
}

impl TryFrom<NameOrCode> for Refusal {
    type Error = String;

    fn try_from(given: NameOrCode) -> Result<Self, String> {
        let (found, given) = match given {
            NameOrCode::Name(name) => (
                ErrorCode::ALL
                    .iter()
                    .copied()
                    .find(|code| snake_case(&format!("{code:?}")) == name),
                name,
            ),
            NameOrCode::Code(code) => (ErrorCode::from_code(code), code.to_string()),
        };
        found.map(Self).ok_or_else(|| format!("'{given}' is not an error of ZooKeeper"))
    }
}

/// Returns `no_node` for `NoNode`.
fn snake_case(name: &str) -> String {
    let mut text = String::new();
    for (at, letter) in name.char_indices() {
        if letter.is_ascii_uppercase() && at > 0 {
            text.push('_');
        }
        text.push(letter.to_ascii_lowercase());
    }
    text
}

impl From<VerdictSpec> for Verdict {
    fn from(verdict: VerdictSpec) -> Self {
        match verdict {
            VerdictSpec::LoseReply => Self::LoseReply,
            VerdictSpec::LoseRequest => Self::LoseRequest,
            VerdictSpec::Disconnect => Self::Disconnect,
            VerdictSpec::DelayMs(delay) => Self::Delay(delay.get()),
            VerdictSpec::Refuse(Refusal(code)) => Self::Refuse(code),
        }
    }
}

impl RuleSpec {
    /// Returns the verdict about a request, without `after`, `times` and `member`.
    #[must_use]
    pub fn judge(&self, request: &RuleRequest<'_>) -> Verdict {
        if self.matches(request.session_id(), request.request()) {
            self.verdict.into()
        } else {
            Verdict::Pass
        }
    }

    fn matches(&self, session: i64, request: &Request) -> bool {
        if self.session.is_some_and(|wanted| wanted.get() != session) {
            return false;
        }
        let whole = request.opcode();
        if self.matches_operation(&[whole], request.path()) {
            return true;
        }
        match request {
            Request::Multi(ops) => {
                ops.iter().any(|op| self.matches_operation(&[whole, op.opcode()], Some(op.path())))
            }
            Request::MultiRead(ops) => ops.iter().any(|op| {
                let opcode = match op {
                    ReadOp::GetChildren(_) => OpCode::GetChildren,
                    _ => OpCode::GetData,
                };
                self.matches_operation(&[whole, opcode], Some(op.path()))
            }),
            _ => false,
        }
    }

    /// Returns `true` if an operation has one of the names and matches the conditions on the path.
    fn matches_operation(&self, opcodes: &[OpCode], path: Option<&str>) -> bool {
        let named = |Operations(wanted): &Operations| {
            let mut operations = opcodes.iter().filter_map(|opcode| Operation::of(*opcode));
            operations.any(|operation| wanted.contains(&operation))
        };
        let has_path =
            |pattern: &NodePath| path.is_some_and(|path| path_matches(pattern.as_str(), path));
        let has_parent =
            |parent: &Parent| path.and_then(parent_of).is_some_and(|of| of == parent.0.as_str());
        self.operation.as_ref().is_none_or(named)
            && self.path.as_ref().is_none_or(has_path)
            && self.under.as_ref().is_none_or(has_parent)
    }
}

/// Returns the parent of a path; `None` for the root.
fn parent_of(path: &str) -> Option<&str> {
    match path.rsplit_once('/') {
        Some(("", "")) | None => None,
        Some(("", _)) => Some("/"),
        Some((parent, _)) => Some(parent),
    }
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};
    use zk_curator_proto::records::{
        Acl, CreateMode, CreateRequest, DeleteRequest, GetChildrenRequest, GetDataRequest, MultiOp,
        SetWatches,
    };

    use super::*;

    fn spec(fields: Value) -> RuleSpec {
        let mut fields = fields;
        fields["verdict"] = json!("disconnect");
        serde_json::from_value(fields).unwrap()
    }

    fn creation(path: &str) -> CreateRequest {
        let flags = CreateMode::EphemeralSequential.flags();
        CreateRequest { path: path.into(), data: None, acl: Acl::open_unsafe(), flags }
    }

    fn deletion(path: &str) -> DeleteRequest {
        DeleteRequest { path: path.into(), version: -1 }
    }

    #[test]
    fn rules_match_by_operation_path_parent_and_session() {
        let transaction = Request::Multi(vec![
            MultiOp::Create2(creation("/a/x")),
            MultiOp::Delete(deletion("/b/y")),
        ]);
        let get = GetDataRequest { path: "/a/x".into(), watch: false };
        let list = GetChildrenRequest { path: "/b".into(), watch: false };
        let reads = Request::MultiRead(vec![ReadOp::GetData(get), ReadOp::GetChildren(list)]);
        let create = Request::CreateContainer(creation("/a/x"));
        for (fields, request, expected) in [
            (json!({}), &create, true),
            (json!({}), &Request::Ping, true),
            (json!({ "path": "/**" }), &Request::Ping, false),
            (json!({ "session": "0x7" }), &Request::Ping, true),
            (json!({ "session": "0x8" }), &Request::Ping, false),
            (json!({ "operation": "ping" }), &Request::Ping, true),
            (json!({ "operation": ["ping", "create"] }), &create, true),
            (json!({ "operation": "delete" }), &create, false),
            (json!({ "operation": "create", "under": "/a" }), &create, true),
            (json!({ "operation": "create", "under": "/" }), &create, false),
            (json!({ "operation": "create", "under": "/a/x" }), &create, false),
            (json!({ "under": "/a", "path": "/a/?" }), &create, true),
            (json!({ "under": "/a", "path": "/b/*" }), &create, false),
            (json!({ "under": "/" }), &Request::Create(creation("/a")), true),
            (json!({ "under": "/" }), &Request::Create(creation("/")), false),
            // Sequential nodes may have no name in front of the number.
            (json!({ "under": "/a" }), &Request::Create(creation("/a/")), true),
            (json!({ "operation": "multi" }), &transaction, true),
            (json!({ "operation": "create" }), &transaction, true),
            (json!({ "operation": "delete", "path": "/b/y" }), &transaction, true),
            (json!({ "operation": "delete", "path": "/a/x" }), &transaction, false),
            (json!({ "operation": "delete", "path": "/b/y", "under": "/a" }), &transaction, false),
            (json!({ "operation": "multi", "under": "/b" }), &transaction, true),
            (json!({ "operation": "check" }), &transaction, false),
            (json!({}), &Request::Multi(Vec::new()), true),
            (json!({ "path": "/**" }), &Request::Multi(Vec::new()), false),
            (json!({ "operation": "multi_read", "path": "/b" }), &reads, true),
            (json!({ "operation": "get_children", "path": "/b" }), &reads, true),
            (json!({ "operation": "get_data", "path": "/b" }), &reads, false),
            (
                json!({ "operation": "set_watches" }),
                &Request::SetWatches(SetWatches::default()),
                true,
            ),
        ] {
            let text = fields.to_string();
            assert_eq!(spec(fields).matches(7, request), expected, "{text} {request:?}");
        }
    }

    #[test]
    fn every_operation_has_the_opcodes_of_clients() {
        let without: Vec<_> =
            OpCode::ALL.iter().filter(|opcode| operation_name(**opcode).is_none()).collect();
        assert_eq!(
            without,
            [&OpCode::DeleteContainer, &OpCode::CreateSession, &OpCode::Error],
            "clients send none of these"
        );
    }

    #[test]
    fn every_error_of_zookeeper_can_be_refused_with() {
        for code in ErrorCode::ALL {
            let name = snake_case(&format!("{code:?}"));
            for given in [json!(name), json!(code.code())] {
                let verdict: VerdictSpec =
                    serde_json::from_value(json!({ "refuse": given })).unwrap();
                assert_eq!(Verdict::from(verdict), Verdict::Refuse(*code), "{given}");
            }
        }
        assert_eq!(snake_case("NoChildrenForEphemerals"), "no_children_for_ephemerals");
    }
}
