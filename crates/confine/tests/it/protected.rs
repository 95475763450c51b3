//! Protected names in the workspace: existing or not, by whatever way.

use std::fs;
use std::io::{BufRead as _, BufReader};
use std::os::unix::fs::symlink;
use std::process::Stdio;

use confine::{ConfineReport, NameKind, Profile, ProtectedName, Tier, WorkspaceAccess};

use crate::git::{entries, git, repository};
use crate::support::{BOTH, ONLY_A, each};

/// Tries an escape in a workspace with a repository; afterwards the host has what it had before.
fn refused_in_repository(number: u32, script: &str) {
    each(&ONLY_A, |world| {
        repository(world);
        let before = entries(&world.work(".git"));
        let config = world.read("work/.git/config");
        world.refuse(number, script);
        assert_eq!(entries(&world.work(".git")), before, "escape {number} {}", world.name());
        assert_eq!(world.read("work/.git/config"), config, "escape {number}");
        world.control(number, script);
    });
}

#[test]
fn escape_6_a_protected_folder_is_renamed() {
    refused_in_repository(6, "mv .git/hooks .git/old");
    refused_in_repository(6, "rm -rf .git/hooks && mkdir .git/hooks && echo evil >.git/hooks/pre-commit");
}

#[test]
fn escape_7_the_parent_of_a_protected_folder_is_renamed() {
    refused_in_repository(7, "mv .git .old && mkdir -p .git/hooks && echo evil >.git/hooks/pre-commit");
}

#[test]
fn escape_8_hooks() {
    refused_in_repository(8, "echo evil >.git/hooks/pre-commit");
    each(&ONLY_A, |world| {
        repository(world);
        fs::remove_dir_all(world.work(".git/hooks")).unwrap();
        let script = "mkdir -p .git/hooks && echo evil >.git/hooks/pre-commit";
        world.refuse(8, script);
        assert!(!world.work(".git/hooks").exists(), "the placeholder is removed");
        world.control(8, script);
    });
}

/// A workspace without a repository cannot get one from inside: the user's git would trust it.
#[test]
fn escape_8_a_repository_is_planted() {
    each(&ONLY_A, |world| {
        world.refuse(8, "git init -q .");
        assert!(!world.work(".git").exists());
        world.control(8, "git init -q .");
    });
}

#[test]
fn escape_9_the_configuration_of_git() {
    refused_in_repository(9, "git config core.fsmonitor evil");
    refused_in_repository(9, "echo '[core]' >>.git/config");
    refused_in_repository(9, "rm -f .git/config && echo '[core]' >.git/config");
}

#[test]
fn escape_10_a_pointer_to_another_repository() {
    refused_in_repository(10, "mkdir -p fake && mv .git fake/ && echo 'gitdir: fake' >.git");
}

#[test]
fn escape_12_the_repository_of_a_worktree() {
    each(&ONLY_A, |world| {
        repository(world);
        git(world, "commit -q --allow-empty -m first && git worktree add -q tree");
        world.refuse(12, "echo 'gitdir: elsewhere' >tree/.git");
        world.refuse(12, "echo x >.git/worktrees/tree/commondir");
        world.succeed("cd tree && echo x >file && git add file && git commit -q -m second");
    });
}

#[test]
fn a_nested_repository_and_a_submodule_are_protected() {
    each(&ONLY_A, |world| {
        repository(world);
        git(world, "init -q nested/deep && git init -q .git/modules/group/sub");
        git(world, "init -q --bare other && mv other/* .git/modules/group/sub/");
        world.refuse(9, "echo x >>nested/deep/.git/config");
        world.refuse(8, "echo x >nested/deep/.git/hooks/post-commit");
        world.refuse(7, "mv nested/deep nested/other");
        world.refuse(9, "echo x >>.git/modules/group/sub/config");
    });
}

/// Attributes name a filter, and modules a command, which only a configuration can give them.
#[test]
fn escape_13_attributes_and_modules_of_git() {
    each(&ONLY_A, |world| {
        repository(world);
        world.write("work/file", "one\n");
        world.succeed("printf '* filter=evil diff=evil merge=evil\\n' >.gitattributes");
        world.refuse(13, "git config filter.evil.clean 'touch planted; cat'");
        world.refuse(13, "git config --worktree filter.evil.clean 'touch planted; cat'");
        world.succeed(
            "mkdir module; printf '[submodule \"module\"]\\n path = module\\n url = ./.\\n update = !touch planted\\n' >.gitmodules",
        );
        // The user's own git, afterwards.
        git(world, "add file && git diff --cached >/dev/null && git commit -q -m first");
        let update = world.bare(&["git", "submodule", "update", "--init"]).output().unwrap();
        assert!(!world.work("planted").exists(), "{}{update:?}", world.name());
        // With the configuration it would run.
        git(
            world,
            "config filter.evil.clean 'touch planted; cat' && touch -d 2001-01-01 file && git add --renormalize file",
        );
        assert!(world.work("planted").exists(), "{}", world.name());
    });
}

