//! The mark of a contender that runs under another session, in its label.

use zk_curator::SessionId;

const BEGIN: &str = " (within 0x";
const END: &str = ")";

/// Returns the mark that a program adds to its [label](super::Contender::label) if another session
/// waits for its end, as the command of `zkc lock` does whose lock another `zkc lock` holds.
///
/// ```
/// use zk_curator::SessionId;
/// use zk_curator_recipes::inspect::within_mark;
///
/// let label = format!("backup{}", within_mark(SessionId::new(0x1f)));
/// assert_eq!(label, "backup (within 0x1f)");
/// ```
#[must_use]
pub fn within_mark(session: SessionId) -> String {
    format!("{BEGIN}{:x}{END}", session.get())
}

/// Parses the mark at the end of a label.
pub(super) fn within(label: &[u8]) -> Option<SessionId> {
    let label = std::str::from_utf8(label).ok()?;
    let (_, digits) = label.strip_suffix(END)?.rsplit_once(BEGIN)?;
    u64::from_str_radix(digits, 16).ok().map(|id| SessionId::new(id.cast_signed()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn marks_are_read() {
        for id in [0, 0x0100_0a3f_2100_004f, -1, i64::MIN] {
            let label = format!("me (within 0x7){}", within_mark(SessionId::new(id)));
            assert_eq!(within(label.as_bytes()), Some(SessionId::new(id)));
        }
        for label in ["", "me", "me (within 0x)", "me (within 0xg)", "me (within 0x1f) "] {
            assert_eq!(within(label.as_bytes()), None, "{label}");
        }
    }
}
