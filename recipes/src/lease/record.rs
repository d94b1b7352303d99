//! The data of a lease: kazoo's JSON, as pure functions.

use std::collections::BTreeMap;
use std::iter::Peekable;
use std::str::Chars;

use crate::schedule::plan;

/// kazoo's `NonBlockingLease._version`.
const FORMAT: i64 = 1;

/// The holder of a lease and its end, as stored.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct LeaseRecord {
    pub(super) holder: String,
    /// In seconds since the Unix epoch.
    pub(super) end: i64,
}

impl LeaseRecord {
    /// The data of the node, as Python's `json.dumps` writes them:
    /// ```text
    /// {"version": 1, "holder": "worker-1", "end": "2026-11-22T14:00:00"}
    /// ```
    /// The end is in UTC, without a zone.
    pub(super) fn encode(&self) -> String {
        let end = plan::name(self.end);
        let end = end.trim_end_matches('Z');
        format!(
            "{{\"version\": {FORMAT}, \"holder\": {}, \"end\": \"{end}\"}}",
            quote(&self.holder)
        )
    }

    /// `None` if these are not the data of a lease, or of another version of the format.
    pub(super) fn parse(data: &[u8]) -> Option<Self> {
        let mut fields = parse_object(std::str::from_utf8(data).ok()?)?;
        if fields.remove("version") != Some(LeaseValue::Number(FORMAT)) {
            return None;
        }
        let (LeaseValue::Text(holder), LeaseValue::Text(end)) =
            (fields.remove("holder")?, fields.remove("end")?)
        else {
            return None;
        };
        let end = plan::parse(&format!("{end}Z"))?;
        Some(Self { holder, end })
    }
}

#[derive(Debug, PartialEq, Eq)]
enum LeaseValue {
    Text(String),
    /// A whole number.
    Number(i64),
    /// `true`, `false`, `null`, or another number.
    Other,
}

/// A string of JSON with all characters beyond ASCII escaped, as Python writes it.
fn quote(text: &str) -> String {
    let mut quoted = String::from("\"");
    for character in text.chars() {
        match character {
            '"' | '\\' => quoted.extend(['\\', character]),
            ' '..='~' => quoted.push(character),
            _ => {
                let mut units = [0; 2];
                for unit in character.encode_utf16(&mut units) {
                    quoted.push_str(&format!("\\u{unit:04x}"));
                }
            }
        }
    }
    quoted + "\""
}

/// Parses an object of JSON whose values are neither objects nor arrays.
fn parse_object(text: &str) -> Option<BTreeMap<String, LeaseValue>> {
    let mut text = Scanner(text.chars().peekable());
    let mut fields = BTreeMap::new();
    text.expect('{')?;
    if text.expect('}').is_none() {
        loop {
            text.skip_blanks();
            let name = text.string()?;
            text.expect(':')?;
            text.skip_blanks();
            let value = text.value()?;
            fields.insert(name, value);
            if text.expect(',').is_none() {
                break;
            }
        }
        text.expect('}')?;
    }
    text.skip_blanks();
    text.0.next().is_none().then_some(fields)
}

struct Scanner<'a>(Peekable<Chars<'a>>);

