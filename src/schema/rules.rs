use std::fmt;

use zk_curator_client::{Acl, CreateMode};

use super::{Schema, SchemaSet};
use crate::error::{Error, ErrorKind, Result};

/// The intended effect of an operation on a node.
#[derive(Debug, Clone, Copy)]
pub(crate) enum Intent<'a> {
    Create {
        mode: CreateMode,
        data: &'a [u8],
        acl: &'a [Acl],
    },
    /// A write of data or of an ACL, not of both.
    Write {
        data: Option<&'a [u8]>,
        acl: &'a [Acl],
    },
    Delete,
    Read {
        watched: bool,
    },
}

/// The rule that an operation violates.
#[non_exhaustive]
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Rule {
    /// The set is [closed](SchemaSet::closed), and no schema applies to the path.
    NoSchema,
    /// The node must be ephemeral, or must not be.
    Ephemeral,
    /// The node must be sequential, or must not be.
    Sequential,
    /// The read must leave a watch, or must not.
    Watched,
    /// The node may not be deleted.
    Deletable,
    /// The validator refuses the data or the ACL.
    Valid,
}

/// An operation that a schema forbids: the source of an error of the kind `SchemaViolation`.
#[non_exhaustive]
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SchemaViolation {
    /// The name of the schema; `None` if there is none.
    pub schema: Option<String>,
    /// The violated rule.
    pub rule: Rule,
}

impl SchemaSet {
    /// Returns `true` if an operation may be sent.
    pub(crate) fn admit(
        &self,
        operation: &'static str,
        path: &str,
        intent: Intent<'_>,
    ) -> Result<()> {
        let broken = match self.schema_of(path) {
            Some(schema) => schema.broken_by(path, intent),
            None => self.closed.then_some(Rule::NoSchema),
        };
        let Some(rule) = broken else { return Ok(()) };
        let schema = self.schema_of(path).map(|schema| schema.name.clone());
        let violation = SchemaViolation { schema, rule };
        Err(Error::new(ErrorKind::SchemaViolation, operation, path).with_source(violation))
    }
}

impl Schema {
    fn broken_by(&self, path: &str, intent: Intent<'_>) -> Option<Rule> {
        let valid = |data: Option<&[u8]>, acl: &[Acl]| {
            self.validator
                .as_ref()
                .is_none_or(|validator| validator.is_valid(self, path, data, acl))
        };
        let (admitted, rule) = match intent {
            Intent::Create { mode, .. } if !self.ephemeral.admits(mode.is_ephemeral()) => {
                (false, Rule::Ephemeral)
            }
            Intent::Create { mode, .. } if !self.sequential.admits(mode.is_sequential()) => {
                (false, Rule::Sequential)
            }
            Intent::Create { data, acl, .. } => (valid(Some(data), acl), Rule::Valid),
            Intent::Write { data, acl } => (valid(data, acl), Rule::Valid),
            Intent::Delete => (self.deletable, Rule::Deletable),
            Intent::Read { watched } => (self.watched.admits(watched), Rule::Watched),
        };
        (!admitted).then_some(rule)
    }
}

impl fmt::Display for SchemaViolation {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let why = match self.rule {
            Rule::NoSchema => return f.write_str("no schema is about this path"),
            Rule::Ephemeral => "does not allow this kind of node (ephemeral or not)",
            Rule::Sequential => "does not allow this kind of node (sequential or not)",
            Rule::Watched => "does not allow this read (watched or not)",
            Rule::Deletable => "does not allow the node to be deleted",
            Rule::Valid => "does not allow these data or this ACL",
        };
        write!(f, "the schema {:?} {why}", self.schema.as_deref().unwrap_or_default())
    }
}

impl std::error::Error for SchemaViolation {}
