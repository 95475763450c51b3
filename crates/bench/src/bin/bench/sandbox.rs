//! What a command costs more in its sandbox: `true` in a workspace with a repository, by turns bare and confined, with all that is
//! hidden and protected by default.

use std::ffi::{OsStr, OsString};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::Instant;

use confine::{ConfineReport, ConfineState, Launcher, NetworkAccess, Profile, ResourceLimits, Tier, WorkspaceAccess};

use super::Problem;
use super::table::{Line, Row, Samples, Target};

/// How often each is measured.
const TIMES: usize = 200;

/// Measures; it creates a workspace in this folder.
pub(super) fn measure(binary: &Path, folder: &Path) -> Result<Vec<Line>, Problem> {
    let folder = folder.canonicalize()?;
    for name in ["work/.git/hooks", "work/.git/info", "work/src", "temporary", "reports"] {
        std::fs::create_dir_all(folder.join(name))?;
    }
    std::fs::write(folder.join("work/.git/HEAD"), "ref: refs/heads/main\n")?;
    std::fs::write(folder.join("work/.git/config"), "")?;
    let launcher = Launcher { executable: binary.to_owned(), words: vec!["confine".to_owned()] };
    let mut rows = vec![];
    for (tier, what, target) in [
        (Tier::A, "a command in its sandbox, more than without one", Target::AtMost(5.0)),
        (Tier::B, "the same without namespaces", Target::None),
    ] {
        let mut more = vec![];
        for number in 0..TIMES {
            let profile = profile(&folder, tier, &format!("{tier:?}-{number}"));
            let mut confined = profile.command(&launcher, OsStr::new("true"), [], environment())?;
            let mut bare = Command::new("true");
            bare.env_clear().envs(environment());
            let (bare, confined) = (time(&mut bare)?, time(&mut confined)?);
            let report = ConfineReport::read(&profile.report)?;
            if report.state != ConfineState::Confined {
                return Err(format!("the sandbox could not be set up: {report:?}").into());
            }
            more.push(confined - bare);
        }
        rows.push(Row { what, target, measured: Samples::new("ms", more) }.into());
    }
    Ok(rows)
}

fn environment() -> [(OsString, OsString); 1] {
    [("PATH".into(), "/usr/bin:/bin".into())]
}

fn time(command: &mut Command) -> Result<f64, Problem> {
    command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null());
    let started = Instant::now();
    let status = command.status()?;
    let ms = started.elapsed().as_secs_f64() * 1e3;
    if status.success() { Ok(ms) } else { Err(format!("`true` ended with {status}").into()) }
}

fn profile(folder: &Path, tier: Tier, name: &str) -> Profile {
    let home = std::env::var_os("HOME").map_or_else(|| PathBuf::from("/root"), PathBuf::from);
    Profile {
        workspace: folder.join("work"),
        folder: folder.join("work"),
        access: WorkspaceAccess::Workspace,
        temporary: folder.join("temporary"),
        writable: vec![],
        approved: vec![],
        caches: None,
        hidden: confine::default_hidden(&home, &home),
        read_only: confine::default_read_only(),
        network: NetworkAccess::None,
        limits: ResourceLimits::default(),
        tier,
        report: folder.join("reports").join(name),
    }
}