impl Scanner<'_> {
    fn skip_blanks(&mut self) {
        while self.0.next_if(|next| matches!(next, ' ' | '\t' | '\n' | '\r')).is_some() {}
    }

    fn expect(&mut self, character: char) -> Option<()> {
        self.skip_blanks();
        self.0.next_if_eq(&character).map(drop)
    }

    fn value(&mut self) -> Option<LeaseValue> {
        if self.0.peek() == Some(&'"') {
            return self.string().map(LeaseValue::Text);
        }
        let mut word = String::new();
        let is_part = |next: &char| next.is_ascii_alphanumeric() || matches!(next, '+' | '-' | '.');
        while let Some(next) = self.0.next_if(is_part) {
            word.push(next);
        }
        if let Ok(number) = word.parse() {
            return Some(LeaseValue::Number(number));
        }
        let is_known = matches!(word.as_str(), "true" | "false" | "null");
        (is_known || word.parse::<f64>().is_ok()).then_some(LeaseValue::Other)
    }

    fn string(&mut self) -> Option<String> {
        self.0.next_if_eq(&'"')?;
        let mut units: Vec<u16> = Vec::new();
        loop {
            let character = match self.0.next()? {
                '"' => return String::from_utf16(&units).ok(),
                '\\' => match self.0.next()? {
                    'n' => '\n',
                    't' => '\t',
                    'r' => '\r',
                    'b' => '\u{8}',
                    'f' => '\u{c}',
                    'u' => {
                        // Half of a character, maybe.
                        units.push(self.unit()?);
                        continue;
                    }
                    escaped @ ('"' | '\\' | '/') => escaped,
                    _ => return None,
                },
                character if character < ' ' => return None,
                character => character,
            };
            units.extend_from_slice(character.encode_utf16(&mut [0; 2]));
        }
    }

    fn unit(&mut self) -> Option<u16> {
        let mut unit = 0;
        for _ in 0..4 {
            unit = unit << 4 | self.0.next()?.to_digit(16)?;
        }
        u16::try_from(unit).ok()
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn record(holder: &str, end: i64) -> LeaseRecord {
        LeaseRecord { holder: holder.into(), end }
    }

    #[test]
    fn data_are_those_of_kazoo() {
        let text = r#"{"version": 1, "holder": "h\u00f4st \"1\"\\\ud83d\ude00\u000a", "end": "2026-11-22T13:00:00"}"#;
        let expected = record("hôst \"1\"\\😀\n", 1_795_352_400);
        assert_eq!(expected.encode(), text);
        assert_eq!(LeaseRecord::parse(text.as_bytes()), Some(expected));
    }

    #[test]
    fn fields_may_come_in_any_order_and_with_others() {
        let text = "\n{ \"end\":\"2026-11-22T13:00:00\",\"holder\" : \"h\\u00f4\\n\\/\" , \"x\": null, \"y\": -1.5e3,\"version\":1}\n";
        assert_eq!(LeaseRecord::parse(text.as_bytes()), Some(record("hô\n/", 1_795_352_400)));
    }

    #[test]
    fn other_data_are_no_lease() {
        for text in [
            "",
            "{}",
            "{} {}",
            "[]",
            r#"{"version": 2, "holder": "h", "end": "2026-11-22T13:00:00"}"#,
            r#"{"version": "1", "holder": "h", "end": "2026-11-22T13:00:00"}"#,
            r#"{"version": 1, "holder": "h", "end": "2026-11-22T13:00:00Z"}"#,
            r#"{"version": 1, "holder": "h", "end": "2026-02-29T13:00:00"}"#,
            r#"{"version": 1, "holder": 7, "end": "2026-11-22T13:00:00"}"#,
            r#"{"version": 1, "holder": "\ud83d", "end": "2026-11-22T13:00:00"}"#,
            r#"{"version": 1, "holder": "h", "end": "2026-11-22T13:00:00"},"#,
            r#"{"version": 1, "holder": "h", "end": "2026-11-22T13:00:00",}"#,
        ] {
            assert_eq!(LeaseRecord::parse(text.as_bytes()), None, "{text}");
        }
    }

    proptest! {
        #[test]
        fn records_come_back(holder in any::<String>(), end in 0..=plan::LAST) {
            let record = record(&holder, end);
            let text = record.encode();
            prop_assert!(text.is_ascii());
            prop_assert_eq!(LeaseRecord::parse(text.as_bytes()), Some(record));
        }

        #[test]
        fn any_data_are_parsed_or_refused(data in any::<Vec<u8>>(), cut in any::<prop::sample::Index>()) {
            prop_assert_eq!(LeaseRecord::parse(&data), None);
            let text = record("a\"b", 7).encode();
            prop_assert_eq!(LeaseRecord::parse(&text.as_bytes()[..cut.index(text.len())]), None);
        }
    }
}
