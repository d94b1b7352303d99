//! Secrets of this process: random tokens, and a key for their authentication codes.

use std::fmt;

use hmac_sha256::HMAC;
use uuid::Uuid;

/// Returns a random token of 64 hexadecimal digits, with 244 bits from the operating system.
pub(crate) fn random_token() -> String {
    format!("{}{}", Uuid::new_v4().simple(), Uuid::new_v4().simple())
}

/// A key that is made at the start and never leaves the process.
///
/// Secrets are compared by their codes under this key, which an attacker cannot predict. So the
/// time that a comparison takes says nothing about a secret.
#[derive(Clone)]
pub(crate) struct Keys(String);

/// The session of a user with ZooKeeper: a code of the user and the digest, under the key of this
/// process.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct ClientId([u8; 32]);

impl Keys {
    pub(crate) fn random() -> Self {
        Self(random_token())
    }

    /// Returns the code of a text. `purpose` keeps the codes for different purposes apart.
    pub(crate) fn code(&self, purpose: &str, text: &[u8]) -> [u8; 32] {
        let length = purpose.len().to_be_bytes();
        HMAC::mac([&length[..], purpose.as_bytes(), text].concat(), &self.0)
    }

    /// Returns the code of a text as 64 hexadecimal digits.
    pub(crate) fn token(&self, purpose: &str, text: &[u8]) -> String {
        self.code(purpose, text).iter().map(|byte| format!("{byte:02x}")).collect()
    }

    /// Returns the token against forged requests of a session.
    pub(crate) fn csrf(&self, session: &str, user: &str) -> String {
        self.token("csrf", &[session.as_bytes(), b"\0", user.as_bytes()].concat())
    }

    /// Returns the id of the session of a user with a digest.
    pub(crate) fn client_id(&self, user: &str, digest: &str) -> ClientId {
        // Neither a name nor a digest contains this byte.
        ClientId(self.code("client", &[user.as_bytes(), b"\0", digest.as_bytes()].concat()))
    }

    /// Compares two secrets.
    pub(crate) fn are_equal(&self, one: &str, other: &str) -> bool {
        self.code("compare", one.as_bytes()) == self.code("compare", other.as_bytes())
    }
}

impl fmt::Debug for Keys {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Keys").finish_non_exhaustive()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn codes_depend_on_everything() {
        let keys = Keys::random();
        assert_eq!(keys.csrf("s", "ann"), keys.csrf("s", "ann"));
        assert_ne!(keys.csrf("s", "ann"), keys.csrf("s", "bob"));
        assert_ne!(keys.csrf("s", "ann"), Keys::random().csrf("s", "ann"));
        assert_ne!(keys.code("ab", b"c"), keys.code("a", b"bc"));
        assert_eq!(keys.client_id("ann", "x:y"), keys.client_id("ann", "x:y"));
        assert_ne!(keys.client_id("ann", "x:y"), keys.client_id("bob", "x:y"));
        assert_ne!(keys.client_id("ann", "x:y"), keys.client_id("ann", "x:z"));
        assert!(keys.are_equal("x", "x") && !keys.are_equal("x", "y"));
        assert_eq!(random_token().len(), 64);
    }
}
