//! One case from a fresh home to its verdict.

use std::net::TcpListener;
use std::path::{Path, PathBuf};

use model_server::{Fault, ModelServer, Odd, Script};
use serde_json::Value;

use super::checks::Aftermath;
use super::faults::{Address, Ends, FAULT_MS};
use super::kill_home::{FILES, KillHome};
use super::odd_calls::{self, OddMet};
use super::plan::{Attack, Build, Case, Point, Work, token};
use super::record::{Exit, Record};
use super::truth::Truth;

/// The number of SIGKILL.
const SIGKILL: i64 = 9;

/// Shared by all cases.
#[derive(Debug)]
pub(super) struct Bench {
    /// The build with crash points.
    pub(super) points: PathBuf,
    pub(super) plain: PathBuf,
    pub(super) server: ModelServer,
    /// Accepts connections and sends nothing.
    pub(super) mute: TcpListener,
    /// The mutant in the build with crash points.
    pub(super) mutant: Option<String>,
}

impl Bench {
    pub(super) fn binary(&self, build: Build) -> &Path {
        match build {
            Build::Points => &self.points,
            Build::Plain => &self.plain,
        }
    }
}

/// An attack, and whether it happened.
#[derive(Debug, Clone)]
pub(super) struct PlannedKill {
    pub(super) attack: Attack,
    /// Whether the process was `resume`.
    pub(super) on_resume: bool,
    /// Whether SIGKILL ended it.
    pub(super) killed: bool,
    /// Whether the provider's fault was in progress then: it had happened, and neither a complete answer nor the end
    /// was recorded since.
    pub(super) amid_fault: bool,
}

/// The result of a case.
#[derive(Debug, Default)]
pub(super) struct Verdict {
    pub(super) kills: Vec<PlannedKill>,
    pub(super) violations: Vec<String>,
    /// Bytes of text that clients recorded.
    pub(super) received_bytes: usize,
    /// Whether a failure was recorded.
    pub(super) has_failed: bool,
    /// Calls that were reported as interrupted.
    pub(super) interrupted: usize,
    /// The outcome of invalid calls.
    pub(super) odd_calls: OddMet,
    /// The home, if it was kept because something is wrong.
    pub(super) kept: Option<PathBuf>,
}

/// Runs a case. Any error on the way is a violation too.
pub(super) fn run(case: &Case, bench: &Bench) -> Verdict {
    let mut verdict = Verdict::default();
    let mut kill_home = match KillHome::new(&case.setup, bench) {
        Ok(kill_home) => kill_home,
        Err(error) => {
            verdict.violations.push(format!("the home of the case cannot be created: {error}"));
            return verdict;
        }
    };
    if let Err(broken) = play(case, bench, &mut kill_home, &mut verdict) {
        verdict.violations.push(broken);
    }
    if !verdict.violations.is_empty() {
        verdict.kept = Some(kill_home.keep());
    }
    verdict
}

fn play(case: &Case, bench: &Bench, kill_home: &mut KillHome, verdict: &mut Verdict) -> Result<(), String> {
    let binary = bench.binary(case.build);
    let message = message(case, kill_home);
    let script = Script::parse(&message).ok_or("the message of the case is no script")?;
    let mut records = vec![];
    for (at, attack) in case.attacks.iter().enumerate() {
        let has_happened = || bench.server.fault_count(&message) > 0;
        let record = match at {
            0 => kill_home.attack_when(binary, &agent(&message, &case.name), attack, &has_happened)?,
            _ => kill_home.attack_when(binary, &["resume", "--json"], attack, &has_happened)?,
        };
        let killed = record.exit == Exit::Signal(SIGKILL);
        let amid_fault =
            killed && Truth::read(&kill_home.home()).is_ok_and(|truth| amid(case, &script, &truth, has_happened()));
        verdict.kills.push(PlannedKill { attack: attack.clone(), on_resume: at > 0, killed, amid_fault });
        records.push(record);
    }
    // A client without an answer sends its message again with the same key; an existing run is resumed.
    let asks_again = case.attacks.first().and_then(Attack::point) == Some(Point::Accepted);
    let started = Truth::read(&kill_home.home()).is_ok_and(|truth| !truth.accepted.is_empty());
    if asks_again {
        records.push(kill_home.attack(binary, &agent(&message, &case.name), &Attack::None)?);
    } else if started {
        records.push(kill_home.attack(binary, &["resume", "--json"], &Attack::None)?);
    }
    let messages = 1 + usize::from(started || asks_again);
    // The session is usable afterwards, and the whole history is paired: the server checks it.
    records.push(kill_home.attack(binary, &agent("tokens=3", "afterwards"), &Attack::None)?);
    verdict.violations.extend(exits(case, &records, &verdict.kills));
    let runs = shown(binary, kill_home)?;
    let truth = Truth::read(&kill_home.home()).map_err(|e| format!("the journal does not read: {e}"))?;
    let ledger = std::fs::read_to_string(kill_home.ledger()).unwrap_or_default();
    let folder = kill_home.path();
    let aftermath =
        Aftermath { case, script: &script, records: &records, truth: &truth, runs: &runs, folder, ledger: &ledger };
    verdict.violations.extend(aftermath.violations());
    verdict.odd_calls = odd_calls::met(&aftermath);
    verdict.has_failed = !truth.failures.is_empty();
    if runs.len() != messages {
        verdict.violations.push(format!("{} runs are listed for {messages} messages", runs.len()));
    }
    let received = records.iter().flat_map(|record| record.texts.values().flatten());
    verdict.received_bytes = received.map(|(_, text)| text.len()).sum();
    let calls = runs.iter().flat_map(super::checks::calls);
    verdict.interrupted = calls.filter(|call| call["outcome"] == "interrupted").count();
    Ok(())
}

