//! Checks that the engine is pure: its dependencies, and the words that its sources must not contain. Its tests may
//! read files.

use super::Finding;
use crate::manifest::{Kind, Manifest};
use crate::rust_source::{code_of, line_of, tests_begin, words};
use crate::tree::Tree;

const MANIFEST: &str = "crates/engine/Cargo.toml";
const SOURCES: &str = "crates/engine/src/";
const TABLES: &str = "crates/engine/src/tables/";

const ALLOWED: [&str; 5] = ["blake3", "serde", "serde_json", "thiserror", "uuid"];
const ALLOWED_IN_TESTS: [&str; 1] = ["proptest"];

/// Words that the engine must not contain, each with the reason.
const WORDS: [(&str, &str); 9] = [
    ("async", "the loop cannot wait: return an effect"),
    ("await", "the loop cannot wait: return an effect"),
    ("Instant", "time is an input (Moment)"),
    ("SystemTime", "time is an input (Moment)"),
    ("HashMap", "its order varies: use BTreeMap"),
    ("HashSet", "its order varies: use BTreeSet"),
    ("rand", "randomness is an input (Moment::random)"),
    ("tokio", "the loop cannot wait: return an effect"),
    ("unsafe", "nothing here needs it"),
];

/// Modules of `std` that do I/O.
const MODULES: [&str; 5] = ["fs", "net", "thread", "process", "env"];

/// The engine depends only on crates that compute.
pub(super) fn dependencies(tree: &Tree) -> Vec<Finding> {
    let Some(file) = tree.file(MANIFEST) else { return vec![] };
    let is_allowed =
        |name: &str, kind: Kind| ALLOWED.contains(&name) || (kind == Kind::Dev && ALLOWED_IN_TESTS.contains(&name));
    let impure = Manifest::parse(&file.text).dependencies.into_iter().filter(|d| !is_allowed(&d.name, d.kind));
    impure
        .map(|dependency| {
            let repair = format!("the engine only computes; it may depend on {}", ALLOWED.join(", "));
            Finding::failure(MANIFEST, dependency.line, format!("depends on `{}`", dependency.name), repair)
        })
        .collect()
}

/// The engine's tables name neither the state nor the machine.
pub(super) fn tables(tree: &Tree) -> Vec<Finding> {
    let mut findings = vec![];
    for file in tree.with_ending(".rs").filter(|file| file.path.starts_with(TABLES)) {
        let code = code_of(&file.text);
        for module in ["crate::state", "crate::machine"] {
            findings.extend(code.match_indices(module).map(|(offset, _)| {
                let repair = "a table holds only data: reading the state belongs in `machine/`, counting in `state/`";
                Finding::failure(&file.path, line_of(&code, offset), format!("`{module}`"), repair)
            }));
        }
    }
    findings
}

/// The engine's sources use no clock, file or thread, and no collection with a varying order.
pub(super) fn sources(tree: &Tree) -> Vec<Finding> {
    let mut findings = vec![];
    for file in tree.with_ending(".rs").filter(|file| file.path.starts_with(SOURCES)) {
        let code = code_of(&file.text);
        let tests = tests_begin(&file.path, &code);
        for (offset, word) in words(&code) {
            let line = line_of(&code, offset);
            if line >= tests {
                break;
            }
            if let Some((_, repair)) = WORDS.iter().find(|(banned, _)| *banned == word) {
                findings.push(Finding::failure(&file.path, line, format!("`{word}`"), *repair));
            }
            if word == "std" {
                findings.extend(std_modules(&code[offset + word.len()..]).map(|module| {
                    Finding::failure(&file.path, line, format!("`std::{module}`"), "only effects do I/O")
                }));
            }
        }
    }
    findings
}

/// The modules with I/O that are named after this `std`, alone or in braces.
fn std_modules(behind: &str) -> impl Iterator<Item = &'static str> {
    let path = behind.strip_prefix("::").unwrap_or_default();
    let named = path.split(';').next().unwrap_or_default();
    let is_group = named.starts_with('{');
    let first = words(named).next().map(|(_, word)| word);
    MODULES.into_iter().filter(move |module| {
        if is_group { words(named).any(|(_, word)| word == *module) } else { first == Some(*module) }
    })
}

#[cfg(test)]
mod tests {
    use super::{dependencies, sources, tables};
    use crate::tidy::found;

    fn found_in(code: &str) -> Vec<String> {
        let found = found(sources, &[("crates/engine/src/pump.rs", code)]);
        found.iter().map(|line| line.trim_start_matches("crates/engine/src/pump.rs:").to_owned()).collect()
    }

    #[test]
    fn a_forbidden_dependency_is_found() {
        let manifest = "[dependencies]\nserde.workspace = true\ntokio.workspace = true\nproptest = \"1\"\n\
                        [dev-dependencies]\nproptest.workspace = true\n";
        let expected = ["tokio", "proptest"].map(|name| format!("depends on `{name}`"));
        let found = found(dependencies, &[("crates/engine/Cargo.toml", manifest)]);
        assert_eq!(
            found,
            [3, 4].iter().zip(expected).map(|(n, e)| format!("crates/engine/Cargo.toml:{n} {e}")).collect::<Vec<_>>()
        );
    }

    #[test]
    fn each_impure_word_is_found() {
        for (code, expected) in [
            ("async fn f() {}", "1 `async`"),
            ("\nx.await", "2 `await`"),
            ("use std::time::Instant;", "1 `Instant`"),
            ("use std::time::{Duration, SystemTime};", "1 `SystemTime`"),
            ("let m: HashMap<u8, u8>;", "1 `HashMap`"),
            ("let m: HashSet<u8>;", "1 `HashSet`"),
            ("rand::random()", "1 `rand`"),
            ("std::fs::read(p)", "1 `std::fs`"),
            ("use std::{\n  fmt,\n  net::TcpStream,\n};", "1 `std::net`"),
            ("std::thread::spawn(f)", "1 `std::thread`"),
        ] {
            assert_eq!(found_in(code), [expected], "{code}");
        }
    }

    #[test]
    fn comments_strings_and_tests_are_not_checked() {
        let code = "// async\nlet s = \"HashMap\";\nstd::fmt::Debug; instant(); std::mem::take(fs)\n\
                    #[cfg(test)]\nmod tests {\n  use std::fs;\n}\n";
        assert_eq!(found_in(code), [""; 0]);
        assert_eq!(found(sources, &[("crates/journal/src/lib.rs", "use std::fs;")]), [""; 0]);
    }

    #[test]
    fn a_table_that_reads_the_state_is_found() {
        let code = "use crate::settings::Limits;\n// crate::state is not for here\nuse crate::state::Run;\n\
                    fn f() { crate::machine::go() }\n";
        let path = "crates/engine/src/tables/timers.rs";
        let expected = ["3 `crate::state`", "4 `crate::machine`"].map(|line| format!("{path}:{line}"));
        assert_eq!(found(tables, &[(path, code)]), expected);
        assert_eq!(found(tables, &[("crates/engine/src/pump.rs", code)]), [""; 0]);
    }
}
