//! The address of this machine, as the ensemble sees it. On sockets: routes are not simulated.

use std::net::IpAddr;

use zk_curator::ConnectionState;
use zk_curator_discovery::{LocalAddress, LocalAddressError, RegistrationError, ServiceInstance};
use zk_curator_testing::TestServer;
use zk_curator_tests::{connected, real_time, simulated_with, until_state};

use crate::support::{discovery, record};

const LOOPBACK: &str = "127.0.0.1";

async fn towards(servers: &str) -> Result<IpAddr, LocalAddressError> {
    LocalAddress::new().allow_loopback().towards(servers).await
}

#[test]
fn the_address_is_that_of_the_route() {
    real_time(async {
        // Linux routes all of 127.0.0.0/8 to the loopback interface.
        for servers in ["127.0.0.1:2181", "127.0.0.1", "127.0.0.1:1,127.0.0.1:2/app"] {
            assert_eq!(towards(servers).await.unwrap().to_string(), LOOPBACK, "{servers}");
        }
        // A server without an address does not hide the others.
        let servers = "no-such-host.invalid:2181,127.0.0.1:2181";
        assert_eq!(towards(servers).await.unwrap().to_string(), LOOPBACK);
    });
}

#[test]
fn addresses_of_ipv6_are_found() {
    real_time(async {
        // Machines without IPv6 have no route.
        match towards("[::1]:2181").await {
            Ok(address) => assert_eq!(address.to_string(), "::1"),
            Err(error) => assert!(matches!(error, LocalAddressError::NoRoute(_)), "{error:?}"),
        }
    });
}

#[test]
fn the_filter_chooses_among_the_servers() {
    real_time(async {
        let seen = std::sync::Arc::new(std::sync::Mutex::new(Vec::new()));
        let log = std::sync::Arc::clone(&seen);
        let second = LocalAddress::new().allow_loopback().filter(move |address| {
            let mut log = log.lock().unwrap();
            log.push(address.to_string());
            log.len() == 2
        });
        let found = second.towards("127.0.0.1:1,127.0.0.1:2,127.0.0.1:3").await.unwrap();
        assert_eq!(found.to_string(), LOOPBACK);
        assert_eq!(*seen.lock().unwrap(), [LOOPBACK; 2]);
        let none = LocalAddress::new().allow_loopback().filter(|_| false);
        let error = none.towards("127.0.0.1:1").await.unwrap_err();
        assert!(matches!(error, LocalAddressError::Filtered), "{error:?}");
    });
}

/// With a proxy on the machine, for example. Consumers elsewhere would connect to themselves.
#[test]
fn loopback_is_left_out_unless_it_is_allowed() {
    real_time(async {
        for servers in ["127.0.0.1:2181", "localhost:2181", "no-such-host.invalid,127.0.0.1"] {
            let error = LocalAddress::new().towards(servers).await.unwrap_err();
            assert!(matches!(error, LocalAddressError::Filtered), "{servers}: {error:?}");
        }
    });
}

#[test]
fn failures_have_their_reason() {
    real_time(async {
        let error = towards("no-such-host.invalid:2181").await.unwrap_err();
        assert!(matches!(error, LocalAddressError::NoRoute(_)), "{error:?}");
        let error = towards("127.0.0.1:99999").await.unwrap_err();
        assert!(matches!(error, LocalAddressError::ConnectString(_)), "{error:?}");
    });
}

#[test]
fn instances_without_an_address_have_that_of_the_machine() {
    real_time(async {
        let server = TestServer::start().await;
        let zk = connected(&server).await;
        let local = discovery(&zk).local_address(LocalAddress::new().allow_loopback());
        let instance = |id: &str| ServiceInstance::builder("orders").id(id).payload(1);
        let none = local.register(instance("none").build().unwrap()).await.unwrap();
        let named = local.register(instance("named").address("h").build().unwrap()).await.unwrap();
        assert_eq!(record(&server, "none").address.as_deref(), Some(LOOPBACK));
        assert_eq!(record(&server, "named").address.as_deref(), Some("h"));
        // It is not the default.
        let plain = discovery(&zk).register(instance("plain").build().unwrap()).await.unwrap();
        assert_eq!(record(&server, "plain").address, None);
        // Other machines cannot reach it on the loopback interface.
        let remote = discovery(&zk).local_address(LocalAddress::new());
        let error = remote.register(instance("x").build().unwrap()).await.unwrap_err();
        assert!(
            matches!(error, RegistrationError::LocalAddress(LocalAddressError::Filtered)),
            "{error:?}"
        );
        // Nothing is registered where there is none.
        let filtered = discovery(&zk).local_address(LocalAddress::new().filter(|_| false));
        let error = filtered.register(instance("x").build().unwrap()).await.unwrap_err();
        assert!(
            matches!(error, RegistrationError::LocalAddress(LocalAddressError::Filtered)),
            "{error:?}"
        );
        assert!(!server.probe().exists("/services/orders/x"));
        drop((none, named, plain));
        zk.close().await.unwrap();
    });
}

#[test]
fn without_a_connection_it_waits() {
    simulated_with(async |server, zk| {
        server.partition();
        until_state(&zk, ConnectionState::Lost).await;
        let local = LocalAddress::new();
        let waits = tokio::time::timeout(std::time::Duration::from_secs(60), local.of(&zk));
        assert!(waits.await.is_err());
        zk.close().await.unwrap_err();
        assert!(matches!(local.of(&zk).await, Err(LocalAddressError::Closed)));
    });
}
