//! The fault build: builds the program and the simulator with the feature `faults`, which adds crash points and
//! mutants. All external crates are those of the plain build.

use std::fs;
use std::io::{self, Write};
use std::path::{Path, PathBuf};
use std::process::Command;

/// The programs of the fault build, stored in `faults/`.
const PROGRAMS: [&str; 2] = ["limulus", "simulator"];
const FAULTY: [&str; 7] =
    ["--workspace", "--bin", "limulus", "--bin", "simulator", "--features", "limulus/faults,simulator/faults"];
const PLAIN: [&str; 4] = ["--workspace", "--exclude", "xtask", "--bins"];

/// The folder of the programs with the profile `ci`. This program is in such a folder, possibly of another profile.
pub(crate) fn programs_folder() -> io::Result<PathBuf> {
    let own = std::env::current_exe()?;
    let target = own.ancestors().nth(2).expect("cargo puts a program two folders below the root of the file system");
    Ok(target.join("ci"))
}

/// Builds the fault programs into `faults/`, then the plain ones at their usual paths. False if one cannot be built.
pub(crate) fn build(root: &Path, out: &mut dyn Write) -> io::Result<bool> {
    let programs = programs_folder()?;
    let faults = programs.join("faults");
    // Programs of an earlier build must not be mistaken for those of this one.
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
    // Replaces the fault programs at the usual paths, so that nobody runs them by mistake.
    Ok(cargo_build(root).args(PLAIN).status()?.success() && is_whole)
}

/// `--workspace` and `--examples` (there are none) make cargo select the same features of external crates as for
/// `cargo test --workspace`, including those that only tests need. So no external crate is built twice.
fn cargo_build(root: &Path) -> Command {
    let mut cargo = cargo(root);
    cargo.args(["build", "--locked", "--quiet", "--profile", "ci", "--examples"]);
    cargo
}

/// A cargo without the variables about this package that the outer cargo has set: build scripts that depend on such a
/// variable would run again.
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
