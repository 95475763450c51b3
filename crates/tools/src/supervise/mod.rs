//! The supervisor: a small separate process that runs one command, so that the command survives the runtime and its end
//! is recorded whatever happens to the runtime. It uses no async runtime and no journal.
//!
//! ```text
//! read the job → claim calls/ID → start `sh -c` ─┬─ it ends ───────┐
//!                                                ├─ asked to end ──┼→ SIGTERM to the rest → SIGKILL → exit.json
//!                                                └─ past its limit ┘
//! ```

pub(crate) mod output;
pub(crate) mod processes;
pub(crate) mod proxy;
pub(crate) mod trace;
mod watch;

use std::ffi::{OsStr, OsString};
use std::fs::{self, File};
use std::io::{self, PipeReader, PipeWriter, Read as _, Write as _};
use std::os::unix::process::CommandExt as _;
use std::path::PathBuf;
use std::process::{Child, Command, ExitCode, Stdio};
use std::time::{SystemTime, UNIX_EPOCH};

use confine::{Launcher, ListenerReceiver, Profile};
use rustix::fd::OwnedFd;
use rustix::fs::{OFlags, fcntl_getfl, fcntl_setfl};
use rustix::process::{getpid, set_child_subreaper, setsid};
use serde::{Deserialize, Serialize};

use crate::cgroup::{self, CallCgroup};
use crate::folder::{CallFolder, ClaimedFolder, ExitRecord};
use crate::paths::THIS_PROGRAM;
use crate::sandbox::CONFINE;
use crate::supervise::processes::{HOME_MARK, MARK};
use crate::supervise::proxy::{HostRules, Proxy};
use crate::supervise::trace::Trace;
use crate::supervisors;

pub use processes::{ProcessOrigin, is_here_in_call_of, is_in_call};

/// The name of a supervisor's process, as `ps` and `pkill` see it: 15 bytes at most. It is not that of the program, so that
/// `pkill limulus` ends owners only, and the commands go on.
pub(crate) const SUPERVISOR: &str = "call-supervisor";

/// The job of a supervisor, which it reads as JSON from its standard input.
#[derive(Debug, Serialize, Deserialize)]
pub(crate) struct Job {
    /// The command for `sh -c`.
    pub(crate) command: String,
    /// The folder to run it in.
    pub(crate) folder: PathBuf,
    /// The folder of the call. It is in no argument, because every process may read those. A runtime of an older version
    /// passes it as the argument.
    #[serde(default)]
    pub(crate) call: Option<PathBuf>,
    /// Milliseconds after which the supervisor ends the command even if no runtime asks for it.
    pub(crate) limit_ms: u64,
    /// Whether the command gets a standard input that can be written to, because it may continue in the background.
    #[serde(default)]
    pub(crate) input: bool,
    /// What its record must contain. Only the runtime that starts the supervisor knows it too.
    #[serde(default)]
    pub(crate) nonce: String,
    /// The sandbox in which the command runs; none = it has none.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) sandbox: Option<Profile>,
    /// The hosts that it may reach through the proxy of this supervisor, if the network of its sandbox is
    /// `NetworkAccess::Proxy`; none = it reaches nothing then.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) hosts: Option<HostRules>,
    /// Bytes of memory that all its processes may use together, where the kernel can hold it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) memory_bytes: Option<u64>,
}

/// The body of the hidden subcommand `limulus supervise TOKEN`: runs the job on its standard input and records its end
/// in the folder that the job names. `arguments` are those after the word `supervise`: a word by which a later runtime
/// finds this process.
///
/// If it cannot claim the folder, it writes one line to standard output that says why. Else it writes the byte `.` once it
/// has claimed it, and whenever the folder changes. Nobody has to read them.
pub fn supervise_main(arguments: impl IntoIterator<Item = OsString>) -> ExitCode {
    let mut arguments = arguments.into_iter();
    let (Some(token), None) = (arguments.next(), arguments.next()) else {
        let _ = writeln!(io::stdout(), "usage: limulus supervise TOKEN (started by limulus itself)");
        return ExitCode::from(2);
    };
    match supervise(PathBuf::from(token)) {
        Ok(()) => ExitCode::SUCCESS,
        Err(reason) => {
            let _ = writeln!(io::stdout(), "{reason}");
            ExitCode::FAILURE
        }
    }
}

