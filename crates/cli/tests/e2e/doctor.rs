//! Twelve damaged homes, made from a good one: what `limulus doctor` prints for each, and what the other commands do
//! with it. The pages are in `docs/doctor.md`; `UPDATE=1` writes them there.

use std::fmt::Write as _;
use std::fs;
use std::os::unix::fs::PermissionsExt as _;
use std::path::{Path, PathBuf};
use std::sync::OnceLock;

use journal::store_uncompressed;

use crate::support::{Home, until};

const PAGE_BYTES: usize = 4096;

/// A home with two sessions, closed in order; made once.
fn good() -> &'static Home {
    static GOOD: OnceLock<Home> = OnceLock::new();
    GOOD.get_or_init(|| {
        let home = Home::new();
        home.run(&["agent", "--yes", "-m", "run `echo once >> ledger`"]).expect_code(0);
        home.assert_usable("other");
        home
    })
}

/// A home whose process was killed: its last writes are only in the WAL. Made once.
fn killed() -> &'static Home {
    static KILLED: OnceLock<Home> = OnceLock::new();
    KILLED.get_or_init(|| {
        let home = Home::new();
        home.assert_usable("main");
        let home = home.paced(500);
        // An open read transaction prevents a checkpoint: all data stays in the WAL, also after the writer closes.
        let reader = rusqlite::Connection::open(database(&home)).expect("a journal");
        reader.execute_batch("BEGIN; SELECT count(*) FROM entries;").expect("it can be read");
        let agent = home.start(&["agent", "--session", "other", "--json", "-m", "tokens=400 Who are you?"]);
        agent.until_text(3);
        agent.kill();
        std::mem::forget(reader);
        home
    })
}

/// A home whose session is long enough for a snapshot. Made once.
fn long() -> &'static Home {
    static LONG: OnceLock<Home> = OnceLock::new();
    LONG.get_or_init(|| {
        let home = Home::new();
        (0..8).for_each(|_| home.assert_usable("main"));
        home
    })
}

/// A provider with two keys that no request uses.
fn with_two_keys(home: Home) -> Home {
    home.with("LIMULUS_PROVIDERS__ACME__API", "openai-chat")
        .with("LIMULUS_PROVIDERS__ACME__BASE_URL", "http://127.0.0.1:9/v1")
        .with("LIMULUS_PROVIDERS__ACME__PROFILES__0__NAME", "first")
        .with("LIMULUS_PROVIDERS__ACME__PROFILES__0__KEY", "not-a-secret")
        .with("LIMULUS_PROVIDERS__ACME__PROFILES__1__NAME", "second")
        .with("LIMULUS_PROVIDERS__ACME__PROFILES__1__KEY", "nor-is-this")
}

/// A home of its own with these files.
fn copy(of: &Home) -> Home {
    let home = Home::new();
    fs::create_dir(home.path()).expect("a folder for the copy");
    fs::set_permissions(home.path(), fs::Permissions::from_mode(0o700)).expect("it is ours");
    for name in ["journal.db", "journal.db-wal", "journal.mark"] {
        if of.path().join(name).exists() {
            fs::copy(of.path().join(name), home.path().join(name)).expect("a copy");
        }
    }
    home
}

fn database(home: &Home) -> PathBuf {
    home.path().join("journal.db")
}

fn change(path: &Path, how: impl FnOnce(&mut Vec<u8>)) {
    let mut bytes = fs::read(path).expect("a file of the home");
    how(&mut bytes);
    fs::write(path, bytes).expect("it can be written");
}

fn find_all(bytes: &[u8], wanted: &[u8]) -> Vec<usize> {
    let found: Vec<usize> = (0..bytes.len()).filter(|at| bytes[*at..].starts_with(wanted)).collect();
    assert!(!found.is_empty(), "the journal holds it");
    found
}

/// The name of a damage, what happened, and how it is made.
type Damage = (&'static str, &'static str, fn() -> Home);

