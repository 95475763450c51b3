//! Checks the shape of the workspace: which crate may depend on which, and whether the code map in ARCHITECTURE.md is
//! correct.

use super::Finding;
use crate::manifest::{Kind, Manifest};
use crate::tree::Tree;

/// The crates of the workspace that a crate may depend on, also in its tests: engine ← journal, models, tools ← runtime;
/// runtime, protocol ← views ← gateway; runtime ← telemetry ← gateway; runtime, protocol ← config; gateway, config ← client ← cli.
const ARROWS: &[(&str, &[&str])] = &[
    ("engine", &[]),
    ("faulty-vfs", &[]),
    ("journal", &["engine", "faulty-vfs"]),
    ("models", &["engine"]),
    ("confine", &[]),
    ("tools", &["engine", "confine"]),
    ("runtime", &["engine", "journal", "models", "tools", "faulty-vfs", "testkit"]),
    ("protocol", &["engine"]),
    ("views", &["engine", "journal", "tools", "runtime", "protocol"]),
    ("telemetry", &["engine", "models", "runtime"]),
    (
        "gateway",
        &["engine", "journal", "models", "tools", "runtime", "telemetry", "protocol", "views", "faulty-vfs", "testkit"],
    ),
    ("config", &["engine", "journal", "models", "tools", "runtime", "protocol"]),
    ("client", &["engine", "journal", "models", "tools", "runtime", "protocol", "views", "gateway", "config"]),
    (
        "limulus",
        &[
            "engine",
            "journal",
            "models",
            "tools",
            "runtime",
            "protocol",
            "views",
            "telemetry",
            "gateway",
            "config",
            "client",
            "model-server",
        ],
    ),
    ("simulator", &["engine", "journal", "faulty-vfs"]),
    ("model-server", &[]),
    ("testkit", &["engine", "models", "tools", "runtime"]),
    ("bench", &["engine", "journal", "models", "confine", "tools", "runtime", "protocol", "model-server"]),
    ("xtask", &[]),
];

/// Crates for tests, each with the only crates that may depend on them outside of tests.
const FOR_TESTS: &[(&str, &[&str])] = &[("faulty-vfs", &["simulator"]), ("model-server", &["bench"]), ("testkit", &[])];

const MAP: &str = "ARCHITECTURE.md";
const MAPPED_FOLDERS: [&str; 3] = ["crates/", "docs/", "xtask"];

/// Every crate of the workspace depends only on the crates that `ARROWS` lists for it.
pub(super) fn arrows(tree: &Tree) -> Vec<Finding> {
    let mut findings = vec![];
    let manifests = tree.with_ending("/Cargo.toml").map(|file| (file.path.as_str(), Manifest::parse(&file.text)));
    let manifests: Vec<_> = manifests.collect();
    let crates: Vec<&str> = manifests.iter().filter_map(|(_, manifest)| manifest.package.as_deref()).collect();
    for (path, manifest) in &manifests {
        let Some(package) = manifest.package.as_deref() else { continue };
        let Some((_, allowed)) = ARROWS.iter().find(|(name, _)| *name == package) else {
            let repair = "list in xtask/src/tidy/architecture.rs what it may depend on";
            findings.push(Finding::failure(path, 1, format!("crate `{package}` has no arrows"), repair));
            continue;
        };
        for dependency in &manifest.dependencies {
            let name = dependency.name.as_str();
            // A crate's tests may enable a feature of their own crate.
            if name == package && dependency.kind == Kind::Dev {
                continue;
            }
            if dependency.kind != Kind::Workspace && crates.contains(&name) && !allowed.contains(&name) {
                let what = format!("`{package}` names `{name}`");
                let repair = "nothing points back (ARCHITECTURE.md): move shared code to a crate that both can use";
                findings.push(Finding::failure(path, dependency.line, what, repair));
            }
            let for_tests = FOR_TESTS.iter().find(|(tool, users)| *tool == name && !users.contains(&package));
            if for_tests.is_some() && matches!(dependency.kind, Kind::Normal | Kind::Build) {
                let what = format!("`{package}` is built with `{name}`");
                let repair = "it is for tests: list it under [dev-dependencies]";
                findings.push(Finding::failure(path, dependency.line, what, repair));
            }
        }
    }
    findings
}

