//! The servers of the ensemble: samples for all viewers, the measures of the last 15 minutes, the
//! findings and the sessions.

mod clients;
mod measures;
mod sample;
mod sampler;
mod servers;

pub(crate) use clients::{ListedSession, MOST_PATHS, MOST_SESSIONS, SessionList};
pub(crate) use measures::{EnsembleMoment, SPAN, ServerMeasures};
pub(crate) use sample::{EnsembleSample, EnsembleSurvey};
pub(crate) use sampler::{EnsembleSampler, EnsembleViewing, SURVEYED};
pub(crate) use servers::ServerLine;
