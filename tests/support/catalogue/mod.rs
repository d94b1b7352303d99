//! The catalogue of public calls: one row for each call that is async, with the set-up that it
//! needs. Drivers disturb all of them alike.

mod discovery;
mod failure;
mod framework;
mod locks;
mod queues;
mod recipes;
mod row;
mod stage;

pub use failure::Failure;
pub use row::{Call, Row};
pub use stage::{Setting, Settings, Stage};

/// All rows.
pub fn rows() -> impl Iterator<Item = Row> {
    let areas = [framework::ROWS, locks::ROWS, queues::ROWS, recipes::ROWS, discovery::ROWS];
    areas.into_iter().flatten().copied()
}
