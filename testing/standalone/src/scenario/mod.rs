//! Scenario files: rules and steps in TOML.

mod file;
mod run;

pub use file::Scenario;
pub use run::ScenarioError;
