//! What the READMEs say: every command of a block is executed in order in one folder, every command in a sentence exists, and
//! both languages have the same structure.

use std::fs;
use std::os::unix::fs::symlink;
use std::path::Path;

use crate::support::{Home, PROGRAM, is_as_shown, with_names};

const PAGES: [&str; 2] = ["README.md", "README.zh-CN.md"];

/// The commands that this test does not execute, each with the reason.
const ELSEWHERE: &[(&str, &str)] = &[
    ("cargo xtask test", "the whole proof, of which this test is a part; `.ci/run` calls it"),
    (
        "cargo install --locked --path crates/cli",
        "a release build of several minutes; docs/install.md says when it was tried",
    ),
    (
        "export ANTHROPIC_API_KEY=…",
        "a key, which only the reader has; the tests of `providers` use one with a server of their own",
    ),
    ("limulus setup", "asks on a terminal; the tests of `setup` answer it"),
];

/// What a block does that is about another terminal: it needs a run that works.
const NEEDS_A_RUN: &str = "limulus runs steer";

/// A block of a page.
struct Block {
    language: String,
    text: String,
}

fn page(name: &str) -> String {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..").join(name);
    fs::read_to_string(&path).unwrap_or_else(|error| panic!("{}: {error}", path.display()))
}

fn blocks(page: &str) -> Vec<Block> {
    let parts = page.split("\n```").skip(1).step_by(2);
    let block = |part: &str| part.split_once('\n').map(|(language, text)| (language.to_owned(), text.to_owned()));
    parts.map(|part| block(part).expect("a block has lines")).map(|(language, text)| Block { language, text }).collect()
}

/// The command of a line, without its comment.
fn command(line: &str) -> &str {
    line.split("  #").next().unwrap_or_default().trim_end()
}

fn reason(line: &str) -> Option<&'static str> {
    ELSEWHERE.iter().find(|(known, _)| *known == command(line)).map(|(_, reason)| *reason)
}

/// A home whose shell finds `limulus` by its name.
fn newcomer() -> Home {
    let home = Home::new();
    let programs = home.user().join("bin");
    fs::create_dir(&programs).expect("a folder");
    symlink(PROGRAM, programs.join("limulus")).expect("a link");
    let path = format!("{}:{}", programs.display(), std::env::var("PATH").unwrap_or_default());
    home.with("PATH", &path)
}

/// The lines of a script, as a reader types them. What cargo runs is the program that is tested.
fn script(home: &Home, text: &str) {
    let lines: Vec<String> = text.lines().filter(|line| reason(line).is_none()).map(str::to_owned).collect();
    let lines = lines.join("\n").replace("cargo run --release -- ", "limulus ");
    if lines.contains(NEEDS_A_RUN) {
        let run = home.start(&["agent", "--yes", "-m", "run `sleep 300`"]);
        run.until_err("▸ exec");
        home.shell(&format!("set -e\n{lines}")).expect_code(0);
        // The block ends with the abort of the run.
        run.finish().expect_code(130);
        // What was to steer it is answered by a run of its own.
        home.run(&["resume"]).expect_code(0);
    } else {
        home.shell(&format!("set -e\n{lines}")).expect_code(0);
    }
}

fn examples(home: &Home, text: &str) {
    for example in format!("\n{text}").split("\n$ ").skip(1) {
        let (line, shown) = example.split_once('\n').unwrap_or((example, ""));
        let shown = if shown.is_empty() || shown.ends_with('\n') { shown.to_owned() } else { format!("{shown}\n") };
        let ended = home.shell(line).expect_code(0);
        let printed = with_names(&ended.out);
        assert!(is_as_shown(&printed, &shown), "$ {line}\nprints\n{printed}\nand not\n{shown}\n{}", ended.err);
    }
}

#[test]
fn r61_every_command_of_a_readme_does_what_it_says() {
    for name in PAGES {
        let (page, home) = (page(name), newcomer());
        home.put("README.md", "# Pond\n\nA pond.\n");
        let mut executed = 0;
        for Block { language, text } in blocks(&page) {
            executed += 1;
            match language.as_str() {
                "sh" => script(&home, &text),
                "console" => examples(&home, &text),
                "text" => executed -= 1,
                other => panic!("{name} has a block of the language {other:?}, which nobody executes:\n{text}"),
            }
        }
        assert!(executed > 6, "{name}: {executed}");
        assert_eq!(
            home.text("out.txt"),
            "1\n2\n3\n4\n5\n",
            "{name}: killed and resumed, the command did its work once"
        );
    }
}

#[test]
fn a_command_that_is_not_executed_has_its_reason() {
    let pages = PAGES.map(page);
    for (known, _) in ELSEWHERE {
        for (name, page) in PAGES.iter().zip(&pages) {
            let is_used = blocks(page).iter().any(|block| block.text.lines().any(|line| command(line) == *known));
            assert!(is_used, "{name} does not have `{known}`");
        }
    }
    assert_eq!(command("limulus resume   # go on"), "limulus resume");
}

/// Also of a command in a sentence, the words up to the first argument are a command with a help.
#[test]
fn r61_every_command_that_a_readme_names_exists() {
    let home = Home::new();
    let is_word =
        |word: &&str| word.bytes().all(|byte| byte.is_ascii_lowercase() || byte == b'-') && !word.starts_with('-');
    let mut found = 0;
    for name in PAGES {
        let page = page(name);
        for code in page.split("\n```").step_by(2).flat_map(|prose| prose.split('`').skip(1).step_by(2)) {
            let Some(words) = code.strip_prefix("limulus ") else { continue };
            let words: Vec<&str> = words.split(' ').take_while(is_word).collect();
            if !words.is_empty() {
                found += 1;
                home.run(&[&words[..], &["--help"]].concat()).expect_code(0);
            }
        }
    }
    assert!(found > 20, "{found}");
}

#[test]
fn both_readmes_have_the_same_structure() {
    let [english, chinese] = PAGES.map(page);
    let headings = |page: &str| -> Vec<usize> {
        let prose: String = page.split("\n```").step_by(2).collect();
        prose
            .lines()
            .filter(|line| line.starts_with('#'))
            .map(|line| line.len() - line.trim_start_matches('#').len())
            .collect()
    };
    let languages = |page: &str| blocks(page).into_iter().map(|block| block.language).collect::<Vec<_>>();
    let lengths = |page: &str| blocks(page).into_iter().map(|block| block.text.lines().count()).collect::<Vec<_>>();
    let links = |page: &str| -> Vec<String> {
        let targets = page.split("](").skip(1).filter_map(|rest| rest.split(')').next().map(str::to_owned));
        targets.filter(|target| !target.starts_with("README")).collect()
    };
    let items = |page: &str| page.lines().filter(|line| line.starts_with("- ") || line.starts_with("| ")).count();
    assert_eq!(headings(&english), headings(&chinese));
    assert_eq!(languages(&english), languages(&chinese));
    assert_eq!(lengths(&english), lengths(&chinese));
    assert_eq!(links(&english), links(&chinese));
    assert_eq!(items(&english), items(&chinese));
}
