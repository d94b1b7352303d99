//! The errors of a registration.

use std::sync::Arc;

use zk_curator::Error;

use super::state::{RegistrationState, Rival};
use crate::local_address::LocalAddressError;

/// The reason why a registration failed.
#[derive(Debug, Clone, thiserror::Error)]
#[non_exhaustive]
pub enum RegistrationError {
    /// An operation failed.
    #[error(transparent)]
    Framework(#[from] Error),
    /// The instance cannot be written as a record.
    #[error("the instance {path} cannot be written")]
    Write {
        /// The path of the node.
        path: String,
        /// The reason.
        source: Arc<crate::json::WriteError>,
    },
    /// The instance has no address, and no address of this machine was found.
    #[error("no address of this machine was found")]
    LocalAddress(#[from] LocalAddressError),
    /// Another process has registered an instance with the same id.
    #[error(
        "another process has registered {path} (address {address})",
        address = .by.address.as_deref().unwrap_or("none")
    )]
    Superseded {
        /// The path of the node.
        path: String,
        /// The other process.
        by: Rival,
    },
    /// An instance with this id is registered, and the policy is
    /// [`OnConflict::Fail`](super::OnConflict::Fail).
    #[error(
        "{path} is already registered (address {address})",
        address = .by.address.as_deref().unwrap_or("none")
    )]
    Refused {
        /// The path of the node.
        path: String,
        /// The process of that instance.
        by: Rival,
    },
    /// Another client has deleted the node, and it is not created again.
    #[error("the node of the instance was deleted: {path}")]
    Deleted {
        /// The path of the node.
        path: String,
    },
    /// The registration or the framework has ended.
    #[error("the registration of {path} has ended")]
    Ended {
        /// The path of the node.
        path: String,
    },
}

impl RegistrationState {
    /// Returns the error of an operation that needs the node at `path`, if the registration may
    /// have ended in this state. `Deleted` is such a state with [`OnDeleted::End`] only.
    ///
    /// [`OnDeleted::End`]: super::OnDeleted::End
    #[must_use]
    pub fn error(&self, path: impl Into<String>) -> Option<RegistrationError> {
        let path = path.into();
        match self {
            Self::Superseded { by } => Some(RegistrationError::Superseded { path, by: by.clone() }),
            Self::Refused { by } => Some(RegistrationError::Refused { path, by: by.clone() }),
            Self::Deleted => Some(RegistrationError::Deleted { path }),
            Self::Ended => Some(RegistrationError::Ended { path }),
            _ => None,
        }
    }
}

impl zk_curator::Recoverable for RegistrationError {
    fn framework_error(&self) -> Option<&Error> {
        match self {
            Self::Framework(error) => Some(error),
            _ => None,
        }
    }
}

/// The result of an operation of a [`Registration`](super::Registration).
pub type Result<T, E = RegistrationError> = std::result::Result<T, E>;
