//! Who a connection is, and what that lets it do: the schemes `world`, `auth`, `digest`, `ip` and `super`.

use std::net::{IpAddr, Ipv4Addr};

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use sha1::{Digest, Sha1};
use zk_curator_proto::ErrorCode;
use zk_curator_proto::records::{Acl, AuthPacket, Permissions};

/// Who a connection is, within a scheme.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Identity {
    pub(crate) scheme: String,
    /// Of `digest` the name and the hash, see [`digest`]; of `ip` the address; of `super` nothing.
    pub(crate) id: String,
}

impl Identity {
    /// What every connection is by itself.
    pub(crate) fn of_peer(peer: IpAddr) -> Self {
        Self { scheme: "ip".to_owned(), id: peer.to_string() }
    }

    /// The name without the hash of the password.
    pub(crate) fn user(&self) -> &str {
        match self.scheme.as_str() {
            "digest" => self.id.split(':').next().unwrap_or_default(),
            "super" => "",
            _ => &self.id,
        }
    }
}

/// The identity that ACLs of the scheme `digest` name, of credentials `user:password`: `user:` and the base64
/// form of the SHA-1 hash of the credentials.
///
/// ```
/// let id = zk_curator_testing::digest("super:test");
/// assert_eq!(id, "super:D/InIHSb7yEEbrWz8b9l71RjZJU=");
/// ```
#[must_use]
pub fn digest(credentials: &str) -> String {
    let user = credentials.split(':').next().unwrap_or_default();
    format!("{user}:{}", STANDARD.encode(Sha1::digest(credentials)))
}

/// The identities that a packet adds to a connection; `None` when it proves none.
pub(crate) fn authenticate(
    packet: &AuthPacket,
    peer: IpAddr,
    superuser: Option<&str>,
) -> Option<Vec<Identity>> {
    match packet.scheme.as_str() {
        "digest" => {
            let id = digest(&String::from_utf8_lossy(packet.auth.as_deref()?));
            let mut added = Vec::new();
            if superuser == Some(id.as_str()) {
                added.push(Identity { scheme: "super".to_owned(), id: String::new() });
            }
            added.push(Identity { scheme: "digest".to_owned(), id });
            Some(added)
        }
        "ip" => Some(vec![Identity::of_peer(peer)]),
        _ => None,
    }
}

/// Succeeds when `acl` gives any of the permissions `any_of` to any of the identities. An empty list protects
/// nothing.
pub(crate) fn check(acl: &[Acl], any_of: Permissions, who: &[Identity]) -> Result<(), ErrorCode> {
    let gives = |entry: &Acl| {
        entry.permissions.bits() & any_of.bits() != 0
            && (is_anyone(entry) || who.iter().any(|identity| matches(entry, identity)))
    };
    let is_super = || who.iter().any(|identity| identity.scheme == "super");
    if acl.is_empty() || acl.iter().any(gives) || is_super() { Ok(()) } else { Err(ErrorCode::NoAuth) }
}

/// The list as it is stored: without duplicates, and with `auth` replaced by every identity of the connection
/// that was proven.
pub(crate) fn expand(acl: Vec<Acl>, who: &[Identity]) -> Result<Vec<Acl>, ErrorCode> {
    let mut stored = Vec::with_capacity(acl.len());
    for (index, entry) in acl.iter().enumerate() {
        if acl[..index].contains(entry) {
            continue;
        }
        match entry.scheme.as_str() {
            _ if is_anyone(entry) => stored.push(entry.clone()),
            "auth" => {
                let before = stored.len();
                let proven = who.iter().filter(|identity| identity.scheme == "digest");
                stored.extend(proven.map(|identity| Acl::new(entry.permissions, "digest", &identity.id)));
                if stored.len() == before {
                    return Err(ErrorCode::InvalidAcl);
                }
            }
            "digest" if is_name_and_hash(&entry.id) => stored.push(entry.clone()),
            "ip" if network(&entry.id).is_some() => stored.push(entry.clone()),
            _ => return Err(ErrorCode::InvalidAcl),
        }
    }
    if stored.is_empty() { Err(ErrorCode::InvalidAcl) } else { Ok(stored) }
}

/// The list as it is shown to those who may read but not administer the node: without hashes.
pub(crate) fn without_hashes(acl: &[Acl]) -> Vec<Acl> {
    let hide = |entry: &Acl| match entry.id.split_once(':') {
        Some((user, _)) if entry.scheme == "digest" => {
            Acl::new(entry.permissions, "digest", format!("{user}:x"))
        }
        _ => entry.clone(),
    };
    acl.iter().map(hide).collect()
}

fn is_anyone(entry: &Acl) -> bool {
    entry.scheme == "world" && entry.id == "anyone"
}

