//! JSON in indented lines. Every character of the text is kept: numbers of any precision, repeated
//! keys and escapes.

use serde::de::IgnoredAny;

use super::text::visible_data;

/// The maximum depth. Browsers do not nest elements much deeper.
const DEEPEST: usize = 64;

/// A line of indented JSON.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(crate) struct JsonLine {
    /// The text, without its indentation.
    pub(crate) text: String,
    /// `true` if the lines up to the matching one that [`closes`](Self::closes) can be folded.
    pub(crate) opens: bool,
    /// `true` if the line ends the innermost open one.
    pub(crate) closes: bool,
}

/// Returns the lines of an object or an array; `None` for other texts, and if there are more lines
/// than `most` or more levels than 64.
pub(crate) fn json_lines(text: &str, most: usize) -> Option<Vec<JsonLine>> {
    let text = text.trim();
    if !text.starts_with(['{', '[']) {
        return None;
    }
    serde_json::from_str::<IgnoredAny>(text).ok()?;
    let mut lines = Lines::default();
    let mut chars = text.chars().peekable();
    let mut is_in_string = false;
    while let Some(c) = chars.next() {
        if lines.done.len() >= most || lines.depth > DEEPEST {
            return None;
        }
        match c {
            '\\' if is_in_string => {
                lines.push(c);
                if let Some(escaped) = chars.next() {
                    lines.push(escaped);
                }
            }
            '"' => {
                is_in_string = !is_in_string;
                lines.push(c);
            }
            c if is_in_string => lines.push(c),
            ' ' | '\t' | '\r' | '\n' => {}
            '{' | '[' => {
                lines.push(c);
                while chars.next_if(|next| next.is_ascii_whitespace()).is_some() {}
                match chars.next_if(|next| matches!(next, '}' | ']')) {
                    Some(end) => lines.push(end),
                    None => lines.open(),
                }
            }
            '}' | ']' => lines.close(c),
            ',' => {
                lines.push(c);
                lines.end();
            }
            ':' => lines.line.text.push_str(": "),
            c => lines.push(c),
        }
    }
    lines.end();
    Some(lines.done)
}

#[derive(Default)]
struct Lines {
    done: Vec<JsonLine>,
    line: JsonLine,
    depth: usize,
}

impl Lines {
    fn push(&mut self, c: char) {
        self.line.text.push(c);
    }

    fn open(&mut self) {
        self.line.opens = true;
        self.depth += 1;
        self.end();
    }

    fn close(&mut self, c: char) {
        self.end();
        self.line.closes = true;
        self.depth = self.depth.saturating_sub(1);
        self.push(c);
    }

    fn end(&mut self) {
        let mut line = std::mem::take(&mut self.line);
        if !line.text.is_empty() {
            line.text = visible_data(&line.text).into_owned();
            self.done.push(line);
        }
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn texts(text: &str) -> Vec<String> {
        let lines = json_lines(text, 100).unwrap();
        lines.into_iter().map(|line| line.text).collect()
    }

    #[test]
    fn values_are_indented() {
        let text = r#"{"a" :[1, 2.50,{ }],"b":"x,{\"]","b":1e999}"#;
        let lines = [
            r#"{"#,
            r#""a": ["#,
            "1,",
            "2.50,",
            "{}",
            "],",
            r#""b": "x,{\"]","#,
            r#""b": 1e999"#,
            "}",
        ];
        assert_eq!(texts(text), lines);
        assert_eq!(texts("[]"), ["[]"]);
    }

    #[test]
    fn only_objects_and_arrays_that_are_short_enough() {
        for text in ["", "5", "\"x\"", "{", "[1,]", "{a:1}", "[1,2,3,4,5]"] {
            assert_eq!(json_lines(text, 4), None, "{text}");
        }
        assert_eq!(json_lines(&"[".repeat(60_000), 1000), None);
        let deep = |levels| format!("{}1{}", "[".repeat(levels), "]".repeat(levels));
        assert!(json_lines(&deep(60), 1000).is_some());
        assert_eq!(json_lines(&deep(70), 1000), None);
    }

    proptest! {
        #[test]
        fn lines_open_and_close_in_pairs(
            text in "(\\[|\\]|\\{|\\}|\"k\":|1|,| |\"\\\\\"\"){0,24}",
        ) {
            if let Some(lines) = json_lines(&text, 1000) {
                let mut depth = 0_i32;
                for line in &lines {
                    depth += i32::from(line.opens) - i32::from(line.closes);
                    prop_assert!(depth >= 0);
                }
                prop_assert_eq!(depth, 0);
            }
        }
    }
}
