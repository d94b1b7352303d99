//! Identities of connections and access checks: the schemes `world`, `auth`, `digest`, `ip` and
//! `super`.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use sha1_smol::Sha1;
use zk_curator_proto::ErrorCode;
use zk_curator_proto::records::{Acl, AuthPacket, Permissions};

use crate::version::ZooKeeperVersion;

/// An identity of a connection.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Identity {
    pub(crate) scheme: String,
    /// For `digest` the name and the hash, see [`digest`]; for `ip` the address; for `super` empty.
    pub(crate) id: String,
}

impl Identity {
    /// Returns the identity that every connection has.
    pub(crate) fn of_peer(peer: IpAddr) -> Self {
        Self { scheme: "ip".to_owned(), id: java_address(peer) }
    }

    /// Returns the name without the hash of the password.
    pub(crate) fn user(&self) -> &str {
        match self.scheme.as_str() {
            "digest" => self.id.split(':').next().unwrap_or_default(),
            "super" => "",
            _ => &self.id,
        }
    }
}

/// Returns the id that ACLs of the scheme `digest` contain for credentials `user:password`: `user:`
/// and the base64 form of the SHA-1 hash of the credentials.
///
/// ```
/// let id = zk_curator_testing::digest("super:test");
/// assert_eq!(id, "super:D/InIHSb7yEEbrWz8b9l71RjZJU=");
/// ```
#[must_use]
pub fn digest(credentials: &str) -> String {
    let user = credentials.split(':').next().unwrap_or_default();
    format!("{user}:{}", STANDARD.encode(Sha1::from(credentials).digest().bytes()))
}

/// Returns the identities that a packet adds to a connection; `None` if it proves none.
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

/// Sorts identities by the iteration order of Java's concurrent hash set, in which Apache ZooKeeper
/// lists them. Identities with equal table slots keep their order; with more than twelve identities
/// theirs may differ from Java's.
pub(crate) fn sort(identities: &mut [Identity]) {
    let mut places = 16;
    while identities.len() * 4 >= places * 3 {
        places *= 2;
    }
    identities.sort_by_key(|identity| {
        let of = |text: &str| {
            text.encode_utf16().fold(0i32, |hash, unit| mix(31, hash, i32::from(unit)))
        };
        let hash = mix(37, mix(37, 17, of(&identity.scheme)), of(&identity.id)).cast_unsigned();
        (hash ^ hash >> 16) as usize & (places - 1)
    });
}

const fn mix(factor: i32, hash: i32, next: i32) -> i32 {
    hash.wrapping_mul(factor).wrapping_add(next)
}

/// Returns the address as Java writes it: without `::`.
pub(crate) fn java_address(address: IpAddr) -> String {
    match address.to_canonical() {
        IpAddr::V4(address) => address.to_string(),
        IpAddr::V6(address) => address.segments().map(|segment| format!("{segment:x}")).join(":"),
    }
}

/// Succeeds if `acl` grants any of the permissions `any_of` to any of the identities. An empty list
/// grants everything.
pub(crate) fn check(acl: &[Acl], any_of: Permissions, who: &[Identity]) -> Result<(), ErrorCode> {
    let gives = |entry: &Acl| {
        entry.permissions.bits() & any_of.bits() != 0
            && (is_anyone(entry) || who.iter().any(|identity| matches(entry, identity)))
    };
    let is_super = || who.iter().any(|identity| identity.scheme == "super");
    if acl.is_empty() || acl.iter().any(gives) || is_super() {
        Ok(())
    } else {
        Err(ErrorCode::NoAuth)
    }
}

/// Returns the list to store: without duplicates, and with `auth` replaced by every proven identity
/// of the connection.
pub(crate) fn expand(
    acl: Vec<Acl>,
    who: &[Identity],
    version: ZooKeeperVersion,
) -> Result<Vec<Acl>, ErrorCode> {
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
                stored.extend(
                    proven.map(|identity| Acl::new(entry.permissions, "digest", &identity.id)),
                );
                if stored.len() == before {
                    return Err(ErrorCode::InvalidAcl);
                }
            }
            "digest" if is_name_and_hash(&entry.id) => stored.push(entry.clone()),
            "ip" if network(&entry.id).is_some_and(|(address, _)| is_known(address, version)) => {
                stored.push(entry.clone());
            }
            _ => return Err(ErrorCode::InvalidAcl),
        }
    }
    if stored.is_empty() { Err(ErrorCode::InvalidAcl) } else { Ok(stored) }
}

/// Returns the list for clients that may read but not administer the node: without hashes.
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

/// Returns `true` if Java's `split(":")`, which drops trailing empty parts, finds two parts.
fn is_name_and_hash(id: &str) -> bool {
    let parts: Vec<_> = id.trim_end_matches(':').split(':').collect();
    parts.len() == 2
}

fn is_in_network(address: &str, expression: &str) -> bool {
    match (network(expression), ip(address)) {
        (Some((IpAddr::V4(network), bits)), Some(IpAddr::V4(address))) => {
            let mask = u32::MAX.checked_shl(32 - bits).unwrap_or(0);
            (network.to_bits() ^ address.to_bits()) & mask == 0
        }
        (Some((IpAddr::V6(network), bits)), Some(IpAddr::V6(address))) => {
            let mask = u128::MAX.checked_shl(128 - bits).unwrap_or(0);
            (network.to_bits() ^ address.to_bits()) & mask == 0
        }
        _ => false,
    }
}

