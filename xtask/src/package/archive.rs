//! Archives as bytes: tar (POSIX ustar) with gzip, and ar, the outer form of a Debian package. Owner, times and order are
//! set, so the same contents give the same bytes.

use std::collections::BTreeSet;
use std::io;

use super::programs::{output, program};

/// The size of a block of a tar archive.
const BLOCK: usize = 512;
/// The longest name in a header, in bytes.
const NAME_MAX: usize = 100;

/// A file or a folder in an archive.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Entry {
    /// A folder's ends with `/`.
    pub(super) path: String,
    pub(super) mode: u32,
    pub(super) content: Vec<u8>,
}

impl Entry {
    pub(super) fn file(path: &str, content: impl Into<Vec<u8>>) -> Self {
        Self { path: path.to_owned(), mode: 0o644, content: content.into() }
    }

    pub(super) fn program(path: &str, content: impl Into<Vec<u8>>) -> Self {
        Self { mode: 0o755, ..Self::file(path, content) }
    }

    pub(super) fn is_folder(&self) -> bool {
        self.path.ends_with('/')
    }
}

/// How much time compressing may take. The proof has little.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Compression {
    Best,
    Fast,
}

/// The entries in order of their paths, below this folder (with `/` at its end), with all the folders that they are in.
pub(super) fn with_folders(entries: Vec<Entry>, below: &str) -> Vec<Entry> {
    let mut all: Vec<Entry> =
        entries.into_iter().map(|entry| Entry { path: format!("{below}{}", entry.path), ..entry }).collect();
    let folders: BTreeSet<String> = all.iter().flat_map(|entry| folders_of(&entry.path)).collect();
    all.extend(folders.into_iter().map(|path| Entry { path, mode: 0o755, content: vec![] }));
    all.sort_by(|a, b| a.path.cmp(&b.path));
    all
}

fn folders_of(path: &str) -> Vec<String> {
    path.match_indices('/').map(|(at, _)| path[..=at].to_owned()).collect()
}

pub(super) fn tar_gz(entries: &[Entry], time: u64, compression: Compression) -> io::Result<Vec<u8>> {
    gz(&tar(entries, time)?, compression)
}

/// Compressed without a name and a time.
pub(super) fn gz(bytes: &[u8], compression: Compression) -> io::Result<Vec<u8>> {
    let level = match compression {
        Compression::Best => "-9nc",
        Compression::Fast => "-1nc",
    };
    output(program("gzip").arg(level), bytes)
}

fn tar(entries: &[Entry], time: u64) -> io::Result<Vec<u8>> {
    let mut bytes = vec![];
    for entry in entries {
        bytes.extend(header(entry, time)?);
        bytes.extend(&entry.content);
        bytes.resize(bytes.len().next_multiple_of(BLOCK), 0);
    }
    // Two empty blocks are the end.
    bytes.resize(bytes.len() + 2 * BLOCK, 0);
    Ok(bytes)
}

fn header(entry: &Entry, time: u64) -> io::Result<[u8; BLOCK]> {
    if entry.path.len() > NAME_MAX {
        return Err(io::Error::other(format!("{} is longer than {NAME_MAX} bytes", entry.path)));
    }
    let mut block = [0; BLOCK];
    let mut field = |at: usize, text: &str| block[at..at + text.len()].copy_from_slice(text.as_bytes());
    field(0, &entry.path);
    field(100, &format!("{:07o}", entry.mode));
    field(108, "0000000"); // the user's and the group's number: root
    field(116, "0000000");
    field(124, &format!("{:011o}", entry.content.len()));
    field(136, &format!("{time:011o}"));
    field(148, "        "); // the checksum counts as blanks
    field(156, if entry.is_folder() { "5" } else { "0" });
    field(257, "ustar\u{0}00");
    field(265, "root");
    field(297, "root");
    let sum: u32 = block.iter().map(|byte| u32::from(*byte)).sum();
    block[148..156].copy_from_slice(format!("{sum:06o}\0 ").as_bytes());
    Ok(block)
}

/// The outer form of a Debian package, with these files in this order.
pub(super) fn ar(files: &[(&str, Vec<u8>)], time: u64) -> Vec<u8> {
    let mut bytes = b"!<arch>\n".to_vec();
    for (name, content) in files {
        bytes.extend(format!("{name:<16}{time:<12}{:<6}{:<6}{:<8}{:<10}`\n", 0, 0, "100644", content.len()).bytes());
        bytes.extend(content);
        if content.len() % 2 == 1 {
            bytes.push(b'\n');
        }
    }
    bytes
}

#[cfg(test)]
mod tests {
    use super::super::programs::{output, program};
    use super::{Compression, Entry, ar, gz, tar_gz, with_folders};

    fn entries() -> Vec<Entry> {
        with_folders(vec![Entry::program("b/run", *b"#!"), Entry::file("a.txt", vec![b'x'; 1_000])], "top/")
    }

    #[test]
    fn an_archive_has_its_folders_modes_and_times_and_is_the_same_each_time() {
        let archive = tar_gz(&entries(), 86_400, Compression::Best).unwrap();
        assert_eq!(archive, tar_gz(&entries(), 86_400, Compression::Best).unwrap());
        assert_ne!(archive, tar_gz(&entries(), 86_401, Compression::Best).unwrap());
        let listed = output(program("tar").args(["-tvz"]), &archive).unwrap();
        let listed = String::from_utf8(listed).unwrap();
        let words = |line: &str| line.split_whitespace().collect::<Vec<_>>().join(" ");
        assert_eq!(
            listed.lines().map(words).collect::<Vec<_>>(),
            [
                "drwxr-xr-x root/root 0 1970-01-02 00:00 top/",
                "-rw-r--r-- root/root 1000 1970-01-02 00:00 top/a.txt",
                "drwxr-xr-x root/root 0 1970-01-02 00:00 top/b/",
                "-rwxr-xr-x root/root 2 1970-01-02 00:00 top/b/run",
            ]
        );
        let long = vec![Entry::file(&"x".repeat(101), "")];
        assert!(tar_gz(&long, 0, Compression::Best).is_err());
    }

    #[test]
    fn what_is_compressed_comes_out_again() {
        let packed = gz(b"text", Compression::Fast).unwrap();
        assert_eq!(output(program("gzip").arg("-dc"), &packed).unwrap(), b"text");
    }

    #[test]
    fn the_outer_form_has_even_parts() {
        let bytes = ar(&[("one", b"abc".to_vec()), ("two", b"de".to_vec())], 7);
        let text = String::from_utf8(bytes).unwrap();
        let header = |name: &str, size: u32| format!("{name:<16}7           0     0     100644  {size:<10}`\n");
        assert_eq!(text, format!("!<arch>\n{}abc\n{}de", header("one", 3), header("two", 2)));
    }
}
