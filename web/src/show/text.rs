//! Text whose every character is visible.

use std::borrow::Cow;

/// Returns a name or a path with invisible characters, and characters that change the direction of
/// writing, in the form `⟨U+202E⟩`. Two different names are then never shown as the same text.
pub(crate) fn visible(text: &str) -> Cow<'_, str> {
    if text.chars().any(is_invisible) || has_outer_space(text) { marked(text) } else { text.into() }
}

fn marked(text: &str) -> Cow<'_, str> {
    let mut shown = String::with_capacity(text.len() + 16);
    let last = text.chars().count().saturating_sub(1);
    for (place, c) in text.chars().enumerate() {
        if is_invisible(c) || (c == ' ' && (place == 0 || place == last)) {
            shown.push_str(&mark(c));
        } else {
            shown.push(c);
        }
    }
    shown.into()
}

/// Returns data with the same marks. Line breaks, tabs and spaces of all kinds stay, because they
/// are a part of many texts.
pub(crate) fn visible_data(text: &str) -> Cow<'_, str> {
    if !text.chars().any(is_marked_in_data) {
        return text.into();
    }
    let mut shown = String::with_capacity(text.len() + 16);
    for c in text.chars() {
        if is_marked_in_data(c) {
            shown.push_str(&mark(c));
        } else {
            shown.push(c);
        }
    }
    shown.into()
}

fn mark(c: char) -> String {
    format!("⟨U+{:04X}⟩", u32::from(c))
}

fn is_marked_in_data(c: char) -> bool {
    let is_common =
        matches!(c, '\n' | '\r' | '\t' | '\u{a0}' | '\u{202f}' | '\u{3000}' | '\u{fe0f}');
    is_invisible(c) && !is_common
}

/// HTML drops spaces at the ends.
fn has_outer_space(text: &str) -> bool {
    text.starts_with(' ') || text.ends_with(' ')
}

/// Returns `true` for control characters, marks of direction, characters without a width, and
/// spaces that look like another one.
fn is_invisible(c: char) -> bool {
    c.is_control()
        || matches!(
            c,
            '\u{a0}'
                | '\u{ad}'
                | '\u{34f}'
                | '\u{61c}'
                | '\u{115f}'
                | '\u{1160}'
                | '\u{1680}'
                | '\u{17b4}'
                | '\u{17b5}'
                | '\u{180b}'..='\u{180f}'
                | '\u{2000}'..='\u{200f}'
                | '\u{2028}'..='\u{202f}'
                | '\u{205f}'..='\u{206f}'
                | '\u{2800}'
                | '\u{3000}'
                | '\u{3164}'
                | '\u{fe00}'..='\u{fe0f}'
                | '\u{feff}'
                | '\u{ffa0}'
                | '\u{fff9}'..='\u{fffb}'
                | '\u{1bca0}'..='\u{1bca3}'
                | '\u{1d173}'..='\u{1d17a}'
                | '\u{e0000}'..='\u{e0fff}'
        )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn marks_of_direction_are_shown() {
        assert_eq!(visible("/a\u{202e}txt.exe"), "/a⟨U+202E⟩txt.exe");
        assert_eq!(visible("a\u{200b}b\u{feff}"), "a⟨U+200B⟩b⟨U+FEFF⟩");
        assert_eq!(visible("a\tb\u{85}"), "a⟨U+0009⟩b⟨U+0085⟩");
        assert_eq!(visible("a\u{fff9}b\u{2800}"), "a⟨U+FFF9⟩b⟨U+2800⟩");
        assert_eq!(visible("\u{1d173}\u{1bca0}"), "⟨U+1D173⟩⟨U+1BCA0⟩");
        assert_eq!(visible(" a b "), "⟨U+0020⟩a b⟨U+0020⟩");
        assert_eq!(visible(""), "");
    }

    #[test]
    fn lines_of_data_stay() {
        assert_eq!(visible_data("a\r\n\tb\u{a0}"), "a\r\n\tb\u{a0}");
        assert_eq!(visible_data("a\u{2066}\n"), "a⟨U+2066⟩\n");
    }

    #[test]
    fn letters_of_all_alphabets_stay() {
        for text in ["/orders/7", "日本", "שלום", "<b>&amp;\"'", "a b"] {
            assert!(matches!(visible(text), Cow::Borrowed(shown) if shown == text), "{text}");
        }
    }
}
