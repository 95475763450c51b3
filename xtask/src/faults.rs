//! The fault build: the workspace's crates compiled once more with crash points and planted bugs, with all foreign
//! crates taken from the plain build. Cargo is told that this program is the compiler of the workspace's crates
//! (`RUSTC_WORKSPACE_WRAPPER`); that gives them fingerprints of their own, and this program adds the flags.

use std::ffi::{OsStr, OsString};
use std::fs;
use std::io::{self, Write};
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Command, ExitCode};

/// What the fault build has and the shipped binary has not.
const FLAGS: [&str; 4] = ["--cfg", "crashpoints", "--cfg", "mutants"];
/// All programs but this one. Asking for examples, though there are none, makes cargo choose the features that it chooses
/// for `cargo test --workspace`, those that only tests ask for among them: so no foreign crate is built twice.
const TARGETS: [&str; 5] = ["--workspace", "--exclude", "xtask", "--bins", "--examples"];
/// The programs that are kept in `faults/`.
const PROGRAMS: [&str; 3] = ["limulus", "simulator", "kills"];

/// The compiler, if cargo has called this program in its place: then the first argument is the compiler's path.
pub(crate) fn wrapped_compiler(arguments: &[OsString]) -> Option<&OsStr> {
    let first = arguments.first()?;
    let is_compiler = Path::new(first).file_stem().is_some_and(|stem| stem == "rustc");
    (is_compiler && std::env::var_os("RUSTC_WORKSPACE_WRAPPER").is_some()).then_some(first)
}

/// Becomes the compiler, with the flags of the fault build added.
pub(crate) fn compile(compiler: &OsStr, arguments: &[OsString]) -> ExitCode {
    let error = Command::new(compiler).args(arguments).args(FLAGS).exec();
    let _ = writeln!(io::stderr(), "xtask: {} cannot be started: {error}", compiler.to_string_lossy());
    ExitCode::FAILURE
}

/// The folder of the profile's programs. This program lies in such a folder, perhaps another profile's.
pub(crate) fn programs_folder() -> io::Result<PathBuf> {
    let own = std::env::current_exe()?;
    let target = own.ancestors().nth(2).expect("cargo puts a program two folders below the root of the file system");
    Ok(target.join("ci"))
}

/// Builds the fault programs into `faults/` and puts the plain ones back in their places; false if one cannot be built.
pub(crate) fn build(root: &Path, out: &mut dyn Write) -> io::Result<bool> {
    let programs = programs_folder()?;
    let faults = programs.join("faults");
    // What an earlier build left must not be taken for this one's.
    if faults.exists() {
        fs::remove_dir_all(&faults)?;
    }
    fs::create_dir_all(&faults)?;

    if !cargo_build(root).env("RUSTC_WORKSPACE_WRAPPER", std::env::current_exe()?).status()?.success() {
        return Ok(false);
    }
    let mut is_whole = true;
    for program in PROGRAMS {
        if let Err(error) = fs::copy(programs.join(program), faults.join(program)) {
            writeln!(out, "{} cannot be copied: {error}", programs.join(program).display())?;
            is_whole = false;
        }
    }
    // The plain programs take their places again, so that nobody runs a faulty one unawares.
    Ok(cargo_build(root).status()?.success() && is_whole)
}

fn cargo_build(root: &Path) -> Command {
    let mut cargo = cargo(root);
    cargo.arg("build").args(["--profile", "ci"]).args(TARGETS);
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

#[cfg(test)]
mod tests {
    use std::ffi::OsString;

    use super::wrapped_compiler;

    #[test]
    fn a_command_is_not_taken_for_a_compiler() {
        let tidy: Vec<OsString> = vec!["tidy".into()];
        assert_eq!(wrapped_compiler(&tidy), None);
        assert_eq!(wrapped_compiler(&[]), None);
        // Cargo has not named this program as its compiler here.
        assert_eq!(wrapped_compiler(&["/usr/bin/rustc".into()]), None);
    }
}
