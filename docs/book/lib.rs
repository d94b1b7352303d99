//! The guide: every Rust block of its pages is compiled and run as a doc test.
//!
//! `cargo test -p zk-curator-book --doc` runs them all. A block that is `ignore`d there shows a
//! part of an example, which the workspace compiles and CI runs.

use std::error::Error;

use zk_curator::CuratorFramework;
use zk_curator_testing::{TestServer, paused};

/// The result of a block of the guide.
pub type Result<T = (), E = Box<dyn Error>> = std::result::Result<T, E>;

/// Runs a block with an embedded server and a framework connected to it, in simulated time.
///
/// Closes the framework afterwards, so a block that leaves requests unanswered fails. If the block
/// has restarted the server, the framework connects to it again first.
///
/// # Panics
/// Panics if the block returns an error.
pub fn run(block: impl AsyncFnOnce(&TestServer, CuratorFramework) -> Result) {
    paused(async {
        let server = TestServer::in_memory().await;
        let zk = server.framework().build().expect("valid settings");
        zk.start().await.expect("the server runs");
        block(&server, zk.clone()).await.expect("the block succeeds");
        zk.wait_connected().await.expect("the server runs again");
        zk.close().await.expect("nothing is left behind");
    });
}

/// Runs a block without async code, in real time, with the connect string of an embedded server.
///
/// The block closes its framework, or drops the last handle.
///
/// # Panics
/// Panics if the block returns an error, or leaves a session.
pub fn run_blocking(block: impl FnOnce(String) -> Result) {
    let runtime = tokio::runtime::Runtime::new().expect("a runtime");
    let server = runtime.block_on(TestServer::start());
    block(server.connect_string()).expect("the block succeeds");
    assert!(server.probe().sessions().is_empty(), "{}", server.probe());
}

macro_rules! pages {
    ($($path:literal $name:ident,)*) => {
        /// The pages whose blocks are tests.
        #[cfg(test)]
        const PAGES: &[&str] = &[$($path),*];
        $(
            #[cfg(doctest)]
            #[doc = include_str!($path)]
            mod $name {}
        )*
    };
}

