//! A real terminal: tmux with a server of the test's own.

use std::fmt::Write as _;
use std::path::PathBuf;
use std::process::Command;
use std::sync::atomic::{AtomicU32, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use super::home::PROGRAM;
use super::{Home, PATIENCE, until};

/// How many there have been.
static COUNT: AtomicU32 = AtomicU32::new(0);

/// A terminal with a shell in it that runs one program. It is closed when it is dropped.
pub(crate) struct Terminal<'a> {
    home: &'a Home,
    /// Its own: the server of one that was closed may take a moment to leave.
    socket: PathBuf,
}

impl<'a> Terminal<'a> {
    /// Whether there is one to be had; if not, says so.
    pub(crate) fn is_there() -> bool {
        let is_there = Command::new("tmux").arg("-V").output().is_ok();
        if !is_there {
            eprintln!("skipped: tmux is not installed, so there is no terminal to look at");
        }
        is_there
    }

    /// Runs limulus in a terminal of 100 by 30; after its end the screen says `exit=CODE`.
    pub(crate) fn run(home: &'a Home, words: &[&str]) -> Self {
        home.have_owner();
        Self::of_script(home, &format!("{}; echo exit=$?; cat", line(home, words)))
    }

    /// The same in a terminal with so many columns.
    pub(crate) fn run_at(home: &'a Home, columns: u16, words: &[&str]) -> Self {
        Self::run_in(home, (columns, 30), words)
    }

    /// The same in a terminal with so many columns and rows.
    pub(crate) fn run_in(home: &'a Home, size: (u16, u16), words: &[&str]) -> Self {
        home.have_owner();
        Self::of_script_in(home, size, &format!("{}; echo exit=$?; cat", line(home, words)))
    }

    /// Runs limulus with each of these words in turn, and keeps every byte that the terminal receives in the file `recorded`
    /// of the user's folder.
    pub(crate) fn record(home: &'a Home, commands: &[&[&str]]) -> Self {
        home.have_owner();
        let mut script = "read go; ".to_owned();
        for words in commands {
            let _ = write!(script, "{}; echo exit=$?; ", line(home, words));
        }
        // A script of such bytes goes into a file: no program between reads them.
        let file = home.user().join("script");
        std::fs::write(&file, script + "echo all=done; cat").expect("a script");
        let terminal = Self::of_script(home, &format!("sh {}", quoted(&file.display().to_string())));
        let recorded = home.user().join("recorded").display().to_string();
        terminal.tmux(&["pipe-pane", "-o", &format!("cat > {}", quoted(&recorded))]);
        until("the recording", || std::path::Path::new(&recorded).exists());
        terminal.type_keys(&["Enter"]);
        terminal
    }

    /// Runs a script of the shell with job control; `LIMULUS` in it is limulus with these words.
    pub(crate) fn script(home: &'a Home, script: &str, words: &[&str]) -> Self {
        home.have_owner();
        let file = home.user().join("script");
        std::fs::write(&file, script.replace("LIMULUS", &line(home, words))).expect("a script");
        Self::of_script(home, &format!("sh -m {}", quoted(&file.display().to_string())))
    }

    fn of_script(home: &'a Home, script: &str) -> Self {
        Self::of_script_in(home, (100, 30), script)
    }

    fn of_script_in(home: &'a Home, (columns, rows): (u16, u16), script: &str) -> Self {
        let number = COUNT.fetch_add(1, Ordering::Relaxed);
        let terminal = Self { home, socket: home.user().join(format!("tmux-{number}")) };
        let workspace = home.file("");
        let workspace = workspace.to_str().expect("a path in UTF-8");
        terminal.tmux(&[
            "-f",
            "/dev/null",
            "new-session",
            "-d",
            "-x",
            &columns.to_string(),
            "-y",
            &rows.to_string(),
            "-c",
            workspace,
            script,
        ]);
        terminal
    }

    /// Types these keys, in tmux's names.
    pub(crate) fn type_keys(&self, keys: &[&str]) {
        self.tmux(&[&["send-keys"], keys].concat());
    }

    /// Has the terminal send these bytes.
    pub(crate) fn type_raw(&self, text: &str) {
        self.tmux(&["send-keys", "-l", text]);
    }

    /// What is on the screen now, wrapped lines in one piece.
    pub(crate) fn screen(&self) -> String {
        self.tmux(&["capture-pane", "-p", "-J"])
    }

    /// The same with what has scrolled away.
    pub(crate) fn history(&self) -> String {
        self.tmux(&["capture-pane", "-p", "-J", "-S", "-"])
    }

    /// Changes its size.
    pub(crate) fn resize(&self, columns: u16, rows: u16) {
        self.tmux(&["resize-window", "-x", &columns.to_string(), "-y", &rows.to_string()]);
    }

    /// The same with the sequences of its colours, in rows.
    pub(crate) fn coloured_screen(&self) -> String {
        self.tmux(&["capture-pane", "-p", "-e"])
    }

    /// Waits until the screen says this.
    #[track_caller]
    pub(crate) fn until(&self, part: &str) -> String {
        let began = Instant::now();
        loop {
            let screen = self.screen();
            if screen.contains(part) {
                return screen;
            }
            assert!(began.elapsed() < PATIENCE, "this never came: {part}\n{screen}\n{}", self.processes());
            // waits: polls a terminal, which does not notify anyone when it shows something.
            thread::sleep(Duration::from_millis(5));
        }
    }

    /// What each process of it does, if the system can say.
    fn processes(&self) -> String {
        let terminal = self.tmux(&["display-message", "-p", "#{pane_tty}"]);
        let listed =
            Command::new("ps").args(["-o", "pid,ppid,pgid,stat,wchan:20,args", "-t", terminal.trim()]).output();
        listed.map(|listed| String::from_utf8_lossy(&listed.stdout).into_owned()).unwrap_or_default()
    }

    /// SIGKILL to the limulus in it.
    #[track_caller]
    pub(crate) fn kill(&self) {
        let owner = self.home.json(&["status"])["owner"]["pid"].as_i64().expect("the home has an owner");
        let pid = rustix::process::Pid::from_raw(owner as i32).expect("a pid is not 0");
        rustix::process::kill_process(pid, rustix::process::Signal::KILL).expect("it runs");
        self.until("exit=137");
    }

    fn tmux(&self, words: &[&str]) -> String {
        let output = Command::new("tmux").arg("-S").arg(&self.socket).args(words).env_remove("TMUX").output();
        String::from_utf8_lossy(&output.expect("tmux can be started").stdout).into_owned()
    }
}

/// The line of a shell that runs limulus with these words, and with nothing around it.
fn line(home: &Home, words: &[&str]) -> String {
    let variables = home.variables().into_iter().map(|(name, value)| format!("{name}={value}"));
    let words = words.iter().map(|word| (*word).to_owned());
    let words = variables.chain([PROGRAM.to_owned()]).chain(words).map(|word| quoted(&word));
    format!("env -i TERM=screen-256color {}", words.collect::<Vec<_>>().join(" "))
}

fn quoted(word: &str) -> String {
    format!("'{}'", word.replace('\'', r"'\''"))
}

impl Drop for Terminal<'_> {
    fn drop(&mut self) {
        self.tmux(&["kill-server"]);
    }
}
