//! The environment of commands: an allow-list, because a user's environment is full of keys and of ways to other
//! programs (`SSH_AUTH_SOCK`, `AWS_*`, `*_TOKEN`, `DATABASE_URL`).

use std::ffi::{OsStr, OsString};

/// Variables that every command receives: who and where the user is, the language, and where programs and certificates are.
const PASSED: &[&str] = &[
    "PATH",
    "HOME",
    "USER",
    "LOGNAME",
    "SHELL",
    "LANG",
    "LANGUAGE",
    "LC_*",
    "TERM",
    "COLORTERM",
    "NO_COLOR",
    "TZ",
    "TMPDIR",
    "TMP",
    "TEMP",
    "HOSTNAME",
    "CI",
    "XDG_CONFIG_HOME",
    "XDG_CACHE_HOME",
    "XDG_DATA_HOME",
    "XDG_STATE_HOME",
    "SSL_CERT_FILE",
    "SSL_CERT_DIR",
    "NIX_SSL_CERT_FILE",
    "CARGO_HOME",
    "RUSTUP_HOME",
    "RUSTUP_TOOLCHAIN",
    "GOPATH",
    "GOROOT",
    "JAVA_HOME",
    "NVM_DIR",
    "PYENV_ROOT",
    "VIRTUAL_ENV",
    "CONDA_PREFIX",
];

/// The variables of this process that a command receives. `passed` adds names, or beginnings of names that end with `*`.
/// `secret` names are never passed, and neither are those of Limulus itself: they hold the home's address and may hold keys.
pub(crate) fn variables(passed: &[String], secret: &[String]) -> impl Iterator<Item = (OsString, OsString)> {
    std::env::vars_os()
        .filter(move |(name, _)| name.to_str().is_some_and(|name| is_passed_to_commands(name, passed, secret)))
        .map(|(name, value)| if name == "PATH" { (name, absolute_only(&value)) } else { (name, value) })
}

/// The folders of a `PATH` that mean the same everywhere. An empty or relative one is the workspace, where a model could put a program
/// with the name of another.
pub(crate) fn absolute_only(path: &OsStr) -> OsString {
    let folders = std::env::split_paths(path).filter(|folder| folder.is_absolute());
    std::env::join_paths(folders).unwrap_or_default()
}

/// Whether a command receives the variable of this name, as [`variables`] decides.
pub fn is_passed_to_commands(name: &str, passed: &[String], secret: &[String]) -> bool {
    let matches = |pattern: &str| match pattern.strip_suffix('*') {
        Some(beginning) => name.starts_with(beginning),
        None => name == pattern,
    };
    let is_kept = name.starts_with("LIMULUS_") || secret.iter().any(|secret| secret == name);
    !is_kept && (PASSED.iter().any(|pattern| matches(pattern)) || passed.iter().any(|pattern| matches(pattern)))
}

#[cfg(test)]
mod tests {
    use std::ffi::OsStr;

    use super::{absolute_only, is_passed_to_commands as is_passed};

    /// A program in the workspace with the name of another is not found by that name.
    #[test]
    fn escape_93_no_folder_of_the_path_is_relative() {
        for (given, passed) in [
            ("/usr/bin:/bin", "/usr/bin:/bin"),
            (":/bin", "/bin"),
            ("/bin:", "/bin"),
            (".:/bin:./tools::node_modules/.bin", "/bin"),
            (".", ""),
        ] {
            assert_eq!(absolute_only(OsStr::new(given)), OsStr::new(passed), "{given:?}");
        }
    }

    /// Escapes 83 and 84 are variables that have programs run something: none is passed on.
    #[test]
    fn escape_83_84_variables_that_run_programs_are_not_passed_on() {
        for name in [
            "BASH_ENV",
            "ENV",
            "PS4",
            "PROMPT_COMMAND",
            "ZDOTDIR",
            "SHELLOPTS",
            "BASHOPTS",
            "IFS",
            "CDPATH",
            "LD_PRELOAD",
            "LD_LIBRARY_PATH",
            "LD_AUDIT",
            "GIT_DIR",
            "GIT_SSH_COMMAND",
            "GIT_EXTERNAL_DIFF",
            "GIT_CONFIG_COUNT",
            "GIT_CONFIG_GLOBAL",
            "GIT_EXEC_PATH",
            "GIT_PAGER",
            "GIT_EDITOR",
            "GIT_ASKPASS",
            "PAGER",
            "MANPAGER",
            "LESSOPEN",
            "LESS",
            "EDITOR",
            "VISUAL",
            "BROWSER",
            "NODE_OPTIONS",
            "NODE_PATH",
            "PYTHONSTARTUP",
            "PYTHONPATH",
            "PERL5OPT",
            "PERL5LIB",
            "RUBYOPT",
            "RUSTC_WRAPPER",
            "JAVA_TOOL_OPTIONS",
            "BASH_FUNC_echo%%",
        ] {
            assert!(!is_passed(name, &[], &[]), "{name}");
        }
    }

    #[test]
    fn r38_commands_receive_an_allow_list_of_variables() {
        let passed = ["GIT_AUTHOR_NAME", "MY_*", "ACME_KEY", "LIMULUS_HOME"].map(str::to_owned);
        let secret = ["ACME_KEY", "MY_KEY"].map(str::to_owned);
        for name in ["PATH", "HOME", "LANG", "LC_ALL", "TERM", "TZ", "TMPDIR", "CARGO_HOME"] {
            assert!(is_passed(name, &[], &[]), "{name}");
        }
        for name in [
            "SSH_AUTH_SOCK",
            "SSH_AGENT_PID",
            "GPG_AGENT_INFO",
            "AWS_SECRET_ACCESS_KEY",
            "AWS_SESSION_TOKEN",
            "GITHUB_TOKEN",
            "NPM_TOKEN",
            "STRIPE_API_KEY",
            "OPENAI_API_KEY",
            "DATABASE_URL",
            "PGPASSWORD",
            "KUBECONFIG",
            "DOCKER_HOST",
            "DBUS_SESSION_BUS_ADDRESS",
            "XAUTHORITY",
            "DISPLAY",
            "http_proxy",
            "HTTPS_PROXY",
            "LD_PRELOAD",
            "BASH_ENV",
            "GIT_SSH_COMMAND",
            "NODE_OPTIONS",
            "PYTHONSTARTUP",
            "LIMULUS_HOME",
            "LIMULUS_PROVIDERS__ACME__KEY",
            "PATH_KEY",
            "lc_all",
            "",
        ] {
            assert!(!is_passed(name, &[], &[]), "{name}");
        }
        for (name, is) in [
            ("GIT_AUTHOR_NAME", true),
            ("GIT_AUTHOR_EMAIL", false),
            ("MY_", true),
            ("MY_OWN", true),
            ("MY_KEY", false),
            ("ACME_KEY", false),
            ("LIMULUS_HOME", false),
        ] {
            assert_eq!(is_passed(name, &passed, &secret), is, "{name}");
        }
        assert!(!is_passed("LIMULUS_HOME", &["*".to_owned()], &[]) && is_passed("ANY", &["*".to_owned()], &[]));
    }
}
