use std::fmt;

use zk_curator::certain::Receipt;
use zk_curator::{CuratorFramework, ErrorKind, OwnedNode};

use super::Error;
use crate::health::HealthWatch;
use crate::node::PersistentNode;
use crate::race::{RACE_ROUNDS, is_race};
use zk_curator::value::ToData;

/// A name that is bound as long as a session: see
/// [`NameService::bind_ephemeral`](super::NameService::bind_ephemeral).
///
/// # Cancel safety
/// Dropping it unbinds the name in the background.
#[must_use = "dropping it unbinds the name in the background"]
pub struct Binding {
    zk: CuratorFramework,
    receipt: Receipt,
    name: String,
    node: OwnedNode,
}

impl Binding {
    pub(super) const fn new(
        zk: CuratorFramework,
        receipt: Receipt,
        name: String,
        node: OwnedNode,
    ) -> Self {
        Self { zk, receipt, name, node }
    }

    /// The name.
    #[must_use]
    pub fn name(&self) -> &str {
        &self.name
    }

    /// Returns `true` if the name is bound by us, as far as we can know: the session is not over,
    /// and there is a connection to a server.
    #[must_use]
    pub fn is_bound(&self) -> bool {
        !self.node.ownership().is_over() && self.zk.state().is_connected()
    }

    /// Resolves when this client no longer binds the name, as
    /// [`Ownership::lost`](zk_curator::Ownership::lost) does. Does not resolve while the connection
    /// is only suspended. It does not come back: bind it again.
    ///
    /// # Cancel safety
    /// Nothing is lost.
    pub async fn lost(&self) {
        self.node.ownership().lost().await;
    }

    /// Binds the name to another value.
    ///
    /// # Errors
    /// * [`Error::NotBound`] if this client no longer binds it.
    /// * [`Error::Unencodable`].
    /// * [`Error::Framework`] as a [certain](zk_curator::certain) transaction.
    ///
    /// # Cancel safety
    /// Once polled, the name may be rebound.
    pub async fn rebind(&self, value: impl ToData) -> Result<(), Error> {
        let path = self.node.path();
        let data = value
            .to_data()
            .map_err(|source| Error::Unencodable { path: path.to_owned(), source })?;
        let not_bound = || Error::NotBound { path: path.to_owned() };
        for round in 0.. {
            let ownership = self.node.ownership();
            let there = self.zk.exists(path).synced().await?;
            let Some(there) = there.filter(|stat| stat.czxid == self.node.stat().czxid) else {
                return Err(not_bound());
            };
            let write = ownership.fenced().set_data_if(path, data.clone(), there.version);
            match write.certain(&self.receipt).commit().await {
                Ok(_) => return Ok(()),
                // Another call of this kind, or another node in its place.
                Err(error) if is_race(&error) && round < RACE_ROUNDS => {}
                Err(error) if error.kind() == ErrorKind::OwnershipLost => return Err(not_bound()),
                Err(error) => return Err(error.of_operation("rebind").into()),
            }
        }
        Err(not_bound())
    }

    /// Unbinds the name, and waits for the response.
    ///
    /// # Errors
    /// [`Error::Framework`]: `ConnectionLoss` if it is unknown whether the name was unbound; the
    /// janitor continues.
    ///
    /// # Cancel safety
    /// The name is unbound in any case.
    pub async fn unbind(self) -> Result<(), Error> {
        match self.node.delete().await {
            Err(error) if matches!(error.kind(), ErrorKind::NoNode | ErrorKind::SessionExpired) => {
                Ok(())
            }
            deleted => Ok(deleted?),
        }
    }
}

impl fmt::Debug for Binding {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Binding")
            .field("name", &self.name)
            .field("is_bound", &self.is_bound())
            .finish()
    }
}

/// A name that is bound in every session: see
/// [`NameService::keep_bound`](super::NameService::keep_bound).
///
/// # Cancel safety
/// Dropping it unbinds the name in the background.
#[derive(Debug)]
#[must_use = "dropping it unbinds the name in the background"]
pub struct KeptBinding {
    zk: CuratorFramework,
    name: String,
    /// Or the error that every operation returns.
    node: Result<PersistentNode, Error>,
}

impl KeptBinding {
    pub(super) const fn new(
        zk: CuratorFramework,
        name: String,
        node: Result<PersistentNode, Error>,
    ) -> Self {
        Self { zk, name, node }
    }

    fn node(&self) -> Result<&PersistentNode, Error> {
        self.node.as_ref().map_err(Clone::clone)
    }

    /// The name.
    #[must_use]
    pub fn name(&self) -> &str {
        &self.name
    }

    /// Waits until the name is bound by us.
    ///
    /// # Errors
    /// * [`Error::InvalidName`], [`Error::Unencodable`]: the name is never bound.
    /// * [`Error::Framework`] for a failure other than the connection or another binding; binding
    ///   is retried. `Closed` when the framework is closed.
    ///
    /// # Cancel safety
    /// Nothing is lost.
    pub async fn bound(&self) -> Result<(), Error> {
        Ok(self.node()?.created().await.map(|_| ())?)
    }

    /// Returns `true` if the name is bound by us now, as far as we can know.
    #[must_use]
    pub fn is_bound(&self) -> bool {
        self.node.as_ref().is_ok_and(PersistentNode::is_present) && self.zk.state().is_connected()
    }

    /// Follows the health of the background task: [`Working`](crate::health::Health::Working) while
    /// the name is bound by us.
    pub fn health(&self) -> HealthWatch {
        match &self.node {
            Ok(node) => node.health(),
            Err(Error::Framework(error)) => HealthWatch::refused(error.clone()),
            Err(_) => {
                let why = "not a name, or a value that cannot be encoded";
                HealthWatch::refused(zk_curator::Error::invalid_argument(
                    "keep_bound",
                    &self.name,
                    why,
                ))
            }
        }
    }

    /// Binds the name to another value, now and whenever it is bound again, and waits until the
    /// server has it.
    ///
    /// # Errors
    /// [`Error::Unencodable`]; else as [`bound`](Self::bound).
    ///
    /// # Cancel safety
    /// Once polled, the name is rebound in the background in any case.
    pub async fn rebind(&self, value: impl ToData) -> Result<(), Error> {
        let unencodable = |source| Error::Unencodable { path: self.name.clone(), source };
        Ok(self.node()?.set_data(value.to_data().map_err(unencodable)?).await?)
    }

    /// Unbinds the name, and waits for the response.
    ///
    /// # Errors
    /// [`Error::Framework`]: `ConnectionLoss` if it is unknown whether the name was unbound; the
    /// janitor continues.
    ///
    /// # Cancel safety
    /// The name is unbound in any case.
    pub async fn unbind(self) -> Result<(), Error> {
        match self.node {
            Ok(node) => Ok(node.close().await?),
            // It was never bound.
            Err(_) => Ok(()),
        }
    }
}
