use super::record::Parts;

/// A part of a set, for [`SetPartitioner::new`](super::SetPartitioner::new) and
/// [`SetPartitioner::set_parts`](super::SetPartitioner::set_parts): its name, which
/// names a node; and the zone that it prefers, if it prefers one.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Part {
    name: String,
    zone: Option<String>,
}

impl Part {
    /// A part with this name.
    pub fn new(name: impl Into<String>) -> Self {
        Self { name: name.into(), zone: None }
    }

    /// Prefers members of this [zone](super::SetPartitioner::zone), as far as they have room: for
    /// example, members near its data.
    #[must_use]
    pub fn zone(mut self, zone: impl Into<String>) -> Self {
        self.zone = Some(zone.into());
        self
    }
}

impl<N: Into<String>> From<N> for Part {
    fn from(name: N) -> Self {
        Self::new(name)
    }
}

/// Collects parts by their names.
pub(super) fn collect<P: Into<Part>>(parts: impl IntoIterator<Item = P>) -> Parts {
    let parts = parts.into_iter().map(|part| {
        let Part { name, zone } = part.into();
        (name, zone)
    });
    parts.collect()
}
