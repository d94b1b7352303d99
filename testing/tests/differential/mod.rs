//! Random steps, carried out at two servers and compared.

pub(crate) mod generator;
pub(crate) mod run;
