//! The number of connections from each address.

use std::collections::BTreeMap;
use std::net::{IpAddr, Ipv6Addr};
use std::sync::Arc;

use zk_curator_client::internal::Locked;
use zk_curator_web::Network;

/// The open connections by address.
#[derive(Debug)]
pub(super) struct AddressPlaces {
    most_of_one: usize,
    /// The networks whose connections are not counted.
    proxies: Vec<Network>,
    open: Locked<BTreeMap<IpAddr, usize>>,
}

/// The place of a connection. Dropping it frees the place.
#[derive(Debug)]
pub(super) struct AddressPlace {
    places: Arc<AddressPlaces>,
    /// `None` for a connection that is not counted.
    address: Option<IpAddr>,
}

impl AddressPlaces {
    pub(super) fn new(most_of_one: usize, proxies: Vec<Network>) -> Arc<Self> {
        Arc::new(Self { most_of_one, proxies, open: Locked::default() })
    }

    /// Takes the place of a connection; `None` if its address has too many. Connections of this
    /// host and of proxies are not counted: they are those of many clients.
    pub(super) fn take(self: &Arc<Self>, peer: IpAddr) -> Option<AddressPlace> {
        let peer = peer.to_canonical();
        let is_counted = !peer.is_loopback() && !self.proxies.iter().any(|own| own.contains(peer));
        let address = is_counted.then(|| network_of(peer));
        if let Some(address) = address {
            let mut open = self.open.lock();
            let own = open.entry(address).or_default();
            if *own >= self.most_of_one {
                return None;
            }
            *own += 1;
        }
        Some(AddressPlace { places: Arc::clone(self), address })
    }
}

impl Drop for AddressPlace {
    fn drop(&mut self) {
        let Some(address) = self.address else { return };
        let mut open = self.places.open.lock();
        match open.get_mut(&address) {
            Some(own) if *own > 1 => *own -= 1,
            _ => {
                open.remove(&address);
            }
        }
    }
}

/// Returns an address of IPv4, or the network of one of IPv6: a host often has a whole network of
/// 64 bits.
fn network_of(address: IpAddr) -> IpAddr {
    match address {
        IpAddr::V6(v6) => IpAddr::V6(Ipv6Addr::from_bits(v6.to_bits() >> 64 << 64)),
        v4 => v4,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn one_address_leaves_places_to_the_others() {
        let places = AddressPlaces::new(2, vec!["10.9.0.0/16".parse().unwrap()]);
        let take = |address: &str| places.take(address.parse().unwrap());
        let own = (take("10.1.2.3"), take("::ffff:10.1.2.3"));
        assert!(own.0.is_some() && own.1.is_some() && take("10.1.2.3").is_none());
        let other = take("10.1.2.4");
        assert!(other.is_some());
        let v6 = (take("2001:db8::1"), take("2001:db8::2"));
        assert!(v6.0.is_some() && v6.1.is_some() && take("2001:db8::3").is_none());
        for address in ["127.0.0.1", "::1", "::ffff:127.0.0.1", "10.9.8.7", "::ffff:10.9.8.7"] {
            let places = [(); 5].map(|()| take(address));
            assert!(places.iter().all(Option::is_some), "{address}");
        }
        drop(own.0);
        assert!(take("10.1.2.3").is_some());
        drop((own.1, other, v6));
        assert!(places.open.lock().is_empty());
    }
}
