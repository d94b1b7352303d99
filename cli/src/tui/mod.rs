//! The screens of `zkc top`.
//!
//! `app` is the state, and how keys and samples change it; `screens`, `recipes` and `tree` make tables of it,
//! and `draw` draws them. All of that is without I/O. The driver here asks the servers, reads the
//! keys, and performs the effects of the state.

mod app;
mod draw;
mod model;
mod recipes;
mod screens;
mod table;
mod terminal;
mod tree;

use std::pin::Pin;
use std::time::{Duration, Instant};

use futures_util::StreamExt;
use futures_util::stream::FuturesUnordered;
use zk_curator::op::fan_out;
use zk_curator_recipes::inspect;

use self::app::State;
use self::model::{Effect, Event, Sample};
use self::terminal::{Keys, Screen};
use self::tree::Child;
use crate::app::App;
use crate::ensemble::flw::Word;
use crate::ensemble::members::{self, Members};
use crate::ensemble::probe::{self, Options};
use crate::exit::Failure;
use crate::output::{data, time};
use crate::path;
use crate::who::{self, Facts};

/// The most children of a node that are shown.
const MOST_CHILDREN: usize = 5_000;
/// The most nodes that are read to find recipes.
const MOST_NODES: usize = 20_000;
/// The stats that are requested at a time.
const STATS_AT_ONCE: usize = 512;
/// The members are looked up again after this many samples.
const SAMPLES_PER_LOOK: u64 = 15;

/// Something that runs besides the screen.
type Work<'a> = Pin<Box<dyn Future<Output = Done> + 'a>>;

/// A piece of work that is done.
enum Done {
    Event(Event),
    Sampled { sample: Sample, members: Members },
}

/// Shows the screens until `q`.
pub(crate) async fn run(app: &App, options: &Options, interval: Duration) -> Result<(), Failure> {
    let name = app.context().unwrap_or_else(|| app.servers()).to_owned();
    let driver = Driver { app, options, start: Instant::now() };
    let mut state = State::new(name, interval);
    let mut members = None;
    let mut samples = 0;
    let mut asking = false;
    let mut work: FuturesUnordered<Work<'_>> = FuturesUnordered::new();
    let mut ticks = tokio::time::interval(interval);
    ticks.set_missed_tick_behavior(tokio::time::MissedTickBehavior::Delay);
    let mut stop = std::pin::pin!(stopped());
    let mut screen = Screen::open()?;
    let mut keys = Keys::read();
    loop {
        screen.terminal.draw(|frame| draw::draw(frame, &state, app.out().color()))?;
        let mut ask = false;
        let event = tokio::select! {
            _ = ticks.tick() => {
                ask = !state.paused;
                None
            }
            key = keys.events.recv() => match key {
                Some(event) => Some(event),
                None => return Ok(()),
            },
            Some(done) = work.next() => Some(match done {
                Done::Event(event) => event,
                Done::Sampled { sample, members: found } => {
                    asking = false;
                    samples += 1;
                    members = (samples % SAMPLES_PER_LOOK != 0).then_some(found);
                    Event::Sample(sample)
                }
            }),
            () = &mut stop => return Ok(()),
        };
        if let Some(event) = event {
            let (next, effect) = state.step(event);
            state = next;
            match effect {
                Some(Effect::Quit) => return Ok(()),
                Some(Effect::Ask) => ask = true,
                Some(Effect::List(path)) => work.push(Box::pin(driver.list(path))),
                Some(Effect::Read(path)) => work.push(Box::pin(driver.read(path))),
                Some(Effect::Inspect) => work.push(Box::pin(driver.inspect())),
                Some(Effect::Why(path)) => work.push(Box::pin(driver.why(path))),
                None => {}
            }
        }
        if ask && !asking {
            asking = true;
            work.push(Box::pin(driver.sample(members.take(), state.words())));
        }
    }
}

