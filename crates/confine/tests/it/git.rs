//! Git and other tools work inside.

use std::path::Path;

use crate::support::{ONLY_A, World, each};

/// Makes a repository of the workspace, from outside.
pub(crate) fn repository(world: &World) {
    git(world, "init -q -b main .");
}

/// Runs git outside, as the user.
pub(crate) fn git(world: &World, words: &str) {
    world.control(0, &format!("git {words}"));
}

/// What is below a folder, sorted.
pub(crate) fn entries(folder: &Path) -> Vec<String> {
    fn add(folder: &Path, root: &Path, found: &mut Vec<String>) {
        for entry in std::fs::read_dir(folder).unwrap().flatten() {
            let path = entry.path();
            found.push(path.strip_prefix(root).unwrap().display().to_string());
            if path.is_dir() && !path.is_symlink() {
                add(&path, root, found);
            }
        }
    }
    let mut found = vec![];
    add(folder, folder, &mut found);
    found.sort();
    found
}

#[test]
fn git_works_inside() {
    each(&ONLY_A, |world| {
        repository(world);
        world.write("work/file", "one\n");
        let script = "set -e; git add -A; git commit -q -m first; git status --porcelain; git branch topic; git checkout -q topic; \
            echo two >>file; git commit -q -a -m second; git checkout -q main; git merge -q topic; git tag v1; \
            git gc -q; git stash list; git reset -q --hard HEAD~1; git clean -fdq; git log --oneline | wc -l; git ls-files";
        assert_eq!(world.succeed(script), "1\nfile", "no placeholder was added");
        // The user's own git agrees.
        git(world, "fsck --strict");
        git(world, "status --porcelain");
        git(world, "config user.name me");
    });
}

/// While a command runs, the placeholders are there for git outside too.
#[test]
fn git_works_outside_while_a_command_runs() {
    each(&ONLY_A, |world| {
        repository(world);
        world.write("work/file", "one\n");
        let mut command = world.command(&world.profile(), &["sh", "-c", "echo ready; read line"]);
        let mut child =
            command.stdin(std::process::Stdio::piped()).stdout(std::process::Stdio::piped()).spawn().unwrap();
        let mut line = String::new();
        let output = child.stdout.take().unwrap();
        std::io::BufRead::read_line(&mut std::io::BufReader::new(output), &mut line).unwrap();
        assert!(world.work(".git/commondir").exists());
        git(
            world,
            "add -A && git commit -q -m first && git checkout -q -b topic && git config user.name me && git gc -q",
        );
        let status = world.bare(&["git", "status", "--porcelain"]).output().unwrap();
        assert_eq!(String::from_utf8_lossy(&status.stdout), "");
        drop(child.stdin.take());
        child.wait().unwrap();
        assert!(!world.work(".git/commondir").exists());
        git(world, "fsck");
    });
}

#[test]
fn a_clone_and_a_new_repository_below_the_workspace() {
    each(&ONLY_A, |world| {
        repository(world);
        git(world, "commit -q --allow-empty -m first");
        world.succeed("git clone -q . copy && git init -q new && cd new && git commit -q --allow-empty -m one");
    });
}
