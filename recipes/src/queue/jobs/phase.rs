use super::later;
use super::places::JobEnd;

/// The state of a job, without its details.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
#[non_exhaustive]
pub enum JobPhase {
    /// [`JobState::Pending`](super::JobState::Pending).
    Pending,
    /// [`JobState::Executing`](super::JobState::Executing).
    Executing,
    /// [`JobState::Delayed`](super::JobState::Delayed).
    Delayed,
    /// [`JobState::Done`](super::JobState::Done).
    Done,
    /// [`JobState::Failed`](super::JobState::Failed).
    Failed,
}

impl JobPhase {
    /// In the direction in which jobs go: a job that moves is seen twice rather than not at
    /// all.
    pub(crate) const ALL: [Self; 5] =
        [Self::Pending, Self::Executing, Self::Delayed, Self::Done, Self::Failed];

    pub(crate) const fn directory(self) -> &'static str {
        match self {
            Self::Pending => "pending",
            Self::Executing => "executing",
            Self::Delayed => later::DIRECTORY,
            Self::Done => JobEnd::Done.directory(),
            Self::Failed => JobEnd::Failed.directory(),
        }
    }

    pub(super) fn parse(directory: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|phase| phase.directory() == directory)
    }
}