#[test]
fn escape_14_to_16_settings_of_editors_and_agents() {
    let attempts = [
        "mkdir -p .vscode && echo evil >.vscode/tasks.json",
        "mkdir -p .claude && echo evil >.claude/settings.json",
        "echo evil >.envrc",
        "mkdir .idea && echo evil >.idea/workspace.xml",
        "echo evil >.mcp.json",
        "mkdir .limulus && echo evil >.limulus/config.toml",
    ];
    for script in attempts {
        each(&ONLY_A, |world| {
            world.refuse(15, script);
            assert_eq!(entries(&world.at("work")), Vec::<String>::new(), "{}", world.name());
            world.control(15, script);
            // Now it exists, and stays as it is.
            let before = entries(&world.at("work"));
            world.refuse(14, script);
            world.refuse(14, "rm -rf .vscode .claude .envrc .idea .mcp.json .limulus");
            assert_eq!(entries(&world.at("work")), before);
        });
    }
}

/// A link that a command planted is not followed when the next sandbox is set up.
#[test]
fn escape_19_a_planted_link() {
    each(&ONLY_A, |world| {
        symlink(world.at("outside"), world.work(".vscode")).unwrap();
        symlink(world.at("outside/new"), world.work(".envrc")).unwrap();
        let (output, report) =
            world.run_reported(&world.profile(), &["sh", "-c", "rm .vscode || rm .envrc || mv .envrc x"]);
        assert!(!output.status.success(), "{}{output:?}", world.name());
        assert_eq!(entries(&world.at("outside")), ["file"]);
        assert_eq!(fs::read_link(world.work(".envrc")).unwrap(), world.at("outside/new"));
        let names: Vec<_> = report.unprotected.iter().map(|name| name.path.clone()).collect();
        assert_eq!(names, [world.work(".envrc"), world.work(".vscode")], "what they lead to is said");
    });
}

#[test]
fn escape_104_files_that_redirect_git() {
    refused_in_repository(104, "echo ../fake >.git/commondir");
    refused_in_repository(104, "echo '[core]' >.git/config.worktree");
    refused_in_repository(104, "echo x >.git/info/attributes");
}

/// If somebody outside removes a placeholder, the mask goes with it. It cannot be held, so it is said.
#[test]
fn escape_103_a_placeholder_is_removed_while_the_command_runs() {
    each(&ONLY_A, |world| {
        let profile = world.profile();
        let mut command = world.command(&profile, &["sh", "-c", "echo ready; read line"]);
        let mut child = command.stdin(Stdio::piped()).stdout(Stdio::piped()).spawn().unwrap();
        let mut line = String::new();
        BufReader::new(child.stdout.take().unwrap()).read_line(&mut line).unwrap();
        fs::remove_file(world.work(".idea")).unwrap();
        drop(child.stdin.take());
        child.wait().unwrap();
        let report = ConfineReport::read(&profile.report).unwrap();
        assert_eq!(report.unprotected.iter().map(|name| name.path.clone()).collect::<Vec<_>>(), [world.work(".idea")]);
    });
}

/// The placeholders of two commands are the same ones, and only the last one removes them.
#[test]
fn two_commands_in_one_workspace_share_their_placeholders() {
    each(&ONLY_A, |world| {
        let start = || {
            let profile = world.profile();
            let mut command =
                world.command(&profile, &["sh", "-c", "echo ready; read line; mkdir .idea/x || mkdir .git"]);
            let mut child = command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::null()).spawn().unwrap();
            let mut line = String::new();
            BufReader::new(child.stdout.take().unwrap()).read_line(&mut line).unwrap();
            assert_eq!(line, "ready\n");
            (child, profile)
        };
        let (mut first, first_profile) = start();
        let (mut second, second_profile) = start();
        for (child, profile, left) in [(&mut first, &first_profile, true), (&mut second, &second_profile, false)] {
            drop(child.stdin.take());
            assert!(!child.wait().unwrap().success());
            assert_eq!(ConfineReport::read(&profile.report).unwrap().unprotected, []);
            assert_eq!(world.work(".idea").exists(), left, "{}", world.name());
        }
        assert_eq!(entries(&world.at("work")), Vec::<String>::new());
    });
}

/// A killed sandbox leaves its placeholders; the next one removes them. What somebody has filled stays.
#[test]
fn placeholders_of_a_killed_sandbox_are_removed_by_the_next() {
    each(&ONLY_A, |world| {
        let profile = world.profile();
        let mut command = world.command(&profile, &["sh", "-c", "echo ready; read line"]);
        let mut child = command.stdin(Stdio::piped()).stdout(Stdio::piped()).spawn().unwrap();
        let mut line = String::new();
        BufReader::new(child.stdout.take().unwrap()).read_line(&mut line).unwrap();
        child.kill().unwrap();
        child.wait().unwrap();
        assert!(world.work(".idea").exists() && world.work(".git").is_dir());
        fs::write(world.work(".git/mine"), "").unwrap();
        world.succeed("true");
        assert_eq!(entries(&world.at("work")), [".git", ".git/mine"]);
    });
}

