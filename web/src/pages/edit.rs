//! Data in forms, and back. A form that is sent back unchanged does not change the node.

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use bytes::Bytes;
use zk_curator::compression::{CompressionProvider, GzipCompressionProvider};

use crate::fields::Fields;
use crate::problem::{Problem, RequestResult};
use crate::show::{MOST_SHOWN, opened, text_of};

/// The fields of a form with data.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct EditForm {
    /// The expected version.
    pub(super) version: i32,
    /// `text`, `gzip` or `base64`.
    pub(super) encoding: &'static str,
    /// The line breaks of the text, `lf` or `crlf`: browsers send all of them as `crlf`.
    pub(super) newlines: &'static str,
    pub(super) text: String,
    /// An addition to the label.
    pub(super) hint: &'static str,
    pub(super) rows: usize,
}

impl EditForm {
    /// Returns the form for data; `None` if they are larger than a page shows.
    pub(super) fn of(data: &[u8], version: i32) -> Option<Self> {
        if data.len() > MOST_SHOWN {
            return None;
        }
        let content = opened(data, MOST_SHOWN).filter(|gzip| gzip.is_complete);
        let content = content.map(|gzip| gzip.content);
        let text = content.as_deref().and_then(editable);
        let (encoding, hint, (text, newlines)) = match (text, editable(data)) {
            (Some(text), _) => ("gzip", ", which is stored in gzip as before", text),
            (None, Some(text)) => ("text", "", text),
            (None, None) => ("base64", ", in Base64", (STANDARD.encode(data), "lf")),
        };
        let rows = text.lines().count().clamp(4, 24);
        Some(Self { version, encoding, newlines, text, hint, rows })
    }
}

/// Returns text that survives a form, and its line breaks. `None` for other data: bytes that are
/// not text, control characters, and line breaks of more than one kind.
fn editable(data: &[u8]) -> Option<(String, &'static str)> {
    let text = text_of(data, true)?;
    let pairs = text.matches("\r\n").count();
    let (returns, feeds) = (text.matches('\r').count(), text.matches('\n').count());
    match (pairs, returns, feeds) {
        (_, 0, _) => Some((text.to_owned(), "lf")),
        (pairs, returns, feeds) if pairs == returns && pairs == feeds => {
            Some((text.to_owned(), "crlf"))
        }
        _ => None,
    }
}

/// Returns the data of a form.
pub(super) fn data_of(path: &str, form: &Fields) -> RequestResult<Bytes> {
    let text = form.get("data").unwrap_or_default();
    let text = match form.get("newlines") {
        Some("crlf") => text.to_owned(),
        _ => text.replace("\r\n", "\n"),
    };
    match form.get("encoding") {
        None | Some("text") => Ok(text.into()),
        Some("gzip") => {
            let compressed = GzipCompressionProvider::new().compress(path, text.as_bytes());
            compressed
                .map_err(|why| Problem::usage(format!("The data cannot be compressed: {why}.")))
        }
        Some("base64") => {
            let digits: String = text.split_whitespace().collect();
            let data = STANDARD.decode(digits);
            data.map(Bytes::from)
                .map_err(|why| Problem::usage(format!("The data are not Base64: {why}.")))
        }
        Some(_) => Err(Problem::usage("The encoding of the data is unknown.")),
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;
    use crate::fields::query;

    /// Sends a form as a browser does, which makes all line breaks `crlf`.
    fn sent(form: &EditForm) -> Bytes {
        let text = form.text.replace("\r\n", "\n").replace('\r', "\n").replace('\n', "\r\n");
        let fields = [("encoding", form.encoding), ("newlines", form.newlines), ("data", &*text)];
        let body = query(&fields);
        let fields = Fields::parse(body.trim_start_matches('?').as_bytes()).unwrap();
        data_of("/a", &fields).unwrap()
    }

    #[test]
    fn unchanged_forms_do_not_change_data() {
        for (data, encoding) in [
            (&b"a\nb\n"[..], "text"),
            (&b"a\r\nb"[..], "text"),
            (&b"a\rb"[..], "base64"),
            (&b"a\r\nb\n"[..], "base64"),
            (&b"\n\n leading"[..], "text"),
            (&b"\x00\xff"[..], "base64"),
            (&b""[..], "text"),
        ] {
            let form = EditForm::of(data, 7).unwrap();
            assert_eq!((form.encoding, form.version), (encoding, 7), "{data:?}");
            assert_eq!(sent(&form), data);
        }
        assert_eq!(EditForm::of(&vec![b'x'; MOST_SHOWN + 1], 0), None);
    }

    #[test]
    fn gzip_stays_gzip() {
        let gzip = GzipCompressionProvider::new();
        let stored = gzip.compress("/a", b"{\"a\":1}\n").unwrap();
        let form = EditForm::of(&stored, 0).unwrap();
        assert_eq!((form.encoding, form.text.as_str()), ("gzip", "{\"a\":1}\n"));
        assert_eq!(sent(&form), stored);
    }

    #[test]
    fn bad_forms_are_refused() {
        for form in ["encoding=base64&data=%2A", "encoding=x&data=y"] {
            assert!(data_of("/a", &Fields::parse(form.as_bytes()).unwrap()).is_err(), "{form}");
        }
    }

    proptest! {
        #[test]
        fn every_value_survives_its_form(data in prop_oneof![
            "[ab\n\t ü]{0,20}".prop_map(String::into_bytes),
            "(a|\r\n|\r|\n){0,8}".prop_map(String::into_bytes),
            prop::collection::vec(any::<u8>(), 0..40),
        ]) {
            prop_assert_eq!(sent(&EditForm::of(&data, 0).unwrap()), data);
        }
    }
}
