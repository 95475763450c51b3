//! The fault build: the program and the simulator once more with the feature `faults`, which has crash points and planted bugs.
//! All foreign crates are those of the plain build.

use std::fs;
use std::io::{self, Write};
use std::path::{Path, PathBuf};
use std::process::Command;

/// The programs that have faults, kept in `faults/`.
const PROGRAMS: [&str; 2] = ["limulus", "simulator"];
const FAULTY: [&str; 7] =
    ["--workspace", "--bin", "limulus", "--bin", "simulator", "--features", "limulus/faults,simulator/faults"];
const PLAIN: [&str; 4] = ["--workspace", "--exclude", "xtask", "--bins"];

/// The folder of the profile's programs. This program lies in such a folder, perhaps another profile's.
pub(crate) fn programs_folder() -> io::Result<PathBuf> {
    let own = std::env::current_exe()?;
    let target = own.ancestors().nth(2).expect("cargo puts a program two folders below the root of the file system");
    Ok(target.join("ci"))
}

/// Builds the fault programs into `faults/` and the plain ones into their places; false if one cannot be built.
pub(crate) fn build(root: &Path, out: &mut dyn Write) -> io::Result<bool> {
    let programs = programs_folder()?;
    let faults = programs.join("faults");
    // What an earlier build left must not be taken for this one's.
    if faults.exists() {
        fs::remove_dir_all(&faults)?;
    }
    fs::create_dir_all(&faults)?;

    if !cargo_build(root).args(FAULTY).status()?.success() {
        return Ok(false);
    }
    let mut is_whole = true;
    for program in PROGRAMS {
        if let Err(error) = fs::copy(programs.join(program), faults.join(program)) {
            writeln!(out, "{} cannot be copied: {error}", programs.join(program).display())?;
            is_whole = false;
        }
    }
    // The plain programs take their places, so that nobody runs a faulty one unawares.
    Ok(cargo_build(root).args(PLAIN).status()?.success() && is_whole)
}

/// Asking for the whole workspace and for examples, though there are none, makes cargo choose the features of foreign crates
/// that it chooses for `cargo test --workspace`, those that only tests ask for among them: so no foreign crate is built twice.
fn cargo_build(root: &Path) -> Command {
    let mut cargo = cargo(root);
    cargo.args(["build", "--locked", "--quiet", "--profile", "ci", "--examples"]);
    cargo
}

/// A cargo that does not see what the cargo that started this program has told it about this package: build scripts
/// that watch such a variable would run again.
pub(crate) fn cargo(root: &Path) -> Command {
    let mut cargo = Command::new(std::env::var_os("CARGO").unwrap_or_else(|| "cargo".into()));
    cargo.current_dir(root);
    for (name, _) in std::env::vars_os() {
        let name = name.to_string_lossy().into_owned();
        if name.starts_with("CARGO_PKG_") || name.starts_with("CARGO_MANIFEST_") {
            cargo.env_remove(name);
        }
    }
    cargo
}