/// Parses an address and the length of its mask; without a mask all bits count.
fn network(expression: &str) -> Option<(IpAddr, u32)> {
    let (address, bits) = match expression.split_once('/') {
        Some((address, bits)) => (address, Some(bits)),
        None => (expression, None),
    };
    let address = ip(address)?;
    let all = if address.is_ipv4() { 32 } else { 128 };
    let bits = match bits {
        Some(bits) => bits.parse::<i32>().ok().and_then(|bits| u32::try_from(bits).ok())?,
        None => all,
    };
    (bits <= all).then_some((address, bits))
}

/// Returns `true` if this version knows the address. Apache ZooKeeper supports IPv6 since 3.9.4.
fn is_known(address: IpAddr, version: ZooKeeperVersion) -> bool {
    address.is_ipv4() || version == ZooKeeperVersion::V3_9
}

fn ip(address: &str) -> Option<IpAddr> {
    if address.contains(':') {
        ipv6(address).map(IpAddr::V6)
    } else {
        ipv4(address).map(IpAddr::V4)
    }
}

/// Parses eight numbers, or fewer and one `::`, of up to four characters each, as Java does: signs
/// are allowed. Forms with an IPv4 part or a zone are not supported.
fn ipv6(address: &str) -> Option<Ipv6Addr> {
    let numbers = |part: &str| -> Option<Vec<u16>> {
        let number = |text: &str| {
            let value = i32::from_str_radix(text, 16).ok().filter(|_| text.len() <= 4)?;
            Some(value as u16)
        };
        if part.is_empty() { Some(Vec::new()) } else { part.split(':').map(number).collect() }
    };
    let mut segments = [0; 8];
    match address.split("::").collect::<Vec<_>>()[..] {
        [whole] => segments = numbers(whole)?.try_into().ok()?,
        [first, last] => {
            let (first, last) = (numbers(first)?, numbers(last)?);
            if first.len() + last.len() >= segments.len() {
                return None;
            }
            segments[..first.len()].copy_from_slice(&first);
            segments[8 - last.len()..].copy_from_slice(&last);
        }
        _ => return None,
    }
    Some(segments.into())
}

/// Parses four numbers as Java does: leading zeros and plus signs are allowed.
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
    use ZooKeeperVersion::{V3_8, V3_9};

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
            ("ip", "1:2:3:4:5:6:7"),
            ("ip", "1:2:3:4:5:6:7:8:9"),
            ("ip", "1:2:3:4:5:6:7::8"),
            ("ip", "1::2::3"),
            ("ip", ":1:2:3:4:5:6:7"),
            ("ip", "1:2:3:4:5:6:7:"),
            ("ip", ":::"),
            ("ip", "12345::"),
            ("ip", "g::"),
            ("ip", "::ffff:1.2.3.4"),
            ("ip", "fe80::1%eth0"),
            ("ip", "::1/129"),
            ("ip", "::1/-1"),
            ("ip", "::1/"),
            ("x509", "CN=a"),
            ("super", ""),
            ("", ""),
        ] {
            assert_eq!(
                expand(one(scheme, id), &nobody, V3_9),
                Err(ErrorCode::InvalidAcl),
                "{scheme}:{id}"
            );
        }
        assert_eq!(expand(Vec::new(), &nobody, V3_9), Err(ErrorCode::InvalidAcl));
        for (scheme, id) in [
            ("world", "anyone"),
            ("digest", "a:b"),
            ("digest", ":b"),
            ("digest", "a:b:"),
            ("ip", "1.2.3.4/0"),
            ("ip", "::"),
            ("ip", "::1/128"),
            ("ip", "1::8"),
            ("ip", "1:2:3:4:5:6:7:8/64"),
            ("ip", "-1::+f"),
        ] {
            assert_eq!(expand(one(scheme, id), &nobody, V3_9), Ok(one(scheme, id)));
            let before = if id.contains("::") || id.contains(":2:") {
                Err(ErrorCode::InvalidAcl)
            } else {
                Ok(one(scheme, id))
            };
            assert_eq!(expand(one(scheme, id), &nobody, V3_8), before, "{id}");
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
        assert_eq!(expand(Acl::creator_all(), &who, V3_9), Ok(one("digest", &id)));
        let twice = [one("auth", ""), one("auth", "")].concat();
        assert_eq!(expand(twice, &who, V3_9), Ok(one("digest", &id)));
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
        for (expression, matches) in [
            ("fe80::10:20", true),
            ("FE80:0:0:0:0:0:10:20", true),
            ("fe80:0000::0010:0020", true),
            ("fe80::10:21", false),
            ("fe80::/10", true),
            ("febf::/10", true),
            ("fec0::/10", false),
            ("fe80::10:21/127", true),
            ("fe80::10:22/127", false),
            ("fe80::10:22/126", true),
            ("::/0", true),
            ("::/1", false),
            ("0.0.0.0/0", false),
        ] {
            assert_eq!(is_in_network("fe80:0:0:0:0:0:10:20", expression), matches, "{expression}");
        }
        assert!(!is_in_network("10.1.2.3", "::/0"));
    }

    #[test]
    fn addresses_are_written_as_java_does() {
        for (address, written) in [
            ("::1", "0:0:0:0:0:0:0:1"),
            ("2001:db8::a", "2001:db8:0:0:0:0:0:a"),
            ("::ffff:10.1.2.3", "10.1.2.3"),
            ("10.1.2.3", "10.1.2.3"),
        ] {
            assert_eq!(java_address(address.parse().unwrap()), written);
        }
    }

    #[test]
    fn hashes_are_hidden_from_readers() {
        let shown = without_hashes(&[one("digest", "u:hash"), one("ip", "1.2.3.4")].concat());
        assert_eq!(shown, [one("digest", "u:x"), one("ip", "1.2.3.4")].concat());
    }
}
