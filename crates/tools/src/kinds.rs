//! Recognises text, and names the type of other bytes by how they begin.

use std::fmt::Write as _;

use crate::limits::SNIFF_BYTES;

/// Offset and magic bytes of a file type, and its name.
const KINDS: &[(usize, &[u8], &str)] = &[
    (0, b"\x89PNG\r\n\x1a\n", "a PNG image"),
    (0, b"\xff\xd8\xff", "a JPEG image"),
    (0, b"GIF8", "a GIF image"),
    (8, b"WEBP", "a WebP image"),
    (0, b"%PDF-", "a PDF document"),
    (0, b"PK\x03\x04", "a zip archive"),
    (0, b"\x1f\x8b", "gzip data"),
    (0, b"BZh", "bzip2 data"),
    (0, b"\xfd7zXZ\0", "xz data"),
    (0, b"\x28\xb5\x2f\xfd", "zstd data"),
    (257, b"ustar", "a tar archive"),
    (0, b"\x7fELF", "an ELF program"),
    (0, b"\0asm", "a WebAssembly module"),
    (0, b"SQLite format 3\0", "a SQLite database"),
    (0, b"\xff\xfe", UTF_16),
    (0, b"\xfe\xff", UTF_16),
];

const UTF_16: &str = "UTF-16 text";

/// Text may have one byte in this many that is not UTF-8, such as a name in an old encoding or a broken character.
const BROKEN_SHARE: usize = 20;

/// This number of invalid bytes is always tolerated.
const BROKEN_BYTES: usize = 4;

/// The type of these bytes if they are not text, that is, if they contain zero bytes or are mostly not UTF-8; else
/// none.
pub(crate) fn not_text(bytes: &[u8]) -> Option<&'static str> {
    let beginning = &bytes[..bytes.len().min(SNIFF_BYTES)];
    let has_zero = bytes.contains(&0);
    let broken = broken(beginning);
    if !has_zero && (broken <= BROKEN_BYTES || broken * BROKEN_SHARE <= beginning.len()) {
        return None;
    }
    Some(name(bytes).unwrap_or(if has_zero { "binary" } else { "another encoding" }))
}

/// The type of a file that begins with these bytes, if they are no text that can be shown escaped; else none.
pub(crate) fn file_type(beginning: &[u8]) -> Option<&'static str> {
    not_text(beginning).and_then(|_| name(beginning)).filter(|name| *name != UTF_16)
}

/// The name of the file type that begins with these bytes.
pub(crate) fn name(bytes: &[u8]) -> Option<&'static str> {
    let begins = |at: usize, mark: &[u8]| bytes.get(at..).is_some_and(|rest| rest.starts_with(mark));
    KINDS.iter().find(|(at, mark, _)| begins(*at, mark)).map(|(_, _, name)| *name)
}

/// The number of bytes that are not UTF-8. An incomplete character at the end does not count.
fn broken(bytes: &[u8]) -> usize {
    let invalid: usize = bytes.utf8_chunks().map(|chunk| chunk.invalid().len()).sum();
    invalid - partial_at_end(bytes)
}

/// The number of bytes at the end that belong to an incomplete character.
pub(crate) fn partial_at_end(bytes: &[u8]) -> usize {
    let last = bytes.utf8_chunks().last().map_or(&[][..], |chunk| chunk.invalid());
    let is_partial = std::str::from_utf8(last).is_err_and(|error| error.error_len().is_none());
    if is_partial { last.len() } else { 0 }
}

/// The bytes of an escaped byte, `\xNN`.
pub(crate) const ESCAPE_BYTES: usize = 4;

/// The text with every zero byte and every byte that is not UTF-8 written as `\xNN`, and the number of these bytes.
pub(crate) fn escaped(bytes: &[u8]) -> (String, usize) {
    let (mut text, mut count) = (String::with_capacity(bytes.len()), 0);
    for chunk in bytes.utf8_chunks() {
        for (zeros, part) in chunk.valid().split('\0').enumerate() {
            if zeros > 0 {
                text.push_str("\\x00");
                count += 1;
            }
            text.push_str(part);
        }
        for byte in chunk.invalid() {
            // Writing to a String cannot fail.
            let _ = write!(text, "\\x{byte:02x}");
            count += 1;
        }
    }
    (text, count)
}

/// The length of the escaped text of these bytes.
pub(crate) fn escaped_len(bytes: &[u8]) -> usize {
    widths(bytes).map(|(_, escaped)| escaped).sum()
}

/// How many bytes from the beginning have an escaped text of at most `most` bytes.
pub(crate) fn fitting(bytes: &[u8], most: usize) -> usize {
    let mut left = most;
    let mut fits = |escaped: usize| {
        let rest = left.checked_sub(escaped);
        left = rest.unwrap_or(0);
        rest.is_some()
    };
    widths(bytes).take_while(|(_, escaped)| fits(*escaped)).map(|(plain, _)| plain).sum()
}

/// The length of each character and of each invalid byte, plain and escaped.
fn widths(bytes: &[u8]) -> impl Iterator<Item = (usize, usize)> {
    bytes.utf8_chunks().flat_map(|chunk| {
        let of_char = |char: char| (char.len_utf8(), if char == '\0' { ESCAPE_BYTES } else { char.len_utf8() });
        chunk.valid().chars().map(of_char).chain(chunk.invalid().iter().map(|_| (1, ESCAPE_BYTES)))
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn r45_bytes_are_text_or_are_named() {
        let png = b"\x89PNG\r\n\x1a\n\0\0\0\rIHDR".as_slice();
        let utf16 = b"\xff\xfeh\0i\0".as_slice();
        let latin1 = b"\xe4\xf6\xfc \xc4\xd6\xdc\n".as_slice();
        let mostly = [b"a long line of plain words, and one ".as_slice(), b"\xe9"].concat();
        for (bytes, expected) in [
            (b"plain \xc3\xbc\n".as_slice(), None),
            (b"".as_slice(), None),
            (b"cut \xc3".as_slice(), None),
            (&mostly, None),
            (latin1, Some("another encoding")),
            (b"a\0b".as_slice(), Some("binary")),
            (png, Some("a PNG image")),
            (utf16, Some("UTF-16 text")),
        ] {
            assert_eq!(not_text(bytes), expected, "{bytes:?}");
        }
        let mixed = b"caf\xe9\0\xff\xc3\xbc";
        assert_eq!(escaped(mixed), ("caf\\xe9\\x00\\xff\u{fc}".to_owned(), 3));
        assert_eq!((escaped_len(mixed), fitting(mixed, 17), fitting(mixed, 16), fitting(mixed, 2)), (17, 8, 6, 2));
        assert_eq!((file_type(png), file_type(utf16), file_type(b"a\0b")), (Some("a PNG image"), None, None));
    }
}
