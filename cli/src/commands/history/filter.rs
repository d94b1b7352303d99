//! The changes that a command selects.

use std::ops::RangeInclusive;

use clap::{Args, ValueEnum};
use zk_curator::SessionId;
use zk_curator_ops::history::{Files, Index, Operation};

use super::arguments;
use crate::path;

/// A filter of changes.
#[derive(Debug, Args)]
pub(super) struct ChangeFilter {
    /// Only changes of this node. Repeatable
    #[arg(long = "path", value_name = "PATH", value_parser = path::parse)]
    exact: Vec<String>,
    /// Only changes of this node and of the nodes below it. Repeatable
    #[arg(long, value_name = "PATH", value_parser = path::parse)]
    below: Vec<String>,
    /// Only changes of this session, and the deletions of its ephemeral nodes at its end
    #[arg(long, value_name = "ID", value_parser = arguments::session)]
    session: Option<SessionId>,
    /// Only changes from this time on: in UTC, such as 2026-11-30T14:02:00Z, or ago, such as 10m
    #[arg(long, value_name = "TIME", value_parser = arguments::time)]
    pub(super) since: Option<i64>,
    /// Only changes up to this time
    #[arg(long, value_name = "TIME", value_parser = arguments::time)]
    until: Option<i64>,
    /// Only these transactions: one, or a range such as 0x100000001..0x1000000ff, `A..` or `..B`
    #[arg(long, value_name = "ZXIDS", value_parser = arguments::zxids)]
    pub(super) zxid: Option<RangeInclusive<i64>>,
    /// Only these operations [default: all but `error`]
    #[arg(long, value_enum, value_name = "OPERATION", value_delimiter = ',')]
    op: Vec<OperationName>,
}

/// An operation.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
enum OperationName {
    /// Creations of nodes
    Create,
    /// Deletions of nodes
    Delete,
    /// Changes of data
    SetData,
    /// Changes of access control lists
    SetAcl,
    /// Changes of the members of the ensemble
    Reconfig,
    /// Begins of sessions
    CreateSession,
    /// Ends of sessions
    CloseSession,
    /// Failed requests, whose operation and path the logs do not contain
    Error,
}

impl From<OperationName> for Operation {
    fn from(name: OperationName) -> Self {
        match name {
            OperationName::Create => Self::Create,
            OperationName::Delete => Self::Delete,
            OperationName::SetData => Self::SetData,
            OperationName::SetAcl => Self::SetAcl,
            OperationName::Reconfig => Self::Reconfig,
            OperationName::CreateSession => Self::CreateSession,
            OperationName::CloseSession => Self::CloseSession,
            OperationName::Error => Self::Error,
        }
    }
}

impl ChangeFilter {
    /// Returns the index with this filter.
    pub(super) fn index(&self, files: &Files, skip_damaged: bool, with_data: bool) -> Index {
        let mut index = Index::new(files).skip_damaged(skip_damaged).with_data(with_data);
        for path in &self.exact {
            index = index.path(path);
        }
        for path in &self.below {
            index = index.below(path);
        }
        if let Some(session) = self.session {
            index = index.session(session);
        }
        if let Some(since) = self.since {
            index = index.since_ms(since);
        }
        if let Some(until) = self.until {
            index = index.until_ms(until);
        }
        if let Some(zxids) = &self.zxid {
            index = index.zxids(zxids.clone());
        }
        if !self.op.is_empty() {
            index = index.operations(self.op.iter().copied().map(Operation::from));
        }
        index
    }
}
