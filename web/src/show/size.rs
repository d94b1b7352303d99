//! Sizes.

/// Returns a size, such as `1.5 KiB`.
pub(crate) fn size(bytes: u64) -> String {
    const UNITS: [&str; 3] = ["KiB", "MiB", "GiB"];
    if bytes < 1024 {
        return format!("{bytes} B");
    }
    let (mut unit, mut scaled) = (0, bytes);
    while scaled >= 1024 * 1024 && unit + 1 < UNITS.len() {
        scaled /= 1024;
        unit += 1;
    }
    let (whole, rest) = (scaled / 1024, scaled % 1024);
    format!("{whole}.{} {}", rest * 10 / 1024, UNITS[unit])
}

/// Returns the size of data in memory, such as `1.5 KiB`.
pub(crate) fn size_of(bytes: usize) -> String {
    size(u64::try_from(bytes).unwrap_or(u64::MAX))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sizes_have_one_digit() {
        for (bytes, text) in [
            (0, "0 B"),
            (1_023, "1023 B"),
            (1_536, "1.5 KiB"),
            (3 << 20, "3.0 MiB"),
            (5 << 30, "5.0 GiB"),
        ] {
            assert_eq!(size(bytes), text);
        }
        assert_eq!(size(u64::MAX), "17179869183.9 GiB");
    }
}
