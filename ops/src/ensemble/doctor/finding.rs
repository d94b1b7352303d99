//! A finding of the doctor.

/// The weight of a finding.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Severity {
    /// Something does not work.
    Error,
    /// Something will not work.
    Warning,
    /// Something to know.
    Note,
}

impl Severity {
    pub(crate) const fn name(self) -> &'static str {
        match self {
            Self::Error => "error",
            Self::Warning => "warning",
            Self::Note => "note",
        }
    }
}

/// A finding.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct DoctorFinding {
    pub(crate) severity: Severity,
    /// The server, the session or the node; `ensemble` for all together.
    pub(crate) subject: String,
    pub(crate) text: String,
    pub(crate) advice: &'static str,
    /// A line of a configuration file.
    pub(crate) line: Option<String>,
}

/// Returns a finding without a line of a configuration file.
pub(super) fn finding(
    severity: Severity,
    subject: impl ToString,
    text: impl Into<String>,
    advice: &'static str,
) -> DoctorFinding {
    DoctorFinding { severity, subject: subject.to_string(), text: text.into(), advice, line: None }
}
