//! `limulus backup` and `limulus restore`: a home in one file, made while its owner works, and a home made of it.

use std::fs::{self, File};
use std::io::Write as _;
use std::os::unix::fs::{PermissionsExt as _, symlink};
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;

use model_server::ModelServer;
use rustix::process::Signal;
use serde_json::{Value, json};

use crate::support::{Finished, HOLD, Home, PROGRAM, Process, is_alive, pids, until};

/// The file of a backup of this home.
fn file(home: &Home) -> PathBuf {
    home.user().join("a.backup")
}

/// A command in another home, beside which nobody is.
fn at(home: &Home, other: &str, words: &[&str]) -> Command {
    let mut command = home.program(PROGRAM, words);
    command.env("LIMULUS_HOME", home.user().join(other));
    command
}

fn run_at(home: &Home, other: &str, words: &[&str]) -> Finished {
    at(home, other, words).output().expect("limulus can be started").into()
}

fn json_at(home: &Home, other: &str, words: &[&str]) -> Value {
    let shown = run_at(home, other, &[words, &["--json"]].concat()).expect_code(0);
    serde_json::from_str(&shown.out).expect("JSON")
}

fn backup(home: &Home) -> Value {
    home.json(&["backup", file(home).to_str().expect("UTF-8")])
}

fn restore(home: &Home, other: &str) -> Value {
    json_at(home, other, &["restore", file(home).to_str().expect("UTF-8")])
}

/// What is in a folder.
fn names(folder: &Path) -> Vec<String> {
    let entries = fs::read_dir(folder).expect("a folder").flatten();
    let mut names: Vec<_> = entries.map(|entry| entry.file_name().to_string_lossy().into_owned()).collect();
    names.sort();
    names
}

/// Whether a backup in this folder has copied the journal and writes its archive. Only its user may look into it.
fn is_writing(folder: &Path) -> bool {
    let working = names(folder).into_iter().find(|name| name.starts_with(".limulus-backup-"));
    working.is_some_and(|name| {
        let folder = folder.join(name);
        assert_eq!(fs::metadata(&folder).expect("it is there").permissions().mode() & 0o777, 0o700);
        folder.join("archive").exists()
    })
}

/// R11, R61: a backup has all of a home: what was said, what can be undone, the settings, the keys.
#[test]
pub(crate) fn r61_a_restored_home_is_the_home_that_was_copied() {
    let server = ModelServer::start().unwrap();
    let home = Home::new().served_by(&server);
    home.put("a.txt", "before\n");
    let arguments = json!({ "path": "a.txt", "content": "after\n" });
    home.run(&["agent", "-m", &format!("call:write {arguments}\ntokens=2")]).expect_code(0);
    let token = home.run(&["gateway", "token"]).expect_code(0).out;
    fs::write(home.user().join("mine.toml"), "[display]\nmarkdown = \"raw\"\n").expect("a file");
    symlink(home.user().join("mine.toml"), home.path().join("config.toml")).expect("a link");
    symlink("/etc", home.path().join("files/link")).expect("a link");
    symlink("..", home.path().join("above")).expect("a link");
    symlink("itself", home.path().join("itself")).expect("a link");
    fs::write(home.path().join("journal.notes.md"), "mine").expect("a file");

    let made = backup(&home);
    let of_file = fs::metadata(file(&home)).expect("the file").permissions().mode();
    assert_eq!(of_file & 0o777, 0o600, "it holds keys");
    assert!(made["bytes"].as_u64() > Some(1_000) && made["unfinished"] == json!([]), "{made}");
    let restored = restore(&home, "other");
    assert_eq!((&restored["files"], &restored["head"]), (&made["files"], &made["head"]));
    assert_eq!(restored["made_at"], made["made_at"]);

    let other = home.user().join("other");
    assert_eq!(fs::metadata(&other).expect("a home").permissions().mode() & 0o777, 0o700);
    assert_eq!(run_at(&home, "other", &["gateway", "token"]).out, token);
    assert_eq!(fs::read_to_string(other.join("config.toml")).expect("its content"), "[display]\nmarkdown = \"raw\"\n");
    assert!(!other.join("files/link").exists(), "what is outside of the home is not in it");
    assert!(!other.join("above").exists() && !other.join("itself").exists());
    assert_eq!(fs::read_to_string(other.join("journal.notes.md")).expect("its content"), "mine");
    assert!(!names(&other).iter().any(|name| name.starts_with('.') || name == "limulus.sock"), "{:?}", names(&other));
    let shown = |value: Value| value["transcript"].clone();
    assert_eq!(shown(json_at(&home, "other", &["sessions", "show"])), shown(home.json(&["sessions", "show"])));
    run_at(&home, "other", &["doctor", "--data"]).expect_code(0);
    run_at(&home, "other", &["audit", "--verify"]).expect_code(0);
    run_at(&home, "other", &["undo", "--yes"]).expect_code(0);
    assert_eq!(home.text("a.txt"), "before\n", "the content before the run was in it");
    run_at(&home, "other", &["agent", "-m", "tokens=3 Who are you?"]).expect_code(0);
}

