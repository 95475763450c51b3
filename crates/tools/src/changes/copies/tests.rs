//! Copies of real folders, with real git.

use std::os::unix::fs::{MetadataExt as _, symlink};
use std::process::Command;

use engine::{FileKind, NotKept, Sandbox};

use super::super::store::StoreLimits;
use super::make::make;
use super::*;
use crate::changes::FileStore;
use crate::guard::Protected;

struct World {
    folder: tempfile::TempDir,
    copy: WorkspaceCopy,
    sandbox: Sandbox,
}

impl World {
    /// A workspace with a file, a folder, a link, something ignored and something hidden.
    fn new(root: SandboxRoot) -> Self {
        let folder = tempfile::tempdir().unwrap();
        let at = fs::canonicalize(folder.path()).unwrap();
        for below in ["ws/src", "ws/target", "ws/private"] {
            fs::create_dir_all(at.join(below)).unwrap();
        }
        let files = [
            ("ws/.gitignore", "target\n*.log\n"),
            ("ws/a.txt", "one\n"),
            ("ws/src/b.txt", "two\n"),
            ("ws/target/built", "x"),
            ("ws/note.log", "log"),
            ("ws/private/key", "secret"),
        ];
        for (name, text) in files {
            fs::write(at.join(name), text).unwrap();
        }
        symlink("src/b.txt", at.join("ws/link")).unwrap();
        let text = |name: &str| at.join(name).display().to_string();
        let copy = WorkspaceCopy { root, of: text("ws"), folder: text("copies/0123/ws") };
        Self { sandbox: Sandbox { hidden: vec![text("ws/private")], ..Sandbox::default() }, folder, copy }
    }

    fn of(&self, name: &str) -> PathBuf {
        Path::new(&self.copy.of).join(name)
    }

    fn in_copy(&self, name: &str) -> PathBuf {
        Path::new(&self.copy.folder).join(name)
    }

    fn make(&self) -> Result<(), String> {
        make(&self.sandbox, &self.copy, &Protected::default(), &Cancel::default())
    }

    fn changes(&self) -> Vec<CopyChange> {
        let store = FileStore::new(self.folder.path().join("files"), StoreLimits::NONE);
        copy_changes(&self.copy, &Protected::default(), Some(&store)).unwrap()
    }

    fn git(&self, arguments: &[&str]) -> String {
        let mut git = Command::new("git");
        git.arg("-C").arg(&self.copy.of).args(["-c", "user.name=a", "-c", "user.email=a@example.org"]).args(arguments);
        let output = git.output().unwrap();
        assert!(output.status.success(), "{arguments:?} {output:?}");
        String::from_utf8(output.stdout).unwrap()
    }
}

fn paths(changes: &[CopyChange]) -> Vec<&str> {
    changes.iter().map(|change| change.path.as_str()).collect()
}

#[test]
fn r41_a_copy_has_all_but_what_is_hidden() {
    let world = World::new(SandboxRoot::Copy);
    assert!(!has_copy(&world.copy));
    world.make().unwrap();
    assert!(has_copy(&world.copy));
    for name in ["a.txt", "src/b.txt", "target/built", "note.log", ".gitignore"] {
        assert_eq!(fs::read(world.in_copy(name)).unwrap(), fs::read(world.of(name)).unwrap(), "{name}");
        let (one, other) = (fs::metadata(world.in_copy(name)).unwrap(), fs::metadata(world.of(name)).unwrap());
        assert_eq!((one.mode(), one.mtime_nsec()), (other.mode(), other.mtime_nsec()), "{name}");
    }
    assert_eq!(fs::read_link(world.in_copy("link")).unwrap(), Path::new("src/b.txt"));
    assert!(!world.in_copy("private").exists(), "commands could not read it in the workspace");
    let all = Path::new(&world.copy.folder).parent().unwrap().parent().unwrap();
    assert_eq!(fs::metadata(all).unwrap().mode() & 0o777, 0o700);
    assert_eq!(world.changes(), []);
}

/// R41: what is hidden under another name is not copied either, as tools for files do not open it.
#[test]
fn r41_what_is_hidden_behind_a_link_is_not_copied() {
    for root in [SandboxRoot::Copy, SandboxRoot::Worktree] {
        let mut world = World::new(root);
        world.git(&["init", "-q"]);
        world.git(&["add", "a.txt"]);
        world.git(&["commit", "-qm", "first"]);
        let alias = world.folder.path().join("alias");
        symlink(world.of("private"), &alias).unwrap();
        world.sandbox.hidden = vec![alias.display().to_string()];
        fs::hard_link(world.of("private/key"), world.of("innocent")).unwrap();
        world.sandbox.hidden.push(world.of("private/key").display().to_string());
        world.make().unwrap();
        assert!(!world.in_copy("private/key").exists() && !world.in_copy("innocent").exists(), "{root:?}");
        assert!(world.in_copy("src/b.txt").exists(), "{root:?}");
    }
}

