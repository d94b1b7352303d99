//! Java Curator with the same keytab.

use std::path::Path;
use std::process::Stdio;
use std::time::Duration;

use zk_curator::kerberos::Kerberos;
use zk_curator::{Acl, ErrorKind};
use zk_curator_real::java::{self, Program};
use zk_curator_real::runs;
use zk_curator_recipes::lock::InterProcessMutex;
use zk_curator_tests::{builder_for, start};

use crate::peer::Peer;
use crate::realm::{ALICE, ALICE_ID, LONG, Realm, by_name, in_realm};

/// Longer than a virtual machine takes to start, and to connect.
const PATIENCE: Duration = Duration::from_secs(60);

#[test]
#[ignore = "slow: scripts/test-all"]
fn java_curator_with_the_same_keytab_is_the_same_principal() {
    let test = "java_curator_with_the_same_keytab_is_the_same_principal";
    if !runs(test, java::available()) {
        return;
    }
    in_realm(test, LONG, async |realm: Realm| {
        realm.use_keytab(ALICE).await;
        let server = realm.server().await;
        let source = Path::new(env!("CARGO_MANIFEST_DIR")).join("kerberos/CuratorKerberos.java");
        let program = Program::compile(source).await.unwrap();
        let java = |principal: &str, keytab: &Path| {
            let options = realm.kdc.java_client(principal, keytab).unwrap();
            let mut command = program.command(options);
            command.arg(by_name(&server)).stdin(Stdio::piped()).stdout(Stdio::piped());
            Peer::of(command.kill_on_drop(true).spawn().unwrap(), PATIENCE)
        };
        let mut curator = java(ALICE, &realm.kdc.client_keytab());
        let ours = start(builder_for(&by_name(&server)).sasl_kerberos(Kerberos::new())).await;
        let anonymous = start(builder_for(&server.connect_string())).await;

        ours.create("/ours").acl(Acl::creator_all()).data("from-rust").await.unwrap();
        assert_eq!(curator.tell("get /ours").await, "DATA from-rust");
        assert_eq!(curator.tell("acl /ours").await, format!("ACL sasl:{ALICE_ID}"));
        assert_eq!(curator.tell("create /theirs from-java").await, "CREATED");
        assert_eq!(ours.get_data("/theirs").await.unwrap(), "from-java");
        let acls = [ours.get_acl("/ours").await.unwrap(), ours.get_acl("/theirs").await.unwrap()];
        assert_eq!(acls[0], acls[1]);
        for path in ["/ours", "/theirs"] {
            assert_eq!(anonymous.get_data(path).await.unwrap_err().kind(), ErrorKind::NoAuth);
        }

        // A lock of both.
        let mutex = InterProcessMutex::new(&ours, "/lock");
        let guard = mutex.acquire().await.unwrap();
        assert_eq!(curator.tell("acquire /lock").await, "false");
        guard.release().await.unwrap();
        assert_eq!(curator.tell("acquire /lock").await, "true");
        assert!(mutex.try_acquire().await.unwrap().is_none());
        assert_eq!(curator.tell("release").await, "RELEASED");
        curator.end().await;

        // Another principal is another user, here as there.
        let bob = realm.path("bob.keytab");
        realm.kdc.add("bob").await.unwrap();
        realm.kdc.export("bob", &bob).await.unwrap();
        let mut other = java("bob", &bob);
        assert_eq!(other.tell("get /ours").await, "ERROR NoAuthException");
        other.end().await;
        for zk in [ours, anonymous] {
            zk.close().await.unwrap();
        }
    });
}
