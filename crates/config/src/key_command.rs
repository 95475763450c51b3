//! A key that a command prints, such as that of a store of passwords. The command runs on the thread that asks for the key, which is
//! never one of the tasks, and its key is kept for [`KEY_COMMAND_KEPT`]. Nothing that it prints is ever part of a message.

use std::collections::BTreeMap;
use std::ffi::OsStr;
use std::fmt;
use std::io::{self, Read as _};
use std::os::unix::process::CommandExt as _;
use std::path::Path;
use std::process::{Child, ChildStdout, Command, ExitStatus, Stdio};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::thread;
use std::time::{Duration, Instant};

use models::Secret;
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::process::{Pid, Signal, kill_process_group};

use super::concealed::{self, HIDDEN};
use super::environment::Environment;
use super::files::KEY_BYTES;
use super::limits::{KEY_COMMAND_KEPT, KEY_COMMAND_TIME, KEY_COMMANDS};

/// Variables that a command for a key receives beside those of every command: where the stores of keys and their agents are.
const PLACES: &[&str] = &[
    "DBUS_SESSION_BUS_ADDRESS",
    "DISPLAY",
    "GNUPGHOME",
    "GPG_TTY",
    "PASSWORD_STORE_*",
    "WAYLAND_DISPLAY",
    "XDG_RUNTIME_DIR",
];

/// The hidden subcommand that runs such a command, and ends it with what it started when its own stdin ends: so does whoever waits
/// for the key, also by `kill -9`.
pub const HELPER: &str = "run-key-command";
/// The exit status of a command that is not there, as shells have it.
const NOT_THERE: i32 = 127;

/// Interval of looks whether a command that prints nothing has ended.
const LOOK: Duration = Duration::from_millis(20);

/// The words of a command, as a shell splits them; none if a quote is open or there is no word.
pub(super) fn words(command: &str) -> Option<Vec<String>> {
    shlex::split(command).filter(|words| words.first().is_some_and(|program| !program.is_empty()))
}

/// Whether a text is a command and not a key that was written in its place.
pub(super) fn is_plausible(command: &str) -> bool {
    words(command).is_some() && !concealed::has_key(command)
}

/// The command as messages show it: a word that may be a key is not shown.
pub(super) fn shown(command: &str) -> String {
    let word = |word: &str| if concealed::is_path(word) { word } else { HIDDEN }.to_owned();
    command.split_whitespace().map(word).collect::<Vec<_>>().join(" ")
}

/// The keys that the commands of this process printed.
#[derive(Clone, Default)]
pub(super) struct CommandKeys {
    slots: Arc<Mutex<BTreeMap<String, Arc<Slot>>>>,
}

/// What is known of one command.
#[derive(Default)]
struct Slot {
    key: Mutex<Option<(Secret, Instant)>>,
    /// Held while it runs: a second request waits for the key of the first one.
    running: Mutex<()>,
}

impl Slot {
    fn key(&self) -> MutexGuard<'_, Option<(Secret, Instant)>> {
        self.key.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The key, if it is not too old.
    fn fresh(&self) -> Option<Secret> {
        self.key().as_ref().filter(|(_, since)| since.elapsed() < KEY_COMMAND_KEPT).map(|(key, _)| key.clone())
    }
}

impl CommandKeys {
    fn slot(&self, command: &str) -> Arc<Slot> {
        let mut slots = self.slots.lock().unwrap_or_else(PoisonError::into_inner);
        if slots.len() >= KEY_COMMANDS && !slots.contains_key(command) {
            slots.clear();
        }
        Arc::clone(slots.entry(command.to_owned()).or_default())
    }

    /// The last key that this command printed, however old; nothing is run.
    pub(super) fn known(&self, command: &str) -> Option<Secret> {
        self.slot(command).key().as_ref().map(|(key, _)| key.clone())
    }

    /// The key of this command, which runs if its key is not known or too old. Blocks until it ends, or nobody awaits the key any
    /// more. An error says why there is none.
    pub(super) fn get(
        &self,
        command: &str,
        helper: Option<&Path>,
        variables: Vec<(String, String)>,
        is_awaited: &dyn Fn() -> bool,
    ) -> Result<Secret, String> {
        let slot = self.slot(command);
        let _running = slot.running.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(key) = slot.fresh() {
            return Ok(key);
        }
        let key =
            run((command, helper), variables, &Wait { time: KEY_COMMAND_TIME, since: Instant::now(), is_awaited })?;
        *slot.key() = Some((key.clone(), Instant::now()));
        Ok(key)
    }
}

