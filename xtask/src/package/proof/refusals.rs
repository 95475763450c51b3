//! The installer refuses, says why, and leaves no trace.

use std::fs;
use std::io;
use std::os::unix::fs::PermissionsExt as _;
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use super::installer::link_tools;
use super::place::{Place, Ran, ran};
use super::{Bench, Check, ensure};

/// How long the installer may need to end after a signal.
const END: Duration = Duration::from_secs(30);
/// Interval of looks.
const LOOK: Duration = Duration::from_millis(20);

pub(super) const CHECKS: &[Check] = &[
    ("a changed or incomplete package is refused", broken_downloads),
    ("over an installation, a refusal leaves that one", broken_update),
    ("an interrupted download leaves nothing", interrupted),
    ("a script that was cut off does nothing", cut_script),
    ("a missing tool is named", missing_tools),
    ("another machine or system is named", other_machines),
    ("a folder that cannot be written is named", unwritable),
    ("a full disk is an error that leaves nothing", no_space),
    ("an address that is none, or is not encrypted, is refused", addresses),
    ("a program of somebody else is not replaced", foreign_program),
    ("a wrong option changes nothing", wrong_options),
];

/// Runs the installer, which must refuse with these words and change nothing.
fn refused(place: &Place, command: &mut Command, parts: &[&str]) -> io::Result<()> {
    let before = place.listing()?;
    ran(command)?.expect_refusal(parts)?;
    place.ensure_unchanged(&before)
}

fn broken_downloads(bench: &Bench) -> io::Result<()> {
    let place = Place::new()?;
    for (fault, said) in [
        ("flipped", "does not have the checksum of SHA256SUMS"),
        ("short", "does not have the checksum of SHA256SUMS"),
        ("cut", "cannot be downloaded whole"),
        ("nothing", "SHA256SUMS cannot be downloaded"),
    ] {
        refused(&place, &mut place.installer(bench, "sh", &bench.server.url(fault)), &[said])?;
    }
    Ok(())
}

fn broken_update(bench: &Bench) -> io::Result<()> {
    let place = Place::new()?;
    place.install(bench, &[])?.expect(&[])?;
    refused(&place, &mut place.installer(bench, "sh", &bench.server.url("flipped")), &["checksum"])
}

fn interrupted(bench: &Bench) -> io::Result<()> {
    for (signal, code) in [("-TERM", 143), ("-HUP", 129)] {
        let place = Place::new()?;
        let before = place.listing()?;
        let mut installer = place.installer(bench, "sh", &bench.server.url("stalled"));
        let mut installer = installer.stderr(Stdio::null()).spawn()?;
        let began = Instant::now();
        // The download has begun, and the second half never comes.
        while !place.listing()?.keys().any(|path| path.ends_with(bench.archive())) {
            ensure(installer.try_wait()?.is_none() && began.elapsed() < END, || "no download began".into())?;
            std::thread::sleep(LOOK);
        }
        // A shell waits for its program before it obeys: as Ctrl-C does, the signal goes to both.
        let children = fs::read_to_string(format!("/proc/{0}/task/{0}/children", installer.id()))?;
        ran(place.command("kill").arg(signal).arg(installer.id().to_string()).args(children.split_whitespace()))?;
        let status = installer.wait()?;
        ensure(status.code() == Some(code), || format!("{signal}: {status}"))?;
        place.ensure_unchanged(&before)?;
    }
    Ok(())
}

fn cut_script(bench: &Bench) -> io::Result<()> {
    let place = Place::new()?;
    let script = fs::read(bench.packages.join("install.sh"))?;
    let cut = place.home().join("cut.sh");
    fs::write(&cut, "")?;
    let before: Vec<_> = place.listing()?.into_keys().collect();
    let last = script.len() - 200;
    for end in (0..last).step_by(211).chain(last..script.len() - 1) {
        fs::write(&cut, &script[..end])?;
        let Ran { out, code, .. } =
            ran(place.command("sh").arg(&cut).env("LIMULUS_INSTALL_URL", bench.server.url("good")))?;
        let after: Vec<_> = place.listing()?.into_keys().collect();
        ensure(out.is_empty() && before == after, || format!("the first {end} bytes did something: {code:?} {out}"))?;
    }
    Ok(())
}

