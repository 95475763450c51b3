//! The sandbox of commands: what this kernel can hold, and what the sandbox of a command is. The crate `confine` carries it out, in
//! processes of its own.

use std::ffi::OsString;
use std::fs::{self, DirBuilder};
use std::io;
use std::os::unix::fs::{DirBuilderExt as _, MetadataExt as _};
use std::path::{Path, PathBuf};
use std::process::{self, ExitStatus};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

use confine::{
    CacheCopies, ConfineReport, ConfineState, Launcher, NetworkAccess, Profile, ResourceLimits, SandboxSupport, Tier,
    WorkspaceAccess,
};
use engine::{Sandbox, SandboxMode, Settings};
use rustix::process::geteuid;

use crate::caches;
use crate::call::Context;
use crate::cgroup::{self, CallCgroup, Exceeded};
use crate::command_env;
use crate::error::ToolError;
use crate::evidence::Evidence;
use crate::exec::NAME as EXEC;
use crate::fetch::NetworkPolicy;
use crate::folder::CallFolder;
use crate::guard::Protected;
use crate::limits::NETWORK_HOSTS_NAMED;
use crate::paths::THIS_PROGRAM;
use crate::policy_rules::CallRules;
use crate::supervise::proxy::{NetworkReport, Proxy, refusals};
use crate::supervisors;

/// The word of the hidden subcommand that is [`confine::confine_main`].
pub const CONFINE: &str = "confine";

/// The name of the report in the folder of a call.
const REPORT: &str = "sandbox.json";

/// What this kernel can hold, or why nobody knows.
type Support = Result<Arc<SandboxSupport>, String>;

/// What was found out last, and when. All of a sandbox holds until the machine starts anew; what is missing may have been missing for
/// a moment only.
static SUPPORT: Mutex<Option<(Instant, Support)>> = Mutex::new(None);

/// Seconds after which it is tried again whether more holds.
const AGAIN: Duration = Duration::from_secs(10);

/// What this kernel can hold of a sandbox, found out by trying, or why that failed. `program` has the subcommand [`CONFINE`]. It may
/// block for some milliseconds.
///
/// # Errors
/// Returns why it could not be tried.
pub fn sandbox_support(program: &Path) -> Result<Arc<SandboxSupport>, String> {
    let mut known = SUPPORT.lock().unwrap_or_else(PoisonError::into_inner);
    if let Some((at, support)) = &*known {
        let holds_all = support.as_ref().is_ok_and(|support| support.tier() == Tier::A);
        if holds_all || at.elapsed() < AGAIN {
            return support.clone();
        }
    }
    let support = tried(program).map(Arc::new).map_err(|error| error.to_string());
    *known = Some((Instant::now(), support.clone()));
    support
}

/// The same for this program, if it is `limulus`.
///
/// # Errors
/// Returns why it could not be tried.
pub fn sandbox_support_here() -> Result<Arc<SandboxSupport>, String> {
    sandbox_support(Path::new(THIS_PROGRAM))
}

fn tried(program: &Path) -> io::Result<SandboxSupport> {
    // One of this name may be left from a process that was killed.
    let scratch = private_folder(&format!("probe-{}", process::id()))?;
    fs::remove_dir_all(&scratch)?;
    private(&scratch)?;
    let support = confine::probe(&launcher(program), &scratch).map_err(io::Error::other);
    // It holds nothing that anybody needs.
    let _ = fs::remove_dir_all(&scratch);
    support
}

fn launcher(program: &Path) -> Launcher {
    Launcher { executable: program.to_owned(), words: vec![CONFINE.to_owned()] }
}

/// How much of a sandbox holds here; none if nothing does.
fn tier(program: &Path) -> Option<Tier> {
    sandbox_support(program).ok().map(|support| support.tier()).filter(|tier| *tier != Tier::C)
}

/// Whether the commands of a run are to be in a sandbox, and what that means here.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum SandboxState {
    /// The run has none.
    Off,
    /// All of it holds.
    Holds,
    /// A part of it holds, or the workspace has what programs of the user trust anywhere in it: commands run inside, and are asked
    /// about.
    Partial,
    /// It is wanted, and this kernel cannot hold it.
    Missing,
}

impl SandboxState {
    /// That of a run with these settings. It may block.
    pub(crate) fn of(settings: &Settings, program: &Path) -> Self {
        if settings.sandbox.mode == SandboxMode::Off {
            return Self::Off;
        }
        match tier(program) {
            Some(Tier::A) if !has_home(Path::new(&settings.workspace)) => Self::Holds,
            Some(_) => Self::Partial,
            None => Self::Missing,
        }
    }
}

