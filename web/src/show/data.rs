//! The data of a node: the form is recognised, and shown.

use std::io::Read;

use flate2::bufread::MultiGzDecoder;
use zk_curator_ops::data::{hex, is_gzip};

use super::json::{JsonLine, json_lines};
use super::size::size_of;
use super::text::visible_data;

/// The maximum number of bytes that a page shows.
pub(crate) const MOST_SHOWN: usize = 64 << 10;
/// The maximum number of bytes in a dump, which has five characters for each of them.
const MOST_DUMPED: usize = 16 << 10;
/// The maximum number of lines of indented JSON.
const MOST_LINES: usize = 2_000;

/// The form of data.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum DataForm {
    /// Java's `null`.
    Null,
    /// No bytes.
    Empty,
    /// An object or an array.
    Json,
    /// Text that looks like YAML.
    Yaml,
    /// Other text.
    Text,
    /// An object in the form of Java's serialisation.
    Java,
    /// Other bytes.
    Binary,
}

/// Data as a page shows them.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct DataView {
    /// The recognised form, of the content of gzip.
    pub(crate) form: DataForm,
    /// A sentence about the form and the size.
    pub(crate) label: String,
    /// The lines of JSON; otherwise empty.
    pub(crate) lines: Vec<JsonLine>,
    /// The text or the dump, if there are no lines.
    pub(crate) text: String,
    /// A sentence about the part that is not shown; empty if everything is.
    pub(crate) cut: String,
    /// `true` if `text` is a dump.
    pub(crate) is_dump: bool,
}

/// The content of gzip, as Curator writes it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Gzip {
    /// The content, up to a limit.
    pub(crate) content: Vec<u8>,
    /// `true` if the content is complete.
    pub(crate) is_complete: bool,
}

/// Opens gzip. Reads at most `limit` bytes of content, whatever the data claim. `None` if the data
/// are not gzip, or are damaged.
pub(crate) fn opened(data: &[u8], limit: usize) -> Option<Gzip> {
    if !is_gzip(data) {
        return None;
    }
    let most = u64::try_from(limit).unwrap_or(u64::MAX);
    let mut content = Vec::new();
    MultiGzDecoder::new(data).take(most.saturating_add(1)).read_to_end(&mut content).ok()?;
    let is_complete = content.len() <= limit;
    content.truncate(limit);
    Some(Gzip { content, is_complete })
}

/// Returns the view of data. With `as_dump`, it is a dump of the stored bytes.
pub(crate) fn data_view(data: &[u8], is_null: bool, as_dump: bool) -> DataView {
    if is_null {
        return DataView::nothing(DataForm::Null, "null: the node has no data, unlike empty data");
    }
    if data.is_empty() {
        return DataView::nothing(DataForm::Empty, "empty: 0 bytes");
    }
    let stored = data.len();
    if as_dump {
        return DataView::of(data, stored, true, size_of(stored), true);
    }
    match opened(data, MOST_SHOWN) {
        Some(gzip) => {
            let more = if gzip.is_complete { "" } else { "more than " };
            let label = format!(
                "gzip, {} stored, {more}{} opened",
                size_of(stored),
                size_of(gzip.content.len())
            );
            let view =
                DataView::of(&gzip.content, gzip.content.len(), gzip.is_complete, label, false);
            DataView { label: format!("{} in {}", view.form.name(), view.label), ..view }
        }
        None => {
            let view = DataView::of(data, stored, true, size_of(stored), false);
            DataView { label: format!("{}, {}", view.form.name(), view.label), ..view }
        }
    }
}

impl DataView {
    fn nothing(form: DataForm, label: &str) -> Self {
        let (lines, text, cut) = (Vec::new(), String::new(), String::new());
        Self { form, label: label.to_owned(), lines, text, cut, is_dump: false }
    }

