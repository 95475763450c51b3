//! Whatever the tools for files have changed can be taken back, also after kills (R17): drawn sequences of calls, judged by
//! the tree of files that was there before.

use std::collections::BTreeMap;
use std::fs;
use std::os::unix::fs::{MetadataExt as _, PermissionsExt as _};
use std::path::Path;

use engine::{ChangedFile, EffectId, EffectKind, Found, RunId};
use serde_json::{Value, json};
use tools::{FileStore, FileVersion, PlannedFile, Protected, StoreLimits, UndoPlan};
use uuid::Uuid;

use super::support::{World, exec, request, supervisor_of, until};

/// The files that calls are about: some in folders that are not there at first.
const NAMES: [&str; 6] = ["a.txt", "b.txt", "sub/c.txt", "sub/d.txt", "new/e.txt", "new/deep/f.txt"];

/// The same numbers for the same seed.
struct Draws(u64);

impl Draws {
    fn next(&mut self, below: usize) -> usize {
        self.0 = self.0.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        (self.0 >> 33) as usize % below
    }

    fn name(&mut self) -> &'static str {
        NAMES[self.next(NAMES.len())]
    }
}

/// Every path below a folder, with its content (none for a folder) and its permission bits.
fn tree(folder: &Path) -> BTreeMap<String, (Option<Vec<u8>>, u32)> {
    let mut found = BTreeMap::new();
    let mut open = vec![folder.to_owned()];
    while let Some(at) = open.pop() {
        for entry in fs::read_dir(at).unwrap() {
            let path = entry.unwrap().path();
            let mode = path.symlink_metadata().unwrap().mode() & 0o7777;
            let (is_link, is_folder) = (path.is_symlink(), path.is_dir() && !path.is_symlink());
            let content = match (is_link, is_folder) {
                (true, _) => Some(fs::read_link(&path).unwrap().into_os_string().into_encoded_bytes()),
                (_, true) => None,
                _ => Some(fs::read(&path).unwrap()),
            };
            found.insert(path.strip_prefix(folder).unwrap().display().to_string(), (content, mode));
            if is_folder {
                open.push(path);
            }
        }
    }
    found
}

fn patch(world: &World, draws: &mut Draws) -> Value {
    let mut lines = vec!["*** Begin Patch".to_owned()];
    let mut taken: Vec<&str> = vec![];
    for _ in 0..=draws.next(3) {
        let name = draws.name();
        if taken.contains(&name) {
            continue;
        }
        taken.push(name);
        let text = fs::read_to_string(world.path(name)).ok();
        match (text, draws.next(3)) {
            (None, _) => lines.extend([format!("*** Add File: {name}"), format!("+{}", draws.next(99))]),
            (Some(_), 0) => lines.push(format!("*** Delete File: {name}")),
            (Some(text), how) => {
                let first = text.lines().next().unwrap_or_default().to_owned();
                lines.push(format!("*** Update File: {name}"));
                let target = draws.name();
                if how == 1 && !taken.contains(&target) && !world.path(target).exists() {
                    taken.push(target);
                    lines.push(format!("*** Move to: {target}"));
                }
                lines.extend(["@@".to_owned(), format!("-{first}"), format!("+{first}{}", draws.next(9))]);
            }
        }
    }
    lines.push("*** End Patch".to_owned());
    json!({ "input": lines.join("\n") })
}

/// A command of a few drawn steps: it creates, changes, removes, renames, links, and changes permissions, as it comes. A step
/// that does not fit fails.
fn command(draws: &mut Draws) -> String {
    const FOLDERS: [&str; 5] = ["sub", "new", "new/deep", "other", "a.txt"];
    let step = |draws: &mut Draws| {
        let (a, b, folder, number) = (draws.name(), draws.name(), FOLDERS[draws.next(FOLDERS.len())], draws.next(20));
        match draws.next(12) {
            0 => format!("echo {number} > {a}"),
            1 => format!("echo {number} >> {a}"),
            2 => format!("rm -f {a}"),
            3 => format!("mv {a} {b}"),
            4 => format!("chmod 6{}0 {a}", draws.next(8)),
            5 => format!("ln -sfn {b} {a}"),
            6 => format!("mkdir -p {folder}; echo {number} > {folder}/g"),
            7 => format!("rm -rf {folder}"),
            8 => format!("rmdir {folder}"),
            9 => format!("mv {folder} {}", FOLDERS[draws.next(FOLDERS.len())]),
            10 => format!("chmod 7{}5 {folder}", draws.next(8)),
            _ => format!("rm -rf {folder}; ln -s sub {folder}"),
        }
    };
    let steps: Vec<String> = (0..=draws.next(4)).map(|_| step(draws)).collect();
    steps.join("; ") + "; :"
}

