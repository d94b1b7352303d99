//! The conformance suite on Apache ZooKeeper, standalone and as an ensemble of three servers. All
//! cases share the servers: starting them takes longer than most cases.

use crate::conformance::{Target, on_threads, run_all, run_but_huge, run_those};
use zk_curator_real::{self as real, RealEnsemble};

async fn standalone(test: &str) -> Option<Target> {
    Some(Target::standalone(real::or_skip(test).await?).await)
}

/// The number of ticks, of 200 ms, for which a member may be silent. On a busy machine it may be so
/// for longer than the default of ten: then the others would give it up, and it its clients. All
/// members that end here are killed, which the others notice at once.
const SYNC_LIMIT: u32 = 100;

async fn ensemble(test: &str) -> Option<Target> {
    // A server with a hundred thousand nodes and watches needs this memory. With less, it collects
    // garbage until the other servers disconnect it.
    let builder = RealEnsemble::builder(3).jvm_option("-Xmx512m").setting("syncLimit", SYNC_LIMIT);
    Some(Target::ensemble(real::or_skip_ensemble_with(test, builder).await?, false).await)
}

#[test]
#[ignore = "slow: scripts/test-all"]
fn the_client_conforms_on_an_ensemble_of_three() {
    on_threads(async {
        let Some(servers) = ensemble("the_client_conforms_on_an_ensemble_of_three").await else {
            return;
        };
        run_but_huge(servers).await;
    });
}

/// The cases that see a difference between one server and an ensemble: a server that ends takes all
/// connections with it, and a single server never lags. Every other case does the same on an
/// ensemble.
#[test]
#[ignore = "slow: scripts/test-all"]
fn the_client_conforms_where_a_single_server_differs() {
    on_threads(async {
        let test = "the_client_conforms_where_a_single_server_differs";
        let Some(server) = standalone(test).await else { return };
        let those = [
            "the_configuration",
            "timeouts_are_negotiated",
            "persistent_watches_survive_cuts",
            "a_rearmed_watch",
            "a_session_that_has_moved",
            "lost_with_a_server",
            "the_death_of_a_server",
        ];
        run_those(server, &those).await;
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
            .setting("syncLimit", SYNC_LIMIT)
            .setting("localSessionsEnabled", true)
            .setting("localSessionsUpgradingEnabled", true);
        let Some(ensemble) = real::or_skip_ensemble_with(name, builder).await else { return };
        run_those(Target::ensemble(ensemble, true).await, &["read_only"]).await;
    });
}

mod night {
    use super::*;

    #[test]
    #[ignore = "night: scripts/night"]
    fn the_client_conforms_on_a_standalone_server() {
        on_threads(async {
            let test = "the_client_conforms_on_a_standalone_server";
            let Some(server) = standalone(test).await else { return };
            run_all(server).await;
        });
    }

    #[test]
    #[ignore = "night: scripts/night"]
    fn a_hundred_thousand_watches_survive_on_an_ensemble() {
        on_threads(async {
            let test = "a_hundred_thousand_watches_survive_on_an_ensemble";
            let Some(servers) = ensemble(test).await else { return };
            run_those(servers, &["a_hundred_thousand_watches"]).await;
        });
    }
}
