//! Reads the text files of the project once.

use std::fs;
use std::io;
use std::path::{Path, PathBuf};

/// Folders with generated, downloaded or cached files.
const SKIPPED_FOLDERS: [&str; 4] = [".git", "target", "node_modules", "dist"];

/// A text file of the project.
#[derive(Debug)]
pub(crate) struct TextFile {
    /// Relative to the root, with `/`.
    pub(crate) path: String,
    pub(crate) text: String,
}

/// All text files below a root, in order of their paths.
#[derive(Debug)]
pub(crate) struct Tree {
    pub(crate) root: PathBuf,
    pub(crate) files: Vec<TextFile>,
}

impl Tree {
    /// Reads every file below `root` that is UTF-8; links are not followed.
    pub(crate) fn read(root: &Path) -> io::Result<Self> {
        let mut files = vec![];
        let mut folders = vec![PathBuf::new()];
        while let Some(folder) = folders.pop() {
            for entry in fs::read_dir(root.join(&folder))? {
                let entry = entry?;
                let path = folder.join(entry.file_name());
                let kind = entry.file_type()?;
                if kind.is_dir() && !is_skipped(&path) {
                    folders.push(path);
                } else if kind.is_file()
                    && let Ok(text) = String::from_utf8(fs::read(root.join(&path))?)
                {
                    files.push(TextFile { path: path.to_string_lossy().replace('\\', "/"), text });
                }
            }
        }
        files.sort_by(|a, b| a.path.cmp(&b.path));
        Ok(Self { root: root.to_owned(), files })
    }

    /// The file at this path.
    pub(crate) fn file(&self, path: &str) -> Option<&TextFile> {
        self.files.binary_search_by(|file| file.path.as_str().cmp(path)).ok().map(|index| &self.files[index])
    }

    /// The files whose paths end with this, such as `.rs`.
    pub(crate) fn with_ending<'a>(&'a self, ending: &'a str) -> impl Iterator<Item = &'a TextFile> {
        self.files.iter().filter(move |file| file.path.ends_with(ending))
    }

    /// Whether a file or folder exists at this path, text or not.
    pub(crate) fn exists(&self, path: &str) -> bool {
        self.root.join(path).exists()
    }
}

fn is_skipped(folder: &Path) -> bool {
    folder.file_name().is_some_and(|name| SKIPPED_FOLDERS.iter().any(|skipped| name == *skipped))
}

#[cfg(test)]
pub(crate) mod made_up {
    //! Small trees in the temporary folder, removed when they are dropped.

    use std::fs;
    use std::path::PathBuf;
    use std::sync::atomic::{AtomicU32, Ordering};

    use super::Tree;

    static MADE: AtomicU32 = AtomicU32::new(0);

    pub(crate) struct Folder(pub(crate) PathBuf);

    impl Folder {
        pub(crate) fn new(files: &[(&str, &str)]) -> Self {
            let number = MADE.fetch_add(1, Ordering::Relaxed);
            let root = std::env::temp_dir().join(format!("limulus-xtask-{}-{number}", std::process::id()));
            for (path, text) in files {
                let path = root.join(path);
                fs::create_dir_all(path.parent().unwrap()).unwrap();
                fs::write(path, text).unwrap();
            }
            Self(root)
        }

        pub(crate) fn tree(&self) -> Tree {
            Tree::read(&self.0).unwrap()
        }
    }

    impl Drop for Folder {
        fn drop(&mut self) {
            let _ = fs::remove_dir_all(&self.0);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::made_up::Folder;

    #[test]
    fn text_files_are_read_and_generated_ones_are_not() {
        let folder = Folder::new(&[("b/two.rs", "2"), ("a.md", "1"), ("target/x.rs", "3"), ("b/.git/y", "4")]);
        std::fs::write(folder.0.join("picture.png"), [0xff, 0xfe]).unwrap();
        let tree = folder.tree();
        let paths: Vec<_> = tree.files.iter().map(|file| file.path.as_str()).collect();
        assert_eq!(paths, ["a.md", "b/two.rs"]);
        assert_eq!(tree.file("b/two.rs").unwrap().text, "2");
        assert!(tree.file("target/x.rs").is_none());
        assert!(tree.exists("picture.png") && !tree.exists("c"));
        assert_eq!(tree.with_ending(".rs").count(), 1);
    }
}
