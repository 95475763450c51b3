//! `limulus doctor`: looks at the surroundings of a home and checks its data for damage. It changes something only if asked to
//! (`--repair`).

mod quarantine;
mod repair;
mod rest;
mod surroundings;

use clap::Args;
use config::Globals;
use journal::check::{self, CheckReport, Progress, Repair};
use serde::Serialize;
use views::owner;

use crate::error::{CliError, Exit};
use crate::language::lines;
use crate::progress_line::ProgressLine;
use crate::show::doctor::{Shown, lay_out, surroundings_page};
use crate::show::human::Zone;
use crate::show::{json, print};

/// Check the installation, configuration, keys, terminal, disk and data of a home; repair data if asked
#[derive(Debug, Args)]
#[command(after_help = "The check changes nothing and may run beside an owner. \
                      A repair locks the home, asks first, keeps a copy of what it changes and reports what it did. \
                      Exit codes: 0 no data is damaged, 65 data is damaged.")]
#[allow(clippy::struct_excessive_bools, reason = "each is a flag of its own")]
pub(crate) struct DoctorArgs {
    /// Check the data of the home only: every file, page, entry, chain and body
    #[arg(long)]
    data: bool,
    /// Send one tiny request to each provider that is in use
    #[arg(long, conflicts_with_all = ["data", "repair"])]
    online: bool,
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

impl DoctorArgs {
    /// Whether models are asked.
    pub(crate) fn asks_models(&self) -> bool {
        self.online
    }
}

pub(crate) use surroundings::{Look, ask};

/// Looks at the surroundings, repairs if asked, checks the data and prints the report. `answers` are those of models that were asked.
pub(crate) fn run(args: &DoctorArgs, answers: Vec<Look>, globals: &Globals) -> Result<(), CliError> {
    if args.data || args.repair.is_some() {
        return check_data(args, &[], globals);
    }
    let looks = surroundings::look(globals, answers);
    match check_data(args, &looks, globals) {
        // A new home has no data yet.
        Err(error) if error.exit() == Exit::NotFound => print(&match (args.json, args.quiet) {
            (true, _) => json(&NoData { home: globals.home.display().to_string(), checks: &looks, healthy: true }),
            (false, true) => surroundings_page(&looks, true),
            (false, false) => {
                surroundings_page(&looks, false) + &lines("\njournal\n  · none yet: the first message makes it\n")
            }
        }),
        result => result,
    }
}

/// The report on a home that has no data yet.
#[derive(Debug, Serialize)]
struct NoData<'a> {
    home: String,
    checks: &'a [Look],
    healthy: bool,
}

/// Repairs if asked, checks the data and prints the report, what was looked at before it.
fn check_data(args: &DoctorArgs, looks: &[Look], globals: &Globals) -> Result<(), CliError> {
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
        let checks = (!looks.is_empty()).then_some(looks);
        print(&json(&Shown { home, checks, did: &did, healthy, owner, checked, collectable, findings, notes }))?;
    } else {
        let mut page = surroundings_page(looks, args.quiet);
        if !(args.quiet && healthy) {
            page += &lines(if looks.is_empty() { "" } else { "\njournal\n" });
            page += &(repair::lay_out(&did) + &lay_out(&home, owner.as_ref(), &report, &Zone::local()));
        }
        print(&page)?;
    }
    verdict(&report)
}

/// Checks the home. On a terminal a line on stderr shows the progress.
fn check_home(globals: &Globals) -> Result<CheckReport, CliError> {
    let mut line = ProgressLine::new();
    let report = check::check(&globals.home, &mut |progress| line.show(|| far(progress)));
    line.clear();
    Ok(report?)
}

/// How far a check is.
pub(crate) fn far(Progress { step, done, of }: Progress) -> String {
    let far = if of > 0 { format!(" {done} of {of}") } else { String::new() };
    format!("checking {step}{far} …")
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
