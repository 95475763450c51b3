//! Undo after any drawn sequence of file tools, commands and kills, through the whole program: the tree is what it was, or what
//! is not is named.

use std::collections::BTreeMap;
use std::fs;
use std::os::unix::fs::{MetadataExt as _, PermissionsExt as _};
use std::path::Path;

use model_server::ModelServer;
use serde_json::{Value, json};

use crate::support::Home;

/// Where a kill may come, beside nowhere. Two of them come in the undo itself.
const KILLS: [&str; 9] = [
    "accepted",
    "request_sent",
    "sealed",
    "intent_synced",
    "mid_call",
    "call_ended",
    "recorded:7",
    "recorded:12",
    "undo_started",
];

/// Numbers that are the same for the same seed.
struct Draw(u64);

impl Draw {
    fn below(&mut self, most: usize) -> usize {
        // The constants of Knuth's generator for 64 bits.
        self.0 = self.0.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        (self.0 >> 33) as usize % most
    }

    fn one<'a>(&mut self, of: &[&'a str]) -> &'a str {
        of[self.below(of.len())]
    }

    /// A command on a file with several names.
    fn of_link(&mut self, number: usize) -> String {
        let [name, other] = [self.one(&["h1", "d/h2", "h3"]), self.one(&["h1", "d/h2", "h3"])];
        match self.below(5) {
            0 => format!("echo {number} >> {name}"),
            1 => format!("rm -f {name} {other}"),
            2 => format!("cp {name} copy 2>/dev/null && echo {number} >> copy && mv copy {name}"),
            3 => format!("mv {name} moved{number} 2>/dev/null; chmod 6{}0 {other}", number % 8),
            _ => format!("ln -f {name} {other} 2>/dev/null"),
        }
    }

    /// A step of a script.
    fn step(&mut self) -> String {
        let path = self.one(&["a.txt", "b.txt", "d/c.txt", "d/e/f.txt", "new/x.txt", "s.sh"]);
        let other = self.one(&["a.txt", "d", "moved", "d/e", "new", "link"]);
        let number = self.below(1_000);
        let call = |tool: &str, arguments: &Value| format!("call:{tool} {arguments}");
        match self.below(14) {
            0..3 => call("write", &json!({ "path": path, "content": format!("written {number}\n") })),
            3 => call("edit", &json!({ "path": path, "old_text": "one", "new_text": format!("{number}") })),
            4 => {
                let input = format!("*** Begin Patch\n*** Add File: p{number}.txt\n+added\n*** End Patch");
                call("apply_patch", &json!({ "input": input }))
            }
            5 => format!("exec:echo {number} >> {path}"),
            6 => format!("exec:rm -rf {other}"),
            7 => format!("exec:mv {path} moved{number} 2>/dev/null; mkdir -p empty{number}/deep"),
            8 => format!("exec:ln -sfn {other} link; chmod 7{}0 {path}", number % 8),
            9 => format!("exec:echo begun > {path}; sleep 0.2; echo {number} > {path}; exit {}", number % 2),
            10 => format!("exec:{}", self.of_link(number)),
            11 => format!("exec:ln -f h1 h{number}; {}", self.of_link(number)),
            12 => "exec:for f in $(find . -type f); do echo more >> $f; done".to_owned(),
            _ => format!("exec:rm -f {path}; mkdir -p {path}; touch {path}/inner"),
        }
    }
}

/// What is in a folder: kind, permissions and content of each path.
fn tree(folder: &Path) -> BTreeMap<String, (u32, String)> {
    fn walk(root: &Path, folder: &Path, found: &mut BTreeMap<String, (u32, String)>) {
        for entry in fs::read_dir(folder).expect("a folder").map(|entry| entry.expect("an entry")) {
            let (path, meta) = (entry.path(), entry.metadata().expect("it is there"));
            let name = path.strip_prefix(root).expect("below").display().to_string();
            let mode = meta.permissions().mode();
            if meta.is_dir() {
                found.insert(name, (mode, String::new()));
                walk(root, &path, found);
            } else if meta.is_symlink() {
                // A link has no permissions of its own.
                found.insert(name, (0, fs::read_link(&path).expect("a link").display().to_string()));
            } else {
                found.insert(name, (mode, fs::read_to_string(&path).expect("a text")));
            }
        }
    }
    let mut found = BTreeMap::new();
    walk(folder, folder, &mut found);
    found
}

