//! Texts that the sources must not contain, so that one seed gives one run.
//!
//! A simulation replays only if nothing in the stack is decided by the operating system.
//! `docs/decisions/simulation.md` says why each of these is on the list. Binaries, tests and
//! comments are free, and so is the adapter of `zookeeper-async`, whose crate knows no seed.

use std::fs;
use std::path::{Path, PathBuf};

use zk_curator_tests::files_below;

/// Forbidden texts, and the files where each is allowed; a directory allows all files below it.
const RULES: &[(&str, &[&str])] = &[
    // Wakes waiters in random order, which `zk_curator_client::internal::Signal` does not.
    ("sync::watch", &[]),
    // `CuratorFramework::new_guid` follows the seed.
    ("Uuid::new_v4", &["src/core/random.rs"]),
    // Random choices use a generator with the configured seed, if there is one.
    (
        "fastrand::",
        &[
            "src/core/random.rs",
            "src/retry/policies.rs",
            "client/src/session/hosts.rs",
            // The addresses of one host name: not without DNS.
            "client/src/connector.rs",
            // The chroot of a test on a real ensemble.
            "testing/src/framework.rs",
            "testing/src/wire/link.rs",
            "testing/src/session/table.rs",
            "testing/real/src",
            "testing/sim/src",
        ],
    ),
    // Nonces, and a digest that never leaves the process.
    ("RandomState", &["client/src/sasl/digest_md5.rs", "client/src/tls/mod.rs"]),
    // Looked up in, or sorted before anybody sees the order.
    (
        "HashMap",
        &[
            "client/src/watch/registry/mod.rs",
            "src/schema/mod.rs",
            "recipes/src/lock/reentrant.rs",
            "testing/src/collections.rs",
        ],
    ),
    ("HashSet", &["testing/src/collections.rs"]),
    // Time is tokio's, so that it can be simulated.
    // For how long the machine was suspended, tokio's clock does not tell.
    ("std::time::{Duration, Instant", &["testing/real/src", "client/src/clock.rs"]),
    ("std::time::Instant", &["testing/real/src"]),
    // The defaults of settings.
    // For people and dashboards: when something began.
    (
        "SystemTime::now",
        &[
            "testing/src/clock.rs",
            "testing/real/src/chaos/worker.rs",
            "recipes/src/measure.rs",
            "recipes/src/queue/wire/layout.rs",
            "recipes/src/schedule/clock.rs",
            "src/core/metrics/series.rs",
            "src/state/health.rs",
        ],
    ),
    ("thread::sleep", &["testing/real/src"]),
    // Tasks are started through the spawner of their client, or on the runtime of their server.
    (
        "tokio::spawn",
        &[
            "src/background.rs",
            // Waits for signals of the operating system, for no framework.
            "recipes/src/shutdown.rs",
            "testing/sim/src",
            "testing/src/fault_proxy",
            "testing/real/src/chaos",
        ],
    ),
];

/// The code of the crates, by its path from the root: without binaries, comments and unit tests.
fn sources() -> Vec<(String, String)> {
    let folders = [
        "proto/src",
        "client/src",
        "src",
        "recipes/src",
        "testing/src",
        "testing/sim/src",
        "testing/real/src",
    ];
    let mut files = files_below(&folders, "rs");
    files.retain(|(name, _)| !name.ends_with("/tests.rs") && !name.contains("/bin/"));
    for (_, text) in &mut files {
        let code = text.split("\n#[cfg(test)]\nmod ").next().unwrap_or_default();
        let code = code.lines().filter(|line| !line.trim_start().starts_with("//"));
        *text = code.collect::<Vec<_>>().join("\n");
    }
    assert!(files.len() > 150, "only {} files were found", files.len());
    files
}

#[test]
fn nothing_is_decided_by_the_operating_system() {
    for (file, code) in sources() {
        for (forbidden, allowed) in RULES {
            let is_allowed = allowed.iter().any(|place| file.starts_with(place));
            assert!(is_allowed || !code.contains(forbidden), "{forbidden} is in {file}");
        }
    }
}

/// Without it, tokio polls the branches from a random one on.
#[test]
fn every_select_has_an_order() {
    for (file, code) in sources() {
        for after in code.split("select!").skip(1) {
            let body = after.trim_start().strip_prefix('{').unwrap_or(after).trim_start();
            assert!(
                body.starts_with("biased;"),
                "a select! without `biased;` in {file}:{body:.60}"
            );
        }
    }
}

/// A file that no program has as a module is compiled by nobody.
#[test]
fn every_file_with_tests_belongs_to_a_program() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR"));
    let read = |path: &Path| fs::read_to_string(path).expect("a file in UTF-8");
    let files = |directory: &Path| {
        let entries = fs::read_dir(directory)
            .expect("a directory")
            .map(|entry| entry.expect("an entry").path());
        entries.filter(|path| path.extension().is_some_and(|it| it == "rs")).collect::<Vec<_>>()
    };
    assert_eq!(files(root), [] as [PathBuf; 0], "tests live in a folder of their area");
    let crates =
        ["../client/tests", "../proto/tests", "../testing/tests", "../testing/sim/tests/sim"]
            .map(|path| root.join(path));
    let areas =
        fs::read_dir(root).expect("a directory").map(|entry| entry.expect("an entry").path());
    for area in areas.filter(|path| path.join("main.rs").exists()).chain(crates) {
        let main = read(&area.join("main.rs"));
        for file in files(&area) {
            let module = file.file_stem().expect("a name").to_string_lossy().into_owned();
            assert!(
                module == "main" || main.contains(&format!("mod {module};")),
                "{} is not compiled",
                file.display()
            );
        }
    }
}
