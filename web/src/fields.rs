//! The fields of queries and forms.

use std::str::FromStr;

use crate::paths::{decode, encode};

/// The maximum number of fields.
const MOST: usize = 64;

/// The reason why fields cannot be read.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub(crate) enum FieldsError {
    /// A field is not valid UTF-8 in percent encoding.
    #[error("a field is not valid UTF-8 in percent encoding")]
    Encoding,
    /// There are too many fields.
    #[error("there are more than {MOST} fields")]
    TooMany,
}

/// The fields of a query or a form (`application/x-www-form-urlencoded`), in their order.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(crate) struct Fields(Vec<(String, String)>);

impl Fields {
    pub(crate) fn parse(text: &[u8]) -> Result<Self, FieldsError> {
        let mut fields = Vec::new();
        for field in text.split(|byte| *byte == b'&').filter(|field| !field.is_empty()) {
            if fields.len() == MOST {
                return Err(FieldsError::TooMany);
            }
            let end = field.iter().position(|byte| *byte == b'=').unwrap_or(field.len());
            let (name, value) = (&field[..end], field.get(end + 1..).unwrap_or_default());
            let part = |part| decode(part, true).map_err(|_| FieldsError::Encoding);
            fields.push((part(name)?, part(value)?));
        }
        Ok(Self(fields))
    }

    /// Adds a field.
    pub(crate) fn push(&mut self, name: String, value: String) -> Result<(), FieldsError> {
        if self.0.len() == MOST {
            return Err(FieldsError::TooMany);
        }
        self.0.push((name, value));
        Ok(())
    }

    /// Returns the first value of a field.
    pub(crate) fn get(&self, name: &str) -> Option<&str> {
        self.0.iter().find(|(known, _)| known == name).map(|(_, value)| value.as_str())
    }

    /// Returns the number in a field; 0 without a valid one.
    pub(crate) fn number<T: FromStr + Default>(&self, name: &str) -> T {
        self.get(name).and_then(|number| number.parse().ok()).unwrap_or_default()
    }
}

/// Returns a query of the fields that have a value, with its question mark; empty without one.
pub(crate) fn query(fields: &[(&str, &str)]) -> String {
    let mut query = String::new();
    for (name, value) in fields.iter().filter(|(_, value)| !value.is_empty()) {
        query.push(if query.is_empty() { '?' } else { '&' });
        encode(name, &mut query);
        query.push('=');
        encode(value, &mut query);
    }
    query
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn fields_are_decoded() {
        let fields = Fields::parse(b"data=a+b%0D%0A%26&empty=&flag&data=x").unwrap();
        assert_eq!(fields.get("data"), Some("a b\r\n&"));
        assert_eq!(fields.get("empty"), Some(""));
        assert_eq!((fields.get("flag"), fields.get("none")), (Some(""), None));
    }

    #[test]
    fn bad_fields_are_refused() {
        assert_eq!(Fields::parse(b"a=%f"), Err(FieldsError::Encoding));
        assert_eq!(Fields::parse(b"a=%ff"), Err(FieldsError::Encoding));
        assert_eq!(Fields::parse("a&".repeat(65).as_bytes()), Err(FieldsError::TooMany));
    }

    #[test]
    fn a_query_has_what_was_given() {
        let made = query(&[("filter", "a&b"), ("sort", ""), ("from", "200")]);
        assert_eq!(made, "?filter=a%26b&from=200");
        assert_eq!(Fields::parse(&made.as_bytes()[1..]).unwrap().get("filter"), Some("a&b"));
        assert_eq!(query(&[("a", "")]), "");
    }
}