/// Runs a drawn command and returns what is recorded of it. With some, the owner is killed while it runs or before its
/// result is recorded, or the supervisor is killed.
async fn commanded(world: &World, draws: &mut Draws) -> Vec<ChangedFile> {
    let request = exec(&command(draws));
    let how = draws.next(4);
    let running = {
        let (context, request) = (world.context.clone(), request.clone());
        tokio::spawn(async move { tools::run(&context, &request, |_, _| {}).await })
    };
    if how == 0 {
        until("it has begun", || world.folder(&request).exists()).await;
        if let Some(pid) = supervisor_of(&world.folder(&request)).filter(|_| draws.next(2) == 0) {
            let _ = rustix::process::kill_process(
                rustix::process::Pid::from_raw(pid).unwrap(),
                rustix::process::Signal::KILL,
            );
        }
    }
    let changes = if how <= 1 {
        until("it has begun", || world.folder(&request).exists()).await;
        running.abort();
        // It may have ended meanwhile; then its result is lost with its owner.
        let _ = running.await;
        loop {
            let found = tools::find(&world.context, &request).await;
            if found.found != Found::Running {
                break found.ended.map(|ended| ended.changes).unwrap_or_default();
            }
        }
    } else {
        running.await.unwrap().changes
    };
    tools::forget(&world.context.calls, request.id).unwrap();
    let is_known = |change: &ChangedFile| change.not_kept.is_none();
    assert!(changes.iter().all(is_known), "{changes:#?}");
    changes
}

/// Makes a drawn call and returns what it reports as changed. With some, a kill comes before the change or after it, and the
/// next owner looks the call up.
async fn call(world: &World, draws: &mut Draws) -> Vec<ChangedFile> {
    if draws.next(2) == 0 {
        return commanded(world, draws).await;
    }
    let name = draws.name();
    let (tool, arguments) = match draws.next(4) {
        0 => ("write", json!({ "path": name, "content": format!("{}\n", draws.next(50)) })),
        1 => ("edit", json!({ "path": name, "old_text": "1", "new_text": "7" })),
        _ => ("apply_patch", patch(world, draws)),
    };
    let mut request = request(tool, arguments);
    request.evidence = world.check(&request).evidence;
    match draws.next(3) {
        // Killed after the change, before its result was recorded.
        0 => {
            world.run(&request).await;
            let found = tools::find(&world.context, &request).await;
            match (found.found, found.ended) {
                (Found::Ended, Some(ended)) => ended.changes,
                // It did not fit, so it changed nothing, and is made again.
                _ => world.run(&request).await.changes,
            }
        }
        // Killed before the change.
        1 => {
            let found = tools::find(&world.context, &request).await;
            // A call that was to change nothing has made it all.
            if found.found == Found::Ended { vec![] } else { world.run(&request).await.changes }
        }
        _ => world.run(&request).await.changes,
    }
}

/// The plan that takes these changes back, in order of the paths.
fn plan(world: &World, changes: &[ChangedFile]) -> UndoPlan {
    let mut net: BTreeMap<&str, PlannedFile> = BTreeMap::new();
    for ChangedFile { path, before, after, mode, .. } in changes {
        let version = |content: Option<_>, mode| content.map(|content| FileVersion { content, mode });
        let (before, after) = (version(*before, mode.before), version(*after, mode.after));
        let fresh = || PlannedFile { path: path.clone(), now: after, to: before, linked_now: None, linked_to: vec![] };
        net.entry(path).or_insert_with(fresh).now = after;
    }
    let files = net.into_values().filter(|file| file.now != file.to).collect();
    UndoPlan { workspace: world.context.workspace.display().to_string(), files, passed: vec![], copy: None }
}

