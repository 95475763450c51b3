//! Files that other programs run or load as their configuration without asking: to write one of them is to run a command
//! later, in another program, with the rights of the user. The policy for them is one of its own, also inside the
//! workspace. Source code, build files such as Makefile, and instructions such as AGENTS.md are not among them: to write
//! them is the work of an agent.

use rustix::fs::{AtFlags, statat};

use crate::openat;
use crate::paths::ResolvedPath;

/// Names of files and folders, in small letters, at any depth. Everything in such a folder counts.
const NAMES: &[&str] = &[
    // Hooks, filters, aliases and pagers of version control. `.git` may also be a file that names another folder.
    ".git",
    "git~1",
    ".hg",
    ".svn",
    ".jj",
    ".bzr",
    ".githooks",
    "githooks",
    ".husky",
    "lefthook.yml",
    ".lefthook.yml",
    ".pre-commit-config.yaml",
    ".gitconfig",
    // A folder with this file can be a repository of git, with hooks and a configuration of its own.
    "head",
    // Environments that a shell loads when it enters a folder.
    ".envrc",
    ".mise.toml",
    "mise.toml",
    ".tool-versions",
    ".direnv",
    // Tasks, settings and start commands of editors and containers for development.
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
    ".emacs",
    ".emacs.d",
    ".dir-locals.el",
    ".nano",
    ".nanorc",
    // Start files of shells, sessions and terminals.
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
    // Keys and commands of remote shells and of encryption.
    ".ssh",
    ".gnupg",
    ".rhosts",
    ".shosts",
    ".forward",
    ".procmailrc",
    // Start files of interpreters, debuggers and database shells.
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
    // Tools of a build that run programs which their configuration names.
    ".npmrc",
    ".yarnrc",
    ".yarnrc.yml",
    ".pnpmfile.cjs",
    ".mvn",
    ".bazelrc",
    // Jobs of continuous integration, which run with the secrets of the project.
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
    // Hooks, servers and permissions of agents.
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
];

/// The same for names that count only in a certain folder.
const PAIRS: &[(&str, &str)] = &[
    (".github", "workflows"),
    (".github", "actions"),
    (".cargo", "config"),
    (".cargo", "config.toml"),
    (".config", "git"),
    (".config", "fish"),
    (".config", "autostart"),
    (".config", "systemd"),
    (".config", "environment.d"),
    (".config", "nvim"),
    (".local", "bin"),
];

/// Endings of names that count anywhere.
const ENDINGS: &[&str] = &[".code-workspace", ".sublime-project"];

/// What a repository of git runs or obeys in its own folder.
const IN_REPOSITORY: &[&str] =
    &["hooks", "config", "config.worktree", "commondir", "gitdir", "info", "modules", "worktrees"];

impl ResolvedPath {
    /// Whether other programs run or load the file at this path, whether it exists or not.
    pub(crate) fn is_executed(&self) -> bool {
        let names: Vec<String> = self.real.iter().map(|name| folded(&name.to_string_lossy())).collect();
        let is_named = names
            .iter()
            .any(|name| NAMES.contains(&name.as_str()) || ENDINGS.iter().any(|ending| name.ends_with(ending)));
        let is_paired = names.windows(2).any(|pair| PAIRS.contains(&(pair[0].as_str(), pair[1].as_str())));
        is_named || is_paired || self.is_in_repository()
    }

    /// Whether the path is that of a hook or of the configuration of a repository without a folder `.git`.
    fn is_in_repository(&self) -> bool {
        let mut folder = self.relative.as_path();
        while let (Some(above), Some(name)) = (folder.parent(), folder.file_name()) {
            if IN_REPOSITORY.contains(&folded(&name.to_string_lossy()).as_str())
                && openat::open(&*self.base, above, openat::FOLDER)
                    .is_ok_and(|above| statat(&above, "HEAD", AtFlags::SYMLINK_NOFOLLOW).is_ok())
            {
                return true;
            }
            folder = above;
        }
        false
    }
}

/// The name as a file system may read it that ignores case, characters without width, and dots and blanks at the end.
fn folded(name: &str) -> String {
    let has_width = |c: &char| !matches!(c, '\u{200b}'..='\u{200f}' | '\u{202a}'..='\u{202e}' | '\u{2060}'..='\u{206f}' | '\u{feff}');
    let name: String = name.chars().filter(has_width).collect();
    name.trim_end_matches(['.', ' ']).to_lowercase()
}
