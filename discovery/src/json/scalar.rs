//! Values that other programs write as another kind of JSON value. They are read as Jackson reads
//! them in Curator's serializer.

use serde_json::from_str;

/// Reads an integer. The fraction of a number is cut off. A text is read without the spaces around
/// it; `None` if nothing else is in it, or the word `null`.
pub(super) fn integer(raw: &str) -> Result<Option<i64>, &'static str> {
    const WHY: &str = "not an integer";
    let parsed = |text: &str| text.parse().map_err(|_| WHY);
    match raw.as_bytes().first() {
        Some(b'n') => Ok(None),
        Some(b'"') => {
            let text: String = from_str(raw).map_err(|_| WHY)?;
            let text = trimmed(&text);
            if is_null(text) { Ok(None) } else { parsed(text).map(Some) }
        }
        Some(b'-' | b'0'..=b'9') if raw.contains(['.', 'e', 'E']) => whole(raw).map(Some),
        Some(b'-' | b'0'..=b'9') => parsed(raw).map(Some),
        _ => Err(WHY),
    }
}

/// Returns a number without its fraction.
fn whole(raw: &str) -> Result<i64, &'static str> {
    let number: f64 = raw.parse().map_err(|_| "not an integer")?;
    // Without an exponent, so that every digit of the integer is there.
    format!("{:.0}", number.trunc()).parse().map_err(|_| "an integer out of range")
}

/// Reads a text. A number or a boolean is the text of its JSON.
pub(super) fn text(raw: &str) -> Result<Option<String>, &'static str> {
    match raw.as_bytes().first() {
        Some(b'n') => Ok(None),
        Some(b'"') => from_str(raw).map(Some).map_err(|_| "not a text"),
        Some(b'{' | b'[') | None => Err("not a text"),
        Some(_) => Ok(Some(raw.to_owned())),
    }
}

/// Reads a boolean. An integer is `true` unless it is zero; `null` is `false`.
pub(super) fn boolean(raw: &str) -> Result<bool, &'static str> {
    const WHY: &str = "not a boolean";
    match raw.as_bytes().first() {
        Some(b'n') => Ok(false),
        Some(b't') => Ok(true),
        Some(b'f') => Ok(false),
        Some(b'"') => {
            let text: String = from_str(raw).map_err(|_| WHY)?;
            match trimmed(&text) {
                "true" | "True" | "TRUE" => Ok(true),
                "false" | "False" | "FALSE" => Ok(false),
                text if is_null(text) => Ok(false),
                _ => Err(WHY),
            }
        }
        Some(b'-' | b'0'..=b'9') if !raw.contains(['.', 'e', 'E']) => {
            Ok(raw.bytes().any(|digit| (b'1'..=b'9').contains(&digit)))
        }
        _ => Err(WHY),
    }
}

/// Returns a text without what Java's `trim` removes.
fn trimmed(text: &str) -> &str {
    text.trim_matches(|char| char <= ' ')
}

fn is_null(text: &str) -> bool {
    text.is_empty() || text == "null"
}

#[cfg(test)]
mod tests {
    use super::*;

    // The expected values are those of Curator 5.4.0 with Jackson 2.14.

    #[test]
    fn integers_are_those_of_jackson() {
        let cases = [
            ("8080", Some(8080)),
            ("\"8080\"", Some(8080)),
            ("\" 8080 \"", Some(8080)),
            ("\"+8080\"", Some(8080)),
            ("\"08080\"", Some(8080)),
            ("\"-1\"", Some(-1)),
            ("-1", Some(-1)),
            ("8080.0", Some(8080)),
            ("8080.7", Some(8080)),
            ("-0.5", Some(0)),
            ("8.08e3", Some(8080)),
            ("2147483648.0", Some(2_147_483_648)),
            ("\"\"", None),
            ("\" \"", None),
            ("\"null\"", None),
            ("null", None),
        ];
        for (raw, expected) in cases {
            assert_eq!(integer(raw), Ok(expected), "{raw}");
        }
        for raw in [
            "\"8080.0\"",
            "\"8.08e3\"",
            "\"0x1F\"",
            "\"1_000\"",
            "\"abc\"",
            "true",
            "[7]",
            "{}",
            "1e400",
            "99999999999999999999",
        ] {
            assert!(integer(raw).is_err(), "{raw}");
        }
    }

    #[test]
    fn texts_are_those_of_jackson() {
        for raw in ["7", "7.5", "1.50", "1e3", "true", "-0", "123456789012345678901234567890"] {
            assert_eq!(text(raw), Ok(Some(raw.to_owned())));
        }
        assert_eq!(text("\"x\\n\""), Ok(Some("x\n".to_owned())));
        assert_eq!(text("null"), Ok(None));
        assert!(text("[\"x\"]").is_err() && text("{}").is_err());
    }

    #[test]
    fn booleans_are_those_of_jackson() {
        for raw in ["true", "\"true\"", "\"True\"", "\"TRUE\"", "\" true \"", "1", "2", "-1"] {
            assert_eq!(boolean(raw), Ok(true), "{raw}");
        }
        for raw in ["false", "\"false\"", "\"False\"", "0", "-0", "\"\"", "null", "\"null\""] {
            assert_eq!(boolean(raw), Ok(false), "{raw}");
        }
        for raw in ["\"tRUE\"", "0.0", "1.5", "\"1\"", "\"0\"", "\"yes\"", "[true]", "{}"] {
            assert!(boolean(raw).is_err(), "{raw}");
        }
    }
}