const DAMAGES: [Damage; 12] = [
    ("payload", "One bit of an entry's payload was flipped.", || {
        let home = copy(good());
        store_uncompressed(&database(&home)).expect("nobody owns it");
        change(&database(&home), |bytes| {
            // A page that was split holds a second copy in its free part.
            for at in find_all(bytes, b"call_settled{\"call\"") {
                bytes[at + 13] ^= 1;
            }
        });
        home
    }),
    ("page", "One bit in the header of a page of the file was flipped.", || {
        let home = copy(good());
        store_uncompressed(&database(&home)).expect("nobody owns it");
        change(&database(&home), |bytes| {
            // The last match: a former leaf may have become the root when its table grew.
            let found = find_all(bytes, b"created{\"session\"");
            bytes[found[found.len() - 1] / PAGE_BYTES * PAGE_BYTES] ^= 0x40;
        });
        home
    }),
    ("truncated", "The file was truncated.", || {
        let home = copy(good());
        change(&database(&home), |bytes| bytes.truncate(bytes.len() - 4 * PAGE_BYTES));
        home
    }),
    ("lost-wal", "After a `kill -9`, `journal.db-wal` was deleted by someone who tidied up.", || {
        let home = copy(killed());
        fs::remove_file(home.path().join("journal.db-wal")).expect("there is a WAL after a kill");
        home
    }),
    ("stale-wal", "The WAL of another journal was put beside `journal.db`.", || {
        let home = copy(good());
        let wal = "journal.db-wal";
        fs::copy(killed().path().join(wal), home.path().join(wal)).expect("there is a WAL after a kill");
        home
    }),
    ("older", "Only `journal.db` was restored from an older backup.", || {
        let home = copy(good());
        let older = fs::read(database(&home)).expect("a journal");
        home.assert_usable("other");
        fs::write(database(&home), older).expect("it can be put back");
        home
    }),
    ("mark", "`journal.mark` was overwritten with other bytes.", || {
        let home = copy(good());
        change(&home.path().join("journal.mark"), |bytes| bytes[8..].fill(7));
        home
    }),
    ("snapshot", "A snapshot of a session was changed.", || {
        let home = copy(long());
        let journal = rusqlite::Connection::open(database(&home)).expect("a journal");
        let changed = journal.execute("UPDATE snapshots SET content = zeroblob(200)", []).expect("it can be changed");
        assert_eq!(changed, 1);
        home
    }),
    ("ledger", "The ledger's entry for a profile was changed.", || {
        let home = with_two_keys(copy(good()));
        for profile in ["first", "second"] {
            home.run(&["profiles", "use", &format!("acme/{profile}")]).expect_code(0);
        }
        store_uncompressed(&database(&home)).expect("nobody owns it");
        let journal = rusqlite::Connection::open(database(&home)).expect("a journal");
        let change =
            "UPDATE entries SET payload = replace(payload, 'second', 'secund') WHERE kind = 'profile_preferred'";
        assert_eq!(journal.execute(change, []).expect("it can be changed"), 2);
        home
    }),
    ("views", "Rows of the lists were changed and removed.", || {
        let home = copy(good());
        let journal = rusqlite::Connection::open(database(&home)).expect("a journal");
        let change = "DELETE FROM view_runs WHERE rowid = (SELECT min(rowid) FROM view_runs);
                      UPDATE view_sessions SET row = replace(row, '\"queued\":0', '\"queued\":3') WHERE key LIKE '%other';";
        journal.execute_batch(change).expect("they can be changed");
        home
    }),
    ("foreign", "Another program's file was put in the place of `journal.db`.", || {
        let home = copy(good());
        fs::write(database(&home), "not a database, but long enough to be taken for one by its size alone")
            .expect("it");
        home
    }),
    ("newer", "A newer limulus has written the home.", || {
        let home = copy(good());
        change(&database(&home), |bytes| bytes[60..64].copy_from_slice(&9u32.to_be_bytes()));
        home
    }),
];

/// The text without ids, sizes, times and paths, which differ between runs of the test.
fn plain(text: &str, home: &Home) -> String {
    let text = text.replace(&home.path().display().to_string(), "HOME");
    let mut plain = String::new();
    for line in text.split_inclusive('\n') {
        let mut words = line.split_inclusive([' ', ',', ';', ')']).peekable();
        while let Some(word) = words.next() {
            let end = word.len() - word.trim_end_matches([' ', ',', ';', ')', '`', '\n']).len();
            let (bare, end) = word.split_at(word.len() - end);
            let next = words.peek().map_or("", |next| next.trim_end_matches([' ', ',', ';', ')', '`', '\n']));
            let _ = write!(plain, "{}{end}", word_for(bare, next));
        }
    }
    plain
}

