//! The errors of operations.

use std::io;
use std::path::PathBuf;

use zk_curator_client::ConnectStringError;

use crate::history::error::Error as HistoryError;
use crate::transfer::damage::BackupDamage;
use crate::tree::unreadable::UnreadableReason;

/// Why an operation failed.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// A request failed.
    #[error(transparent)]
    Framework(#[from] zk_curator::Error),

    // Files.
    /// A file or a folder cannot be read or written.
    #[error("cannot {operation} {}", .path.display())]
    File {
        /// A verb, such as `open`.
        operation: &'static str,
        /// The path of the file or the folder.
        path: PathBuf,
        /// The error of the operating system.
        source: io::Error,
    },
    /// A finished backup cannot be written to its output.
    #[error("cannot write the backup")]
    Output {
        /// The error of the output.
        source: io::Error,
    },
    /// A backup file was changed or truncated, or is not a backup.
    #[error("damaged: {}", .path.display())]
    Damaged {
        /// The path of the file.
        path: PathBuf,
        /// The line, and why it is not valid.
        #[source]
        damage: BackupDamage,
    },
    /// The logs and snapshots of a server cannot be read.
    #[error(transparent)]
    History(#[from] HistoryError),
    /// A directory for a node would have a path that is too long for the operating system.
    /// Nothing was written.
    #[error("too long for the path of a file: {path}")]
    PathTooLong {
        /// The path of the node.
        path: String,
    },

    // Invalid arguments.
    /// A connect string is not valid.
    #[error("invalid connect string")]
    InvalidConnectString(#[from] ConnectStringError),
    /// A text does not name exactly one server.
    #[error("not one server: {text}")]
    NotOneServer {
        /// The text.
        text: String,
    },
    /// A text is not an entry of an access control list, `SCHEME:ID:PERMISSIONS`.
    #[error("not an ACL: {text}")]
    InvalidAcl {
        /// The text of the entry.
        text: String,
    },
    /// An admin server has a certificate, and there is no
    /// [connector](crate::ensemble::probe::ProbeOptions::connector) that can check it.
    #[error("the admin server cannot be checked without a connector for TLS")]
    UncheckedAdminServer,
    /// The node belongs to the servers, so it is not changed.
    #[error("{path} belongs to the servers")]
    BelongsToServers {
        /// The path of the node.
        path: String,
    },
    /// The root of the namespace or of the chroot is not changed recursively.
    #[error("/ is the root of the namespace or chroot")]
    IsRoot,
    /// A node cannot be copied into itself.
    #[error("{path} is within {root}")]
    IsWithin {
        /// The path of the copy.
        path: String,
        /// The path of the original.
        root: String,
    },

    /// A tree has more nodes than the [scope](crate::transfer::DiffScope::at_most) accepts.
    #[error("more than {most} nodes: {root}")]
    TooManyNodes {
        /// The root of the tree.
        root: String,
        /// The greatest number of nodes.
        most: usize,
    },

    // The nodes do not allow it.
    /// A node does not exist.
    #[error("no node: {path}")]
    NoNode {
        /// The path of the node.
        path: String,
    },
    /// A node exists already.
    #[error("node exists: {path}")]
    NodeExists {
        /// The path of the node.
        path: String,
    },
    /// A node has children, and only the node itself should be moved.
    #[error("not empty: {path}")]
    NotEmpty {
        /// The path of the node.
        path: String,
    },
    /// Ephemeral nodes cannot be moved: they belong to live sessions.
    #[error("ephemeral: {}", .paths.join(" "))]
    Ephemeral {
        /// The paths of the first of these nodes, at most 20.
        paths: Vec<String>,
    },
    /// A node could not be read, and the operation needs all nodes.
    #[error("{reason}: {path}")]
    Unreadable {
        /// The path of the node.
        path: String,
        /// The reason.
        reason: UnreadableReason,
    },
    /// The ACL of a node cannot be copied, because the servers hide its passwords from clients
    /// without the permission `ADMIN`.
    #[error("no permission to read the whole ACL: {path}")]
    HiddenAcl {
        /// The path of the node.
        path: String,
    },
    /// The ACL of a node in a backup file lacks its passwords: the client of the backup had no
    /// permission `ADMIN`.
    #[error("the ACL in the file hides a password: {path}")]
    HiddenPassword {
        /// The path of the node.
        path: String,
    },

    // A plan is refused. Nothing was changed.
    /// Nodes of a backup exist with other data or another ACL, and should not be replaced.
    #[error("{nodes} nodes exist and differ")]
    Conflicts {
        /// Their number.
        nodes: u64,
    },
    /// Contenders of recipes would become persistent, and no session would ever remove them.
    #[error("{nodes} contenders of recipes would become persistent")]
    Contenders {
        /// Their number.
        nodes: usize,
    },
    /// New sequential children of some nodes would sort before the written ones.
    #[error("new sequential children of {nodes} nodes would sort before the written ones")]
    LowCounters {
        /// The number of parents.
        nodes: usize,
    },

    // Changes of other clients.
    /// A node has changed since the plan was made.
    #[error("changed since the plan was made: {path}")]
    Changed {
        /// The path of the node.
        path: String,
    },
    /// A subtree has changed while it was copied, so the original was not removed.
    #[error("{from} changed while it was copied to {to}, and was not removed")]
    ChangedDuringCopy {
        /// The path of the original.
        from: String,
        /// The path of the copy.
        to: String,
    },

    /// A failure between two transactions. If `changes` is 0, nothing was changed.
    #[error("stopped after {changes} changes")]
    Interrupted {
        /// The number of changes that were applied.
        changes: u64,
        /// The failure.
        source: Box<Self>,
    },
}

impl Error {
    /// Returns `true` if the response to a write was lost, and the write may have been applied.
    #[must_use]
    pub fn may_have_applied(&self) -> bool {
        match self {
            Self::Framework(error) => error.may_have_applied(),
            Self::Interrupted { source, .. } => source.may_have_applied(),
            _ => false,
        }
    }
}
