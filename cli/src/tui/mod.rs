//! The screens of `zkc top`.
//!
//! `app` is the state, and how keys and samples change it; `line` parses its command line;
//! `screens`, `recipes`, `tree` and `hot` make tables of it, and `draw` draws them. All of that is
//! without I/O. The driver here asks the servers, reads the keys, and performs the effects of the
//! state.

mod app;
mod draw;
mod hot;
mod line;
mod model;
mod recipes;
mod screens;
mod table;
mod terminal;
mod tree;

use std::time::{Duration, Instant};

use clap::{ArgMatches, FromArgMatches};
use futures_util::StreamExt;
use futures_util::future::LocalBoxFuture;
use futures_util::stream::FuturesUnordered;
use zk_curator::op::fan_out;
use zk_curator::watch::PersistentWatch;
use zk_curator_client::internal::sleep;
use zk_curator_ops::ensemble::probe::{ProbeOptions, ask_all};
use zk_curator_ops::ensemble::words::FourLetterWord;
use zk_curator_ops::ensemble::{EnsembleMembers, EnsembleProbe};
use zk_curator_ops::holders::SessionFacts;
use zk_curator_recipes::inspect;

use self::app::AppState;
use self::hot::Window;
use self::model::{Sample, ScreenName as Shown, TuiEffect, TuiEvent};
use self::terminal::{KeyReader, TerminalScreen};
use self::tree::Child;
use crate::app::App;
use crate::args::{self, Global};
use crate::exit::CommandFailure;
use crate::output::{CommandOutput, Out, data, time};
use crate::stop::{StopRequest, Stops};
use crate::{path, probe, who, words};

/// The most children of a node that are shown.
const MOST_CHILDREN: usize = 5_000;
/// The most nodes that are read to find recipes.
const MOST_NODES: usize = 20_000;
/// The stats that are requested at a time.
const STATS_AT_ONCE: usize = 512;
/// The members are looked up again after this many samples.
const SAMPLES_PER_LOOK: u64 = 15;

/// A piece of work beside the screen that is done.
enum Done {
    Event(TuiEvent),
    Sampled { sample: Sample, members: EnsembleMembers },
    Followed { window: Window, watch: Option<PersistentWatch> },
    Ran(TuiEvent),
}

/// Shows the screens until `q`.
#[expect(clippy::too_many_lines, reason = "one loop over keys and samples")]
pub(crate) async fn run(
    app: &App,
    probe: &EnsembleProbe<'_>,
    interval: Duration,
) -> Result<(), CommandFailure> {
    let name = app.context().unwrap_or_else(|| app.servers()).to_owned();
    // Lines run below the screens, where nothing can be asked.
    let silent = app.without_questions();
    let driver = TuiDriver { app: &silent, probe, start: Instant::now() };
    let mut state = AppState::new(name, interval, !app.is_read_only());
    let (mut following, mut watch) = (false, None);
    let mut members = None;
    let mut samples = 0;
    let mut asking = false;
    let mut work: FuturesUnordered<LocalBoxFuture<'_, Done>> = FuturesUnordered::new();
    let mut ticks = tokio::time::interval(interval);
    ticks.set_missed_tick_behavior(tokio::time::MissedTickBehavior::Delay);
    let mut stop = std::pin::pin!(stopped());
    let mut screen = TerminalScreen::open()?;
    let mut keys = KeyReader::read();
    loop {
        screen.terminal.draw(|frame| draw::draw(frame, &state, app.out().color()))?;
        match (state.screen == Shown::Hot, following) {
            (true, false) => {
                following = true;
                work.push(Box::pin(driver.follow(watch.take(), interval)));
            }
            (false, false) => watch = None,
            _ => {}
        }
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
                    TuiEvent::Sample(sample)
                }
                Done::Followed { window, watch: kept } => {
                    following = false;
                    watch = kept;
                    TuiEvent::Followed(window)
                }
                Done::Ran(event) => {
                    // The command may have written to the terminal.
                    screen.repaint()?;
                    event
                }
            }),
            () = &mut stop => return Ok(()),
        };
        if let Some(event) = event {
            let (next, effect) = state.step(event);
            state = next;
            match effect {
                Some(TuiEffect::Quit) => return Ok(()),
                Some(TuiEffect::Ask) => ask = true,
                Some(TuiEffect::Copy(text)) => terminal::copy(&text)?,
                Some(TuiEffect::Edit(path)) => {
                    // The editor gets the terminal.
                    drop((keys, screen));
                    let edited = edit(app, &path).await;
                    (screen, keys) = (TerminalScreen::open()?, KeyReader::read());
                    let (next, effect) = state.step(TuiEvent::Edited(path, edited));
                    state = next;
                    work.extend(effect.and_then(|effect| driver.begin(effect)));
                }
                Some(effect) => work.extend(driver.begin(effect)),
                None => {}
            }
        }
        if ask && !asking {
            asking = true;
            work.push(Box::pin(driver.sample(members.take(), state.words())));
        }
    }
}

