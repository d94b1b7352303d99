use std::fmt;
use std::marker::PhantomData;
use std::time::Duration;

use bytes::Bytes;
use zk_curator_client::{Acl, CreateMode};

use super::path::TypedPath;
use crate::framework::CuratorFramework;
use crate::op::{compression_settings, node_settings};
use crate::schema::{Allowance, Schema, Validator};
use crate::typed::Typed;
use crate::value::FromData;

/// The specification of nodes: their paths `P`, their values `T`, which the type encodes and
/// decodes, and the options of their creation (`org.apache.curator.x.async.modeled.ModelSpec`).
///
/// It is a value, and may be a constant unless it has an ACL:
///
/// ```
/// use zk_curator::CreateMode;
/// use zk_curator::model::ModelSpec;
///
/// zk_curator::path_template!(LimitPath = "/limits/{service}": service: &str);
///
/// const LIMITS: ModelSpec<LimitPath, u32> = LimitPath::spec()
///     .documentation("the number of jobs that a service may run")
///     .mode(CreateMode::Persistent);
///
/// # fn main() {
/// assert_eq!(
///     LIMITS.to_string(),
///     "Path: /limits/{service}\n\
///      Doc: the number of jobs that a service may run\n\
///      Value: u32\n\
///      Mode: Persistent\n\
///      TTL: none\n\
///      ACL: the default of the framework\n\
///      Compressed: as the framework does\n"
/// );
/// # }
/// ```
#[must_use]
pub struct ModelSpec<P, T> {
    documentation: &'static str,
    mode: CreateMode,
    ttl: Option<Duration>,
    acl: Option<Vec<Acl>>,
    compressed: Option<bool>,
    types: PhantomData<fn(P, T) -> T>,
}

impl<P, T> ModelSpec<P, T> {
    /// Begins a specification of persistent nodes: the same as `P::spec()`.
    #[expect(clippy::new_without_default, reason = "the function of the template is the way")]
    pub const fn new() -> Self {
        Self {
            documentation: "",
            mode: CreateMode::Persistent,
            ttl: None,
            acl: None,
            compressed: None,
            types: PhantomData,
        }
    }

    /// Sets a description for people. Default: empty.
    pub const fn documentation(mut self, text: &'static str) -> Self {
        self.documentation = text;
        self
    }

    node_settings!();

    compression_settings!();

    /// Returns the view of nodes with these options.
    pub(super) fn typed(&self, zk: &CuratorFramework) -> Typed<T> {
        let zk = match self.compressed {
            Some(true) => zk.compressed(),
            Some(false) => zk.uncompressed(),
            None => zk.clone(),
        };
        let mut typed = zk.typed().mode(self.mode);
        if let Some(ttl) = self.ttl {
            typed = typed.ttl(ttl);
        }
        match &self.acl {
            Some(acl) => typed.acl(acl.clone()),
            None => typed,
        }
    }
}

impl<P: TypedPath, T: FromData + 'static> ModelSpec<P, T> {
    /// Returns a [schema](crate::schema) of these nodes, with the template as its name: it allows
    /// only data that are a value of the type, nodes that are ephemeral and sequential as the
    /// specification says, and the ACL of the specification, if it has one.
    pub fn schema(&self) -> Schema {
        let only = |is| if is { Allowance::Must } else { Allowance::Cannot };
        Schema::template(P::PATTERN, P::template())
            .documentation(self.documentation)
            .ephemeral(only(self.mode.is_ephemeral()))
            .sequential(only(self.mode.is_sequential()))
            .validator(Conforms { acl: self.acl.clone(), value: PhantomData::<fn() -> T> })
    }
}

/// Accepts values of a type, with the ACL of a specification.
struct Conforms<T> {
    acl: Option<Vec<Acl>>,
    value: PhantomData<fn() -> T>,
}

impl<T: FromData + 'static> Validator for Conforms<T> {
    fn is_valid(&self, _schema: &Schema, _path: &str, data: Option<&[u8]>, acl: &[Acl]) -> bool {
        let is_value = |data: &[u8]| T::from_data(&Bytes::copy_from_slice(data)).is_ok();
        let has_acl = |expected: &Vec<Acl>| acl.is_empty() || expected == acl;
        data.is_none_or(is_value) && self.acl.as_ref().is_none_or(has_acl)
    }
}

impl<P, T> Clone for ModelSpec<P, T> {
    fn clone(&self) -> Self {
        Self { acl: self.acl.clone(), ..*self }
    }
}

impl<P: TypedPath, T> fmt::Debug for ModelSpec<P, T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("ModelSpec")
            .field("path", &P::PATTERN)
            .field("mode", &self.mode)
            .finish_non_exhaustive()
    }
}

/// Formats the specification for people, like Curator's `toDocumentation`.
impl<P: TypedPath, T> fmt::Display for ModelSpec<P, T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        writeln!(f, "Path: {}\nDoc: {}", P::PATTERN, self.documentation)?;
        writeln!(f, "Value: {}\nMode: {:?}", std::any::type_name::<T>(), self.mode)?;
        match self.ttl {
            Some(ttl) => writeln!(f, "TTL: {ttl:?}")?,
            None => writeln!(f, "TTL: none")?,
        }
        match &self.acl {
            Some(acl) => writeln!(f, "ACL: {acl:?}")?,
            None => writeln!(f, "ACL: the default of the framework")?,
        }
        let compressed = match self.compressed {
            Some(true) => "yes",
            Some(false) => "no",
            None => "as the framework does",
        };
        writeln!(f, "Compressed: {compressed}")
    }
}
