//! Networks of IP addresses.

use std::net::{IpAddr, Ipv6Addr};
use std::str::FromStr;

/// A network, such as `10.0.0.0/8` or `::1`.
///
/// ```
/// let network: zk_curator_web::Network = "10.0.0.0/8".parse()?;
/// assert!(network.contains("10.1.2.3".parse()?));
/// assert!(!network.contains("11.1.2.3".parse()?));
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Network {
    address: IpAddr,
    /// The number of leading bits that count.
    bits: u32,
}

/// The text is not an IP address with an optional prefix length.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error(
    "not a network: write an IP address, optionally with the length of its prefix (10.0.0.0/8)"
)]
#[non_exhaustive]
pub struct NetworkError;

impl FromStr for Network {
    type Err = NetworkError;

    fn from_str(text: &str) -> Result<Self, NetworkError> {
        let (address, bits) = match text.split_once('/') {
            Some((address, bits)) => (address, Some(bits)),
            None => (text, None),
        };
        let address: IpAddr = address.parse().map_err(|_| NetworkError)?;
        let most = if address.is_ipv4() { 32 } else { 128 };
        let bits = match bits {
            Some(bits) => bits.parse().ok().filter(|bits| *bits <= most).ok_or(NetworkError)?,
            None => most,
        };
        Ok(Self { address, bits })
    }
}

impl Network {
    /// Returns `true` if the address is in the network. An address of IPv4 that is mapped to IPv6
    /// counts as one of IPv4.
    #[must_use]
    pub fn contains(&self, address: IpAddr) -> bool {
        match (self.address, address.to_canonical()) {
            (IpAddr::V4(own), IpAddr::V4(other)) => {
                let differing = own.to_bits() ^ other.to_bits();
                differing.leading_zeros() >= self.bits
            }
            (IpAddr::V6(own), IpAddr::V6(other)) => {
                let differing = own.to_bits() ^ other.to_bits();
                differing.leading_zeros() >= self.bits
            }
            _ => false,
        }
    }
}

/// Returns the address by which a client is counted: its address of IPv4, or its network of IPv6. A
/// client often has a whole network of 64 bits.
pub(crate) fn counted_network(address: IpAddr) -> IpAddr {
    match address.to_canonical() {
        IpAddr::V6(v6) => IpAddr::V6(Ipv6Addr::from_bits(v6.to_bits() >> 64 << 64)),
        v4 => v4,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn clients_are_counted_by_their_networks() {
        for (address, counted) in [
            ("10.0.0.1", "10.0.0.1"),
            ("::ffff:10.0.0.1", "10.0.0.1"),
            ("2001:db8::1:2:3:4", "2001:db8::"),
            ("2001:db8:0:1::9", "2001:db8:0:1::"),
        ] {
            let network = counted_network(address.parse().unwrap());
            assert_eq!(network.to_string(), counted, "{address}");
        }
    }

    #[test]
    fn prefixes_are_compared() {
        for (network, address, is_inside) in [
            ("10.0.0.0/8", "10.255.0.1", true),
            ("10.0.0.0/8", "::ffff:10.0.0.1", true),
            ("10.0.0.0/8", "11.0.0.1", false),
            ("0.0.0.0/0", "1.2.3.4", true),
            ("0.0.0.0/0", "2001:db8::1", false),
            ("127.0.0.1", "127.0.0.1", true),
            ("127.0.0.1", "127.0.0.2", false),
            ("2001:db8::/32", "2001:db8:1::1", true),
            ("::/0", "::1", true),
        ] {
            let network: Network = network.parse().unwrap();
            assert_eq!(network.contains(address.parse().unwrap()), is_inside, "{address}");
        }
        for text in ["", "10.0.0.0/33", "10.0.0/8", "::1/129", "10.0.0.0/-1", "localhost"] {
            assert_eq!(text.parse::<Network>(), Err(NetworkError), "{text}");
        }
    }
}