impl fmt::Debug for CommandKeys {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("CommandKeys(…)")
    }
}

impl Environment {
    /// The variables that a command for a key receives. `passed` adds some, `secret` names hold keys and are not passed.
    pub(super) fn of_key_command(&self, passed: &[String], secret: &[String]) -> Vec<(String, String)> {
        let places = PLACES.iter().map(|name| (*name).to_owned());
        let passed: Vec<String> = passed.iter().cloned().chain(places).collect();
        let is_passed = |(name, _): &(&str, &str)| tools::is_passed_to_commands(name, &passed, secret);
        self.variables().filter(is_passed).map(|(name, value)| (name.to_owned(), value.to_owned())).collect()
    }
}

/// How long a command is waited for.
struct Wait<'a> {
    time: Duration,
    since: Instant,
    /// Whether somebody still awaits the key.
    is_awaited: &'a dyn Fn() -> bool,
}

impl Wait<'_> {
    /// Returns an error if it is over.
    fn check(&self) -> io::Result<()> {
        if !(self.is_awaited)() {
            return Err(io::ErrorKind::Interrupted.into());
        }
        if self.since.elapsed() > self.time { Err(io::ErrorKind::TimedOut.into()) } else { Ok(()) }
    }
}

/// Runs a command; returns the first line that it prints. It sees no terminal, and no folder of a project: it works in the user's.
fn run(
    (command, helper): (&str, Option<&Path>),
    variables: Vec<(String, String)>,
    wait: &Wait<'_>,
) -> Result<Secret, String> {
    let place = format!("cmd:{}", shown(command));
    let unwanted = || format!("{place} was ended: nobody waits for its key any more");
    if !(wait.is_awaited)() {
        return Err(unwanted());
    }
    let words = words(command).ok_or_else(|| format!("{place} is no command: a quote is not closed"))?;
    let folder = variables.iter().find(|(name, _)| name == "HOME").map_or("/", |(_, folder)| folder).to_owned();
    let mut process = Command::new(helper.map_or(OsStr::new(&words[0]), Path::as_os_str));
    if helper.is_some() {
        // Its end is closed when this process ends, and nothing is ever written.
        process.arg(HELPER).args(&words).stdin(Stdio::piped());
    } else {
        process.args(&words[1..]).stdin(Stdio::null());
    }
    process.env_clear().envs(variables).current_dir(folder).process_group(0);
    process.stdout(Stdio::piped()).stderr(Stdio::null());
    let mut child = process.spawn().map_err(|error| format!("{place} could not be started ({})", error.kind()))?;
    let stdout = child.stdout.take().expect("the output was asked to be a pipe");
    let printed = read(&mut child, stdout, wait).and_then(|printed| Ok((printed, end(&mut child, wait)?)));
    let (printed, status) = printed.map_err(|error| {
        stop(&mut child);
        match error.kind() {
            io::ErrorKind::TimedOut => format!("{place} did not end within {} s", wait.time.as_secs()),
            io::ErrorKind::Interrupted => unwanted(),
            io::ErrorKind::FileTooLarge => format!("{place} printed more than {KEY_BYTES} bytes"),
            kind => format!("{place} could not be read ({kind})"),
        }
    })?;
    if status.code() == Some(NOT_THERE) {
        return Err(format!("{place} could not be started (there is no such program)"));
    }
    if !status.success() {
        return Err(format!("{place} failed ({status}); run it yourself to see why"));
    }
    let key = String::from_utf8_lossy(printed.split(|byte| *byte == b'\n').next().unwrap_or_default()).into_owned();
    let key = Secret::new(&key);
    if key.reveal().is_empty() { Err(format!("{place} printed no key in its first line")) } else { Ok(key) }
}