    /// `length` is that of all the data, of which `data` may be the beginning only.
    fn of(data: &[u8], length: usize, is_complete: bool, label: String, as_dump: bool) -> Self {
        let text = text_of(data, is_complete).filter(|_| !as_dump);
        let Some(text) = text else {
            let class = java_class(data);
            let form = if class.is_some() { DataForm::Java } else { DataForm::Binary };
            let shown = &data[..data.len().min(MOST_DUMPED)];
            let label = match class {
                Some(class) if !as_dump => {
                    format!("{label}, of the class {}", visible_data(&class))
                }
                _ => label,
            };
            let cut = cut(shown.len(), length, is_complete);
            return Self { form, label, lines: Vec::new(), text: hex(shown), cut, is_dump: true };
        };
        let shown = beginning(text, MOST_SHOWN);
        let is_whole = is_complete && shown.len() == length;
        let lines = if is_whole { json_lines(shown, MOST_LINES) } else { None };
        let form = match &lines {
            Some(_) => DataForm::Json,
            None if looks_like_yaml(shown) => DataForm::Yaml,
            None => DataForm::Text,
        };
        let cut = cut(shown.len(), length, is_complete);
        let text = if lines.is_some() { String::new() } else { visible_data(shown).into_owned() };
        Self { form, label, lines: lines.unwrap_or_default(), text, cut, is_dump: false }
    }
}

fn cut(shown: usize, length: usize, is_complete: bool) -> String {
    if shown == length && is_complete {
        return String::new();
    }
    let of = if is_complete { format!(" of {}", size_of(length)) } else { String::new() };
    format!(
        "Only the first {}{of} are shown. Download the data to see all of them.",
        size_of(shown)
    )
}

impl DataForm {
    const fn name(self) -> &'static str {
        match self {
            Self::Null => "null",
            Self::Empty => "empty",
            Self::Json => "JSON",
            Self::Yaml => "text that looks like YAML",
            Self::Text => "text",
            Self::Java => "Java-serialised object",
            Self::Binary => "binary data",
        }
    }
}

/// Returns the text, if the data are text: UTF-8 without control characters. The last character of
/// data that are not complete may be cut.
pub(crate) fn text_of(data: &[u8], is_complete: bool) -> Option<&str> {
    let text = match std::str::from_utf8(data) {
        Ok(text) => text,
        Err(error) if error.error_len().is_none() && !is_complete => {
            std::str::from_utf8(&data[..error.valid_up_to()]).ok()?
        }
        Err(_) => return None,
    };
    let is_text = |c: char| !c.is_control() || matches!(c, '\n' | '\t' | '\r');
    text.chars().all(is_text).then_some(text)
}

/// Returns the beginning of a text, of at most `most` bytes.
fn beginning(text: &str, most: usize) -> &str {
    let mut end = text.len().min(most);
    while !text.is_char_boundary(end) {
        end -= 1;
    }
    &text[..end]
}

/// Returns `true` if the text has several lines, and the first of them that is not a comment is a
/// key with a value, an item of a list, or `---`.
fn looks_like_yaml(text: &str) -> bool {
    let mut lines = text.lines().filter(|line| !line.trim().is_empty() && !line.starts_with('#'));
    let Some(first) = lines.next() else { return false };
    let is_key = |line: &str| {
        let key = line.split_once(':').map(|(key, value)| (key.trim(), value));
        key.is_some_and(|(key, value)| {
            let is_word = |c: char| c.is_alphanumeric() || matches!(c, '_' | '-' | '.');
            !key.is_empty()
                && key.chars().all(is_word)
                && (value.is_empty() || value.starts_with(' '))
        })
    };
    lines.next().is_some() && (first == "---" || first.starts_with("- ") || is_key(first))
}

/// Returns the class of an object in the form of Java's `ObjectOutputStream`; `unknown` if the
/// stream does not begin with an object.
fn java_class(data: &[u8]) -> Option<String> {
    let rest = data.strip_prefix(&[0xac, 0xed, 0, 5])?;
    let Some(&[high, low, ref name @ ..]) = rest.strip_prefix(&[0x73, 0x72]) else {
        return Some("unknown".to_owned());
    };
    let name = name.get(..usize::from(u16::from_be_bytes([high, low])).min(name.len()));
    Some(String::from_utf8_lossy(name.unwrap_or_default()).into_owned())
}

