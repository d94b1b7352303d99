//! Sizes.

pub(crate) use zk_curator_ops::text::size;

/// Returns the size of data in memory, such as `1.5 KiB`.
pub(crate) fn size_of(bytes: usize) -> String {
    size(u64::try_from(bytes).unwrap_or(u64::MAX))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn large_sizes_are_as_in_other_programs() {
        assert_eq!(size_of(1_536), "1.5 KiB");
        assert_eq!(size(3 << 40), "3.0 TiB");
        assert_eq!(size(u64::MAX), "16777215.9 TiB");
    }
}
