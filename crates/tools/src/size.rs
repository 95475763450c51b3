//! Formats sizes for people and models.

/// Formats a number of bytes: `812 bytes`, `12 KB`, `1.4 MB`. Units are powers of 1,024; the figure is rounded up.
pub fn size(bytes: u64) -> String {
    match bytes {
        1 => "1 byte".to_owned(),
        0..1_024 => format!("{bytes} bytes"),
        1_024..1_048_576 => format!("{} KB", bytes.div_ceil(1 << 10)),
        _ => {
            let tenths = (bytes * 10).div_ceil(1 << 20);
            format!("{}.{} MB", tenths / 10, tenths % 10)
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_size_is_formatted_in_its_unit() {
        for (bytes, expected) in [
            (0, "0 bytes"),
            (1, "1 byte"),
            (1_023, "1023 bytes"),
            (1_025, "2 KB"),
            (1 << 20, "1.0 MB"),
            ((1 << 20) + 1, "1.1 MB"),
        ] {
            assert_eq!(size(bytes), expected);
        }
    }
}
