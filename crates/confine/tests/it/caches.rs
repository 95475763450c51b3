//! Private copies of package caches.

use std::fs;
use std::io::{BufRead as _, BufReader, Read as _};
use std::os::unix::fs::{MetadataExt as _, PermissionsExt as _, symlink};
use std::path::{Path, PathBuf};
use std::process::{Child, Stdio};

use confine::{CacheCopies, CachePlace, ConfineReport, PackageCache, Profile, Tier, WorkspaceAccess};

use crate::support::{BOTH, ONLY_A, World, each};

/// A cache in the folder `outside`, with a variable.
fn cache(world: &World, folder: &str, place: CachePlace) -> PackageCache {
    PackageCache { name: "tool".into(), folder: world.at(folder), variable: Some("TOOL_CACHE".into()), place }
}

fn with_caches(world: &World, caches: Vec<PackageCache>) -> Profile {
    if !world.at("copies").exists() {
        world.create_folder("copies");
    }
    Profile { caches: Some(CacheCopies { folder: world.at("copies"), caches }), ..world.profile() }
}

/// The folder `outside` as a cache.
fn usual(world: &World) -> Profile {
    with_caches(world, vec![cache(world, "outside", CachePlace::Default)])
}

/// Runs a script that succeeds, and of which every cache has a copy. Returns what it prints.
fn succeed(world: &World, profile: &Profile, script: &str) -> String {
    let (output, report) = world.run_reported(profile, &["sh", "-c", script]);
    assert!(output.status.success(), "{script}\n{}{output:?}", world.name());
    assert_eq!(report.caches, [], "{}", world.name());
    String::from_utf8(output.stdout).unwrap()
}

/// Everything below a folder: names, modes, times and content.
fn state(folder: &Path) -> Vec<(PathBuf, u32, i64, i64, Option<String>)> {
    let mut all = vec![];
    let mut left = vec![folder.to_owned()];
    while let Some(path) = left.pop() {
        let found = fs::symlink_metadata(&path).unwrap();
        if found.is_dir() {
            left.extend(fs::read_dir(&path).unwrap().map(|entry| entry.unwrap().path()));
        }
        let text = found.is_file().then(|| fs::read_to_string(&path).unwrap());
        all.push((path, found.mode(), found.mtime(), found.mtime_nsec(), text));
    }
    all.sort();
    all
}

/// Starts a command that has set its sandbox up, and ends when its input does.
fn started(world: &World, profile: &Profile, script: &str) -> Child {
    let mut command = world.command(profile, &["sh", "-c", &format!("{script}; echo ready; read line; true")]);
    let mut child = command.stdin(Stdio::piped()).stdout(Stdio::piped()).spawn().unwrap();
    let mut line = String::new();
    BufReader::new(child.stdout.as_mut().unwrap()).read_line(&mut line).unwrap();
    assert_eq!(line, "ready\n", "{}", world.name());
    child
}

fn ended(mut child: Child) {
    drop(child.stdin.take());
    assert!(child.wait().unwrap().success());
}

