//! What a sandbox allows, as data. It travels as JSON from the caller to the process that confines itself.

use std::path::PathBuf;

use serde::{Deserialize, Serialize};

/// A sandbox for one command. All paths are absolute but those of `read_only`.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Profile {
    /// Where the command may write, if `access` says so. Symbolic links in this path are followed: it comes from the user.
    pub workspace: PathBuf,
    /// Where the command starts.
    pub folder: PathBuf,
    /// Whether the workspace is writable.
    pub access: WorkspaceAccess,
    /// A private folder, which the caller creates and removes. `TMPDIR`, `TMP` and `TEMP` name it.
    pub temporary: PathBuf,
    /// More files and folders that are writable, such as the caches of package managers. Those that do not exist are ignored.
    pub writable: Vec<PathBuf>,
    /// Files and folders that somebody has approved for this command: writable in every mode. Each must still be what its path
    /// named then, without links, and nothing hidden; else there is no sandbox.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub approved: Vec<PathBuf>,
    /// Caches of package managers of which the command has a private copy, if any.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub caches: Option<CacheCopies>,
    /// Files and folders that cannot be read. They win over everything that contains them. Those that do not exist are ignored.
    pub hidden: Vec<PathBuf>,
    /// Names in the workspace that stay as they are, existing or not.
    pub read_only: Vec<ProtectedName>,
    /// What the command can reach.
    pub network: NetworkAccess,
    /// Limits of resources.
    pub limits: ResourceLimits,
    /// What must hold. A sandbox that cannot be set up as this tier is not set up at all.
    pub tier: Tier,
    /// Where the confined process writes its [`ConfineReport`](crate::ConfineReport). It must be outside of everything that
    /// is writable.
    pub report: PathBuf,
}

/// Private, writable copies of the user's package caches, shared by all commands of a workspace. A copy holds only what differs
/// from the user's cache, which itself never changes.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct CacheCopies {
    /// A private folder, which the caller creates and keeps for the next command. It must be outside of everything that is
    /// writable.
    pub folder: PathBuf,
    /// The caches. One that the command can write anyway, that is hidden, or that has the workspace inside, is left out.
    pub caches: Vec<PackageCache>,
}

/// A cache of one package manager.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct PackageCache {
    /// What its copy is called: one plain name, different from the others.
    pub name: String,
    /// Where the user has it, existing or not.
    pub folder: PathBuf,
    /// The variable by which its package manager finds it. Where `folder` does not exist or no copy of it can be had, the command
    /// gets an empty private folder through it; without one it gets nothing.
    pub variable: Option<String>,
    /// Who has chosen `folder`.
    pub place: CachePlace,
}

/// Who has chosen where a package cache is.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum CachePlace {
    /// The package manager.
    Default,
    /// The user, by a variable. The command gets that variable too.
    Moved,
}

/// Whether a command may write in the workspace.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum WorkspaceAccess {
    /// It may, except to the protected names.
    Workspace,
    /// It may write in its temporary folder only.
    ReadOnly,
}

/// What a command can reach.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
#[non_exhaustive]
pub enum NetworkAccess {
    /// Nothing outside. In tier A it has a loopback interface of its own; in tier B it can make no socket.
    None,
    /// In tier A what its caller connects it to, and nothing else: the listening socket of
    /// [`Profile::proxied_command`](Profile::proxied_command) is all that leads out of its network namespace. In tier B it is as
    /// `None`: [`Profile::reaches_hosts`] says so.
    Proxy,
    /// What the host can reach. Local sockets and other families of sockets than IP stay forbidden.
    Host,
}

/// How much of a sandbox is required, the strongest first.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
pub enum Tier {
    /// Namespaces with an own view of the file system, Landlock and seccomp.
    A,
    /// Landlock and seccomp. Protected names are not held, and other processes stay visible.
    B,
    /// Nothing holds. No profile can be run with it.
    C,
}

/// A name in the workspace that a command must not change or create.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
pub struct ProtectedName {
    /// Relative to the workspace.
    pub path: PathBuf,
    /// What stands in for it while it does not exist.
    pub kind: NameKind,
}

/// What a protected name is if it does not exist yet.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum NameKind {
    /// An empty file.
    File,
    /// An empty folder.
    Folder,
    /// A file of a socket that nobody serves: git does not see it, no program waits for it, and the disk has no block for it.
    Socket,
    /// The file `commondir` of a git folder, with the content `.`: git fails if it is empty.
    CommonDir,
}

/// Limits of resources, each only if it is given. Core dumps are always off. The memory of all processes together is a matter
/// of cgroups, and so of the caller.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct ResourceLimits {
    /// Bytes of address space of each process.
    #[serde(default)]
    pub memory_bytes: Option<u64>,
    /// Processes and threads inside. It is held in tier A for a user who is not root; the kernel exempts root, and in tier B it
    /// would count the user's other processes too.
    #[serde(default)]
    pub processes: Option<u64>,
    /// Open files of each process.
    #[serde(default)]
    pub open_files: Option<u64>,
    /// Bytes of each file that a process writes.
    #[serde(default)]
    pub file_bytes: Option<u64>,
    /// Seconds of CPU time of each process.
    #[serde(default)]
    pub cpu_seconds: Option<u64>,
}
