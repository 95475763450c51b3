//! The instructions that a user and a project keep in files for whoever works there: `AGENTS.md`, else `CLAUDE.md`. They
//! are read as the tools read files: no pipe, no link out of the project, nothing that belongs to limulus itself.

use std::fs::File;
use std::io::{Read as _, Seek as _, SeekFrom};
use std::path::{Path, PathBuf};

use crate::error::ToolError;
use crate::guard::Protected;
use crate::limits::{INSTRUCTION_BYTES, INSTRUCTION_FILES, INSTRUCTIONS_BYTES};
use crate::paths::Workspace;
use crate::size::size;

/// The names of such a file; the first one that is there counts.
const NAMES: [&str; 2] = ["AGENTS.md", "CLAUDE.md"];
/// What the root of a project has.
const MARKS: [&str; 3] = [".git", ".hg", ".jj"];

/// The root of the project of a folder: the nearest folder upward that has `.git`, `.hg` or `.jj`. `user` is the user's
/// folder: it may be one, but no folder above it.
pub fn project_root<'a>(folder: &'a Path, user: Option<&Path>) -> Option<&'a Path> {
    let is_root = |path: &&Path| MARKS.iter().any(|mark| path.join(mark).symlink_metadata().is_ok());
    ancestors(folder, user).find(is_root)
}

/// A folder and those above it that may be the root of its project, the nearest first: none that is above the user's folder.
pub fn ancestors<'a>(folder: &'a Path, user: Option<&Path>) -> impl Iterator<Item = &'a Path> {
    let is_above_user = move |path: &Path| user.is_some_and(|user| user != path && user.starts_with(path));
    folder.ancestors().take_while(move |path| !is_above_user(path))
}

/// Files of instructions that are there. Finding them reads no content.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Instructions {
    /// The user's own.
    own: Option<PathBuf>,
    /// Those of the project, from its root to the workspace.
    project: Vec<PathBuf>,
    /// The folder out of which no link of the project may lead.
    root: PathBuf,
}

/// One file of instructions.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct InstructionFile {
    /// Its path.
    pub path: PathBuf,
    /// Its text, the middle left out if it is long; or why it cannot be used.
    pub text: Result<String, String>,
}

impl Instructions {
    /// Finds those of the user in `own`, and those of the project of `workspace`: from the root of the project to the
    /// workspace, else only that of the workspace.
    pub fn find(workspace: &Path, own: &Path, user: Option<&Path>) -> Self {
        let says_something =
            |path: &PathBuf| path.symlink_metadata().is_ok_and(|found| !found.is_file() || found.len() > 0);
        let in_folder = |folder: &Path| NAMES.iter().map(|name| folder.join(name)).find(says_something);
        let root = project_root(workspace, user).unwrap_or(workspace);
        let mut folders: Vec<_> =
            workspace.ancestors().take_while(|folder| folder.starts_with(root)).take(INSTRUCTION_FILES).collect();
        folders.reverse();
        let project = folders.into_iter().filter_map(in_folder).collect();
        Self { own: in_folder(own), project, root: root.to_owned() }
    }

    /// Whether there are none.
    pub fn is_empty(&self) -> bool {
        self.own.is_none() && self.project.is_empty()
    }

    /// Reads them: the user's own, then from the root of the project to the workspace. All of them have at most `most` bytes;
    /// what is nearest to the workspace is kept longest.
    pub fn read(self, protected: &Protected, most: usize) -> Vec<InstructionFile> {
        let mut left = most.min(INSTRUCTIONS_BYTES);
        let project = self.project.iter().rev().map(|path| (path, false));
        let own = self.own.iter().map(|path| (path, true));
        let mut files: Vec<_> = project
            .chain(own)
            .map(|(path, is_own)| {
                let most = left.min(INSTRUCTION_BYTES);
                let text = if is_own { read_own(path, most) } else { read(&self.root, path, protected, most) };
                left -= text.as_ref().map_or(0, String::len).min(left);
                InstructionFile { path: path.clone(), text }
            })
            .filter(|file| file.text.as_ref().map_or(true, |text| !text.is_empty()))
            .collect();
        files.reverse();
        files
    }
}

/// Reads the user's own. Many keep such files elsewhere and have a link here; only they can write in this folder, which is that of
/// limulus itself.
fn read_own(path: &Path, most: usize) -> Result<String, String> {
    let target = path.canonicalize().map_err(|error| format!("cannot read it: {error}"))?;
    read(target.parent().unwrap_or(&target), &target, &Protected::default(), most)
}

