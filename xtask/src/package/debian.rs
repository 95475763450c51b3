//! The Debian package. It is put together here, so that it can be made and tested where there is no `dpkg-deb`.

use std::fmt::Write as _;
use std::fs;
use std::io;

use super::archive::{Compression, Entry, ar, gz, tar_gz, with_folders};
use super::binary::{Binary, Library};
use super::programs::{output, program, text};
use super::{Source, Texts};

const MAINTAINER: &str = "Limulus maintainers <maintainers@limulus.invalid>";

/// The packages of Debian with the libraries that the program may need.
const PACKAGES: &[(&str, &str)] = &[
    ("libc.so.6", "libc6"),
    ("libm.so.6", "libc6"),
    ("libdl.so.2", "libc6"),
    ("libpthread.so.0", "libc6"),
    ("librt.so.1", "libc6"),
    ("ld-linux-x86-64.so.2", "libc6"),
    ("ld-linux-aarch64.so.1", "libc6"),
    ("libgcc_s.so.1", "libgcc-s1"),
];

/// The name of the package's file.
pub(super) fn file_name(source: &Source) -> String {
    format!("limulus_{}_{}.deb", source.version, source.binary.machine.debian())
}

/// The bytes of the package.
pub(super) fn package(source: &Source) -> io::Result<Vec<u8>> {
    let files = files(source)?;
    let sums = sums(&files)?;
    let entries = with_folders(files, "./");
    let control = with_folders(
        vec![Entry::file("control", control(source, installed_kib(&entries))?), Entry::file("md5sums", sums)],
        "./",
    );
    let (time, compression) = (source.time, source.compression);
    let parts = [
        ("debian-binary", b"2.0\n".to_vec()),
        ("control.tar.gz", tar_gz(&control, time, Compression::Best)?),
        ("data.tar.gz", tar_gz(&entries, time, compression)?),
    ];
    Ok(ar(&parts, time))
}

fn files(source: &Source) -> io::Result<Vec<Entry>> {
    let Texts { bash, zsh, fish, pages, unit, .. } = &source.texts;
    let mut files = vec![
        Entry::program("usr/bin/limulus", source.binary.bytes.clone()),
        Entry::file("usr/lib/systemd/user/limulus.service", unit.as_str()),
        Entry::file("usr/share/bash-completion/completions/limulus", bash.clone()),
        Entry::file("usr/share/fish/vendor_completions.d/limulus.fish", fish.clone()),
        Entry::file("usr/share/zsh/vendor-completions/_limulus", zsh.clone()),
        Entry::file("usr/share/doc/limulus/copyright", copyright()),
        Entry::file("usr/share/doc/limulus/README.md", fs::read(source.root.join("README.md"))?),
        Entry::file("usr/share/doc/limulus/changelog.gz", changelog(source)?),
    ];
    if source.binary.libraries.is_empty() {
        // It is static on purpose: one program for every distribution.
        let overrides = ["statically-linked-binary", "shared-library-lacks-prerequisites"]
            .map(|tag| format!("limulus: {tag} [usr/bin/limulus]\n"))
            .concat();
        files.push(Entry::file("usr/share/lintian/overrides/limulus", overrides));
    }
    for (page, text) in pages {
        files.push(Entry::file(&format!("usr/share/man/man1/{page}.gz"), gz(text, Compression::Best)?));
    }
    Ok(files)
}

/// The sums that `dpkg --verify` compares.
fn sums(files: &[Entry]) -> io::Result<String> {
    let mut lines: Vec<String> = vec![];
    for file in files {
        let sum = String::from_utf8_lossy(&output(&mut program("md5sum"), &file.content)?).into_owned();
        let sum = sum.split_whitespace().next().unwrap_or_default();
        lines.push(format!("{sum}  {}\n", file.path));
    }
    lines.sort_by(|a, b| a[32..].cmp(&b[32..]));
    Ok(lines.concat())
}

/// As `dpkg-gencontrol` counts: each file in whole KiB, each folder one.
fn installed_kib(entries: &[Entry]) -> usize {
    entries.iter().map(|entry| if entry.is_folder() { 1 } else { entry.content.len().div_ceil(1_024) }).sum()
}

