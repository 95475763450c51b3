//! How a caller starts a confined process, and how that process receives what it needs.
//!
//! Standard input belongs to the command, and arguments can be read by every process of the machine. So the profile is in the
//! environment of the outer process and of the first process inside, which the command cannot read. The command's own
//! variables are there under other names, so that none of them (`LD_PRELOAD`) acts on a process that is not confined yet.

use std::ffi::{OsStr, OsString};
use std::os::unix::ffi::{OsStrExt as _, OsStringExt as _};
use std::path::{Path, PathBuf};
use std::process::Command;

use rustix::fs::{Access, access};
use rustix::io::Errno;
use serde::{Deserialize, Serialize};

use crate::caches::CacheVariable;
use crate::handover::ListenerReceiver;
use crate::profile::{NetworkAccess, Profile, Tier};
use crate::setup::{AtStep as _, Error, SetupError, SetupStep};

/// The first argument of the first process inside.
pub(crate) const INIT: &str = "--init";
/// The variable with the order, as JSON.
const ORDER: &str = "LIMULUS_CONFINE";
/// The beginning of the names of the command's variables.
const VARIABLE: &[u8] = b"LIMULUS_CONFINE_VARIABLE_";

/// The executable that has the hidden subcommand, and the words that select it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Launcher {
    /// The executable, for example `/proc/self/exe`.
    pub executable: PathBuf,
    /// Its arguments in front of the command, for example `confine`.
    pub words: Vec<String>,
}

impl Profile {
    /// A command that executes `program` with `arguments` and exactly the variables of `environment` in this sandbox. Standard
    /// input, output, error, the process group and the working directory of the outer process are left to the caller, who
    /// must not change its environment.
    pub fn command(
        &self,
        launcher: &Launcher,
        program: &OsStr,
        arguments: impl IntoIterator<Item = OsString>,
        environment: impl IntoIterator<Item = (OsString, OsString)>,
    ) -> Result<Command, Error> {
        let order = Order { words: launcher.words.clone(), profile: self.clone(), listener: None };
        order.command(launcher, program, arguments, environment)
    }

    /// The same for a profile whose network is [`NetworkAccess::Proxy`]: the caller receives the socket at which programs inside
    /// find their proxy, once it has started the command. Without [`Profile::reaches_hosts`] there is no receiver, and the command
    /// reaches nothing.
    pub fn proxied_command(
        &self,
        launcher: &Launcher,
        program: &OsStr,
        arguments: impl IntoIterator<Item = OsString>,
        environment: impl IntoIterator<Item = (OsString, OsString)>,
    ) -> Result<(Command, Option<ListenerReceiver>), Error> {
        let receiver = self.reaches_hosts().then(ListenerReceiver::new).transpose();
        let receiver = receiver.map_err(|source| Error::Start { source })?;
        let listener = receiver.as_ref().map(|receiver| receiver.name().to_owned());
        let order = Order { words: launcher.words.clone(), profile: self.clone(), listener };
        Ok((order.command(launcher, program, arguments, environment)?, receiver))
    }

    /// Whether the command reaches hosts through a proxy of its caller: only a network namespace keeps it from all others.
    pub fn reaches_hosts(&self) -> bool {
        self.network == NetworkAccess::Proxy && self.tier == Tier::A
    }
}

/// What the outer process is asked to do.
#[derive(Debug, Serialize, Deserialize)]
pub(crate) struct Order {
    /// The words of the launcher, by which the outer process starts the first process inside.
    pub(crate) words: Vec<String>,
    pub(crate) profile: Profile,
    /// The name of the abstract socket to which the outer process gives the listening socket of the proxy.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) listener: Option<Vec<u8>>,
}

impl Order {
    fn command(
        &self,
        launcher: &Launcher,
        program: &OsStr,
        arguments: impl IntoIterator<Item = OsString>,
        environment: impl IntoIterator<Item = (OsString, OsString)>,
    ) -> Result<Command, Error> {
        let order = serde_json::to_string(self).map_err(|source| Error::Profile { source })?;
        let mut command = Command::new(&launcher.executable);
        command.args(&launcher.words).arg(program).args(arguments);
        hand_over(&mut command, order.as_ref(), environment);
        Ok(command)
    }
}