/// What the command prints, up to its end, which may come before that of its output: a program that it started may keep it open.
fn read(child: &mut Child, mut stdout: ChildStdout, wait: &Wait<'_>) -> io::Result<Vec<u8>> {
    let (mut printed, mut buffer) = (vec![], [0; 4096]);
    loop {
        let has_ended = child.try_wait()?.is_some();
        let look = Timespec::try_from(LOOK).expect("it is short");
        let ready = poll(&mut [PollFd::new(&stdout, PollFlags::IN)], Some(&look));
        match ready {
            Ok(0) if has_ended => return Ok(printed),
            Ok(0) | Err(rustix::io::Errno::INTR) => {}
            Ok(_) => match stdout.read(&mut buffer)? {
                0 => return Ok(printed),
                read => printed.extend(&buffer[..read]),
            },
            Err(error) => return Err(error.into()),
        }
        if printed.len() as u64 > KEY_BYTES {
            return Err(io::ErrorKind::FileTooLarge.into());
        }
        wait.check()?;
    }
}

/// Waits for the end of the command.
fn end(child: &mut Child, wait: &Wait<'_>) -> io::Result<ExitStatus> {
    loop {
        if let Some(status) = child.try_wait()? {
            return Ok(status);
        }
        wait.check()?;
        thread::sleep(LOOK);
    }
}

/// How long the helper may take to end what it runs: longer than it tries to.
const HELPER_TIME: Duration = Duration::from_millis(2_500);

/// Ends the command and what it started, also in another group or session: while the helper lives, all of it is below it. So it is the
/// helper that ends it, unless it is stopped.
fn stop(child: &mut Child) {
    if child.stdin.take().is_some() {
        let since = Instant::now();
        while since.elapsed() < HELPER_TIME && matches!(child.try_wait(), Ok(None)) {
            thread::sleep(LOOK);
        }
    }
    if matches!(child.try_wait(), Ok(Some(_))) {
        return;
    }
    tools::end_below(child.id());
    if let Some(group) = i32::try_from(child.id()).ok().and_then(Pid::from_raw) {
        // It fails only if all of them have ended.
        let _ = kill_process_group(group, Signal::KILL);
    }
    // It was killed, so it ends.
    let _ = child.wait();
}

#[cfg(test)]
mod tests {
    use std::fs;

    use super::*;

    fn get(command: &str) -> Result<String, String> {
        let wait = Wait { time: Duration::from_secs(1), since: Instant::now(), is_awaited: &|| true };
        run((command, None), vec![("PATH".to_owned(), "/usr/bin:/bin".to_owned())], &wait)
            .map(|key| key.reveal().to_owned())
    }

    #[test]
    fn r50_the_first_line_that_a_command_prints_is_the_key() {
        for (command, key) in [
            ("printf '  sk-one \\nnote\\n'", "sk-one"),
            ("echo 'a b'", "a b"),
            ("echo $HOME;", "$HOME;"),
            ("sh -c 'echo sk-$((1 + 1)); sleep 30 & exit 0'", "sk-2"),
            ("sh -c 'echo noise >&2; echo sk-3'", "sk-3"),
            ("pwd", "/"),
        ] {
            assert_eq!(get(command).as_deref(), Ok(key), "{command}");
        }
    }

    #[test]
    fn r50_a_command_that_fails_says_so_and_never_what_it_printed() {
        for (command, error) in [
            (
                "sh -c 'echo sk-secret; echo sk-more >&2; exit 3'",
                "cmd:sh -c 'echo sk-secret; echo sk-more >&2; exit 3' failed (exit status: 3); run it yourself to see why",
            ),
            ("no-such-program-here show", "cmd:no-such-program-here show could not be started (entity not found)"),
            ("true", "cmd:true printed no key in its first line"),
            ("printf '\\nsk-second-line'", "cmd:printf '\\nsk-second-line' printed no key in its first line"),
            ("yes sk-secret", "cmd:yes sk-secret printed more than 65536 bytes"),
            ("sh -c 'kill -9 $$'", "cmd:sh -c 'kill -9 $$' failed (signal: 9 (SIGKILL)); run it yourself to see why"),
            ("echo 'open", "cmd:echo 'open is no command: a quote is not closed"),
        ] {
            assert_eq!(get(command).unwrap_err(), error, "{command}");
        }
    }

