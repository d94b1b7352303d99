//! The preferences of the user of a browser.

/// The colours that a user prefers (`prefers-color-scheme`).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[expect(clippy::exhaustive_enums, reason = "there are no others")]
pub enum Theme {
    /// Dark on light.
    Light,
    /// Light on dark.
    Dark,
}