/// The end of the program by a signal. Ctrl-C is a key of the screens, and not a signal.
async fn stopped() {
    if let Ok(mut stops) = Stops::catch_some(&[StopRequest::Terminate, StopRequest::Hangup]) {
        stops.next().await;
        return;
    }
    std::future::pending::<()>().await;
}

/// Asks the servers.
#[derive(Clone, Copy)]
struct TuiDriver<'a> {
    app: &'a App,
    probe: &'a EnsembleProbe<'a>,
    start: Instant,
}

impl<'a> TuiDriver<'a> {
    /// Begins the work that an effect asks for, if it asks for work.
    fn begin(self, effect: TuiEffect) -> Option<LocalBoxFuture<'a, Done>> {
        Some(match effect {
            TuiEffect::List(path) => Box::pin(self.list(path)),
            TuiEffect::Read(path) => Box::pin(self.read(path)),
            TuiEffect::Inspect => Box::pin(self.inspect()),
            TuiEffect::Why(path) => Box::pin(self.why(path)),
            TuiEffect::Run(line) => Box::pin(self.run(line)),
            TuiEffect::Quit | TuiEffect::Ask | TuiEffect::Copy(_) | TuiEffect::Edit(_) => {
                return None;
            }
        })
    }

    async fn sample(self, known: Option<EnsembleMembers>, words: &[FourLetterWord]) -> Done {
        let members = match known {
            Some(members) => members,
            // The connect string was parsed before.
            None => self.probe.members().await.unwrap_or_default(),
        };
        let sample = sample(&members, self.probe.options(), words, self.start).await;
        Done::Sampled { sample, members }
    }

    async fn list(self, path: String) -> Done {
        let answer = self.children(&path).await.map_err(|failure| failure.to_string());
        Done::Event(TuiEvent::Listed(path, answer))
    }

    /// Returns the first children, and the number of the others.
    async fn children(self, path: &str) -> Result<(Vec<Child>, usize), CommandFailure> {
        let zk = self.app.zk().await?;
        let mut names = zk.children(path).await?;
        let more = names.len().saturating_sub(MOST_CHILDREN);
        names.sort_unstable();
        names.truncate(MOST_CHILDREN);
        let stats = names.iter().map(|name| zk.exists(path::join(path, name)));
        let stats = fan_out(STATS_AT_ONCE, stats).await;
        let mut children = Vec::new();
        for (name, stat) in names.into_iter().zip(stats) {
            // Without a stat, the node was deleted meanwhile.
            children.extend(stat?.map(|stat| Child { name, stat }));
        }
        Ok((children, more))
    }

    /// Counts the changes of all nodes for a time.
    async fn follow(self, watch: Option<PersistentWatch>, span: Duration) -> Done {
        let begin = Instant::now();
        let mut window = Window::default();
        let mut watch = match watch {
            Some(watch) => Some(watch),
            None => match self.watch().await {
                Ok(watch) => Some(watch),
                Err(failure) => {
                    window.trouble = Some(failure.to_string());
                    None
                }
            },
        };
        let mut end = std::pin::pin!(sleep(span));
        loop {
            let next = async {
                match &mut watch {
                    Some(watch) => watch.next().await,
                    None => std::future::pending().await,
                }
            };
            tokio::select! {
                () = &mut end => break,
                event = next => match event {
                    Some(event) => window.note(event),
                    // The next time begins with another watch.
                    None => watch = None,
                },
            }
        }
        window.passed = begin.elapsed();
        Done::Followed { window, watch }
    }

    async fn watch(self) -> Result<PersistentWatch, CommandFailure> {
        Ok(self.app.zk().await?.add_watch("/").recursive().await?)
    }

    /// Runs a command, and returns its output.
    async fn run(self, line: String) -> Done {
        let answer = run_line(self.app, &line).await.map_err(|failure| failure.to_string());
        Done::Ran(TuiEvent::Ran(line, answer))
    }

    async fn inspect(self) -> Done {
        let find = async { Ok(inspect::find(self.app.zk().await?, "/", MOST_NODES).await?) };
        let answer: Result<_, CommandFailure> = find.await;
        let answer = answer.map(|found| (recipes::missing(&found), found));
        let answer = answer.map(|(missing, found)| (found.findings, missing));
        let answer = answer.map_err(|failure| failure.to_string());
        Done::Event(TuiEvent::Inspected(answer))
    }

    async fn why(self, path: String) -> Done {
        let answer = why(self.app, self.probe, &path).await;
        Done::Event(TuiEvent::Read(path, answer.map_err(|failure| failure.to_string())))
    }

    async fn read(self, path: String) -> Done {
        let read = async { Ok(self.app.zk().await?.get_data(&path).undecompressed().await?) };
        let answer: Result<_, CommandFailure> = read.await;
        let answer = match answer {
            Ok(data) => Ok(data::show(&data::plain(&data))),
            Err(failure) => Err(failure.to_string()),
        };
        Done::Event(TuiEvent::Read(path, answer))
    }
}