/// Whether the provider's fault was in progress when the journal looked like this.
fn amid(case: &Case, script: &Script, truth: &Truth, has_happened: bool) -> bool {
    let has_happened = if case.setup.fault.address == Address::Server { has_happened } else { truth.requests > 0 };
    // Odd calls are in an answer themselves.
    let own = usize::from(matches!(script.fault, Some(Fault::Odd { odd: Odd::Calls(_), .. })));
    has_happened && truth.answered <= script.after + own && truth.endings.is_empty()
}

fn agent<'a>(message: &'a str, key: &'a str) -> [&'a str; 9] {
    ["agent", "--json", "--yes", "--session", "kills", "--key", key, "-m", message]
}

/// The user's message, as a script for the model server.
fn message(case: &Case, kill_home: &KillHome) -> String {
    let ledger = kill_home.ledger();
    let command =
        |at, rest| format!("exec:echo {} >> '{}'; echo begun; {rest}", token(&case.name, at), ledger.display());
    let fault = case.setup.fault.script;
    let answer = format!("preamble=6 tokens=24 delay_ms=2 vowel=潮 fault_ms={FAULT_MS} {fault}");
    match case.work {
        Work::Rounds => {
            let (first, second) = (command(0, "sleep 0.15; echo done"), command(1, "sleep 0.15; echo done"));
            let write = format!(r#"call:write {{"path":"out.txt","content":"{}"}}"#, case.name);
            format!("{answer}\ncall:ls {{\"path\":\".\"}}\n{first}\n{write}\n{second}")
        }
        Work::Reads => format!("Read the files of {}.\nreads={FILES} {answer}", case.name),
        Work::Aborted | Work::Limited => format!("tokens=8\n{}", command(0, "sleep 600")),
    }
}

/// Processes that did not end as intended, or with a status that does not fit.
fn exits(case: &Case, records: &[Record], kills: &[PlannedKill]) -> Vec<String> {
    let ended_by_itself = |exit: Exit| match exit {
        // An aborted run has its own exit status.
        Exit::Code(0) => true,
        Exit::Code(130) => case.work == Work::Aborted,
        Exit::Code(1) => case.setup.fault.ends != Ends::Completed,
        // The kill came before anything was recorded: there is nothing to resume.
        Exit::Code(4) => case.build == Build::Plain,
        _ => false,
    };
    let wrong = records.iter().enumerate().filter(|(at, record)| {
        let attacked = kills.get(*at).is_some_and(|kill| kill.attack != Attack::None);
        !(ended_by_itself(record.exit) || attacked && record.exit == Exit::Signal(SIGKILL))
    });
    wrong.map(|(at, record)| format!("process {} ended with {:?}", at + 1, record.exit)).collect()
}

/// `runs show --json` of every run in the list of the home, oldest first.
fn shown(binary: &Path, kill_home: &KillHome) -> Result<Vec<Value>, String> {
    let (code, list) = kill_home.ask(binary, &["runs", "list", "--json"])?;
    let list = list.as_array().ok_or_else(|| format!("`runs list --json` ended with {code:?} and no array"))?;
    let show = |row: &Value| {
        let run = row["run"].as_str().ok_or("a run without its id is listed")?;
        Ok(kill_home.ask(binary, &["runs", "show", run, "--json"])?.1)
    };
    let mut runs = list.iter().map(show).collect::<Result<Vec<Value>, String>>()?;
    runs.sort_by_key(|run| run["started_at"].as_i64());
    Ok(runs)
}

/// The attacks of this verdict that hit the point.
pub(super) fn hits(verdict: &Verdict, point: Point) -> impl Iterator<Item = &PlannedKill> {
    verdict.kills.iter().filter(move |kill| kill.killed && kill.attack.point() == Some(point))
}
