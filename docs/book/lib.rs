//! The guide: every Rust block of its pages is compiled and run as a doc test.
//!
//! `cargo test -p zk-curator-book --doc` runs them all. `build.rs` adds what a block needs beside
//! the code that readers see. A block below a comment `from:` is a part of an example, which the
//! workspace compiles and CI runs.

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
            #[doc = include_str!(concat!(env!("OUT_DIR"), "/", $path))]
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
    "src/concepts/operations.md" concepts_operations,
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
    "src/operating/zkc.md" operating_zkc,
    "src/operating/history.md" operating_history,
    "src/operating/on-call.md" operating_on_call,
    "src/operating/web.md" operating_web,
    "src/operating/web-incident.md" operating_web_incident,
    "src/operating/web-rest.md" operating_web_rest,
    "src/operating/web-deploy.md" operating_web_deploy,
    "src/operating/locks-in-scripts.md" operating_locks_in_scripts,
    "src/operating/ensemble.md" operating_ensemble,
    "src/operating/monitoring.md" operating_monitoring,
    "src/operating/starting-stopping.md" operating_starting_stopping,
    "src/operating/http-services.md" operating_http_services,
    "src/operating/kubernetes.md" operating_kubernetes,
    "src/operating/errors.md" operating_errors,
    "src/operating/inspect.md" operating_inspect,
    "src/operating/permissions.md" operating_permissions,
    "src/operating/credentials.md" operating_credentials,
    "src/operating/kerberos.md" operating_kerberos,
    "src/operating/moving-data.md" operating_moving_data,
    "src/operating/sizing.md" operating_sizing,
    "src/operating/tested.md" operating_tested,
    "src/migrating/curator.md" migrating_curator,
    "src/migrating/kazoo.md" migrating_kazoo,
    "src/migrating/etcd-consul-redis.md" migrating_etcd_consul_redis,
    "src/migrating/mixed-fleets.md" migrating_mixed_fleets,
    "src/migrating/other-crates.md" migrating_other_crates,
    "src/faq.md" faq,
    "src/policies.md" policies,
}

/// READMEs of packages whose blocks need more than they show.
#[cfg(doctest)]
mod readmes {
    #[doc = include_str!(concat!(env!("OUT_DIR"), "/client.md"))]
    mod client {}
    #[doc = include_str!(concat!(env!("OUT_DIR"), "/testing.md"))]
    mod testing {}
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
            .filter_map(|rest| Some(rest.split_once(')')?.0))
            .filter(|page| !page.starts_with("../"))
            .map(|page| format!("src/{page}"));
        assert_eq!(listed.collect::<BTreeSet<_>>(), files, "SUMMARY.md");
        assert_eq!(
            PAGES.iter().map(|page| page.to_string()).collect::<BTreeSet<_>>(),
            files,
            "lib.rs"
        );
    }

    #[test]
    fn blocks_from_files_are_as_the_files_have_them() {
        let root = Path::new(env!("CARGO_MANIFEST_DIR"));
        let mut blocks = 0;
        for page in PAGES {
            let text = std::fs::read_to_string(root.join(page)).expect("a page");
            for block in text.split("\n<!-- from: ").skip(1) {
                let (place, block) = block.split_once(" -->\n```rust\n").expect(page);
                let (shown, _) = block.split_once("```").expect(page);
                let (file, anchor) = place.split_once(':').expect(place);
                let source = std::fs::read_to_string(root.join("../..").join(file)).expect(place);
                assert_eq!(shown, part(&source, anchor), "{page}: {place}");
                blocks += 1;
            }
            assert!(
                !text.contains("```rust,"),
                "{page}: `from:`, `run:` or `with:` above the block"
            );
            assert!(!text.contains("{{#"), "{page}: only mdBook shows what a template includes");
        }
        assert!(blocks > 5, "{blocks} blocks were compared");
    }

    /// Returns the lines between the marks of an anchor, as far to the left as possible.
    fn part(source: &str, anchor: &str) -> String {
        let is = |line: &str, mark: &str| line.trim() == format!("// {mark}: {anchor}");
        let lines: Vec<_> = source
            .lines()
            .skip_while(|line| !is(line, "ANCHOR"))
            .take_while(|line| !is(line, "ANCHOR_END"))
            .filter(|line| !line.trim().starts_with("// ANCHOR"))
            .collect();
        let indent = |line: &&str| line.len() - line.trim_start().len();
        let left = lines.iter().filter(|line| !line.is_empty()).map(indent).min().unwrap_or(0);
        lines.iter().map(|line| format!("{}\n", line.get(left..).unwrap_or(""))).collect()
    }

    /// Readers finish what is short: new text takes the place of other text.
    #[test]
    fn the_guide_and_the_readme_stay_short() {
        let root = Path::new(env!("CARGO_MANIFEST_DIR"));
        let words = |page: &str| {
            let text = std::fs::read_to_string(root.join(page)).expect("a page");
            let shown = text.split("<!--").enumerate().map(|(index, part)| match index {
                0 => part,
                _ => part.split_once("-->").expect(page).1,
            });
            shown.map(|part| part.split_whitespace().count()).sum::<usize>()
        };
        let guide: usize = PAGES.iter().map(|page| words(page)).sum();
        assert!(guide <= 43_700, "the guide has {guide} words");
        let readme = words("../../README.md");
        assert!(readme <= 800, "the README has {readme} words");
    }

    #[test]
    fn blocks_show_no_hidden_lines() {
        let root = Path::new(env!("CARGO_MANIFEST_DIR"));
        for page in PAGES {
            let text = std::fs::read_to_string(root.join(page)).expect("a page");
            for block in text.split("```rust\n").skip(1) {
                let (shown, _) = block.split_once("```").expect(page);
                let hidden = shown.lines().find(|line| line.trim().starts_with("# "));
                assert_eq!(hidden, None, "{page}: code that is not shown belongs above the block");
            }
        }
    }
}
