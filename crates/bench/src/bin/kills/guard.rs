//! The guard against a run that kills its process again and again; all other cases switch it off.

use super::case::Bench;
use super::kill_home::KillHome;
use super::plan::{Attack, Build, Point, Setup};
use super::record::Exit;

/// How many openings without progress are allowed.
const POISON_AFTER: u32 = 3;

/// Kills a run each time its request is sent. At the limit, the run must wait for a human, `status` must say so, and
/// only
/// `--force` may resume it.
pub(super) fn check(bench: &Bench) -> Result<(), String> {
    let setup = Setup { poison_after: POISON_AFTER, ..Setup::default() };
    let mut kill_home = KillHome::new(&setup, bench).map_err(|e| e.to_string())?;
    let binary = bench.binary(Build::Points);
    let deadly = Attack::Point { point: Point::RequestSent, nth: 1, interrupt_when: None };
    let agent = ["agent", "--json", "--yes", "--session", "guard", "-m", "tokens=4"];
    let resume = ["resume", "--json"];
    for kill in 1..=POISON_AFTER {
        let arguments: &[&str] = if kill == 1 { &agent } else { &resume };
        let record = kill_home.attack(binary, arguments, &deadly)?;
        expect(record.exit == Exit::Signal(9), &format!("kill {kill} did not happen: {:?}", record.exit))?;
    }
    let record = kill_home.attack(binary, &resume, &deadly)?;
    let is_waiting = matches!(record.exit, Exit::Code(code) if code != 0) && record.ends.is_empty();
    expect(is_waiting, &format!("after {POISON_AFTER} kills the run was resumed again: {:?}", record.exit))?;
    let (_, status) = kill_home.ask(binary, &["status", "--json"])?;
    expect(status.to_string().contains("--force"), &format!("`status` does not name `--force`: {status}"))?;
    let forced = kill_home.attack(binary, &["resume", "guard", "--force", "--json"], &Attack::None)?;
    expect(forced.exit == Exit::Code(0), &format!("by force it ended with {:?}", forced.exit))?;
    let completed = forced.ends.iter().any(|end| end.outcome == "completed" && end.text == "word0 word1 word2 word3");
    expect(completed, &format!("by force it ended as {:?}", forced.ends))
}

fn expect(holds: bool, otherwise: &str) -> Result<(), String> {
    if holds { Ok(()) } else { Err(otherwise.to_owned()) }
}
