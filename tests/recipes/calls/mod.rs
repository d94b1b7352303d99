//! Every row of the catalogue of public calls, with one disturbance in each module.

mod bad_path;
mod callbacks;
mod closing;
mod complete;
mod dropped;
mod expired;
mod handles;
mod latent;
mod lost;
mod refused;

use std::any::Any;
use std::collections::BTreeMap;
use std::ops::Range;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use tokio::sync::watch;
use tokio::time::timeout;
use zk_curator::CuratorFrameworkBuilder;
use zk_curator_testing::wait::past;
use zk_curator_testing::{RuleGuard, TestServer, Verdict};
use zk_curator_tests::catalogue::{Call, Failure, Row, Settings, Stage, rows};
use zk_curator_tests::{session_id, simulated, size};

/// The path of the calls.
const AT: &str = "/at";
/// Longer than any call takes.
const LONG: Duration = Duration::from_secs(1800);
/// Longer than the cleanup in the background takes, and shorter than a session.
const A_MOMENT: Duration = Duration::from_secs(5);

/// Streams that report no errors: they wait, or end.
const WITHOUT_ERRORS: [&str; 3] =
    ["cache::CacheEvents::next", "cache::FreshnessWatch::next", "cache::TypedEvents::next"];
/// Calls without a path of their own.
const WITHOUT_PATH: [&str; 6] = [
    "framework::WhoAmIBuilder::into_future",
    "framework::ConfigBuilder::into_future",
    "framework::ConfigBuilder<Watched>::into_future",
    "framework::ChangesSinceBuilder::into_future",
    "framework::CuratorFramework::wait_connected",
    "lease::SessionLeaseBuilder::open",
];

/// The first bytes of compressed data.
const GZIP: [u8; 2] = [0x1f, 0x8b];
/// The errors of a set-up that is possible once.
const ONCE: [&str; 4] =
    ["node exists", "there is a job", "is already bound", "there is already a node"];

/// What is wrong with a row.
type Judged<T = ()> = Result<T, String>;

/// Plays each row in a simulation of its own, and lists the rows that are wrong.
fn each(play: impl AsyncFn(Row) -> Judged) {
    each_of(0, 1, play);
}

/// The same, in the gate with one row of so many, beginning with this one.
fn each_of(first: usize, every: usize, play: impl AsyncFn(Row) -> Judged) {
    let (first, every) = (size(first, 0), size(every, 1));
    let judge = |row: Row| {
        let played = catch_unwind(AssertUnwindSafe(|| simulated(play(row))));
        let played = played.unwrap_or_else(|why| Err(format!("panics: {}", text_of(&*why))));
        Some(format!("{}: {}", row.name, played.err()?))
    };
    let wrong: Vec<_> = rows().skip(first).step_by(every).filter_map(judge).collect();
    assert!(wrong.is_empty(), "{} rows:\n{}", wrong.len(), wrong.join("\n"));
}

fn text_of(panic: &(dyn Any + Send)) -> &str {
    let owned = panic.downcast_ref::<String>().map(String::as_str);
    owned.or_else(|| panic.downcast_ref::<&str>().copied()).unwrap_or("?")
}

const AS_USUAL: Settings = [plain; 2];

fn plain(builder: CuratorFrameworkBuilder, _: &TestServer) -> CuratorFrameworkBuilder {
    builder
}

/// The set-up of a row, on frameworks with these settings.
async fn set_up(row: Row, settings: Settings) -> Judged<(Stage, Call)> {
    let stage = Stage::new(AT, settings).await;
    match (row.set_up)(stage.clone()).await {
        Ok(call) => Ok((stage, call)),
        Err(why) => Err(format!("the set-up fails: {why}")),
    }
}

/// A call that has ended, and the nodes that were there then.
#[derive(Clone)]
struct Played {
    result: Result<(), Failure>,
    left: Vec<String>,
    is_compressed: bool,
    requests: u64,
}

/// Plays a call to its end. Then nothing of the clients may be left but persistent nodes.
async fn play(stage: &Stage, call: Call, disturbed: Disturbed) -> Judged<Played> {
    let Ok(output) = timeout(LONG, call).await else {
        return Err(format!("it hangs\n{}", stage.server.probe()));
    };
    let requests = disturbed.requests();
    drop(disturbed);
    past(A_MOMENT).await;
    let left = left(stage);
    let probe = stage.server.probe();
    let is_gzip = |path: &String| probe.data(path).is_some_and(|data| data.starts_with(&GZIP));
    let is_compressed = probe.paths().iter().any(is_gzip);
    let result = output.map(drop);
    ended(stage).await?;
    Ok(Played { result, left, is_compressed, requests })
}

/// Plays a row without a disturbance.
async fn undisturbed(row: Row, settings: Settings) -> Judged<Played> {
    let (stage, call) = set_up(row, settings).await?;
    let nothing = Disturbed::nothing(&stage);
    let played = play(&stage, call, nothing).await?;
    played.result.as_ref().map_err(|why| format!("it fails: {why}"))?;
    Ok(played)
}

/// Plays a row without a disturbance and with the usual settings, once for all drivers.
async fn expected(row: Row) -> Judged<Played> {
    static PLAYED: Mutex<BTreeMap<&str, Played>> = Mutex::new(BTreeMap::new());
    if let Some(played) = PLAYED.lock().unwrap().get(row.name) {
        return Ok(played.clone());
    }
    let played = undisturbed(row, AS_USUAL).await?;
    PLAYED.lock().unwrap().insert(row.name, played.clone());
    Ok(played)
}

