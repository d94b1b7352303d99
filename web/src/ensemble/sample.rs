//! The responses of all servers at one time, judged.

use std::sync::Arc;

use zk_curator_ops::ensemble::doctor::DoctorFinding;
use zk_curator_ops::ensemble::health::{self, QuorumHealth};
use zk_curator_ops::ensemble::probe::ProbeReport;

use super::clients::SessionList;
use super::measures::EnsembleMoment;
use super::servers::ServerLine;

/// The state of an ensemble at one time, as its servers report it.
#[derive(Debug, Clone)]
pub(crate) struct EnsembleSample {
    /// The time in milliseconds since 1970.
    pub(crate) taken: i64,
    pub(crate) servers: Vec<ServerLine>,
    pub(crate) quorum: QuorumHealth,
    /// Sentences about everything that makes the ensemble degraded.
    pub(crate) problems: Vec<String>,
    /// The measures of the last 15 minutes, the oldest first.
    pub(crate) moments: Vec<EnsembleMoment>,
    /// The last survey; `None` before the first one.
    pub(crate) survey: Option<Arc<EnsembleSurvey>>,
}

/// The findings and the sessions, for which the servers have to do more.
#[derive(Debug, Clone, Default)]
pub(crate) struct EnsembleSurvey {
    /// The time in milliseconds since 1970.
    pub(crate) taken: i64,
    /// The findings of the doctor, the most severe first.
    pub(crate) findings: Vec<DoctorFinding>,
    /// Sentences about what servers did not tell.
    pub(crate) notes: Vec<String>,
    pub(crate) sessions: SessionList,
}

impl EnsembleSample {
    /// Returns the sample of an ensemble whose servers could not be asked, for this reason.
    pub(crate) fn failed(taken: i64, reason: String) -> Self {
        Self {
            taken,
            servers: Vec::new(),
            quorum: QuorumHealth::Unknown,
            problems: vec![reason],
            moments: Vec::new(),
            survey: None,
        }
    }

    /// Returns the sample of these reports. `voters` is the number of servers with a vote.
    pub(crate) fn of(
        taken: i64,
        reports: &[ProbeReport],
        voters: Option<usize>,
        servers: Vec<ServerLine>,
    ) -> Self {
        Self {
            taken,
            servers,
            quorum: health::quorum(reports, voters),
            problems: health::problems(reports, voters),
            moments: Vec::new(),
            survey: None,
        }
    }
}
