//! Forms with files (`multipart/form-data`, RFC 7578), a part at a time.

use axum::body::{Body, BodyDataStream};
use axum::http::HeaderMap;
use bytes::{Bytes, BytesMut};
use futures_util::StreamExt;
use tokio::time::timeout;

use crate::body::{STALLED, announced, is_of, media_of, other_media, stalled};
use crate::problem::{Problem, RequestResult};

const MEDIA: &str = "multipart/form-data";
/// The maximum number of bytes of the headers of a part.
const MOST_HEAD: usize = 8 << 10;
/// The maximum number of bytes of a field that is not a file.
const MOST_TEXT: usize = 16 << 10;
/// The maximum number of bytes of a boundary, by RFC 2046.
const MOST_BOUNDARY: usize = 70;

/// The reason why a body is not a form.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub(crate) enum MultipartError {
    /// The body ends before the last boundary.
    #[error("the form ends early")]
    Early,
    /// A part has no name, or its headers cannot be read.
    #[error("a part of the form has no name")]
    Head,
    /// The headers of a part are too long.
    #[error("the headers of a part are too long")]
    LongHead,
}

impl From<MultipartError> for Problem {
    fn from(error: MultipartError) -> Self {
        Self::usage(format!("The form cannot be read: {error}."))
    }
}

/// The beginning of a part.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct PartHead {
    pub(crate) name: String,
    pub(crate) is_file: bool,
}

/// The parts of a body, which is read part by part.
#[derive(Debug)]
pub(crate) struct Multipart {
    body: BodyDataStream,
    splitter: Splitter,
    /// The bytes that the body may still have.
    left: u64,
    limit: u64,
}

/// Returns `true` if a body is a form with files.
pub(crate) fn is_multipart(headers: &HeaderMap) -> bool {
    is_of(headers, MEDIA)
}

/// Returns the boundary of a media type.
fn boundary(media: &str) -> Option<&str> {
    let parameters = media.split(';').skip(1).filter_map(|parameter| parameter.split_once('='));
    let mut found = parameters.map(|(name, value)| (name.trim(), value.trim()));
    let (_, value) = found.find(|(name, _)| name.eq_ignore_ascii_case("boundary"))?;
    let value = value.strip_prefix('"').and_then(|value| value.strip_suffix('"')).unwrap_or(value);
    (1..=MOST_BOUNDARY).contains(&value.len()).then_some(value)
}

impl Multipart {
    /// Begins to read a body of at most `limit` bytes.
    pub(crate) fn new(headers: &HeaderMap, body: Body, limit: u64) -> RequestResult<Self> {
        let boundary = boundary(media_of(headers)).filter(|_| is_multipart(headers));
        let Some(boundary) = boundary else {
            return Err(other_media(&format!("{MEDIA} with a boundary")));
        };
        if announced(headers).is_some_and(|length| length > limit) {
            return Err(Problem::too_large(limit));
        }
        let splitter = Splitter::new(boundary);
        Ok(Self { body: body.into_data_stream(), splitter, left: limit, limit })
    }

    /// Returns the next part, after the rest of the present one; `None` after the last one.
    pub(crate) async fn next(&mut self) -> RequestResult<Option<PartHead>> {
        loop {
            match self.splitter.next()? {
                Piece::Head(head) => return Ok(Some(head)),
                Piece::Data(_) | Piece::End => {}
                Piece::Finished => return Ok(None),
                Piece::More => self.feed().await?,
            }
        }
    }

    /// Returns the next bytes of the present part; `None` at its end.
    pub(crate) async fn chunk(&mut self) -> RequestResult<Option<Bytes>> {
        loop {
            match self.splitter.next()? {
                Piece::Data(data) => return Ok(Some(data)),
                Piece::Head(_) | Piece::End | Piece::Finished => return Ok(None),
                Piece::More => self.feed().await?,
            }
        }
    }

