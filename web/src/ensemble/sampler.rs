//! The background task that samples the servers, one for all viewers.

use std::sync::Arc;
use std::time::Duration;

use tokio::time::Instant;
use zk_curator::CuratorFramework;
use zk_curator::internal::{Locked, Signal, sleep, sleep_until};
use zk_curator_ops::ensemble::doctor;
use zk_curator_ops::ensemble::probe::{ProbeOptions, ProbeReport, ask_all};
use zk_curator_ops::ensemble::words::FourLetterWord;
use zk_curator_ops::ensemble::{EnsembleMembers, EnsembleProbe, ProbeTrouble, sessions};

use super::clients::session_list;
use super::measures::{EnsembleMoment, MeasureRing, PreviousReports, measures};
use super::sample::{EnsembleSample, EnsembleSurvey};
use super::servers::{ServerLine, server_lines};
use crate::show::now_ms;

/// The time for which the servers are sampled after the last viewer has left.
const LINGER: Duration = Duration::from_secs(60);
/// The samples from one survey to the next one.
pub(crate) const SURVEYED: u32 = 6;
/// The words of a sample without a survey.
const WORDS: [FourLetterWord; 2] = [FourLetterWord::Srvr, FourLetterWord::Mntr];

/// Samples the servers of an ensemble while somebody views them.
#[derive(Debug)]
pub(crate) struct EnsembleSampler {
    zk: CuratorFramework,
    options: ProbeOptions,
    /// The pause between two samples.
    every: Duration,
    state: Signal<SamplerState>,
    memory: Locked<SamplerMemory>,
}

/// The viewers, and what they see.
#[derive(Debug, Default)]
struct SamplerState {
    viewers: usize,
    /// The time at which the last viewer has left.
    left: Option<Instant>,
    /// The number of tasks that were started so far.
    task: u64,
    is_running: bool,
    /// The number of samples so far.
    generation: u64,
    /// The last sample of the present task.
    sample: Option<Arc<EnsembleSample>>,
}

/// The memory from one sample to the next one. It stays while nothing is sampled.
#[derive(Debug, Default)]
struct SamplerMemory {
    members: Option<EnsembleMembers>,
    previous: Option<PreviousReports>,
    servers: Vec<ServerLine>,
    ring: MeasureRing,
    survey: Option<Arc<EnsembleSurvey>>,
}

/// A viewer of the ensemble. Dropping it ends the view.
#[derive(Debug)]
pub(crate) struct EnsembleViewing {
    sampler: Arc<EnsembleSampler>,
    told: Option<u64>,
}

impl EnsembleSampler {
    pub(crate) fn new(zk: CuratorFramework, options: ProbeOptions, every: Duration) -> Arc<Self> {
        let (state, memory) = (Signal::default(), Locked::default());
        Arc::new(Self { zk, options, every, state, memory })
    }

    /// Returns the pause between two samples.
    pub(crate) const fn every(&self) -> Duration {
        self.every
    }

    /// Begins to view the ensemble. The first viewer starts the background task.
    pub(crate) fn view(self: &Arc<Self>) -> EnsembleViewing {
        let started = self.state.modify(|state| {
            state.viewers += 1;
            if state.is_running {
                return None;
            }
            state.is_running = true;
            // The last sample of an earlier task is too old.
            state.sample = None;
            state.task += 1;
            Some(state.task)
        });
        if let Some(task) = started {
            let (sampler, then) = (Arc::clone(self), Arc::clone(self));
            // The end is also that of a task that panics, or whose runtime ends.
            self.zk.spawn_then(async move { sampler.run().await }, move |_| then.ended(task));
        }
        EnsembleViewing { sampler: Arc::clone(self), told: None }
    }

    /// Samples the servers until nobody views them, or the framework is closed.
    async fn run(&self) {
        tokio::select! {
            () = self.sample_always() => {}
            () = self.abandoned() => {}
            () = self.closed() => {}
        }
    }

    async fn sample_always(&self) {
        self.memory.lock().begin();
        let mut samples = 0_u32;
        loop {
            let is_survey = samples.is_multiple_of(SURVEYED);
            let sample = Arc::new(self.sample(is_survey).await);
            self.state.modify(|state| {
                state.generation += 1;
                state.sample = Some(sample);
            });
            samples = samples.wrapping_add(1);
            sleep(self.every).await;
        }
    }

    /// Waits until there has been no viewer for a while. A viewer that comes later starts another
    /// task.
    async fn abandoned(&self) {
        loop {
            sleep_until(self.state.find(SamplerState::due).await).await;
            let ends = self.state.modify(|state| {
                state.is_running = state.due().is_none_or(|due| Instant::now() < due);
                !state.is_running
            });
            if ends {
                return;
            }
        }
    }

    async fn closed(&self) {
        let mut states = self.zk.states();
        while states.next().await.is_some() {}
    }

