//! The control protocol and the scenario files of `zk-test-server`, for the programs of this
//! package. Their documentation is the page "The control protocol" of the guide.
//!
//! This is no library for other packages: Rust tests use `zk-curator-testing`, and its interface
//! may change in every release.

pub mod control;
pub mod option;
pub mod program;
pub mod scenario;
pub mod serve;
