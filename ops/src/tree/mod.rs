//! Subtrees: walks, searches by name and by content, and sizes.

pub mod du;
pub mod find;
pub mod grep;
pub mod unreadable;
pub mod walk;
