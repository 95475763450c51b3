//! What is hidden and what is protected unless a caller says otherwise.

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};

use crate::profile::{NameKind, ProtectedName};

/// Secrets in the folder of a user, by kind.
const SECRETS: &[(&str, &[&str])] = &[
    ("keys for other machines", &[".ssh", ".gnupg", ".pki", ".putty", ".age", ".config/sops", ".netrc", "_netrc"]),
    (
        "accounts in a cloud",
        &[
            ".aws",
            ".azure",
            ".config/gcloud",
            ".boto",
            ".kube",
            ".oci",
            ".aliyun",
            ".bluemix",
            ".config/doctl",
            ".config/hcloud",
            ".config/scaleway",
            ".config/rclone",
            ".fly",
            ".config/heroku",
            ".config/netlify",
            ".config/vercel",
            ".local/share/com.vercel.cli",
            ".wrangler",
            ".config/.wrangler",
            ".terraform.d",
            ".terraformrc",
            ".pulumi",
            ".vault-token",
            ".config/op",
            ".s3cfg",
            ".databrickscfg",
            ".snowflake",
        ],
    ),
    (
        "accounts of package registries and of containers",
        &[
            ".docker",
            ".config/containers/auth.json",
            ".npmrc",
            ".yarnrc",
            ".yarnrc.yml",
            ".config/pnpm/rc",
            ".pypirc",
            ".config/pip/pip.conf",
            ".pip/pip.conf",
            ".config/pypoetry/auth.toml",
            ".config/uv/credentials",
            ".cargo/credentials",
            ".cargo/credentials.toml",
            ".gem/credentials",
            ".local/share/gem/credentials",
            ".bundle/config",
            ".m2/settings.xml",
            ".m2/settings-security.xml",
            ".gradle/gradle.properties",
            ".nuget/NuGet/NuGet.Config",
            ".config/NuGet/NuGet.Config",
            ".composer/auth.json",
            ".config/composer/auth.json",
            ".hex/hex.config",
            ".conda/.condarc",
            ".condarc",
            ".huggingface",
            ".cache/huggingface/token",
            ".config/huggingface",
            ".kaggle",
        ],
    ),
    (
        "accounts of code hosts",
        &[
            ".git-credentials",
            ".config/git/credentials",
            ".config/gh",
            ".config/hub",
            ".config/glab-cli",
            ".config/tea",
        ],
    ),
    ("accounts of databases", &[".pgpass", ".my.cnf", ".mylogin.cnf", ".mongorc.js", ".dbshell", ".config/redis"]),
    (
        "accounts of other agents",
        &[
            ".claude/.credentials.json",
            ".claude.json",
            ".codex/auth.json",
            ".gemini/oauth_creds.json",
            ".config/github-copilot",
            ".local/share/opencode/auth.json",
            ".config/anthropic",
            ".config/openai",
        ],
    ),
    (
        "passwords and browsers",
        &[
            ".password-store",
            ".local/share/keyrings",
            ".local/share/kwalletd",
            ".kde/share/apps/kwallet",
            ".config/Bitwarden",
            ".config/1Password",
            ".config/keepassxc",
            ".mozilla",
            ".config/google-chrome",
            ".config/chromium",
            ".config/BraveSoftware",
            ".config/microsoft-edge",
            ".config/vivaldi",
            ".thunderbird",
            ".config/Slack",
            ".config/Signal",
            ".config/discord",
            ".electrum",
            ".bitcoin",
            ".ethereum",
            "snap/firefox",
            "snap/chromium",
            ".var/app",
        ],
    ),
    (
        "what was typed",
        &[
            ".bash_history",
            ".zsh_history",
            ".zhistory",
            ".local/share/fish/fish_history",
            ".ash_history",
            ".sh_history",
            ".python_history",
            ".node_repl_history",
            ".psql_history",
            ".mysql_history",
            ".sqlite_history",
            ".rediscli_history",
            ".lesshst",
            ".viminfo",
        ],
    ),
];

