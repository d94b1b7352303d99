//! The keys without a character, for [`Browser::keys`](crate::Browser::keys) and
//! [`Browser::chord`](crate::Browser::chord): <https://www.w3.org/TR/webdriver2/#keyboard-actions>.

/// Tab.
pub const TAB: &str = "\u{e004}";
/// Enter.
pub const ENTER: &str = "\u{e007}";
/// Shift.
pub const SHIFT: &str = "\u{e008}";
/// Control.
pub const CONTROL: &str = "\u{e009}";
/// Escape.
pub const ESCAPE: &str = "\u{e00c}";
/// The left arrow.
pub const LEFT: &str = "\u{e012}";
/// The upper arrow.
pub const UP: &str = "\u{e013}";
/// The right arrow.
pub const RIGHT: &str = "\u{e014}";
/// The lower arrow.
pub const DOWN: &str = "\u{e015}";