#[cfg(test)]
mod tests {
    use std::io::Write;

    use flate2::Compression;
    use flate2::write::GzEncoder;
    use proptest::prelude::*;

    use super::*;

    fn gzip(data: &[u8]) -> Vec<u8> {
        let mut encoder = GzEncoder::new(Vec::new(), Compression::default());
        encoder.write_all(data).unwrap();
        encoder.finish().unwrap()
    }

    #[test]
    fn forms_are_recognised() {
        let cases: [(&[u8], DataForm); 10] = [
            (b"hello", DataForm::Text),
            (b"{\"a\":1}", DataForm::Json),
            (b"{\"a\":1", DataForm::Text),
            (b"# x\na: 1\nb: 2\n", DataForm::Yaml),
            (b"10.0.0.1:8080", DataForm::Text),
            (b"\xac\xed\x00\x05sr\x00\x03a.B\x00", DataForm::Java),
            (b"\xac\xed\x00\x05t", DataForm::Java),
            (b"\x00\x01", DataForm::Binary),
            (b"a\x1b[31m", DataForm::Binary),
            (b"\xff", DataForm::Binary),
        ];
        for (data, form) in cases {
            assert_eq!(data_view(data, false, false).form, form, "{data:?}");
        }
        assert_eq!(data_view(b"", true, false).form, DataForm::Null);
        assert_eq!(data_view(b"", false, false).form, DataForm::Empty);
    }

    #[test]
    fn gzip_is_opened_up_to_a_limit() {
        let view = data_view(&gzip(b"{\"a\":1}"), false, false);
        assert_eq!((view.form, view.lines.len()), (DataForm::Json, 3));
        assert!(view.label.starts_with("JSON in gzip, "), "{}", view.label);
        let bomb = gzip(&vec![b'0'; 5 << 20]);
        let content = opened(&bomb, 1000).unwrap();
        assert_eq!((content.content.len(), content.is_complete), (1000, false));
        assert!(data_view(&bomb, false, false).label.contains("more than 64.0 KiB"));
        assert_eq!(opened(b"\x1f\x8b\x08damaged", 1000), None);
        assert!(data_view(&gzip(b"x"), false, true).is_dump);
    }

    #[test]
    fn a_class_of_java_is_named() {
        let view = data_view(b"\xac\xed\x00\x05sr\x00\x03a.Bxyz", false, false);
        assert!(view.label.ends_with(", of the class a.B"), "{}", view.label);
        let lie = data_view(b"\xac\xed\x00\x05sr\xff\xffa.B", false, false);
        assert!(lie.label.ends_with(", of the class a.B"), "{}", lie.label);
    }

    #[test]
    fn a_line_of_a_dump_has_16_bytes() {
        let dumped = |data: &[u8]| data_view(data, false, true).text;
        assert_eq!(
            dumped(b"\x00ab"),
            "00000000  00 61 62                                         .ab\n"
        );
        assert_eq!(dumped(&[b'x'; 33]).lines().count(), 3);
        assert_eq!(hex(b""), "");
    }

    #[test]
    fn long_data_are_cut_between_characters() {
        let view = data_view("ü".repeat(MOST_SHOWN).as_bytes(), false, false);
        assert_eq!(view.text.len(), MOST_SHOWN);
        assert!(view.cut.starts_with("Only the first 64.0 KiB of 128.0 KiB"), "{}", view.cut);
        let view = data_view(&[0; 100_000], false, false);
        assert_eq!(view.text.lines().count(), MOST_DUMPED / 16);
        assert!(!view.cut.is_empty());
        assert_eq!(data_view(b"x", false, false).cut, "");
    }

    proptest! {
        #[test]
        fn no_data_make_a_view_panic(data: Vec<u8>, magic in 0..3_usize) {
            let start: &[u8] = [&[][..], &[0xac, 0xed, 0, 5, 0x73, 0x72], &[0x1f, 0x8b, 8]][magic];
            let data = [start, &data].concat();
            let view = data_view(&data, false, false);
            prop_assert!(view.text.len() <= MOST_SHOWN * 8);
        }
    }
}