/// An empty folder of the user is not a placeholder.
#[test]
fn what_the_user_has_made_is_not_removed() {
    each(&ONLY_A, |world| {
        world.create_folder("work/.idea");
        world.write("work/.envrc", "");
        world.succeed("true");
        assert_eq!(entries(&world.at("work")), [".envrc", ".idea"]);
    });
}

/// A folder between two writable ones cannot be renamed, or another workspace could be put into its place.
#[test]
fn the_parents_of_a_workspace_in_a_writable_folder_stay() {
    each(&ONLY_A, |world| {
        world.create_folder("outside/a");
        world.create_folder("outside/a/work");
        let workspace = world.at("outside/a/work");
        let profile =
            Profile { folder: workspace.clone(), workspace, writable: vec![world.at("outside")], ..world.profile() };
        let script = r#"cd "$OUT" && echo x >new && mv a b"#;
        let output = world.command(&profile, &["sh", "-c", script]).output().unwrap();
        assert!(!output.status.success(), "{}{output:?}", world.name());
        assert_eq!(entries(&world.at("outside")), ["a", "a/work", "file", "new"]);
    });
}

/// Tier B cannot protect names in a writable folder, and says so.
#[test]
fn what_tier_b_does_not_protect_is_said() {
    each(&BOTH, |world| {
        let read_only = vec![ProtectedName { path: ".git/hooks".into(), kind: NameKind::Folder }];
        let (_, report) = world.run_reported(&Profile { read_only, ..world.profile() }, &["true"]);
        let names: Vec<_> = report.unprotected.iter().map(|name| name.path.clone()).collect();
        let expected = if world.tier == Tier::A { vec![] } else { vec![world.work(".git/hooks")] };
        assert_eq!(names, expected);
    });
}

#[test]
fn a_name_that_leaves_the_workspace_is_an_error() {
    each(&ONLY_A, |world| {
        for path in ["../outside", "/etc"] {
            let read_only = vec![ProtectedName { path: path.into(), kind: NameKind::Folder }];
            let output = world.command(&Profile { read_only, ..world.profile() }, &["true"]).output().unwrap();
            assert_eq!(output.status.code(), Some(125), "{path}: {}{output:?}", world.name());
        }
    });
}

/// What other programs run in a folder below is read-only where it exists, and cannot be moved away.
#[test]
fn r67_names_below_that_others_run_stay_as_they_are() {
    each(&ONLY_A, |world| {
        for folder in
            ["a", "a/b", "a/.husky", "a/b/.vscode", "node_modules", "node_modules/x", "node_modules/x/.vscode"]
        {
            world.create_folder(&format!("work/{folder}"));
        }
        let files = ["a/.husky/pre-commit", "a/b/.vscode/tasks.json", "a/.envrc", "node_modules/x/.vscode/x", "a/file"];
        for file in files {
            world.write(&format!("work/{file}"), "own");
        }
        let before = entries(&world.at("work"));
        for script in [
            "echo evil >a/.husky/pre-commit",
            "echo evil >a/.husky/post-merge",
            "echo evil >a/b/.vscode/tasks.json",
            "echo evil >a/.envrc",
            "rm -f a/.envrc",
            "echo evil >e && mv e a/.envrc; grep own a/.envrc && rm e && false",
            "mv a/b a/c",
            "mv a c && mkdir a && echo evil >a/.envrc",
        ] {
            world.refuse(14, script);
            assert_eq!(entries(&world.at("work")), before, "{script}");
            assert!(files.iter().all(|file| world.read(&format!("work/{file}")) == "own"), "{script}");
        }
        // The work of an agent, and what package managers replace.
        world.succeed("echo x >a/file && mkdir a/b/d && echo y >a/b/d/e && rm -r node_modules");
    });
}

/// What a command creates with such a name is reported, and what was there or has gone is not.
#[test]
fn r67_names_that_a_command_creates_below_are_reported() {
    each(&ONLY_A, |world| {
        for folder in ["sub", "sub/.github", "sub/.github/workflows", "old"] {
            world.create_folder(&format!("work/{folder}"));
        }
        world.write("work/sub/.npmrc", "own");
        let created = |script: &str| {
            let (output, report) = world.run_reported(&world.profile(), &["sh", "-c", script]);
            assert!(output.status.success(), "{}{output:?}", world.name());
            report.created.iter().map(|path| path.display().to_string()).collect::<Vec<_>>()
        };
        assert_eq!(created("echo x >sub/.npmrc; echo y >sub/.github/workflows/ci.yml; echo z >old/file"), [""; 0]);
        let script = "echo x >old/.envrc; mkdir -p new/deep/.husky; echo x >new/deep/.husky/pre-commit; git init -q new/repository";
        assert_eq!(created(script), ["new/deep/.husky", "new/repository/.git", "old/.envrc"]);
        // They are there now.
        assert_eq!(created("true"), [""; 0]);
        let read_only = Profile { access: WorkspaceAccess::ReadOnly, ..world.profile() };
        assert_eq!(world.run_reported(&read_only, &["true"]).1.created, Vec::<std::path::PathBuf>::new());
    });
}
