use std::fmt;

use zk_curator_client::{Created, Stat, Version};

use crate::error::{Error, ErrorKind, Result};
use crate::op::{CheckOp, OpFuture, TransactionOp};
use crate::path::{ResolveError, ZPath};
use crate::typed::{Typed, TypedWatch, ZNode};
use crate::value::{FromData, ToData};
use crate::watch::Watched;

/// A path of a template, or the reason why it has none.
#[derive(Debug, Clone)]
pub(super) struct TemplatePath {
    pub(super) pattern: &'static str,
    pub(super) path: Result<ZPath, ResolveError>,
}

impl TemplatePath {
    /// Returns the path, or the error of an operation on it.
    pub(super) fn path(&self, operation: &'static str) -> Result<&str> {
        match &self.path {
            Ok(path) => Ok(path.as_str()),
            Err(why) => Err(Error::new(ErrorKind::InvalidPath, operation, self.pattern)
                .with_source(why.clone())),
        }
    }

    pub(super) fn run<O: Send + 'static>(
        &self,
        operation: &'static str,
        run: impl FnOnce(&str) -> OpFuture<O>,
    ) -> OpFuture<O> {
        match self.path(operation) {
            Ok(path) => run(path),
            Err(error) => OpFuture::composed(async { Err(error) }),
        }
    }

    fn op(&self, op: impl FnOnce(&str) -> TransactionOp) -> TransactionOp {
        match &self.path {
            Ok(path) => op(path.as_str()),
            Err(why) => TransactionOp::from(CheckOp::new(self.pattern))
                .refused(ErrorKind::InvalidPath, std::sync::Arc::new(why.clone())),
        }
    }
}

/// One node of a model: see [`Model::at`](super::Model::at).
///
/// **Nothing is sent until a future is awaited.** Every operation fails with `InvalidPath`, and
/// sends nothing, if a parameter cannot be the name of a node. The cause is a [`ResolveError`].
#[must_use]
pub struct ModelNode<T> {
    pub(super) typed: Typed<T>,
    pub(super) place: TemplatePath,
}

impl<T> ModelNode<T> {
    /// Returns the path, within the namespace.
    ///
    /// # Errors
    /// `InvalidPath` if a parameter cannot be the name of a node.
    pub fn path(&self) -> Result<&str> {
        self.place.path("path")
    }

    /// Deletes the node at any version. **Awaiting returns** `()`. Fails with `NoNode`, `NotEmpty`,
    /// and after an unknown outcome with [`may_have_applied`](Error::may_have_applied).
    pub fn delete(&self) -> OpFuture<()> {
        self.delete_if(Version::Any)
    }

    /// Deletes the node if it has this version. **Awaiting returns** `()`. Fails with `NoNode`,
    /// `BadVersion`, `NotEmpty`.
    pub fn delete_if(&self, version: impl Into<Version>) -> OpFuture<()> {
        let zk = self.typed.framework();
        self.place.run("delete", |path| zk.delete(path).version(version).into_future())
    }

    /// Checks if the node exists. **Awaiting returns** its stat, or `None`.
    pub fn exists(&self) -> OpFuture<Option<Stat>> {
        let zk = self.typed.framework();
        self.place.run("exists", |path| zk.exists(path).into_future())
    }

    /// Deletes the node in a transaction: at this version, or any.
    pub fn delete_op(&self, version: impl Into<Version>) -> TransactionOp {
        self.place.op(|path| self.typed.delete_op(path).version(version).into())
    }

    /// Checks in a transaction that the node exists: at this version, or any.
    pub fn check_op(&self, version: impl Into<Version>) -> TransactionOp {
        self.place.op(|path| self.typed.check_op(path).version(version).into())
    }
}

impl<T: FromData + Send + 'static> ModelNode<T> {
    /// Reads the node: see [`Typed::get`].
    pub fn get(&self) -> OpFuture<ZNode<T>> {
        self.place.run("get_data", |path| self.typed.get(path))
    }

    /// Reads the node, which may not exist: see [`Typed::find`].
    pub fn find(&self) -> OpFuture<Option<ZNode<T>>> {
        self.place.run("get_data", |path| self.typed.find(path))
    }

    /// Reads the node and watches it: see [`Typed::watched`].
    pub fn watched(&self) -> OpFuture<Watched<ZNode<T>>> {
        self.place.run("get_data", |path| self.typed.watched(path))
    }

    /// Follows the value of the node: see [`Typed::watch`].
    pub fn watch(&self) -> TypedWatch<T> {
        match self.place.path("watch_data") {
            Ok(path) => self.typed.watch(path),
            Err(error) => self.typed.watch_refused(error),
        }
    }
}

impl<T: ToData + Send + 'static> ModelNode<T> {
    /// Creates the node: see [`Typed::create`].
    pub fn create(&self, value: &T) -> OpFuture<Created> {
        self.place.run("create", |path| self.typed.create(path, value))
    }

    /// Creates the node, or replaces its value unconditionally: see [`Typed::put`].
    pub fn put(&self, value: &T) -> OpFuture<Stat> {
        self.place.run("typed_put", |path| self.typed.put(path, value))
    }

    /// Replaces the value if the node has this version: see [`Typed::replace`].
    pub fn replace(&self, value: &T, version: impl Into<Version>) -> OpFuture<Stat> {
        self.place.run("typed_replace", |path| self.typed.replace(path, value, version))
    }

    /// Creates the node in a transaction: see [`Typed::create_op`].
    pub fn create_op(&self, value: &T) -> TransactionOp {
        self.place.op(|path| self.typed.create_op(path, value))
    }

    /// Replaces the value unconditionally in a transaction: see [`Typed::put_op`].
    pub fn put_op(&self, value: &T) -> TransactionOp {
        self.place.op(|path| self.typed.put_op(path, value))
    }

    /// Replaces the value in a transaction if the node has this version: see [`Typed::replace_op`].
    pub fn replace_op(&self, value: &T, version: impl Into<Version>) -> TransactionOp {
        self.place.op(|path| self.typed.replace_op(path, value, version))
    }
}

impl<T: FromData + ToData + Send + 'static> ModelNode<T> {
    /// Replaces the value by the result of `change`: see [`Typed::modify`].
    pub fn modify(&self, change: impl FnMut(T) -> T + Send + 'static) -> OpFuture<ZNode<T>> {
        self.place.run("typed_modify", |path| self.typed.modify(path, change))
    }
}

impl<T> Clone for ModelNode<T> {
    fn clone(&self) -> Self {
        Self { typed: self.typed.clone(), place: self.place.clone() }
    }
}

impl<T> fmt::Debug for ModelNode<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("ModelNode").field(&self.place).finish()
    }
}
