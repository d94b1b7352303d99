//! Arguments that several commands have.

use clap::Args;
use globset::{GlobBuilder, GlobMatcher};

use super::plan::{Hazard, NAMED, OnLow};
use crate::app::App;
use crate::exit::CommandFailure;
use crate::output::printable;

/// The treatment of sequence counters that are too low.
#[derive(Debug, Clone, Copy, Args)]
pub(crate) struct Low {
    /// Raise the counters of nodes whose new sequential children would sort before the restored
    /// ones, by creating and deleting a node for each number
    #[arg(long)]
    burn_sequences: bool,
    /// Restore although new sequential children would sort before the restored ones
    #[arg(long, conflicts_with = "burn_sequences")]
    ignore_sequences: bool,
}

impl Low {
    pub(crate) const fn policy(self) -> OnLow {
        match (self.burn_sequences, self.ignore_sequences) {
            (true, _) => OnLow::Burn,
            (_, true) => OnLow::Ignore,
            _ => OnLow::Refuse,
        }
    }

    /// Warns of low counters.
    pub(crate) fn warn(app: &App, hazards: &[Hazard]) {
        for Hazard { parent, next, highest, .. } in hazards.iter().take(NAMED) {
            let parent = printable(parent);
            app.out().warn(format!(
                "{parent}: has a child with the number {highest}, and would count from {next}"
            ));
        }
        let more = hazards.len().saturating_sub(NAMED);
        if more > 0 {
            app.out().warn(format!("and {more} more"));
        }
    }

    /// Returns `true` if low counters are refused.
    pub(crate) fn refuses(self, hazards: &[Hazard]) -> bool {
        self.policy() == OnLow::Refuse && !hazards.is_empty()
    }

    /// Refuses low counters, or asks if it is expensive to raise them.
    pub(crate) async fn check(self, app: &App, hazards: &[Hazard]) -> Result<(), CommandFailure> {
        Self::warn(app, hazards);
        if self.refuses(hazards) {
            let nodes = hazards.len();
            let text = format!(
                "refused: new sequential children of {nodes} nodes would sort before restored ones"
            );
            let hint = "--burn-sequences raises the counters; --ignore-sequences accepts it";
            return Err(CommandFailure::usage(text).hint(hint));
        }
        let numbers: u64 = hazards.iter().map(Hazard::burn).sum();
        if self.policy() == OnLow::Burn && numbers > MANY_NUMBERS {
            app.agree(&format!("create and delete {numbers} nodes to raise counters?")).await?;
        }
        Ok(())
    }
}

/// More numbers are used up only after a question.
const MANY_NUMBERS: u64 = 1_000_000;

/// Parses a pattern for paths. `*` stays within a name. A pattern without a slash at the start
/// matches at any depth.
pub(crate) fn glob(pattern: &str) -> Result<GlobMatcher, String> {
    let anchored =
        if pattern.starts_with('/') { pattern.to_owned() } else { format!("/**/{pattern}") };
    let glob = GlobBuilder::new(&anchored).literal_separator(true).build();
    glob.map(|glob| glob.compile_matcher()).map_err(|error| error.to_string())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn patterns_match_paths() {
        for (pattern, path, matches) in [
            ("/a/*", "/a/b", true),
            ("/a/*", "/a/b/c", false),
            ("/a/**", "/a/b/c", true),
            ("*.json", "/a/b.json", true),
            ("*.json", "/b.json", true),
            ("b", "/a/bc", false),
        ] {
            assert_eq!(glob(pattern).unwrap().is_match(path), matches, "{pattern} {path}");
        }
        assert!(glob("[").is_err());
    }
}