fn word_for(word: &str, next: &str) -> String {
    let is_hex = |text: &str| text.chars().all(|c| c.is_ascii_hexdigit());
    let is_number = !word.is_empty() && word.bytes().all(|b| b.is_ascii_digit());
    let id = word.split('@').next().unwrap_or_default();
    if id.len() == 36 && id.split('-').all(is_hex) {
        return word.replace(id, "BRANCH");
    }
    if word.len() == 64 && is_hex(word) {
        return "HASH".to_owned();
    }
    if word.starts_with("20") && word.ends_with('Z') {
        return "TIME".to_owned();
    }
    if let Some((name, time)) = word.rsplit_once('-')
        && time.len() == 16
        && time.ends_with('Z')
    {
        return format!("{name}-TIME");
    }
    if word.len() == 10 && word.starts_with("20") && word.matches('-').count() == 2 {
        return "DATE".to_owned();
    }
    if word.len() == 12 && word.matches(':').count() == 2 {
        return "TIME".to_owned();
    }
    let is_size = word.len() > 4 || matches!(next, "B" | "KiB" | "MiB" | "GiB" | "bytes");
    if is_number && is_size {
        return "N".to_owned();
    }
    word.to_owned()
}

/// How many entries lie before a page of the file depends on the digits of durations: the page says it twice, and the same.
fn without_layout(page: &str) -> String {
    let (_, good) = page.split_once("good up to BRANCH@").expect("where the good entries end");
    let good = good.lines().next().expect("a seq");
    assert!(good.parse::<u64>().is_ok_and(|good| good >= 10), "{page}");
    let counted = page.replacen(&format!(" {good} entries,"), " N entries,", 1);
    assert_ne!(counted, page, "as many entries were looked at: {page}");
    counted.replacen(&format!("BRANCH@{good}"), "BRANCH@N", 1)
}

fn page(home: &Home) -> String {
    let doctor = home.run(&["doctor", "--data"]);
    assert_eq!(doctor.code, Some(65), "{doctor:?}");
    format!("{}{}", plain(&doctor.out, home), plain(&doctor.err, home))
}

#[test]
fn r10_r18_each_damage_has_its_page() {
    let mut document = String::new();
    for (name, what, make) in DAMAGES {
        let home = make();
        let before = fs::read(database(&home)).expect("a file");
        let page = page(&home);
        assert_eq!(fs::read(database(&home)).expect("a file"), before, "{name}: looking changes nothing");
        let page = if name == "page" { without_layout(&page) } else { page };
        insta::assert_snapshot!(name, page);
        let _ = write!(document, "### {what}\n\n```text\n$ limulus doctor --data\n{page}```\n\n");
    }
    compare(&document);
}

/// Compares the pages with those in the document; `UPDATE=1` writes them.
fn compare(pages: &str) {
    const BEGIN: &str = "<!-- pages: begin -->\n\n";
    const END: &str = "<!-- pages: end -->";
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs/doctor.md");
    let text = fs::read_to_string(&path).expect("docs/doctor.md");
    let (head, rest) = text.split_once(BEGIN).expect("the mark before the pages");
    let (shown, tail) = rest.split_once(END).expect("the mark after the pages");
    if std::env::var_os("UPDATE").is_some() {
        fs::write(&path, format!("{head}{BEGIN}{pages}{END}{tail}")).expect("docs/doctor.md can be written");
    } else {
        assert!(shown == pages, "the pages in docs/doctor.md are old: run this test with UPDATE=1");
    }
}

#[test]
fn a_good_home_is_healthy_also_beside_its_owner_and_after_a_kill() {
    let home = copy(good());
    let doctor = home.run(&["doctor"]).expect_code(0);
    assert!(doctor.out.ends_with("✓ nothing is wrong\n") && doctor.err.is_empty(), "{doctor:?}");
    assert_eq!(home.run(&["doctor", "--quiet"]).expect_code(0).out, "");
    let json = home.json(&["doctor"]);
    assert_eq!((&json["healthy"], &json["checked"]["sessions"]), (&true.into(), &2.into()));
    assert!(killed().path().join("journal.db-wal").metadata().expect("a WAL").len() > 0);
    copy(killed()).run(&["doctor"]).expect_code(0);
    let home = home.paced(1000);
    let agent = home.start(&["agent", "--json", "-m", "tokens=400 Who are you?"]);
    agent.until_text(1);
    let beside = home.run(&["doctor"]).expect_code(0);
    assert!(beside.out.contains(&format!("pid {}", agent.pid())), "{beside:?}");
    drop(agent);
    Home::new().run(&["doctor", "--data"]).expect_code(4);
}

