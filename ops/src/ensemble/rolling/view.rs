//! Asks the servers of an ensemble for a rolling restart.

use std::time::Duration;

use futures_util::future::join_all;
use tokio::time::Instant;

use super::observation::{self, Observation};
use crate::ensemble::doctor;
use crate::ensemble::members::EnsembleMembers;
use crate::ensemble::probe;
use crate::ensemble::target::EnsembleProbe;
use crate::ensemble::words::FourLetterWord;

/// The words of an observation. A thorough one has those of the doctor.
const LIGHT: [FourLetterWord; 3] =
    [FourLetterWord::Srvr, FourLetterWord::Mntr, FourLetterWord::Conf];

/// The ensemble, as it can be observed.
pub(super) trait RollingView {
    /// Returns the time since the start of the run.
    fn now(&self) -> Duration;

    /// Asks all servers. A thorough observation has all findings of the doctor, and the members as
    /// they are now.
    ///
    /// # Cancel safety
    /// Dropping the future has no effect.
    async fn observe(&self, is_thorough: bool) -> Observation;
}

/// The servers of an ensemble, which respond to words.
#[derive(Debug)]
pub(super) struct EnsembleView<'a> {
    probe: &'a EnsembleProbe<'a>,
    members: &'a EnsembleMembers,
    ignores_doctor: bool,
    started: Instant,
}

impl<'a> EnsembleView<'a> {
    /// Starts the clock of a run.
    pub(super) fn start(
        probe: &'a EnsembleProbe<'a>,
        members: &'a EnsembleMembers,
        ignores_doctor: bool,
    ) -> Self {
        Self { probe, members, ignores_doctor, started: Instant::now() }
    }
}

impl RollingView for EnsembleView<'_> {
    fn now(&self) -> Duration {
        self.started.elapsed()
    }

    async fn observe(&self, is_thorough: bool) -> Observation {
        let asked = self.now();
        let (servers, options) = (&self.members.servers, self.probe.options());
        let words: &[FourLetterWord] = if is_thorough { &doctor::WORDS } else { &LIGHT };
        let config = async {
            if !is_thorough {
                return None;
            }
            // The errors of this call are those of the arguments, which the start of the run has
            // checked. A server without a configuration is a doubt.
            self.probe.members().await.ok()?.config
        };
        let settings = servers.iter().filter(|_| is_thorough);
        let settings = join_all(settings.map(|server| probe::settings(server, options)));
        let reports = probe::ask_all(servers, words, options);
        let (config, settings, reports) = tokio::join!(config, settings, reports);
        let findings = if self.ignores_doctor {
            Vec::new()
        } else {
            let max_packet = doctor::max_packet(settings.iter());
            observation::findings(&reports, self.members.voters(), max_packet)
        };
        let times = (asked, self.now());
        Observation::of(times, &reports, config.as_ref(), findings, is_thorough)
    }
}
