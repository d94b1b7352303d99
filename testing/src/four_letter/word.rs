//! [`Word`]: parses four-letter words.

/// A known four-letter word.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Word {
    Conf,
    Cons,
    Crst,
    Dirs,
    Dump,
    Envi,
    Gtmk,
    Isro,
    Mntr,
    Ruok,
    Srst,
    Srvr,
    Stat,
    /// A word with the mask that follows it.
    Stmk(i64),
    Wchc,
    Wchp,
    Wchs,
}

/// The meaning of the first bytes of a connection.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Opening {
    Word(Word),
    /// A word without its complete argument.
    Part,
    /// The length of a frame, or too few bytes to decide.
    Frame,
}

impl Word {
    /// Parses the first bytes of a connection.
    pub(crate) fn parse(bytes: &[u8]) -> Opening {
        let Some((word, rest)) = bytes.split_first_chunk() else { return Opening::Frame };
        if word != b"stmk" {
            return Self::named(word).map_or(Opening::Frame, Opening::Word);
        }
        rest.first_chunk()
            .map_or(Opening::Part, |mask| Opening::Word(Self::Stmk(i64::from_be_bytes(*mask))))
    }

    const fn named(word: &[u8; 4]) -> Option<Self> {
        Some(match word {
            b"conf" => Self::Conf,
            b"cons" => Self::Cons,
            b"crst" => Self::Crst,
            b"dirs" => Self::Dirs,
            b"dump" => Self::Dump,
            b"envi" => Self::Envi,
            b"gtmk" => Self::Gtmk,
            b"isro" => Self::Isro,
            b"mntr" => Self::Mntr,
            b"ruok" => Self::Ruok,
            b"srst" => Self::Srst,
            b"srvr" => Self::Srvr,
            b"stat" => Self::Stat,
            b"wchc" => Self::Wchc,
            b"wchp" => Self::Wchp,
            b"wchs" => Self::Wchs,
            _ => return None,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn words_are_not_frames() {
        assert_eq!(Word::parse(b"ruok"), Opening::Word(Word::Ruok));
        assert_eq!(Word::parse(b"ruo"), Opening::Frame);
        assert_eq!(Word::parse(b"\0\0\0\x2d"), Opening::Frame);
        assert_eq!(Word::parse(b"nope"), Opening::Frame);
        assert_eq!(Word::parse(b"stmk\0\0\0\0\0\0\x01"), Opening::Part);
        assert_eq!(Word::parse(b"stmk\0\0\0\0\0\0\x01\x02"), Opening::Word(Word::Stmk(0x102)));
    }
}
