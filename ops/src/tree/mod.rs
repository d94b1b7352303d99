//! Subtrees: walks, searches by name and by content, sizes, and quotas.

pub mod du;
pub mod find;
pub mod grep;
pub mod quota;
pub mod unreadable;
pub mod walk;
