//! A set of parts that members divide: one more joins, and one ends.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use tokio::task::JoinHandle;
use zk_curator::CuratorFramework;
use zk_curator_client::internal::sleep;
use zk_curator_recipes::Shutdown;
use zk_curator_recipes::partition::{Partition, SetPartitioner};

use super::stage::{Outcome, Result, Samples, Stage};

/// The members that are always there.
const MEMBERS: usize = 10;
const SETTLE: Duration = Duration::from_secs(1);
/// Longer than the time to settle and the time for which a missing member still counts.
const QUIET: Duration = Duration::from_secs(3);

/// The owners of the parts, as the bodies report them.
#[derive(Default)]
struct Board {
    owners: BTreeMap<String, Vec<usize>>,
    most: usize,
    /// The former owner of a part, and when its body ended.
    released: BTreeMap<String, (usize, Instant)>,
    moved: usize,
    disturbed: usize,
    idle: Vec<Duration>,
    last: Option<Instant>,
}

#[derive(Clone, Default)]
struct Shared(Arc<Mutex<Board>>);

impl Shared {
    fn board(&self) -> MutexGuard<'_, Board> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn begins(&self, member: usize, part: &str) -> Body {
        let (mut board, now) = (self.board(), Instant::now());
        board.last = Some(now);
        if let Some((former, at)) = board.released.remove(part) {
            if former == member {
                board.disturbed += 1;
            } else {
                board.moved += 1;
                board.idle.push(now - at);
            }
        }
        let owners = board.owners.entry(part.to_owned()).or_default();
        owners.push(member);
        board.most = board.owners[part].len().max(board.most);
        drop(board);
        Body { shared: self.clone(), member, part: part.to_owned() }
    }

    /// Begins with an operation, of which nothing has changed yet.
    fn forget(&self) {
        let mut board = self.board();
        board.released.clear();
        board.last = None;
    }

    /// Waits for a change, until all parts have an owner and nothing more changes. Returns the last
    /// change.
    async fn settled(&self, parts: usize) -> Instant {
        loop {
            let (owned, last) = {
                let board = self.board();
                (board.owners.values().filter(|owners| !owners.is_empty()).count(), board.last)
            };
            if let Some(last) = last.filter(|last| owned == parts && last.elapsed() > QUIET) {
                return last;
            }
            sleep(Duration::from_millis(50)).await;
        }
    }
}

/// A body that runs, until it is dropped.
struct Body {
    shared: Shared,
    member: usize,
    part: String,
}

impl Drop for Body {
    fn drop(&mut self) {
        let (mut board, now) = (self.shared.board(), Instant::now());
        board.last = Some(now);
        if let Some(owners) = board.owners.get_mut(&self.part) {
            owners.retain(|owner| *owner != self.member);
        }
        board.released.insert(self.part.clone(), (self.member, now));
    }
}

/// A member, and how to stop it.
struct Member {
    zk: CuratorFramework,
    stop: Shutdown,
    task: JoinHandle<std::result::Result<(), String>>,
}

impl Member {
    fn start(
        zk: CuratorFramework,
        path: &str,
        parts: usize,
        number: usize,
        shared: &Shared,
    ) -> Self {
        let names = (0..parts).map(|part| format!("p{part}"));
        let set = SetPartitioner::new(&zk, path, names).id(format!("m{number}")).settle(SETTLE);
        let (stop, shared) = (Shutdown::new(), shared.clone());
        let stopped = stop.clone();
        let task = tokio::spawn(async move {
            let body = |part: Partition| {
                let running = shared.begins(number, part.name());
                async move {
                    part.revoked().await;
                    drop(running);
                    Ok::<_, String>(())
                }
            };
            set.run(body).until(stopped).await.map_err(|error| error.to_string())
        });
        Self { zk, stop, task }
    }
}

