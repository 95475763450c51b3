//! The names of files and folders that other programs run, or load as their configuration, without asking: to write one of them is to
//! run a command later, in another program, with the rights of the user. Tools for files ask about all of them; a command in its
//! sandbox is held or reported by what each row says.
//!
//! Source code, build files such as Makefile, and instructions such as AGENTS.md are not among them: to write them is the work of an
//! agent.

use std::borrow::Cow;
use std::collections::BTreeMap;
use std::ffi::OsStr;
use std::path::Path;
use std::sync::LazyLock;

/// What the sandbox does about a name in a workspace.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Hold {
    /// What exists is read-only, at any depth that is looked at. What a command creates is reported.
    Existing,
    /// What a command creates is reported. Work on a project changes what exists, also by checking another branch out.
    Reported,
    /// Git's own, of which only some parts are read-only. What a command creates is reported.
    Repository,
    /// Only tools for files ask about it: it has this meaning beside certain others only.
    Unseen,
}

/// A group of names.
struct Group {
    hold: Hold,
    /// In small letters. One with a slash counts only in that folder.
    names: &'static [&'static str],
}

/// Everything in such a folder counts.
const GROUPS: &[Group] = &[
    // `.git` may also be a file that names another folder.
    Group { hold: Hold::Repository, names: &[".git", "git~1"] },
    // A folder with this file can be a repository of git, with hooks and a configuration of its own.
    Group { hold: Hold::Unseen, names: &["head"] },
    // Other version control. All of it is in one folder, in which each commit writes.
    Group { hold: Hold::Reported, names: &[".hg", ".svn", ".jj", ".bzr"] },
    // Hooks, filters, aliases and pagers of version control.
    Group {
        hold: Hold::Existing,
        names: &[
            ".githooks",
            "githooks",
            ".husky",
            "lefthook.yml",
            ".lefthook.yml",
            ".pre-commit-config.yaml",
            ".gitconfig",
            ".config/git",
        ],
    },
    // Environments that a shell loads when it enters a folder.
    Group { hold: Hold::Existing, names: &[".envrc"] },
    Group { hold: Hold::Reported, names: &[".mise.toml", "mise.toml", ".tool-versions", ".direnv"] },
    // Tasks, settings and start commands of editors and containers for development.
    Group {
        hold: Hold::Existing,
        names: &[
            ".vscode",
            ".vscode-server",
            ".idea",
            ".fleet",
            ".zed",
            ".vs",
            ".devcontainer",
            ".devcontainer.json",
            ".cursor",
            ".windsurf",
            ".nvim.lua",
            ".nvimrc",
            ".exrc",
            ".vimrc",
            ".gvimrc",
            ".vim",
            ".config/nvim",
            ".emacs",
            ".emacs.d",
            ".dir-locals.el",
            ".nano",
            ".nanorc",
        ],
    },
    // Start files of shells, sessions and terminals.
    Group {
        hold: Hold::Existing,
        names: &[
            ".bashrc",
            ".bash_profile",
            ".bash_login",
            ".bash_logout",
            ".bash_aliases",
            ".profile",
            ".zshrc",
            ".zshenv",
            ".zprofile",
            ".zlogin",
            ".zlogout",
            ".kshrc",
            ".mkshrc",
            ".cshrc",
            ".tcshrc",
            ".login",
            ".logout",
            ".inputrc",
            ".oh-my-zsh",
            ".xprofile",
            ".xinitrc",
            ".xsession",
            ".xsessionrc",
            ".xserverrc",
            ".pam_environment",
            ".tmux.conf",
            ".screenrc",
            ".config/fish",
            ".config/autostart",
            ".config/systemd",
            ".config/environment.d",
        ],
    },
    // Programs that shells find there.
    Group { hold: Hold::Reported, names: &[".local/bin"] },
    // Keys and commands of remote shells and of encryption.
    Group { hold: Hold::Existing, names: &[".ssh", ".gnupg", ".rhosts", ".shosts", ".forward", ".procmailrc"] },
    // Start files of interpreters, debuggers and database shells.
    Group {
        hold: Hold::Existing,
        names: &[
            ".pythonrc",
            ".pythonstartup",
            "sitecustomize.py",
            "usercustomize.py",
            ".irbrc",
            ".pryrc",
            ".rprofile",
            ".ghci",
            ".perldb",
            ".gdbinit",
            ".lldbinit",
            ".psqlrc",
            ".sqliterc",
            ".mailcap",
            ".curlrc",
            ".wgetrc",
        ],
    },
    // Tools of a build that run programs which their configuration names.
    Group {
        hold: Hold::Reported,
        names: &[
            ".npmrc",
            ".yarnrc",
            ".yarnrc.yml",
            ".pnpmfile.cjs",
            ".mvn",
            ".bazelrc",
            ".cargo/config",
            ".cargo/config.toml",
        ],
    },
    // Jobs of continuous integration, which run with the secrets of the project.
    Group {
        hold: Hold::Reported,
        names: &[
            ".github/workflows",
            ".github/actions",
            ".circleci",
            ".buildkite",
            ".woodpecker",
            ".forgejo",
            ".gitea",
            ".gitlab-ci.yml",
            ".travis.yml",
            ".drone.yml",
            ".woodpecker.yml",
            ".appveyor.yml",
            "appveyor.yml",
            "azure-pipelines.yml",
            "bitbucket-pipelines.yml",
            "jenkinsfile",
        ],
    },
    // Hooks, servers and permissions of agents.
    Group {
        hold: Hold::Existing,
        names: &[
            ".limulus",
            ".agents",
            ".mcp.json",
            ".claude",
            ".codex",
            ".gemini",
            ".opencode",
            "opencode.json",
            ".aider.conf.yml",
            ".continue",
            ".roo",
            ".kilocode",
            ".amazonq",
            ".openclaw",
        ],
    },
];

