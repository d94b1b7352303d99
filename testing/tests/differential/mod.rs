//! Random steps that run on two servers, whose responses are compared.

pub(crate) mod generator;
pub(crate) mod run;