fn effect() -> EffectId {
    EffectId { run: RunId(Uuid::now_v7()), kind: EffectKind::Undo, ordinal: 1, try_no: 1 }
}

#[tokio::test]
async fn r17_undo_after_any_drawn_calls_and_kills_gives_back_the_tree_that_was() {
    for seed in 1..=60 {
        let (world, mut draws) = (World::new(), Draws(seed));
        world.put("a.txt", "1\n2\n");
        world.put("sub/c.txt", "10\n");
        fs::set_permissions(world.path("sub/c.txt"), fs::Permissions::from_mode(0o640)).unwrap();
        let before = tree(&world.context.workspace);
        let mut changes = vec![];
        for _ in 0..8 {
            changes.extend(call(&world, &mut draws).await);
        }
        let after = tree(&world.context.workspace);
        let plan = plan(&world, &changes);
        let (store, protected) = (&world.context.files, Protected::default());
        // A kill in the middle: a part of the plan was carried out. The next owner carries out all of it, under the same id.
        let id = effect();
        let part = UndoPlan { files: plan.files[..draws.next(plan.files.len() + 1)].to_vec(), ..plan.clone() };
        tools::undo(store, &protected, id, part).await;
        let left = tools::undo(store, &protected, id, plan.clone()).await;
        assert_eq!((left, tree(&world.context.workspace)), (vec![], before), "seed {seed}: {changes:#?}");
        // And made once more.
        let turned = |file: PlannedFile| PlannedFile { now: file.to, to: file.now, ..file };
        let back = UndoPlan { files: plan.files.into_iter().map(turned).collect(), ..plan };
        let left = tools::undo(store, &protected, effect(), back).await;
        assert_eq!((left, tree(&world.context.workspace)), (vec![], after), "seed {seed}: {changes:#?}");
    }
}

#[tokio::test]
async fn r17_a_file_that_somebody_changed_or_whose_content_is_gone_stays_and_is_named() {
    let mut world = World::new();
    world.context.files =
        FileStore::new(world.home.path().join("files"), StoreLimits { file_bytes: 4, ..StoreLimits::default() });
    world.put("mine.txt", "1\n");
    world.put("large.txt", "too large\n");
    world.put("a.txt", "1\n");
    let mut changes = vec![];
    for name in ["mine.txt", "large.txt", "a.txt"] {
        changes.extend(world.call("write", json!({ "path": name, "content": "2\n" })).await.changes);
    }
    let plan = plan(&world, &changes);
    world.put("mine.txt", "mine\n");
    let left = tools::undo(&world.context.files, &Protected::default(), effect(), plan).await;
    let paths: Vec<_> = left.iter().map(|left| (left.path.as_str(), left.why.as_str())).collect();
    assert_eq!(paths, [("large.txt", tools::NOT_KEPT), ("mine.txt", "it was changed since")]);
    let texts = ["mine.txt", "large.txt", "a.txt"].map(|name| fs::read_to_string(world.path(name)).unwrap());
    assert_eq!(texts, ["mine\n", "2\n", "1\n"]);
}

/// The bytes that are kept of many edits are those of the contents, each once.
#[tokio::test]
async fn r17_a_thousand_edits_keep_their_unique_contents_and_no_more() {
    let world = World::new();
    world.put("a.txt", "0\n".repeat(500));
    let mut unique = BTreeMap::new();
    for edit in 0..1000 {
        let text = fs::read_to_string(world.path("a.txt")).unwrap();
        unique.insert(text.clone(), text.len());
        let number = edit % 100;
        let content = format!("{number}\n").repeat(500);
        world.call("write", json!({ "path": "a.txt", "content": content })).await;
    }
    let kept: u64 = fs::read_dir(world.home.path().join("files"))
        .unwrap()
        .map(|file| file.unwrap().metadata().unwrap().len())
        .sum();
    let unique = unique.values().sum::<usize>() as u64;
    assert!(kept <= unique * 12 / 10, "{kept} bytes of {unique}");
}
