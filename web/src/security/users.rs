//! The users, and the hashes of their tokens.

use std::collections::BTreeSet;
use std::fmt;
use std::str::FromStr;
use std::sync::Arc;

use hmac_sha256::Hash;

use super::keys::random_token;

/// The users who may sign in, each with the SHA-256 of a token.
///
/// A file has a line for each token: a name and 64 hexadecimal digits, separated by spaces. Empty
/// lines and lines that begin with `#` are skipped. A user may have several tokens, and two users
/// may not have the same one.
///
/// ```text
/// # printf %s "$TOKEN" | sha256sum
/// ann  2c26b46b68ffc68ff99b453c1d30413413422d706483bfa0f98a5e886266e7ae
/// ```
///
/// A token must be random, with at least 128 bits: a fast hash does not protect a password. For
/// example, `openssl rand -hex 32` makes one.
///
/// ```
/// let users: zk_curator_web::Users =
///     "ann 2c26b46b68ffc68ff99b453c1d30413413422d706483bfa0f98a5e886266e7ae".parse()?;
/// assert_eq!(users.len(), 1);
/// # Ok::<(), zk_curator_web::UsersError>(())
/// ```
#[derive(Clone, Default)]
pub struct Users(Vec<([u8; 32], Arc<str>)>);

/// The reason why a text is not a list of users.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum UsersError {
    /// A line is not a name and a hash of 64 hexadecimal digits.
    #[error("line {line} is not a name and a SHA-256 of 64 hexadecimal digits")]
    Line {
        /// The number of the line, from one.
        line: usize,
    },
    /// A name is longer than 64 characters, or has other characters than letters, digits and
    /// `.`, `-`, `_`, `@`, `+`.
    #[error("line {line} has an invalid name")]
    Name {
        /// The number of the line, from one.
        line: usize,
    },
    /// Two lines have the same hash.
    #[error("line {line} has the hash of an earlier line")]
    Repeated {
        /// The number of the line, from one.
        line: usize,
    },
    /// There is no user, so nobody could sign in.
    #[error("the list has no user")]
    Empty,
}

impl FromStr for Users {
    type Err = UsersError;

    fn from_str(text: &str) -> Result<Self, UsersError> {
        let (mut users, mut known) = (Vec::new(), BTreeSet::new());
        for (line, number) in text.lines().zip(1..) {
            let line = line.trim();
            if line.is_empty() || line.starts_with('#') {
                continue;
            }
            let (name, hash) =
                line.split_once(char::is_whitespace).ok_or(UsersError::Line { line: number })?;
            let hash = hash_of(hash.trim()).ok_or(UsersError::Line { line: number })?;
            if !is_name(name) {
                return Err(UsersError::Name { line: number });
            }
            if !known.insert(hash) {
                return Err(UsersError::Repeated { line: number });
            }
            users.push((hash, Arc::from(name)));
        }
        if users.is_empty() { Err(UsersError::Empty) } else { Ok(Self(users)) }
    }
}

/// A token for a user.
#[derive(Clone)]
#[non_exhaustive]
pub struct NewToken {
    /// The token, which only the user should know.
    pub token: String,
    /// The line for the list of users.
    pub line: String,
}

impl NewToken {
    /// Makes a random token of 244 bits for a user. `None` if no user can have this name.
    ///
    /// # Panics
    /// Panics if the operating system has no random numbers.
    #[must_use]
    pub fn of(user: &str) -> Option<Self> {
        if !is_name(user) {
            return None;
        }
        let token = random_token();
        let hash = Hash::hash(token.as_bytes());
        let digits: String = hash.iter().map(|byte| format!("{byte:02x}")).collect();
        Some(Self { line: format!("{user} {digits}"), token })
    }
}

/// Shows the line only.
impl fmt::Debug for NewToken {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("NewToken").field("line", &self.line).finish_non_exhaustive()
    }
}

impl Users {
    /// Returns the number of tokens.
    #[must_use]
    pub fn len(&self) -> usize {
        self.0.len()
    }

    /// Returns `true` if there is no token. A parsed list has at least one.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// Returns the user with this token. Its hash is compared, which says nothing about the token
    /// even if an attacker measures the time.
    pub(crate) fn with_token(&self, token: &str) -> Option<Arc<str>> {
        // The hash of nothing is a common mistake in a list.
        if token.is_empty() {
            return None;
        }
        let hash = Hash::hash(token.as_bytes());
        self.0.iter().find(|(known, _)| *known == hash).map(|(_, name)| Arc::clone(name))
    }

    /// Returns `true` if there is a user of this name.
    pub(crate) fn has(&self, name: &str) -> bool {
        self.0.iter().any(|(_, known)| **known == *name)
    }
}

/// Returns `true` for a name that a user may have.
pub(crate) fn is_name(name: &str) -> bool {
    let is_plain = |c: char| c.is_alphanumeric() || matches!(c, '.' | '-' | '_' | '@' | '+');
    (1..=64).contains(&name.chars().count()) && name.chars().all(is_plain)
}

fn hash_of(text: &str) -> Option<[u8; 32]> {
    if text.len() != 64 || !text.is_ascii() {
        return None;
    }
    let mut hash = [0; 32];
    for (byte, place) in hash.iter_mut().zip((0..64).step_by(2)) {
        let digits = text.get(place..place + 2).filter(|digits| !digits.starts_with('+'))?;
        *byte = u8::from_str_radix(digits, 16).ok()?;
    }
    Some(hash)
}

/// Shows the number only.
impl fmt::Debug for Users {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Users({})", self.len())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const FOO: &str = "2c26b46b68ffc68ff99b453c1d30413413422d706483bfa0f98a5e886266e7ae";

    #[test]
    fn users_are_found_by_their_token() {
        let users: Users = format!("# users\n\n ann\t{FOO}\n").parse().unwrap();
        assert_eq!(users.with_token("foo").as_deref(), Some("ann"));
        assert_eq!(users.with_token("bar"), None);
        assert_eq!(users.with_token(FOO), None);
        let nothing = "ann e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855";
        assert_eq!(nothing.parse::<Users>().unwrap().with_token(""), None);
        assert!(users.has("ann") && !users.has("bob"));
        assert_eq!(format!("{users:?}"), "Users(1)");
    }

    #[test]
    fn a_new_token_is_that_of_its_line() {
        let new = NewToken::of("ann").unwrap();
        let users: Users = new.line.parse().unwrap();
        assert_eq!(users.with_token(&new.token).as_deref(), Some("ann"));
        assert_ne!(new.token, NewToken::of("ann").unwrap().token);
        assert!(!format!("{new:?}").contains(&new.token));
        assert!(NewToken::of("a b").is_none() && NewToken::of("").is_none());
    }

    #[test]
    fn bad_lists_are_refused() {
        for (text, error) in [
            (String::new(), UsersError::Empty),
            ("ann".to_owned(), UsersError::Line { line: 1 }),
            (format!("\nann {}", &FOO[1..]), UsersError::Line { line: 2 }),
            (format!("ann {}g", &FOO[1..]), UsersError::Line { line: 1 }),
            (format!("a<b {FOO}"), UsersError::Name { line: 1 }),
            (format!("ann {FOO}\nbob {FOO}"), UsersError::Repeated { line: 2 }),
        ] {
            assert_eq!(text.parse::<Users>().unwrap_err(), error, "{text}");
        }
    }
}