/// Secrets of the machine, which only root could read.
const SECRETS_OF_MACHINE: &[&str] = &[
    "/etc/shadow",
    "/etc/shadow-",
    "/etc/gshadow",
    "/etc/gshadow-",
    "/etc/ssl/private",
    "/etc/krb5.keytab",
    "/etc/ssh/ssh_host_rsa_key",
    "/etc/ssh/ssh_host_ecdsa_key",
    "/etc/ssh/ssh_host_ed25519_key",
    "/etc/wireguard",
    "/etc/NetworkManager/system-connections",
    "/var/lib/docker",
    "/var/lib/containers",
    "/var/lib/kubelet",
    "/etc/kubernetes",
    "/var/lib/systemd/credential.secret",
    "/etc/credstore",
    "/etc/credstore.encrypted",
    "/var/spool/cron",
];

/// The files and folders with secrets that commands do not read. `home` is what `HOME` says, `account_home` the folder of the
/// account, in which most programs look if `HOME` is another; they may be the same. The home of Limulus is for the caller to
/// add.
pub fn default_hidden(home: &Path, account_home: &Path) -> Vec<PathBuf> {
    let homes: BTreeSet<&Path> = [home, account_home].into();
    let names = || SECRETS.iter().flat_map(|(_, names)| names.iter());
    let of_user = homes.into_iter().flat_map(|home| names().map(move |name| home.join(name)));
    of_user.chain(SECRETS_OF_MACHINE.iter().map(PathBuf::from)).collect()
}

/// The parts of a git folder that make git execute programs, or that redirect it to others. Git still commits, branches, checks
/// out and collects garbage with all of them read-only.
pub(crate) const GIT_NAMES: &[(&str, NameKind)] = &[
    ("hooks", NameKind::Folder),
    ("config", NameKind::File),
    ("config.worktree", NameKind::File),
    ("info", NameKind::Folder),
    ("commondir", NameKind::CommonDir),
];

/// Names at the top of a workspace that programs of the user trust, by who does: of the table in `executed.rs`, those that a command
/// cannot create either.
const PROTECTED: &[(&str, &[&str])] = &[
    ("Limulus", &[".limulus"]),
    (
        "shells",
        &[
            ".bashrc",
            ".bash_profile",
            ".bash_login",
            ".bash_logout",
            ".profile",
            ".zshrc",
            ".zprofile",
            ".zshenv",
            ".zlogin",
            ".envrc",
        ],
    ),
    (
        "editors",
        &[
            ".vscode/tasks.json",
            ".vscode/settings.json",
            ".vscode/launch.json",
            ".idea",
            ".zed",
            ".fleet",
            ".vim",
            ".nvim.lua",
            ".nvimrc",
            ".exrc",
            ".dir-locals.el",
            ".devcontainer",
        ],
    ),
    ("other agents", &[".claude", ".cursor", ".codex", ".gemini", ".agents", ".mcp.json"]),
];

/// The names in a workspace that commands do not change or create.
pub fn default_read_only() -> Vec<ProtectedName> {
    let git = GIT_NAMES.iter().map(|(name, kind)| (Path::new(".git").join(name), *kind));
    // Git would add an empty file with all others, and remove an empty folder when it cleans up.
    let others = PROTECTED.iter().flat_map(|(_, names)| names.iter());
    let others = others.map(|name| (PathBuf::from(name), NameKind::Socket));
    git.chain(others).map(|(path, kind)| ProtectedName { path, kind }).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn secrets_are_looked_for_in_both_homes() {
        let hidden = default_hidden(Path::new("/home/me"), Path::new("/var/me"));
        for path in ["/home/me/.ssh", "/var/me/.ssh", "/home/me/.cargo/credentials.toml", "/etc/shadow"] {
            assert!(hidden.contains(&PathBuf::from(path)), "{path}");
        }
        let same = default_hidden(Path::new("/home/me"), Path::new("/home/me"));
        assert_eq!(same.iter().collect::<BTreeSet<_>>().len(), same.len());
    }

    #[test]
    fn protected_names_stay_in_the_workspace() {
        let names = default_read_only();
        assert!(names.iter().all(|name| name.path.is_relative() && !name.path.starts_with("..")));
        assert_eq!(names.iter().map(|name| &name.path).collect::<BTreeSet<_>>().len(), names.len());
    }
}