fn drawn(seed: u64) {
    let mut draw = Draw(seed);
    let server = ModelServer::start().expect("a server");
    let home = Home::new().served_by(&server);
    for folder in ["d/e", "hollow"] {
        fs::create_dir_all(home.file(folder)).expect("a folder");
    }
    for (name, text) in [("a.txt", "one\n"), ("b.txt", "one\ntwo\n"), ("d/c.txt", "one\n"), ("s.sh", "#!/bin/sh\n")] {
        home.put(name, text);
    }
    fs::set_permissions(home.file("s.sh"), fs::Permissions::from_mode(0o750)).expect("its mode");
    home.put("h1", "linked\n");
    for name in ["d/h2", "h3"] {
        fs::hard_link(home.file("h1"), home.file(name)).expect("a link");
    }
    let before = tree(&home.file(""));
    let (mut did, mut reports) = (vec![], vec![]);
    for _ in 0..3 {
        let steps: Vec<String> = (0..=draw.below(4)).map(|_| draw.step()).collect();
        let script = steps.join("\n") + "\ntokens=2";
        let kill = if draw.below(2) == 0 { None } else { Some(draw.one(&KILLS)) };
        did.push(format!("run, kill at {kill:?}: {script}"));
        let mut agent = home.limulus(&["agent", "--yes", "-m", &script]);
        if let Some(kill) = kill {
            agent.env("LIMULUS_CRASHPOINT", kill);
        }
        agent.output().expect("limulus can be started");
        home.run(&["resume"]);
    }
    // Run by run, until nothing is left to take back.
    for round in 0.. {
        let kill = if draw.below(3) == 0 { Some(draw.one(&["undo_started", "undo_done"])) } else { None };
        let mut undo = home.limulus(&["undo", "--yes", "--force"]);
        if let Some(kill) = kill {
            undo.env("LIMULUS_CRASHPOINT", kill);
        }
        let undone = undo.output().expect("limulus can be started");
        let text = [undone.stdout, undone.stderr].map(|bytes| String::from_utf8_lossy(&bytes).into_owned()).concat();
        reports.push(format!("undo, kill at {kill:?}: {:?}\n{text}", undone.status));
        home.run(&["resume"]);
        if undone.status.code() == Some(3) {
            break;
        }
        assert!(round < 12, "seed {seed}: it never ends\n{did:#?}\n{reports:#?}");
    }
    let after = tree(&home.file(""));
    let differs = |name: &&String| before.get(*name) != after.get(*name);
    let is_named = |name: &&String| reports.iter().any(|report| report.contains(&format!("{name}: ")));
    let unnamed: Vec<&String> =
        before.keys().chain(after.keys()).filter(differs).filter(|name| !is_named(name)).collect();
    assert!(unnamed.is_empty(), "seed {seed}: {unnamed:?}\n{before:?}\n{after:?}\n{did:#?}\n{reports:#?}");
    let inode = |name: &str| fs::symlink_metadata(home.file(name)).map(|meta| meta.ino()).ok();
    let (first, others) = (inode("h1"), ["d/h2", "h3"]);
    let separate: Vec<&&str> =
        others.iter().filter(|name| inode(name) != first && !is_named(&&(**name).to_owned())).collect();
    let is_first_named = is_named(&&"h1".to_owned());
    assert!(separate.is_empty() || is_first_named, "seed {seed}: {separate:?}\n{did:#?}\n{reports:#?}");
    home.run(&["audit", "--verify"]).expect_code(0);
    assert_eq!(server.violations(), [""; 0]);
}

/// R17: as the page about undo promises. `DRAWN_SEEDS=60` looks at so many; 18 is one that has failed: the content of an empty file
/// was not kept.
#[test]
fn r17_undo_gives_back_the_tree_after_any_drawn_run_or_names_what_it_cannot() {
    let most = std::env::var("DRAWN_SEEDS").ok().and_then(|most| most.parse().ok()).unwrap_or(8);
    for seed in (1..=most).chain([18]) {
        drawn(seed);
    }
}