    #[test]
    fn r50_a_command_that_does_not_end_is_ended_with_what_it_started() {
        for start in ["", "setsid "] {
            let folder = tempfile::tempdir().unwrap();
            let file = folder.path().join("pid");
            let began = Instant::now();
            let command = format!("sh -c '{start}sleep 300 & echo $! > {}; wait'", file.display());
            assert!(get(&command).unwrap_err().ends_with("did not end within 1 s"));
            assert!(began.elapsed() < Duration::from_secs(20));
            let pid: i32 = fs::read_to_string(&file).unwrap().trim().parse().unwrap();
            let is_there = || {
                let state = fs::read_to_string(format!("/proc/{pid}/stat")).unwrap_or_default();
                state.rsplit_once(") ").is_some_and(|(_, rest)| !rest.starts_with('Z'))
            };
            while is_there() {
                assert!(began.elapsed() < Duration::from_secs(20), "{pid} goes on");
                thread::yield_now();
            }
        }
    }

    #[test]
    fn r50_a_command_whose_key_nobody_awaits_is_ended_or_not_started() {
        let began = Instant::now();
        let variables = || vec![("PATH".to_owned(), "/usr/bin:/bin".to_owned())];
        for awaited_for in [Duration::ZERO, Duration::from_millis(200)] {
            let is_awaited = || began.elapsed() < awaited_for;
            let wait = Wait { time: Duration::from_mins(1), since: began, is_awaited: &is_awaited };
            let error = run(("sleep 300", None), variables(), &wait).unwrap_err();
            assert_eq!(error, "cmd:sleep 300 was ended: nobody waits for its key any more");
        }
        assert!(began.elapsed() < Duration::from_secs(20));
    }

    #[test]
    fn r50_a_key_is_kept_for_a_while_and_a_failure_is_not() {
        let folder = tempfile::tempdir().unwrap();
        let file = folder.path().join("count");
        let keys = CommandKeys::default();
        let variables = || vec![("PATH".to_owned(), "/usr/bin:/bin".to_owned())];
        let command = format!("sh -c 'echo x >> {0}; test $(wc -l < {0}) -gt 1 && echo sk-two'", file.display());
        assert_eq!(keys.known(&command), None);
        keys.get(&command, None, variables(), &|| true).unwrap_err();
        assert_eq!(keys.known(&command), None);
        thread::scope(|scope| {
            for _ in 0..4 {
                scope.spawn(|| assert_eq!(keys.get(&command, None, variables(), &|| true).unwrap().reveal(), "sk-two"));
            }
        });
        assert_eq!(fs::read_to_string(&file).unwrap(), "x\nx\n", "it ran once more for all four");
        assert_eq!(keys.clone().known(&command).unwrap().reveal(), "sk-two");
        assert!(!format!("{keys:?}").contains("sk-"));
    }

    #[test]
    fn r50_a_command_receives_no_key_of_a_provider() {
        let environment = Environment::of(
            &[
                ("PATH", "/bin"),
                ("OPENAI_API_KEY", "sk-1"),
                ("AWS_SECRET_ACCESS_KEY", "sk-2"),
                ("LIMULUS_HOME", "/h"),
                ("GNUPGHOME", "/g"),
                ("PASSWORD_STORE_DIR", "/p"),
                ("MINE", "m"),
            ],
            "/now",
        );
        let names: Vec<String> = environment
            .of_key_command(&["MINE".to_owned(), "OPENAI_API_KEY".to_owned()], &["OPENAI_API_KEY".to_owned()])
            .into_iter()
            .map(|(name, _)| name)
            .collect();
        assert_eq!(names, ["GNUPGHOME", "MINE", "PASSWORD_STORE_DIR", "PATH"]);
    }

    #[test]
    fn r50_a_command_is_told_from_a_key_in_its_place_and_shown_without_what_may_be_one() {
        assert!(is_plausible("pass show api/openai") && is_plausible("sh -c 'op read op://v/i/f'"));
        assert!(!is_plausible("") && !is_plausible("''") && !is_plausible("echo sk-literal-0123456789"));
        assert_eq!(shown("pass show api/openai"), "pass show api/openai");
        assert_eq!(shown("echo 0123456789abcdef0123456789abcdef"), format!("echo {HIDDEN}"));
    }
}