/// R11: a backup during a command changes nothing for it, and the restored home neither runs the command again nor ends it.
#[test]
pub(crate) fn r11_a_command_that_ran_during_the_backup_is_not_run_again_in_the_restored_home() {
    let home = Home::new();
    let agent = home.start(&["agent", "--yes", "-m", HOLD]);
    until("a command that holds", || pids(&home.file("pids")).len() == 1);
    until("its record", || names(&home.path().join("calls")).iter().any(|name| !name.ends_with(".before")));
    let made = backup(&home);
    assert_eq!(made["unfinished"], json!(["agent:main:main"]));
    let restored = restore(&home, "other");
    assert_eq!(restored["unfinished"], made["unfinished"]);

    run_at(&home, "other", &["doctor", "--data"]).expect_code(0);
    run_at(&home, "other", &["resume"]);
    let shown = json_at(&home, "other", &["runs", "show"]);
    assert!(shown.to_string().contains("\"outcome\":\"interrupted\""), "{shown}");
    let command = pids(&home.file("pids"));
    assert_eq!(command.len(), 1, "it did not run again");
    assert!(is_alive(command[0]), "it is the command of the home that was copied");
    home.put("go", "");
    agent.finish().expect_code(0);
    assert!(home.json(&["runs", "show"]).to_string().contains("\"outcome\":\"done\""));
}

/// R11: a call whose folder was not there yet when the folders were listed began all the same if the journal says so.
#[test]
fn r11_a_call_without_a_folder_in_the_backup_is_not_run_again() {
    let home = Home::new();
    let agent = home.start(&["agent", "--yes", "-m", HOLD]);
    until("a command that holds", || pids(&home.file("pids")).len() == 1);
    // The folder of calls as it was before the command, as far as the backup can see.
    let (calls, aside) = (home.path().join("calls"), home.user().join("aside"));
    fs::rename(&calls, &aside).expect("it is moved");
    let made = backup(&home);
    fs::rename(&aside, &calls).expect("it is moved back");
    assert_eq!(made["unfinished"], json!(["agent:main:main"]));
    restore(&home, "other");
    run_at(&home, "other", &["resume"]);
    let shown = json_at(&home, "other", &["runs", "show"]);
    assert!(shown.to_string().contains("\"outcome\":\"interrupted\""), "{shown}");
    assert_eq!(pids(&home.file("pids")).len(), 1, "it did not run again");
    home.put("go", "");
    agent.finish().expect_code(0);
}

