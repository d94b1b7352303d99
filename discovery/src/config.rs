//! The settings that all parts of a discovery share.

use std::fmt;
use std::sync::Arc;

use bytes::Bytes;
use serde::Serialize;
use zk_curator::Error;
use zk_curator::path::ZPath;

use crate::instance::ServiceInstance;
use crate::json::{JsonMode, WriteError, WrittenJson, fields, write};
use crate::payload::PayloadCodec;

/// The format of records.
#[derive(Debug, Clone, Default)]
pub(crate) struct RecordFormat {
    pub(crate) codec: PayloadCodec,
    pub(crate) mode: JsonMode,
}

impl RecordFormat {
    pub(crate) fn write<P: Serialize>(
        &self,
        instance: &ServiceInstance<P>,
    ) -> Result<Bytes, WriteError> {
        write(instance, &self.codec, self.mode)
    }

    /// Returns the fields of the record of an instance.
    pub(crate) fn fields<P: Serialize>(
        &self,
        instance: &ServiceInstance<P>,
    ) -> Result<WrittenJson, WriteError> {
        fields(instance, &self.codec, self.mode)
    }
}

type PathOf = Arc<dyn Fn(&str) -> String + Send + Sync>;

/// The paths of services.
#[derive(Clone)]
pub(crate) struct DiscoveryPaths {
    base: String,
    /// The path of a service, if it is not the child of the base with its name.
    of_service: Option<PathOf>,
}

impl DiscoveryPaths {
    pub(crate) fn new(base: String) -> Self {
        Self { base, of_service: None }
    }

    pub(crate) fn with(&mut self, of_service: impl Fn(&str) -> String + Send + Sync + 'static) {
        self.of_service = Some(Arc::new(of_service));
    }

    /// Returns the parent of the services.
    pub(crate) fn base(&self, operation: &'static str) -> Result<ZPath, Error> {
        ZPath::for_operation(operation, self.base.as_str())
    }

    /// Returns the node of a service.
    pub(crate) fn service(&self, operation: &'static str, name: &str) -> Result<ZPath, Error> {
        let base = self.base(operation)?;
        match &self.of_service {
            Some(of_service) => ZPath::for_operation(operation, of_service(name)),
            None => child(operation, &base, name, "the service name is not a valid node name"),
        }
    }

    /// Returns the node of an instance.
    pub(crate) fn instance(
        &self,
        operation: &'static str,
        name: &str,
        id: &str,
    ) -> Result<ZPath, Error> {
        let service = self.service(operation, name)?;
        child(operation, &service, id, "the instance id is not a valid node name")
    }
}

/// The path of a child; `why` it is not valid otherwise.
pub(crate) fn child(
    operation: &'static str,
    parent: &ZPath,
    name: &str,
    why: &'static str,
) -> Result<ZPath, Error> {
    let refused = |_| {
        let path = format!("{}/{name}", parent.as_str().trim_end_matches('/'));
        Error::invalid_argument(operation, path, why)
    };
    if name.contains('/') {
        return Err(refused(()));
    }
    parent.join(name).map_err(|_| refused(()))
}

impl fmt::Debug for DiscoveryPaths {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("DiscoveryPaths").field("base", &self.base).finish_non_exhaustive()
    }
}