/// Whether a workspace is the folder of the user or has it inside. Start files and keys are everywhere in it.
fn has_home(workspace: &Path) -> bool {
    let real = |path: &Path| fs::canonicalize(path).unwrap_or_else(|_| path.to_owned());
    let homes = [std::env::var_os("HOME").map(PathBuf::from), account_home()];
    homes.into_iter().flatten().any(|home| real(&home).starts_with(real(workspace)))
}

/// Whether the command of a call runs in its sandbox. What is not known of it is no permission to leave.
pub(crate) fn is_confined(context: &Context, evidence: &Evidence) -> bool {
    context.sandbox.mode != SandboxMode::Off && !evidence.unconfined
}

/// Whether a command has a sandbox.
pub(crate) fn has(call: &CallFolder) -> bool {
    call.path().join(REPORT).exists()
}

/// The sandbox of the command of a call. `root` is the workspace, without links. It may block.
pub(crate) fn profile(
    context: &Context,
    root: &Path,
    call: &CallFolder,
    evidence: &Evidence,
) -> Result<Profile, ToolError> {
    let none = |reason: String| ToolError::NotStarted { reason };
    let tier = tier(&context.supervisor)
        .ok_or_else(|| none("its sandbox cannot be set up here; `limulus sandbox check` says why".to_owned()))?;
    let temporary = temporary(&context.calls, root)
        .map_err(|error| none(format!("the temporary folder of its sandbox could not be created: {error}")))?;
    let own = context.protected.paths().map(Path::to_owned).collect();
    let mut profile =
        of_settings(&context.sandbox, (root, temporary), own, tier, call.path().join(REPORT)).map_err(none)?;
    if evidence.holds && tier != Tier::A {
        return Err(none(
            "not all of its sandbox holds any more, and without a question it runs in no other".to_owned(),
        ));
    }
    profile.approved.clone_from(&evidence.writable);
    profile.caches = caches(&context.calls, root);
    Ok(profile)
}

/// The patterns of hosts that commands reach from their sandbox without a question.
pub fn reachable_hosts(settings: &Settings) -> Vec<String> {
    CallRules::of(settings).hosts_of(EXEC, &[], NetworkPolicy::Public).allow
}

/// MiB of memory that all processes of a command use together in the sandbox of these settings, if this machine holds it; why not.
/// It may block.
///
/// # Errors
/// Returns why their memory is not limited.
pub fn limited_memory_mib(settings: &Sandbox) -> Result<u64, String> {
    cgroup::try_limits()?;
    let bytes = cgroup::memory_bytes(settings.memory_mib).ok_or("the memory of the machine is not known")?;
    Ok(bytes / (1 << 20))
}

/// Runs a command in the sandbox of these settings, in the foreground of this process. Returns how it ended, and what it was refused,
/// a sentence each.
///
/// # Errors
/// Returns why it did not run.
pub fn run_sandboxed(
    settings: &Settings,
    (own, network): (Vec<PathBuf>, NetworkPolicy),
    words: &[OsString],
) -> Result<(ExitStatus, Vec<String>), String> {
    let program = Path::new(THIS_PROGRAM);
    let support = sandbox_support(program)?;
    let root = fs::canonicalize(&settings.workspace).map_err(|error| format!("{}: {error}", settings.workspace))?;
    let failed = |error: io::Error| format!("its temporary folder could not be created: {error}");
    let temporary = temporary(&root, &root).map_err(failed)?;
    let folder = private_folder(&format!("run-{}", process::id())).map_err(failed)?;
    // One of this name may be left from a process that was killed.
    let folder = fs::remove_dir_all(&folder).and_then(|()| private(&folder)).map(|()| folder).map_err(failed)?;
    let report = folder.join(REPORT);
    let mut profile = of_settings(&settings.sandbox, (&root, temporary), own, support.tier(), report)?;
    profile.caches = caches(&root, &root);
    let (first, rest) = words.split_first().ok_or("no command is given")?;
    let environment = command_env::variables(&[], &[]);
    let command = profile.proxied_command(&launcher(program), first, rest.to_vec(), environment);
    let (mut command, receiver) = command.map_err(|error| error.to_string())?;
    let call = CallFolder::at(folder.clone());
    let memory = cgroup::memory_bytes(settings.sandbox.memory_mib);
    let (started, cgroup) = CallCgroup::around(&call, memory, || command.spawn());
    let ended = started.and_then(|mut child| {
        let hosts = CallRules::of(settings).hosts_of(EXEC, &[], network);
        let proxy = receiver.and_then(|receiver| {
            let handle = fs::File::open(&folder).ok()?;
            Some(Proxy::start(hosts, handle.into(), receiver.expect_from(&child)))
        });
        let ended = child.wait();
        proxy.inspect(Proxy::finish);
        ended
    });
    let refused = NetworkReport::read(&call).and_then(|report| refusals(&report, NETWORK_HOSTS_NAMED));
    let refused = refused.map(|hosts| format!("its sandbox refused {hosts}"));
    let created = ConfineReport::read(&call.path().join(REPORT)).ok().and_then(|report| created_note(&report.created));
    let exceeded = cgroup.and_then(|cgroup| {
        supervisors::repeat(|| cgroup.end());
        cgroup.exceeded()
    });
    let exceeded = exceeded.map(Exceeded::sentence);
    // It holds nothing that anybody needs.
    let _ = fs::remove_dir_all(&folder);
    let ended = ended.map_err(|error| format!("the command could not be started: {error}"))?;
    Ok((ended, exceeded.into_iter().chain(refused).chain(created).collect()))
}