/// R41: what a person may still need is not removed because a part of it is missing.
#[test]
fn r41_a_damaged_copy_is_kept_and_named() {
    let world = World::new(SandboxRoot::Copy);
    world.make().unwrap();
    fs::write(world.in_copy("a.txt"), "work of a run").unwrap();
    fs::remove_file(Path::new(&world.copy.folder).parent().unwrap().join(MADE)).unwrap();
    let why = world.make().unwrap_err();
    assert!(why.contains("0123") && why.contains("--discard"), "{why}");
    assert_eq!(fs::read_to_string(world.in_copy("a.txt")).unwrap(), "work of a run");
}

#[test]
fn r41_a_copy_that_is_there_is_kept_and_one_that_is_not_whole_is_made_again() {
    let world = World::new(SandboxRoot::Copy);
    world.make().unwrap();
    fs::write(world.in_copy("a.txt"), "work of a run").unwrap();
    world.make().unwrap();
    assert_eq!(fs::read_to_string(world.in_copy("a.txt")).unwrap(), "work of a run");
    // As a kill before the rename leaves it.
    let place = Path::new(&world.copy.folder).parent().unwrap();
    let making = place.with_file_name("0123.making");
    fs::rename(place, &making).unwrap();
    fs::remove_file(making.join(MADE)).unwrap();
    world.make().unwrap();
    assert!(!making.exists());
    assert_eq!(fs::read_to_string(world.in_copy("a.txt")).unwrap(), "one\n");
}

#[test]
fn r41_what_changed_in_a_copy_is_found_and_what_changed_in_the_workspace_is_no_longer_expected() {
    let world = World::new(SandboxRoot::Copy);
    world.make().unwrap();
    fs::write(world.in_copy("a.txt"), "changed\n").unwrap();
    fs::write(world.in_copy("src/b.txt"), "mine\n").unwrap();
    fs::write(world.of("src/b.txt"), "theirs\n").unwrap();
    fs::create_dir(world.in_copy("new")).unwrap();
    fs::write(world.in_copy("new/c"), "c").unwrap();
    fs::write(world.in_copy("target/built"), "other").unwrap();
    fs::remove_file(world.in_copy("link")).unwrap();
    // Both did the same.
    fs::write(world.in_copy("same"), "s").unwrap();
    fs::write(world.of("same"), "s").unwrap();
    let changes = world.changes();
    assert_eq!(paths(&changes), ["a.txt", "link", "new", "new/c", "same", "src/b.txt"]);
    let expected = |change: &CopyChange| {
        let now = crate::changes::versions(
            Path::new(&world.copy.of),
            &Protected::default(),
            std::slice::from_ref(&change.path),
        );
        now[0].clone().unwrap() == change.before
    };
    let conflicts: Vec<_> =
        changes.iter().filter(|change| !expected(change)).map(|change| change.path.as_str()).collect();
    assert_eq!(conflicts, ["same", "src/b.txt"], "the first of them is what is to be there already");
    assert_eq!(changes[1].after, None);
    assert_eq!(changes[2].after.unwrap().content.kind, FileKind::Folder);
    let store = FileStore::new(world.folder.path().join("files"), StoreLimits::NONE);
    assert!(store.has(&changes[0].after.unwrap().content.hash.unwrap()));
}

#[test]
fn r41_what_cannot_be_taken_over_says_why() {
    let world = World::new(SandboxRoot::Copy);
    world.make().unwrap();
    let made = Command::new("mkfifo").arg(world.in_copy("pipe")).status().unwrap();
    assert!(made.success());
    let changes = world.changes();
    assert_eq!((paths(&changes), changes[0].not_kept), (vec!["pipe"], Some(NotKept::Special)));
}

/// A file of this size that has no blocks but for the text at its end.
fn make_sparse(path: &Path, bytes: u64, end: &str) {
    let file = File::create_new(path).unwrap();
    file.set_len(bytes).unwrap();
    std::os::unix::fs::FileExt::write_all_at(&file, end.as_bytes(), bytes - end.len() as u64).unwrap();
}

/// R41: a file of 100 GiB without blocks would else fill the disk.
#[test]
fn r41_holes_of_a_file_are_not_filled() {
    let world = World::new(SandboxRoot::Copy);
    let size = 100 << 30;
    make_sparse(&world.of("target/disk"), size, "end");
    make_sparse(&world.of("image"), size, "end");
    File::create_new(world.of("hole")).unwrap().set_len(size).unwrap();
    world.make().unwrap();
    for name in ["target/disk", "image", "hole"] {
        let found = fs::metadata(world.in_copy(name)).unwrap();
        assert_eq!(found.len(), size, "{name}");
        assert!(found.blocks() * 512 < 1 << 20, "{name} has {} blocks", found.blocks());
    }
    let mut end = [0; 3];
    let copied = File::open(world.in_copy("image")).unwrap();
    std::os::unix::fs::FileExt::read_exact_at(&copied, &mut end, size - 3).unwrap();
    assert_eq!(&end, b"end");
    assert_eq!(world.changes(), []);
}

