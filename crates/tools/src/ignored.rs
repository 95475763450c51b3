//! What the files `.ignore`, `.gitignore`, `.git/info/exclude` and the user's own excludes leave out of a walk. These files lie
//! where a model or a project can put anything under their names, so they are read here and not by the library: only regular
//! files, bounded, never blocking, and in a workspace never what a link leads to. A file that is none counts as absent.

use std::fs::File;
use std::io::Read as _;
use std::path::{Path, PathBuf};

use ignore::Match;
use ignore::gitignore::{Gitignore, GitignoreBuilder};
use rustix::fs::{FileType, Mode, OFlags, fstat};

use crate::limits::{IGNORE_BYTES, IGNORE_RULES, PATTERN_BYTES};

/// What the rules say of an entry.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Ignored {
    Yes,
    /// No rule names it.
    No,
    /// A rule says that it is not to be left out.
    Kept,
}

/// The rules of the folders from the root to the one that the walk is in.
#[derive(Debug)]
pub(crate) struct IgnoreRules {
    levels: Vec<Level>,
    global: Gitignore,
}

/// The rules of one folder; those that count more come first.
#[derive(Debug)]
struct Level {
    folder: PathBuf,
    rules: [Gitignore; 3],
}

impl IgnoreRules {
    /// The rules for a walk of this folder.
    pub(crate) fn of(folder: &Path) -> Self {
        let global = global_file().map_or_else(Gitignore::empty, |file| rules(folder, &file, OFlags::empty()));
        Self { levels: vec![], global }
    }

    /// Whether this path is left out.
    pub(crate) fn judge(&mut self, path: &Path, is_folder: bool) -> Ignored {
        self.enter(path.parent().unwrap_or(Path::new("/")));
        self.judge_here(path, is_folder)
    }

    /// The same for a path in the folder that was entered last.
    pub(crate) fn judge_here(&self, path: &Path, is_folder: bool) -> Ignored {
        let nearest = |kind: usize| {
            let found = self.levels.iter().rev().map(|level| level.rules[kind].matched(path, is_folder));
            found.into_iter().find(|found| !found.is_none())
        };
        let found = (0..3).find_map(nearest).unwrap_or_else(|| self.global.matched(path, is_folder));
        match found {
            Match::Ignore(_) => Ignored::Yes,
            Match::Whitelist(_) => Ignored::Kept,
            Match::None => Ignored::No,
        }
    }

    /// Has the rules of this folder and of all above it.
    pub(crate) fn enter(&mut self, folder: &Path) {
        // Most entries are in the folder of the one before; to compare paths part by part takes longer than all the rest.
        if self.levels.last().is_some_and(|level| level.folder.as_os_str() == folder.as_os_str()) {
            return;
        }
        while self.levels.last().is_some_and(|level| !folder.starts_with(&level.folder)) {
            self.levels.pop();
        }
        let known = self.levels.last().map_or(0, |level| level.folder.components().count());
        let missing: Vec<&Path> = folder.ancestors().take(folder.components().count() - known).collect();
        self.levels.extend(missing.into_iter().rev().map(Level::of));
    }
}

impl Level {
    fn of(folder: &Path) -> Self {
        let here = |name| rules(folder, &folder.join(name), OFlags::NOFOLLOW);
        let exclude = git_folder(folder)
            .map_or_else(Gitignore::empty, |git| rules(folder, &git.join("info/exclude"), OFlags::empty()));
        Self { folder: folder.to_owned(), rules: [here(".ignore"), here(".gitignore"), exclude] }
    }
}

/// The rules of a file, which hold below `folder`. Rules that cannot be parsed count for nothing.
fn rules(folder: &Path, file: &Path, how: OFlags) -> Gitignore {
    let Some(text) = text(file, how) else { return Gitignore::empty() };
    let mut builder = GitignoreBuilder::new(folder);
    let lines = text.trim_start_matches('\u{feff}').lines();
    for line in lines.filter(|line| line.len() <= PATTERN_BYTES).take(IGNORE_RULES) {
        let _ = builder.add_line(None, line);
    }
    builder.build().unwrap_or_else(|_| Gitignore::empty())
}

/// The text of a file; none if it is not a regular file of at most [`IGNORE_BYTES`].
fn text(path: &Path, how: OFlags) -> Option<String> {
    let is_text = |file: &rustix::fd::OwnedFd| {
        let stat = fstat(file).ok()?;
        let is_file = FileType::from_raw_mode(stat.st_mode) == FileType::RegularFile;
        (is_file && u64::try_from(stat.st_size).is_ok_and(|size| size <= IGNORE_BYTES)).then_some(())
    };
    let open = |flags: OFlags| rustix::fs::open(path, flags | how | OFlags::CLOEXEC, Mode::empty()).ok();
    // To open a device can have an effect, so what it is is asked first.
    is_text(&open(OFlags::PATH)?)?;
    let file = open(OFlags::RDONLY | OFlags::NONBLOCK | OFlags::NOCTTY)?;
    is_text(&file)?;
    let mut bytes = Vec::new();
    File::from(file).take(IGNORE_BYTES).read_to_end(&mut bytes).ok()?;
    Some(String::from_utf8_lossy(&bytes).into_owned())
}

