//! Real files of each kind, good and bad.

use std::fs;
use std::os::unix::fs::symlink;

use super::*;

struct Tree(tempfile::TempDir);

impl Tree {
    fn new() -> Self {
        let tree = Self(tempfile::tempdir().unwrap());
        for folder in ["user/own", "user/proj/.git", "user/proj/a/b", "user/plain/c"] {
            fs::create_dir_all(tree.at(folder)).unwrap();
        }
        tree
    }

    fn at(&self, path: &str) -> PathBuf {
        self.0.path().canonicalize().unwrap().join(path)
    }

    fn write(&self, path: &str, text: impl AsRef<[u8]>) {
        fs::write(self.at(path), text).unwrap();
    }

    fn read_within(&self, workspace: &str, most: usize) -> Vec<(String, Result<String, String>)> {
        let found = Bootstrap::find(&self.at(workspace), &self.at("user/own"), Some(&self.at("user")));
        let user = self.at("user");
        let files = found.read(&Protected::folder(self.at("user/own")), &Sandbox::default(), most).into_iter();
        files.map(|file| (file.path.strip_prefix(&user).unwrap().display().to_string(), file.text)).collect()
    }

    fn read(&self, workspace: &str) -> Vec<(String, Result<String, String>)> {
        self.read_within(workspace, usize::MAX)
    }
}

fn ok(path: &str, text: &str) -> (String, Result<String, String>) {
    (path.to_owned(), Ok(text.to_owned()))
}

#[test]
fn r41_instructions_are_those_of_the_user_then_from_the_root_of_the_project_to_the_workspace() {
    let tree = Tree::new();
    assert_eq!(tree.read("user/proj/a/b"), []);
    for (path, text) in [
        ("user/own/AGENTS.md", "own"),
        ("user/proj/AGENTS.md", "\u{feff}root\r\n"),
        // There is an AGENTS.md beside it.
        ("user/proj/CLAUDE.md", "not this"),
        ("user/proj/a/CLAUDE.md", "middle"),
        ("user/proj/a/b/AGENTS.md", "near"),
        // Above the project.
        ("user/AGENTS.md", "not this"),
        ("user/plain/AGENTS.md", "not this: it is no project"),
        ("user/plain/c/AGENTS.md", ""),
    ] {
        tree.write(path, text);
    }
    let own = ok("own/AGENTS.md", "own");
    let expected =
        [own.clone(), ok("proj/AGENTS.md", "root"), ok("proj/a/CLAUDE.md", "middle"), ok("proj/a/b/AGENTS.md", "near")];
    assert_eq!(tree.read("user/proj/a/b"), expected);
    assert_eq!(tree.read("user/proj"), expected[..2]);
    assert_eq!(tree.read("user/plain/c"), [own]);
}

#[test]
fn r41_a_long_file_keeps_its_beginning_and_its_end_and_the_nearest_files_are_kept_longest() {
    let tree = Tree::new();
    let long = "é".repeat(40 << 20);
    tree.write("user/proj/AGENTS.md", &long);
    let read = tree.read("user/proj");
    let text = read[0].1.as_ref().unwrap();
    assert!(text.len() < BOOTSTRAP_FILE_BYTES && text.len() > BOOTSTRAP_FILE_BYTES / 2, "{}", text.len());
    let (first, rest) = text.split_once('\n').unwrap();
    let (note, last) = rest.split_once('\n').unwrap();
    assert!(first.chars().chain(last.chars()).all(|c| c == 'é') && first.len() > 3 * last.len(), "{first} {last}");
    assert_eq!(note, "[80.0 MB are left out here]");
    tree.write("user/proj/a/AGENTS.md", "near ".repeat(20));
    let read = tree.read_within("user/proj/a", 120);
    let texts: Vec<_> = read.iter().map(|(_, text)| text.as_ref().unwrap().len()).collect();
    assert_eq!(texts[1], 99, "{read:?}");
    assert!(texts[0] < 70, "{read:?}");
}