#[test]
fn r10_no_command_writes_to_a_home_that_is_damaged_as_a_whole() {
    for (name, _, make) in DAMAGES
        .iter()
        .filter(|(name, ..)| !["payload", "newer", "foreign", "page", "snapshot", "views", "ledger"].contains(name))
    {
        let home = make();
        let before = fs::read(database(&home)).expect("a file");
        for words in [&["agent", "-m", "Who are you?"][..], &["resume"]] {
            let refused = home.run(words).expect_code(65);
            assert!(refused.verdict().contains("`limulus doctor`"), "{name}: {words:?}: {refused:?}");
        }
        assert_eq!(fs::read(database(&home)).expect("a file"), before, "{name}: nothing is changed");
    }
}

#[test]
fn r10_r18_a_damaged_entry_closes_only_its_own_session() {
    let home = DAMAGES[0].2();
    let refused = home.run(&["agent", "-m", "Who are you?"]).expect_code(65);
    assert!(refused.verdict().contains("`limulus doctor`"), "{refused:?}");
    home.assert_usable("other");
    let audit = home.run(&["audit", "--verify"]).expect_code(65);
    assert!(audit.out.contains("✗ its payload does not match its hash"), "{audit:?}");
    assert!(audit.verdict().contains("agent:main:main is damaged from"), "{audit:?}");
    home.run(&["audit", "--state", "3"]).expect_code(0);
    home.run(&["audit", "--state", "16"]).expect_code(65);
    home.run(&["audit", "other", "--verify"]).expect_code(0);
}

/// A home in which one bit of the output of main's tool was flipped.
fn with_damaged_body() -> Home {
    let home = copy(good());
    let journal = rusqlite::Connection::open(database(&home)).expect("a journal");
    let one = "SELECT hash, content FROM bodies WHERE kind = 'output'";
    let (hash, mut content): (Vec<u8>, Vec<u8>) =
        journal.query_row(one, [], |row| Ok((row.get(0)?, row.get(1)?))).expect("the output of a tool");
    let middle = content.len() / 2;
    content[middle] ^= 4;
    let changed = journal.execute("UPDATE bodies SET content = ?2 WHERE hash = ?1", (hash, content));
    assert_eq!(changed.expect("it can be changed"), 1);
    home
}

#[test]
fn r10_r18_a_damaged_body_stops_only_its_own_session() {
    let home = with_damaged_body().paced(200);
    let later = home.start(&["agent", "--session", "later", "--json", "-m", "Who are you?"]);
    later.until_text(1);
    later.kill();
    let refused = home.run(&["agent", "-m", "Who are you?"]);
    assert_eq!(refused.code, Some(3), "{refused:?}");
    assert!(refused.err.contains("`limulus doctor`") && refused.err.contains("does not match its hash"), "{refused:?}");
    assert_eq!(lifecycle(&home, "main"), "error");
    // The other sessions are resumed, whether or not the damaged one is asked for again.
    home.run(&["resume", "main", "--force"]).expect_code(3);
    home.run(&["resume"]).expect_code(3);
    assert_eq!(lifecycle(&home, "later"), "idle");
    let home = home.paced(0);
    home.assert_usable("other");
    let found = home.run(&["doctor"]).expect_code(65);
    assert!(found.out.contains("a body is damaged"), "{found:?}");
    home.run(&["doctor", "--repair", "session:agent:main:main", "--yes"]).expect_code(0);
    home.run(&["doctor"]).expect_code(0);
    // The run that started after the damaged entry is in no list any more.
    let listed = home.json(&["runs", "list"]);
    let open = |run: &&serde_json::Value| run["ended_at"].is_null() && run["key"] == "agent:main:main";
    let runs = listed.as_array().expect("a list");
    assert!(runs.iter().filter(open).count() <= 1, "{listed}");
    assert!(runs.iter().all(|run| run["state"] != "preparing"), "{listed}");
    home.run(&["resume", "--force", "main"]);
    home.assert_usable("main");
}