/// Endings of names that count anywhere.
const ENDINGS: &[&str] = &[".code-workspace", ".sublime-project"];

/// The folder in which a name counts, if not in all of them, and what is done about it.
type Row = (Option<&'static str>, Hold);

/// The rows by their last name: in which folder each counts, and what is done about it. Thousands of names are looked up for a
/// command.
static BY_NAME: LazyLock<BTreeMap<&str, Vec<Row>>> = LazyLock::new(|| {
    let mut rows: BTreeMap<_, Vec<_>> = BTreeMap::new();
    for group in GROUPS {
        for row in group.names {
            let (folder, name) = row.rsplit_once('/').map_or((None, *row), |(folder, name)| (Some(folder), name));
            rows.entry(name).or_default().push((folder, group.hold));
        }
    }
    rows
});

/// The first bytes of these names: with most bytes none begins.
static FIRST: LazyLock<[bool; 256]> = LazyLock::new(|| {
    let mut first = [false; 256];
    for name in BY_NAME.keys() {
        first[usize::from(name.as_bytes()[0])] = true;
    }
    first
});

/// What the sandbox does about a name in a folder; none if no other program runs it.
pub(crate) fn hold(folder: &OsStr, name: &OsStr) -> Option<Hold> {
    let name = folded(name);
    if !FIRST[usize::from(*name.as_bytes().first()?)] {
        return ENDINGS.iter().any(|end| name.ends_with(end)).then_some(Hold::Existing);
    }
    let rows = BY_NAME.get(&*name).into_iter().flatten();
    let mut fitting = rows.filter(|(around, _)| around.is_none_or(|around| around == folded(folder)));
    let by_ending = || ENDINGS.iter().any(|end| name.ends_with(end)).then_some(Hold::Existing);
    fitting.next().map(|(_, hold)| *hold).or_else(by_ending)
}

/// The names that are read-only where they exist, in small letters; one with a slash counts only in that folder. And endings of names.
pub(crate) fn held_names() -> (impl Iterator<Item = &'static str>, &'static [&'static str]) {
    let held = GROUPS.iter().filter(|group| group.hold == Hold::Existing);
    (held.flat_map(|group| group.names.iter().copied()), ENDINGS)
}

/// Whether other programs run or load what is at a path, by one of its names.
pub fn is_executed(path: &Path) -> bool {
    let names: Vec<&OsStr> = path.iter().collect();
    let before = std::iter::once(OsStr::new("")).chain(names.iter().copied());
    before.zip(&names).any(|(folder, name)| hold(folder, name).is_some())
}

/// The name as a file system may read it that ignores case, characters without width, and dots and blanks at the end.
pub fn folded_name(name: &OsStr) -> String {
    folded(name).into_owned()
}

fn folded(name: &OsStr) -> Cow<'_, str> {
    let is_plain = |bytes: &[u8]| {
        bytes.iter().all(|byte| byte.is_ascii() && !byte.is_ascii_uppercase())
            && !matches!(bytes.last(), Some(b'.' | b' '))
    };
    let name = name.to_string_lossy();
    if is_plain(name.as_bytes()) {
        return name;
    }
    let has_width = |c: &char| !matches!(c, '\u{200b}'..='\u{200f}' | '\u{202a}'..='\u{202e}' | '\u{2060}'..='\u{206f}' | '\u{feff}');
    let name: String = name.chars().filter(has_width).collect();
    Cow::Owned(name.trim_end_matches(['.', ' ']).to_lowercase())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::default_read_only;

    fn found(folder: &str, name: &str) -> Option<Hold> {
        hold(OsStr::new(folder), OsStr::new(name))
    }

    /// R67: tools for files ask about everything that a command cannot create.
    #[test]
    fn r67_what_commands_cannot_create_is_in_the_table() {
        for name in default_read_only() {
            assert!(is_executed(&name.path), "{}", name.path.display());
        }
    }

    #[test]
    fn r67_a_name_counts_in_any_spelling_and_a_pair_in_its_folder_only() {
        assert_eq!(found("a", ".ENVRC. "), Some(Hold::Existing));
        assert_eq!(found(".git\u{200c}hub", "Workflows"), Some(Hold::Reported));
        assert_eq!(found("x.cargo", "config"), None);
        assert_eq!(found("", "config"), None);
        assert_eq!(found(".cargo", "config"), Some(Hold::Reported));
        assert_eq!(found("a", ".git"), Some(Hold::Repository));
        assert_eq!(found("a", "x.code-workspace"), Some(Hold::Existing));
        for ordinary in ["src", "main.rs", "Makefile", "AGENTS.md", "package.json", ".gitignore", ".env"] {
            assert_eq!(found("a", ordinary), None, "{ordinary}");
        }
    }

    #[test]
    fn names_are_written_as_they_are_compared() {
        let names: Vec<&str> = GROUPS.iter().flat_map(|group| group.names.iter().copied()).collect();
        for name in &names {
            assert!(name.split('/').all(|part| folded_name(OsStr::new(part)) == part), "{name}");
            assert!(name.split('/').count() <= 2, "{name}");
        }
        assert_eq!(names.iter().collect::<std::collections::BTreeSet<_>>().len(), names.len());
    }
}