/// ARCHITECTURE.md names every crate, and every path on it exists.
pub(super) fn code_map(tree: &Tree) -> Vec<Finding> {
    let Some(map) = tree.file(MAP) else {
        return vec![Finding::failure(MAP, 1, "is missing", "it is the first page that a newcomer reads")];
    };
    let mut findings = vec![];
    for (index, line) in map.text.lines().enumerate() {
        for path in named_paths(line) {
            if !tree.exists(path) {
                let repair = "name the file that has this duty now, or remove the line";
                findings.push(Finding::failure(MAP, index + 1, format!("`{path}` does not exist"), repair));
            }
        }
    }
    for crate_folder in tree.with_ending("/Cargo.toml").filter_map(|file| file.path.strip_suffix("/Cargo.toml")) {
        if !map.text.lines().any(|line| named_paths(line).any(|path| path == crate_folder)) {
            let repair = "add a row with its duty and its invariant";
            findings.push(Finding::failure(MAP, 1, format!("`{crate_folder}` is not in the map"), repair));
        }
    }
    findings
}

/// The words of a line that are paths of the project, without patterns (`*`).
pub(super) fn named_paths(line: &str) -> impl Iterator<Item = &str> {
    line.split(|c: char| !(c.is_alphanumeric() || "/._-*".contains(c)))
        .map(|word| word.trim_end_matches(['.', '/']))
        .filter(|word| MAPPED_FOLDERS.iter().any(|folder| word.starts_with(folder)) && !word.contains('*'))
}

#[cfg(test)]
mod tests {
    use super::{arrows, code_map};
    use crate::tidy::found;

    const ENGINE: &str = "[package]\nname = \"engine\"\n[dev-dependencies]\nserde.workspace = true\n";

    #[test]
    fn an_arrow_that_points_back_is_found() {
        let journal = "[package]\nname = \"journal\"\n[dependencies]\nengine.workspace = true\n";
        let files = [("crates/engine/Cargo.toml", ENGINE), ("crates/journal/Cargo.toml", journal)];
        assert_eq!(found(arrows, &files), [""; 0]);

        let back = format!("{ENGINE}journal.workspace = true\n");
        let files = [("crates/engine/Cargo.toml", back.as_str()), ("crates/journal/Cargo.toml", journal)];
        assert_eq!(found(arrows, &files), ["crates/engine/Cargo.toml:5 `engine` names `journal`"]);
    }

    #[test]
    fn a_crate_for_tests_is_for_tests() {
        let faulty = ("crates/faulty-vfs/Cargo.toml", "[package]\nname = \"faulty-vfs\"\n");
        let tested = "[package]\nname = \"journal\"\n[dev-dependencies]\nfaulty-vfs.workspace = true\n";
        assert_eq!(found(arrows, &[("crates/journal/Cargo.toml", tested), faulty]), [""; 0]);
        let built = tested.replace("dev-", "");
        assert_eq!(
            found(arrows, &[("crates/journal/Cargo.toml", &built), faulty]),
            ["crates/journal/Cargo.toml:4 `journal` is built with `faulty-vfs`"]
        );
        let simulator = built.replace("journal", "simulator");
        assert_eq!(found(arrows, &[("crates/simulator/Cargo.toml", &simulator), faulty]), [""; 0]);
    }

    #[test]
    fn a_crate_without_arrows_is_found() {
        let files = [("crates/web/Cargo.toml", "[package]\nname = \"web\"\n")];
        assert_eq!(found(arrows, &files), ["crates/web/Cargo.toml:1 crate `web` has no arrows"]);
    }

    #[test]
    fn the_code_map_names_what_is_there() {
        let map =
            "# Map\n- `crates/a/src/lib.rs`: one (crates/a/src/).\n- crates/*/src and [x](docs/b.md), not/here.\n";
        let files = [("ARCHITECTURE.md", map), ("crates/a/src/lib.rs", ""), ("docs/b.md", "")];
        assert_eq!(found(code_map, &files), [""; 0]);
        assert_eq!(found(code_map, &files[..2]), ["ARCHITECTURE.md:3 `docs/b.md` does not exist"]);
        assert_eq!(found(code_map, &files[1..]), ["ARCHITECTURE.md:1 is missing"]);
    }

    #[test]
    fn the_code_map_names_each_crate() {
        let files =
            [("ARCHITECTURE.md", "`crates/a`, `xtask`\n"), ("crates/a/Cargo.toml", ""), ("xtask/Cargo.toml", "")];
        assert_eq!(found(code_map, &files), [""; 0]);
        let files =
            [("ARCHITECTURE.md", "`crates/a/src/`\n"), ("crates/a/src/lib.rs", ""), ("crates/a/Cargo.toml", "")];
        assert_eq!(found(code_map, &files), ["ARCHITECTURE.md:1 `crates/a` is not in the map"]);
    }
}