/// Runs a command of `zkc` in the session of the screens.
async fn run_line(app: &App, line: &str) -> Result<String, CommandFailure> {
    let words = words::split(line).map_err(CommandFailure::usage)?;
    let matches = parse(app, words)?;
    if let Some(why) = line::refusal(&matches) {
        return Err(CommandFailure::usage(format!("not run here: {why}")));
    }
    let (answer, out) = run_parsed(app, &matches).await?;
    let bytes = out.bytes(&answer)?;
    answer.printed().await?;
    Ok(String::from_utf8_lossy(&bytes).into_owned())
}

fn parse(app: &App, words: Vec<String>) -> Result<ArgMatches, CommandFailure> {
    let names = std::iter::once("zkc".to_owned()).chain(words);
    let matches = app.grammar().command().try_get_matches_from(names);
    let matches = matches.map_err(|error| CommandFailure::usage(error.to_string()))?;
    if let Some(option) = args::of_another_session(&matches) {
        return Err(CommandFailure::usage(format!("--{option}: the screens have one session")));
    }
    Ok(matches)
}

async fn run_parsed(
    app: &App,
    matches: &ArgMatches,
) -> Result<(CommandOutput, Out), CommandFailure> {
    let options = Global::from_arg_matches(matches);
    let options = options.map_err(|error| CommandFailure::usage(error.to_string()))?;
    let app = app.with_options_of(&options, |option| args::is_given(matches, option));
    match app.grammar().run(&app, matches).await {
        Ok(answer) => Ok((answer, Out::new(&options))),
        Err(failure) => Err(app.explain(failure).await),
    }
}

/// Edits a node, as `zkc edit` does.
async fn edit(app: &App, path: &str) -> Result<(), String> {
    let words = ["edit", "--", path].map(str::to_owned).to_vec();
    let edited = async { run_parsed(app, &parse(app, words)?).await };
    edited.await.map(drop).map_err(|failure| failure.to_string())
}

/// Returns the lines of a recipe: its holders, its waiters, and what follows.
async fn why(app: &App, probe: &EnsembleProbe<'_>, path: &str) -> Result<String, CommandFailure> {
    let zk = app.zk().await?;
    let (finding, facts) =
        tokio::join!(inspect::inspect(zk, path), SessionFacts::gather(zk, probe));
    let finding = finding?;
    let now = time::now_ms();
    let mut lines = Vec::new();
    for (title, contenders) in [("HOLDER", &finding.holders), ("WAITING", &finding.waiting)] {
        for contender in contenders {
            lines.extend(who::contender_lines(&facts, contender, title, now));
        }
    }
    lines.extend(facts.verdicts(&finding));
    lines.extend(facts.notes().iter().map(probe::note));
    if finding.is_partial {
        lines.push(who::PARTIAL.to_owned());
    }
    Ok(lines.join("\n"))
}

/// Asks each server once.
pub(crate) async fn sample(
    members: &EnsembleMembers,
    options: &ProbeOptions,
    words: &[FourLetterWord],
    start: Instant,
) -> Sample {
    let reports = ask_all(&members.servers, words, options).await;
    Sample { reports, voters: members.voters(), taken: time::now_ms(), at: start.elapsed() }
}

#[cfg(test)]
mod tests;
