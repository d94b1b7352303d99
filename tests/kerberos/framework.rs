//! The framework with Kerberos.

use std::time::Duration;

use zk_curator::kerberos::{Kerberos, KerberosError, KerberosErrorKind};
use zk_curator::retry::RetryNTimes;
use zk_curator::{Acl, CuratorFramework, CuratorFrameworkBuilder, ErrorKind, Permissions};

use crate::realm::{ALICE, ALICE_ID, LONG, Realm, SERVER, by_name, in_realm};

// ANCHOR: connect
async fn connect(connect_string: &str) -> zk_curator::Result<CuratorFramework> {
    let zk = CuratorFramework::builder()
        .connect_string(connect_string)
        .sasl_kerberos(Kerberos::new())
        .acl_provider(vec![
            Acl::new(Permissions::ALL, "sasl", "alice@EXAMPLE.TEST"),
            Acl::new(Permissions::READ, "sasl", "bob@EXAMPLE.TEST"),
        ])
        .build()?;
    zk.start().await?;
    Ok(zk)
}
// ANCHOR_END: connect

fn framework(connect_string: &str) -> CuratorFrameworkBuilder {
    CuratorFramework::builder()
        .connect_string(connect_string)
        .retry(RetryNTimes::new(0, Duration::ZERO))
        .sasl_kerberos(Kerberos::new())
}

#[test]
#[ignore = "slow: scripts/test-all"]
fn the_framework_writes_nodes_for_its_principal_alone() {
    let test = "the_framework_writes_nodes_for_its_principal_alone";
    in_realm(test, LONG, async |realm: Realm| {
        realm.use_keytab(ALICE).await;
        let server = realm.server().await;
        let zk = framework(&by_name(&server)).build().unwrap();
        zk.start().await.unwrap();
        zk.create("/mine").acl(Acl::creator_all()).await.unwrap();
        let acl = zk.get_acl("/mine").await.unwrap();
        assert_eq!(acl, [Acl::new(Permissions::ALL, "sasl", ALICE_ID)]);
        zk.close().await.unwrap();
        let zk = connect(&by_name(&server)).await.unwrap();
        zk.create("/read").data("1").await.unwrap();
        zk.set_data("/read", "2").await.unwrap();
        zk.close().await.unwrap();

        realm.forget_keytab();
        std::fs::remove_file(realm.kdc.cache()).unwrap();
        realm.kdc.add("bob").await.unwrap();
        realm.use_keytab("bob").await;
        let zk = framework(&by_name(&server)).build().unwrap();
        zk.start().await.unwrap();
        assert_eq!(zk.get_data("/mine").await.unwrap_err().kind(), ErrorKind::NoAuth);
        assert_eq!(zk.get_data("/read").await.unwrap(), "2");
        assert_eq!(zk.set_data("/read", "3").await.unwrap_err().kind(), ErrorKind::NoAuth);
        zk.close().await.unwrap();
    });
}

#[test]
#[ignore = "slow: scripts/test-all"]
fn a_start_without_a_ticket_says_why() {
    in_realm("a_start_without_a_ticket_says_why", LONG, async |realm: Realm| {
        let server = realm.server().await;
        let short = Duration::from_secs(2);
        let zk = framework(&by_name(&server)).connection_timeout(short).build().unwrap();
        let error = zk.start().await.unwrap_err();
        assert_eq!(error.kind(), ErrorKind::ConnectionLoss);
        assert!(error.to_string().contains("no ticket and no usable client keytab"), "{error}");
        let failure = zk.last_failure().unwrap();
        assert_eq!(KerberosError::of(&failure).unwrap().kind(), KerberosErrorKind::NoTicket);
        // It goes on trying, for longer than one operation waits for a connection.
        realm.kinit().await;
        while let Err(error) = zk.exists("/").await {
            assert_eq!(error.kind(), ErrorKind::ConnectionLoss, "{error}");
        }
        zk.close().await.unwrap();

        realm.kdc.change_key(SERVER).await.unwrap();
        realm.kinit().await;
        let zk = framework(&by_name(&server)).build().unwrap();
        let error = zk.start().await.unwrap_err();
        assert_eq!(error.kind(), ErrorKind::AuthFailed);
        assert!(error.to_string().contains("the server refuses the client"), "{error}");
    });
}
