//! Every public call has a row, or a reason for having none.

use std::collections::BTreeSet;
use std::path::Path;

use zk_curator_tests::catalogue::{Row, rows};
use zk_curator_tests::files_below;

/// The folder of the tests.
const ROOT: &str = env!("CARGO_MANIFEST_DIR");

/// Calls without a row, the reason, and the test that they have instead.
const EXCEPTIONS: &[(&str, &str, &str)] = &[
    ("discovery::LocalAddress::of", "asks the operating system", "discovery/local_address"),
    ("discovery::LocalAddress::towards", "asks the operating system", "discovery/local_address"),
    ("discovery::Purge::run", "ends only with an error", "discovery/rest"),
    ("framework::BackgroundErrors::next", "sends nothing", "recipes/nodes"),
    ("framework::CircuitBreaker::next", "sends nothing", "framework/listeners"),
    ("framework::CuratorFramework::close", "ends every driver", "framework/close"),
    ("framework::CuratorFramework::detach", "leaves the session on purpose", "framework/sessions"),
    ("framework::CuratorFramework::start", "begins every stage", "framework/cancel"),
    ("framework::CuratorFramework::wait_for_recovery", "needs an error", "recipes/outages"),
    (
        "framework::CuratorFramework::wait_until_released",
        "ends with the last handle",
        "recipes/stm_cancel",
    ),
    ("framework::Ownership::session_lost", "ends with the session", "framework/ownership"),
    ("framework::ReconfigBuilder::into_future", "needs an ensemble", "framework/ensemble"),
    ("framework::StateWatch::next", "sends nothing", "framework/state"),
    ("framework::StateWatch::until", "sends nothing", "framework/state"),
    ("framework::TaskHandle::detached", "sends nothing", "framework/runtime"),
    ("health::HealthWatch::next", "sends nothing", "recipes/nodes"),
    ("leader::LeaderSelector::close", "sends nothing", "locks/leader_selector"),
    ("leader::LeaderSelector::closing", "sends nothing", "locks/leader_selector"),
    ("lease::SessionLease::lost", "sends nothing", "recipes/lease/session"),
    ("partition::Partition::lost", "needs the end of a session", "recipes/partition/faults"),
    ("queue::Jobs::clean", "ends only with an error", "queues/queue_jobs_retention"),
    ("shutdown::Shutdown::begun", "sends nothing", "features/signals"),
    ("shutdown::Shutdown::close", "sends nothing", "discovery/shutdown"),
    ("shutdown::Shutdown::step", "sends nothing", "discovery/shutdown"),
];

/// The public calls of a source file: `area::Type::method`.
fn calls(area: &str, source: &str, calls: &mut BTreeSet<String>) {
    let mut of = String::new();
    let mut lines = source.lines().peekable();
    while let Some(line) = lines.next() {
        if line.starts_with("#[cfg(test)]")
            && lines.peek().is_some_and(|next| next.starts_with("mod "))
        {
            return;
        }
        let code = line.trim_start();
        if let Some(header) = code.strip_prefix("impl")
            && (header.starts_with([' ', '<']))
        {
            of = type_of(header);
            if let Some((_, builder)) = header.split_once("IntoFuture for ") {
                calls.insert(format!("{area}::{}::into_future", type_of(&format!(" {builder}"))));
            }
        }
        if let Some((_, awaited)) = line.split_once("awaits!(")
            && let Some((builder, _)) = awaited.split_once(" =>")
        {
            calls.insert(format!("{area}::{}::into_future", type_of(&format!(" {builder} {{"))));
        }
        let Some(signature) = code.strip_prefix("pub ") else { continue };
        let Some((modifiers, signature)) = signature.split_once("fn ") else { continue };
        let mut whole = signature.to_owned();
        while !whole.trim_end().ends_with(['{', ';', '}'])
            && let Some(next) = lines.next()
        {
            whole.push_str(next);
        }
        let is_call = modifiers == "async "
            || ["-> OpFuture<", "-> Run<", "-> impl Future<"]
                .iter()
                .any(|future| whole.contains(future));
        if is_call && (modifiers.is_empty() || modifiers == "async ") {
            let name: String =
                signature.chars().take_while(|c| c.is_alphanumeric() || *c == '_').collect();
            let is_free = code.len() == line.len();
            calls.insert(if is_free {
                format!("{area}::{name}")
            } else {
                format!("{area}::{of}::{name}")
            });
        }
    }
}

