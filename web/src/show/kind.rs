//! The kinds of nodes that a client can see.

use zk_curator::Stat;
use zk_curator::path::SequenceSuffix;

/// The kind of a node. Servers show neither containers nor times to live to clients.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum NodeKind {
    /// It belongs to a session.
    Ephemeral,
    /// It does not belong to a session.
    Persistent,
    /// It exists, but the client may not see its stat.
    Hidden,
}

impl NodeKind {
    pub(crate) const fn of(stat: &Stat) -> Self {
        if stat.is_ephemeral() { Self::Ephemeral } else { Self::Persistent }
    }

    /// Returns the text.
    pub(crate) const fn name(self) -> &'static str {
        match self {
            Self::Ephemeral => "ephemeral",
            Self::Persistent => "persistent",
            Self::Hidden => "hidden",
        }
    }

    /// Returns the icon, which always stands next to the text.
    pub(crate) const fn icon(self) -> &'static str {
        match self {
            Self::Ephemeral => "◌",
            Self::Persistent => "●",
            Self::Hidden => "⊘",
        }
    }
}

/// Returns the number that a server appended to a name.
pub(crate) fn sequence_of(name: &str) -> Option<i32> {
    SequenceSuffix::after(name, "").map(SequenceSuffix::get)
}

/// Returns `true` if a server may have appended a number to the name.
pub(crate) fn is_sequential(name: &str) -> bool {
    sequence_of(name).is_some()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn kinds_have_a_text_and_an_icon() {
        let stat = Stat { ephemeral_owner: 0x1000, ..Stat::default() };
        assert_eq!((NodeKind::of(&stat).name(), NodeKind::of(&stat).icon()), ("ephemeral", "◌"));
        assert_eq!(NodeKind::of(&Stat::default()), NodeKind::Persistent);
        assert_eq!(sequence_of("lock-0000000017"), Some(17));
        assert!(!is_sequential("lock-17"));
    }
}
