//! What a command was when somebody was asked about it: the programs that its line names, its scripts, and its folder. Between question
//! and answer another call, or a command in the background, may put something else in their place; then nothing runs.

use std::fs::{self, File};
use std::io::Read as _;
use std::os::unix::fs::MetadataExt as _;
use std::path::{Path, PathBuf};

use engine::Hash;
use serde::{Deserialize, Serialize};

use crate::error::ToolError;
use crate::limits::{APPROVED_BYTES, APPROVED_FILES};
use crate::shell::simple_commands;

/// Where a shell looks for programs without `PATH`.
const SHELL_PATH: &str = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin";

/// A file or folder that a question was about.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct ApprovedFile {
    /// Where it really is.
    pub(crate) path: PathBuf,
    /// What it is: a hash of its content if it is short, else of what the file system says of it.
    pub(crate) hash: Hash,
}

/// An error if the line would run something else in this folder now. Nothing is known of a command that nobody was asked about.
pub(crate) fn is_still(seen: &[ApprovedFile], root: &Path, line: &str) -> Result<(), ToolError> {
    if seen.is_empty() {
        return Ok(());
    }
    let now = seen_of(root, line);
    let changed = |(a, b): &(Option<&ApprovedFile>, Option<&ApprovedFile>)| a != b;
    let pairs = (0..seen.len().max(now.len())).map(|at| (seen.get(at), now.get(at)));
    match pairs.into_iter().find(changed) {
        None => Ok(()),
        Some((before, after)) => {
            let path = before.or(after).map(|file| file.path.display().to_string()).unwrap_or_default();
            Err(ToolError::Replaced { path })
        }
    }
}

/// The folder, the programs of a line, and the files among its words that a program runs: a script, or what an interpreter is given.
pub(crate) fn seen_of(root: &Path, line: &str) -> Vec<ApprovedFile> {
    let mut seen: Vec<ApprovedFile> = seen_file(root.to_owned()).into_iter().collect();
    let Some(commands) = simple_commands(line) else {
        // Any of its words may be a program, and any of its files may be run.
        let is_end = |c: char| c.is_whitespace() || ";|&()<>`$\"'{}=\\".contains(c);
        for word in line.split(is_end).filter(|word| !word.is_empty()).take(APPROVED_FILES) {
            add(&mut seen, program(root, word).or_else(|| file(root, word)));
        }
        return seen;
    };
    let mut folder = root.to_owned();
    for command in commands {
        let known: Vec<&str> = command.iter().map_while(Option::as_deref).collect();
        let Some((name, words)) = known.split_first() else { continue };
        if *name == "cd" {
            folder = words.first().map_or_else(|| folder.clone(), |to| folder.join(expanded(to)));
            continue;
        }
        add(&mut seen, program(&folder, name));
        let interprets = interprets(name);
        for word in command.iter().skip(1).flatten() {
            let found = file(&folder, word).filter(|path| interprets || is_script(path));
            add(&mut seen, found);
        }
    }
    seen
}

fn add(seen: &mut Vec<ApprovedFile>, path: Option<PathBuf>) {
    let is_new = |path: &PathBuf| !seen.iter().any(|file| file.path == *path);
    if seen.len() < APPROVED_FILES
        && let Some(file) = path.filter(is_new).and_then(seen_file)
    {
        seen.push(file);
    }
}

/// Programs that run what is in a file of their arguments.
fn interprets(name: &str) -> bool {
    const INTERPRETERS: &[&str] = &[
        ".", "awk", "bash", "bun", "dash", "deno", "env", "fish", "gawk", "just", "ksh", "lua", "make", "node", "npx",
        "perl", "php", "python", "ruby", "sed", "sh", "source", "xargs", "zsh",
    ];
    let name = name.rsplit('/').next().unwrap_or(name);
    let name = name.trim_end_matches(|c: char| c.is_ascii_digit() || c == '.');
    name.is_empty() || INTERPRETERS.contains(&name)
}

/// What a shell runs for this name of a command; none for one of its own words.
fn program(folder: &Path, name: &str) -> Option<PathBuf> {
    if name.contains('/') {
        return file(folder, name);
    }
    // A service may have none, and its shell looks where shells then look.
    let path = std::env::var_os("PATH").unwrap_or_else(|| SHELL_PATH.into());
    let found = std::env::split_paths(&path).map(|entry| folder.join(entry).join(name));
    let found = found.filter_map(|path| fs::canonicalize(path).ok());
    found.into_iter().find(|path| fs::metadata(path).is_ok_and(|at| at.is_file() && at.mode() & 0o111 != 0))
}

/// The file of a word.
fn file(folder: &Path, word: &str) -> Option<PathBuf> {
    let path = fs::canonicalize(folder.join(expanded(word))).ok()?;
    fs::metadata(&path).is_ok_and(|at| at.is_file()).then_some(path)
}

fn expanded(word: &str) -> PathBuf {
    match (word.strip_prefix("~/"), std::env::var_os("HOME")) {
        (Some(rest), Some(home)) => Path::new(&home).join(rest),
        _ => PathBuf::from(word),
    }
}

/// Whether a file is one that can be run.
fn is_script(path: &Path) -> bool {
    let is_executable = fs::metadata(path).is_ok_and(|at| at.mode() & 0o111 != 0);
    is_executable || beginning(path, 2).is_some_and(|start| start == b"#!")
}

fn beginning(path: &Path, most: u64) -> Option<Vec<u8>> {
    let mut bytes = vec![];
    File::open(path).ok()?.take(most).read_to_end(&mut bytes).ok()?;
    Some(bytes)
}

fn seen_file(path: PathBuf) -> Option<ApprovedFile> {
    let at = fs::metadata(&path).ok()?;
    let short = if at.is_file() && at.len() <= APPROVED_BYTES { beginning(&path, APPROVED_BYTES + 1) } else { None };
    let hash = short.map_or_else(
        || {
            let times =
                if at.is_dir() { String::new() } else { format!("{} {}.{}", at.size(), at.ctime(), at.ctime_nsec()) };
            Hash::of(format!("{} {} {times}", at.dev(), at.ino()).as_bytes())
        },
        |content| Hash::of(&content),
    );
    Some(ApprovedFile { path, hash })
}