fn control(source: &Source, installed_kib: usize) -> io::Result<String> {
    let mut control = format!(
        "Package: limulus\nVersion: {}\nArchitecture: {}\nMaintainer: {MAINTAINER}\nInstalled-Size: {installed_kib}\n",
        source.version,
        source.binary.machine.debian()
    );
    let depends = depends(&source.binary)?;
    if !depends.is_empty() {
        writeln!(control, "Depends: {depends}").expect("a String takes all");
    }
    control.push_str(
        "Recommends: ca-certificates\n\
         Section: utils\n\
         Priority: optional\n\
         Description: durable runtime for AI agents\n \
         Limulus runs AI agents on this machine. Every step of a run is in a journal\n \
         before anybody is notified of it, so a run survives kill -9: no acknowledged\n \
         message is lost, and nothing is done twice.\n",
    );
    Ok(control)
}

/// The packages of the libraries, each with the newest version that is needed of it.
fn depends(binary: &Binary) -> io::Result<String> {
    let mut needed: Vec<(&str, Vec<u32>)> = vec![];
    for Library { name, version } in &binary.libraries {
        let package = PACKAGES.iter().find(|(library, _)| library == name);
        let Some((_, package)) = package else {
            return Err(io::Error::other(format!("xtask/src/package/debian.rs names no package for {name}")));
        };
        match needed.iter_mut().find(|(known, _)| known == package) {
            Some((_, newest)) => *newest = newest.clone().max(version.clone()),
            None => needed.push((package, version.clone())),
        }
    }
    needed.sort();
    let relation = |(package, version): &(&str, Vec<u32>)| {
        let version: Vec<String> = version.iter().map(u32::to_string).collect();
        if version.is_empty() { (*package).to_owned() } else { format!("{package} (>= {})", version.join(".")) }
    };
    Ok(needed.iter().map(relation).collect::<Vec<_>>().join(", "))
}

fn copyright() -> String {
    "Format: https://www.debian.org/doc/packaging-manuals/copyright-format/1.0/\n\
     Upstream-Name: Limulus\n\
     \n\
     Files: *\n\
     Copyright: 2026 the authors of Limulus\n\
     License: Apache-2.0\n\
     \n\
     License: Apache-2.0\n \
     On Debian systems, the full text of the Apache License, Version 2.0, is in\n \
     /usr/share/common-licenses/Apache-2.0.\n"
        .to_owned()
}

/// One entry: what changed stands in the project's own CHANGELOG.md.
fn changelog(source: &Source) -> io::Result<Vec<u8>> {
    let date = text(program("date").args(["-u", "-R", "-d", &format!("@{}", source.time)]))?;
    let entry = format!(
        "limulus ({}) stable; urgency=medium\n\n  * CHANGELOG.md of Limulus lists what this version changes.\n\n -- {MAINTAINER}  {}\n",
        source.version,
        date.trim()
    );
    gz(entry.as_bytes(), Compression::Best)
}

#[cfg(test)]
mod tests {
    use super::super::binary::{Binary, Library, Machine};
    use super::{Entry, depends, installed_kib, sums};

    fn binary(libraries: &[(&str, &[u32])]) -> Binary {
        let library = |(name, version): &(&str, &[u32])| Library { name: (*name).into(), version: version.to_vec() };
        Binary { bytes: vec![], machine: Machine::X86_64, libraries: libraries.iter().map(library).collect() }
    }

    #[test]
    fn dependencies_are_the_packages_of_the_libraries() {
        let glibc: [(&str, &[u32]); 3] =
            [("libgcc_s.so.1", &[4, 2, 0]), ("libm.so.6", &[2, 38]), ("libc.so.6", &[2, 34])];
        assert_eq!(depends(&binary(&glibc)).unwrap(), "libc6 (>= 2.38), libgcc-s1 (>= 4.2.0)");
        assert_eq!(depends(&binary(&[])).unwrap(), "");
        assert!(depends(&binary(&[("libssl.so.3", &[])])).unwrap_err().to_string().contains("libssl.so.3"));
    }

    #[test]
    fn sizes_and_sums_are_those_of_the_files() {
        let files = [Entry::file("b", vec![0; 1_025]), Entry::file("a/", ""), Entry::file("a/x", "hello\n")];
        assert_eq!(installed_kib(&files), 2 + 1 + 1);
        assert_eq!(sums(&files[2..]).unwrap(), "b1946ac92492d2347c6235b4d2611184  a/x\n");
    }
}
