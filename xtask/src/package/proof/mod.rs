//! The stage `packages`: makes the packages of a built program, installs them from a server on this machine into folders
//! of its own, uses them, breaks the way in between, and removes them without a trace. It needs no network and no root.

mod debian;
mod installer;
mod place;
mod refusals;
mod server;
mod uninstalling;

use std::collections::BTreeMap;
use std::fs;
use std::io::{self, Write};
use std::path::{Path, PathBuf};

use self::server::Server;
use super::archive::Compression;
use super::binary::Binary;
use super::programs::{output, program};
use super::texts::Texts;
use super::{Source, version};
use crate::Tally;
use crate::scratch::Scratch;

/// What every check uses: the packages of one program, served.
pub(super) struct Bench {
    /// The folder of the packages.
    packages: PathBuf,
    version: String,
    target: String,
    server: Server,
}

/// A check by its name.
type Check = (&'static str, fn(&Bench) -> io::Result<()>);

/// Runs all checks with this program. Each is counted.
pub(crate) fn run(root: &Path, limulus: &Path, out: &mut dyn Write) -> io::Result<Tally> {
    let scratch = Scratch::new()?;
    let real = source(root, limulus, scratch.path())?;
    let small = stand_in(&real);
    let packages = scratch.path().join("small");
    super::write(&small, None, &packages)?;
    let mut tally = report("the same program gives the same bytes", &is_reproducible(&small, &packages), out)?;
    let bench = Bench::new(&small, packages)?;
    for (name, check) in [installer::CHECKS, refusals::CHECKS, uninstalling::CHECKS].concat() {
        tally += report(name, &check(&bench), out)?;
    }
    let packages = scratch.path().join("real");
    super::write(&real, None, &packages)?;
    let bench = Bench::new(&real, packages)?;
    for (name, check) in [installer::USED, uninstalling::USED, debian::CHECKS].concat() {
        tally += report(name, &check(&bench), out)?;
    }
    writeln!(out, "{} passed, {} failed", tally.passed, tally.failed)?;
    Ok(tally)
}

/// A script in the place of the program, with three pages: it is packed and installed in a moment.
fn stand_in<'a>(real: &Source<'a>) -> Source<'a> {
    let script = format!("#!/bin/sh\necho limulus {}\n", real.version);
    let binary = Binary { bytes: script.into_bytes(), ..real.binary.clone() };
    let mut texts = real.texts.clone();
    texts.pages.truncate(3);
    Source { binary, texts, version: real.version.clone(), ..*real }
}

fn report(name: &str, result: &io::Result<()>, out: &mut dyn Write) -> io::Result<Tally> {
    match result {
        Ok(()) => writeln!(out, "  ✓ {name}")?,
        Err(error) => writeln!(out, "  ✗ {name}: {error}")?,
    }
    Ok(Tally::of(result.is_ok()))
}

/// The program without its symbols, which would be most of the package.
fn source<'a>(root: &'a Path, limulus: &Path, folder: &Path) -> io::Result<Source<'a>> {
    let stripped = folder.join("limulus");
    output(program("strip").arg("-o").arg(&stripped).arg(limulus), &[])?;
    Ok(Source {
        root,
        version: version(root)?,
        binary: Binary::read(&stripped)?,
        texts: Texts::of(&stripped)?,
        time: 1_700_000_000,
        compression: Compression::Fast,
    })
}

fn is_reproducible(source: &Source, packages: &Path) -> io::Result<()> {
    let again = packages.with_file_name("again");
    super::write(source, None, &again)?;
    let (one, two) = (contents(packages)?, contents(&again)?);
    ensure(one.len() == 4 && one == two, || format!("{:?} and {:?} differ", one.keys(), two.keys()))
}

fn contents(folder: &Path) -> io::Result<BTreeMap<String, Vec<u8>>> {
    let file = |entry: io::Result<fs::DirEntry>| {
        let entry = entry?;
        Ok((entry.file_name().to_string_lossy().into_owned(), fs::read(entry.path())?))
    };
    fs::read_dir(folder)?.map(file).collect()
}

/// An error with this text unless the condition holds.
fn ensure(holds: bool, what: impl FnOnce() -> String) -> io::Result<()> {
    if holds { Ok(()) } else { Err(io::Error::other(what())) }
}

impl Bench {
    /// Serves the packages of this source.
    fn new(source: &Source, packages: PathBuf) -> io::Result<Self> {
        let server = Server::start(&packages)?;
        Ok(Self { packages, version: source.version.clone(), target: source.binary.target(), server })
    }

    /// The name of the archive.
    fn archive(&self) -> String {
        format!("limulus-{}-{}.tar.gz", self.version, self.target)
    }
}