    fn ended(&self, task: u64) {
        self.state.modify(|state| {
            if state.task == task {
                state.is_running = false;
            }
        });
    }

    /// Asks the servers. A survey also finds the members, the findings and the sessions.
    async fn sample(&self, is_survey: bool) -> EnsembleSample {
        let probe = EnsembleProbe::of(&self.zk).with_options(self.options.clone());
        let known = self.memory.lock().members.clone().filter(|_| !is_survey);
        let members = match known {
            Some(members) => members,
            None => match probe.members().await {
                Ok(members) => members,
                Err(error) => {
                    return EnsembleSample::failed(
                        now_ms(),
                        format!("no server was asked: {error}"),
                    );
                }
            },
        };
        let words: &[FourLetterWord] = if is_survey { &doctor::WORDS } else { &WORDS };
        let reports = ask_all(&members.servers, words, probe.options()).await;
        let (at, taken) = (Instant::now(), now_ms());
        if is_survey {
            let survey = survey(&probe, &members, &reports, taken).await;
            self.memory.lock().survey = Some(Arc::new(survey));
        }
        self.memory.lock().sample(at, taken, members, reports)
    }
}

impl SamplerState {
    /// Returns the time at which the task ends, if there is no viewer.
    fn due(&self) -> Option<Instant> {
        let left = self.left.filter(|_| self.viewers == 0)?;
        Some(left + LINGER)
    }
}

impl SamplerMemory {
    /// Forgets the last reports of an earlier task. The servers may have changed since, and a rate
    /// over a long pause says nothing. The measures stay.
    fn begin(&mut self) {
        self.previous = None;
        self.servers.clear();
    }

    /// Returns the sample of these reports, and remembers what the next one needs.
    fn sample(
        &mut self,
        at: Instant,
        taken: i64,
        members: EnsembleMembers,
        reports: Vec<ProbeReport>,
    ) -> EnsembleSample {
        let measures = measures(&reports, at, self.previous.as_ref());
        self.servers = server_lines(&reports, &measures, &self.servers, taken);
        let names = self.servers.iter().map(|line| Arc::clone(&line.name));
        let servers = names.zip(measures).collect();
        self.ring.push(EnsembleMoment { at, taken, servers });
        let sample = EnsembleSample::of(taken, &reports, members.voters(), self.servers.clone());
        self.members = Some(members);
        self.previous = Some(PreviousReports::new(at, reports.into_iter().map(slim).collect()));
        EnsembleSample { moments: self.ring.moments(), survey: self.survey.clone(), ..sample }
    }
}

/// Returns a report without the long lists of clients.
fn slim(mut report: ProbeReport) -> ProbeReport {
    report.cons = Err(ProbeTrouble::NotAsked);
    report.dump = Err(ProbeTrouble::NotAsked);
    report
}

async fn survey(
    probe: &EnsembleProbe<'_>,
    members: &EnsembleMembers,
    reports: &[ProbeReport],
    taken: i64,
) -> EnsembleSurvey {
    let found = sessions::of_members(members, reports);
    let mut notes: Vec<_> = found.notes.iter().map(ToString::to_string).collect();
    let mut findings = Vec::new();
    match doctor::examine_reports(probe, members.clone(), reports).await {
        Ok(report) => {
            findings = report.findings;
            findings.sort_by_key(|finding| finding.severity);
            notes.extend(report.notes.iter().map(ToString::to_string));
        }
        Err(error) => notes.push(format!("the servers were not examined: {error}")),
    }
    EnsembleSurvey { taken, findings, notes, sessions: session_list(found) }
}

impl EnsembleViewing {
    /// Returns the last sample, and waits for the first one; `None` if the framework is closed.
    ///
    /// # Cancel safety
    /// Nothing is lost.
    pub(crate) async fn sample(&self) -> Option<Arc<EnsembleSample>> {
        let last = |state: &SamplerState| match &state.sample {
            _ if !state.is_running => Some(None),
            Some(sample) => Some(Some(Arc::clone(sample))),
            None => None,
        };
        self.sampler.state.find(last).await
    }

    /// Returns the number of the last sample at the first call, and then of the newest one after
    /// each change; `None` if the framework is closed.
    ///
    /// # Cancel safety
    /// Nothing is lost.
    pub(crate) async fn next(&mut self) -> Option<u64> {
        let told = self.told;
        let later = |state: &SamplerState| match &state.sample {
            _ if !state.is_running => Some(None),
            Some(_) if told != Some(state.generation) => Some(Some(state.generation)),
            _ => None,
        };
        self.told = self.sampler.state.find(later).await;
        self.told
    }
}

impl Drop for EnsembleViewing {
    fn drop(&mut self) {
        let leave = |state: &mut SamplerState| {
            state.viewers = state.viewers.saturating_sub(1);
            state.left = Some(Instant::now());
        };
        self.sampler.state.modify(leave);
    }
}
