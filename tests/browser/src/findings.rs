//! The findings of the checks of a page.

use std::fmt::{self, Display};

use serde_json::Value;

/// A violation of a rule of axe-core.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Violation {
    rule: String,
    impact: String,
    help: String,
    /// The selectors of the elements, each with the reason.
    elements: Vec<(String, String)>,
}

impl Violation {
    /// Returns the rule, for example `image-alt`.
    #[must_use]
    pub fn rule(&self) -> &str {
        &self.rule
    }

    /// Reads the violations that the script of [`Browser::axe`](crate::Browser::axe) returns.
    pub(crate) fn list(value: &Value) -> Option<Vec<Self>> {
        value.as_array()?.iter().map(Self::read).collect()
    }

    fn read(value: &Value) -> Option<Self> {
        let text = |value: &Value, name: &str| value[name].as_str().map(str::to_owned);
        let elements = value["elements"].as_array()?.iter();
        Some(Self {
            rule: text(value, "rule")?,
            impact: text(value, "impact")?,
            help: text(value, "help")?,
            elements: elements
                .map(|element| Some((text(element, "css")?, text(element, "why")?)))
                .collect::<Option<_>>()?,
        })
    }
}

impl Display for Violation {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} ({}): {}", self.rule, self.impact, self.help)?;
        for (css, why) in &self.elements {
            let why = why.split_whitespace().collect::<Vec<_>>().join(" ");
            write!(f, "\n  {css}: {why}")?;
        }
        Ok(())
    }
}

/// An entry of the console of the browser.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ConsoleEntry {
    level: String,
    source: String,
    message: String,
}

impl ConsoleEntry {
    /// Returns the message, which begins with the address of the page or of the script.
    #[must_use]
    pub fn message(&self) -> &str {
        &self.message
    }

    /// Returns `true` for an error of a script, a violation of the policy, a failed request, and a
    /// call of `console.error`.
    pub(crate) fn is_error(&self) -> bool {
        self.level == "SEVERE" || self.source == "security"
    }

    /// Reads the response to the command `se/log`.
    pub(crate) fn list(value: &Value) -> Option<Vec<Self>> {
        value.as_array()?.iter().map(Self::read).collect()
    }

    fn read(value: &Value) -> Option<Self> {
        let text = |name: &str| value[name].as_str().map(str::to_owned);
        Some(Self {
            level: text("level")?,
            // Some entries have no source.
            source: text("source").unwrap_or_default(),
            message: text("message")?,
        })
    }
}

impl Display for ConsoleEntry {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} ({}): {}", self.level, self.source, self.message)
    }
}

/// Returns the findings, each on lines of its own.
pub(crate) fn lines<T: Display>(findings: &[T]) -> String {
    findings.iter().map(T::to_string).collect::<Vec<_>>().join("\n")
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn violations_name_rule_element_and_reason() {
        let value = json!([{
            "rule": "image-alt",
            "impact": "critical",
            "help": "Images must have alternative text",
            "elements": [{"css": "main > img", "why": "Fix any of the following:\n  no alt"}],
        }]);
        let violations = Violation::list(&value).unwrap();
        assert_eq!(violations[0].rule(), "image-alt");
        assert_eq!(
            lines(&violations),
            "image-alt (critical): Images must have alternative text\n  \
             main > img: Fix any of the following: no alt"
        );
        assert_eq!(Violation::list(&json!([{"rule": 1}])), None);
        assert_eq!(Violation::list(&json!([])), Some(Vec::new()));
    }

    #[test]
    fn errors_of_the_console_are_not_its_other_entries() {
        let value = json!([
            {"level": "SEVERE", "source": "javascript", "message": "a", "timestamp": 1},
            {"level": "INFO", "source": "console-api", "message": "b", "timestamp": 2},
            {"level": "WARNING", "source": "security", "message": "c", "timestamp": 3},
            {"level": "WARNING", "message": "d", "timestamp": 4},
        ]);
        let entries = ConsoleEntry::list(&value).unwrap();
        let errors = entries.iter().filter(|entry| entry.is_error()).collect::<Vec<_>>();
        assert_eq!(errors.iter().map(|entry| entry.message()).collect::<Vec<_>>(), ["a", "c"]);
        assert_eq!(errors[0].to_string(), "SEVERE (javascript): a");
    }
}
