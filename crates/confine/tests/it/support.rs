//! A workspace with its surroundings, and ways to run something in its sandbox or beside it.

use std::ffi::OsString;
use std::fs;
use std::os::unix::fs::{PermissionsExt as _, chown};
use std::os::unix::process::CommandExt as _;
use std::path::{Path, PathBuf};
use std::process::{Command, Output, Stdio};
use std::sync::OnceLock;
use std::sync::atomic::{AtomicU32, Ordering};

use confine::{
    ConfineReport, Launcher, ListenerReceiver, NetworkAccess, Profile, ResourceLimits, SandboxSupport, Tier,
    WorkspaceAccess, default_read_only, probe,
};
use tempfile::TempDir;

const SUBCOMMAND: &str = "confine";
/// A user whom no machine gives files.
const OTHER: u32 = 65_534;

/// As whom something runs.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum User {
    Own,
    Other,
}

impl User {
    /// Those that this test can be.
    pub(crate) fn all() -> Vec<Self> {
        if rustix::process::geteuid().is_root() { vec![Self::Own, Self::Other] } else { vec![Self::Own] }
    }

    pub(crate) fn is_root(self) -> bool {
        self == Self::Own && rustix::process::geteuid().is_root()
    }

    pub(crate) fn become_it(self, command: &mut Command) {
        if self == Self::Other {
            // Without other groups, since this process is root.
            command.uid(OTHER).gid(OTHER);
        }
    }

    fn own(self, path: &Path) {
        if self == Self::Other {
            chown(path, Some(OTHER), Some(OTHER)).unwrap();
        }
    }

    /// What can be set up as this user.
    pub(crate) fn support(self) -> &'static SandboxSupport {
        static OWN: OnceLock<SandboxSupport> = OnceLock::new();
        static OTHER: OnceLock<SandboxSupport> = OnceLock::new();
        let found = || match self {
            Self::Own => {
                let built = launcher(Path::new(env!("CARGO_BIN_EXE_limulus-confine")));
                probe(&built, tempfile::tempdir().unwrap().path()).unwrap()
            }
            Self::Other => probe_as_other(),
        };
        let place = if self == Self::Own { &OWN } else { &OTHER };
        place.get_or_init(found)
    }
}

/// `probe` starts processes as the own user, so here a small sandbox is tried.
fn probe_as_other() -> SandboxSupport {
    let own = User::Own.support().clone();
    let world = World::new(User::Other, own.tier());
    let (output, report) = world.run_reported(&world.profile(), &["true"]);
    assert!(output.status.success(), "as another user: {output:?}");
    SandboxSupport { layers: report.layers.unwrap(), ..own }
}

pub(crate) fn launcher(executable: &Path) -> Launcher {
    Launcher { executable: executable.to_owned(), words: vec![SUBCOMMAND.to_owned()] }
}

/// Calls `act` with a world for each user and each of these tiers. A tier that cannot be set up is said.
pub(crate) fn each(tiers: &[Tier], act: impl Fn(&World)) {
    for user in User::all() {
        for tier in tiers {
            if *tier < user.support().tier() {
                eprintln!("skipped: {tier:?} as {user:?}: {:?}", user.support().failures);
                continue;
            }
            act(&World::new(user, *tier));
        }
    }
}

pub(crate) const BOTH: [Tier; 2] = [Tier::A, Tier::B];
pub(crate) const ONLY_A: [Tier; 1] = [Tier::A];

/// Folders of one user: a workspace, a folder outside of it and a folder with secrets.
pub(crate) struct World {
    pub(crate) user: User,
    pub(crate) tier: Tier,
    root: TempDir,
    executable: PathBuf,
    reports: AtomicU32,
}

impl World {
    pub(crate) fn new(user: User, tier: Tier) -> Self {
        let root = tempfile::tempdir().unwrap();
        fs::set_permissions(root.path(), fs::Permissions::from_mode(0o755)).unwrap();
        let executable = match user {
            User::Own => PathBuf::from(env!("CARGO_BIN_EXE_limulus-confine")),
            User::Other => copied(root.path()),
        };
        let world = Self { user, tier, root, executable, reports: AtomicU32::new(0) };
        for folder in ["work", "outside", "secret", "temporary", "reports"] {
            fs::create_dir(world.at(folder)).unwrap();
            user.own(&world.at(folder));
        }
        for file in ["outside/file", "secret/key", "secret/token"] {
            world.write(file, "precious\n");
        }
        world
    }

    pub(crate) fn at(&self, name: &str) -> PathBuf {
        self.root.path().join(name)
    }

    pub(crate) fn work(&self, name: &str) -> PathBuf {
        self.at("work").join(name)
    }

    pub(crate) fn write(&self, name: &str, text: &str) {
        fs::write(self.at(name), text).unwrap();
        self.user.own(&self.at(name));
    }

    pub(crate) fn read(&self, name: &str) -> String {
        fs::read_to_string(self.at(name)).unwrap()
    }

    pub(crate) fn create_folder(&self, name: &str) {
        fs::create_dir(self.at(name)).unwrap();
        self.user.own(&self.at(name));
    }

    pub(crate) fn launcher(&self) -> Launcher {
        launcher(&self.executable)
    }

    /// A profile as a caller would make it: with the secrets hidden, and the usual names protected.
    pub(crate) fn profile(&self) -> Profile {
        let number = self.reports.fetch_add(1, Ordering::Relaxed);
        Profile {
            workspace: self.at("work"),
            folder: self.at("work"),
            access: WorkspaceAccess::Workspace,
            temporary: self.at("temporary"),
            writable: vec![],
            approved: vec![],
            caches: None,
            hidden: vec![self.at("secret"), self.at("absent")],
            read_only: default_read_only(),
            network: NetworkAccess::None,
            limits: ResourceLimits::default(),
            tier: self.tier,
            report: self.at("reports").join(format!("{number}.json")),
        }
    }

