//! Checks links between the project's own pages: the file and the heading must exist. External links are not followed.
//! The recipes of CONTRIBUTING.md name files without links; these must exist as well.

use super::Finding;
use super::architecture::named_paths;
use crate::tree::{TextFile, Tree};

const RECIPES: &str = "CONTRIBUTING.md";

/// The target of every internal link of every page exists.
pub(super) fn links(tree: &Tree) -> Vec<Finding> {
    tree.with_ending(".md").flat_map(|page| page_findings(tree, page)).collect()
}

/// Every file that CONTRIBUTING.md names in backquotes exists.
pub(super) fn recipes(tree: &Tree) -> Vec<Finding> {
    let Some(page) = tree.file(RECIPES) else { return vec![] };
    let named =
        prose(&page.text).flat_map(|(line, text)| quoted(text).flat_map(named_paths).map(move |path| (line, path)));
    let missing = named.filter(|(_, path)| !tree.exists(path));
    missing
        .map(|(line, path)| {
            Finding::failure(RECIPES, line, format!("`{path}` does not exist"), "name the file that has this duty now")
        })
        .collect()
}

/// The parts of a line between backquotes. A part that spans two lines ends with its first line.
fn quoted(line: &str) -> impl Iterator<Item = &str> {
    line.split('`').skip(1).step_by(2)
}

fn page_findings(tree: &Tree, page: &TextFile) -> Vec<Finding> {
    let mut findings = vec![];
    for (line, target) in prose(&page.text).flat_map(|(line, text)| targets(text).map(move |target| (line, target))) {
        if target.contains("://") || target.starts_with("mailto:") {
            continue;
        }
        let (file, heading) = target.split_once('#').unwrap_or((target, ""));
        let path = if file.is_empty() { Some(page.path.clone()) } else { resolve(&page.path, file) };
        let Some(path) = path.filter(|path| tree.exists(path)) else {
            let repair = "link to what is there";
            findings.push(Finding::failure(&page.path, line, format!("the link `{target}` leads nowhere"), repair));
            continue;
        };
        let is_missing = |file: &TextFile| !prose(&file.text).any(|(_, text)| anchor(text).as_deref() == Some(heading));
        let other = tree.with_ending(".md").find(|other| other.path == path);
        if !heading.is_empty() && other.is_some_and(is_missing) {
            let what = format!("the link `{target}` names no heading of {path}");
            findings.push(Finding::failure(&page.path, line, what, "link to a heading that is there"));
        }
    }
    findings
}

/// The lines outside fenced code, each with its number, counted from 1.
fn prose(text: &str) -> impl Iterator<Item = (usize, &str)> {
    let mut is_fenced = false;
    text.lines().enumerate().filter_map(move |(index, line)| {
        let is_fence = line.trim_start().starts_with("```");
        is_fenced ^= is_fence;
        (!is_fenced && !is_fence).then_some((index + 1, line))
    })
}

/// The targets of the links `[text](target)` in a line.
fn targets(line: &str) -> impl Iterator<Item = &str> {
    let mut behind = line.split("](");
    behind.next();
    behind.filter_map(|rest| rest.split_once(')')).filter_map(|(target, _)| target.split_whitespace().next())
}

/// A path relative to the page that links to it; None if it leaves the project.
fn resolve(page: &str, target: &str) -> Option<String> {
    let mut parts: Vec<&str> = page.split('/').collect();
    parts.pop();
    for part in target.split('/') {
        match part {
            "" | "." => {}
            ".." => drop(parts.pop()?),
            part => parts.push(part),
        }
    }
    Some(parts.join("/"))
}

/// The anchor of a heading: lower case, no punctuation, hyphens for spaces.
fn anchor(line: &str) -> Option<String> {
    let heading = line.strip_prefix('#')?.trim_start_matches('#').strip_prefix(' ')?.trim();
    let kept = heading.chars().filter(|c| c.is_alphanumeric() || matches!(c, ' ' | '-' | '_'));
    Some(kept.flat_map(char::to_lowercase).map(|c| if c == ' ' { '-' } else { c }).collect())
}

#[cfg(test)]
mod tests {
    use super::{links, recipes};
    use crate::tidy::found;

    const LOOP: &str = "# The loop\n## What it does, and why\n";

    #[test]
    fn links_that_lead_somewhere_are_let_be() {
        let page = "[a](internals/loop.md) [b](internals/loop.md#what-it-does-and-why), [c](../README.md)\n\
                    [d](https://example.org/x) [e](#own-heading) ![f](internals/)\n# Own heading\n```\n[g](gone)\n```\n";
        let files = [("docs/a.md", page), ("docs/internals/loop.md", LOOP), ("README.md", "")];
        assert_eq!(found(links, &files), [""; 0]);
    }

    #[test]
    fn links_that_lead_nowhere_are_found() {
        let page = "[a](loop.md)\n[b](internals/loop.md#why) [c](../../out.md \"title\")\n[d](#none)\n";
        let expected = [
            "docs/a.md:1 the link `loop.md` leads nowhere",
            "docs/a.md:2 the link `internals/loop.md#why` names no heading of docs/internals/loop.md",
            "docs/a.md:2 the link `../../out.md` leads nowhere",
            "docs/a.md:3 the link `#none` names no heading of docs/a.md",
        ];
        assert_eq!(found(links, &[("docs/a.md", page), ("docs/internals/loop.md", LOOP)]), expected);
    }

    #[test]
    fn recipes_name_files_that_exist() {
        let page = "1. Add it to `crates/a/src/lib.rs` and `crates/a/tests/`. `Event::bodies` and `target/x`.\n```sh\ncat                     `crates/gone`\n```\n2. Test it: `cargo test -p a`, crates/gone without quotes.\n";
        let files = [("CONTRIBUTING.md", page), ("crates/a/src/lib.rs", ""), ("crates/a/tests/b.rs", "")];
        assert_eq!(found(recipes, &files), [""; 0]);
        assert_eq!(found(recipes, &files[..2]), ["CONTRIBUTING.md:1 `crates/a/tests` does not exist"]);
    }
}