    /// Returns the present part, which is a short text.
    pub(crate) async fn text(&mut self) -> RequestResult<String> {
        let mut text = Vec::new();
        while let Some(part) = self.chunk().await? {
            if text.len() + part.len() > MOST_TEXT {
                return Err(Problem::too_large(MOST_TEXT));
            }
            text.extend_from_slice(&part);
        }
        String::from_utf8(text).map_err(|_| Problem::usage("A field of the form is not UTF-8."))
    }

    async fn feed(&mut self) -> RequestResult<()> {
        let part = timeout(STALLED, self.body.next()).await.map_err(|_| stalled())?;
        let part = part.ok_or(MultipartError::Early)?;
        let part = part.map_err(|_| Problem::usage("The body of the request has ended early."))?;
        let length = u64::try_from(part.len()).unwrap_or(u64::MAX);
        self.left = self.left.checked_sub(length).ok_or_else(|| Problem::too_large(self.limit))?;
        self.splitter.feed(&part);
        Ok(())
    }
}

/// Splits bytes into parts. Pure.
#[derive(Debug)]
struct Splitter {
    /// The end of a line, and the line before a part.
    delimiter: Vec<u8>,
    buffer: BytesMut,
    state: SplitterState,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum SplitterState {
    /// Before the first part.
    Preamble,
    /// After a delimiter.
    Delimited,
    Head,
    Body,
    Finished,
}

/// A piece of a form.
#[derive(Debug, PartialEq, Eq)]
enum Piece {
    Head(PartHead),
    Data(Bytes),
    /// The end of a part.
    End,
    /// The end of the last part.
    Finished,
    /// More bytes are needed.
    More,
}

impl Splitter {
    fn new(boundary: &str) -> Self {
        let delimiter = format!("\r\n--{boundary}").into_bytes();
        // The first delimiter may be at the beginning, without the end of a line.
        let buffer = BytesMut::from(&b"\r\n"[..]);
        Self { delimiter, buffer, state: SplitterState::Preamble }
    }

    fn feed(&mut self, bytes: &[u8]) {
        self.buffer.extend_from_slice(bytes);
    }

    fn next(&mut self) -> Result<Piece, MultipartError> {
        loop {
            match self.state {
                SplitterState::Preamble => match self.data() {
                    Piece::End | Piece::Data(_) => {}
                    other => return Ok(other),
                },
                SplitterState::Body => return Ok(self.data()),
                SplitterState::Delimited => {
                    if self.buffer.len() < 2 {
                        return Ok(Piece::More);
                    }
                    self.state = match &self.buffer.split_to(2)[..] {
                        b"--" => SplitterState::Finished,
                        b"\r\n" => SplitterState::Head,
                        _ => return Err(MultipartError::Head),
                    };
                }
                SplitterState::Head => return self.head(),
                SplitterState::Finished => return Ok(Piece::Finished),
            }
        }
    }

    /// Returns the data up to the next delimiter.
    fn data(&mut self) -> Piece {
        match find(&self.buffer, &self.delimiter) {
            Some(0) => {
                drop(self.buffer.split_to(self.delimiter.len()));
                self.state = SplitterState::Delimited;
                Piece::End
            }
            Some(end) => Piece::Data(self.buffer.split_to(end).freeze()),
            None => {
                // The end may be the beginning of a delimiter.
                let certain = self.buffer.len().saturating_sub(self.delimiter.len() - 1);
                if certain == 0 {
                    return Piece::More;
                }
                Piece::Data(self.buffer.split_to(certain).freeze())
            }
        }
    }

