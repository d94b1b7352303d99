//! A round: a time with faults, a time without, and then the judgement.

use std::fmt;
use std::net::SocketAddr;
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::AtomicU32;
use std::time::Duration;

use tokio::task::JoinSet;
use tokio::time::{Instant, timeout_at};
use tokio_util::sync::CancellationToken;
use zk_curator_client::internal::sleep;

use super::clients::{Client, Weather};
use super::error::ChaosError;
use super::journal::{Journal, Span};
use super::leftovers::{self, Ground};
use super::link::Link;
use super::process::Process;
use super::report::Round;
use super::settings::Chaos;
use super::wire::Clock;
use super::worker::Life;
use super::{servers, witness};
use crate::{RealEnsemble, RealZooKeeper};
use zk_curator_sim::Event;
use zk_curator_sim::history::Lifecycle;

/// The interval at which the watching process measures if it runs.
const HEARTBEAT: Duration = Duration::from_millis(10);

/// Starts the clients of all scenarios, injects faults for a time, and then waits until all clients
/// have finished.
#[expect(clippy::too_many_lines, reason = "one story")]
pub(super) async fn play(
    chaos: &Chaos,
    seed: u64,
    faulty: Duration,
    program: &Arc<Path>,
    ensemble: &mut RealEnsemble,
) -> Result<Round, ChaosError> {
    let weather = Weather {
        seed,
        session_timeout: chaos.session_timeout,
        journal: Journal::new(Clock::start()),
        servers: ensemble.connect_string(),
        over: CancellationToken::new(),
    };
    let journal = &weather.journal;
    let ground = Ground::prepare(&weather.servers, seed, &chaos.subjects).await?;
    let addresses: Vec<SocketAddr> = ensemble.servers().iter().map(RealZooKeeper::addr).collect();

    let heartbeat = tokio::spawn(watch_the_clock(journal.clone()));
    let observer = ground.connect().await?;
    let witness = tokio::spawn({
        let (zk, path, over) = (observer.clone(), ground.witness(), weather.over.clone());
        async move { witness::watch(&zk, path, over).await }
    });
    let mut lives = JoinSet::new();
    let mut disturbances = JoinSet::new();
    for scenario in 0..chaos.subjects.len() {
        for number in 0..chaos.clients {
            let link = Link::start(&addresses).await.map_err(ChaosError::io("start a proxy"))?;
            let client =
                Arc::new(client(chaos, scenario, number, link, ground.chroot(scenario), &weather));
            let program = Arc::clone(program);
            let living = Arc::clone(&client);
            lives.spawn(async move {
                Ok::<_, ChaosError>((Arc::clone(&living), living.live(program).await?))
            });
            disturbances.spawn(Arc::clone(&client).disturb_link());
            disturbances.spawn(client.end_sessions());
        }
    }

    let storm = async {
        sleep(faulty).await;
        weather.over.cancel();
    };
    let (disturbed, ()) = tokio::join!(
        servers::disturb(ensemble, seed, chaos.session_timeout, journal, &weather.over),
        storm
    );
    disturbed?;
    while let Some(done) = disturbances.join_next().await {
        done?;
    }
    let mut clients: Vec<(Arc<Client>, Process)> = Vec::new();
    while let Some(living) = lives.join_next().await {
        clients.push(living??);
    }

    journal.world(Event::FaultsOver);
    finished(chaos, journal, clients).await?;
    heartbeat.abort();
    let lost = witness.await?;
    leftovers::close(&observer).await?;
    for (scenario, left) in ground.leftovers(ensemble, chaos.patience).await? {
        journal.violated(scenario, "nothing is left", left);
    }
    if let Some(broken) = ground.clear().await? {
        journal.violated(None, "nothing is left", broken);
    }
    Ok(Round::judged(chaos, journal.take(), lost))
}

/// The client with this number in a scenario.
fn client(
    chaos: &Chaos,
    scenario: usize,
    number: u32,
    link: Link,
    chroot: impl fmt::Display,
    weather: &Weather,
) -> Client {
    let index = u32::try_from(scenario).unwrap_or_default() * chaos.clients + number;
    let life = Life {
        scenario: chaos.subjects[scenario].name.clone(),
        number,
        incarnation: 0,
        clients: chaos.clients,
        seed: weather.seed.wrapping_mul(1_000_003).wrapping_add(u64::from(index) << 32),
        connect_string: format!("{}{chroot}", link.connect_string()),
        session_timeout: chaos.session_timeout,
        origin: weather.journal.clock().origin(),
    };
    Client {
        scenario,
        index,
        life,
        link,
        lives: AtomicU32::new(0),
        granted: Arc::default(),
        weather: weather.clone(),
    }
}

/// Waits until every client has finished. A client that takes too long is killed.
async fn finished(
    chaos: &Chaos,
    journal: &Journal,
    mut clients: Vec<(Arc<Client>, Process)>,
) -> Result<(), ChaosError> {
    let over = Instant::now();
    for (_, process) in &clients {
        process.faults_are_over();
    }
    let patience = |client: &Client| chaos.subjects[client.scenario].patience(chaos.patience);
    // Waits for one client after another, beginning with the clients that have the least time.
    clients.sort_by_key(|(client, _)| patience(client));
    for (client, mut process) in clients {
        let (who, patience) = (client.who(), patience(&client));
        match timeout_at(over + patience, process.ended()).await {
            Ok(status) => {
                let status = status?;
                if !status.success() {
                    journal.fail(client.scenario, who, &format!("has ended with {status}"));
                }
            }
            Err(_) => {
                let broken = format!("has not finished within {patience:?} after the faults");
                journal.fail(client.scenario, who, &broken);
                process.kill().await?;
                journal.client(client.scenario, who, Lifecycle::Killed);
            }
        }
    }
    Ok(())
}

/// Records when this process does not run because the machine is busy.
async fn watch_the_clock(journal: Journal) {
    loop {
        let from = journal.clock().now();
        sleep(HEARTBEAT).await;
        let to = journal.clock().now();
        if to.saturating_sub(from) > HEARTBEAT * 2 {
            journal.stall(None, Span { from: from + HEARTBEAT, to });
        }
    }
}
