//! Rules about the nodes of a service, checked before anything is sent
//! (`org.apache.curator.framework.schema`).
//!
//! A [`Schema`] says which nodes it applies to and which operations on them are allowed: their
//! kind, their data, if they may be deleted, if reads must leave a watch. The
//! [builder](crate::CuratorFrameworkBuilder::schema_set) takes a [`SchemaSet`], which is asked
//! about every create, write, delete and read of the framework, including those of recipes and
//! transactions. A forbidden operation fails with `SchemaViolation`, whose source is a
//! [`SchemaViolation`]. Created parents, and deletes of the janitor, are not checked, as in
//! Curator.
//!
//! Paths are those passed to operations: within the namespace, without the number of a sequential
//! node and without the prefix of a protected one. Validators get uncompressed data (in Curator:
//! compressed data).
//!
//! ```
//! # #[tokio::main(flavor = "current_thread")] async fn main() -> Result<(), Box<dyn std::error::Error>> {
//! # let server = zk_curator_testing::TestServer::start().await;
//! # let connect_string = server.connect_string();
//! use zk_curator::schema::{Allowance, Schema, SchemaSet};
//! use zk_curator::{CuratorFramework, ErrorKind};
//!
//! let schemas = SchemaSet::new([
//!     Schema::exact("limit", "/config/limit")
//!         .documentation("how many jobs may run, a decimal number")
//!         .ephemeral(Allowance::Cannot)
//!         .deletable(false)
//!         .validator(|data: &[u8]| str::from_utf8(data).is_ok_and(|text| text.parse::<u32>().is_ok())),
//!     Schema::for_recipe("lock", "/locks/orders"),
//! ])?;
//! let zk = CuratorFramework::builder().connect_string(connect_string).schema_set(schemas).build()?;
//! zk.start().await?;
//!
//! zk.create("/config/limit").data("10").creating_parents().await?;
//! let error = zk.set_data("/config/limit", "many").await.unwrap_err();
//! assert_eq!(error.kind(), ErrorKind::SchemaViolation);
//! # zk.close().await?; Ok(()) }
//! ```
//!
//! The feature `schema` adds patterns by regular expression and the loader of Curator's JSON.

#[cfg(feature = "schema")]
mod json;
mod rules;

use std::collections::{BTreeMap, HashMap};
use std::fmt;
use std::sync::Arc;

#[cfg(feature = "schema")]
pub use json::LoadError;
pub(crate) use rules::Intent;
pub use rules::{Rule, SchemaViolation};
use zk_curator_client::Acl;
use zk_curator_client::path::{PathError, validate};

use crate::path::PathTemplate;

/// The permission for a property of a node or a read.
#[expect(clippy::exhaustive_enums, reason = "there is no fourth")]
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Allowance {
    /// The property is allowed.
    #[default]
    Can,
    /// The property is required.
    Must,
    /// The property is forbidden.
    Cannot,
}

impl Allowance {
    const fn admits(self, is: bool) -> bool {
        match self {
            Self::Can => true,
            Self::Must => is,
            Self::Cannot => !is,
        }
    }
}

impl fmt::Display for Allowance {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Can => "can",
            Self::Must => "must",
            Self::Cannot => "cannot",
        })
    }
}

/// Decides if data may be written. Closures on the data alone are validators too.
pub trait Validator: Send + Sync + 'static {
    /// Returns `true` if the data and the ACL may be written to `path`. `data` is `None` if only
    /// the ACL is replaced, and `acl` is empty if only the data are.
    fn is_valid(&self, schema: &Schema, path: &str, data: Option<&[u8]>, acl: &[Acl]) -> bool;
}

impl<F: Fn(&[u8]) -> bool + Send + Sync + 'static> Validator for F {
    fn is_valid(&self, _schema: &Schema, _path: &str, data: Option<&[u8]>, _acl: &[Acl]) -> bool {
        data.is_none_or(self)
    }
}

/// A rule for some nodes: the nodes that it applies to, and the allowed operations.
///
/// By default it allows everything.
#[derive(Clone)]
#[must_use]
pub struct Schema {
    name: String,
    pattern: Pattern,
    documentation: String,
    validator: Option<Arc<dyn Validator>>,
    ephemeral: Allowance,
    sequential: Allowance,
    watched: Allowance,
    deletable: bool,
    metadata: BTreeMap<String, String>,
}

#[derive(Debug, Clone)]
enum Pattern {
    Exact(String),
    Below(String),
    Template(PathTemplate),
    #[cfg(feature = "schema")]
    Regex(regex::Regex),
}

impl Pattern {
    const fn path(&self) -> Option<&String> {
        match self {
            Self::Exact(path) | Self::Below(path) => Some(path),
            Self::Template(_) => None,
            #[cfg(feature = "schema")]
            Self::Regex(_) => None,
        }
    }
}

impl Schema {
    /// Creates a schema for one node. A slash at the end of the path is ignored.
    pub fn exact(name: impl Into<String>, path: impl Into<String>) -> Self {
        Self::new(name.into(), Pattern::Exact(without_slash(path)))
    }