/// R11: what was acknowledged before a backup began is in it, and it is sound, whatever is written meanwhile.
#[test]
fn r11_a_backup_beside_a_busy_owner_is_sound_and_has_all_that_was_acknowledged_before() {
    let home = Home::new();
    let owner = home.start(&["serve"]);
    owner.until_err("serving");
    let is_over = AtomicBool::new(false);
    let send = |session: &str, number: usize| {
        home.run(&["send", "--session", session, "--key", &format!("{session}-{number}"), "tokens=200 Who are you?"])
            .expect_code(0);
    };
    let (mut made, mut number) = (vec![], 0);
    thread::scope(|scope| {
        scope.spawn(|| {
            let mut beside = 0;
            while !is_over.load(Ordering::Relaxed) {
                send("beside", beside);
                beside += 1;
            }
        });
        for round in 0..4 {
            for _ in 0..5 {
                send("mine", number);
                number += 1;
            }
            let name = home.user().join(format!("{round}.backup"));
            home.run(&["backup", name.to_str().expect("UTF-8")]).expect_code(0);
            made.push((name, number));
        }
        is_over.store(true, Ordering::Relaxed);
    });
    for (round, (name, acknowledged)) in made.iter().enumerate() {
        let other = format!("other-{round}");
        run_at(&home, &other, &["restore", name.to_str().expect("UTF-8")]).expect_code(0);
        run_at(&home, &other, &["doctor", "--data"]).expect_code(0);
        for number in 0..*acknowledged {
            run_at(&home, &other, &["receipt", &format!("mine-{number}")]).expect_code(0);
        }
    }
    owner.signal(Signal::TERM);
    owner.finish().expect_code(0);
}

/// A backup with these entries: names, and what they hold; none for a link to `/etc`.
fn forged(path: &Path, entries: &[(&str, Option<&[u8]>)]) {
    let mut tar = tar::Builder::new(zstd::Encoder::new(File::create(path).expect("a file"), 1).expect("an encoder"));
    for (name, content) in entries {
        let mut header = tar::Header::new_gnu();
        header.set_mode(0o644);
        // As it is: the library would refuse such a name.
        header.as_gnu_mut().expect("its form").name[..name.len()].copy_from_slice(name.as_bytes());
        header.set_size(content.map_or(0, |content| content.len() as u64));
        if content.is_none() {
            header.set_entry_type(tar::EntryType::Symlink);
            header.set_link_name("/etc").expect("a short name");
        }
        header.set_cksum();
        tar.append(&header, content.unwrap_or_default()).expect("it is written");
    }
    tar.into_inner().expect("an end").finish().expect("an end");
}

/// A backup with an entry of this kind and time, of a megabyte.
fn odd(path: &Path, manifest: &str, kind: tar::EntryType, at: u64) {
    let mut tar = tar::Builder::new(zstd::Encoder::new(File::create(path).expect("a file"), 1).expect("an encoder"));
    let mut header = tar::Header::new_gnu();
    header.set_size(manifest.len() as u64);
    header.set_mode(0o600);
    tar.append_data(&mut header, "limulus-backup.json", manifest.as_bytes()).expect("it is written");
    let content = vec![b'x'; 1 << 20];
    header.set_entry_type(kind);
    header.set_mtime(at);
    header.set_size(content.len() as u64);
    tar.append_data(&mut header, "entry", &content[..]).expect("it is written");
    tar.into_inner().expect("an end").finish().expect("an end");
}