#[test]
fn r41_instructions_that_cannot_be_read_are_named_and_block_nothing() {
    let tree = Tree::new();
    let check = |prepare: &dyn Fn(&Path), part: &str| {
        let path = tree.at("user/proj/AGENTS.md");
        prepare(&path);
        let read = tree.read("user/proj");
        let [(_, Err(why))] = &read[..] else { panic!("{part}: {read:?}") };
        assert!(why.contains(part), "{part}: {why}");
        if path.is_dir() { fs::remove_dir(path).unwrap() } else { fs::remove_file(path).unwrap() }
    };
    check(&|path| fs::write(path, b"caf\xe9 au lait").unwrap(), "it is not text in UTF-8");
    check(&|path| fs::write(path, b"a\0b").unwrap(), "it is not text in UTF-8");
    check(&|path| fs::create_dir(path).unwrap(), "is a folder");
    check(&|path| symlink("/etc/hostname", path).unwrap(), "leads out of");
    check(&|path| symlink("AGENTS.md", path).unwrap(), "loop");
    check(&|path| symlink("gone.md", path).unwrap(), "No such file");
    let fifo = |path: &Path| {
        rustix::fs::mknodat(rustix::fs::CWD, path, rustix::fs::FileType::Fifo, rustix::fs::Mode::RWXU, 0).unwrap();
    };
    check(&fifo, "AGENTS.md");
    // A home within the project is not for reading.
    let home = tree.at("user/proj/home");
    fs::create_dir(&home).unwrap();
    fs::write(home.join("config.toml"), "key").unwrap();
    symlink("home/config.toml", tree.at("user/proj/AGENTS.md")).unwrap();
    let found = Bootstrap::find(&tree.at("user/proj"), &tree.at("user/own"), None);
    let [BootstrapFile { text: Err(why), .. }] =
        &found.read(&Protected::folder(home), &Sandbox::default(), usize::MAX)[..]
    else {
        panic!("a file of limulus itself was read")
    };
    assert!(why.contains("limulus"), "{why}");
}

#[test]
fn r41_a_link_within_the_project_is_followed() {
    let tree = Tree::new();
    tree.write("user/proj/CLAUDE.md", "both");
    symlink("../CLAUDE.md", tree.at("user/proj/a/AGENTS.md")).unwrap();
    assert_eq!(tree.read("user/proj/a"), [ok("proj/CLAUDE.md", "both"), ok("proj/a/AGENTS.md", "both")]);
}

#[test]
fn r41_the_users_own_may_be_a_link_to_wherever_they_keep_it() {
    let tree = Tree::new();
    fs::create_dir(tree.at("user/dotfiles")).unwrap();
    tree.write("user/dotfiles/agents.md", "answer in French");
    symlink("../dotfiles/agents.md", tree.at("user/own/AGENTS.md")).unwrap();
    assert_eq!(tree.read("user/proj"), [ok("own/AGENTS.md", "answer in French")]);
    fs::remove_file(tree.at("user/dotfiles/agents.md")).unwrap();
    let read = tree.read("user/proj");
    assert!(matches!(&read[..], [(_, Err(why))] if why.contains("No such file")), "{read:?}");
}

/// R41: the other files of an agent are those of the user and of the workspace, in a fixed order, what changes most often last.
#[test]
fn r41_the_files_of_an_agent_come_after_the_instructions_in_a_fixed_order() {
    let tree = Tree::new();
    for name in
        ["MEMORY.md", "USER.md", "SOUL.md", "BOOTSTRAP.md", "HEARTBEAT.md", "IDENTITY.md", "TOOLS.md", "AGENTS.md"]
    {
        tree.write(&format!("user/proj/a/{name}"), name);
    }
    tree.write("user/own/SOUL.md", "own soul");
    tree.write("user/own/memory.md", "own memory");
    tree.write("user/proj/USER.md", "not this: it is above the workspace");
    let texts: Vec<_> = tree.read("user/proj/a").into_iter().map(|(_, text)| text.unwrap()).collect();
    let order =
        ["AGENTS.md", "own soul", "SOUL.md", "TOOLS.md", "IDENTITY.md", "USER.md", "HEARTBEAT.md", "BOOTSTRAP.md"];
    assert_eq!(texts, [&order[..], &["own memory", "MEMORY.md"]].concat());
    let found = Bootstrap::find(&tree.at("user/proj/a"), &tree.at("user/own"), None);
    assert!(found.has_first_session());
    let later = found.without_first_session();
    assert!(!later.has_first_session());
    assert_eq!(later.read(&Protected::default(), &Sandbox::default(), usize::MAX).len(), 9);
}

