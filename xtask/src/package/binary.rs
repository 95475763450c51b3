//! What the packages need to know of the program: the machine that it is for, and the libraries that it needs.

use std::fs;
use std::io;
use std::path::Path;

use super::programs::{program, text};

/// The length of an ELF header up to the machine.
const HEADER: usize = 20;

/// A processor that there are packages for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Machine {
    X86_64,
    Aarch64,
}

impl Machine {
    /// The machine of a 64-bit little-endian ELF file for Linux.
    fn of(bytes: &[u8]) -> Option<Self> {
        let header = bytes.get(..HEADER)?;
        match (&header[..6], u16::from_le_bytes([header[18], header[19]])) {
            (b"\x7fELF\x02\x01", 62) => Some(Self::X86_64),
            (b"\x7fELF\x02\x01", 183) => Some(Self::Aarch64),
            _ => None,
        }
    }

    /// Its name in the targets of Rust and in `uname -m`.
    fn name(self) -> &'static str {
        match self {
            Self::X86_64 => "x86_64",
            Self::Aarch64 => "aarch64",
        }
    }

    /// Its name at Debian.
    pub(super) fn debian(self) -> &'static str {
        match self {
            Self::X86_64 => "amd64",
            Self::Aarch64 => "arm64",
        }
    }
}

/// A library with the newest version that the program names: `libc.so.6` with `[2, 34]`. A static program has none.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Library {
    pub(super) name: String,
    pub(super) version: Vec<u32>,
}

/// The program that is packed.
#[derive(Debug, Clone)]
pub(super) struct Binary {
    pub(super) bytes: Vec<u8>,
    pub(super) machine: Machine,
    pub(super) libraries: Vec<Library>,
}

impl Binary {
    pub(super) fn read(path: &Path) -> io::Result<Self> {
        let failed = |what: String| io::Error::other(format!("{}: {what}", path.display()));
        let bytes = fs::read(path).map_err(|error| failed(format!("{error}; build it, or name it with --binary")))?;
        let machine =
            Machine::of(&bytes).ok_or_else(|| failed("is no program for Linux on x86_64 or aarch64".into()))?;
        let readelf = text(program("readelf").arg("-dVW").arg(path))?;
        Ok(Self { bytes, machine, libraries: libraries(&readelf) })
    }

    /// The target, as Rust names it. A static program is made with musl.
    pub(super) fn target(&self) -> String {
        let libc = if self.libraries.is_empty() { "musl" } else { "gnu" };
        format!("{}-unknown-linux-{libc}", self.machine.name())
    }
}

/// The libraries in the output of `readelf -dVW`.
fn libraries(readelf: &str) -> Vec<Library> {
    let needed = readelf.lines().filter(|line| line.contains("(NEEDED)"));
    let names = needed.filter_map(|line| line.split_once('[')?.1.split_once(']').map(|(name, _)| name));
    let mut libraries: Vec<Library> = names.map(|name| Library { name: name.to_owned(), version: vec![] }).collect();
    let mut file = "";
    for line in readelf.lines() {
        let after = |mark: &str| line.split_once(mark).and_then(|(_, rest)| rest.split_whitespace().next());
        file = after("File: ").unwrap_or(file);
        let Some(version) = after("Name: ").and_then(version) else { continue };
        if let Some(library) = libraries.iter_mut().find(|library| library.name == file) {
            library.version = library.version.clone().max(version);
        }
    }
    libraries
}

/// The numbers of a version such as `GLIBC_2.34`; none for a private one.
fn version(name: &str) -> Option<Vec<u32>> {
    match name {
        // How relative relocations are packed, which glibc reads since 2.36.
        "GLIBC_ABI_DT_RELR" => Some(vec![2, 36]),
        _ => name.rsplit_once('_')?.1.split('.').map(|number| number.parse().ok()).collect(),
    }
}

#[cfg(test)]
mod tests {
    use super::{Library, Machine, libraries};

    const READELF: &str = "\
 0x0000000000000001 (NEEDED)             Shared library: [libgcc_s.so.1]
 0x0000000000000001 (NEEDED)             Shared library: [libc.so.6]
  000000: Version: 1  File: libgcc_s.so.1  Cnt: 2
  0x0010:   Name: GCC_3.0  Flags: none  Version: 6
  0x0020:   Name: GCC_4.2.0  Flags: none  Version: 5
  0x0030: Version: 1  File: libc.so.6  Cnt: 4
  0x0040:   Name: GLIBC_2.34  Flags: none  Version: 4
  0x0050:   Name: GLIBC_2.9  Flags: none  Version: 3
  0x0060:   Name: GLIBC_PRIVATE  Flags: none  Version: 2
";

    #[test]
    fn libraries_have_the_newest_version_that_is_named() {
        let library = |name: &str, version: &[u32]| Library { name: name.into(), version: version.into() };
        assert_eq!(libraries(READELF), [library("libgcc_s.so.1", &[4, 2, 0]), library("libc.so.6", &[2, 34])]);
        let packed = READELF.replace("GLIBC_PRIVATE", "GLIBC_ABI_DT_RELR");
        assert_eq!(libraries(&packed)[1], library("libc.so.6", &[2, 36]));
        assert_eq!(libraries("There is no dynamic section in this file.\n"), []);
    }

    #[test]
    fn the_machine_is_in_the_header() {
        let header = |class: u8, machine: u16| {
            let mut bytes = b"\x7fELF\x02\x01".to_vec();
            bytes[4] = class;
            bytes.resize(18, 0);
            bytes.extend(machine.to_le_bytes());
            bytes
        };
        assert_eq!(Machine::of(&header(2, 62)), Some(Machine::X86_64));
        assert_eq!(Machine::of(&header(2, 183)), Some(Machine::Aarch64));
        assert_eq!(Machine::of(&header(1, 62)), None);
        assert_eq!(Machine::of(&header(2, 8)), None);
        assert_eq!(Machine::of(b"#!/bin/sh\n"), None);
    }
}
