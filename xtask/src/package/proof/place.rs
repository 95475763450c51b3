//! A user's folders in which an installation is tried, and what is in them before and after.

use std::collections::BTreeMap;
use std::ffi::OsStr;
use std::fs;
use std::io;
use std::os::unix::fs::PermissionsExt as _;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use super::{Bench, ensure};
use crate::scratch::Scratch;

/// The folders of one user: a home, and one for temporary files.
pub(super) struct Place {
    scratch: Scratch,
}

/// How a program ended, and what it printed.
#[derive(Debug)]
pub(super) struct Ran {
    pub(super) code: Option<i32>,
    pub(super) out: String,
    pub(super) err: String,
}

/// Each path with its permissions and the number of its bytes.
pub(super) type Listing = BTreeMap<PathBuf, (u32, u64)>;

impl Place {
    /// A user who has files already.
    pub(super) fn new() -> io::Result<Self> {
        let place = Self { scratch: Scratch::new()? };
        fs::create_dir_all(place.home().join(".local/share/man"))?;
        fs::create_dir(place.scratch.path().join("tmp"))?;
        fs::write(place.home().join(".profile"), "# mine\n")?;
        Ok(place)
    }

    pub(super) fn home(&self) -> PathBuf {
        self.scratch.path().join("home")
    }

    /// A program with the environment of this user alone.
    pub(super) fn command(&self, program: impl AsRef<OsStr>) -> Command {
        let mut command = Command::new(program);
        command.env_clear().current_dir(self.home()).stdin(Stdio::null());
        for name in ["PATH", "LLVM_PROFILE_FILE"] {
            if let Some(value) = std::env::var_os(name) {
                command.env(name, value);
            }
        }
        command.env("HOME", self.home()).env("TMPDIR", self.scratch.path().join("tmp")).env("LC_ALL", "C");
        command
    }

    /// The installer, by this shell.
    pub(super) fn installer(&self, bench: &Bench, shell: &str, url: &str) -> Command {
        let mut words = shell.split(' ');
        let mut command = self.command(words.next().unwrap_or("sh"));
        command.args(words).arg(bench.packages.join("install.sh")).env("LIMULUS_INSTALL_URL", url);
        command
    }

    /// Runs the installer with packages that are as they should be.
    pub(super) fn install(&self, bench: &Bench, arguments: &[&str]) -> io::Result<Ran> {
        ran(self.installer(bench, "sh", &bench.server.url("good")).args(arguments))
    }

    pub(super) fn listing(&self) -> io::Result<Listing> {
        let mut listing = Listing::new();
        list(self.scratch.path(), &mut listing)?;
        Ok(listing)
    }

    /// An error that names the differences unless everything is as it was.
    pub(super) fn ensure_unchanged(&self, before: &Listing) -> io::Result<()> {
        let after = self.listing()?;
        let differ = |one: &Listing, other: &Listing| {
            one.iter().filter(|(path, entry)| other.get(*path) != Some(entry)).map(|(path, _)| path.clone()).collect()
        };
        let (gone, new): (Vec<PathBuf>, Vec<PathBuf>) = (differ(before, &after), differ(&after, before));
        ensure(gone.is_empty() && new.is_empty(), || format!("gone or changed: {gone:?}; new or changed: {new:?}"))
    }
}

fn list(folder: &Path, listing: &mut Listing) -> io::Result<()> {
    for entry in fs::read_dir(folder)? {
        let path = entry?.path();
        let data = fs::symlink_metadata(&path)?;
        let size = if data.is_file() { data.len() } else { 0 };
        listing.insert(path.clone(), (data.permissions().mode(), size));
        if data.is_dir() {
            list(&path, listing)?;
        }
    }
    Ok(())
}

/// Runs a program to its end.
pub(super) fn ran(command: &mut Command) -> io::Result<Ran> {
    let output = command.output()?;
    let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
    Ok(Ran { code: output.status.code(), out: text(&output.stdout), err: text(&output.stderr) })
}

impl Ran {
    /// An error unless it ended with 0 and printed all of these.
    pub(super) fn expect(&self, parts: &[&str]) -> io::Result<()> {
        let holds = self.code == Some(0) && parts.iter().all(|part| self.out.contains(part));
        ensure(holds, || format!("expected 0 and {parts:?}: {self:?}"))
    }

    /// An error unless it failed and said all of these.
    pub(super) fn expect_refusal(&self, parts: &[&str]) -> io::Result<()> {
        let holds = self.code == Some(1) && parts.iter().all(|part| self.err.contains(part));
        ensure(holds, || format!("expected 1 and {parts:?}: {self:?}"))
    }
}

/// Whether a program is there.
pub(super) fn is_there(program: &str) -> bool {
    let folders = std::env::var_os("PATH").unwrap_or_default();
    std::env::split_paths(&folders).any(|folder| folder.join(program).is_file())
}
