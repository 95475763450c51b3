//! The installer does what it should: it installs, updates while the program runs, and lists what it wrote.

use std::fs;
use std::io;
use std::os::unix::fs::MetadataExt as _;
use std::path::Path;
use std::process::{Child, Stdio};
use std::time::{Duration, Instant};

use super::place::{Place, is_there, ran};
use super::{Bench, Check, ensure};

/// How long a service may need to start or to stop.
const SERVICE: Duration = Duration::from_mins(1);
/// Interval of looks.
const LOOK: Duration = Duration::from_millis(20);

/// The shells of which each that is there runs the installer.
const SHELLS: [&str; 4] = ["sh", "dash", "busybox sh", "bash --posix"];

/// What the real program is needed for.
pub(super) const USED: &[Check] = &[("it is replaced while it runs, and what runs goes on", replaced_while_it_runs)];

pub(super) const CHECKS: &[Check] = &[
    ("every shell installs, and removes without a trace", every_shell),
    ("wget will do where there is no curl", wget_alone),
    ("packages may be in a folder", packages_in_a_folder),
    ("a version can be named, and of several one must be", a_version_is_named),
    ("another folder moves the program", another_folder),
    ("a dry run changes nothing", dry_run),
];

fn every_shell(bench: &Bench) -> io::Result<()> {
    for shell in SHELLS.iter().filter(|shell| is_there(shell.split(' ').next().unwrap_or_default())) {
        let place = Place::new()?;
        let before = place.listing()?;
        let installed = ran(&mut place.installer(bench, shell, &bench.server.url("good")))?;
        installed.expect(&["is installed", "export PATH="])?;
        let program = place.home().join(".local/bin/limulus");
        let version = format!("limulus {}\n", bench.version);
        let says = ran(place.command(&program).arg("--version"))?;
        ensure(says.out == version, || format!("{shell}: {says:?}"))?;
        for path in ["bash-completion/completions/limulus", "zsh/site-functions/_limulus", "man/man1/limulus-agent.1"] {
            let path = place.home().join(".local/share").join(path);
            ensure(path.is_file(), || format!("{shell}: no {}", path.display()))?;
        }
        let removed = ran(place.installer(bench, shell, "").arg("--uninstall"))?;
        removed.expect(&["limulus is removed"])?;
        place.ensure_unchanged(&before)?;
    }
    Ok(())
}

fn replaced_while_it_runs(bench: &Bench) -> io::Result<()> {
    let place = Place::new()?;
    place.install(bench, &[])?.expect(&[])?;
    let program = place.home().join(".local/bin/limulus");
    let first = fs::metadata(&program)?.ino();
    let socket = place.home().join(".local/share/limulus/limulus.sock");
    let mut service = place.command(&program).arg("serve").stdout(Stdio::null()).stderr(Stdio::null()).spawn()?;
    let tried = wait(&mut service, || socket.exists()).and_then(|()| {
        place.install(bench, &[])?.expect(&["is installed"])?;
        ensure(fs::metadata(&program)?.ino() != first, || "the program was not replaced by a rename".into())?;
        ensure(service.try_wait()?.is_none(), || "the service has ended".into())?;
        // The new program is a client of the old one.
        let status = ran(place.command(&program).args(["status", "--json"]))?;
        status.expect(&[&format!("{}", service.id())])
    });
    ran(place.command("kill").arg(service.id().to_string()))?;
    service.wait()?;
    tried
}

/// Waits for a condition while the service runs.
fn wait(service: &mut Child, mut holds: impl FnMut() -> bool) -> io::Result<()> {
    let began = Instant::now();
    while !holds() {
        ensure(service.try_wait()?.is_none(), || "the service has ended".into())?;
        ensure(began.elapsed() < SERVICE, || "the service is not ready".into())?;
        std::thread::sleep(LOOK);
    }
    Ok(())
}

fn wget_alone(bench: &Bench) -> io::Result<()> {
    if !is_there("wget") {
        return Ok(());
    }
    let place = Place::new()?;
    let tools = place.home().join("tools");
    link_tools(&tools, &["curl"])?;
    let mut installer = place.installer(bench, "/bin/sh", &bench.server.url("good"));
    ran(installer.env("PATH", &tools))?.expect(&["is installed"])
}

/// A folder with links to every program of the system but these.
pub(super) fn link_tools(folder: &Path, but: &[&str]) -> io::Result<()> {
    fs::create_dir_all(folder)?;
    for from in ["/usr/bin", "/bin"] {
        for entry in fs::read_dir(from)? {
            let entry = entry?;
            let name = entry.file_name();
            let link = folder.join(&name);
            if !but.iter().any(|but| name == *but) && !link.is_symlink() {
                std::os::unix::fs::symlink(entry.path(), link)?;
            }
        }
    }
    Ok(())
}

fn packages_in_a_folder(bench: &Bench) -> io::Result<()> {
    let place = Place::new()?;
    let folder = bench.packages.to_string_lossy().into_owned();
    ran(&mut place.installer(bench, "sh", &folder))?.expect(&["is installed"])
}

fn a_version_is_named(bench: &Bench) -> io::Result<()> {
    let place = Place::new()?;
    let before = place.listing()?;
    place.install(bench, &["--version", "9.9.9"])?.expect_refusal(&["no package of version 9.9.9"])?;
    let several = place.home().join("several");
    fs::create_dir(&several)?;
    let sums = fs::read_to_string(bench.packages.join("SHA256SUMS"))?;
    let other = sums.replace(&format!("limulus-{}", bench.version), "limulus-0.0.1");
    fs::write(several.join("SHA256SUMS"), format!("{sums}{other}"))?;
    fs::hard_link(bench.packages.join(bench.archive()), several.join(bench.archive()))
        .or_else(|_| fs::copy(bench.packages.join(bench.archive()), several.join(bench.archive())).map(|_| ()))?;
    let url = several.to_string_lossy().into_owned();
    let refused = ran(&mut place.installer(bench, "sh", &url))?;
    refused.expect_refusal(&["several versions", "0.0.1", "--version"])?;
    let named = ran(place.installer(bench, "sh", &url).args(["--version", &format!("v{}", bench.version)]))?;
    named.expect(&["is installed"])?;
    place.install(bench, &["--uninstall"])?.expect(&[])?;
    fs::remove_dir_all(several)?;
    place.ensure_unchanged(&before)
}

fn another_folder(bench: &Bench) -> io::Result<()> {
    let place = Place::new()?;
    let before = place.listing()?;
    place.install(bench, &[])?.expect(&[])?;
    place.install(bench, &["--to", "my programs/bin"])?.expect(&["my programs/bin/limulus"])?;
    let (old, new) = (place.home().join(".local/bin"), place.home().join("my programs/bin/limulus"));
    ensure(!old.exists() && new.is_file(), || "the program was not moved".into())?;
    place.install(bench, &["--uninstall"])?.expect(&[])?;
    place.ensure_unchanged(&before)
}

fn dry_run(bench: &Bench) -> io::Result<()> {
    let place = Place::new()?;
    let before = place.listing()?;
    let program = place.home().join(".local/bin/limulus");
    let program = program.to_string_lossy();
    place.install(bench, &["--dry-run"])?.expect(&["would install", &program, &bench.archive()])?;
    place.ensure_unchanged(&before)?;
    place.install(bench, &[])?.expect(&[])?;
    let installed = place.listing()?;
    place.install(bench, &["--uninstall", "--dry-run"])?.expect(&["would remove", &program])?;
    place.ensure_unchanged(&installed)
}
