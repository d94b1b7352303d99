//! The screens, the samples, and the events and effects of the state.

use std::time::Duration;

use zk_curator_ops::ensemble::probe::ProbeReport;
use zk_curator_recipes::inspect::Finding;

use super::hot::Window;
use super::tree::Child;

/// A screen.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum ScreenName {
    Servers,
    Clients,
    Sessions,
    Watches,
    Recipes,
    Tree,
    Hot,
}

impl ScreenName {
    pub(crate) const ALL: [(Self, char, &'static str); 7] = [
        (Self::Servers, '1', "servers"),
        (Self::Clients, '2', "clients"),
        (Self::Sessions, '3', "sessions"),
        (Self::Watches, '4', "watches"),
        (Self::Recipes, '5', "recipes"),
        (Self::Tree, '6', "tree"),
        (Self::Hot, '7', "hot"),
    ];

    pub(crate) const fn index(self) -> usize {
        self as usize
    }
}

/// A key.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum KeyPress {
    Char(char),
    Enter,
    Escape,
    Tab,
    Backspace,
    Up,
    Down,
    Left,
    Right,
    PageUp,
    PageDown,
    Home,
    End,
    /// Ctrl-C.
    Interrupt,
}

/// One response of each server.
#[derive(Debug, Clone)]
pub(crate) struct Sample {
    pub(crate) reports: Vec<ProbeReport>,
    pub(crate) voters: Option<usize>,
    /// Milliseconds since 1970.
    pub(crate) taken: i64,
    /// The time since the start, of a clock that only goes forward.
    pub(crate) at: Duration,
}

/// Something that changes the state.
#[derive(Debug, Clone)]
pub(crate) enum TuiEvent {
    Key(KeyPress),
    Sample(Sample),
    /// The children of a node and the number of further ones, or the reason why there are none.
    Listed(String, Result<(Vec<Child>, usize), String>),
    /// The data of a node.
    Read(String, Result<String, String>),
    /// The recipes in the tree, and a note about unread nodes.
    Inspected(Result<(Vec<Finding>, Option<String>), String>),
    /// The changes of nodes since the last ones.
    Followed(Window),
    /// The output of a line, or the reason why there is none.
    Ran(String, Result<String, String>),
    /// A node was edited, or why it was not.
    Edited(String, Result<(), String>),
    /// The terminal has another size.
    Resized,
}

/// Something to do after a change.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum TuiEffect {
    Quit,
    /// Ask the servers now.
    Ask,
    /// List the children of a node.
    List(String),
    /// Read the data of a node.
    Read(String),
    /// Look for recipes.
    Inspect,
    /// Tell who holds a recipe, who waits, and why.
    Why(String),
    /// Run a command of `zkc`.
    Run(String),
    /// Edit the data of a node.
    Edit(String),
    /// Copy a text to the clipboard of the terminal.
    Copy(String),
}

/// A text over the table.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Detail {
    pub(crate) title: String,
    pub(crate) lines: Vec<String>,
    /// The first line that is shown.
    pub(crate) first: usize,
}

/// The load at the time of a sample.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(crate) struct Load {
    /// Requests a second, of all servers.
    pub(crate) requests: f64,
    /// The greatest average latency, in milliseconds.
    pub(crate) latency: f64,
}
