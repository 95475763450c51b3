//! The third process: it starts `limulus`, reads its output line by line, and keeps a record of it.
//!
//! The record is a file of the lines as they came, each flushed before the next is read, between a first line with the
//! pid and a last one with the exit status. The client also does the kills from outside: it owns the child, so the pid
//! cannot belong to another process.

use std::fs::File;
use std::io::{self, BufRead, BufReader, Write};
use std::os::unix::process::ExitStatusExt as _;
use std::path::{Path, PathBuf};
use std::process::{Child, ChildStdout, Command, ExitStatus, Stdio};
use std::time::{Duration, Instant};

use rustix::process::{Pid, Signal, kill_process};
use serde_json::json;

/// How often a condition is checked.
const LOOK: Duration = Duration::from_millis(1);

/// Arguments of the client.
#[derive(Debug, clap::Args)]
pub(super) struct Args {
    /// The file of the record
    #[arg(long)]
    record: PathBuf,
    /// The file for the program's stderr
    #[arg(long)]
    stderr: PathBuf,
    /// Kill the program after this many seconds and report a violation
    #[arg(long, default_value_t = 60)]
    deadline_s: u64,
    /// Send SIGKILL this many microseconds after the start
    #[arg(long)]
    kill_after_us: Option<u64>,
    /// Send SIGKILL when the ledger holds this token
    #[arg(long, requires = "ledger")]
    kill_when: Option<String>,
    /// Send SIGINT when the ledger holds this token
    #[arg(long, requires = "ledger")]
    interrupt_when: Option<String>,
    /// The ledger in which tokens are looked for
    #[arg(long)]
    ledger: Option<PathBuf>,
    /// The program and its arguments
    #[arg(last = true, required = true)]
    command: Vec<String>,
}

/// Runs the program to its end and records its output.
pub(super) fn run(args: &Args) -> io::Result<()> {
    let mut record = File::create(&args.record)?;
    let mut child = Command::new(&args.command[0])
        .args(&args.command[1..])
        .stdin(Stdio::null())
        .stdout(Stdio::piped())
        .stderr(File::create(&args.stderr)?)
        .spawn()?;
    let stdout = child.stdout.take().ok_or_else(|| io::Error::other("the child has no stdout"))?;
    line(&mut record, &json!({ "client": "started", "pid": child.id() }).to_string())?;
    let reader = std::thread::spawn(move || keep(stdout, record));
    let (status, late) = watch(&mut child, args)?;
    if late {
        // Another process may still hold the pipe, and the client must not wait for it.
        let mut record = File::options().append(true).open(&args.record)?;
        return line(&mut record, &json!({ "client": "deadline" }).to_string());
    }
    let mut record = reader.join().map_err(|_| io::Error::other("the reader panicked"))??;
    line(&mut record, &json!({ "client": "exited", "code": status.code(), "signal": status.signal() }).to_string())
}

/// Copies complete lines to the record; an incomplete last line does not count.
fn keep(stdout: ChildStdout, mut record: File) -> io::Result<File> {
    let mut lines = BufReader::new(stdout);
    let mut text = vec![];
    while lines.read_until(b'\n', &mut text)? > 0 {
        if text.ends_with(b"\n") {
            record.write_all(&text)?;
        }
        text.clear();
    }
    Ok(record)
}

fn line(record: &mut File, text: &str) -> io::Result<()> {
    record.write_all(format!("{text}\n").as_bytes())
}

/// Waits for the end, and does what was ordered when its condition holds. Returns whether the deadline passed.
fn watch(child: &mut Child, args: &Args) -> io::Result<(ExitStatus, bool)> {
    let started = Instant::now();
    let (mut kill, mut interrupt) = (args.kill_when.as_deref(), args.interrupt_when.as_deref());
    let mut kill_after = args.kill_after_us.map(Duration::from_micros);
    loop {
        if let Some(status) = child.try_wait()? {
            return Ok((status, false));
        }
        if started.elapsed() > Duration::from_secs(args.deadline_s) {
            child.kill()?;
            return Ok((child.wait()?, true));
        }
        let timed = kill_after.take_if(|after| started.elapsed() >= *after).is_some();
        if timed || kill.take_if(|token| holds(args.ledger.as_deref(), token)).is_some() {
            child.kill()?;
        }
        if interrupt.take_if(|token| holds(args.ledger.as_deref(), token)).is_some() {
            // Nobody has waited for it yet, so the pid is still the child's.
            let pid = i32::try_from(child.id()).ok().and_then(Pid::from_raw);
            kill_process(pid.ok_or_else(|| io::Error::other("no pid"))?, Signal::INT)?;
        }
        let next = kill_after.map_or(LOOK, |after| after.saturating_sub(started.elapsed()).min(LOOK));
        std::thread::sleep(next);
    }
}

fn holds(ledger: Option<&Path>, token: &str) -> bool {
    let text = ledger.and_then(|ledger| std::fs::read_to_string(ledger).ok());
    text.is_some_and(|text| text.lines().any(|line| line == token))
}