/// The type of an `impl`, with its type arguments unless they are parameters.
fn type_of(header: &str) -> String {
    let mut depth = 0;
    let header = match header.strip_prefix('<') {
        None => header,
        Some(_) => {
            let end = header.find(|c| {
                depth += match c {
                    '<' => 1,
                    '>' => -1,
                    _ => 0,
                };
                depth == 0
            });
            &header[end.map_or(0, |end| end + 1)..]
        }
    };
    let header = header.trim().trim_end_matches('{').trim();
    let header = header.split(" where").next().unwrap().split(" for ").last().unwrap();
    let (name, arguments) = header.split_once('<').unwrap_or((header, ""));
    let argument = arguments.trim_end_matches('>').rsplit("::").next().unwrap();
    if argument.len() < 2 || argument.starts_with('\'') {
        name.to_owned()
    } else {
        format!("{name}<{argument}>")
    }
}

fn public() -> BTreeSet<String> {
    let (mut all, mut locks) = (BTreeSet::new(), Vec::new());
    for (folder, area) in
        [("src", "framework"), ("recipes/src", ""), ("discovery/src", "discovery")]
    {
        for (path, source) in files_below(&[folder], "rs") {
            if path.contains("/tests/") || path.ends_with("/tests.rs") {
                continue;
            }
            let first = Path::new(&path).strip_prefix(folder).unwrap().iter().next().unwrap();
            let module = Path::new(first).file_stem().unwrap().to_str().unwrap();
            calls(if area.is_empty() { module } else { area }, &source, &mut all);
            let named = source.lines().filter_map(|line| line.strip_prefix("queue_lock!("));
            locks.extend(named.map(|names| names.split(',').next().unwrap().to_owned()));
        }
    }
    // The methods that a macro writes for several locks.
    let (written, all): (Vec<_>, Vec<_>) = all.into_iter().partition(|call| call.contains('$'));
    let methods = written.iter().filter(|call| call.contains("$lock"));
    let expanded =
        methods.flat_map(|call| locks.iter().map(move |lock| call.replace("$lock", lock)));
    all.into_iter().chain(expanded).collect()
}

#[test]
fn no_public_call_is_missing() {
    let public = public();
    let listed: BTreeSet<_> = rows().map(|row: Row| row.call().to_owned()).collect();
    let excepted: BTreeSet<_> = EXCEPTIONS.iter().map(|(call, ..)| (*call).to_owned()).collect();
    let missing: Vec<_> =
        public.iter().filter(|call| !listed.contains(*call) && !excepted.contains(*call)).collect();
    let unknown: Vec<_> =
        listed.iter().chain(&excepted).filter(|call| !public.contains(*call)).collect();
    let tests = EXCEPTIONS.iter().map(|(.., test)| test);
    let gone: Vec<_> =
        tests.filter(|test| !Path::new(&format!("{ROOT}/{test}.rs")).exists()).collect();
    let twice: Vec<_> = excepted.intersection(&listed).collect();
    assert!(missing.is_empty(), "without a row: {missing:#?}\nno public call: {unknown:#?}");
    assert!(unknown.is_empty(), "no public call: {unknown:#?}");
    assert!(gone.is_empty(), "no test: {gone:#?}");
    assert!(twice.is_empty(), "with a row and a reason for none: {twice:#?}");
}