    /// Creates a schema for all descendants of a node, at any depth.
    pub fn below(name: impl Into<String>, path: impl Into<String>) -> Self {
        Self::new(name.into(), Pattern::Below(without_slash(path)))
    }

    /// Creates a schema for the nodes with the paths of a template, whatever the parameters are.
    pub fn template(name: impl Into<String>, template: PathTemplate) -> Self {
        Self::new(name.into(), Pattern::Template(template))
    }

    /// Creates a schema for all nodes whose whole path matches a regular expression.
    ///
    /// # Errors
    /// The error of the crate `regex` if the expression is invalid. It does not support Java's
    /// lookaround and backreferences.
    #[cfg(feature = "schema")]
    pub fn matching(
        name: impl Into<String>,
        pattern: impl Into<String>,
    ) -> Result<Self, regex::Error> {
        let pattern = pattern.into();
        let whole = regex::Regex::new(&format!(r"\A(?:{pattern})\z"))?;
        Ok(Self::new(name.into(), Pattern::Regex(whole)))
    }

    /// Creates a schema for the node that is passed to a recipe: neither ephemeral nor sequential
    /// (`Schema.builderForRecipeParent`).
    pub fn for_recipe_parent(name: impl Into<String>, path: impl Into<String>) -> Self {
        Self::exact(name, path).ephemeral(Allowance::Cannot).sequential(Allowance::Cannot)
    }

    /// Creates a schema for the nodes that locks and elections create below their node: ephemeral
    /// and sequential (`Schema.builderForRecipe`). Curator's schema also requires watches, which
    /// would forbid its own reads of them.
    pub fn for_recipe(name: impl Into<String>, path: impl Into<String>) -> Self {
        Self::below(name, path).ephemeral(Allowance::Must).sequential(Allowance::Must)
    }

    const fn new(name: String, pattern: Pattern) -> Self {
        Self {
            name,
            pattern,
            documentation: String::new(),
            validator: None,
            ephemeral: Allowance::Can,
            sequential: Allowance::Can,
            watched: Allowance::Can,
            deletable: true,
            metadata: BTreeMap::new(),
        }
    }

    /// Sets a description for people. Default: empty.
    pub fn documentation(mut self, text: impl Into<String>) -> Self {
        self.documentation = text.into();
        self
    }

    /// Sets a validator of the data and the ACL. Default: everything is valid.
    pub fn validator(self, validator: impl Validator) -> Self {
        self.shared_validator(Arc::new(validator))
    }

    /// Sets a validator that several schemas share.
    pub fn shared_validator(mut self, validator: Arc<dyn Validator>) -> Self {
        self.validator = Some(validator);
        self
    }

    /// Sets if the nodes may, must or cannot be ephemeral. Default: [`Allowance::Can`].
    pub const fn ephemeral(mut self, allowance: Allowance) -> Self {
        self.ephemeral = allowance;
        self
    }

    /// Sets if the nodes may, must or cannot be sequential. Default: [`Allowance::Can`].
    pub const fn sequential(mut self, allowance: Allowance) -> Self {
        self.sequential = allowance;
        self
    }

    /// Sets if reads may, must or cannot leave a watch. Default: [`Allowance::Can`].
    pub const fn watched(mut self, allowance: Allowance) -> Self {
        self.watched = allowance;
        self
    }

    /// Sets if the nodes may be deleted. Default: `true`.
    pub const fn deletable(mut self, deletable: bool) -> Self {
        self.deletable = deletable;
        self
    }

    /// Adds a key and a value of the service's own. Default: none.
    pub fn metadata(mut self, key: impl Into<String>, value: impl Into<String>) -> Self {
        self.metadata.insert(key.into(), value.into());
        self
    }

    /// Returns the name, which is unique in its set.
    #[must_use]
    pub fn name(&self) -> &str {
        &self.name
    }

    /// Returns the path, `/path/**` for the nodes [below](Self::below) it, the template, or the
    /// regular expression.
    #[must_use]
    pub fn raw_path(&self) -> String {
        match &self.pattern {
            Pattern::Exact(path) => path.clone(),
            Pattern::Below(path) => format!("{}/**", path.trim_end_matches('/')),
            Pattern::Template(template) => template.to_string(),
            #[cfg(feature = "schema")]
            Pattern::Regex(whole) => {
                let pattern = whole.as_str();
                pattern
                    .strip_prefix(r"\A(?:")
                    .and_then(|p| p.strip_suffix(r")\z"))
                    .unwrap_or(pattern)
                    .to_owned()
            }
        }
    }

    /// Returns the metadata that the service has added.
    #[must_use]
    pub const fn get_metadata(&self) -> &BTreeMap<String, String> {
        &self.metadata
    }

