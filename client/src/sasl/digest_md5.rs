//! DIGEST-MD5 (RFC 2831). ZooKeeper uses initial authentication with `qop=auth`.
//!
//! 1. The server sends a challenge: a nonce, and its realm.
//! 2. The client responds with a hash of both, a nonce of its own, and the password.
//! 3. The server responds with another hash (`rspauth`), for which it also needs the password.

use std::collections::hash_map::RandomState;
use std::fmt;
use std::hash::{BuildHasher, Hasher};
use std::io;
use std::sync::Arc;

use bytes::Bytes;
use md5::{Digest, Md5};

use super::{SaslExchange, SaslMechanism, SaslStep};

/// The name of every ZooKeeper server in SASL, whatever its host name is.
const SERVER_NAME: &str = "zk-sasl-md5";
/// The protocol and the server name.
const DIGEST_URI: &str = "zookeeper/zk-sasl-md5";
/// The nonce count: each nonce is used once.
const NONCE_COUNT: &str = "00000001";

/// The mechanism, for one user.
#[derive(Debug)]
pub(crate) struct DigestMd5 {
    credentials: Arc<DigestCredentials>,
}

impl DigestMd5 {
    pub(crate) fn new(user: String, password: String) -> Self {
        Self { credentials: Arc::new(DigestCredentials { user, password }) }
    }

    fn exchange(&self) -> DigestExchange {
        let credentials = Arc::clone(&self.credentials);
        DigestExchange { credentials, state: LastChallenge::Begun, cnonce: random_nonce() }
    }
}

impl SaslMechanism for DigestMd5 {
    fn start(&self, _host: &str) -> Box<dyn SaslExchange> {
        Box::new(self.exchange())
    }
}

struct DigestCredentials {
    user: String,
    password: String,
}

impl fmt::Debug for DigestCredentials {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("DigestCredentials").field("user", &self.user).finish_non_exhaustive()
    }
}

struct DigestExchange {
    credentials: Arc<DigestCredentials>,
    cnonce: String,
    state: LastChallenge,
}

/// The last message that the server has sent.
enum LastChallenge {
    /// No message.
    Begun,
    /// The challenge. The server must now prove that it knows the password.
    Challenged { rspauth: String },
    /// The proof, or an invalid message.
    Done,
}

impl fmt::Debug for DigestExchange {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("DigestExchange")
            .field("credentials", &self.credentials)
            .finish_non_exhaustive()
    }
}

impl SaslExchange for DigestExchange {
    fn step(&mut self, token: &[u8]) -> SaslStep {
        SaslStep::Ready(self.respond(token).map_err(Into::into))
    }

    fn refused(&self) -> io::Error {
        io::Error::other("the server refuses the name or the password")
    }
}

impl DigestExchange {
    fn respond(&mut self, token: &[u8]) -> Result<Option<Bytes>, &'static str> {
        match std::mem::replace(&mut self.state, LastChallenge::Done) {
            LastChallenge::Begun => {
                let challenge = Challenge::parse(token)?;
                let response =
                    DigestResponse::new(&challenge, &self.credentials, &self.cnonce, DIGEST_URI)?;
                self.state = LastChallenge::Challenged { rspauth: response.rspauth };
                Ok(Some(response.message.into()))
            }
            LastChallenge::Challenged { rspauth } => {
                let directives = directives(token)?;
                // A comparison in constant time is not needed: an attacker learns nothing that
                // helps in the next attempt, which has other nonces and therefore another value.
                match directives.iter().find(|(name, _)| name.eq_ignore_ascii_case("rspauth")) {
                    Some((_, value)) if *value == rspauth => Ok(None),
                    Some(_) => Err("the server does not know the password"),
                    None => Err("the server did not prove that it knows the password"),
                }
            }
            LastChallenge::Done => Err("the server continues after the end of the exchange"),
        }
    }
}

/// The parts of the server's challenge that the client uses.
#[derive(Debug, PartialEq, Eq)]
struct Challenge {
    realm: String,
    nonce: String,
    is_utf8: bool,
}