fn missing_tools(bench: &Bench) -> io::Result<()> {
    let place = Place::new()?;
    let tools = place.home().join("tools");
    link_tools(&tools, &["curl", "wget"])?;
    let installer = || {
        let mut installer = place.installer(bench, "/bin/sh", &bench.server.url("good"));
        installer.env("PATH", &tools);
        installer
    };
    refused(&place, &mut installer(), &["neither curl nor wget"])?;
    fs::remove_file(tools.join("sha256sum"))?;
    let _ = fs::remove_file(tools.join("shasum"));
    refused(&place, &mut installer(), &["sha256sum is missing"])
}

fn other_machines(bench: &Bench) -> io::Result<()> {
    let place = Place::new()?;
    let uname = place.home().join("uname");
    for (system, machine, said) in
        [("Linux", "riscv64", "no packages for riscv64"), ("Darwin", "arm64", "no packages for Darwin")]
    {
        fs::write(&uname, format!("#!/bin/sh\ncase $1 in -s) echo {system} ;; *) echo {machine} ;; esac\n"))?;
        fs::set_permissions(&uname, fs::Permissions::from_mode(0o755))?;
        let path = format!("{}:{}", place.home().display(), std::env::var("PATH").unwrap_or_default());
        let mut installer = place.installer(bench, "sh", &bench.server.url("good"));
        refused(&place, installer.env("PATH", path), &[said])?;
    }
    Ok(())
}

fn unwritable(bench: &Bench) -> io::Result<()> {
    let place = Place::new()?;
    let file = place.home().join("file");
    fs::write(&file, "mine\n")?;
    for folder in ["/proc/limulus/bin".to_owned(), file.join("bin").to_string_lossy().into_owned()] {
        let mut installer = place.installer(bench, "sh", &bench.server.url("good"));
        refused(&place, installer.args(["--to", &folder]), &["limulus cannot be written", "permissions"])?;
    }
    Ok(())
}

/// A limit on the size of files stands for a full disk: writing fails in the middle of the archive, then of the program.
fn no_space(bench: &Bench) -> io::Result<()> {
    let place = Place::new()?;
    let archive = fs::metadata(bench.packages.join(bench.archive()))?.len();
    for (kib, said) in [(archive / 2_048, "cannot be downloaded whole"), (archive / 1_024 + 64, "cannot be unpacked")] {
        let mut limited = place.command("bash");
        limited.args(["-c", "ulimit -f $0; exec sh \"$1\""]).arg(kib.to_string());
        limited.arg(bench.packages.join("install.sh")).env("LIMULUS_INSTALL_URL", bench.server.url("good"));
        refused(&place, &mut limited, &[said])?;
    }
    Ok(())
}

fn addresses(bench: &Bench) -> io::Result<()> {
    let place = Place::new()?;
    for (url, said) in [
        ("", "no address of packages is known"),
        ("http://packages.example/limulus", "is not encrypted"),
        ("http://127.0.0.1.packages.example", "is not encrypted"),
        ("ftp://packages.example", "a scheme that this script does not know"),
        ("/there/is/no/such/folder", "is no folder"),
    ] {
        refused(&place, &mut place.installer(bench, "sh", url), &[said])?;
    }
    Ok(())
}

fn foreign_program(bench: &Bench) -> io::Result<()> {
    let place = Place::new()?;
    let program = place.home().join(".local/bin/limulus");
    fs::create_dir_all(place.home().join(".local/bin"))?;
    fs::write(&program, "mine\n")?;
    let mut installer = place.installer(bench, "sh", &bench.server.url("good"));
    refused(&place, &mut installer, &["this script did not install it", "--force"])?;
    place.install(bench, &["--force"])?.expect(&["is installed"])?;
    ensure(fs::read(&program)? != b"mine\n", || "--force did not replace it".into())
}

fn wrong_options(bench: &Bench) -> io::Result<()> {
    let place = Place::new()?;
    for (arguments, said) in [
        (vec!["--fast"], "there is no option --fast"),
        (vec!["--to"], "--to needs a value"),
        (vec!["--purge"], "--purge goes with --uninstall"),
        (vec!["--to", "a\nb"], "line break"),
        (vec!["--uninstall"], "nothing is installed"),
    ] {
        let mut installer = place.installer(bench, "sh", &bench.server.url("good"));
        refused(&place, installer.args(arguments), &[said])?;
    }
    Ok(())
}
