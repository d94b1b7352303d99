//! A row of the catalogue.

use std::any::Any;

use futures_util::future::LocalBoxFuture;

use super::failure::Failure;
use super::stage::Stage;

/// A public call.
#[non_exhaustive]
#[derive(Debug, Clone, Copy)]
pub struct Row {
    /// The area, the type and the method, then a comma and the case, if there are several.
    pub name: &'static str,
    /// The set-up, whose output is the call.
    pub set_up: fn(Stage) -> LocalBoxFuture<'static, Result<Call, Failure>>,
}

/// A call that was set up. Its output keeps the nodes that a user would keep, such as a guard.
pub type Call = LocalBoxFuture<'static, Result<Box<dyn Any>, Failure>>;
/// Lists rows: a name, the statements of the set-up, and the call.
macro_rules! list {
    ($($name:literal: |$stage:ident| { $($set_up:tt)* } => $call:expr;)*) => {
        pub(super) const ROWS: &[super::row::Row] = &[$(super::row::Row {
            name: $name,
            set_up: |$stage| Box::pin(async move {
                $($set_up)*
                let call: super::row::Call = Box::pin(async move {
                    let kept: Box<dyn std::any::Any> = Box::new($call);
                    Ok(kept)
                });
                Ok(call)
            }),
        }),*];
    };
}
pub(super) use list;

impl Row {
    /// The public call without the case.
    pub fn call(&self) -> &'static str {
        self.name.split(',').next().unwrap()
    }

    /// The name of the area.
    pub fn area(&self) -> &'static str {
        self.name.split(':').next().unwrap()
    }

    /// The name of the method.
    pub fn method(&self) -> &'static str {
        self.call().rsplit(':').next().unwrap()
    }
}
