//! A `Cargo.toml` as the rules of the house read it: the package's name, and its dependencies with their lines. `cargo
//! metadata` would not do: it tells neither what no crate uses nor who names a version of its own.

use toml_edit::{Document, Item, TableLike};

/// Which list a dependency stands in.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Kind {
    Normal,
    Dev,
    Build,
    /// `[workspace.dependencies]` of the root.
    Workspace,
}

/// One named dependency.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Dependency {
    pub(crate) name: String,
    pub(crate) kind: Kind,
    /// From 1.
    pub(crate) line: usize,
    /// Whether it is a crate of the workspace, named by its path.
    pub(crate) is_path: bool,
}

/// The contents of one `Cargo.toml`.
#[derive(Debug, Default)]
pub(crate) struct Manifest {
    pub(crate) package: Option<String>,
    pub(crate) dependencies: Vec<Dependency>,
}

const LISTS: [(&str, Kind); 3] =
    [("dependencies", Kind::Normal), ("dev-dependencies", Kind::Dev), ("build-dependencies", Kind::Build)];

impl Manifest {
    /// Reads a manifest; an empty one for text that is no TOML, which cargo itself refuses before any rule is asked.
    pub(crate) fn parse(text: &str) -> Self {
        let Ok(document) = Document::parse(text) else { return Self::default() };
        let root = document.as_table();
        let package = root.get("package").and_then(|package| package.get("name")).and_then(Item::as_str);
        let mut lists: Vec<(&dyn TableLike, Kind)> = vec![];
        let targets = root.get("target").and_then(Item::as_table_like).into_iter().flat_map(TableLike::iter);
        let targets = targets.filter_map(|(_, target)| target.as_table_like());
        for table in std::iter::once(root as &dyn TableLike).chain(targets) {
            let list = |(name, kind)| Some((table.get(name)?.as_table_like()?, kind));
            lists.extend(LISTS.into_iter().filter_map(list));
        }
        let shared = root.get("workspace").and_then(|workspace| workspace.get("dependencies"));
        lists.extend(shared.and_then(Item::as_table_like).map(|list| (list, Kind::Workspace)));

        let mut dependencies: Vec<_> = lists.into_iter().flat_map(|(list, kind)| named(text, list, kind)).collect();
        dependencies.sort_by_key(|dependency| dependency.line);
        Self { package: package.map(str::to_owned), dependencies }
    }
}

fn named<'a>(text: &'a str, list: &'a dyn TableLike, kind: Kind) -> impl Iterator<Item = Dependency> + 'a {
    list.iter().map(move |(name, item)| {
        let span = list.key(name).and_then(toml_edit::Key::span);
        let line = span.map_or(1, |span| text[..span.start].matches('\n').count() + 1);
        let is_path = item.as_table_like().is_some_and(|table| table.contains_key("path"));
        Dependency { name: name.to_owned(), kind, line, is_path }
    })
}

#[cfg(test)]
mod tests {
    use super::{Kind, Manifest};

    #[test]
    fn every_way_to_name_a_dependency_is_seen() {
        let text = "[package]\nname = \"one\" # its name\nversion.workspace = true\n\n[dependencies]\n# no = \"1\"\n\
                    a.workspace = true\nb = { path = \"../b\", optional = true }\n[dependencies.c]\npath = \"../c\"\n\
                    [dev-dependencies]\nd = \"1\"\n[target.'cfg(any(unix, a.b))'.build-dependencies]\ne = \"1\"\n\
                    [workspace.dependencies]\nf = { version = \"1\" }\n[features]\ng = [\"dep:b\"]\n";
        let manifest = Manifest::parse(text);
        assert_eq!(manifest.package.as_deref(), Some("one"));
        let seen: Vec<_> = manifest.dependencies.iter().map(|d| (d.name.as_str(), d.kind, d.line, d.is_path)).collect();
        assert_eq!(
            seen,
            [
                ("a", Kind::Normal, 7, false),
                ("b", Kind::Normal, 8, true),
                ("c", Kind::Normal, 9, true),
                ("d", Kind::Dev, 12, false),
                ("e", Kind::Build, 14, false),
                ("f", Kind::Workspace, 16, false),
            ]
        );
    }
}