impl Challenge {
    fn parse(token: &[u8]) -> Result<Self, &'static str> {
        let (mut realm, mut nonce, mut algorithm, mut charset, mut qop) =
            (None, None, None, None, None);
        for (name, value) in directives(token)? {
            let once = match name.to_ascii_lowercase().as_str() {
                // There may be several realms to choose from.
                "realm" if realm.is_some() => continue,
                "realm" => &mut realm,
                "nonce" => &mut nonce,
                "algorithm" => &mut algorithm,
                "charset" => &mut charset,
                "qop" => &mut qop,
                _ => continue,
            };
            if once.replace(value).is_some() {
                return Err("the challenge contains a directive twice");
            }
        }
        if !algorithm.is_some_and(|algorithm| algorithm.eq_ignore_ascii_case("md5-sess")) {
            return Err("the challenge is for another algorithm");
        }
        if qop.is_some_and(|qop| !qop.split(',').any(|one| one.trim().eq_ignore_ascii_case("auth")))
        {
            return Err(
                "the server wants integrity or confidentiality of SASL, which ZooKeeper cannot have",
            );
        }
        let is_utf8 = match charset {
            None => false,
            Some(charset) if charset.eq_ignore_ascii_case("utf-8") => true,
            Some(_) => return Err("the challenge is in an unknown character set"),
        };
        let nonce = nonce.ok_or("the challenge has no nonce")?;
        // Java's client does the same without a realm.
        let realm = realm.unwrap_or_else(|| SERVER_NAME.to_owned());
        Ok(Self { realm, nonce, is_utf8 })
    }
}

/// The response to a challenge.
#[derive(PartialEq, Eq)]
struct DigestResponse {
    message: Vec<u8>,
    /// The response that the server must send.
    rspauth: String,
}

impl DigestResponse {
    fn new(
        challenge: &Challenge,
        credentials: &DigestCredentials,
        cnonce: &str,
        digest_uri: &str,
    ) -> Result<Self, &'static str> {
        let Challenge { realm, nonce, is_utf8 } = challenge;
        let hashed = |text| latin1(text).or_else(|| is_utf8.then(|| text.as_bytes().to_vec()));
        let (Some(user), Some(hashed_realm), Some(password)) =
            (hashed(&credentials.user), hashed(realm), hashed(&credentials.password))
        else {
            return Err("the server takes no name or password with such characters");
        };
        let secret = md5(&[&user, b":", &hashed_realm, b":", &password]);
        let key = hex(&md5(&[&secret, b":", nonce.as_bytes(), b":", cnonce.as_bytes()]));
        let proof = |method: &str| {
            let action = hex(&md5(&[method.as_bytes(), b":", digest_uri.as_bytes()]));
            hex(&md5(&[format!("{key}:{nonce}:{NONCE_COUNT}:{cnonce}:auth:{action}").as_bytes()]))
        };

        let mut message = Vec::with_capacity(256);
        if *is_utf8 {
            message.extend_from_slice(b"charset=utf-8,");
        }
        let on_wire =
            |text: &str, hashed: Vec<u8>| if *is_utf8 { text.as_bytes().to_vec() } else { hashed };
        put_quoted(&mut message, "username", &on_wire(&credentials.user, user));
        put_quoted(&mut message, "realm", &on_wire(realm, hashed_realm));
        put_quoted(&mut message, "nonce", nonce.as_bytes());
        message.extend_from_slice(format!("nc={NONCE_COUNT},").as_bytes());
        put_quoted(&mut message, "cnonce", cnonce.as_bytes());
        put_quoted(&mut message, "digest-uri", digest_uri.as_bytes());
        message
            .extend_from_slice(format!("response={},qop=auth", proof("AUTHENTICATE")).as_bytes());
        Ok(Self { message, rspauth: proof("") })
    }
}

/// Splits `name=value, name="quoted \" value"` (RFC 2831, 7.1).
fn directives(token: &[u8]) -> Result<Vec<(String, String)>, &'static str> {
    const MALFORMED: &str = "the server's words are malformed";
    let text = std::str::from_utf8(token).map_err(|_| MALFORMED)?;
    let mut directives = Vec::new();
    let mut rest = text.trim_start_matches(is_separator);
    while !rest.is_empty() {
        let (name, after) = rest.split_once('=').ok_or(MALFORMED)?;
        let name = name.trim_matches(is_space);
        if name.is_empty() || name.contains(|c| c == '"' || is_separator(c)) {
            return Err(MALFORMED);
        }
        let after = after.trim_start_matches(is_space);
        let (value, after) = if let Some(quoted) = after.strip_prefix('"') {
            unquote(quoted).ok_or(MALFORMED)?
        } else {
            let end = after.find(is_separator).unwrap_or(after.len());
            (after[..end].to_owned(), &after[end..])
        };
        directives.push((name.to_owned(), value));
        let after = after.trim_start_matches(is_space);
        if !after.is_empty() && !after.starts_with(',') {
            return Err(MALFORMED);
        }
        rest = after.trim_start_matches(is_separator);
    }
    Ok(directives)
}

/// Returns the text before the closing quote, without its backslashes, and the text after the
/// quote.
fn unquote(text: &str) -> Option<(String, &str)> {
    let mut value = String::new();
    let mut chars = text.char_indices();
    while let Some((at, c)) = chars.next() {
        match c {
            '"' => return Some((value, &text[at + 1..])),
            '\\' => value.push(chars.next()?.1),
            c => value.push(c),
        }
    }
    None
}