/// Sets the environment of a process that confines itself.
pub(crate) fn hand_over(
    command: &mut Command,
    order: &OsStr,
    environment: impl IntoIterator<Item = (OsString, OsString)>,
) {
    command.env_clear().env(ORDER, order);
    for (name, value) in environment {
        let name = [VARIABLE, name.as_bytes()].concat();
        command.env(OsString::from_vec(name), value);
    }
}

/// The order that this process received.
pub(crate) fn received<T: for<'de> Deserialize<'de>>() -> Result<T, SetupError> {
    let order = std::env::var(ORDER).at(SetupStep::Profile, format!("the variable {ORDER}"))?;
    serde_json::from_str(&order).at(SetupStep::Profile, format!("the variable {ORDER}"))
}

/// The variables of the command, with its own temporary folder.
pub(crate) fn command_environment(temporary: &Path) -> Vec<(OsString, OsString)> {
    let given = std::env::vars_os().filter_map(|(name, value)| {
        let name = name.as_bytes().strip_prefix(VARIABLE)?.to_owned();
        (!name.is_empty()).then(|| (OsString::from_vec(name), value))
    });
    let is_ours = |name: &OsString| TEMPORARY.iter().any(|ours| name == ours);
    let ours = TEMPORARY.map(|name| (OsString::from(name), temporary.as_os_str().to_owned()));
    given.filter(|(name, _)| !is_ours(name)).chain(ours).collect()
}

/// The variables of the command, with those that name its package caches.
pub(crate) fn with_caches(
    environment: Vec<(OsString, OsString)>,
    caches: impl IntoIterator<Item = CacheVariable>,
) -> Vec<(OsString, OsString)> {
    // Of two with one name the later one holds.
    let ours = caches.into_iter().map(|variable| (variable.name.into(), variable.value.into_os_string()));
    environment.into_iter().chain(ours).collect()
}

/// The variables of the command, with those by which programs find a proxy at this port of their loopback interface. One of the
/// host would not be reachable.
pub(crate) fn with_proxy(environment: Vec<(OsString, OsString)>, port: Option<u16>) -> Vec<(OsString, OsString)> {
    let Some(port) = port else { return environment };
    let http = format!("http://127.0.0.1:{port}");
    // Some programs refuse to start if this one names SOCKS, which they do not speak.
    let ours =
        [("HTTP_PROXY", &*http), ("HTTPS_PROXY", &http), ("ALL_PROXY", &http), ("NO_PROXY", "localhost,127.0.0.1,::1")];
    let ours = ours.iter().flat_map(|(name, value)| [(name.to_string(), value), (name.to_lowercase(), value)]);
    let ours = ours.map(|(name, value)| (OsString::from(name), OsString::from(value)));
    // Of two with one name the later one holds.
    environment.into_iter().chain(ours).collect()
}

/// Where a program is in the `PATH` of the command; its name as it is if it has a slash.
pub(crate) fn found(program: &OsStr, environment: &[(OsString, OsString)]) -> Result<PathBuf, SetupError> {
    let name = Path::new(program);
    let path = environment.iter().find(|(name, _)| name == "PATH").map(|(_, value)| value);
    if program.as_bytes().contains(&b'/') {
        return Ok(name.to_owned());
    }
    let folders = path.into_iter().flat_map(std::env::split_paths).filter(|folder| folder.is_absolute());
    let files = folders.map(|folder| folder.join(name)).filter(|file| file.is_file());
    let mut runnable = files.filter(|file| access(file, Access::EXEC_OK).is_ok());
    runnable.next().ok_or_else(|| SetupError::of_command(program, &Errno::NOENT.into()))
}

/// The variables that name the temporary folder.
const TEMPORARY: [&str; 3] = ["TMPDIR", "TMP", "TEMP"];