#[test]
fn r61_a_file_that_is_no_whole_backup_is_refused_and_leaves_nothing() {
    let home = Home::new();
    home.run(&["agent", "-m", "Who are you?"]).expect_code(0);
    backup(&home);
    let whole = fs::read(file(&home)).expect("the backup");
    let bad = home.user().join("bad");
    let refused = |code: i32, part: &str| {
        run_at(&home, "other", &["restore", bad.to_str().expect("UTF-8")]).expect_code(code).expect_err(part);
        assert!(!home.user().join("other").exists(), "{part}: nothing is left");
    };
    for cut in [whole.len() - 1, whole.len() / 2, 40, 4] {
        fs::write(&bad, &whole[..cut]).expect("it is written");
        refused(65, "not complete, or was changed");
    }
    for at in [whole.len() / 3, whole.len() / 2, whole.len() - 2] {
        let mut changed = whole.clone();
        changed[at] ^= 4;
        fs::write(&bad, changed).expect("it is written");
        refused(65, "not complete, or was changed");
    }
    for foreign in [&b""[..], b"a text", &[0; 5_000]] {
        fs::write(&bad, foreign).expect("it is written");
        refused(3, "is no backup of Limulus");
    }
    let manifest = |form: u32| json!({ "form": form, "version": "9.1.0", "made_at": 0, "head": 0 }).to_string();
    let (first, newer) = (manifest(1), manifest(2));
    let forge = |entries: &[(&str, Option<&[u8]>)]| forged(&bad, entries);
    forge(&[("limulus-backup.json", Some(newer.as_bytes()))]);
    refused(3, "was made by Limulus 9.1.0, whose backups this one does not know");
    forge(&[("config.toml", Some(b""))]);
    refused(3, "is no backup of Limulus");
    for (name, content) in
        [("../out", Some(&b"x"[..])), ("/tmp/out", Some(b"x")), ("a/../../out", Some(b"x")), ("config.toml", None)]
    {
        forge(&[("limulus-backup.json", Some(first.as_bytes())), (name, content)]);
        refused(3, "which no backup of a home holds");
        assert!(!home.user().join("out").exists());
    }
    for (name, content) in [("journal.db", &b"no database"[..]), ("note.md", b"")] {
        forge(&[("limulus-backup.json", Some(first.as_bytes())), (name, Some(content))]);
        refused(65, "its journal is damaged");
    }
    for names in [["a", "a"], ["a", "a/b"], ["b/c", "d"]] {
        let entries = names.map(|name| (name, Some(&b"x"[..])));
        forge(&[&[("limulus-backup.json", Some(first.as_bytes()))], &entries[..]].concat());
        refused(3, "which no backup of a home holds");
    }
    odd(&bad, &first, tar::EntryType::GNULongName, 1);
    refused(3, "a name that is too long");
    odd(&bad, &first, tar::EntryType::Regular, u64::MAX);
    refused(65, "its journal is damaged");
    let pipe = home.user().join("pipe");
    rustix::fs::mkfifoat(rustix::fs::CWD, &pipe, rustix::fs::Mode::RWXU).expect("a pipe");
    run_at(&home, "other", &["restore", pipe.to_str().expect("UTF-8")]).expect_code(3).expect_err("is no backup");
    run_at(&home, "other", &["restore", "/nowhere"]).expect_code(4).expect_err("/nowhere cannot be read");
    run_at(&home, "other", &["restore", file(&home).to_str().expect("UTF-8")]).expect_code(0);
}

#[test]
fn r61_nothing_that_is_there_is_replaced() {
    let home = Home::new();
    let name = file(&home).display().to_string();
    home.run(&["backup", &name]).expect_code(4);
    assert!(!file(&home).exists());
    home.run(&["agent", "-m", "Who are you?"]).expect_code(0);
    let inside = home.path().join("a.backup");
    home.run(&["backup", inside.to_str().expect("UTF-8")])
        .expect_code(2)
        .expect_err("is in the home that it would copy");
    home.run(&["backup", "/nowhere/a.backup"]).expect_code(74).expect_err("cannot be written");
    home.run(&["backup", &name]).expect_code(0);
    let first = fs::read(file(&home)).expect("the backup");
    home.run(&["backup", &name]).expect_code(3).expect_err("exists; nothing was changed");
    assert_eq!(fs::read(file(&home)).expect("the backup"), first);
    home.run(&["restore", &name]).expect_code(3).expect_err("is not empty; nothing was changed");
    home.assert_usable("main");
    // A folder that exists and is empty, as a volume is.
    fs::create_dir(home.user().join("volume")).expect("a folder");
    run_at(&home, "volume", &["restore", &name]).expect_code(0);
    let left: Vec<_> = names(home.user()).into_iter().filter(|name| name.starts_with('.')).collect();
    assert_eq!(left, [""; 0], "nothing is left of the work");
}

