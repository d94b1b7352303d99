//! The conformance suite on Apache ZooKeeper, standalone and as an ensemble of three servers. All
//! cases share the servers: starting them takes longer than most cases.

use crate::conformance::{Target, on_threads, run_all, run_those};
use zk_curator_real::{self as real, RealEnsemble};

#[test]
#[ignore = "slow: scripts/test-all"]
fn the_client_conforms_on_a_standalone_server() {
    on_threads(async {
        let name = "the_client_conforms_on_a_standalone_server";
        let Some(server) = real::or_skip(name).await else { return };
        run_all(Target::standalone(server).await).await;
    });
}

#[test]
#[ignore = "slow: scripts/test-all"]
fn the_client_conforms_on_an_ensemble_of_three() {
    on_threads(async {
        let name = "the_client_conforms_on_an_ensemble_of_three";
        // With a hundred thousand nodes and watches and less memory, a server collects garbage for
        // so long that the other servers disconnect it.
        let builder = RealEnsemble::builder(3).jvm_option("-Xmx512m");
        let Some(ensemble) = real::or_skip_ensemble_with(name, builder).await else { return };
        run_all(Target::ensemble(ensemble, false).await).await;
    });
}

/// Runs alone, because all its sessions are local.
#[test]
#[ignore = "slow: scripts/test-all"]
fn the_client_conforms_on_read_only_servers() {
    on_threads(async {
        let name = "the_client_conforms_on_read_only_servers";
        let builder = RealEnsemble::builder(3)
            .jvm_property("readonlymode.enabled", true)
            .setting("localSessionsEnabled", true)
            .setting("localSessionsUpgradingEnabled", true);
        let Some(ensemble) = real::or_skip_ensemble_with(name, builder).await else { return };
        run_those(Target::ensemble(ensemble, true).await, &["read_only"]).await;
    });
}