fn matches(entry: &Acl, identity: &Identity) -> bool {
    entry.scheme == identity.scheme
        && match entry.scheme.as_str() {
            "digest" => entry.id == identity.id,
            "ip" => is_in_network(&identity.id, &entry.id),
            _ => false,
        }
}

/// Whether Java's `split(":")` finds two parts: it leaves out empty ones at the end.
fn is_name_and_hash(id: &str) -> bool {
    let parts: Vec<_> = id.trim_end_matches(':').split(':').collect();
    parts.len() == 2
}

fn is_in_network(address: &str, expression: &str) -> bool {
    let (Some((network, bits)), Some(address)) = (network(expression), ipv4(address)) else {
        return false;
    };
    let mask = u32::MAX.checked_shl(32 - bits).unwrap_or(0);
    network.to_bits() & mask == address.to_bits() & mask
}

/// An address, and how many of its bits count: all without a mask.
fn network(expression: &str) -> Option<(Ipv4Addr, u32)> {
    let (address, bits) = match expression.split_once('/') {
        Some((address, bits)) => (address, bits.parse().ok().and_then(|bits: i32| u32::try_from(bits).ok())?),
        None => (expression, 32),
    };
    (bits <= 32).then_some((ipv4(address)?, bits))
}

/// Four numbers as Java reads them: leading zeros and a plus sign are fine.
fn ipv4(address: &str) -> Option<Ipv4Addr> {
    let mut octets = [0; 4];
    let mut parts = address.split('.');
    for octet in &mut octets {
        *octet = parts.next()?.parse::<i32>().ok().and_then(|part| u8::try_from(part).ok())?;
    }
    parts.next().is_none().then_some(Ipv4Addr::from(octets))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn one(scheme: &str, id: &str) -> Vec<Acl> {
        vec![Acl::new(Permissions::ALL, scheme, id)]
    }

    #[test]
    fn lists_that_are_not_valid_are_refused() {
        let nobody = [Identity::of_peer(Ipv4Addr::LOCALHOST.into())];
        for (scheme, id) in [
            ("world", "somebody"),
            ("world", ""),
            ("auth", ""),
            ("digest", "name"),
            ("digest", "name:"),
            ("digest", "a:b:c"),
            ("digest", ":"),
            ("ip", "localhost"),
            ("ip", "1.2.3"),
            ("ip", "1.2.3.256"),
            ("ip", "1.2.3.4/33"),
            ("ip", "1.2.3.4/-1"),
            ("ip", "1.2.3.4/"),
            ("x509", "CN=a"),
            ("super", ""),
            ("", ""),
        ] {
            assert_eq!(expand(one(scheme, id), &nobody), Err(ErrorCode::InvalidAcl), "{scheme}:{id}");
        }
        assert_eq!(expand(Vec::new(), &nobody), Err(ErrorCode::InvalidAcl));
        for (scheme, id) in [
            ("world", "anyone"),
            ("digest", "a:b"),
            ("digest", ":b"),
            ("digest", "a:b:"),
            ("ip", "1.2.3.4/0"),
        ] {
            assert_eq!(expand(one(scheme, id), &nobody), Ok(one(scheme, id)));
        }
    }

    #[test]
    fn auth_becomes_every_proven_identity() {
        let id = digest("u:p");
        let who = [
            Identity::of_peer(Ipv4Addr::LOCALHOST.into()),
            Identity { scheme: "digest".into(), id: id.clone() },
            Identity { scheme: "super".into(), id: String::new() },
        ];
        assert_eq!(expand(Acl::creator_all(), &who), Ok(one("digest", &id)));
        let twice = [one("auth", ""), one("auth", "")].concat();
        assert_eq!(expand(twice, &who), Ok(one("digest", &id)));
    }

    #[test]
    fn masks_count_bits_from_the_left() {
        for (expression, matches) in [
            ("10.1.2.3", true),
            ("10.1.2.4", false),
            ("10.1.2.0/24", true),
            ("10.1.2.4/29", true),
            ("10.1.2.4/30", false),
            ("99.99.99.99/0", true),
            ("10.0.0.0/8", true),
        ] {
            assert_eq!(is_in_network("10.1.2.3", expression), matches, "{expression}");
        }
        assert!(!is_in_network("0:0:0:0:0:0:0:1", "0.0.0.0/0"));
    }

    #[test]
    fn hashes_are_hidden_from_readers() {
        let shown = without_hashes(&[one("digest", "u:hash"), one("ip", "1.2.3.4")].concat());
        assert_eq!(shown, [one("digest", "u:x"), one("ip", "1.2.3.4")].concat());
    }
}
