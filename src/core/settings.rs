use std::fmt;
use std::sync::Arc;

use bytes::Bytes;
use zk_curator_client::{Acl, SessionCredentials, Spawn};

use crate::acl::AclProvider;
use crate::compression::Compression;
use crate::ensemble::EnsembleServer;
use crate::raw::{RawClientFactory, SessionSettings};
use crate::retry::RetryPolicy;
use crate::schema::SchemaSet;
use crate::state::ConnectionStateErrorPolicy;

/// Returns the address of a member of the ensemble.
pub(crate) type AddressOfMember = Arc<dyn Fn(&EnsembleServer) -> Option<String> + Send + Sync>;

#[derive(Clone)]
pub(crate) struct Settings {
    pub(crate) session: SessionSettings,
    pub(crate) retry: Arc<dyn RetryPolicy>,
    pub(crate) auth: Vec<(String, Bytes)>,
    pub(crate) factory: Arc<dyn RawClientFactory>,
    pub(crate) compression: Compression,
    pub(crate) schemas: Arc<SchemaSet>,
    pub(crate) acl_provider: Arc<dyn AclProvider>,
    pub(crate) default_data: Bytes,
    pub(crate) error_policy: ConnectionStateErrorPolicy,
    pub(crate) ensemble_tracker: bool,
    pub(crate) ensemble_addresses: Option<AddressOfMember>,
    /// The ACL for the creation of the chroot, if requested.
    pub(crate) create_chroot: Option<Vec<Acl>>,
    pub(crate) name: Option<String>,
    pub(crate) circuit_breaker: Option<Arc<dyn RetryPolicy>>,
    pub(crate) spawner: Option<Arc<dyn Spawn>>,
    pub(crate) seed: Option<u64>,
    /// The session to resume, in place of a new first one.
    pub(crate) resume: Option<SessionCredentials>,
}

impl fmt::Debug for Settings {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Settings")
            .field("session", &self.session)
            .field("retry", &self.retry)
            .field("auth", &self.auth.iter().map(|(scheme, _)| scheme).collect::<Vec<_>>())
            .field("factory", &self.factory)
            .field("compression", &self.compression)
            .finish_non_exhaustive()
    }
}