/// Starts the members that are always there.
async fn members(stage: &mut Stage, path: &str, shared: &Shared) -> Result<Vec<Member>> {
    let mut all = Vec::new();
    for number in 0..MEMBERS {
        all.push(Member::start(stage.client().await?, path, stage.size, number, shared));
    }
    shared.settled(stage.size).await;
    Ok(all)
}

#[expect(clippy::cast_precision_loss, reason = "counts are far below 2^52")]
fn told(stage: &Stage, board: &mut Board, latencies: Samples) -> Outcome {
    let operations = latencies.len();
    board.idle.sort_unstable();
    if let Some(idle) = board.idle.get(board.idle.len() / 2) {
        stage.numbers.set("ms without an owner, of a part that moved", idle.as_secs_f64() * 1e3);
    }
    stage.numbers.set("parts that moved", board.moved as f64 / operations as f64);
    stage
        .numbers
        .set("parts that stayed and were disturbed", board.disturbed as f64 / operations as f64);
    let check = format!("owners_at_once={} changes={operations}", board.most);
    Outcome { operations, latencies, check }
}

pub(crate) async fn join(stage: &mut Stage) -> Result<()> {
    let (path, shared, size) = (stage.below("parts"), Shared::default(), stage.size);
    let members = members(stage, &path, &shared).await?;
    let zk = stage.client().await?;
    let begun = stage.begin().await?;
    let (mut latencies, mut counts) = (Samples::new(), Board::default());
    for _ in 0..stage.operations {
        shared.forget();
        let began = Instant::now();
        let member = Member::start(zk.clone(), &path, size, MEMBERS, &shared);
        latencies.push(shared.settled(size).await - began);
        counts.add(&mut shared.board());
        shared.forget();
        member.stop.begin();
        member.task.await??;
        shared.settled(size).await;
        counts.forget(&mut shared.board());
    }
    let outcome = told(stage, &mut counts, latencies);
    end(stage, &begun, outcome, members).await
}

pub(crate) async fn leave(stage: &mut Stage) -> Result<()> {
    let (path, shared, size) = (stage.below("parts"), Shared::default(), stage.size);
    let mut members = members(stage, &path, &shared).await?;
    let mut spare = Vec::new();
    for _ in 0..stage.operations {
        spare.push(stage.client().await?);
    }
    shared.forget();
    members.push(Member::start(stage.client().await?, &path, size, MEMBERS, &shared));
    shared.settled(size).await;
    let begun = stage.begin().await?;
    let (mut latencies, mut counts) = (Samples::new(), Board::default());
    for zk in spare {
        shared.forget();
        let member = members.pop().ok_or("no member is left")?;
        let began = Instant::now();
        member.zk.close().await?;
        latencies.push(shared.settled(size).await - began);
        counts.add(&mut shared.board());
        // Its error is that the framework is closed.
        let _closed = member.task.await?;
        shared.forget();
        members.push(Member::start(zk, &path, size, MEMBERS, &shared));
        shared.settled(size).await;
        counts.forget(&mut shared.board());
    }
    let outcome = told(stage, &mut counts, latencies);
    end(stage, &begun, outcome, members).await
}

impl Board {
    /// Takes over what an operation has counted.
    fn add(&mut self, board: &mut Self) {
        self.moved += std::mem::take(&mut board.moved);
        self.disturbed += std::mem::take(&mut board.disturbed);
        self.idle.append(&mut board.idle);
        self.most = self.most.max(board.most);
    }

    /// Forgets what was counted between two operations, except that a part had two owners.
    fn forget(&mut self, board: &mut Self) {
        (board.moved, board.disturbed) = (0, 0);
        board.idle.clear();
        self.most = self.most.max(board.most);
    }
}

async fn end(
    stage: &mut Stage,
    begun: &super::stage::Begun,
    outcome: Outcome,
    members: Vec<Member>,
) -> Result<()> {
    stage.report(begun, None, outcome).await?;
    members.iter().for_each(|member| member.stop.begin());
    for member in members {
        member.task.await??;
    }
    stage.clear().await
}