pages! {
    "src/README.md" readme,
    "src/start/install.md" start_install,
    "src/start/first-lock.md" start_first_lock,
    "src/start/server.md" start_server,
    "src/start/blocking.md" start_blocking,
    "src/concepts/sessions.md" concepts_sessions,
    "src/concepts/timeouts.md" concepts_timeouts,
    "src/concepts/lost-responses.md" concepts_lost_responses,
    "src/concepts/fencing.md" concepts_fencing,
    "src/concepts/cancel-safety.md" concepts_cancel_safety,
    "src/concepts/watches.md" concepts_watches,
    "src/concepts/typed-nodes.md" concepts_typed_nodes,
    "src/concepts/options.md" concepts_options,
    "src/recipes/locks.md" recipes_locks,
    "src/recipes/leader.md" recipes_leader,
    "src/recipes/barriers.md" recipes_barriers,
    "src/recipes/which-queue.md" recipes_which_queue,
    "src/recipes/which-value.md" recipes_which_value,
    "src/recipes/queues.md" recipes_queues,
    "src/recipes/jobs.md" recipes_jobs,
    "src/recipes/schedule.md" recipes_schedule,
    "src/recipes/partitions.md" recipes_partitions,
    "src/recipes/leases.md" recipes_leases,
    "src/recipes/counters.md" recipes_counters,
    "src/recipes/transactions.md" recipes_transactions,
    "src/recipes/caches.md" recipes_caches,
    "src/recipes/discovery.md" recipes_discovery,
    "src/recipes/config-group-names-nodes.md" recipes_config_group_names_nodes,
    "src/recipes/two-phase-commit.md" recipes_two_phase_commit,
    "src/recipes/migrations.md" recipes_migrations,
    "src/testing/embedded-server.md" testing_embedded_server,
    "src/testing/simulating-services.md" testing_simulating_services,
    "src/testing/simulation.md" testing_simulation,
    "src/testing/real-ensemble.md" testing_real_ensemble,
    "src/testing/chaos.md" testing_chaos,
    "src/testing/fault-proxy.md" testing_fault_proxy,
    "src/testing/other-clients.md" testing_other_clients,
    "src/testing/python.md" testing_python,
    "src/testing/node.md" testing_node,
    "src/testing/java.md" testing_java,
    "src/testing/control-protocol.md" testing_control_protocol,
    "src/examples/sql-writer.md" examples_sql_writer,
    "src/examples/leader-http.md" examples_leader_http,
    "src/examples/worker-pool.md" examples_worker_pool,
    "src/operating/zkc.md" operating_zkc,
    "src/operating/on-call.md" operating_on_call,
    "src/operating/locks-in-scripts.md" operating_locks_in_scripts,
    "src/operating/ensemble.md" operating_ensemble,
    "src/operating/monitoring.md" operating_monitoring,
    "src/operating/starting-stopping.md" operating_starting_stopping,
    "src/operating/http-services.md" operating_http_services,
    "src/operating/errors.md" operating_errors,
    "src/operating/inspect.md" operating_inspect,
    "src/operating/permissions.md" operating_permissions,
    "src/operating/kerberos.md" operating_kerberos,
    "src/operating/moving-data.md" operating_moving_data,
    "src/operating/sizing.md" operating_sizing,
    "src/operating/numbers.md" operating_numbers,
    "src/operating/tested.md" operating_tested,
    "src/migrating/curator.md" migrating_curator,
    "src/migrating/kazoo.md" migrating_kazoo,
    "src/migrating/etcd-consul-redis.md" migrating_etcd_consul_redis,
    "src/migrating/mixed-fleets.md" migrating_mixed_fleets,
    "src/policies.md" policies,
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;
    use std::path::Path;

    use super::PAGES;

    #[test]
    fn every_page_is_in_the_summary_and_tested() {
        let root = Path::new(env!("CARGO_MANIFEST_DIR"));
        let mut folders = vec![root.join("src")];
        let mut files = BTreeSet::new();
        while let Some(folder) = folders.pop() {
            for entry in folder.read_dir().expect("a folder") {
                let path = entry.expect("an entry").path();
                if path.is_dir() {
                    folders.push(path);
                } else if path.extension().is_some_and(|e| e == "md")
                    && !path.ends_with("SUMMARY.md")
                {
                    files.insert(path.strip_prefix(root).expect("below").display().to_string());
                }
            }
        }
        let summary = include_str!("src/SUMMARY.md");
        let listed = summary
            .split("](")
            .skip(1)
            .filter_map(|rest| Some(format!("src/{}", rest.split_once(')')?.0)));
        assert_eq!(listed.collect::<BTreeSet<_>>(), files, "SUMMARY.md");
        assert_eq!(
            PAGES.iter().map(|page| page.to_string()).collect::<BTreeSet<_>>(),
            files,
            "lib.rs"
        );
    }

    #[test]
    fn ignored_blocks_show_parts_of_examples() {
        let root = Path::new(env!("CARGO_MANIFEST_DIR"));
        for page in PAGES {
            let page = root.join(page);
            let text = std::fs::read_to_string(&page).expect("a page");
            for block in text.split("\n```rust,").skip(1) {
                let mut lines = block.lines();
                let (Some("ignore"), Some(shown), Some("```")) =
                    (lines.next(), lines.next(), lines.next())
                else {
                    panic!("{}: a block without an include:\n{block}", page.display());
                };
                let inside =
                    shown.strip_prefix("{{#include ").and_then(|rest| rest.strip_suffix("}}"));
                let (file, anchor) = inside.and_then(|inside| inside.split_once(':')).expect(shown);
                let example = page.parent().expect("a folder").join(file);
                let source = std::fs::read_to_string(&example).expect(shown);
                for mark in ["ANCHOR", "ANCHOR_END"] {
                    assert_eq!(
                        source.matches(&format!("// {mark}: {anchor}\n")).count(),
                        1,
                        "{shown}"
                    );
                }
            }
        }
    }
}
