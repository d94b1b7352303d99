//! The faults of one run, each with its decision point.

use std::fmt;
use std::str::FromStr;

use super::fault::PointFault;

/// The faults of a run, each with the number of its decision point, in the order of the points.
///
/// Written as `17:lose-reply,23:pause`, or `none`.
#[derive(Debug, Clone, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct FaultPlan(Vec<(u32, PointFault)>);

impl FaultPlan {
    /// Creates a plan. The faults are sorted by their points.
    #[must_use]
    pub fn new(faults: impl IntoIterator<Item = (u32, PointFault)>) -> Self {
        let mut faults: Vec<_> = faults.into_iter().collect();
        faults.sort_unstable();
        Self(faults)
    }

    /// Returns the faults.
    #[must_use]
    pub fn faults(&self) -> &[(u32, PointFault)] {
        &self.0
    }

    /// Returns the plan with one more fault, which is not before the last one.
    pub(super) fn with(&self, point: u32, fault: PointFault) -> Self {
        let mut faults = self.0.clone();
        faults.push((point, fault));
        Self(faults)
    }

    /// Returns the plans with one fault less.
    pub(super) fn smaller(&self) -> impl Iterator<Item = Self> {
        (0..self.0.len()).map(|left_out| {
            let kept = self.0.iter().enumerate().filter(|(number, _)| *number != left_out);
            Self(kept.map(|(_, fault)| *fault).collect())
        })
    }
}

impl fmt::Display for FaultPlan {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if self.0.is_empty() {
            return f.write_str("none");
        }
        for (number, (point, fault)) in self.0.iter().enumerate() {
            let comma = if number > 0 { "," } else { "" };
            write!(f, "{comma}{point}:{fault}")?;
        }
        Ok(())
    }
}

impl FromStr for FaultPlan {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        if text == "none" {
            return Ok(Self::default());
        }
        let fault = |part: &str| {
            let (point, fault) =
                part.split_once(':').ok_or_else(|| format!("{part:?} is not POINT:FAULT"))?;
            let point = point.parse().map_err(|error| format!("{point:?}: {error}"))?;
            Ok::<_, String>((point, fault.parse()?))
        };
        Ok(Self::new(text.split(',').map(fault).collect::<Result<Vec<_>, _>>()?))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn plans_are_read_as_they_are_written() {
        let plan =
            FaultPlan::new([(23, PointFault::Pause), (17, PointFault::Expire { client: 1 })]);
        assert_eq!(plan.to_string(), "17:expire-1,23:pause");
        assert_eq!(plan.to_string().parse(), Ok(plan.clone()));
        assert_eq!("none".parse(), Ok(FaultPlan::default()));
        assert_eq!(
            plan.smaller().map(|plan| plan.to_string()).collect::<Vec<_>>(),
            ["23:pause", "17:expire-1"]
        );
        for wrong in ["", "17", "x:pause", "17:", "17:pause,"] {
            assert!(wrong.parse::<FaultPlan>().is_err(), "{wrong:?}");
        }
    }
}