/// R41, R45: what a run leaves in a copy is not read without a bound: what is too large is named, and the rest is taken over.
#[test]
fn r41_r45_what_is_too_large_to_be_taken_over_is_named() {
    let world = World::new(SandboxRoot::Copy);
    make_sparse(&world.of("shrinks"), 5 << 30, "end");
    world.make().unwrap();
    make_sparse(&world.in_copy("large"), 5 << 30, "end");
    fs::write(world.in_copy("small"), "x").unwrap();
    fs::write(world.in_copy("shrinks"), "x").unwrap();
    let changes = world.changes();
    let why: Vec<_> = changes.iter().map(|change| (change.path.as_str(), change.not_kept)).collect();
    let too_large = Some(NotKept::TooLarge);
    assert_eq!(why, [("large", too_large), ("shrinks", too_large), ("small", None)], "an undo keeps both sides");
    assert_eq!(copy_changes(&world.copy, &Protected::default(), None).unwrap().len(), 3);
}

#[test]
fn r41_a_folder_that_was_swapped_for_a_link_is_not_copied_through() {
    let world = World::new(SandboxRoot::Copy);
    fs::create_dir(world.folder.path().join("away")).unwrap();
    fs::write(world.folder.path().join("away/key"), "secret").unwrap();
    symlink(world.folder.path().join("away"), world.of("out")).unwrap();
    world.make().unwrap();
    assert!(world.in_copy("out").symlink_metadata().unwrap().is_symlink());
}

#[test]
fn r41_a_copy_in_its_own_workspace_is_refused() {
    let mut world = World::new(SandboxRoot::Copy);
    world.copy.folder = world.of("state/copies/1/ws").display().to_string();
    let why = world.make().unwrap_err();
    assert!(why.contains("XDG_STATE_HOME"), "{why}");
}

#[test]
fn r41_a_worktree_has_what_git_does_not_ignore_as_it_is_and_runs_nothing_of_the_repository() {
    let world = World::new(SandboxRoot::Worktree);
    let why = world.make().unwrap_err();
    assert!(why.contains("no git repository"), "{why}");
    world.git(&["init", "-q"]);
    world.git(&["add", "a.txt", ".gitignore"]);
    world.git(&["commit", "-qm", "first"]);
    let hook = world.of(".git/hooks/post-checkout");
    fs::write(&hook, "#!/bin/sh\ntouch ../hooked hooked\n").unwrap();
    fs::set_permissions(&hook, fs::Permissions::from_mode(0o755)).unwrap();
    world.git(&["config", "filter.bad.smudge", "touch /tmp/limulus-never"]);
    fs::write(world.of("a.txt"), "not committed\n").unwrap();
    world.make().unwrap();
    assert_eq!(fs::read_to_string(world.in_copy("a.txt")).unwrap(), "not committed\n");
    assert_eq!(fs::read_to_string(world.in_copy("src/b.txt")).unwrap(), "two\n", "it is not ignored");
    assert!(!world.in_copy("target").exists() && !world.in_copy("note.log").exists());
    assert!(!world.of("hooked").exists() && !world.in_copy("hooked").exists());
    let status =
        Command::new("git").arg("-C").arg(&world.copy.folder).args(["status", "--porcelain"]).output().unwrap();
    let status = String::from_utf8(status.stdout).unwrap();
    assert!(status.contains(" M a.txt") && status.contains("?? src/"), "{status}");
    assert_eq!(world.changes(), []);
    fs::write(world.in_copy("a.txt"), "by the run\n").unwrap();
    assert_eq!(paths(&world.changes()), ["a.txt"]);
    assert!(world.git(&["worktree", "list"]).contains(&world.copy.folder));
    remove_copy(&world.copy).unwrap();
    assert!(!world.git(&["worktree", "list"]).contains(&world.copy.folder));
    assert!(!Path::new(&world.copy.folder).parent().unwrap().exists());
    assert_eq!(fs::read_to_string(world.of("a.txt")).unwrap(), "not committed\n");
}

#[test]
fn r41_a_copy_with_folders_that_nobody_may_change_is_removed() {
    let world = World::new(SandboxRoot::Copy);
    fs::create_dir_all(world.of("locked/in")).unwrap();
    fs::write(world.of("locked/in/file"), "x").unwrap();
    fs::set_permissions(world.of("locked/in"), fs::Permissions::from_mode(0o555)).unwrap();
    world.make().unwrap();
    assert_eq!(fs::metadata(world.in_copy("locked/in")).unwrap().mode() & 0o777, 0o555);
    remove_copy(&world.copy).unwrap();
    remove_copy(&world.copy).unwrap();
    assert!(!Path::new(&world.copy.folder).exists());
}
