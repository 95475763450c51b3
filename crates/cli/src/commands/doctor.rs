//! `limulus doctor`: checks a home for damage. It changes something only if asked to (`--repair`).

mod quarantine;
mod repair;
mod rest;

use std::time::{Duration, Instant};

use clap::Args;
use config::Globals;
use journal::check::{self, CheckReport, Progress, Repair};
use views::owner;

use crate::error::{CliError, Exit};
use crate::output::say_step;
use crate::show::doctor::{Shown, lay_out};
use crate::show::human::Zone;
use crate::show::{json, print};

/// A check that takes longer shows its progress.
const SILENCE: Duration = Duration::from_millis(400);
/// Refresh interval of the progress.
const TICK: Duration = Duration::from_millis(100);

/// Check a home for damage: every file, page, entry, chain and body; repair it if asked
#[derive(Debug, Args)]
#[command(after_help = "The check changes nothing and may run beside an owner. \
                      A repair locks the home, asks first, keeps a copy of what it changes and reports what it did. \
                      Exit codes: 0 nothing is wrong, 65 something is wrong.")]
pub(crate) struct DoctorArgs {
    /// Print one JSON object
    #[arg(long)]
    json: bool,
    /// Print only what is wrong
    #[arg(long, short, conflicts_with = "json")]
    quiet: bool,
    /// Repair this damage: snapshots, snapshot:KEY, session:KEY, ledger, views, loss, wal, export, collect
    #[arg(long, value_name = "WHAT")]
    repair: Option<Repair>,
    /// Do not ask before repairing
    #[arg(long, requires = "repair")]
    yes: bool,
}

/// Repairs if asked, checks the home and prints the report.
pub(crate) fn run(args: &DoctorArgs, globals: &Globals) -> Result<(), CliError> {
    let did = match &args.repair {
        Some(wanted) => repair::run(wanted, args, globals)?,
        None => vec![],
    };
    let owner = owner(&globals.home);
    let mut report = check_home(globals)?;
    rest::note(&mut report, globals);
    let home = globals.home.display().to_string();
    let healthy = report.findings.is_empty();
    if args.json {
        let CheckReport { findings, notes, counts, collectable } = &report;
        let (owner, checked, collectable) = (owner.as_ref(), *counts, *collectable);
        print(&json(&Shown { home, did: &did, healthy, owner, checked, collectable, findings, notes }))?;
    } else if !(args.quiet && healthy) {
        print(&(repair::lay_out(&did) + &lay_out(&home, owner.as_ref(), &report, &Zone::local())))?;
    }
    verdict(&report)
}

/// Checks the home. On a terminal a line on stderr shows the progress.
fn check_home(globals: &Globals) -> Result<CheckReport, CliError> {
    let mut line = Line::new();
    let report = check::check(&globals.home, &mut |progress| line.show(progress));
    line.clear();
    Ok(report?)
}

fn verdict(report: &CheckReport) -> Result<(), CliError> {
    let number = report.findings.len();
    if number == 0 {
        return Ok(());
    }
    let repairs = report.findings.iter().any(|finding| finding.repair.is_some());
    let hint = if repairs {
        "keep a copy of the folder, then repair one after the other from the top; each asks before it changes anything"
    } else {
        "damage without a repair needs a backup; intact sessions keep working"
    };
    Err(CliError::Failed {
        exit: Exit::Damaged,
        what: format!(
            "{} wrong with this home",
            if number == 1 { "1 thing is".into() } else { format!("{number} things are") }
        ),
        hint: hint.to_owned(),
    })
}

/// The line on stderr that shows the progress; each update replaces it.
struct Line {
    began: Instant,
    drawn: Option<Instant>,
}

impl Line {
    fn new() -> Self {
        Self { began: Instant::now(), drawn: None }
    }

    fn show(&mut self, Progress { step, done, of }: Progress) {
        let is_due = self.began.elapsed() > SILENCE && self.drawn.is_none_or(|drawn| drawn.elapsed() > TICK);
        if !is_due {
            return;
        }
        self.drawn = Some(Instant::now());
        let far = if of > 0 { format!(" {done} of {of}") } else { String::new() };
        say_step(&format!("checking {step}{far} …"));
    }

    fn clear(&mut self) {
        if self.drawn.take().is_some() {
            say_step("");
        }
    }
}