    fn is_about(&self, path: &str) -> bool {
        match &self.pattern {
            Pattern::Exact(exact) => exact == path,
            Pattern::Below(parent) => {
                let below = path.strip_prefix(parent.trim_end_matches('/'));
                below.is_some_and(|rest| rest.len() > 1 && rest.starts_with('/'))
            }
            Pattern::Template(template) => template.matches(path).is_some(),
            #[cfg(feature = "schema")]
            Pattern::Regex(whole) => whole.is_match(path),
        }
    }
}

fn without_slash(path: impl Into<String>) -> String {
    let mut path = path.into();
    if path.len() > 1 && path.ends_with('/') {
        path.pop();
    }
    path
}

impl fmt::Debug for Schema {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Schema")
            .field("name", &self.name)
            .field("pattern", &self.pattern)
            .finish_non_exhaustive()
    }
}

/// Formats the schema for people, like Curator's `toDocumentation`.
impl fmt::Display for Schema {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        writeln!(f, "Name: {}\nPath: {}\nDoc: {}", self.name, self.raw_path(), self.documentation)?;
        let validated = if self.validator.is_some() { "yes" } else { "no" };
        writeln!(f, "Validated: {validated}\nMeta: {:?}", self.metadata)?;
        let (ephemeral, sequential, watched) = (self.ephemeral, self.sequential, self.watched);
        writeln!(
            f,
            "ephemeral: {ephemeral} | sequential: {sequential} | watched: {watched} | can be deleted: {}",
            self.deletable
        )
    }
}

/// The schemas of a framework. The empty set allows everything.
///
/// A path belongs to the [exact](Schema::exact) schema for it, or else to the first other schema
/// that applies to it.
#[derive(Debug, Clone, Default)]
pub struct SchemaSet {
    schemas: Vec<Schema>,
    exact: HashMap<String, usize>,
    /// `true` if paths without a schema are forbidden.
    closed: bool,
}

/// An error of forming a set of schemas.
#[non_exhaustive]
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum SchemaSetError {
    /// Two schemas have the same name.
    DuplicateName(String),
    /// Two exact schemas have the same path.
    DuplicatePath(String),
    /// A path is invalid.
    InvalidPath {
        /// The name of the schema.
        schema: String,
        /// The reason.
        why: PathError,
    },
}

impl SchemaSet {
    /// Creates a set that allows everything on paths without a schema.
    ///
    /// # Errors
    /// * [`SchemaSetError::DuplicateName`] if two schemas have the same name.
    /// * [`SchemaSetError::DuplicatePath`] if two exact schemas have the same path.
    /// * [`SchemaSetError::InvalidPath`] if a path is invalid.
    pub fn new(schemas: impl IntoIterator<Item = Schema>) -> Result<Self, SchemaSetError> {
        let mut set = Self { schemas: schemas.into_iter().collect(), ..Self::default() };
        let mut names = HashMap::new();
        for (index, schema) in set.schemas.iter().enumerate() {
            if names.insert(&schema.name, index).is_some() {
                return Err(SchemaSetError::DuplicateName(schema.name.clone()));
            }
            if let Some(path) = schema.pattern.path() {
                validate(path).map_err(|why| SchemaSetError::InvalidPath {
                    schema: schema.name.clone(),
                    why,
                })?;
            }
            if let Pattern::Exact(path) = &schema.pattern
                && set.exact.insert(path.clone(), index).is_some()
            {
                return Err(SchemaSetError::DuplicatePath(path.clone()));
            }
        }
        Ok(set)
    }

    /// Forbids everything on paths without a schema (`useDefaultSchema = false`).
    #[must_use]
    pub const fn closed(mut self) -> Self {
        self.closed = true;
        self
    }

    /// Returns the schema of a path.
    #[must_use]
    pub fn schema_of(&self, path: &str) -> Option<&Schema> {
        match self.exact.get(path) {
            Some(index) => self.schemas.get(*index),
            None => self.schemas.iter().find(|schema| schema.is_about(path)),
        }
    }

    /// Returns the schema with this name.
    #[must_use]
    pub fn named(&self, name: &str) -> Option<&Schema> {
        self.schemas.iter().find(|schema| schema.name == name)
    }

    /// Returns all schemas, in their order.
    pub fn iter(&self) -> impl Iterator<Item = &Schema> {
        self.schemas.iter()
    }
}

impl fmt::Display for SchemaSet {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.schemas.iter().try_for_each(|schema| writeln!(f, "{schema}"))
    }
}

impl fmt::Display for SchemaSetError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::DuplicateName(name) => write!(f, "two schemas have the name {name:?}"),
            Self::DuplicatePath(path) => write!(f, "two schemas are about {path:?}"),
            Self::InvalidPath { schema, .. } => {
                write!(f, "the path of the schema {schema:?} is not valid")
            }
        }
    }
}

impl std::error::Error for SchemaSetError {
    fn source(&self) -> Option<&(dyn std::error::Error + 'static)> {
        match self {
            Self::InvalidPath { why, .. } => Some(why),
            _ => None,
        }
    }
}
