//! [`Scenario`]: the content of a file.

use std::fs;
use std::path::Path;
use std::time::Duration;

use serde::Deserialize;
use serde_json::{Map, Value};

use crate::control::rule::RuleSpec;
use crate::control::value::Millis;
use crate::control::{Call, Condition, VERSION};

/// The default limit of a step's wait.
const TIMEOUT: Duration = Duration::from_secs(60);

/// Rules and steps.
#[derive(Debug, PartialEq)]
pub struct Scenario {
    pub(super) rules: Vec<RuleSpec>,
    pub(super) steps: Vec<Step>,
}

/// A step: waits for `until`, then for `after`, and then executes `call`.
#[derive(Debug, PartialEq)]
pub(super) struct Step {
    pub(super) until: Option<Condition>,
    /// The limit of the wait for `until`.
    pub(super) timeout: Duration,
    pub(super) after: Duration,
    pub(super) call: Option<Call>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct File {
    version: i64,
    #[serde(default, rename = "rule")]
    rules: Vec<RuleSpec>,
    #[serde(default, rename = "step")]
    steps: Vec<Map<String, Value>>,
}

impl Scenario {
    /// Reads a file, and checks it.
    ///
    /// # Errors
    /// A text that describes the error, with the file.
    pub fn load(file: &Path) -> Result<Self, String> {
        let text = fs::read_to_string(file)
            .map_err(|error| format!("cannot read the scenario {}: {error}", file.display()))?;
        Self::parse(&text).map_err(|error| format!("the scenario {}: {error}", file.display()))
    }

    /// Reads the text of a file.
    fn parse(text: &str) -> Result<Self, String> {
        let File { version, rules, steps } =
            toml::from_str(text).map_err(|error| error.to_string().trim().replace('\n', "; "))?;
        if version != VERSION {
            return Err(format!("version {version} is not supported, only {VERSION}"));
        }
        let steps = steps.into_iter().zip(1..).map(|(fields, number)| {
            Step::parse(fields).map_err(|error| format!("step {number}: {error}"))
        });
        Ok(Self { rules, steps: steps.collect::<Result<_, _>>()? })
    }
}

impl Step {
    fn parse(mut fields: Map<String, Value>) -> Result<Self, String> {
        let until: Option<Condition> = field(&mut fields, "until")?;
        let timeout: Option<Millis> = field(&mut fields, "timeout_ms")?;
        let after: Option<Millis> = field(&mut fields, "after_ms")?;
        if timeout.is_some() && until.is_none() {
            return Err("`timeout_ms` is for `until`".to_owned());
        }
        let call = match fields.get("call") {
            None if fields.is_empty() => None,
            None => {
                let names: Vec<_> = fields.keys().map(String::as_str).collect();
                return Err(format!("a step without a call has no parameter {}", names.join(", ")));
            }
            Some(Value::String(name)) if matches!(name.as_str(), "hello" | "until") => {
                return Err(format!("a step cannot call {name}"));
            }
            Some(_) => Some(Call::parse(fields)?),
        };
        if until.is_none() && after.is_none() && call.is_none() {
            return Err("a step needs `until`, `after_ms` or `call`".to_owned());
        }
        Ok(Self {
            until,
            timeout: timeout.map_or(TIMEOUT, Millis::get),
            after: after.map_or(Duration::ZERO, Millis::get),
            call,
        })
    }
}

/// Takes an optional field.
fn field<T: for<'de> Deserialize<'de>>(
    fields: &mut Map<String, Value>,
    name: &str,
) -> Result<Option<T>, String> {
    let value = fields.remove(name).map(serde_json::from_value).transpose();
    value.map_err(|error| format!("{name}: {error}"))
}
