//! [`Lines`]: splits bytes into lines.

use bytes::{Buf, Bytes, BytesMut};

/// The maximum length of a line, with its line feed, in bytes.
pub(super) const MAX_LINE: usize = 1024 * 1024;

/// The received bytes that are not taken yet.
#[derive(Debug, Default)]
pub(super) struct Lines {
    bytes: BytesMut,
    /// The length of the prefix that is known to contain no line feed.
    searched: usize,
}

/// The error of a line longer than [`MAX_LINE`].
#[derive(Debug, PartialEq, Eq)]
pub(super) struct TooLong;

impl Lines {
    /// Returns the buffer to append received bytes to.
    pub(super) const fn buffer(&mut self) -> &mut BytesMut {
        &mut self.bytes
    }

    /// Returns `true` if no more bytes should be read before a line is taken.
    pub(super) fn is_full(&self) -> bool {
        self.bytes.len() >= MAX_LINE
    }

    /// Takes the next line, without its line feed; `None` if more bytes are necessary.
    pub(super) fn next(&mut self) -> Option<Result<Bytes, TooLong>> {
        let end = self.bytes[self.searched..].iter().position(|byte| *byte == b'\n');
        let Some(end) = end.map(|end| self.searched + end) else {
            self.searched = self.bytes.len();
            return self.is_full().then_some(Err(TooLong));
        };
        self.searched = 0;
        if end >= MAX_LINE {
            return Some(Err(TooLong));
        }
        let line = self.bytes.split_to(end).freeze();
        self.bytes.advance(1);
        Some(Ok(line))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn split(chunks: &[&[u8]]) -> (Vec<Bytes>, usize) {
        let mut lines = Lines::default();
        let mut found = Vec::new();
        for chunk in chunks {
            lines.buffer().extend_from_slice(chunk);
            while let Some(line) = lines.next() {
                found.push(line.unwrap());
            }
        }
        (found, lines.bytes.len())
    }

    #[test]
    fn chunks_do_not_matter() {
        let text = b"one\n\ntwo\r\nthree";
        let expected = (vec![Bytes::from("one"), Bytes::new(), Bytes::from("two\r")], 5);
        for first in 0..=text.len() {
            for second in first..=text.len() {
                let chunks = [&text[..first], &text[first..second], &text[second..]];
                assert_eq!(split(&chunks), expected, "{first} {second}");
            }
        }
    }

    #[test]
    fn a_line_of_more_than_a_mebibyte_is_refused() {
        let mut lines = Lines::default();
        lines.buffer().resize(MAX_LINE - 1, b'x');
        assert_eq!(lines.next(), None);
        assert!(!lines.is_full());
        lines.buffer().extend_from_slice(b"\n");
        assert_eq!(lines.next().unwrap().unwrap().len(), MAX_LINE - 1);
        lines.buffer().resize(MAX_LINE, b'x');
        assert_eq!(lines.next(), Some(Err(TooLong)));
        let mut lines = Lines::default();
        lines.buffer().resize(MAX_LINE, b'x');
        lines.buffer().extend_from_slice(b"\n");
        assert_eq!(lines.next(), Some(Err(TooLong)));
    }
}