    /// The variables of a command, in the sandbox and outside.
    fn environment(&self) -> Vec<(OsString, OsString)> {
        let given = |name: &str| std::env::var_os(name).map(|value| (OsString::from(name), value));
        let own = [("OUT", "outside"), ("SECRET", "secret"), ("WORK", "work"), ("HOME", "temporary")];
        let own = own.map(|(name, folder)| (OsString::from(name), self.at(folder).into_os_string()));
        let git = [("GIT_CONFIG_NOSYSTEM", "1"), ("GIT_AUTHOR_NAME", "a"), ("GIT_AUTHOR_EMAIL", "a@example.org")];
        let git = git.into_iter().chain([("GIT_COMMITTER_NAME", "a"), ("GIT_COMMITTER_EMAIL", "a@example.org")]);
        let git = git.map(|(name, value)| (OsString::from(name), OsString::from(value)));
        given("PATH").into_iter().chain(own).chain(git).collect()
    }

    /// A command in the sandbox.
    pub(crate) fn command(&self, profile: &Profile, argv: &[&str]) -> Command {
        let arguments = argv[1..].iter().map(OsString::from);
        let mut command = profile.command(&self.launcher(), argv[0].as_ref(), arguments, self.environment()).unwrap();
        self.user.become_it(&mut command);
        command.stdin(Stdio::null()).current_dir("/");
        command
    }

    /// The same with what receives the listener of its proxy. The caller has a proxy of its own.
    pub(crate) fn proxied_command(&self, profile: &Profile, argv: &[&str]) -> (Command, Option<ListenerReceiver>) {
        let arguments = argv[1..].iter().map(OsString::from);
        let of_host = ["http_proxy", "HTTPS_PROXY", "NO_PROXY"].map(|name| (name.into(), "http://192.0.2.1".into()));
        let environment = self.environment().into_iter().chain(of_host);
        let (mut command, receiver) =
            profile.proxied_command(&self.launcher(), argv[0].as_ref(), arguments, environment).unwrap();
        self.user.become_it(&mut command);
        command.stdin(Stdio::null()).current_dir("/");
        (command, receiver)
    }

    /// The same without a sandbox.
    pub(crate) fn bare(&self, argv: &[&str]) -> Command {
        let mut command = Command::new(argv[0]);
        command.args(&argv[1..]).env_clear().envs(self.environment()).current_dir(self.at("work")).stdin(Stdio::null());
        self.user.become_it(&mut command);
        command
    }

    pub(crate) fn run_reported(&self, profile: &Profile, argv: &[&str]) -> (Output, ConfineReport) {
        let output = self.command(profile, argv).output().unwrap();
        let report = ConfineReport::read(&profile.report);
        (output.clone(), report.unwrap_or_else(|error| panic!("{error}: {output:?}")))
    }

    /// Runs a script in the sandbox.
    pub(crate) fn run(&self, script: &str) -> Output {
        self.command(&self.profile(), &["sh", "-c", script]).output().unwrap()
    }

    /// Runs a script that succeeds. Returns what it prints, without blanks around it.
    pub(crate) fn succeed(&self, script: &str) -> String {
        let output = self.run(script);
        assert!(output.status.success(), "{script}\n{}{output:?}", self.name());
        String::from_utf8(output.stdout).unwrap().trim().to_owned()
    }

    /// Tries an escape: `script` succeeds if it escapes.
    pub(crate) fn refuse(&self, number: u32, script: &str) {
        let output = self.run(script);
        assert!(!output.status.success(), "escape {number}: {script}\n{}{output:?}", self.name());
        let text = String::from_utf8_lossy(&output.stderr);
        assert!(
            !text.contains("not found") && !text.contains("limulus sandbox"),
            "escape {number} was not tried: {text}"
        );
    }

    /// What the escape would do without a sandbox: the attempt itself is right.
    pub(crate) fn control(&self, number: u32, script: &str) {
        let output = self.bare(&["sh", "-c", script]).output().unwrap();
        assert!(output.status.success(), "control of escape {number}: {script}\n{}{output:?}", self.name());
    }

    pub(crate) fn name(&self) -> String {
        format!("[tier {:?} as {:?}] ", self.tier, self.user)
    }
}

/// Where the program was built, another user may not look. A process of its own copies it: in this one other tests start
/// programs, which would inherit the file while it is written, and then it could not be executed.
fn copied(folder: &Path) -> PathBuf {
    let (built, copy) = (env!("CARGO_BIN_EXE_limulus-confine"), folder.join("limulus-confine"));
    if fs::hard_link(built, &copy).is_err() {
        assert!(Command::new("cp").arg(built).arg(&copy).status().unwrap().success());
    }
    copy
}

/// An escape that is tried in fresh worlds.
pub(crate) fn refused(number: u32, tiers: &[Tier], script: &str) {
    each(tiers, |world| {
        world.refuse(number, script);
        assert_eq!(world.read("outside/file"), "precious\n", "escape {number}");
        assert_eq!(fs::read_dir(world.at("outside")).unwrap().count(), 1, "escape {number} left something outside");
        world.control(number, script);
    });
}

/// The same where nothing outside can show that the attempt is right, or where it would do harm.
pub(crate) fn refused_without_control(number: u32, tiers: &[Tier], script: &str) {
    each(tiers, |world| world.refuse(number, script));
}