#[test]
fn r61_a_signal_ends_a_backup_and_leaves_nothing_of_it() {
    let home = Home::new();
    home.run(&["agent", "-m", "Who are you?"]).expect_code(0);
    let long = File::create(home.path().join("long")).expect("a file");
    long.set_len(1 << 40).expect("a file without content");
    for (signal, code) in [(Signal::INT, 130), (Signal::TERM, 143)] {
        let work = home.user().join("work");
        fs::create_dir_all(&work).expect("a folder");
        let name = work.join("a.backup").display().to_string();
        let process = Process::spawn(home.program(PROGRAM, &["backup", &name]));
        until("it writes", || is_writing(&work));
        process.signal(signal);
        process.finish().expect_code(code).expect_err("it was stopped");
        assert_eq!(names(&work), [""; 0]);
    }
    fs::remove_file(home.path().join("long")).expect("it is removed");
    let mut file = File::create(home.path().join("note")).expect("a file");
    file.write_all(b"mine").expect("it is written");
    backup(&home);
}

/// R11: what files held is erased while the backup is written, so the copied journal may need it: the backup is made anew.
#[test]
fn r11_a_backup_from_which_files_are_erased_meanwhile_is_made_anew() {
    let server = ModelServer::start().unwrap();
    let home = Home::new().served_by(&server);
    home.put("a.txt", "before\n");
    let arguments = json!({ "path": "a.txt", "content": "after\n" });
    home.run(&["agent", "-m", &format!("call:write {arguments}\ntokens=2")]).expect_code(0);
    let long = File::create(home.path().join("aaa")).expect("a file");
    long.set_len(4 << 30).expect("a file without content");
    let head = home.json(&["status"])["head"].as_u64().expect("a position");
    let work = home.user().join("work");
    fs::create_dir(&work).expect("a folder");
    let name = work.join("a.backup").display().to_string();
    let process = Process::spawn(home.program(PROGRAM, &["backup", "--json", &name]));
    until("it writes", || is_writing(&work));
    home.run(&["sessions", "delete", "main", "--yes"]).expect_code(0);
    let made: Value = serde_json::from_str(&process.finish().expect_code(0).out).expect("JSON");
    assert!(made["head"].as_u64() > Some(head), "the journal was copied again: {made} after {head}");
}

/// R11: nobody owns a home while it is restored, nor if that is cut off; the next restore completes it.
#[test]
fn r11_a_restore_that_is_cut_off_is_completed_by_the_next_one() {
    let home = Home::new();
    home.run(&["agent", "-m", "Who are you?"]).expect_code(0);
    let long = File::create(home.path().join("aaa")).expect("a file");
    long.set_len(1 << 30).expect("a file without content");
    backup(&home);
    let (name, other) = (file(&home).display().to_string(), home.user().join("other"));
    let restoring = || names(&other).into_iter().find(|name| name.starts_with(".restoring-"));
    let process = Process::spawn(at(&home, "other", &["restore", &name]));
    until("it unpacks", || other.exists() && restoring().is_some());
    run_at(&home, "other", &["restore", &name]).expect_code(75);
    process.kill();
    run_at(&home, "other", &["agent", "-m", "Who are you?"]).expect_code(74).expect_err("a restore into");
    // As if it had been moving already.
    fs::write(other.join("aaa"), "a part").expect("it is written");
    let left = restoring();
    let process = Process::spawn(at(&home, "other", &["restore", &name]));
    until("it unpacks", || restoring().is_some_and(|now| Some(now) != left));
    process.signal(Signal::TERM);
    process.finish().expect_code(143);
    run_at(&home, "other", &["agent", "-m", "Who are you?"]).expect_code(74).expect_err("a restore into");
    fs::remove_file(home.path().join("aaa")).expect("it is removed");
    fs::remove_file(file(&home)).expect("it is removed");
    backup(&home);
    restore(&home, "other");
    run_at(&home, "other", &["doctor", "--data"]).expect_code(0);
    run_at(&home, "other", &["agent", "-m", "tokens=3 Who are you?"]).expect_code(0);
}