/// The folder of git for a work tree; of one of several work trees the one that they share.
fn git_folder(folder: &Path) -> Option<PathBuf> {
    let git = folder.join(".git");
    if git.is_dir() {
        return Some(git);
    }
    let first = |file: &Path| Some(text(file, OFlags::NOFOLLOW)?.lines().next()?.to_owned());
    let own = folder.join(first(&git)?.strip_prefix("gitdir: ")?);
    Some(own.join(first(&own.join("commondir"))?))
}

/// The user's own file of rules: `core.excludesFile`, or where git looks without it.
fn global_file() -> Option<PathBuf> {
    let variable = |name| std::env::var_os(name).filter(|value| !value.is_empty()).map(PathBuf::from);
    let home = variable("HOME");
    let configuration = variable("XDG_CONFIG_HOME").or_else(|| Some(home.as_ref()?.join(".config")));
    let own = |name: &str| configuration.as_ref().map(|folder| folder.join(name));
    let configured = match variable("GIT_CONFIG_GLOBAL") {
        Some(file) => vec![Some(file)],
        None => vec![home.as_ref().map(|home| home.join(".gitconfig")), own("git/config")],
    };
    let system = variable("GIT_CONFIG_SYSTEM").unwrap_or_else(|| "/etc/gitconfig".into());
    let mut files = configured.into_iter().flatten().chain([system]);
    let named = files.find_map(|file| excludes_file(&text(&file, OFlags::empty())?, home.as_deref()));
    named.or_else(|| own("git/ignore"))
}

/// The value of `excludesFile` in a configuration of git.
fn excludes_file(configuration: &str, home: Option<&Path>) -> Option<PathBuf> {
    let value = configuration.lines().find_map(|line| {
        let (name, value) = line.split_once('=')?;
        name.trim().eq_ignore_ascii_case("excludesfile").then(|| value.trim().trim_matches('"').trim())
    })?;
    match (value.strip_prefix("~/"), home) {
        (Some(below), Some(home)) => Some(home.join(below)),
        _ => Some(PathBuf::from(value)),
    }
}

#[cfg(test)]
mod tests {
    use std::fs;

    use super::*;

    #[test]
    fn the_users_excludes_are_found_in_the_configuration_of_git() {
        let found = |text| excludes_file(text, Some(Path::new("/home/a")));
        assert_eq!(found("[core]\n\tExcludesFile = \"~/ignore\"\n"), Some("/home/a/ignore".into()));
        assert_eq!(found("[core]\nexcludesfile=/etc/ignore"), Some("/etc/ignore".into()));
        assert_eq!(found("[core]\npager = less\n"), None);
    }

    #[test]
    fn the_rules_of_the_nearest_folder_and_of_the_more_special_file_count() {
        let root = tempfile::tempdir().unwrap();
        let root = root.path();
        for (file, text) in [
            (".gitignore", "*.log\n/only-here\nbuild/\n"),
            ("a/.gitignore", "!kept.log\n"),
            ("a/.ignore", "kept.log\n*.tmp\n"),
            (".git/info/exclude", "private\n"),
            ("tree/.git", "gitdir: ../.git/worktrees/tree\n"),
            (".git/worktrees/tree/commondir", "../..\n"),
            ("b/.gitignore", "\u{feff}first\n[broken\n*.ok\n"),
        ] {
            fs::create_dir_all(root.join(file).parent().unwrap()).unwrap();
            fs::write(root.join(file), text).unwrap();
        }
        let mut rules = IgnoreRules { levels: vec![], global: Gitignore::empty() };
        for (path, is_folder, expected) in [
            ("x.log", false, Ignored::Yes),
            ("a/x.log", false, Ignored::Yes),
            ("a/kept.log", false, Ignored::Yes),
            ("a/deep/x.tmp", false, Ignored::Yes),
            ("b/x.tmp", false, Ignored::No),
            ("only-here", false, Ignored::Yes),
            ("b/only-here", false, Ignored::No),
            ("b/build", true, Ignored::Yes),
            ("b/build", false, Ignored::No),
            ("b/first", false, Ignored::Yes),
            ("b/x.ok", false, Ignored::Yes),
            ("private", false, Ignored::Yes),
            ("tree/private", false, Ignored::Yes),
        ] {
            assert_eq!(rules.judge(&root.join(path), is_folder), expected, "{path}");
        }
        fs::remove_file(root.join("a/.ignore")).unwrap();
        let mut rules = IgnoreRules { levels: vec![], global: Gitignore::empty() };
        assert_eq!(rules.judge(&root.join("a/kept.log"), false), Ignored::Kept);
    }
}
