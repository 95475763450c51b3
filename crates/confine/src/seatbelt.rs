//! The same profile for `sandbox-exec` of macOS, as text. Nobody has tried it there: nothing uses it yet.
//!
//! Of the rules that fit, the last one counts. They are on paths, so they hold for names that do not exist too, and need no
//! placeholder. What has no counterpart are processes (a command sees those of the user) and limits of memory.

use std::fmt::Write as _;
use std::path::{Path, PathBuf};

use crate::executed;
use crate::profile::{NetworkAccess, Profile, WorkspaceAccess};
use crate::setup::{SetupError, SetupStep};
use crate::tables::GIT_NAMES;

/// What every program needs: to start others, to read, its own signals and terminal, names of users.
const BASE: &str = r#"(version 1)
; Made by Limulus. Untried on macOS.
(deny default)
(allow process-exec process-fork)
(allow signal process-info* (target same-sandbox))
(allow sysctl-read ipc-posix-sem pseudo-tty)
(allow mach-lookup (global-name "com.apple.system.opendirectoryd.libinfo"))
(allow file-read*)
(allow file-write-data (literal "/dev/null") (literal "/dev/zero") (literal "/dev/tty"))
(allow file-read* file-write* file-ioctl (literal "/dev/ptmx") (regex #"^/dev/ttys[0-9]+$"))
"#;

/// The text of a profile for `sandbox-exec -p`. Its paths have no symbolic links. `proxy_port` is where a proxy listens on the
/// loopback interface, if the network of the profile is [`NetworkAccess::Proxy`]. It is untried.
///
/// # Errors
/// Fails if a path cannot be written in such a text.
pub fn seatbelt_profile(profile: &Profile, proxy_port: Option<u16>) -> Result<String, SetupError> {
    let mut text = BASE.to_owned();
    for (path, rule) in by_depth(profile) {
        line(&mut text, rule, &format!("(subpath {})", quoted(path)?));
    }
    if profile.access == WorkspaceAccess::Workspace {
        protected(&mut text, profile)?;
    }
    // It wins over everything, as in the other tiers.
    for path in &profile.hidden {
        if !needed(profile).any(|inside| inside.starts_with(path)) {
            line(&mut text, "deny file-read* file-write*", &format!("(subpath {})", quoted(path)?));
        }
    }
    match (profile.network, proxy_port) {
        (NetworkAccess::Host, _) => {
            line(&mut text, "allow network-outbound", "(remote ip)");
            line(&mut text, "allow network-inbound network-bind", "(local ip)");
        }
        (NetworkAccess::Proxy, Some(port)) => {
            line(&mut text, "allow network-outbound", &format!("(remote ip \"localhost:{port}\")"));
        }
        (NetworkAccess::Proxy | NetworkAccess::None, _) => {}
    }
    Ok(text)
}

/// What the command works in, also where it is in something hidden.
fn needed(profile: &Profile) -> impl Iterator<Item = &PathBuf> {
    [&profile.workspace, &profile.temporary].into_iter()
}

/// What is deeper comes later: a writable folder in a hidden one, and a hidden one in a writable one.
fn by_depth(profile: &Profile) -> Vec<(&Path, &'static str)> {
    let workspace = (profile.access == WorkspaceAccess::Workspace).then_some(&profile.workspace);
    let more = workspace.iter().flat_map(|_| &profile.writable);
    let writable = workspace.into_iter().chain(more).chain(&profile.approved).chain([&profile.temporary]);
    let mut rules: Vec<(&Path, &str)> = writable.map(|path| (path.as_path(), "allow file-read* file-write*")).collect();
    rules.extend(profile.hidden.iter().map(|path| (path.as_path(), "deny file-read* file-write*")));
    rules.sort_by_key(|(path, rule)| (path.components().count(), rule.starts_with("deny")));
    rules
}

/// The names that stay as they are, and what is around them, which could be moved away with them.
fn protected(text: &mut String, profile: &Profile) -> Result<(), SetupError> {
    for name in &profile.read_only {
        let path = profile.workspace.join(&name.path);
        line(text, "deny file-write*", &format!("(subpath {})", quoted(&path)?));
        for around in path.ancestors().skip(1).take_while(|around| *around != profile.workspace) {
            line(text, "deny file-write-unlink", &format!("(literal {})", quoted(around)?));
        }
    }
    if profile.read_only.is_empty() {
        return Ok(());
    }
    let root = pattern(&plain(&profile.workspace)?, Letters::AsWritten);
    let (names, endings) = executed::held_names();
    let names = names.map(|name| format!("(.*/)?{}(/|$)", pattern(name, Letters::AnyCase)));
    let endings = endings.iter().map(|end| format!(".*{}(/|$)", pattern(end, Letters::AnyCase)));
    let git = GIT_NAMES.iter().map(|(name, _)| {
        format!(r"(.*/)?\.[gG][iI][tT]/((modules|worktrees)/.*/)?{}(/|$)", pattern(name, Letters::AnyCase))
    });
    for below in names.chain(endings).chain(git) {
        line(text, "deny file-write*", &format!("(regex #\"^{root}/{below}\")"));
    }
    Ok(())
}

fn line(text: &mut String, rule: &str, what: &str) {
    writeln!(text, "({rule} {what})").expect("a string takes all text");
}

/// A path as text, if no character of it could end a rule.
fn plain(path: &Path) -> Result<String, SetupError> {
    let refuse = || SetupError::new(SetupStep::Profile, format!("{} cannot be a path of a profile", path.display()));
    let text =
        path.to_str().filter(|text| path.is_absolute() && !text.contains(char::is_control)).ok_or_else(refuse)?;
    // A pattern has no way to write it.
    if text.contains('"') { Err(refuse()) } else { Ok(text.to_owned()) }
}

fn quoted(path: &Path) -> Result<String, SetupError> {
    Ok(format!("\"{}\"", plain(path)?.replace('\\', r"\\")))
}

/// How letters of a pattern are compared.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Letters {
    AsWritten,
    /// Most disks of macOS ignore it.
    AnyCase,
}

/// A pattern for exactly this text.
fn pattern(text: &str, letters: Letters) -> String {
    let mut pattern = String::new();
    for c in text.chars() {
        if c.is_ascii_alphabetic() && letters == Letters::AnyCase {
            pattern.extend(['[', c.to_ascii_lowercase(), c.to_ascii_uppercase(), ']']);
        } else if r"\.+*?()|[]{}^$".contains(c) {
            pattern.extend(['\\', c]);
        } else {
            pattern.push(c);
        }
    }
    pattern
}
