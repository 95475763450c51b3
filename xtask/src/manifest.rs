//! As much of a `Cargo.toml` as the rules of the house need: the package's name and its dependencies, each with its
//! line. What may not live here: a whole TOML reader.

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

/// What one `Cargo.toml` says.
#[derive(Debug, Default)]
pub(crate) struct Manifest {
    pub(crate) package: Option<String>,
    pub(crate) dependencies: Vec<Dependency>,
}

/// Where a line stands.
enum Section {
    Package,
    List(Kind),
    /// `[dependencies.NAME]`: its lines are about the last dependency.
    Single,
    Other,
}

impl Manifest {
    pub(crate) fn parse(text: &str) -> Self {
        let mut manifest = Self::default();
        let mut section = Section::Other;
        for (index, line) in text.lines().enumerate() {
            let line = line.split(" #").next().unwrap_or_default().trim();
            if let Some(header) = line.strip_prefix('[').and_then(|rest| rest.strip_suffix(']')) {
                section = manifest.open(header, index + 1);
                continue;
            }
            let Some((key, value)) = line.split_once('=').filter(|_| !line.starts_with('#')) else { continue };
            let (key, value) = (key.trim(), value.trim());
            match section {
                Section::Package if key == "name" => manifest.package = Some(value.trim_matches('"').to_owned()),
                Section::List(kind) => manifest.add(key, kind, index + 1, has_path(value)),
                Section::Single if key == "path" => {
                    manifest.dependencies.last_mut().expect("the header has added it").is_path = true;
                }
                Section::Package | Section::Single | Section::Other => {}
            }
        }
        manifest
    }

    fn open(&mut self, header: &str, line: usize) -> Section {
        if header == "package" {
            return Section::Package;
        }
        let mut words: Vec<&str> = header.split('.').collect();
        // A target's expression may hold dots: only what follows its closing quote counts.
        if let Some((_, rest)) = header.rsplit_once("'.") {
            words = rest.split('.').collect();
        }
        match words.as_slice() {
            ["workspace", "dependencies"] => Section::List(Kind::Workspace),
            ["workspace", "dependencies", name] => self.single(name, Kind::Workspace, line),
            [list] => list_kind(list).map_or(Section::Other, Section::List),
            [list, name] => list_kind(list).map_or(Section::Other, |kind| self.single(name, kind, line)),
            _ => Section::Other,
        }
    }

    fn single(&mut self, name: &str, kind: Kind, line: usize) -> Section {
        self.add(name, kind, line, false);
        Section::Single
    }

    fn add(&mut self, key: &str, kind: Kind, line: usize, is_path: bool) {
        let name = key.split('.').next().unwrap_or(key).trim_matches('"').to_owned();
        self.dependencies.push(Dependency { name, kind, line, is_path });
    }
}

fn list_kind(list: &str) -> Option<Kind> {
    match list {
        "dependencies" => Some(Kind::Normal),
        "dev-dependencies" => Some(Kind::Dev),
        "build-dependencies" => Some(Kind::Build),
        _ => None,
    }
}

fn has_path(value: &str) -> bool {
    value.strip_prefix('{').is_some_and(|table| table.split(',').any(|field| field.trim().starts_with("path ")))
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
