use crate::{DecodeError, Decoder, Encoder, Record};

/// Body of `reconfig`. Empty fields are written as Java's `null`, because a server understands an
/// empty list of members as the list of all members, and refuses it. Both are read as empty.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
#[expect(clippy::exhaustive_structs, reason = "the wire form is fixed by the protocol")]
pub struct ReconfigRequest {
    /// Servers to add or change, separated by commas.
    pub joining: String,
    /// Ids of servers to remove, separated by commas.
    pub leaving: String,
    /// All servers, separated by commas. Excludes the other two fields.
    pub members: String,
    /// The required version of the configuration, or -1 for any.
    pub version: i64,
}

impl Record for ReconfigRequest {
    const MIN_SIZE: usize = 3 * String::MIN_SIZE + i64::MIN_SIZE;

    fn encode(&self, out: &mut Encoder) {
        for text in [&self.joining, &self.leaving, &self.members] {
            out.buffer((!text.is_empty()).then_some(text.as_bytes()));
        }
        self.version.encode(out);
    }

    fn decode(input: &mut Decoder, _what: &'static str) -> Result<Self, DecodeError> {
        Ok(Self {
            joining: input.string("ReconfigRequest.joining")?,
            leaving: input.string("ReconfigRequest.leaving")?,
            members: input.string("ReconfigRequest.members")?,
            version: input.i64("ReconfigRequest.version")?,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn empty_fields_are_null() {
        let request =
            ReconfigRequest { leaving: "3".to_owned(), version: -1, ..ReconfigRequest::default() };
        let mut out = Encoder::default();
        request.encode(&mut out);
        let expected: &[u8] =
            b"\xff\xff\xff\xff\0\0\0\x013\xff\xff\xff\xff\xff\xff\xff\xff\xff\xff\xff\xff";
        assert_eq!(out.finish(), expected);
    }
}