/// Reads a file below `root`, at most about `most` bytes of it.
fn read(root: &Path, path: &Path, protected: &Protected, most: usize) -> Result<String, String> {
    let said = |error: ToolError| error.to_string();
    let shown = path.to_str().ok_or("its path is not UTF-8")?;
    let workspace = Workspace::open(root, protected).map_err(said)?;
    let resolved = workspace.resolve(shown).map_err(said)?;
    if !resolved.inside {
        return Err(format!("it is a link that leads out of {}", root.display()));
    }
    let (file, bytes) = resolved.open_file("read").map_err(said)?;
    let text = beginning_and_end(file, bytes, most).map_err(|error| format!("cannot read it: {error}"))?;
    let text = text.ok_or("it is not text in UTF-8")?;
    let text = text.trim_start_matches('\u{feff}').trim();
    Ok(text.to_owned())
}

/// The whole text, or its first 70 % and its last 20 % of `most` bytes; none if it is no text in UTF-8.
fn beginning_and_end(mut file: File, bytes: u64, most: usize) -> std::io::Result<Option<String>> {
    let mut read = |at: u64, bytes: usize| {
        let mut part = Vec::new();
        file.seek(SeekFrom::Start(at))?;
        (&file).take(bytes as u64).read_to_end(&mut part)?;
        Ok::<_, std::io::Error>(part)
    };
    if bytes <= most as u64 {
        let whole = read(0, most)?;
        return Ok(text(&whole, Cut::None));
    }
    let (first, last) = (most / 10 * 7, most / 10 * 2);
    let (first, last) = (read(0, first)?, read(bytes - last as u64, last)?);
    let (first, last) = (text(&first, Cut::End), text(&last, Cut::Beginning));
    Ok(first.zip(last).map(|(first, last)| {
        let left_out = size(bytes - (first.len() + last.len()) as u64);
        format!("{}\n[{left_out} are left out here]\n{}", first.trim_end(), last.trim_start())
    }))
}

/// Where a piece of a text was cut, perhaps within a character.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Cut {
    None,
    Beginning,
    End,
}

fn text(piece: &[u8], cut: Cut) -> Option<String> {
    // The other bytes of a character begin with the bits 10.
    let from =
        if cut == Cut::Beginning { piece.iter().take(3).take_while(|byte| **byte & 0xC0 == 0x80).count() } else { 0 };
    let piece = &piece[from..];
    let text = match std::str::from_utf8(piece) {
        Ok(text) => text,
        Err(error) if cut == Cut::End && error.error_len().is_none() => {
            std::str::from_utf8(&piece[..error.valid_up_to()]).ok()?
        }
        Err(_) => return None,
    };
    (!text.contains('\0')).then(|| text.to_owned())
}

#[cfg(test)]
mod tests {
    use std::fs;
    use std::os::unix::fs::symlink;

    use super::*;

    struct Tree(tempfile::TempDir);

    impl Tree {
        fn new() -> Self {
            let tree = Self(tempfile::tempdir().unwrap());
            for folder in ["user/own", "user/proj/.git", "user/proj/a/b", "user/plain/c"] {
                fs::create_dir_all(tree.at(folder)).unwrap();
            }
            tree
        }

        fn at(&self, path: &str) -> PathBuf {
            self.0.path().canonicalize().unwrap().join(path)
        }

        fn write(&self, path: &str, text: impl AsRef<[u8]>) {
            fs::write(self.at(path), text).unwrap();
        }

        fn read_within(&self, workspace: &str, most: usize) -> Vec<(String, Result<String, String>)> {
            let found = Instructions::find(&self.at(workspace), &self.at("user/own"), Some(&self.at("user")));
            let user = self.at("user");
            let files = found.read(&Protected::folder(self.at("user/own")), most).into_iter();
            files.map(|file| (file.path.strip_prefix(&user).unwrap().display().to_string(), file.text)).collect()
        }

        fn read(&self, workspace: &str) -> Vec<(String, Result<String, String>)> {
            self.read_within(workspace, usize::MAX)
        }
    }

    fn ok(path: &str, text: &str) -> (String, Result<String, String>) {
        (path.to_owned(), Ok(text.to_owned()))
    }

    #[test]
    fn r41_instructions_are_those_of_the_user_then_from_the_root_of_the_project_to_the_workspace() {
        let tree = Tree::new();
        assert_eq!(tree.read("user/proj/a/b"), []);
        for (path, text) in [
            ("user/own/AGENTS.md", "own"),
            ("user/proj/AGENTS.md", "\u{feff}root\r\n"),
            // There is an AGENTS.md beside it.
            ("user/proj/CLAUDE.md", "not this"),
            ("user/proj/a/CLAUDE.md", "middle"),
            ("user/proj/a/b/AGENTS.md", "near"),
            // Above the project.
            ("user/AGENTS.md", "not this"),
            ("user/plain/AGENTS.md", "not this: it is no project"),
            ("user/plain/c/AGENTS.md", ""),
        ] {
            tree.write(path, text);
        }
        let own = ok("own/AGENTS.md", "own");
        let expected = [
            own.clone(),
            ok("proj/AGENTS.md", "root"),
            ok("proj/a/CLAUDE.md", "middle"),
            ok("proj/a/b/AGENTS.md", "near"),
        ];
        assert_eq!(tree.read("user/proj/a/b"), expected);
        assert_eq!(tree.read("user/proj"), expected[..2]);
        assert_eq!(tree.read("user/plain/c"), [own]);
    }

