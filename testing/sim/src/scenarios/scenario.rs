use std::fmt;

use crate::sim::Sim;

/// A workload with its checkers and settings.
#[derive(Clone, Copy)]
pub struct Scenario {
    name: &'static str,
    about: &'static str,
    achieves: &'static [&'static str],
    set_up: fn(Sim) -> Sim,
    demonstrates: bool,
}

impl Scenario {
    /// Creates a scenario with its name on the command line of `zk-sim`, a line of description,
    /// [what it achieves](Sim::achieves), and the function that sets up a run.
    pub const fn new(
        name: &'static str,
        about: &'static str,
        achieves: &'static [&'static str],
        set_up: fn(Sim) -> Sim,
    ) -> Self {
        Self { name, about, achieves, set_up, demonstrates: false }
    }

    /// Marks a scenario that fails on purpose, to show an error. It runs only if it is named
    /// explicitly.
    #[must_use]
    pub const fn demonstration(mut self) -> Self {
        self.demonstrates = true;
        self
    }

    /// Returns `true` if the scenario fails on purpose.
    #[must_use]
    pub const fn is_demonstration(&self) -> bool {
        self.demonstrates
    }

    /// Returns the name of the scenario.
    #[must_use]
    pub const fn name(&self) -> &'static str {
        self.name
    }

    /// Returns a line of description.
    #[must_use]
    pub const fn about(&self) -> &'static str {
        self.about
    }

    /// Sets up a run of this scenario.
    fn set_up(&self, sim: Sim) -> Sim {
        (self.set_up)(sim.achieves(self.achieves))
    }
}

impl Sim {
    /// Sets the workload, the checkers and the other settings of a scenario.
    pub fn scenario(self, scenario: &Scenario) -> Self {
        scenario.set_up(self)
    }
}

impl fmt::Debug for Scenario {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Scenario").field("name", &self.name).finish_non_exhaustive()
    }
}