/// The end of the program by a signal.
async fn stopped() {
    #[cfg(unix)]
    {
        use tokio::signal::unix::{SignalKind, signal};
        if let (Ok(mut end), Ok(mut hang_up)) =
            (signal(SignalKind::terminate()), signal(SignalKind::hangup()))
        {
            tokio::select! {
                _ = end.recv() => {}
                _ = hang_up.recv() => {}
            }
            return;
        }
    }
    std::future::pending::<()>().await;
}

/// Asks the servers.
#[derive(Clone, Copy)]
struct Driver<'a> {
    app: &'a App,
    options: &'a Options,
    start: Instant,
}

impl Driver<'_> {
    async fn sample(self, known: Option<Members>, words: &[Word]) -> Done {
        let members = match known {
            Some(members) => members,
            // The connect string was parsed before.
            None => members::find(self.app, self.options).await.unwrap_or_default(),
        };
        let sample = sample(&members, self.options, words, self.start).await;
        Done::Sampled { sample, members }
    }

    async fn list(self, path: String) -> Done {
        let answer = self.children(&path).await.map_err(|failure| failure.to_string());
        Done::Event(Event::Listed(path, answer))
    }

    async fn children(self, path: &str) -> Result<Vec<Child>, Failure> {
        let zk = self.app.zk().await?;
        let mut names = zk.children(path).await?;
        names.sort_unstable();
        names.truncate(MOST_CHILDREN);
        let stats = names.iter().map(|name| zk.exists(path::join(path, name)));
        let stats = fan_out(STATS_AT_ONCE, stats).await;
        let mut children = Vec::new();
        for (name, stat) in names.into_iter().zip(stats) {
            // Without a stat, the node was deleted meanwhile.
            children.extend(stat?.map(|stat| Child { name, stat }));
        }
        Ok(children)
    }

    async fn inspect(self) -> Done {
        let find = async { Ok(inspect::find(self.app.zk().await?, "/", MOST_NODES).await?) };
        let answer: Result<_, Failure> = find.await;
        let answer = answer.map(|found| found.findings).map_err(|failure| failure.to_string());
        Done::Event(Event::Inspected(answer))
    }

    async fn why(self, path: String) -> Done {
        let answer = why(self.app, self.options, &path).await;
        Done::Event(Event::Read(path, answer.map_err(|failure| failure.to_string())))
    }

    async fn read(self, path: String) -> Done {
        let read = async { Ok(self.app.zk().await?.get_data(&path).undecompressed().await?) };
        let answer: Result<_, Failure> = read.await;
        let answer =
            match answer {
                Ok(data) if data::is_gzip(&data) => Ok(data::gunzip(&data)
                    .map_or_else(|_| data::show(&data), |plain| data::show(&plain))),
                Ok(data) => Ok(data::show(&data)),
                Err(failure) => Err(failure.to_string()),
            };
        Done::Event(Event::Read(path, answer))
    }
}

/// Returns the lines of a recipe: its holders, its waiters, and what follows.
async fn why(app: &App, options: &Options, path: &str) -> Result<String, Failure> {
    let zk = app.zk().await?;
    let (finding, facts) = tokio::join!(inspect::inspect(zk, path), Facts::gather(app, options));
    let (finding, facts) = (finding?, facts?);
    let now = time::now_ms();
    let mut lines = Vec::new();
    for (title, contenders) in [("HOLDER", &finding.holders), ("WAITING", &finding.waiting)] {
        for contender in contenders {
            lines.extend(who::contender_lines(&facts, contender, title, now));
        }
    }
    lines.extend(facts.verdicts(&finding));
    lines.extend(facts.notes().iter().cloned());
    Ok(lines.join("\n"))
}

/// Asks each server once.
pub(crate) async fn sample(
    members: &Members,
    options: &Options,
    words: &[Word],
    start: Instant,
) -> Sample {
    let reports = probe::ask_all(&members.servers, words, options).await;
    Sample { reports, voters: members.voters(), taken: time::now_ms(), at: start.elapsed() }
}

#[cfg(test)]
mod tests;