#[test]
fn r10_r18_missing_tables_and_rows_are_found_and_rebuilt() {
    let cases = [
        ("DROP TABLE view_approvals", "views"),
        ("DELETE FROM owner", "export"),
        ("UPDATE sessions SET key = 'agent:main:new' WHERE key = 'agent:main:other'", "views"),
        ("DELETE FROM sessions WHERE key = 'agent:main:other'", "views"),
    ];
    for (sql, repair) in cases {
        let home = copy(good());
        rusqlite::Connection::open(database(&home)).expect("a journal").execute_batch(sql).expect("it can be changed");
        let found = home.run(&["doctor"]).expect_code(65);
        assert!(found.out.contains(&format!("limulus doctor --repair {repair}\n")), "{sql}: {found:?}");
        let refused = home.run(&["agent", "--session", "new", "-m", "Who are you?"]);
        assert!([0, 65].contains(&refused.code.expect("a code")), "{sql}: {refused:?}");
        assert!(refused.code == Some(0) || refused.verdict().contains("`limulus doctor`"), "{sql}: {refused:?}");
        home.run(&["doctor", "--repair", repair, "--yes"]).expect_code(0);
        home.run(&["doctor"]).expect_code(0);
        for session in ["main", "other", "new"] {
            home.assert_usable(session);
        }
    }
}

#[test]
fn r10_r18_a_session_without_a_readable_entry_is_refused_as_damaged() {
    let home = copy(good());
    let root: i64 = rusqlite::Connection::open(database(&home))
        .and_then(|it| it.query_row("SELECT rootpage FROM sqlite_schema WHERE name = 'entries'", [], |row| row.get(0)))
        .expect("a table");
    change(&database(&home), |bytes| bytes[(root as usize - 1) * PAGE_BYTES] ^= 0x40);
    let repaired = home.run(&["doctor", "--repair", "export", "--yes"]);
    assert!(repaired.out.contains("nothing could be read at positions 1 to "), "{repaired:?}");
    let refused = home.run(&["agent", "-m", "Who are you?"]).expect_code(65);
    assert!(refused.verdict().contains("`limulus doctor`"), "{refused:?}");
    home.run(&["doctor", "--repair", "session:agent:main:main", "--yes"]);
    home.assert_usable("main");
}

/// If a file is refused as a whole, the error does not claim that other sessions work; a missing body names no file.
#[test]
fn r10_a_refusal_is_accurate() {
    let refused = damaged("newer").run(&["agent", "-m", "Who are you?"]).expect_code(65);
    assert!(!refused.err.contains("other sessions"), "{refused:?}");
    assert!(refused.err.contains("use the newer limulus that wrote it"), "{refused:?}");
    let home = copy(good());
    let gone = "DELETE FROM bodies WHERE kind = 'output'";
    rusqlite::Connection::open(database(&home)).expect("a journal").execute_batch(gone).expect("it can be changed");
    let refused = home.run(&["agent", "-m", "Who are you?"]).expect_code(3);
    assert!(refused.err.contains("the journal is damaged (the body "), "{refused:?}");
}

fn lifecycle(home: &Home, session: &str) -> serde_json::Value {
    let sessions = home.json(&["sessions", "list"]);
    let key = format!("agent:main:{session}");
    let found = sessions.as_array().and_then(|all| all.iter().find(|row| row["key"] == key.as_str()));
    found.expect("it is listed")["lifecycle"].clone()
}

#[test]
fn r10_r18_an_owner_serves_the_others_beside_a_damaged_body() {
    let home = with_damaged_body();
    let owner = home.start(&["serve"]);
    owner.until_err("serving");
    let refused = home.run(&["agent", "-m", "Who are you?"]);
    assert_ne!(refused.code, Some(0), "{refused:?}");
    assert!(refused.err.contains("`limulus doctor`"), "{refused:?}");
    home.assert_usable("other");
    // The next owner finds the session in the same state.
    owner.kill();
    let owner = home.start(&["serve"]);
    owner.until_err("serving");
    home.run(&["runs", "resume", "--session", "main"]);
    home.assert_usable("other");
    assert_eq!(lifecycle(&home, "main"), "error");
    drop(owner);
}