/// Plays a row with a verdict on some of its requests: those of the sample, and as many as
/// `burst` from there on.
async fn disturbed(
    row: Row,
    settings: Settings,
    (verdict, burst): (Verdict, u64),
    judge: impl Fn(&Played, &Played) -> Judged,
) -> Judged {
    let expected = expected(row).await?;
    for n in sample(row, expected.requests) {
        let (stage, call) = set_up(row, settings).await?;
        let disturbed = Disturbed::at(&stage, n..n + burst, verdict);
        let judged = match play(&stage, call, disturbed).await {
            Ok(played) => judge(&played, &expected),
            Err(why) => Err(why),
        };
        judged.map_err(|why| format!("at request {n}: {why}"))?;
    }
    Ok(())
}

/// Plays a row on the same server with other clients, unless its set-up creates what is there.
async fn again(row: Row, stage: &Stage) -> Judged {
    let stage = stage.again().await;
    let call = match (row.set_up)(stage.clone()).await {
        Ok(call) => call,
        Err(why) if ONCE.iter().any(|is_there| why.text.contains(is_there)) => return Ok(()),
        Err(why) => return Err(format!("again: {why}")),
    };
    let nothing = Disturbed::nothing(&stage);
    let played = play(&stage, call, nothing).await?;
    played.result.map_err(|why| format!("again: {why}"))
}

/// The same nodes are left as without a disturbance.
fn same(played: &Played, expected: &Played) -> Judged {
    if played.left == expected.left {
        return Ok(());
    }
    Err(format!("{:#?} is left rather than {:#?}", played.left, expected.left))
}

/// Closes the frameworks, after which nothing may be left but persistent nodes.
async fn ended(stage: &Stage) -> Judged {
    let closed = timeout(LONG, stage.zk.close()).await.map_err(|_| "close hangs".to_owned())?;
    drop(stage.other.close().await);
    // Guards of another framework close it in the background.
    past(A_MOMENT).await;
    closed.map_err(|why| format!("close fails: {why}"))?;
    let probe = stage.server.probe();
    let is_clean = probe.sessions().is_empty() && probe.watches().is_empty();
    if is_clean { Ok(()) } else { Err(format!("something is left\n{probe}")) }
}

/// The nodes, without what is different each time: ids, numbers and times.
fn left(stage: &Stage) -> Vec<String> {
    let probe = stage.server.probe();
    let ephemeral: Vec<_> = probe.sessions().iter().flat_map(|one| &one.ephemerals).collect();
    let line = |path: &String| {
        let data = probe.data(path).unwrap_or_default();
        let data = stage.zk.compressed().decompress(path, data.clone()).unwrap_or(data);
        let owner = if ephemeral.contains(&path) { "ephemeral" } else { "" };
        masked(&format!("{path} {owner} {}", String::from_utf8_lossy(&data)))
    };
    let paths = probe.paths();
    // The server removes empty containers at a time of its own.
    let is_there = |path: &&String| {
        let below = format!("{path}/");
        let mut others = paths.iter().filter(|other| other.starts_with(&below));
        !probe.is_container(path) || others.any(|other| !probe.is_container(other))
    };
    let mut left: Vec<_> = paths.iter().filter(is_there).map(line).collect();
    left.sort();
    left
}

/// Replaces each run of hexadecimal digits that is not a word, with the signs of ids and times.
fn masked(line: &str) -> String {
    let (mut masked, mut run) = (String::new(), String::new());
    for each in line.chars().chain(['\n']) {
        if each.is_ascii_hexdigit() || "-:T".contains(each) {
            run.push(each);
            continue;
        }
        let digits = run.chars().filter(char::is_ascii_digit).count();
        masked.push_str(if digits > 5 { "#" } else { &run });
        run.clear();
        masked.push(each);
    }
    masked.trim_end().to_owned()
}

/// The disturbance of the requests of a call, until it is dropped.
struct Disturbed {
    requests: Arc<watch::Sender<u64>>,
    _rule: RuleGuard,
}

impl Disturbed {
    /// Counts the requests of the call's framework, and applies a verdict to some of them.
    fn at(stage: &Stage, which: Range<u64>, verdict: Verdict) -> Self {
        let spared = session_id(&stage.other).get();
        let requests = Arc::new(watch::Sender::new(0));
        let count = Arc::clone(&requests);
        let rule = stage.server.rule(move |request| {
            if request.session_id() == spared || !request.is_throttlable() {
                return Verdict::Pass;
            }
            let number = *count.borrow();
            count.send_replace(number + 1);
            if which.contains(&number) { verdict } else { Verdict::Pass }
        });
        Self { requests, _rule: rule }
    }

    fn nothing(stage: &Stage) -> Self {
        Self::at(stage, 0..0, Verdict::Pass)
    }

    fn requests(&self) -> u64 {
        *self.requests.borrow()
    }

    /// Waits until so many requests have arrived.
    async fn reached(&self, requests: u64) {
        let mut count = self.requests.subscribe();
        count.wait_for(|count| *count >= requests).await.unwrap();
    }
}

/// Every number below `count` at night. In the gate one: the first, the last, or one in the middle.
fn sample(row: Row, count: u64) -> Range<u64> {
    let one = [0, count / 2, count.saturating_sub(1)][row.name.len() % 3];
    if size(0, 1) == 1 { 0..count } else { one..count.min(one + 1) }
}

#[test]
fn every_row_succeeds_and_closes_clean() {
    each(async |row| undisturbed(row, AS_USUAL).await.map(drop));
}