fn of_settings(
    sandbox: &Sandbox,
    (root, temporary): (&Path, PathBuf),
    own: Vec<PathBuf>,
    tier: Tier,
    report: PathBuf,
) -> Result<Profile, String> {
    let home = home().or_else(account_home).ok_or("nobody knows where keys of the user are: set HOME")?;
    let hidden = hidden_paths(sandbox, &home).chain(own).collect();
    Ok(Profile {
        workspace: root.to_owned(),
        folder: root.to_owned(),
        access: if sandbox.mode == SandboxMode::ReadOnly {
            WorkspaceAccess::ReadOnly
        } else {
            WorkspaceAccess::Workspace
        },
        temporary,
        writable: sandbox.writable.iter().map(|path| expanded(path, &home)).collect(),
        approved: vec![],
        caches: None,
        hidden,
        read_only: confine::default_read_only(),
        network: if sandbox.network { NetworkAccess::Host } else { NetworkAccess::Proxy },
        limits: ResourceLimits::default(),
        tier,
        report,
    })
}

/// What commands cannot read in the sandbox of these settings, besides what belongs to limulus.
fn hidden_paths(sandbox: &Sandbox, home: &Path) -> impl Iterator<Item = PathBuf> {
    let account = account_home();
    let known = confine::default_hidden(home, account.as_deref().unwrap_or(home));
    known.into_iter().chain(sandbox.hidden.iter().map(|path| expanded(path, home)))
}

/// The same for tools for files. What was found there is kept for the next call.
pub(crate) fn hidden(sandbox: &Sandbox) -> Protected {
    static LAST: Mutex<Option<(PathBuf, Vec<String>, Protected)>> = Mutex::new(None);
    // Without a home there is none with keys; commands do not run then.
    let Some(home) = home().or_else(account_home) else { return Protected::default() };
    let mut last = LAST.lock().unwrap_or_else(PoisonError::into_inner);
    match &*last {
        Some((of, hidden, protected)) if *of == home && *hidden == sandbox.hidden => protected.clone(),
        _ => {
            let protected = Protected::hidden(hidden_paths(sandbox, &home));
            *last = Some((home, sandbox.hidden.clone(), protected.clone()));
            protected
        }
    }
}

/// Removes what the sandbox of a command leaves in the workspace if it is killed. May block.
pub(crate) fn tidy(call: &CallFolder, workspace: &Path) {
    if has(call)
        && let Ok(root) = fs::canonicalize(workspace)
    {
        // What cannot be removed now is removed with the next command.
        let _ = confine::remove_placeholders(&root, &confine::default_read_only());
    }
}

