//! Checks that a name of a public type occurs once, so that a search finds one type.

use std::collections::BTreeMap;

use super::Finding;
use crate::rust_source::{code_of, line_of, tests_begin, words};
use crate::tree::Tree;

/// Names that several crates may have, each with its reason.
const SHARED: [(&str, &str); 2] = [
    ("Error", "each crate has one enum of its errors, written `journal::Error`"),
    ("Message", "the engine's is in a queue, the adapters' in a request: both are the field's term"),
];

/// Crates of tests and measurements mirror the product's types on purpose.
const DEV_CRATES: [&str; 6] =
    ["crates/bench/", "crates/faulty-vfs/", "crates/model-server/", "crates/simulator/", "crates/testkit/", "xtask/"];

/// A wire type may have the name of the type that it shows: `protocol::LaneWait` is the JSON of `engine::LaneWait`.
const WIRE: &str = "crates/protocol/";

/// The names of public types in the product's crates are unique.
pub(super) fn unique(tree: &Tree) -> Vec<Finding> {
    let mut places: BTreeMap<String, Vec<(String, usize)>> = BTreeMap::new();
    for file in tree.with_ending(".rs").filter(|file| is_product(&file.path)) {
        let code = code_of(&file.text);
        let tests = tests_begin(&file.path, &code);
        for (name, line) in public_types(&code).filter(|(_, line)| *line < tests) {
            places.entry(name.to_owned()).or_default().push((file.path.clone(), line));
        }
    }
    let shared = |name: &str| SHARED.iter().any(|(shared, _)| *shared == name);
    let doubled = places.into_iter().filter(|(name, places)| places.len() > 1 && !shared(name));
    doubled
        .flat_map(|(name, places)| {
            let (first, line) = places[0].clone();
            places.into_iter().skip(1).map(move |(path, at)| {
                let what = format!("`{name}` is also a public type in {first}:{line}");
                Finding::failure(&path, at, what, "name each by what it is, or list it with a reason")
            })
        })
        .collect()
}

fn is_product(path: &str) -> bool {
    path.contains("/src/") && !path.starts_with(WIRE) && !DEV_CRATES.iter().any(|dev| path.starts_with(dev))
}

/// The names after `pub struct` and the like at the start of a line, each with its line.
fn public_types(code: &str) -> impl Iterator<Item = (&str, usize)> {
    let all: Vec<(usize, &str)> = words(code).collect();
    let named: Vec<(&str, usize)> = all
        .windows(3)
        .filter(|three| three[0].1 == "pub" && matches!(three[1].1, "struct" | "enum" | "trait" | "type" | "union"))
        .filter(|three| three[0].0 == 0 || code[..three[0].0].ends_with('\n'))
        .map(|three| (three[2].1, line_of(code, three[0].0)))
        .collect();
    named.into_iter()
}

#[cfg(test)]
mod tests {
    use super::unique;
    use crate::tidy::found;

    #[test]
    fn a_public_type_name_occurs_once() {
        let files = [
            ("crates/a/src/lib.rs", "pub struct Line;\npub(crate) struct Own;\npub enum Error {}\n"),
            ("crates/b/src/lib.rs", "pub struct Own;\nfn f() {}\npub enum Line {}\npub type Error = ();\n"),
            ("crates/protocol/src/lib.rs", "pub struct Line;\n"),
            ("crates/bench/src/lib.rs", "pub struct Line;\n"),
            ("crates/b/src/tests.rs", "// pub struct Own;\n"),
        ];
        assert_eq!(
            found(unique, &files),
            ["crates/b/src/lib.rs:3 `Line` is also a public type in crates/a/src/lib.rs:1"]
        );
    }
}