fn put_quoted(message: &mut Vec<u8>, name: &str, value: &[u8]) {
    message.extend_from_slice(name.as_bytes());
    message.extend_from_slice(b"=\"");
    for byte in value {
        if matches!(byte, b'"' | b'\\') {
            message.push(b'\\');
        }
        message.push(*byte);
    }
    message.extend_from_slice(b"\",");
}

const fn is_space(c: char) -> bool {
    matches!(c, ' ' | '\t' | '\r' | '\n')
}

const fn is_separator(c: char) -> bool {
    c == ',' || is_space(c)
}

/// Encodes a text in ISO 8859-1, which is hashed wherever it is possible, whatever the encoding on
/// the wire is (RFC 2831, 2.1.2.1).
fn latin1(text: &str) -> Option<Vec<u8>> {
    text.chars().map(|c| u8::try_from(c).ok()).collect()
}

fn md5(parts: &[&[u8]]) -> [u8; 16] {
    let mut hash = Md5::new();
    for part in parts {
        hash.update(part);
    }
    hash.finalize().into()
}

fn hex(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}

/// Returns 128 random bits, so that no server can choose what the client hashes.
///
/// The hash maps of the standard library are keyed by the operating system's randomness, and their
/// hash is a keyed pseudo-random function. That is as good as a random number generator here, and
/// needs no dependency. `fastrand` would be predictable from its other outputs.
fn random_nonce() -> String {
    let keys = RandomState::new();
    let word = |number| {
        let mut hasher = keys.build_hasher();
        hasher.write_u8(number);
        hasher.finish()
    };
    format!("{:016x}{:016x}", word(0), word(1))
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn chris() -> DigestCredentials {
        DigestCredentials { user: "chris".into(), password: "secret".into() }
    }

    fn text(bytes: &[u8]) -> &str {
        std::str::from_utf8(bytes).unwrap()
    }

    /// Both examples of RFC 2831, section 4.
    #[test]
    fn the_examples_of_the_rfc_hold() {
        for (challenge, cnonce, uri, response, rspauth) in [
            (
                "realm=\"elwood.innosoft.com\",nonce=\"OA6MG9tEQGm2hh\",qop=\"auth\",algorithm=md5-sess,charset=utf-8",
                "OA6MHXh6VqTrRk",
                "imap/elwood.innosoft.com",
                "d388dad90d4bbd760a152321f2143af7",
                "ea40f60335c427b5527b84dbabcdfffd",
            ),
            (
                "realm=\"elwood.innosoft.com\",nonce=\"OA9BSXrbuRhWay\",qop=\"auth\",algorithm=md5-sess,charset=utf-8",
                "OA9BSuZWMSpW8m",
                "acap/elwood.innosoft.com",
                "6084c6db3fede7352c551284490fd0fc",
                "2f0b3d7c3c2e486600ef710726aa2eae",
            ),
        ] {
            let challenge = Challenge::parse(challenge.as_bytes()).unwrap();
            let answer = DigestResponse::new(&challenge, &chris(), cnonce, uri).unwrap();
            let nonce = &challenge.nonce;
            assert_eq!(
                text(&answer.message),
                format!(
                    "charset=utf-8,username=\"chris\",realm=\"elwood.innosoft.com\",nonce=\"{nonce}\",nc=00000001,\
                     cnonce=\"{cnonce}\",digest-uri=\"{uri}\",response={response},qop=auth"
                )
            );
            assert_eq!(answer.rspauth, rspauth);
        }
    }

    #[test]
    fn an_exchange_ends_with_the_proof_of_the_server() {
        let challenge = b"realm=\"zk-sasl-md5\",nonce=\"n\",charset=utf-8,algorithm=md5-sess";
        let begin = || {
            let mut exchange = DigestExchange {
                credentials: Arc::new(chris()),
                cnonce: "c".into(),
                state: LastChallenge::Begun,
            };
            let answer = exchange.respond(challenge).unwrap().unwrap();
            assert!(text(&answer).contains("digest-uri=\"zookeeper/zk-sasl-md5\""));
            exchange
        };
        let parsed = Challenge::parse(challenge).unwrap();
        let proof = DigestResponse::new(&parsed, &chris(), "c", DIGEST_URI).unwrap().rspauth;

        let mut exchange = begin();
        assert_eq!(exchange.respond(format!("rspauth={proof}").as_bytes()), Ok(None));
        exchange.respond(b"").unwrap_err();
        for wrong in ["rspauth=00", "rspauth", "", "nonce=\"x\"", "\u{fffd}"] {
            let mut exchange = begin();
            exchange.respond(wrong.as_bytes()).unwrap_err();
            // There is no second attempt.
            exchange.respond(format!("rspauth={proof}").as_bytes()).unwrap_err();
        }
    }

    #[test]
    fn challenges_are_read_as_the_grammar_allows() {
        let parse = |text: &str| Challenge::parse(text.as_bytes());
        let challenge = parse(
            ", ,NONCE = \"a\\\"b\\\\,c\" ,\r\n algorithm=MD5-sess ,qop=\"auth-int, auth\",cipher=\"rc4\",maxbuf=1,",
        );
        let expected =
            Challenge { realm: SERVER_NAME.into(), nonce: "a\"b\\,c".into(), is_utf8: false };
        assert_eq!(challenge, Ok(expected));
        assert_eq!(parse("realm=\"a\",realm=\"b\",nonce=n,algorithm=md5-sess").unwrap().realm, "a");
        for wrong in [
            "",
            "algorithm=md5-sess",
            "nonce=\"n\"",
            "nonce=\"n\",nonce=\"n\",algorithm=md5-sess",
            "nonce=\"n\",algorithm=md5-sess,algorithm=md5-sess",
            "nonce=\"n\",algorithm=md5",
            "nonce=\"n\",algorithm=md5-sess,qop=\"auth-int,auth-conf\"",
            "nonce=\"n\",algorithm=md5-sess,charset=latin1",
            "nonce=\"n,algorithm=md5-sess",
            "nonce=\"n\\",
            "nonce=\"n\"algorithm=md5-sess",
            "nonce=\"n\",algorithm=md5-sess,rest",
            "=x,nonce=\"n\",algorithm=md5-sess",
        ] {
            parse(wrong).unwrap_err();
        }
    }

    #[test]
    fn latin1_text_is_hashed_as_latin1_and_sent_as_utf8() {
        let challenge = Challenge { realm: "r".into(), nonce: "n".into(), is_utf8: true };
        let response = |user: &str, password: &str, challenge: &Challenge| {
            let credentials = DigestCredentials { user: user.into(), password: password.into() };
            DigestResponse::new(challenge, &credentials, "c", DIGEST_URI)
        };
        let umlaut = response("jörg", "p", &challenge).unwrap();
        assert!(text(&umlaut.message).contains("username=\"jörg\""));
        // Computed with Python: the MD5 of `b"j\xf6rg:r:p"` and so on.
        assert_eq!(umlaut.rspauth, "60604d0106fd5b8b44eeb1a122e3c45f");

        assert!(response("日本", "p", &challenge).is_ok());
        let latin1_only = Challenge { is_utf8: false, ..challenge };
        assert!(response("日本", "p", &latin1_only).is_err());
        assert!(response("u", "日本", &latin1_only).is_err());
        let plain = response("jörg", "p", &latin1_only).unwrap().message;
        assert!(plain.windows(6).any(|window| window == b"\"j\xf6rg\""));
    }

    #[test]
    fn quotes_in_names_are_escaped() {
        let credentials = DigestCredentials { user: "a\"b\\c".into(), password: "p".into() };
        let challenge = Challenge { realm: "r\"".into(), nonce: "n\\".into(), is_utf8: true };
        let message =
            DigestResponse::new(&challenge, &credentials, "c", DIGEST_URI).unwrap().message;
        let said = directives(&message).unwrap();
        let said = |name: &str| &said.iter().find(|(found, _)| found == name).unwrap().1;
        assert_eq!((said("username").as_str(), said("realm").as_str()), ("a\"b\\c", "r\""));
        assert_eq!(said("nonce"), "n\\");
    }

    #[test]
    fn nonces_differ_and_nothing_secret_is_printed() {
        let mechanism = DigestMd5::new("chris".into(), "s3cret".into());
        let mut exchange = mechanism.exchange();
        exchange.respond(b"nonce=\"n\",algorithm=md5-sess").unwrap();
        let printed = format!("{mechanism:?} {exchange:?}");
        assert!(printed.contains("chris") && !printed.contains("s3cret"), "{printed}");
        let nonces: std::collections::HashSet<_> = (0..1000).map(|_| random_nonce()).collect();
        assert_eq!(nonces.len(), 1000);
        assert!(nonces.iter().all(|nonce| nonce.len() == 32));
    }

    proptest! {
        #[test]
        fn no_words_but_the_proof_end_the_exchange(token: Vec<u8>, tail: String) {
            let mut exchange = DigestMd5::new("u".into(), "p".into()).exchange();
            prop_assert_ne!(exchange.respond(&token), Ok(None));
            let mut exchange = DigestMd5::new("u".into(), "p".into()).exchange();
            let challenge = format!("nonce=\"n\",algorithm=md5-sess,{tail}");
            prop_assert_ne!(exchange.respond(challenge.as_bytes()), Ok(None));
            prop_assert_ne!(exchange.respond(tail.as_bytes()), Ok(None));
        }
    }
}