    #[test]
    fn r41_a_long_file_keeps_its_beginning_and_its_end_and_the_nearest_files_are_kept_longest() {
        let tree = Tree::new();
        let long = "é".repeat(40 << 20);
        tree.write("user/proj/AGENTS.md", &long);
        let read = tree.read("user/proj");
        let text = read[0].1.as_ref().unwrap();
        assert!(text.len() < INSTRUCTION_BYTES && text.len() > INSTRUCTION_BYTES / 2, "{}", text.len());
        let (first, rest) = text.split_once('\n').unwrap();
        let (note, last) = rest.split_once('\n').unwrap();
        assert!(first.chars().chain(last.chars()).all(|c| c == 'é') && first.len() > 3 * last.len(), "{first} {last}");
        assert_eq!(note, "[80.0 MB are left out here]");
        tree.write("user/proj/a/AGENTS.md", "near ".repeat(20));
        let read = tree.read_within("user/proj/a", 120);
        let texts: Vec<_> = read.iter().map(|(_, text)| text.as_ref().unwrap().len()).collect();
        assert_eq!(texts[1], 99, "{read:?}");
        assert!(texts[0] < 70, "{read:?}");
    }

    #[test]
    fn r41_instructions_that_cannot_be_read_are_named_and_block_nothing() {
        let tree = Tree::new();
        let check = |prepare: &dyn Fn(&Path), part: &str| {
            let path = tree.at("user/proj/AGENTS.md");
            prepare(&path);
            let read = tree.read("user/proj");
            let [(_, Err(why))] = &read[..] else { panic!("{part}: {read:?}") };
            assert!(why.contains(part), "{part}: {why}");
            if path.is_dir() { fs::remove_dir(path).unwrap() } else { fs::remove_file(path).unwrap() }
        };
        check(&|path| fs::write(path, b"caf\xe9 au lait").unwrap(), "it is not text in UTF-8");
        check(&|path| fs::write(path, b"a\0b").unwrap(), "it is not text in UTF-8");
        check(&|path| fs::create_dir(path).unwrap(), "is a folder");
        check(&|path| symlink("/etc/hostname", path).unwrap(), "leads out of");
        check(&|path| symlink("AGENTS.md", path).unwrap(), "loop");
        check(&|path| symlink("gone.md", path).unwrap(), "No such file");
        let fifo = |path: &Path| {
            rustix::fs::mknodat(rustix::fs::CWD, path, rustix::fs::FileType::Fifo, rustix::fs::Mode::RWXU, 0).unwrap();
        };
        check(&fifo, "AGENTS.md");
        // A home within the project is not for reading.
        let home = tree.at("user/proj/home");
        fs::create_dir(&home).unwrap();
        fs::write(home.join("config.toml"), "key").unwrap();
        symlink("home/config.toml", tree.at("user/proj/AGENTS.md")).unwrap();
        let found = Instructions::find(&tree.at("user/proj"), &tree.at("user/own"), None);
        let [InstructionFile { text: Err(why), .. }] = &found.read(&Protected::folder(home), usize::MAX)[..] else {
            panic!("a file of limulus itself was read")
        };
        assert!(why.contains("limulus"), "{why}");
    }

    #[test]
    fn r41_a_link_within_the_project_is_followed() {
        let tree = Tree::new();
        tree.write("user/proj/CLAUDE.md", "both");
        symlink("../CLAUDE.md", tree.at("user/proj/a/AGENTS.md")).unwrap();
        assert_eq!(tree.read("user/proj/a"), [ok("proj/CLAUDE.md", "both"), ok("proj/a/AGENTS.md", "both")]);
    }

    #[test]
    fn r41_the_users_own_may_be_a_link_to_wherever_they_keep_it() {
        let tree = Tree::new();
        fs::create_dir(tree.at("user/dotfiles")).unwrap();
        tree.write("user/dotfiles/agents.md", "answer in French");
        symlink("../dotfiles/agents.md", tree.at("user/own/AGENTS.md")).unwrap();
        assert_eq!(tree.read("user/proj"), [ok("own/AGENTS.md", "answer in French")]);
        fs::remove_file(tree.at("user/dotfiles/agents.md")).unwrap();
        let read = tree.read("user/proj");
        assert!(matches!(&read[..], [(_, Err(why))] if why.contains("No such file")), "{read:?}");
    }
}
