use super::Event;

impl Event {
    /// The name of its kind, such as `acquired`.
    #[must_use]
    pub const fn name(&self) -> &'static str {
        match self {
            Self::Started => "started",
            Self::Paused => "paused",
            Self::Resumed => "resumed",
            Self::Killed => "killed",
            Self::Expired => "expired",
            Self::Finished => "finished",
            Self::Acquiring { .. } => "acquiring",
            Self::Acquired { .. } => "acquired",
            Self::Missed { .. } => "missed",
            Self::Lost { .. } => "lost",
            Self::Releasing { .. } => "releasing",
            Self::Released { .. } => "released",
            Self::Node { .. } => "node",
            Self::Seized { .. } => "seized",
            Self::Used { .. } => "used",
            Self::Putting { .. } => "putting",
            Self::Put { .. } => "put",
            Self::Taking { .. } => "taking",
            Self::Untaken { .. } => "untaken",
            Self::Taken { .. } => "taken",
            Self::Finishing { .. } => "finishing",
            Self::Done { .. } => "done",
            Self::Returned { .. } => "returned",
            Self::Dead { .. } => "dead",
            Self::Refused { .. } => "refused",
            Self::Withdrawing { .. } => "withdrawing",
            Self::Withdrawn { .. } => "withdrawn",
            Self::Vacant { .. } => "vacant",
            Self::Entering { .. } => "entering",
            Self::Entered { .. } => "entered",
            Self::Leaving { .. } => "leaving",
            Self::Left { .. } => "left",
            Self::Withdrew { .. } => "withdrew",
            Self::Proposed { .. } => "proposed",
            Self::Voted { .. } => "voted",
            Self::Decided { .. } => "decided",
            Self::Opening { .. } => "opening",
            Self::Opened { .. } => "opened",
            Self::Removing { .. } => "removing",
            Self::Ended { .. } => "ended",
            Self::Missing { .. } => "missing",
            Self::Joining { .. } => "joining",
            Self::Parted { .. } => "parted",
            Self::Viewed { .. } => "viewed",
            Self::Removed { .. } => "removed",
            Self::Overtaken { .. } => "overtaken",
            Self::Call { .. } => "call",
            Self::Return { .. } => "return",
            Self::Doubtful { .. } => "doubtful",
            Self::Issued { .. } => "issued",
            Self::Counting { .. } => "counting",
            Self::Counted { .. } => "counted",
            Self::Followed { .. } => "followed",
            Self::Cache { .. } => "cache",
            Self::Committed { .. } => "committed",
            Self::Wrote { .. } => "wrote",
            Self::Applied { .. } => "applied",
            Self::Fault { .. } => "fault",
            Self::FaultsOver => "faults-over",
            Self::Note { .. } => "note",
        }
    }
}

#[cfg(test)]
mod tests {
    use super::Event;

    #[test]
    fn names_are_those_of_the_variants() {
        assert_eq!(Event::Finished.name(), "finished");
        assert_eq!(Event::FaultsOver.name(), "faults-over");
        assert_eq!(Event::Missed { hold: 1 }.name(), "missed");
    }
}
