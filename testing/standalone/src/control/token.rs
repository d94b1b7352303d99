//! [`Token`]: the secret that connections present.

use std::fmt;
use std::hint::black_box;
use std::ops::RangeInclusive;

/// The environment variable with the token.
const VARIABLE: &str = "ZK_TEST_SERVER_TOKEN";
/// The length of a token, in characters.
const LENGTH: RangeInclusive<usize> = 16..=256;

/// The secret that every connection must present. It is never printed.
pub struct Token(String);

impl fmt::Debug for Token {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Token")
    }
}

impl Token {
    /// Reads the token from the environment variable `ZK_TEST_SERVER_TOKEN`.
    ///
    /// # Errors
    /// A text of one line if the variable is not set, or is no token.
    pub fn from_env() -> Result<Self, String> {
        match std::env::var(VARIABLE) {
            Ok(text) => Self::new(text),
            Err(std::env::VarError::NotPresent) => Err(format!("{VARIABLE} is not set")),
            Err(std::env::VarError::NotUnicode(_)) => Err(format!("{VARIABLE} is not UTF-8")),
        }
    }

    /// Checks the length of a token.
    ///
    /// # Errors
    /// A text of one line, without the token.
    pub(super) fn new(text: String) -> Result<Self, String> {
        if LENGTH.contains(&text.chars().count()) {
            Ok(Self(text))
        } else {
            let (from, to) = LENGTH.into_inner();
            Err(format!("{VARIABLE} must have {from} to {to} characters"))
        }
    }

    /// Returns `true` if the texts are equal. The time depends only on their lengths.
    pub(super) fn is(&self, presented: &str) -> bool {
        let (secret, presented) = (self.0.as_bytes(), presented.as_bytes());
        let pairs = secret.iter().zip(presented);
        let different = pairs.fold(0, |different, (a, b)| black_box(different | (a ^ b)));
        secret.len() == presented.len() && different == 0
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_the_same_token_is_accepted() {
        let token = Token::new("0123456789abcdef".to_owned()).unwrap();
        assert!(token.is("0123456789abcdef"));
        for other in
            ["", "0123456789abcde", "0123456789abcdeg", "1123456789abcdef", "0123456789abcdef0"]
        {
            assert!(!token.is(other), "{other}");
        }
        assert_eq!(format!("{token:?}"), "Token");
    }

    #[test]
    fn short_and_long_tokens_are_refused_without_an_echo() {
        for length in [0, 15, 257] {
            let error = Token::new("q".repeat(length)).unwrap_err();
            assert_eq!(error, "ZK_TEST_SERVER_TOKEN must have 16 to 256 characters");
        }
        // Characters count, not bytes.
        assert!(Token::new("ä".repeat(256)).is_ok() && Token::new("ä".repeat(15)).is_err());
    }
}