/// What the model receives of a command that failed in its sandbox, that did not run because of it, or of what was not held; none
/// if it had none. It may block.
pub(crate) fn note(call: &CallFolder, failed: bool, access: SandboxMode) -> Option<String> {
    if !has(call) {
        return None;
    }
    let report = ConfineReport::read(&call.path().join(REPORT)).ok();
    let Some(ConfineReport { state, unprotected, created, .. }) = report else {
        return Some("[the command was ended before its sandbox was set up]\n".to_owned());
    };
    let inside = match state {
        ConfineState::Failed(error) => {
            return Some(format!("[the command did not run, since its sandbox could not be set up: {error}]\n"));
        }
        ConfineState::Confined if !failed => "",
        ConfineState::Confined if access == SandboxMode::ReadOnly => READ_ONLY,
        ConfineState::Confined => INSIDE,
    };
    let open = unprotected.first().map(|open| {
        let (path, more) = (open.path.display(), unprotected.len() - 1);
        format!("[its sandbox did not hold {path} ({}), and {more} more]\n", open.reason)
    });
    let refused = NetworkReport::read(call).and_then(|report| refusals(&report, NETWORK_HOSTS_NAMED));
    let refused = refused.map(|hosts| format!("[its sandbox refused {hosts}]\n"));
    let created = created_note(&created).map(|sentence| format!("[{sentence}]\n"));
    let notes = [refused, open, created].into_iter().flatten();
    Some(notes.fold(inside.to_owned(), |text, note| text + &note))
}

/// What a command has left that other programs run.
fn created_note(created: &[PathBuf]) -> Option<String> {
    // The command has chosen these names.
    let shown = |path: &PathBuf| format!("`{}`", shown_path(&path.to_string_lossy()));
    let named: Vec<String> = created.iter().take(EXECUTED_NAMED).map(shown).collect();
    let named = match (named.len(), created.len()) {
        (_, 0) => return None,
        (named_of, all) if named_of < all => format!("{} and {} more", named.join(", "), all - named_of),
        _ => named.join(", "),
    };
    Some(format!("the command created {named}, which other programs run: look at it before you enter its folder"))
}

/// A path of a command in one line, with its end if it is long.
fn shown_path(path: &str) -> String {
    let begin = path.ceil_char_boundary(path.len().saturating_sub(PATH_SHOWN_BYTES));
    let cut = if begin > 0 { "…" } else { "" };
    format!("{cut}{}", path[begin..].escape_debug())
}

/// How many of these are named, and how much of each is shown.
const PATH_SHOWN_BYTES: usize = 200;
const EXECUTED_NAMED: usize = 3;

/// Said of each command that fails inside.
const INSIDE: &str = "[it ran in a sandbox: it can write in the workspace and in $TMPDIR only, cannot read keys, and reaches no hosts but \
                      those that the configuration allows. If that is why it failed, run it once more with the `hosts` or `writable` that \
                      it needs, or with `outside_sandbox`: the user is asked]\n";
/// The same where the workspace cannot be written either.
const READ_ONLY: &str = "[it ran in a sandbox: it can write in $TMPDIR only, cannot read keys, and reaches no hosts but those that the \
                         configuration allows. If that is why it failed, run it once more with the `hosts` or `writable` that it needs, or \
                         with `outside_sandbox`: the user is asked]\n";

/// The folder of the account, in which most programs look for keys if `HOME` is another one.
fn account_home() -> Option<PathBuf> {
    let user = geteuid().as_raw().to_string();
    let accounts = fs::read_to_string("/etc/passwd").ok()?;
    let mut lines = accounts.lines().map(|line| line.split(':').collect::<Vec<_>>());
    let own = lines.find(|fields| fields.get(2) == Some(&user.as_str()))?;
    own.get(5).map(PathBuf::from).filter(|home| home.is_absolute())
}

/// A path of the configuration.
fn expanded(path: &str, home: &Path) -> PathBuf {
    path.strip_prefix("~/").map_or_else(|| PathBuf::from(path), |rest| home.join(rest))
}

/// What `HOME` says.
fn home() -> Option<PathBuf> {
    std::env::var_os("HOME").map(PathBuf::from).filter(|home| home.is_absolute())
}

/// The temporary folder of all commands in a workspace: what one leaves there the next one finds. `of` tells homes apart.
fn temporary(of: &Path, workspace: &Path) -> io::Result<PathBuf> {
    private_folder(&of_workspace(of, workspace))
}

/// The private copies of the package caches, for all commands in a workspace. Without a place for them there are none.
fn caches(of: &Path, workspace: &Path) -> Option<CacheCopies> {
    let caches = caches::of_user(&home().or_else(account_home)?, |name| std::env::var_os(name));
    let folder = private_folder(&format!("{}-caches", of_workspace(of, workspace))).ok()?;
    Some(CacheCopies { folder, caches })
}

