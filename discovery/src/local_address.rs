//! The address from which this machine reaches the ensemble.

use std::fmt;
use std::io;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};
use std::sync::Arc;

use tokio::net::{UdpSocket, lookup_host};
use zk_curator::CuratorFramework;
use zk_curator::internal::ConnectString;

/// Finds the address of the interface from which this machine reaches the ensemble
/// (`ServiceInstanceBuilder.getAllLocalIPs`, of which Curator takes the first).
///
/// It connects a UDP socket to the servers. This looks up the route, and sends nothing. On machines
/// with several interfaces, such as the bridges of containers, it finds the address that other
/// machines in the network of the ensemble can reach. Behind a network address translation this is
/// not the public address; set the address of the instance there.
///
/// Unspecified, link-local and loopback addresses are left out, because they mean nothing to other
/// machines. If the connect string is `localhost:2181`, of a proxy on this machine for example,
/// there is no other address. Set the address of the instance then, or call
/// [`allow_loopback`](Self::allow_loopback) if all consumers are on this machine.
///
/// ```
/// # #[tokio::main(flavor = "current_thread")] async fn main() -> Result<(), Box<dyn std::error::Error>> {
/// # let server = zk_curator_testing::TestServer::start().await;
/// # let zk = zk_curator::CuratorFramework::builder().connect_string(server.connect_string()).build()?;
/// # zk.start().await?;
/// use zk_curator_discovery::{LocalAddress, ServiceDiscovery, ServiceInstance};
///
/// // The server of this example is on the same machine.
/// let local = LocalAddress::new().allow_loopback().filter(|address| address.is_ipv4());
/// let discovery = ServiceDiscovery::<()>::new(&zk, "/services").local_address(local);
/// let orders = ServiceInstance::builder("orders").id("7").port(8040).build()?;
/// let _me = discovery.register(orders).await?;
/// let (orders, _) = discovery.instance("orders", "7").await?.unwrap();
/// assert_eq!(orders.address.as_deref(), Some("127.0.0.1"));
/// # Ok(()) }
/// ```
#[doc(alias = "LocalIpFilter")]
#[derive(Clone, Default)]
pub struct LocalAddress {
    filter: Option<Arc<dyn Fn(IpAddr) -> bool + Send + Sync>>,
    is_loopback_allowed: bool,
}

/// The reason why no address of this machine was found.
#[derive(Debug, Clone, thiserror::Error)]
#[non_exhaustive]
pub enum LocalAddressError {
    /// The connect string is malformed.
    #[error("the connect string is malformed")]
    ConnectString(#[source] Arc<dyn std::error::Error + Send + Sync>),
    /// There is no route to any server, or their names cannot be resolved. The source is the last
    /// failure.
    #[error("there is no route to any server")]
    NoRoute(#[source] Arc<io::Error>),
    /// None of the addresses from which the servers are reached passes the filter, or all of them
    /// are loopback or link-local addresses.
    #[error("no address passes the filter, or all are loopback or link-local")]
    Filtered,
    /// The server of the connection is unknown, because the raw client does not report it.
    #[error("the server of the connection is unknown")]
    UnknownServer,
    /// The framework was closed.
    #[error("the framework is closed")]
    Closed,
}

impl LocalAddress {
    /// Takes the first address.
    #[must_use]
    pub fn new() -> Self {
        Self::default()
    }

    /// Takes only addresses for which `filter` returns `true`. If it refuses an address, the routes
    /// to the other addresses and servers are tried. Default: all.
    #[must_use]
    pub fn filter(mut self, filter: impl Fn(IpAddr) -> bool + Send + Sync + 'static) -> Self {
        self.filter = Some(Arc::new(filter));
        self
    }

    /// Also takes loopback addresses: for tests, and where all consumers are on this machine.
    /// Default: they are left out.
    #[must_use]
    pub const fn allow_loopback(mut self) -> Self {
        self.is_loopback_allowed = true;
        self
    }

    /// Returns the address from which the server of the current connection is reached. Waits for a
    /// connection if there is none.
    ///
    /// # Errors
    /// As [`LocalAddressError`] says.
    ///
    /// # Cancel safety
    /// Nothing is changed.
    pub async fn of(&self, zk: &CuratorFramework) -> Result<IpAddr, LocalAddressError> {
        let mut states = zk.states();
        let connected = states.until(|status| status.state.is_connected()).await;
        let server = connected.ok_or(LocalAddressError::Closed)?.server;
        self.towards(&server.ok_or(LocalAddressError::UnknownServer)?).await
    }

    /// Returns the address from which the servers of a connect string are reached. Tries the
    /// servers in order, and takes the first address that it finds.
    ///
    /// # Errors
    /// As [`LocalAddressError`] says.
    ///
    /// # Cancel safety
    /// Nothing is changed.
    pub async fn towards(&self, connect_string: &str) -> Result<IpAddr, LocalAddressError> {
        let servers: ConnectString = connect_string
            .parse()
            .map_err(|why| LocalAddressError::ConnectString(Arc::new(why)))?;
        let (mut failure, mut is_filtered) = (None, false);
        for server in servers.hosts {
            let found = match lookup_host((server.host, server.port)).await {
                Ok(found) => found,
                Err(error) => {
                    failure = Some(error);
                    continue;
                }
            };
            for address in found {
                match from(address).await {
                    Ok(local) if self.takes(local) => return Ok(local),
                    Ok(_) => is_filtered = true,
                    Err(error) => failure = Some(error),
                }
            }
        }
        Err(match failure {
            Some(why) if !is_filtered => LocalAddressError::NoRoute(Arc::new(why)),
            _ => LocalAddressError::Filtered,
        })
    }

    fn takes(&self, address: IpAddr) -> bool {
        (self.is_loopback_allowed || !address.is_loopback())
            && is_meaningful(address)
            && self.filter.as_ref().is_none_or(|filter| filter(address))
    }
}

/// Returns the address from which another one is reached.
async fn from(to: std::net::SocketAddr) -> io::Result<IpAddr> {
    let any = if to.is_ipv4() {
        IpAddr::V4(Ipv4Addr::UNSPECIFIED)
    } else {
        IpAddr::V6(Ipv6Addr::UNSPECIFIED)
    };
    let socket = UdpSocket::bind((any, 0)).await?;
    socket.connect(to).await?;
    Ok(socket.local_addr()?.ip().to_canonical())
}

/// Returns `false` for unspecified and link-local addresses.
fn is_meaningful(address: IpAddr) -> bool {
    match address {
        IpAddr::V4(address) => !address.is_unspecified() && !address.is_link_local(),
        IpAddr::V6(address) => !address.is_unspecified() && !address.is_unicast_link_local(),
    }
}

impl fmt::Debug for LocalAddress {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("LocalAddress")
            .field("filtered", &self.filter.is_some())
            .field("loopback", &self.is_loopback_allowed)
            .finish()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn addresses_without_a_meaning_elsewhere_are_left_out() {
        let with_loopback = LocalAddress::new().allow_loopback();
        for (address, expected, is_loopback) in [
            ("10.0.0.1", true, false),
            ("127.0.0.1", false, true),
            ("127.8.0.1", false, true),
            ("169.254.7.1", false, false),
            ("0.0.0.0", false, false),
            ("::1", false, true),
            ("2001:db8::1", true, false),
            ("::", false, false),
            ("fe80::1", false, false),
        ] {
            let parsed = address.parse().unwrap();
            assert_eq!(LocalAddress::new().takes(parsed), expected, "{address}");
            assert_eq!(with_loopback.takes(parsed), expected || is_loopback, "{address}");
        }
    }
}
