//! Checks that a test program contains every file of its folder: cargo compiles `tests/it/main.rs`, and never a file
//! that no
//! `mod` names.

use super::Finding;
use crate::rust_source::code_of;
use crate::tree::Tree;

/// Every file below a program of tests is a module of it.
pub(super) fn test_modules(tree: &Tree) -> Vec<Finding> {
    let mut findings = vec![];
    for file in tree.with_ending(".rs").filter(|file| file.path.contains("/tests/")) {
        let Some((folder, name)) = module_of(&file.path) else { continue };
        let parents = [format!("{folder}/main.rs"), format!("{folder}/mod.rs"), format!("{folder}.rs")];
        let mut parents = parents.iter().filter_map(|path| tree.file(path)).peekable();
        let line = format!("mod {name};");
        let names = |text: &str| code_of(text).lines().any(|code| code.trim().ends_with(&line));
        if parents.peek().is_some() && !parents.any(|parent| names(&parent.text)) {
            let what = format!("no `{line}` names this file");
            findings.push(Finding::failure(&file.path, 1, what, "add it to the module above, or remove the file"));
        }
    }
    findings
}

/// The folder of the module that must name this file, and the name; none for a program's own file.
fn module_of(path: &str) -> Option<(&str, &str)> {
    let (folder, file) = path.strip_suffix(".rs")?.rsplit_once('/')?;
    match file {
        "main" => None,
        "mod" => folder.rsplit_once('/'),
        name => Some((folder, name)),
    }
}

#[cfg(test)]
mod tests {
    use super::test_modules;
    use crate::tidy::found;

    #[test]
    fn a_file_that_no_module_names_is_found() {
        let files = [
            ("a/tests/it/main.rs", "//! Doc.\nmod one;\npub(crate) mod two;\n// mod three;\n"),
            ("a/tests/it/one.rs", "mod inner;\n"),
            ("a/tests/it/one/inner.rs", ""),
            ("a/tests/it/two/mod.rs", ""),
            ("a/tests/it/two/four.rs", ""),
            ("a/tests/it/three.rs", ""),
            ("a/tests/five.rs", ""),
            ("a/src/six.rs", ""),
        ];
        let found = found(test_modules, &files);
        assert_eq!(
            found,
            [
                "a/tests/it/three.rs:1 no `mod three;` names this file",
                "a/tests/it/two/four.rs:1 no `mod four;` names this file"
            ]
        );
    }
}
