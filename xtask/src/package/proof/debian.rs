//! The Debian package, as `dpkg` reads it. Where that is not there, the archives in it are unpacked by hand.

use std::fs;
use std::io;
use std::path::{Path, PathBuf};

use super::place::{Place, Ran, is_there, ran};
use super::{Bench, Check, ensure};

pub(super) const CHECKS: &[Check] = &[
    ("the Debian package has what it says, and its program runs", contents),
    ("dpkg installs it into a folder, and purges it without a trace", installed),
];

fn file(bench: &Bench) -> io::Result<PathBuf> {
    let files = fs::read_dir(&bench.packages)?.flatten().map(|entry| entry.path());
    let mut packages = files.filter(|path| path.extension().is_some_and(|extension| extension == "deb"));
    packages.next().ok_or_else(|| io::Error::other("there is no Debian package"))
}

fn contents(bench: &Bench) -> io::Result<()> {
    let place = Place::new()?;
    let folder = place.home().join("unpacked");
    let control = unpack(&place, &file(bench)?, &folder)?;
    for line in ["Package: limulus", &format!("Version: {}", bench.version), "Description: durable runtime"] {
        ensure(control.contains(line), || format!("no `{line}` in\n{control}"))?;
    }
    let is_static = bench.target.ends_with("musl");
    ensure(is_static != control.contains("\nDepends: libc6 (>= 2."), || control.clone())?;
    let sums = folder.join("DEBIAN/md5sums");
    ran(place.command("md5sum").arg("--quiet").arg("-c").arg(&sums).current_dir(&folder))?.expect(&[])?;
    let says = ran(place.command(folder.join("usr/bin/limulus")).arg("--version"))?;
    says.expect(&[&format!("limulus {}", bench.version)])?;
    let page = folder.join("usr/share/man/man1/limulus.1.gz");
    ran(place.command("gzip").arg("-dc").arg(page))?.expect(&[".TH limulus"])?;
    let log = folder.join("usr/share/doc/limulus/changelog.gz");
    ran(place.command("gzip").arg("-dc").arg(log))?.expect(&[&format!("limulus ({})", bench.version)])?;
    let unit = fs::read_to_string(folder.join("usr/lib/systemd/user/limulus.service"))?;
    ensure(unit.contains("\nExecStart=/usr/bin/limulus serve\n") && !unit.contains("LIMULUS_HOME"), || unit.clone())?;
    let size: u64 = control.lines().find_map(|line| line.strip_prefix("Installed-Size: ")?.parse().ok()).unwrap_or(0);
    let program = fs::metadata(folder.join("usr/bin/limulus"))?.len() / 1_024;
    ensure((program..program + 2_000).contains(&size), || format!("Installed-Size is {size}, the program {program}"))
}

/// Unpacks the package as `dpkg-deb` does, and its control files into `DEBIAN`. Returns the text of `control`.
fn unpack(place: &Place, package: &Path, folder: &Path) -> io::Result<String> {
    if is_there("dpkg-deb") {
        ran(place.command("dpkg-deb").arg("-I").arg(package))?.expect(&["Package: limulus"])?;
        let listed = ran(place.command("dpkg-deb").arg("-c").arg(package))?;
        listed.expect(&["-rwxr-xr-x root/root", "./usr/bin/limulus", "./usr/share/doc/limulus/copyright"])?;
        ran(place.command("dpkg-deb").arg("-R").arg(package).arg(folder))?.expect(&[])?;
    } else {
        fs::create_dir_all(folder.join("DEBIAN"))?;
        for (part, into) in [("control.tar.gz", folder.join("DEBIAN")), ("data.tar.gz", folder.to_owned())] {
            let script = "ar p \"$0\" \"$1\" | tar -xz -C \"$2\"";
            ran(place.command("sh").args(["-c", script]).arg(package).arg(part).arg(into))?.expect(&[])?;
        }
    }
    fs::read_to_string(folder.join("DEBIAN/control"))
}

fn installed(bench: &Bench) -> io::Result<()> {
    if !is_there("dpkg") {
        return Ok(());
    }
    let place = Place::new()?;
    let root = place.home().join("root");
    for folder in ["var/lib/dpkg/info", "var/lib/dpkg/updates", "var/lib/dpkg/triggers"] {
        fs::create_dir_all(root.join(folder))?;
    }
    for file in ["status", "available", "diversions"] {
        fs::write(root.join("var/lib/dpkg").join(file), "")?;
    }
    let database = place.listing()?;
    // The folder has no libc6, and whoever runs this need not be root.
    let options = ["--force-not-root", "--force-depends", "--force-bad-path", "--log=/dev/null"];
    let dpkg = |action: &str, what: &Path| -> io::Result<Ran> {
        ran(place.command("dpkg").arg(format!("--root={}", root.display())).args(options).arg(action).arg(what))
    };
    dpkg("-i", &file(bench)?)?.expect(&["Setting up limulus"])?;
    let says = ran(place.command(root.join("usr/bin/limulus")).arg("--version"))?;
    says.expect(&[&format!("limulus {}", bench.version)])?;
    dpkg("--verify", Path::new("limulus"))?.expect(&[])?;
    dpkg("-P", Path::new("limulus"))?.expect(&["Removing limulus"])?;
    let is_own = |path: &&PathBuf| !path.starts_with(root.join("var")) && !database.contains_key(*path);
    let left = place.listing()?;
    let left: Vec<_> = left.keys().filter(is_own).collect();
    ensure(left.is_empty(), || format!("left: {left:?}"))
}
