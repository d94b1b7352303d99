//! A finding of the doctor.

/// The weight of a finding, the most severe first.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
#[cfg_attr(feature = "serde", derive(serde::Serialize), serde(rename_all = "lowercase"))]
#[non_exhaustive]
pub enum FindingSeverity {
    /// Something does not work.
    Error,
    /// Something will not work.
    Warning,
    /// Something to know.
    Note,
}

impl FindingSeverity {
    /// Returns the severity in one word.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::Error => "error",
            Self::Warning => "warning",
            Self::Note => "note",
        }
    }
}

/// A finding of the doctor.
#[derive(Debug, Clone, PartialEq, Eq)]
#[cfg_attr(feature = "serde", derive(serde::Serialize))]
#[non_exhaustive]
pub struct DoctorFinding {
    /// The weight.
    pub severity: FindingSeverity,
    /// The server, the session or the node; `ensemble` for all servers together, and `locks` for
    /// all locks.
    pub subject: String,
    /// A sentence about the subject, without it.
    pub text: String,
    /// The next step. It may name a command of `zkc`.
    pub advice: &'static str,
    /// A line of `zoo.cfg` that removes the finding.
    pub line: Option<String>,
}

/// Returns a finding without a line of a configuration file.
pub(super) fn finding(
    severity: FindingSeverity,
    subject: impl ToString,
    text: impl Into<String>,
    advice: &'static str,
) -> DoctorFinding {
    DoctorFinding { severity, subject: subject.to_string(), text: text.into(), advice, line: None }
}
