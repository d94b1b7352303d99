//! placeholder
pub mod real;
