//! Checks that docs/dependencies.md explains exactly the dependencies of the workspace.

use super::Finding;
use crate::manifest::{Kind, Manifest};
use crate::tree::Tree;

const PAGE: &str = "docs/dependencies.md";
const ROOT: &str = "Cargo.toml";

/// Every crate takes its dependencies from the workspace, and each that is used has its row on the page.
pub(super) fn explained(tree: &Tree) -> Vec<Finding> {
    let root = Manifest::parse(tree.file(ROOT).map_or("", |file| &file.text));
    let shared: Vec<_> = root.dependencies.iter().filter(|dependency| dependency.kind == Kind::Workspace).collect();
    let mut findings = vec![];
    let mut used: Vec<String> = vec![];
    for file in tree.with_ending("Cargo.toml") {
        for dependency in Manifest::parse(&file.text).dependencies {
            if dependency.kind == Kind::Workspace {
                continue;
            }
            if !shared.iter().any(|known| known.name == dependency.name) {
                let what = format!("`{}` is not in [workspace.dependencies]", dependency.name);
                let repair = "name it there once, so that the workspace uses one version";
                findings.push(Finding::failure(&file.path, dependency.line, what, repair));
            }
            used.push(dependency.name);
        }
    }
    let Some(page) = tree.file(PAGE) else {
        findings.push(Finding::failure(PAGE, 1, "is missing", "it explains each dependency"));
        return findings;
    };
    let rows = rows(&page.text);
    for dependency in shared.iter().filter(|dependency| !dependency.is_path) {
        if !used.contains(&dependency.name) {
            let what = format!("no crate uses `{}`", dependency.name);
            findings.push(Finding::warning(ROOT, dependency.line, what, "remove it"));
        } else if !rows.iter().any(|(_, name)| *name == dependency.name) {
            let what = format!("`{}` has no row in {PAGE}", dependency.name);
            findings.push(Finding::failure(
                ROOT,
                dependency.line,
                what,
                "say what it is used for and what was rejected",
            ));
        }
    }
    for (line, name) in rows.iter().filter(|(_, name)| !used.iter().any(|used| used == name)) {
        findings.push(Finding::failure(PAGE, *line, format!("no crate uses `{name}`"), "remove the row"));
    }
    findings
}

/// The names in the first column of the tables whose first heading is `crate`, each with its line. A cell may hold
/// several names.
fn rows(page: &str) -> Vec<(usize, &str)> {
    let mut rows = vec![];
    let mut is_table = false;
    for (index, line) in page.lines().enumerate() {
        let Some(row) = line.trim().strip_prefix('|') else {
            is_table = false;
            continue;
        };
        let cell = row.split('|').next().unwrap_or_default().trim();
        if cell == "crate" {
            is_table = true;
        } else if is_table && !cell.starts_with('-') {
            rows.extend(cell.split(',').map(|name| (index + 1, name.trim().trim_matches('`'))));
        }
    }
    rows
}

#[cfg(test)]
mod tests {
    use super::explained;
    use crate::tidy::found;

    const ROOT: &str = "[workspace.dependencies]\nengine = { path = \"e\" }\nserde = \"1\"\ntoml = \"1\"\n";
    const CRATE: &str = "[package]\nname = \"a\"\n[dependencies]\nengine.workspace = true\nserde.workspace = true\n";

    #[test]
    fn a_complete_page_has_no_findings() {
        let page = "| crate | for | rejected |\n|---|---|---|\n| `serde`, toml | data | |\n\n| word | x |\n|---|---|\n| no | |\n";
        let both = format!("{CRATE}[dev-dependencies]\ntoml.workspace = true\n");
        let files = [("Cargo.toml", ROOT), ("a/Cargo.toml", &both), ("docs/dependencies.md", page)];
        assert_eq!(found(explained, &files), [""; 0]);
    }

    #[test]
    fn rows_that_are_missing_or_too_many_are_found() {
        let page = "| crate | for |\n|---|---|\n| toml | data |\n";
        let unlisted = format!("{CRATE}rand = \"1\"\n");
        let files = [("Cargo.toml", ROOT), ("a/Cargo.toml", &unlisted), ("docs/dependencies.md", page)];
        let expected = [
            "a/Cargo.toml:6 `rand` is not in [workspace.dependencies]",
            "Cargo.toml:3 `serde` has no row in docs/dependencies.md",
            "Cargo.toml:4 no crate uses `toml`",
            "docs/dependencies.md:3 no crate uses `toml`",
        ];
        assert_eq!(found(explained, &files), expected);
        assert_eq!(found(explained, &[("Cargo.toml", "")]), ["docs/dependencies.md:1 is missing"]);
    }
}