/// R41: a line `@PATH` stands for that file, inside the project; what cannot be included is named, and the rest is read.
#[test]
fn r41_a_bootstrap_file_includes_others_of_its_project() {
    let tree = Tree::new();
    let problems = |text: &str| {
        tree.write("user/proj/AGENTS.md", text);
        let found = Bootstrap::find(&tree.at("user/proj"), &tree.at("user/own"), Some(&tree.at("user")));
        let file = found.read(&Protected::default(), &Sandbox::default(), usize::MAX).remove(0);
        (file.text.unwrap(), file.problems)
    };
    tree.write("user/proj/a/rules.md", "use tabs\n@b/more.md\n");
    tree.write("user/proj/a/b/more.md", "and spaces\n\n");
    tree.write("user/secret.md", "SECRET");
    let (text, none) = problems("before\n  @a/rules.md\nafter @a/rules.md\n@name\n```\n@a/rules.md\n```\n");
    assert_eq!(
        text,
        "before\nuse tabs\nand spaces\n\nafter @a/rules.md\n@name\n```\n@a/rules.md\n```"
            .replace("spaces\n\n", "spaces\n")
    );
    assert_eq!(none, [] as [String; 0]);
    symlink("../secret.md", tree.at("user/proj/link.md")).unwrap();
    for outside in ["../secret.md", "link.md", "/etc/hostname", "~/secret.md", "a/../../secret.md"] {
        let (text, named) = problems(&format!("kept\n@{outside}\nkept too"));
        assert!(text.starts_with("kept\n[@") && text.ends_with("\nkept too"), "{outside}: {text}");
        assert!(!text.contains("SECRET") && named.len() == 1 && named[0].contains(outside), "{outside}: {named:?}");
    }
    tree.write("user/proj/one.md", "one\n@two.md");
    tree.write("user/proj/two.md", "two\n@one.md\n@AGENTS.md");
    let (text, named) = problems("@one.md");
    assert!(text.starts_with("one\ntwo\n[@one.md is left out: it includes itself]"), "{text}");
    assert_eq!(named.len(), 2, "{named:?}");
    (0..9).for_each(|n| tree.write(&format!("user/proj/n{n}.md"), format!("{n}\n@n{}.md", n + 1)));
    let (text, named) = problems("@n0.md");
    assert!(text.contains("over 5 files include each other") && !text.contains('7') && named.len() == 1, "{text}");
    tree.write("user/proj/large.md", "x".repeat(3_000));
    let (text, named) = problems(&"@large.md\n@gone.md\n".repeat(1_500));
    assert!(text.len() < 3 * BOOTSTRAP_FILE_BYTES, "{}", text.len());
    assert_eq!(named.len(), 20);
}

/// R41, R67: a project may be in a folder with keys (a repository of the whole home): none of them is included.
#[test]
fn r41_r67_what_is_hidden_from_commands_is_not_included() {
    let tree = Tree::new();
    fs::create_dir(tree.at("user/proj/private")).unwrap();
    tree.write("user/proj/private/key.md", "SECRET");
    symlink("private/key.md", tree.at("user/proj/alias.md")).unwrap();
    fs::hard_link(tree.at("user/proj/private/key.md"), tree.at("user/proj/other.md")).unwrap();
    symlink("private/key.md", tree.at("user/proj/SOUL.md")).unwrap();
    tree.write("user/proj/AGENTS.md", "@private/key.md\n@alias.md\n@other.md\nkept");
    tree.write("user/own/USER.md", "@config.toml\nkept");
    tree.write("user/own/config.toml", "SECRET");
    let text = |name: &str| tree.at(name).display().to_string();
    let hidden = vec![text("user/proj/private"), text("user/proj/private/key.md")];
    let sandbox = Sandbox { hidden, ..Sandbox::default() };
    let found = Bootstrap::find(&tree.at("user/proj"), &tree.at("user/own"), Some(&tree.at("user")));
    let files = found.read(&Protected::folder(tree.at("user/own")), &sandbox, usize::MAX);
    assert_eq!(files.len(), 3);
    assert!(!format!("{files:?}").contains("SECRET"), "{files:?}");
    assert_eq!(files.iter().map(|file| file.problems.len()).collect::<Vec<_>>(), [3, 0, 1]);
    assert!(files[1].text.is_err(), "{files:?}");
}
