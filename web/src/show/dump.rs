//! Dumps of bytes in hexadecimal.

/// Returns a dump with 16 bytes a line, and their ASCII characters.
pub(crate) fn dump(data: &[u8]) -> String {
    let mut text = String::with_capacity(data.len() * 5);
    for (line, bytes) in data.chunks(16).enumerate() {
        let mut digits = String::with_capacity(48);
        for byte in bytes {
            digits.push_str(&format!("{byte:02x} "));
        }
        let shown = |byte: &u8| if matches!(byte, 32..127) { char::from(*byte) } else { '.' };
        let letters: String = bytes.iter().map(shown).collect();
        text.push_str(&format!("{:08x}  {digits:<48} {letters}\n", line * 16));
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_line_has_16_bytes() {
        assert_eq!(
            dump(b"\x00ab"),
            "00000000  00 61 62                                         .ab\n"
        );
        assert_eq!(dump(&[b'x'; 33]).lines().count(), 3);
        assert_eq!(dump(b""), "");
    }
}
