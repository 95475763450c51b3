//! How long files and functions may be, and the list of functions that may be longer: a ratchet that only shrinks.

use std::path::Path;
use std::process::Command;

use super::Finding;
use crate::rust_source::{Function, code_of, functions, tests_begin};
use crate::tree::{TextFile, Tree};

/// Lines before a file's tests from which it is said to be long: longer is hard to hold in the head.
const FILE_WARNS_LINES: usize = 500;
/// Lines before a file's tests from which it must be split.
const FILE_FAILS_LINES: usize = 800;
/// Lines of a function from which it must be split or listed.
const FUNCTION_FAILS_LINES: usize = 70;

/// `path function | reason`, one a line.
const LIST: &str = "xtask/tidy-allow.txt";

/// One function that may be long.
struct Allowance<'a> {
    line: usize,
    path: &'a str,
    function: &'a str,
    reason: &'a str,
}

/// Files and functions are short, but for functions that are listed.
pub(super) fn sizes(tree: &Tree) -> Vec<Finding> {
    let allowances = read_list(tree.file(LIST).map_or("", |file| &file.text));
    let mut findings = vec![];
    for file in tree.with_ending(".rs") {
        let code = code_of(&file.text);
        let tests = tests_begin(&file.path, &code);
        findings.extend(file_size(file, tests));
        for function in long_functions(&code) {
            let is_listed = allowances.iter().any(|a| a.path == file.path && a.function == function.name);
            let what = format!("function `{}` has {} lines", function.name, function.lines());
            if function.first >= tests {
                let mend = format!("over {FUNCTION_FAILS_LINES}: a test that long proves several things");
                findings.push(Finding::warning(&file.path, function.first, what, mend));
            } else if !is_listed {
                let mend = format!("split it: {FUNCTION_FAILS_LINES} at most; most are under 40");
                findings.push(Finding::failure(&file.path, function.first, what, mend));
            }
        }
    }
    findings
}

fn file_size(file: &TextFile, tests: usize) -> Option<Finding> {
    let lines = if tests == 1 { file.text.lines().count() } else { tests - 1 };
    let what = if tests == 1 { format!("{lines} lines") } else { format!("{lines} lines before its tests") };
    let mend = format!("split it by what it is about: {FILE_FAILS_LINES} at most, 100 to 250 is usual");
    match lines {
        lines if lines > FILE_FAILS_LINES && tests > 1 => Some(Finding::failure(&file.path, 1, what, mend)),
        lines if lines > FILE_WARNS_LINES => Some(Finding::warning(&file.path, 1, what, mend)),
        _ => None,
    }
}

fn long_functions(code: &str) -> impl Iterator<Item = Function> {
    functions(code).into_iter().filter(|function| function.lines() > FUNCTION_FAILS_LINES)
}

/// The list holds only what is needed, each with a reason, and is not longer than where this branch began.
pub(super) fn allowances(tree: &Tree) -> Vec<Finding> {
    let Some(list) = tree.file(LIST) else { return vec![] };
    let allowances = read_list(&list.text);
    let mut findings = vec![];
    for Allowance { line, path, function, reason } in &allowances {
        if reason.is_empty() {
            let mend = "write `path function | reason`";
            findings.push(Finding::failure(LIST, *line, format!("`{function}` is listed without a reason"), mend));
        }
        let is_needed =
            tree.file(path).is_some_and(|file| long_functions(&code_of(&file.text)).any(|long| long.name == *function));
        if !is_needed {
            let mend = "remove the line: the list may only shrink";
            findings.push(Finding::failure(LIST, *line, format!("`{function}` in {path} is not long"), mend));
        }
    }
    if let Some(before) = list_at_base(&tree.root).map(|text| read_list(&text).len())
        && allowances.len() > before
    {
        let what = format!("{} functions are listed, {before} were", allowances.len());
        findings.push(Finding::failure(LIST, 1, what, "split the function: the list may only shrink"));
    }
    findings
}

fn read_list(text: &str) -> Vec<Allowance<'_>> {
    let lines = text.lines().enumerate().filter(|(_, line)| !line.trim().is_empty() && !line.starts_with('#'));
    lines
        .map(|(index, line)| {
            let (place, reason) = line.split_once('|').unwrap_or((line, ""));
            let (path, function) = place.trim().split_once(' ').unwrap_or((place.trim(), ""));
            Allowance { line: index + 1, path, function: function.trim(), reason: reason.trim() }
        })
        .collect()
}