fn supervise(token: PathBuf) -> Result<(), String> {
    // Before it is hidden: only its user may write there. It fails if there is no /proc, where nothing works.
    let _ = fs::write("/proc/self/comm", SUPERVISOR);
    crate::protection::hide_from_commands();
    // Leave the session of the terminal, so that neither Ctrl-C nor its end affects the command. It fails only if this
    // process leads a session already.
    let _ = setsid();
    let job = read_job()?;
    let folder = CallFolder::at(job.call.clone().unwrap_or(token));
    let (output, writer) = io::pipe().map_err(|error| format!("the command has no pipe for its output: {error}"))?;
    let trace = output.try_clone().ok().and_then(|pipe| Trace::of_this_process(&folder, &OwnedFd::from(pipe).into()));
    let nonce = if job.nonce.is_empty() { supervisors::nonce() } else { Ok(job.nonce.clone()) };
    let claimed = nonce
        .and_then(|nonce| ClaimedFolder::claim(&folder, &nonce, trace.as_ref()))
        .map_err(|error| format!("the folder of the call could not be created: {error}"))?
        .ok_or("another supervisor runs the call, or it was cancelled before it started")?;
    // A runtime that does not read must not block the supervisor.
    if let Ok(flags) = fcntl_getfl(io::stdout()) {
        let _ = fcntl_setfl(io::stdout(), flags | OFlags::NONBLOCK);
    }
    notify_update();
    let started_at = now_ms();
    let begun = set_child_subreaper(Some(getpid()))
        .map_err(io::Error::from)
        .and_then(|()| start(&job, &folder, &claimed, (output, writer)));
    let record = match begun {
        Ok((started, proxy)) => {
            let record = watch::Watch::new(&claimed, started, job.limit_ms).until_ended();
            if let Some(proxy) = proxy {
                proxy.finish();
            }
            record
        }
        Err(error) => {
            ExitRecord { trouble: Some(format!("the command could not be started: {error}")), ..Default::default() }
        }
    };
    let record = ExitRecord { started_at, ended_at: now_ms(), ..record };
    let recorded = claimed.record(&record);
    notify_update();
    recorded.map_err(|error| format!("the end of the command could not be recorded: {error}"))
}

fn read_job() -> Result<Job, String> {
    let mut text = String::new();
    let read = io::stdin().read_to_string(&mut text);
    read.map_err(|error| error.to_string())
        .and_then(|_| serde_json::from_str(&text).map_err(|error| error.to_string()))
        .map_err(|error| format!("the job could not be read: {error}"))
}

/// A command that was started.
struct Started {
    child: Child,
    output: PipeReader,
    /// The handle that keeps its input open.
    input: Option<File>,
    /// What it was born in, where that is possible.
    cgroup: Option<CallCgroup>,
}

/// Starts the command. Both its outputs go into one pipe, which keeps their order.
fn start(
    job: &Job,
    call: &CallFolder,
    claimed: &ClaimedFolder,
    (output, writer): (PipeReader, PipeWriter),
) -> io::Result<(Started, Option<Proxy>)> {
    let (stdin, input) = if job.input {
        let (reader, kept) = claimed.make_input()?;
        (reader.into(), Some(kept))
    } else {
        (Stdio::null(), None)
    };
    let (mut command, receiver) = shell(job, call)?;
    command.stdin(stdin).stdout(writer.try_clone()?).stderr(writer).process_group(0);
    let (child, cgroup) = CallCgroup::around(call, job.memory_bytes, || command.spawn());
    // It holds the ends of the pipes.
    drop(command);
    let child = child?;
    let proxy = job.hosts.clone().zip(receiver).map(|(hosts, receiver)| {
        let expected = receiver.expect_from(&child);
        claimed.handle().map(|folder| Proxy::start(hosts, folder, expected))
    });
    // Without a handle of its own folder, a command has no network.
    Ok((Started { child, output, input, cgroup }, proxy.and_then(Result::ok)))
}

/// The shell with the command, in its sandbox if it has one; and what receives the listener of its proxy.
fn shell(job: &Job, call: &CallFolder) -> io::Result<(Command, Option<ListenerReceiver>)> {
    let Some(profile) = &job.sandbox else {
        let mut command = Command::new("sh");
        command.arg("-c").arg(&job.command).current_dir(&job.folder).envs(marks(call));
        return Ok((command, None));
    };
    let launcher = Launcher { executable: PathBuf::from(THIS_PROGRAM), words: vec![CONFINE.to_owned()] };
    let marks = marks(call).map(|(name, value)| (OsString::from(name), OsString::from(value)));
    let arguments = [OsString::from("-c"), OsString::from(&job.command)];
    let environment = std::env::vars_os().chain(marks.clone());
    let shell = OsStr::new("sh");
    let command = if job.hosts.is_some() {
        profile.proxied_command(&launcher, shell, arguments, environment)
    } else {
        profile.command(&launcher, shell, arguments, environment).map(|command| (command, None))
    };
    let (mut command, receiver) = command.map_err(io::Error::other)?;
    // What is outside of the sandbox is found by its marks too.
    command.current_dir(&job.folder).envs(marks);
    Ok((command, receiver))
}

/// What every process of the command has in its environment.
fn marks(call: &CallFolder) -> [(&'static str, String); 2] {
    [(MARK, call.name()), (HOME_MARK, cgroup::home(call.parent()))]
}

/// Writes one byte to standard output: the folder has changed.
fn notify_update() {
    let mut stdout = io::stdout();
    // The reader may have exited.
    let _ = stdout.write_all(b".").and_then(|()| stdout.flush());
}

fn now_ms() -> i64 {
    SystemTime::now().duration_since(UNIX_EPOCH).map_or(0, |since| since.as_millis() as i64)
}
