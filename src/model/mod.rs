//! Specifications of a service's nodes: where they are, what they contain, and how they are created
//! (`ModelSpec` and `ModeledFramework` of curator-x-async).
//!
//! ```
//! # #[tokio::main(flavor = "current_thread")] async fn main() -> Result<(), Box<dyn std::error::Error>> {
//! # let server = zk_curator_testing::TestServer::start().await;
//! # let zk = zk_curator::CuratorFramework::builder().connect_string(server.connect_string()).build()?;
//! # zk.start().await?;
//! use zk_curator::model::ModelSpec;
//!
//! zk_curator::path_template!(StockPath = "/stock/{shop}/{article}": shop: &str, article: u64);
//! const STOCK: ModelSpec<StockPath, u32> = StockPath::spec().documentation("pieces in a shop");
//!
//! let stock = zk.model(STOCK);
//! stock.at(("berlin", 7)).put(&3).await?;
//! stock.at(("berlin", 7)).modify(|pieces| pieces - 1).await?;
//! stock.at(("berlin", 12)).create(&1).await?;
//!
//! let berlin = stock.under("berlin").children().await?;
//! let found: Vec<_> = berlin.iter().map(|node| (node.path.as_str(), node.value)).collect();
//! assert_eq!(found, [("/stock/berlin/12", 1), ("/stock/berlin/7", 2)]);
//! # zk.close().await?; Ok(()) }
//! ```
//!
//! * [`path_template!`](crate::path_template) defines a template of paths, whose parameters the
//!   compiler checks. [`PathTemplate`](crate::path::PathTemplate) is for templates that are known
//!   only when the program runs.
//! * [`ModelSpec`] adds the type of the values and the options of the nodes. It prints as
//!   documentation, and returns a [schema](crate::schema) that enforces it.
//! * [`Model`] reads and writes the nodes: [`at`](Model::at) one path, or [`under`](Model::under)
//!   one parent.
//!
//! The type of a value is its codec: [`Json<T>`](crate::value) with the feature `serde`, a number,
//! a string, or any type with [`ToData`](crate::value::ToData) and
//! [`FromData`].

mod node;
mod path;
mod spec;
mod template;

use std::fmt;

pub use node::ModelNode;
use node::TemplatePath;
pub use path::{Parameters, ParentParameters, TypedPath};
#[doc(hidden)]
pub use path::{Resolved, check_pattern, resolve, resolve_parent};
pub use spec::ModelSpec;

use crate::error::Result;
use crate::framework::CuratorFramework;
use crate::op::OpFuture;
use crate::typed::{Typed, ZNode};
use crate::value::FromData;

/// The nodes of a [`ModelSpec`], on the servers of a framework. Cheap to clone.
#[must_use]
pub struct Model<P, T> {
    spec: ModelSpec<P, T>,
    typed: Typed<T>,
}

impl CuratorFramework {
    /// Returns the nodes of a specification.
    pub fn model<P: TypedPath, T>(&self, spec: ModelSpec<P, T>) -> Model<P, T> {
        let typed = spec.typed(self);
        Model { spec, typed }
    }
}

impl<P: TypedPath, T> Model<P, T> {
    /// Returns the specification.
    pub const fn spec(&self) -> &ModelSpec<P, T> {
        &self.spec
    }

    /// Returns the view of nodes at any path, with the options of the specification.
    pub const fn typed(&self) -> &Typed<T> {
        &self.typed
    }

    /// Returns the node of these parameters: a tuple, or a single value. Sends nothing. A value
    /// that cannot be the name of a node is an error of the operations.
    ///
    /// Another number of parameters does not compile:
    ///
    /// ```compile_fail,E0277
    /// zk_curator::path_template!(StockPath = "/stock/{shop}/{article}": shop: &str, article: u64);
    /// # fn main() {}
    /// # fn run(zk: zk_curator::CuratorFramework) {
    /// let node = zk.model(StockPath::spec::<u32>()).at(("berlin",));
    /// # }
    /// ```
    pub fn at(&self, parameters: impl Parameters<P>) -> ModelNode<T> {
        let place = TemplatePath { pattern: P::PATTERN, path: parameters.resolve() };
        ModelNode { typed: self.typed.clone(), place }
    }

    /// Returns the parent of nodes that differ only in the last parameter: the parameters are the
    /// others. If the template has one parameter, they are `()`.
    ///
    /// The last component of the template must be a parameter:
    ///
    /// ```compile_fail,E0080
    /// zk_curator::path_template!(StatePath = "/jobs/{id}/state": id: u64);
    /// # fn main() {
    /// #     let run: fn(&zk_curator::CuratorFramework) = run;
    /// #     drop(run);
    /// # }
    /// # fn run(zk: &zk_curator::CuratorFramework) {
    /// let parent = zk.model(StatePath::spec::<u32>()).under(());
    /// # }
    /// ```
    pub fn under(&self, parameters: impl ParentParameters<P>) -> ModelParent<T> {
        const { assert!(ends_with_parameter(P::PATTERN), "the last component is not a parameter") };
        let place = TemplatePath { pattern: P::PATTERN, path: parameters.resolve_parent() };
        ModelParent { typed: self.typed.clone(), place }
    }
}

const fn ends_with_parameter(pattern: &str) -> bool {
    let pattern = pattern.as_bytes();
    pattern[pattern.len() - 1] == b'}'
}

/// The parent of nodes of a model: see [`Model::under`].
#[must_use]
pub struct ModelParent<T> {
    typed: Typed<T>,
    place: TemplatePath,
}

impl<T> ModelParent<T> {
    /// Returns the path of the parent, within the namespace.
    ///
    /// # Errors
    /// `InvalidPath` if a parameter cannot be the name of a node.
    pub fn path(&self) -> Result<&str> {
        self.place.path("path")
    }

    /// Returns the view of nodes at any path, with the options of the specification.
    pub const fn typed(&self) -> &Typed<T> {
        &self.typed
    }
}

impl<T: FromData + Send + 'static> ModelParent<T> {
    /// Reads the nodes below the parent: see [`Typed::children`].
    pub fn children(&self) -> OpFuture<Vec<ZNode<T>>> {
        self.place.run("children_with_data", |path| self.typed.children(path))
    }
}

impl<P, T> Clone for Model<P, T> {
    fn clone(&self) -> Self {
        Self { spec: self.spec.clone(), typed: self.typed.clone() }
    }
}

impl<T> Clone for ModelParent<T> {
    fn clone(&self) -> Self {
        Self { typed: self.typed.clone(), place: self.place.clone() }
    }
}

impl<P: TypedPath, T> fmt::Debug for Model<P, T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("Model").field(&self.spec).finish()
    }
}

impl<T> fmt::Debug for ModelParent<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("ModelParent").field(&self.place).finish()
    }
}
