//! The entry point of the crate: [`ServiceDiscovery`].

use std::fmt;
use std::marker::PhantomData;
use std::sync::Arc;

use serde::Serialize;
use serde::de::DeserializeOwned;
use zk_curator::certain::is_receipt;
use zk_curator::{CuratorFramework, Error};

use crate::config::{DiscoveryPaths, RecordFormat};
use crate::instance::ServiceInstance;
use crate::json::JsonMode;
use crate::local_address::LocalAddress;
use crate::payload::PayloadCodec;
use crate::registration::{
    self, OnConflict, OnDeleted, Registration, RegistrationError, RegistrationPlan,
};

/// Registers and finds services below a path. Cheap to clone. See the
/// [crate's documentation](crate).
///
/// `P` is the type of the payloads: see [`ServiceInstance`].
#[doc(alias = "ServiceDiscoveryBuilder")]
pub struct ServiceDiscovery<P> {
    pub(crate) zk: CuratorFramework,
    pub(crate) paths: DiscoveryPaths,
    pub(crate) format: RecordFormat,
    on_conflict: OnConflict,
    on_deleted: OnDeleted,
    local_address: Option<LocalAddress>,
    payload: PhantomData<fn() -> P>,
}

impl<P> ServiceDiscovery<P> {
    /// Returns the services below this path, which need not exist. Nothing is sent. The first
    /// operation reports an invalid path.
    pub fn new(zk: &CuratorFramework, base: impl Into<String>) -> Self {
        Self {
            zk: zk.clone(),
            paths: DiscoveryPaths::new(base.into()),
            format: RecordFormat::default(),
            on_conflict: OnConflict::default(),
            on_deleted: OnDeleted::default(),
            local_address: None,
            payload: PhantomData,
        }
    }

    /// Returns the framework whose session is used.
    #[must_use]
    pub const fn framework(&self) -> &CuratorFramework {
        &self.zk
    }

    /// The format of payloads. Default: [`PayloadCodec::map`].
    #[must_use]
    pub fn payload(mut self, codec: PayloadCodec) -> Self {
        self.format.codec = codec;
        self
    }

    /// The rule by which records contain the field `enabled`. Default: [`JsonMode::Compatible`].
    #[must_use]
    pub fn json_mode(mut self, mode: JsonMode) -> Self {
        self.format.mode = mode;
        self
    }

    /// The function that returns the path of a service for its name. Default: the child of the base
    /// path with that name.
    ///
    /// [`names`](Self::names), [`inspect`](Self::inspect) and `rest::Purge` list only the children
    /// of the base path. Services elsewhere are not listed, and not purged.
    #[doc(alias = "DiscoveryPathConstructor")]
    #[must_use]
    pub fn paths(mut self, of_service: impl Fn(&str) -> String + Send + Sync + 'static) -> Self {
        self.paths.with(of_service);
        self
    }

    /// The policy for an id that another process has already registered. Default:
    /// [`OnConflict::Replace`].
    #[must_use]
    pub const fn on_conflict(mut self, policy: OnConflict) -> Self {
        self.on_conflict = policy;
        self
    }

    /// Registers instances that have no address with the one from which this machine reaches the
    /// ensemble. Default: they are registered without an address.
    #[must_use]
    pub fn local_address(mut self, local: LocalAddress) -> Self {
        self.local_address = Some(local);
        self
    }

    /// The policy for a node that another client deletes. Default: [`OnDeleted::Recreate`].
    #[must_use]
    pub const fn on_deleted(mut self, policy: OnDeleted) -> Self {
        self.on_deleted = policy;
        self
    }
}

impl<P: DeserializeOwned + Serialize + Send + 'static> ServiceDiscovery<P> {
    /// Registers an instance, and waits until the ensemble has its node. Waits for a connection if
    /// there is none.
    ///
    /// The instance stays registered, also in later sessions, until the returned guard is dropped
    /// or [unregistered](Registration::unregister). See [`registration`](crate::registration).
    ///
    /// # Errors
    /// * `Framework` with `InvalidArgument` (the name or the id cannot be the name of a node, or
    ///   the id is the name of a [receipt](zk_curator::certain::is_receipt)), `InvalidPath` (the
    ///   base path), `NotStarted` or `Closed`: nothing was sent. `Framework` with another permanent
    ///   error, such as `NoAuth`: the instance is not registered.
    /// * `Write`: the instance cannot be written as a record.
    /// * `LocalAddress`: no address of this machine was found.
    /// * `Refused`: the id is registered, and the policy is [`OnConflict::Fail`]. `Superseded`:
    ///   another process has registered the id at the same time. `Ended`: the framework was closed.
    ///
    /// # Cancel safety
    /// If the future is dropped, the instance is unregistered in the background. A static or
    /// permanent instance may have been registered, and then stays.
    ///
    /// # Panics
    /// Outside a tokio runtime, if the framework has no spawner.
    pub async fn register(
        &self,
        mut instance: ServiceInstance<P>,
    ) -> registration::Result<Registration<P>> {
        const OP: &str = "register";
        if instance.id.is_empty() {
            instance.id = self.zk.new_guid();
        }
        let path = self.paths.instance(OP, &instance.name, &instance.id)?;
        if is_receipt(&instance.id) {
            let why = "the instance id is that of a receipt, which no reader takes for an instance";
            return Err(Error::invalid_argument(OP, path.as_str(), why).into());
        }
        self.zk.check_started(OP, path.as_str())?;
        if let Some(local) = &self.local_address
            && instance.address.is_none()
        {
            instance.address = Some(local.of(&self.zk).await?.to_string());
        }
        let record = self.format.write(&instance).map_err(|why| RegistrationError::Write {
            path: path.as_str().to_owned(),
            source: Arc::new(why),
        })?;
        let registration = Registration::start(RegistrationPlan {
            zk: self.zk.clone(),
            path: path.into(),
            instance,
            record,
            format: self.format.clone(),
            on_conflict: self.on_conflict,
            on_deleted: self.on_deleted,
        });
        registration.registered().await?;
        Ok(registration)
    }
}

impl<P> Clone for ServiceDiscovery<P> {
    fn clone(&self) -> Self {
        Self {
            zk: self.zk.clone(),
            paths: self.paths.clone(),
            format: self.format.clone(),
            on_conflict: self.on_conflict,
            on_deleted: self.on_deleted,
            local_address: self.local_address.clone(),
            payload: PhantomData,
        }
    }
}

impl<P> fmt::Debug for ServiceDiscovery<P> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("ServiceDiscovery").field("paths", &self.paths).finish_non_exhaustive()
    }
}
