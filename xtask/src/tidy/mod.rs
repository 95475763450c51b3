//! The project's own rules, one file for each rule or family of rules, checked in the order of this list. What may not
//! live here: what rustfmt, rustc or clippy already check.

mod architecture;
mod dependencies;
mod escapes;
mod glossary;
mod links;
mod modules;
mod purity;
mod sizes;
mod type_names;
mod words;

use std::io::{self, Write};
use std::path::Path;

use crate::Tally;
use crate::tree::Tree;

/// Whether a finding fails the proof.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Weight {
    Warning,
    Failure,
}

/// A place that violates a rule.
#[derive(Debug, Clone, PartialEq, Eq)]
struct Finding {
    weight: Weight,
    path: String,
    /// Counted from 1.
    line: usize,
    what: String,
    /// The reason of the rule, or how to repair the violation.
    repair: String,
}

impl Finding {
    fn failure(path: &str, line: usize, what: impl Into<String>, repair: impl Into<String>) -> Self {
        Self { weight: Weight::Failure, path: path.to_owned(), line, what: what.into(), repair: repair.into() }
    }

    fn warning(path: &str, line: usize, what: impl Into<String>, repair: impl Into<String>) -> Self {
        Self { weight: Weight::Warning, ..Self::failure(path, line, what, repair) }
    }
}

/// A rule, with the function that finds its violations.
struct Rule {
    name: &'static str,
    find: fn(&Tree) -> Vec<Finding>,
}

const RULES: &[Rule] = &[
    Rule { name: "arrows between crates", find: architecture::arrows },
    Rule { name: "the engine depends on little", find: purity::dependencies },
    Rule { name: "the engine does no I/O", find: purity::sources },
    Rule { name: "the engine's tables hold data only", find: purity::tables },
    Rule { name: "every file has a module doc", find: words::module_docs },
    Rule { name: "sizes of files", find: sizes::sizes },
    Rule { name: "a public type name occurs once", find: type_names::unique },
    Rule { name: "nothing unfinished", find: words::unfinished },
    Rule { name: "every file of the tests is compiled", find: modules::test_modules },
    Rule { name: "tests wait for conditions", find: words::sleeps },
    Rule { name: "no file names a foreign place", find: words::foreign },
    Rule { name: "the code map is correct", find: architecture::code_map },
    Rule { name: "links resolve", find: links::links },
    Rule { name: "the glossary and the code use the same words", find: glossary::glossary },
    Rule { name: "recipes name files that exist", find: links::recipes },
    Rule { name: "every escape has a row", find: escapes::rows },
    Rule { name: "tests that pages name exist", find: escapes::tests },
    Rule { name: "dependencies are explained", find: dependencies::explained },
];

/// Checks the tree at `root` against every rule and prints the violations. Each rule is one check.
pub(crate) fn run(root: &Path, out: &mut dyn Write) -> io::Result<Tally> {
    let tree = Tree::read(root)?;
    let mut tally = Tally::default();
    let mut warnings = 0;
    for rule in RULES {
        let findings = (rule.find)(&tree);
        for finding in &findings {
            let Finding { path, line, what, repair, .. } = finding;
            let mark = if finding.weight == Weight::Warning { "warning: " } else { "" };
            writeln!(out, "{path}:{line}: {mark}{what} — {repair}")?;
        }
        let failures = findings.iter().filter(|finding| finding.weight == Weight::Failure).count();
        warnings += findings.len() - failures;
        tally += Tally::of(failures == 0);
        if failures > 0 {
            writeln!(out, "tidy: {}: {failures} to repair", rule.name)?;
        }
    }
    let Tally { passed, failed } = tally;
    writeln!(out, "tidy: {} files, {passed} rules hold, {failed} do not, {warnings} warnings", tree.files.len())?;
    Ok(tally)
}

/// Each finding as `path:line what`, for the tests of the rules.
#[cfg(test)]
fn found(find: fn(&Tree) -> Vec<Finding>, files: &[(&str, &str)]) -> Vec<String> {
    let folder = crate::tree::made_up::Folder::new(files);
    find(&folder.tree())
        .into_iter()
        .map(|finding| format!("{}:{} {}", finding.path, finding.line, finding.what))
        .collect()
}

#[cfg(test)]
mod tests {
    use super::{RULES, run};
    use crate::tree::made_up::Folder;

    #[test]
    fn the_report_names_place_rule_and_count() {
        let folder = Folder::new(&[
            ("src/a.rs", "fn a() { todo!() }\n"),
            ("ARCHITECTURE.md", "all of it\n"),
            ("docs/dependencies.md", "none\n"),
        ]);
        let mut out = vec![];
        let tally = run(&folder.0, &mut out).unwrap();
        let out = String::from_utf8(out).unwrap();
        assert!(out.contains("src/a.rs:1: no module doc — "), "{out}");
        assert!(out.contains("src/a.rs:1: `todo!` — "), "{out}");
        assert_eq!(tally.failed, 2, "{out}");
        assert_eq!(tally.passed + tally.failed, RULES.len() as u64);
        assert!(out.ends_with("tidy: 3 files, 16 rules hold, 2 do not, 0 warnings\n"), "{out}");
    }
}