/// A home with this damage.
pub(crate) fn damaged(name: &str) -> Home {
    let (_, _, make) = DAMAGES.iter().find(|(known, ..)| *known == name).expect("a damage of that name");
    make()
}

/// Repairs the home and returns the output. The exit code says whether a finding is left.
fn repair(home: &Home, what: &str, code: i32) -> String {
    let asked = home.run(&["doctor", "--repair", what]).expect_code(3);
    assert!(asked.verdict().contains("--yes"), "{asked:?}");
    let repaired = home.run(&["doctor", "--repair", what, "--yes"]).expect_code(code);
    let again = home.run(&["doctor", "--repair", what, "--yes"]).expect_code(3);
    assert!(again.verdict().contains("nothing here needs the repair"), "{again:?}");
    plain(&repaired.out, home)
}

#[test]
fn r10_a_repaired_home_is_clean_and_its_sessions_answer() {
    let repairs = [
        ("payload", "session:agent:main:main"),
        ("lost-wal", "loss"),
        ("stale-wal", "wal"),
        ("older", "loss"),
        ("mark", "loss"),
        ("snapshot", "snapshot:agent:main:main"),
        ("ledger", "ledger"),
    ];
    for (name, what) in repairs {
        let home = damaged(name);
        let said = repair(&home, what, 0);
        insta::assert_snapshot!(format!("repair-{name}"), said);
        home.run(&["doctor"]).expect_code(0);
        for session in ["main", "other"] {
            // A run that was unfinished at the last intact entry needs a human first.
            if said.contains(&format!("agent:main:{session} needs a human")) {
                let refused = home.run(&["agent", "--session", session, "-m", "Who are you?"]).expect_code(3);
                assert!(refused.verdict().contains("--force"), "{name}: {refused:?}");
                home.run(&["resume", session, "--force"]).expect_code(0);
            }
            home.assert_usable(session);
        }
        home.run(&["doctor"]).expect_code(0);
        home.run(&["audit", "--verify"]).expect_code(0);
    }
}

/// R10, R18: damage before a good snapshot is a gap in the audit log, and no session is refused because of it.
#[test]
fn r10_r18_damage_before_a_good_snapshot_stops_no_session_and_is_reported() {
    let home = copy(long());
    let journal = rusqlite::Connection::open(database(&home)).expect("a journal");
    let change = "UPDATE entries SET at = at + 1 WHERE seq = 5 AND branch = (SELECT branch FROM snapshots)";
    assert_eq!(journal.execute(change, []).expect("it can be changed"), 1);
    let said = home.run(&["doctor"]).expect_code(65).out;
    assert!(said.contains("agent:main:main continues from a later snapshot") && !said.contains("is refused"), "{said}");
    home.run(&["audit", "main", "--verify"]).expect_code(65);
    home.run(&["agent", "-m", "Who are you?"]).expect_code(0);
}

#[test]
fn r10_lists_are_rebuilt_by_command() {
    let home = damaged("views");
    let lists = |home: &Home| ["sessions", "runs"].map(|list| home.run(&[list, "list", "--json"]).out);
    assert_ne!(lists(&home), lists(good()));
    let asked = home.run(&["doctor", "--repair", "views"]).expect_code(3);
    assert!(asked.verdict().contains("--yes"), "{asked:?}");
    let repaired = home.run(&["doctor", "--repair", "views", "--yes"]).expect_code(0);
    insta::assert_snapshot!("repair-views", plain(&repaired.out, &home));
    assert_eq!(lists(&home), lists(good()));
    // At will, too, and with the same result.
    home.run(&["doctor", "--repair", "views", "--yes"]).expect_code(0);
    assert_eq!(lists(&home), lists(good()));
}

/// R10: a dictionary is put back, and until then everything can be read here.
#[test]
fn r10_a_lost_dictionary_is_reported_and_put_back() {
    let home = copy(good());
    let journal = rusqlite::Connection::open(database(&home)).expect("a journal");
    journal.execute_batch("UPDATE dictionaries SET bytes = x'00'").expect("it can be changed");
    drop(journal);
    let found = home.run(&["doctor"]).expect_code(65);
    assert!(found.out.contains("limulus doctor --repair dictionaries\n"), "{found:?}");
    home.run(&["audit", "--verify"]).expect_code(0);
    home.run(&["doctor", "--repair", "dictionaries", "--yes"]).expect_code(0);
    home.run(&["doctor"]).expect_code(0);
}