#[test]
fn a_copy_reads_from_the_users_cache_and_keeps_what_is_written() {
    each(&ONLY_A, |world| {
        world.create_folder("outside/sub");
        world.write("outside/sub/old", "old\n");
        let before = state(&world.at("outside"));
        let script = r#"
            cat "$OUT/file" "$OUT/sub/old"
            echo new >"$OUT/sub/new" && echo more >>"$OUT/file"
            rm "$OUT/sub/old" && chmod 600 "$OUT/sub" && touch -d 2001-01-01 "$OUT"
            chmod 700 "$OUT/sub" && mkdir "$OUT/own" && mv "$OUT/own" "$OUT/moved""#;
        assert_eq!(succeed(world, &usual(world), script), "precious\nold\n");
        assert_eq!(state(&world.at("outside")), before, "{}", world.name());
        // The user's cache grows; what the command wrote is there as well.
        world.write("outside/sub/later", "later\n");
        let before = state(&world.at("outside"));
        let script = r#"cat "$OUT/file" "$OUT"/sub/*; test ! -e "$OUT/sub/old" && test -d "$OUT/moved""#;
        assert_eq!(succeed(world, &usual(world), script), "precious\nmore\nlater\nnew\n");
        assert_eq!(state(&world.at("outside")), before);
        // Without the copy nothing of this is seen.
        assert_eq!(world.succeed(r#"cat "$OUT/file"; ls "$OUT""#), "precious\nfile\nsub");
        world.refuse(1, r#"echo x >"$OUT/new""#);
    });
}

/// Whatever a command does in its copy, the user's cache stays as it is.
#[test]
fn escape_105_the_users_cache_is_changed_through_a_copy() {
    let attempts = [
        r#"ln "$OUT/sub/old" "$OUT/hard" && echo x >>"$OUT/hard""#,
        r#"rm -r "$OUT/sub" && mkdir "$OUT/sub" && echo x >"$OUT/sub/old""#,
        r#"rm -r "$OUT/sub" && ln -s . "$OUT/sub" && echo x >"$OUT/sub/file""#,
        r#"mv "$OUT/sub/old" "$OUT/file""#,
        r#"chmod 777 "$OUT/sub/old" && touch "$OUT/sub/old""#,
        r#"exec 3<>"$OUT/sub/old" && echo x >&3"#,
        r#"perl -e 'truncate("$ENV{OUT}/sub/old", 0) or die'"#,
    ];
    for script in attempts {
        each(&ONLY_A, |world| {
            world.create_folder("outside/sub");
            world.write("outside/sub/old", "old\n");
            let before = state(&world.at("outside"));
            succeed(world, &usual(world), script);
            succeed(world, &usual(world), "true");
            assert_eq!(state(&world.at("outside")), before, "{script} {}", world.name());
        });
    }
}

/// A link in the user's cache leads to what the command could reach anyway, and no further.
#[test]
fn escape_106_a_link_in_a_cache_leads_elsewhere() {
    each(&ONLY_A, |world| {
        symlink(world.at("secret"), world.at("outside/secrets")).unwrap();
        symlink(world.at("reports"), world.at("outside/reports")).unwrap();
        let script = r#"cat "$OUT/secrets/key" || echo x >"$OUT/reports/x" || echo x >"$OUT/secrets/x""#;
        let output = world.command(&usual(world), &["sh", "-c", script]).output().unwrap();
        assert!(!output.status.success(), "{}{output:?}", world.name());
        assert!(!world.at("reports/x").exists() && !world.at("secret/x").exists());
    });
}

/// Files and folders that are hidden stay so in a copy.
#[test]
fn escape_107_what_is_hidden_is_read_through_a_copy() {
    each(&ONLY_A, |world| {
        world.create_folder("outside/deep");
        world.create_folder("outside/deep/keys");
        for file in ["outside/key", "outside/deep/key", "outside/deep/keys/key"] {
            world.write(file, "hidden\n");
        }
        let before = state(&world.at("outside"));
        let hidden = ["outside/key", "outside/deep/key", "outside/deep/keys"].map(|path| world.at(path)).to_vec();
        let attempts = [
            r#"cat "$OUT/key" "$OUT/deep/key" "$OUT/deep/keys/key" "$OUT"/deep/keys/*"#,
            r#"cp -a "$OUT" all; grep -r hidden all"#,
            r#"mv "$OUT/deep" "$OUT/other"; grep -r hidden "$OUT""#,
            r#"perl -e 'rename("$ENV{OUT}/deep", "$ENV{OUT}/other") or die' && grep -r hidden "$OUT""#,
            r#"rm -rf "$OUT/deep" "$OUT/key"; mkdir "$OUT/deep"; grep -r hidden "$OUT""#,
            r#"mv "$OUT/key" "$OUT/moved"; ln "$OUT/key" "$OUT/hard"; grep -r hidden "$OUT""#,
        ];
        for script in attempts {
            let profile = Profile { hidden: hidden.clone(), ..usual(world) };
            let (output, report) = world.run_reported(&profile, &["sh", "-c", script]);
            let text = String::from_utf8_lossy(&output.stdout);
            assert!(!text.contains("hidden"), "{script}\n{}{output:?}", world.name());
            assert_eq!(
                (report.layers.is_some(), report.caches),
                (true, vec![]),
                "{script}\n{}{output:?}",
                world.name()
            );
        }
        assert_eq!(state(&world.at("outside")), before);
    });
}

/// A command leaves something in the place of what will be hidden: the next one runs, and reads nothing.
#[test]
fn escape_108_the_place_of_what_is_hidden_is_taken_before() {
    let attempts = [
        r#"mkdir "$OUT/deep/key""#,
        r#"ln -s file "$OUT/deep/key""#,
        r#"echo x >"$OUT/deep/key""#,
        r#"rm -r "$OUT/deep""#,
        r#"rm -r "$OUT/deep" && mkdir "$OUT/deep""#,
        r#"rm -r "$OUT/deep" && echo x >"$OUT/deep""#,
        r#"rm -r "$OUT/deep" && ln -s . "$OUT/deep""#,
    ];
    for script in attempts {
        each(&ONLY_A, |world| {
            world.create_folder("outside/deep");
            world.write("outside/deep/file", "");
            succeed(world, &usual(world), script);
            world.write("outside/deep/key", "hidden\n");
            let profile = Profile { hidden: vec![world.at("outside/deep/key")], ..usual(world) };
            let uncover = r#"cat "$OUT/deep/key"; grep -r hidden "$OUT"; rm -rf "$OUT/deep"; mkdir "$OUT/deep"
                rmdir "$OUT/deep"; grep -r hidden "$OUT"; cat "$OUT/deep/key"; true"#;
            let text = succeed(world, &profile, uncover);
            assert!(!text.contains("hidden"), "{script} {}", world.name());
        });
    }
}

/// Commands that run at once have copies of their own; what the first one wrote is there for the next.
#[test]
fn commands_at_once_have_copies_of_their_own() {
    each(&ONLY_A, |world| {
        let profile = usual(world);
        let first = started(world, &profile, r#"echo first >"$OUT/new""#);
        let script = r#"test ! -e "$OUT/new" && echo second >"$OUT/new" && cat "$OUT/file""#;
        assert_eq!(succeed(world, &usual(world), script), "precious\n");
        ended(first);
        assert_eq!(ConfineReport::read(&profile.report).unwrap().caches, []);
        assert_eq!(succeed(world, &usual(world), r#"cat "$OUT/new""#), "first\n");
        // More than there are copies.
        let others: Vec<_> = (0..4).map(|_| started(world, &usual(world), r#"echo x >>"$OUT/new""#)).collect();
        let script = r#"cat "$OUT/file"; echo x >"$OUT/new" || echo x >"$TOOL_CACHE/new" && cat "$TOOL_CACHE/new""#;
        let (output, report) = world.run_reported(&usual(world), &["sh", "-c", script]);
        assert_eq!(String::from_utf8_lossy(&output.stdout), "precious\nx\n", "{}{output:?}", world.name());
        assert_eq!(report.caches.iter().map(|cache| cache.path.clone()).collect::<Vec<_>>(), [world.at("outside")]);
        others.into_iter().for_each(ended);
    });
}

/// What a killed sandbox ran may outlive it for a moment: its copy is not free before.
#[test]
fn a_copy_is_free_once_everything_inside_has_ended() {
    each(&ONLY_A, |world| {
        for round in 0..20 {
            let mut first =
                started(world, &usual(world), r#"for i in 1 2 3 4 5 6; do sleep 60 & done; echo x >>"$OUT/new""#);
            let lock = fs::read_to_string(world.at("copies/0/lock")).unwrap();
            let init = lock.split_once(' ').unwrap().0.to_owned();
            first.kill().unwrap();
            first.wait().unwrap();
            // Until it is waited for it is there, with nothing left.
            let is_free = || fs::read_to_string(format!("/proc/{init}/stat")).map_or(true, |stat| stat.contains(") Z"));
            let was_free = is_free();
            let profile = usual(world);
            let text = succeed(world, &profile, r#"wc -l <"$OUT/new" || echo other"#);
            if was_free {
                assert_eq!(text.trim(), (round + 1).to_string(), "{}", world.name());
            }
            while !is_free() {
                std::thread::yield_now();
            }
        }
        assert_eq!(succeed(world, &usual(world), r#"wc -l <"$OUT/new""#).trim(), "20");
    });
}

/// A cache that does not exist begins empty, at the place that its variable names.
#[test]
fn a_cache_that_does_not_exist_begins_empty() {
    each(&BOTH, |world| {
        let script = r#"ls "$TOOL_CACHE" && echo x >>"$TOOL_CACHE/new" && wc -l <"$TOOL_CACHE/new""#;
        let profile = || with_caches(world, vec![cache(world, "absent", CachePlace::Default)]);
        assert_eq!(succeed(world, &profile(), script).trim(), "1");
        assert_eq!(succeed(world, &profile(), script).trim_start(), "new\n2\n");
        assert!(!world.at("absent").exists());
        // One that the user has moved stays where it says.
        let moved = with_caches(world, vec![cache(world, "absent", CachePlace::Moved)]);
        assert_eq!(succeed(world, &moved, r#"echo "$TOOL_CACHE""#), "\n");
        let without = PackageCache { variable: None, ..cache(world, "absent", CachePlace::Default) };
        assert_eq!(succeed(world, &with_caches(world, vec![without]), r#"echo "$TOOL_CACHE""#), "\n");
    });
}

#[test]
fn a_moved_cache_has_its_variable() {
    each(&ONLY_A, |world| {
        let script = r#"echo "$TOOL_CACHE" && echo x >"$OUT/new""#;
        let moved = with_caches(world, vec![cache(world, "outside", CachePlace::Moved)]);
        assert_eq!(succeed(world, &moved, script), format!("{}\n", world.at("outside").display()));
        assert_eq!(succeed(world, &usual(world), script), "\n");
    });
}

/// If the kernel refuses the overlay, or there are no mounts of its own, the command runs with an empty cache, and the report says so.
#[test]
fn a_cache_without_a_copy_is_said() {
    each(&BOTH, |world| {
        // Not a folder, so the kernel refuses it.
        for folder in ["copies", "copies/0", "copies/0/tool", "copies/0/plain"] {
            world.create_folder(folder);
        }
        world.write("copies/0/tool/upper", "");
        world.write("copies/0/plain/upper", "");
        world.create_folder("outside/plain");
        world.create_folder("outside/tool");
        let tool = cache(world, "outside/tool", CachePlace::Default);
        let folder = world.at("outside/plain");
        let plain = PackageCache { name: "plain".into(), folder, variable: None, place: CachePlace::Default };
        let script = r#"echo x >>"$TOOL_CACHE/new" && wc -l <"$TOOL_CACHE/new"; echo x >"$OUT/plain/new" || echo x >"$OUT/tool/new""#;
        for round in ["1", "2"] {
            let profile = with_caches(world, vec![tool.clone(), plain.clone()]);
            let (output, report) = world.run_reported(&profile, &["sh", "-c", script]);
            assert_eq!(String::from_utf8_lossy(&output.stdout).trim(), round, "{}{output:?}", world.name());
            assert!(!output.status.success(), "{}{output:?}", world.name());
            let said: Vec<_> = report.caches.iter().map(|cache| cache.path.clone()).collect();
            assert_eq!(said, [world.at("outside/tool"), world.at("outside/plain")]);
            let reason = if world.tier == Tier::A { "mounts no overlay there" } else { "only a mount namespace" };
            assert!(report.caches.iter().all(|cache| cache.reason.contains(reason)), "{report:?}");
        }
    });
}

/// What nobody could create either is no reason to fail.
#[test]
fn copies_that_cannot_be_made_do_not_fail_the_command() {
    each(&BOTH, |world| {
        let copies =
            CacheCopies { folder: world.at("none"), caches: vec![cache(world, "outside", CachePlace::Default)] };
        let profile = Profile { caches: Some(copies), ..world.profile() };
        let (output, report) = world.run_reported(&profile, &["sh", "-c", r#"cat "$OUT/file""#]);
        assert!(output.status.success(), "{}{output:?}", world.name());
        assert_eq!(report.caches.len(), 1, "{report:?}");
        let names = ["..", "a/b", ""].map(|name| {
            let folder = world.at("outside");
            PackageCache { name: name.into(), folder, variable: None, place: CachePlace::Default }
        });
        for name in names {
            let (output, report) = world.run_reported(&with_caches(world, vec![name]), &["true"]);
            assert!(output.status.success() && report.caches.len() == 1, "{}{output:?}", world.name());
        }
    });
}

/// A read-only workspace has its caches too: what is written is private.
#[test]
fn a_read_only_workspace_has_copies() {
    each(&ONLY_A, |world| {
        let profile = || Profile { access: WorkspaceAccess::ReadOnly, ..usual(world) };
        succeed(world, &profile(), r#"echo x >"$OUT/new""#);
        assert_eq!(succeed(world, &profile(), r#"cat "$OUT/new"; echo x >file || echo refused"#), "x\nrefused\n");
    });
}

/// A copy stands in the way of nothing that the profile says about the same folders.
#[test]
fn a_cache_that_is_writable_hidden_or_around_the_workspace_has_no_copy() {
    each(&ONLY_A, |world| {
        let writable = Profile { writable: vec![world.at("outside")], ..usual(world) };
        succeed(world, &writable, r#"echo x >"$OUT/new""#);
        assert_eq!(world.read("outside/new"), "x\n", "{}", world.name());
        let hidden = Profile { hidden: vec![world.at("outside")], ..usual(world) };
        assert_eq!(succeed(world, &hidden, r#"ls "$OUT""#), "");
        let around = with_caches(world, vec![cache(world, "", CachePlace::Default)]);
        succeed(world, &around, "echo x >new");
        assert_eq!(world.read("work/new"), "x\n");
        // A writable folder in a cache is that of the user.
        world.create_folder("outside/own");
        let inside = Profile { writable: vec![world.at("outside/own")], ..usual(world) };
        succeed(world, &inside, r#"echo x >"$OUT/own/new" && echo x >"$OUT/private""#);
        assert!(world.at("outside/own/new").exists() && !world.at("outside/private").exists());
    });
}

/// The command cannot reach its copies by another path.
#[test]
fn escape_109_the_files_of_a_copy_are_changed_directly() {
    each(&ONLY_A, |world| {
        succeed(world, &usual(world), r#"echo x >"$OUT/new""#);
        let script =
            r#"echo y >"$WORK/../copies/0/tool/upper/new" || rm "$WORK/../copies/0/lock" || mkdir "$WORK/../copies/x""#;
        let output = world.command(&usual(world), &["sh", "-c", script]).output().unwrap();
        assert!(!output.status.success(), "{}{output:?}", world.name());
        let mode = fs::metadata(world.at("copies/0")).unwrap().permissions().mode();
        assert_eq!(mode & 0o777, 0o700);
    });
}

/// Many files of a cache, as an archive is unpacked and removed again.
#[test]
fn a_copy_works_as_a_folder_does() {
    each(&ONLY_A, |world| {
        let script = r#"cd "$OUT" && mkdir a && for i in 1 2 3 4 5; do mkdir a/$i && echo $i >a/$i/f; done
            tar cf - a | (mkdir b && cd b && tar xf -) && mv b/a c && rm -r a b && cat c/*/f && ln -s c d && cat d/1/f
            mkfifo p && ln c/1/f h && (flock 9 && echo locked) 9>l && rm -r c d p h l && ls -A"#;
        assert_eq!(succeed(world, &usual(world), script), "1\n2\n3\n4\n5\n1\nlocked\nfile\n");
        let mut text = String::new();
        fs::File::open(world.at("outside/file")).unwrap().read_to_string(&mut text).unwrap();
        assert_eq!(text, "precious\n");
    });
}
