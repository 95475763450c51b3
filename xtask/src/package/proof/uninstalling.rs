//! Removing leaves what the user has made, unless that is asked for too.

use std::fs;
use std::io;

use super::place::{Place, ran};
use super::{Bench, Check, ensure};

/// What the real program is needed for.
pub(super) const USED: &[Check] = &[("conversations and settings stay, and go with --purge", purge)];

pub(super) const CHECKS: &[Check] = &[
    ("--purge removes no folder that is not of Limulus", purge_of_another_folder),
    ("what a later version lacks is removed with the update", shrinking_update),
];

fn purge(bench: &Bench) -> io::Result<()> {
    let place = Place::new()?;
    let before = place.listing()?;
    place.install(bench, &[])?.expect(&[])?;
    let program = place.home().join(".local/bin/limulus");
    ran(place.command(&program).args(["agent", "-m", "What is in this folder?"]))?.expect(&["This folder has"])?;
    ran(place.command(&program).args(["config", "set", "display.verbose", "true"]))?.expect(&[])?;
    let journal = place.home().join(".local/share/limulus/journal.db");
    let size = fs::metadata(&journal)?.len();
    place.install(bench, &["--uninstall"])?.expect(&["limulus is removed", "left alone", "--purge"])?;
    ensure(!program.exists(), || "the program is still there".into())?;
    ensure(fs::metadata(&journal)?.len() == size, || "the journal was changed".into())?;
    place.install(bench, &["--uninstall", "--purge"])?.expect(&["removed: "])?;
    place.ensure_unchanged(&before)
}

fn purge_of_another_folder(bench: &Bench) -> io::Result<()> {
    let place = Place::new()?;
    place.install(bench, &[])?.expect(&[])?;
    let mine = place.home().join("photos");
    fs::create_dir(&mine)?;
    fs::write(mine.join("one.jpg"), "mine")?;
    for home in [mine.clone(), place.home()] {
        let mut installer = place.installer(bench, "sh", "");
        ran(installer.args(["--uninstall", "--purge"]).env("LIMULUS_HOME", home))?;
        ensure(mine.join("one.jpg").exists(), || "a folder of the user was removed".into())?;
    }
    Ok(())
}

fn shrinking_update(bench: &Bench) -> io::Result<()> {
    let place = Place::new()?;
    place.install(bench, &[])?.expect(&[])?;
    let old = place.home().join(".local/share/man/man1/limulus-old.1");
    fs::write(&old, "a page of an older version")?;
    let manifest = place.home().join(".local/share/limulus-install/manifest");
    let lines = fs::read_to_string(&manifest)?;
    fs::write(&manifest, format!("{lines}{}\n", old.display()))?;
    place.install(bench, &[])?.expect(&[])?;
    ensure(!old.exists(), || "the old page is still there".into())?;
    ensure(fs::read_to_string(&manifest)? == lines, || "the manifest differs".into())
}