    fn head(&mut self) -> Result<Piece, MultipartError> {
        let Some(end) = find(&self.buffer, b"\r\n\r\n") else {
            let is_long = self.buffer.len() > MOST_HEAD;
            return if is_long { Err(MultipartError::LongHead) } else { Ok(Piece::More) };
        };
        if end > MOST_HEAD {
            return Err(MultipartError::LongHead);
        }
        let head = self.buffer.split_to(end + 4);
        self.state = SplitterState::Body;
        let head = std::str::from_utf8(&head[..end]).map_err(|_| MultipartError::Head)?;
        part_head(head).map(Piece::Head).ok_or(MultipartError::Head)
    }
}

fn find(bytes: &[u8], part: &[u8]) -> Option<usize> {
    bytes.windows(part.len()).position(|window| window == part)
}

fn part_head(head: &str) -> Option<PartHead> {
    let mut headers = head.split("\r\n").filter_map(|line| line.split_once(':'));
    let (_, value) = headers.find(|(name, _)| name.eq_ignore_ascii_case("content-disposition"))?;
    let value = value.trim();
    // Browsers send the name first, and no quotation mark in it.
    let (_, name) = value.split_once("; name=\"")?;
    let (name, rest) = name.split_once('"')?;
    let is_file = rest.starts_with("; filename=") || rest.starts_with("; filename*=");
    Some(PartHead { name: name.to_owned(), is_file })
}

#[cfg(test)]
mod tests {
    use axum::http::{HeaderValue, header};
    use proptest::prelude::*;

    use super::*;

    const FORM: &[u8] = b"preamble\r\n--B\r\nContent-Disposition: form-data; name=\"csrf\"\r\n\r\n\
        token\r\n--B\r\ncontent-disposition: form-data; name=\"file\"; filename=\"a; name=x\"\r\n\
        Content-Type: application/octet-stream\r\n\r\n\x00\r\n--\r\n-B\r\n--B--\r\n";

    /// Returns the parts of a form that arrives in pieces of a size.
    fn parts(form: &[u8], size: usize) -> Result<Vec<(PartHead, Vec<u8>)>, MultipartError> {
        let mut splitter = Splitter::new("B");
        let mut pieces = form.chunks(size.max(1));
        let mut parts: Vec<(PartHead, Vec<u8>)> = Vec::new();
        loop {
            match splitter.next()? {
                Piece::Head(head) => parts.push((head, Vec::new())),
                Piece::Data(data) => parts.last_mut().unwrap().1.extend_from_slice(&data),
                Piece::End => {}
                Piece::Finished => return Ok(parts),
                Piece::More => splitter.feed(pieces.next().ok_or(MultipartError::Early)?),
            }
        }
    }

    #[test]
    fn parts_do_not_depend_on_the_pieces() {
        let head = |name: &str, is_file| PartHead { name: name.to_owned(), is_file };
        let expected = vec![
            (head("csrf", false), b"token".to_vec()),
            (head("file", true), b"\x00\r\n--\r\n-B".to_vec()),
        ];
        for size in 1..FORM.len() {
            assert_eq!(parts(FORM, size).as_ref(), Ok(&expected), "{size}");
        }
    }

    #[test]
    fn bad_forms_are_refused() {
        let long = format!("--B\r\n{}\r\n\r\n", "x".repeat(9 << 10));
        for (form, error) in [
            (&b""[..], MultipartError::Early),
            (&FORM[..FORM.len() - 6], MultipartError::Early),
            (&b"--Bx\r\n"[..], MultipartError::Head),
            (&b"--B\r\nX: y\r\n\r\n"[..], MultipartError::Head),
            (&b"--B\r\nContent-Disposition: form-data\r\n\r\n"[..], MultipartError::Head),
            (long.as_bytes(), MultipartError::LongHead),
        ] {
            assert_eq!(parts(form, 5), Err(error));
        }
    }

    #[test]
    fn boundaries_are_parameters() {
        for (media, expected) in [
            ("multipart/form-data; boundary=abc", Some("abc")),
            ("multipart/form-data; charset=x; Boundary=\"a b\"", Some("a b")),
            ("multipart/form-data", None),
            ("multipart/form-data; boundary=", None),
        ] {
            assert_eq!(boundary(media), expected, "{media}");
        }
        let mut headers = HeaderMap::new();
        headers.insert(header::CONTENT_TYPE, HeaderValue::from_static("Multipart/Form-Data; b=c"));
        assert!(is_multipart(&headers));
    }

    proptest! {
        #[test]
        fn no_bytes_panic(form in "(--B|\r\n|name=\"x\"|Content-Disposition: |;|a){0,30}") {
            let whole = parts(form.as_bytes(), usize::MAX);
            prop_assert_eq!(parts(form.as_bytes(), 1), whole);
        }
    }
}
