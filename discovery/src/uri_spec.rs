//! Templates of URIs.

use serde::{Deserialize, Serialize};

/// The template of a URI (`org.apache.curator.x.discovery.UriSpec`).
///
/// Variables are in braces; spaces around their names are ignored. `{[}` and `{]}` stand for the
/// braces themselves. A variable without a value becomes empty text.
///
/// | variable | value |
/// |---|---|
/// | `scheme` | `https` if the instance has a TLS port, else `http` |
/// | `name`, `id`, `address`, `port`, `ssl-port` | the field |
/// | `registration-time-utc` | milliseconds since 1970 |
/// | `service-type` | the kind in lower case: `dynamic` |
///
/// ```
/// use zk_curator_discovery::ServiceInstance;
///
/// let orders = ServiceInstance::builder("orders").address("10.0.0.1").port(8040);
/// let orders = orders.uri_spec("{scheme}://{ address }:{port}/{[}x{]}").build()?;
/// assert_eq!(orders.uri().unwrap(), "http://10.0.0.1:8040/{x}");
/// # Ok::<(), zk_curator_discovery::UriSpecError>(())
/// ```
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
pub struct UriSpec {
    #[serde(default)]
    parts: Vec<UriPart>,
}

/// A part of a [`UriSpec`].
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[non_exhaustive]
pub struct UriPart {
    /// The text, or the name of the variable.
    pub value: String,
    /// `true` if it is a variable.
    #[serde(default)]
    pub variable: bool,
}

/// The reason why a template is malformed.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum UriSpecError {
    /// An opening brace within a variable.
    #[error("an opening brace within a variable, at byte {0}")]
    Nested(usize),
    /// A closing brace without an opening one.
    #[error("a closing brace without an opening one, at byte {0}")]
    Unopened(usize),
    /// The last variable is not closed.
    #[error("the last variable is not closed")]
    Unclosed,
}

impl UriSpec {
    /// Parses a template.
    ///
    /// # Errors
    /// Fails if its braces do not match.
    pub fn parse(template: &str) -> Result<Self, UriSpecError> {
        let mut parts = Vec::new();
        let (mut start, mut inside) = (0, false);
        let mut push = |text: &str, variable: bool| {
            if !text.is_empty() {
                let value = if variable { text.trim() } else { text }.to_owned();
                parts.push(UriPart { value, variable });
            }
        };
        for (at, brace) in template.match_indices(['{', '}']) {
            match (brace, inside) {
                ("{", true) => return Err(UriSpecError::Nested(at)),
                ("}", false) => return Err(UriSpecError::Unopened(at)),
                _ => {}
            }
            push(&template[start..at], inside);
            (start, inside) = (at + 1, brace == "{");
        }
        if inside {
            return Err(UriSpecError::Unclosed);
        }
        push(&template[start..], false);
        Ok(Self { parts })
    }

    pub(crate) const fn of(parts: Vec<UriPart>) -> Self {
        Self { parts }
    }

    /// Returns the parts, in order.
    #[must_use]
    pub fn parts(&self) -> &[UriPart] {
        &self.parts
    }

    /// Returns the URI. `value` returns the value of a variable; `None` becomes empty text.
    #[must_use]
    pub fn build(&self, value: impl Fn(&str) -> Option<String>) -> String {
        let mut uri = String::new();
        for part in &self.parts {
            match (part.variable, &*part.value) {
                (false, text) => uri.push_str(text),
                (true, "[") => uri.push('{'),
                (true, "]") => uri.push('}'),
                (true, name) => uri.push_str(&value(name).unwrap_or_default()),
            }
        }
        uri
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn unmatched_braces_are_refused() {
        assert_eq!(UriSpec::parse("a{b{c}"), Err(UriSpecError::Nested(3)));
        assert_eq!(UriSpec::parse("a}b"), Err(UriSpecError::Unopened(1)));
        assert_eq!(UriSpec::parse("a{b"), Err(UriSpecError::Unclosed));
        assert_eq!(UriSpec::parse("{}").unwrap().parts(), []);
        assert_eq!(UriSpec::parse("").unwrap().parts(), []);
    }
}