/// R10: a home of a limulus that did not count tokens, calls and time for budgets in its lists is not damaged.
#[test]
fn r10_rows_that_an_older_limulus_wrote_are_sound() {
    let home = copy(good());
    let journal = rusqlite::Connection::open(database(&home)).expect("a journal");
    store_uncompressed(&database(&home)).expect("nobody owns it");
    let older = "UPDATE view_runs SET row = json_remove(row, '$.tokens', '$.calls', '$.wall_ms')";
    assert!(journal.execute(older, []).expect("it can be changed") > 0);
    home.run(&["doctor"]).expect_code(0);
    journal.execute("UPDATE view_runs SET row = json_set(row, '$.calls', 7)", []).expect("it can be changed");
    home.run(&["doctor"]).expect_code(65);
}

#[test]
fn r10_r13_a_run_with_possibly_lost_entries_needs_a_human() {
    let home = copy(killed());
    change(&home.path().join("journal.mark"), |bytes| bytes[0] += 5);
    let said = repair(&home, "loss", 0);
    assert!(said.contains("agent:main:other needs a human"), "{said}");
    let resumed = home.run(&["resume"]).expect_code(3);
    assert!(resumed.verdict().contains("`limulus resume agent:main:other --force`"), "{resumed:?}");
    home.run(&["resume", "other", "--force"]).expect_code(0);
    home.assert_usable("other");
    home.run(&["audit", "other", "--verify"]).expect_code(0);
}

#[test]
fn r10_r13_a_salvaged_session_continues_in_a_new_branch_and_nothing_is_executed_again() {
    let home = damaged("payload");
    let lines = home.run(&["audit", "--json"]).expect_code(65).lines();
    let old = lines[0]["branch"].as_str().expect("a branch").to_owned();
    repair(&home, "session:agent:main:main", 0);
    // The command was executed; the entry of that is in the corrupt part.
    home.run(&["resume", "main", "--force"]).expect_code(0);
    assert_eq!(home.text("ledger"), "", "the command of the copied home is not run a second time");
    let lines = home.run(&["audit", "--json", "--verify"]).expect_code(0).lines();
    let seam = lines.iter().position(|line| line["event"] == "forked").expect("the new branch begins with it");
    assert_eq!((lines[seam - 1]["branch"].as_str(), &lines[seam]["seq"]), (Some(old.as_str()), &1.into()));
    assert_eq!(lines[seam - 1]["seq"], 14);
    // The damaged branch can still be audited.
    let audit = home.run(&["audit", "--branch", &old]).expect_code(65);
    assert!(audit.out.contains("✗ its payload does not match its hash"), "{audit:?}");
    home.run(&["sessions", "show"]).expect_code(0);
    home.run(&["runs", "list"]).expect_code(0);
    home.run(&["resume"]).expect_code(0);
}

#[test]
fn r10_readable_rows_are_exported_and_lost_ones_are_listed() {
    let home = damaged("page");
    // One session has lost its first entries: it cannot be salvaged, and its user decides whether it is quarantined.
    let said = repair(&home, "export", 65);
    assert!(said.contains("nothing could be read at positions"), "{said}");
    assert!(said.contains("session agent:main:other is refused"), "{said}");
    assert!(said.contains("--repair session:agent:main:other"), "{said}");
    assert!(said.contains("agent:main:main needs a human"), "{said}");
    home.run(&["resume", "main", "--force"]).expect_code(0);
    home.assert_usable("main");
    let kept = fs::read_dir(home.path()).expect("a folder").flatten();
    assert_eq!(kept.filter(|file| file.file_name().to_string_lossy().starts_with("journal.db.damaged-")).count(), 1);
    home.run(&["agent", "--session", "new", "-m", "Who are you?"]).expect_code(0);

    let said = repair(&home, "session:agent:main:other", 0);
    assert!(said.contains("agent:main:other is quarantined"), "{said}");
    let lists = home.run(&["sessions", "list"]).expect_code(0);
    assert!(!lists.out.contains("agent:main:other"), "{lists:?}");
    let doctor = home.run(&["doctor"]).expect_code(0).out;
    let branch = doctor.split("no session uses ").nth(1).and_then(|rest| rest.split(':').next()).expect("a branch");
    let audit = home.run(&["audit", "--branch", branch]).expect_code(65);
    assert!(audit.out.contains("closed") && audit.out.contains("the entries before it are missing"), "{audit:?}");
    // Its key is free.
    home.assert_usable("other");
    home.run(&["doctor", "--repair", "collect", "--yes"]).expect_code(0);
    home.run(&["audit", "other", "--verify"]).expect_code(0);
}