/// The list where this branch left `origin/main`, or one commit ago if it has not. None where there is no git, no
/// earlier commit, or no list in it.
fn list_at_base(root: &Path) -> Option<String> {
    let git = |arguments: &[&str]| {
        let output = Command::new("git").arg("-C").arg(root).args(arguments).output().ok()?;
        output.status.success().then(|| String::from_utf8_lossy(&output.stdout).trim().to_owned())
    };
    let head = git(&["rev-parse", "HEAD"])?;
    let base = git(&["merge-base", "HEAD", "origin/main"]).filter(|base| *base != head);
    let base = base.unwrap_or_else(|| "HEAD~".to_owned());
    git(&["show", &format!("{base}:{LIST}")])
}

#[cfg(test)]
mod tests {
    use std::path::Path;
    use std::process::Command;

    use super::{LIST, allowances, list_at_base, sizes};
    use crate::tidy::found;
    use crate::tree::made_up::Folder;

    fn function(name: &str, lines: usize) -> String {
        format!("fn {name}() {{\n{}}}\n", "    x();\n".repeat(lines - 2))
    }

    fn filler(lines: usize) -> String {
        "//! Doc.\n".repeat(lines)
    }

    #[test]
    fn long_files_warn_and_longer_ones_fail() {
        let tests = "#[cfg(test)]\nmod tests {\n}\n";
        let file = |lines| filler(lines) + tests;
        assert_eq!(found(sizes, &[("a.rs", &file(500)), ("x/tests/b.rs", &filler(500))]), [""; 0]);
        assert_eq!(found(sizes, &[("a.rs", &file(801))]), ["a.rs:1 801 lines before its tests"]);
        let folder = Folder::new(&[("a.rs", &file(501)), ("b.rs", &file(801)), ("x/tests/c.rs", &filler(900))]);
        let weights: Vec<_> = sizes(&folder.tree()).into_iter().map(|finding| finding.weight).collect();
        assert_eq!(
            weights,
            [super::super::Weight::Warning, super::super::Weight::Failure, super::super::Weight::Warning]
        );
    }

    #[test]
    fn long_functions_fail_unless_listed() {
        let code = function("short", 70) + &function("long", 71);
        assert_eq!(found(sizes, &[("a.rs", &code)]), ["a.rs:71 function `long` has 71 lines"]);
        assert_eq!(found(sizes, &[("a.rs", &code), (LIST, "a.rs long | a table\n")]), [""; 0]);
    }

    #[test]
    fn the_list_holds_only_what_is_needed_and_why() {
        let code = function("short", 70) + &function("long", 71);
        let list = "# comment\n\na.rs long | a table\na.rs short | was long\na.rs long\nb.rs gone | gone\n";
        let findings = found(allowances, &[("a.rs", &code), (LIST, list)]);
        let expected =
            ["4 `short` in a.rs is not long", "5 `long` is listed without a reason", "6 `gone` in b.rs is not long"];
        assert_eq!(findings, expected.map(|line| format!("{LIST}:{line}")));
    }

    #[test]
    fn the_list_does_not_grow() {
        let folder = Folder::new(&[("a.rs", &function("long", 71)), (LIST, "# none yet\n")]);
        for command in ["init --quiet", "add .", "commit --quiet -m one", "commit --quiet --allow-empty -m two"] {
            git(&folder.0, command);
        }
        assert_eq!(list_at_base(&folder.0).as_deref(), Some("# none yet"));
        assert_eq!(allowances(&folder.tree()), []);
        std::fs::write(folder.0.join(LIST), "a.rs long | a table\n").unwrap();
        let whats: Vec<_> = allowances(&folder.tree()).into_iter().map(|finding| finding.what).collect();
        assert_eq!(whats, ["1 functions are listed, 0 were"]);
    }

    fn git(root: &Path, command: &str) {
        let mut git = Command::new("git");
        // Neither hooks nor signatures of whoever runs this.
        git.env("GIT_CONFIG_GLOBAL", "/dev/null").env("GIT_CONFIG_SYSTEM", "/dev/null");
        git.arg("-C").arg(root).args(["-c", "user.name=Test", "-c", "user.email=test@localhost"]);
        assert!(git.args(command.split(' ')).status().unwrap().success(), "git {command}");
    }
}
