//! Reads `/proc/self/mountinfo`.

use std::ffi::OsString;
use std::os::unix::ffi::OsStringExt as _;
use std::path::PathBuf;

/// One mount of this namespace.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Mount {
    pub(super) id: u64,
    pub(super) path: PathBuf,
}

/// The mounts in a text of the form of `/proc/self/mountinfo`; the text of the line if one cannot be read.
pub(super) fn parse(text: &[u8]) -> Result<Vec<Mount>, String> {
    let lines = text.split(|byte| *byte == b'\n').filter(|line| !line.is_empty());
    lines.map(|line| parse_line(line).ok_or_else(|| String::from_utf8_lossy(line).into_owned())).collect()
}

/// `ID PARENT MAJOR:MINOR ROOT PATH OPTIONS …`
fn parse_line(line: &[u8]) -> Option<Mount> {
    let mut fields = line.split(|byte| *byte == b' ');
    let id = std::str::from_utf8(fields.next()?).ok()?.parse().ok()?;
    let path = PathBuf::from(OsString::from_vec(unescaped(fields.nth(3)?)?));
    path.is_absolute().then_some(Mount { id, path })
}

/// The kernel writes blanks, tabs, line feeds and backslashes as a backslash with three octal digits.
fn unescaped(field: &[u8]) -> Option<Vec<u8>> {
    let mut bytes = Vec::with_capacity(field.len());
    let mut rest = field;
    while let Some((first, after)) = rest.split_first() {
        if *first == b'\\' {
            let digits = std::str::from_utf8(after.get(..3)?).ok()?;
            bytes.push(u8::from_str_radix(digits, 8).ok()?);
            rest = &after[3..];
        } else {
            bytes.push(*first);
            rest = after;
        }
    }
    Some(bytes)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn paths_are_unescaped() {
        let text = b"27 1 254:0 / / rw,relatime - ext4 /dev/vda rw\n\
                     30 27 0:5 / /mnt/a\\040b\\134\\011 rw shared:9 - tmpfs tmpfs rw\n";
        let mount = |id, path: &str| Mount { id, path: path.into() };
        assert_eq!(parse(text), Ok(vec![mount(27, "/"), mount(30, "/mnt/a b\\\t")]));
    }

    #[test]
    fn a_line_that_cannot_be_read_is_an_error() {
        for line in
            ["27 1 254:0 /", "x 1 254:0 / / rw", "27 1 254:0 / /a\\04 rw", "27 1 254:0 / /a\\0z0 rw", "27 1 0:1 / a rw"]
        {
            assert_eq!(parse(line.as_bytes()), Err(line.to_owned()));
        }
    }
}
