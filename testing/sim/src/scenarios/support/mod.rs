//! Code that several scenarios share.

pub(super) mod calling;
pub(super) mod claimed;
pub(super) mod creates;
pub(super) mod driving;
pub(super) mod exclusive;
pub(super) mod holding;
pub(super) mod items;
pub(super) mod leading;
pub(super) mod patience;