/// The name of what belongs to a workspace.
fn of_workspace(of: &Path, workspace: &Path) -> String {
    use std::os::unix::ffi::OsStrExt as _;
    let mut hash = blake3::Hasher::new();
    hash.update(of.as_os_str().as_bytes()).update(b"\0").update(workspace.as_os_str().as_bytes());
    hash.finalize().to_hex()[..16].to_owned()
}

/// A folder below that of this user in the temporary folder of the machine, which nobody else can read or replace.
fn private_folder(name: &str) -> io::Result<PathBuf> {
    let base = std::env::temp_dir().join(format!("limulus-{}", geteuid().as_raw()));
    private(&base)?;
    let folder = base.join(name);
    private(&folder)?;
    fs::canonicalize(folder)
}

fn private(folder: &Path) -> io::Result<()> {
    match DirBuilder::new().mode(0o700).create(folder) {
        Err(error) if error.kind() != io::ErrorKind::AlreadyExists => return Err(error),
        Ok(()) | Err(_) => {}
    }
    let found = fs::symlink_metadata(folder)?;
    if !found.is_dir() || found.uid() != geteuid().as_raw() || found.mode() & 0o077 != 0 {
        let text = format!("{} belongs to somebody else, or others can read it: remove it", folder.display());
        return Err(io::Error::new(io::ErrorKind::PermissionDenied, text));
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    /// R69: the model receives which hosts its command was refused, a few by name.
    #[test]
    fn r69_refused_hosts_are_said() {
        let home = tempfile::tempdir().unwrap();
        let call = CallFolder::at(home.path());
        fs::write(home.path().join(REPORT), r#"{"state":"confined"}"#).unwrap();
        assert_eq!(note(&call, false, SandboxMode::Workspace).unwrap(), "");
        let refused = |number| format!(r#"{{"host":"h{number}.example","port":443,"why":"private","times":1}}"#);
        let refused: Vec<_> = (0..7).map(refused).collect();
        let report = format!(r#"{{"refused":[{}],"reached":[]}}"#, refused.join(","));
        fs::write(home.path().join("network.json"), report).unwrap();
        let said = note(&call, true, SandboxMode::Workspace).unwrap();
        let hosts = "[its sandbox refused h0.example:443 (not on the public internet), h1.example:443 ";
        assert!(said.starts_with(INSIDE) && said.contains(hosts), "{said}");
        assert!(said.ends_with("h4.example:443 (not on the public internet) and 2 more]\n"), "{said}");
    }

    /// R67: the model and the user read what a command has left that other programs run.
    #[test]
    fn r67_what_a_command_created_that_others_run_is_said_in_one_line() {
        let home = tempfile::tempdir().unwrap();
        let call = CallFolder::at(home.path());
        let long = format!("{}/.envrc", "é".repeat(200));
        let report = serde_json::json!({ "state": "confined", "created": ["sub/.envrc", "a\nb]\n[x/.husky", long, ".idea", ".zed"] });
        fs::write(home.path().join(REPORT), report.to_string()).unwrap();
        let said = note(&call, false, SandboxMode::Workspace).unwrap();
        let begin = "[the command created `sub/.envrc`, `a\\nb]\\n[x/.husky`, `…é";
        let end = "é/.envrc` and 2 more, which other programs run: look at it before you enter its folder]\n";
        assert!(said.starts_with(begin) && said.ends_with(end) && said.lines().count() == 1, "{said}");
        assert!(said.len() < 500, "{said}");
    }

    /// R69: the commands of a workspace find the copies of the ones before, and no other workspace has them.
    #[test]
    fn r69_copies_of_caches_belong_to_a_workspace() {
        let home = tempfile::tempdir().unwrap();
        let (of, one, other) = (home.path(), home.path().join("one"), home.path().join("other"));
        let found = [&one, &one, &other].map(|workspace| caches(of, workspace).unwrap());
        assert_eq!(found[0], found[1]);
        assert_ne!(found[0].folder, found[2].folder);
        let temporary = temporary(of, &one).unwrap();
        for copies in &found {
            assert_eq!(copies.folder.parent(), temporary.parent(), "beside the temporary folder");
            assert!(!copies.folder.starts_with(&temporary) && !temporary.starts_with(&copies.folder));
            assert_eq!(fs::metadata(&copies.folder).unwrap().mode() & 0o777, 0o700);
        }
        for folder in [&temporary, &found[0].folder, &found[2].folder] {
            fs::remove_dir(folder).unwrap();
        }
    }
}
