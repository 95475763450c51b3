//! Files that other programs run or load: written only after a question, at any depth and by any name.

use std::fs;
use std::os::unix::fs::symlink;

use engine::{CallOutcome, Policy};
use serde_json::{Value, json};

use crate::support::{World, output, request};

/// Paths of such files; most do not exist.
const EXECUTED: &[&str] = &[
    ".git/hooks/pre-commit",
    ".git/config",
    ".git/info/attributes",
    ".git/modules/m/config",
    ".git",
    "sub/deep/.git/config",
    ".GIT/Config",
    ".git./config",
    "GIT~1/config",
    ".g\u{200c}it/config",
    "vendor/x/.Git/hooks/post-checkout",
    ".envrc",
    "a/.envrc",
    ".ENVRC",
    ".vscode/tasks.json",
    ".vscode/settings.json",
    "a/b/.vscode/launch.json",
    "x.code-workspace",
    ".idea/workspace.xml",
    ".husky/pre-push",
    ".githooks/pre-commit",
    ".devcontainer/devcontainer.json",
    ".bashrc",
    ".zshenv",
    ".profile",
    "home/.bash_profile",
    ".ssh/authorized_keys",
    ".gitconfig",
    ".config/git/config",
    ".config/systemd/user/x.service",
    ".local/bin/ls",
    ".github/workflows/ci.yml",
    ".gitlab-ci.yml",
    "Jenkinsfile",
    ".circleci/config.yml",
    ".mcp.json",
    "a/.mcp.json",
    ".claude/settings.json",
    ".cargo/config.toml",
    "a/.cargo/config",
    ".npmrc",
    ".yarnrc.yml",
    "sitecustomize.py",
    ".exrc",
    ".nvim.lua",
    "bare/HEAD",
    "repo/hooks/update",
    "repo/config",
    "repo/commondir",
    "through/pre-commit",
    "direct",
    "not-yet",
];

/// Paths that an agent writes every day.
const ORDINARY: &[&str] = &[
    "src/main.rs",
    "Makefile",
    "package.json",
    "CLAUDE.md",
    "AGENTS.md",
    ".gitignore",
    ".gitattributes",
    ".editorconfig",
    ".github/ISSUE_TEMPLATE.md",
    "hooks/useState.ts",
    "config",
    "src/config/mod.rs",
    "git/config",
    "x.git.txt",
    ".config/app/settings.toml",
    "docs/HEADING.md",
    "envrc",
    "local/bin/x",
    "repo/src/hooks.rs",
];

fn world() -> World {
    let world = World::new();
    world.put(".git/hooks/pre-commit", "#!/bin/sh\n");
    world.put("repo/HEAD", "ref: refs/heads/main\n");
    world.put("notes.txt", "one\n");
    symlink(".git/hooks", world.path("through")).unwrap();
    symlink(world.path(".git/config"), world.path("direct")).unwrap();
    symlink(".vscode/tasks.json", world.path("not-yet")).unwrap();
    world
}

fn patch(lines: &str) -> Value {
    json!({ "input": format!("*** Begin Patch\n{lines}\n*** End Patch") })
}

fn calls(path: &str) -> Vec<(&'static str, Value)> {
    vec![
        ("write", json!({ "path": path, "content": "x" })),
        ("edit", json!({ "path": path, "old_text": "sh", "new_text": "x" })),
        ("apply_patch", patch(&format!("*** Add File: {path}\n+x"))),
        ("apply_patch", patch(&format!("*** Add File: fine.txt\n+x\n*** Delete File: {path}"))),
        ("apply_patch", patch(&format!("*** Update File: notes.txt\n*** Move to: {path}\n@@\n-one\n+x"))),
    ]
}

#[test]
fn r02_a_file_that_other_programs_run_is_written_only_after_a_question() {
    let mut world = world();
    // Neither policy covers it.
    world.settings.exec = Policy::Allow;
    world.settings.outside = Policy::Allow;
    for path in EXECUTED {
        for (tool, arguments) in calls(path) {
            let call = request(tool, arguments);
            for policy in [Policy::Ask, Policy::Deny, Policy::Allow] {
                world.settings.executed_files = policy;
                let checked = world.check(&call);
                let reason = checked.reason.unwrap_or_default();
                if reason.contains("is a folder") {
                    continue;
                }
                assert_eq!(checked.decision, policy, "{tool} {path}: {reason}");
                let is_said = reason.contains("other programs run or load");
                assert!(policy == Policy::Allow || is_said, "{tool} {path}: {reason}");
            }
        }
        // To read it is as ever.
        let read = world.check(&request("read", json!({ "path": path })));
        assert_eq!(read.decision, Policy::Allow, "{path}");
    }
}

#[test]
fn r02_ordinary_files_need_no_question() {
    let world = world();
    for path in ORDINARY {
        for (tool, arguments) in calls(path) {
            let checked = world.check(&request(tool, arguments));
            assert_eq!((checked.decision, checked.reason), (Policy::Allow, None), "{tool} {path}");
        }
    }
}

/// Outside the workspace both policies count, and the stricter one decides.
#[test]
fn r02_the_stricter_of_two_policies_decides() {
    let mut world = world();
    let call = request("write", json!({ "path": "../.bashrc", "content": "x" }));
    for (outside, executed, expected) in [
        (Policy::Allow, Policy::Ask, Policy::Ask),
        (Policy::Ask, Policy::Allow, Policy::Ask),
        (Policy::Allow, Policy::Deny, Policy::Deny),
        (Policy::Deny, Policy::Allow, Policy::Deny),
        (Policy::Allow, Policy::Allow, Policy::Allow),
    ] {
        (world.settings.outside, world.settings.executed_files) = (outside, executed);
        assert_eq!(world.check(&call).decision, expected, "{outside:?} {executed:?}");
    }
}

/// What was checked as an ordinary file does not become a hook before it runs; what was allowed is written.
#[tokio::test]
async fn r02_an_ordinary_path_that_comes_to_lead_to_a_hook_is_not_written() {
    for (tool, arguments) in calls("d/pre-commit") {
        let world = world();
        world.put("d/pre-commit", "#!/bin/sh\n");
        let mut call = request(tool, arguments);
        let checked = world.check(&call);
        assert_eq!(checked.decision, Policy::Allow, "{tool}");
        call.evidence = checked.evidence;
        fs::rename(world.path("d"), world.path("aside")).unwrap();
        symlink(".git/hooks", world.path("d")).unwrap();
        let result = output(&world.run(&call).await);
        assert!(result.contains("other programs run"), "{tool}: {result}");
        assert_eq!(fs::read_to_string(world.path(".git/hooks/pre-commit")).unwrap(), "#!/bin/sh\n", "{tool}");
    }
    let world = world();
    let ended = world.call("write", json!({ "path": ".envrc", "content": "x" })).await;
    assert_eq!(ended.outcome, CallOutcome::Done, "{}", output(&ended));
    let ended = world.call("apply_patch", patch("*** Add File: .vscode/tasks.json\n+{}")).await;
    assert_eq!(ended.outcome, CallOutcome::Done, "{}", output(&ended));
}