#[test]
fn r10_unused_content_is_reported_and_removed_by_command() {
    let home = copy(good());
    store_uncompressed(&database(&home)).expect("nobody owns it");
    let journal = rusqlite::Connection::open(database(&home)).expect("a journal");
    let bodies = "INSERT INTO bodies SELECT randomblob(32), 'message', 3, 'raw', x'010203' FROM bodies;
                  INSERT INTO progress SELECT branch, (payload ->> 'run') || '/request/1/1', 0, at, 'text_added', x'78'
                  FROM entries WHERE kind = 'run_ended' LIMIT 1";
    journal.execute_batch(bodies).expect("it can be written");
    drop(journal);
    let run = home.json(&["runs", "list"])[0]["run"].as_str().expect("a run").to_owned();
    let call = home.path().join("calls").join(format!("{run}.run_call.9.1"));
    fs::create_dir_all(&call).expect("a folder");
    fs::write(call.join("exit.json"), r#"{"bytes":0,"survivors":[],"started_at":0,"ended_at":0}"#).expect("a file");
    fs::write(home.path().join("calls/notes"), "mine").expect("a file");

    let report = home.run(&["doctor"]).expect_code(0).out;
    for part in [
        "9 bodies (27 B) and 1 piece of output that nothing refers to",
        "1 folder in calls/",
        "calls/notes was not created by limulus",
    ] {
        assert!(report.contains(part), "{part}: {report}");
    }
    assert_eq!(home.json(&["doctor"])["collectable"], serde_json::json!({"bodies": 9, "bytes": 27, "progress": 1}));
    let asked = home.run(&["doctor", "--repair", "collect"]).expect_code(3);
    assert!(asked.verdict().contains("--yes") && call.exists(), "{asked:?}");
    let did = home.run(&["doctor", "--repair", "collect", "--yes"]).expect_code(0).out;
    assert!(
        did.contains(
            "→ 9 bodies (27 B) and 1 piece of output that nothing refers to are removed, and 1 folder in calls/"
        ),
        "{did}"
    );
    assert!(!did.contains("--repair collect") && !call.exists() && home.path().join("calls/notes").exists(), "{did}");
    home.assert_usable("main");
    // In a damaged home nobody knows what is unused.
    let home = damaged("payload");
    let refused = home.run(&["doctor", "--repair", "collect", "--yes"]).expect_code(3);
    assert!(refused.verdict().contains("repair that first"), "{refused:?}");
}

#[test]
fn r13_nothing_of_a_call_that_is_open_is_collected() {
    let home = Home::new();
    let agent = home.start(&[
        "agent",
        "--yes",
        "--json",
        "-m",
        "run `echo $$ >> pids; while test ! -e go; do sleep 0.05; done; echo done`",
    ]);
    until("the command runs", || !home.text("pids").is_empty());
    agent.kill();
    let calls = || fs::read_dir(home.path().join("calls")).expect("a folder").count();
    assert_eq!(calls(), 2, "its folder, and the listing before it");
    home.run(&["doctor", "--repair", "collect", "--yes"]).expect_code(0);
    home.put("go", "");
    until("the command ends", || home.exit_records() == 1);
    home.run(&["doctor", "--repair", "collect", "--yes"]).expect_code(0);
    assert_eq!(calls(), 2, "its result is not recorded yet");
    let resumed = home.run(&["resume"]).expect_code(0);
    let call = &home.json(&["runs", "show"])["steps"][0]["calls"][0];
    assert!(call["output"].as_str().is_some_and(|output| output.contains("done")), "{call} {resumed:?}");
    assert_eq!(calls(), 0);
}
