//! `limulus demo`: kills a real process with SIGKILL during a tool call and during an answer, resumes each run in
//! another process, and proves the result from the journal and from the file that the tool wrote.

mod proof;
mod scene;

use std::path::Path;

use clap::Args;
use serde_json::json;

use crate::error::{CliError, Exit};
use crate::language::word;
use crate::output::say;
use crate::show::{json_line, print, worded};
use proof::Check;
use scene::Stage;

/// Kill a real run twice with SIGKILL and prove from the journal that nothing was lost or done twice.
#[derive(Debug, Args)]
#[command(after_help = "Exit code 0: every check holds. Exit code 1: a check fails; the folder is kept.")]
pub(crate) struct DemoArgs {
    /// Keep the folder with its home and workspace, and print where it is
    #[arg(long)]
    keep: bool,
    /// Print one JSON object
    #[arg(long)]
    json: bool,
}

pub(crate) fn run(args: &DemoArgs) -> Result<(), CliError> {
    let folder = tempfile::Builder::new().prefix("limulus-demo-").tempdir();
    let folder = folder.map_err(|error| failed(format!("no temporary folder: {error}")))?;
    let checks = play(folder.path(), args.json)?;
    let bad = checks.iter().filter(|check| !check.holds).count();
    if args.json {
        print(&json_line(&json!({ "passed": checks.len() - bad, "failed": bad, "checks": checks })))?;
    } else {
        print(&worded("\nwhat the journal and the file say\n"))?;
        for check in &checks {
            let (what, found) = (word(check.what), word(&check.found));
            print(&format!("  {} {what}: {found}\n", if check.holds { "✓" } else { "✗" }))?;
        }
    }
    if args.keep || bad > 0 {
        say!("kept: {}", folder.keep().display());
    }
    match bad {
        0 => {
            say!("green: killed twice, nothing lost, nothing done twice");
            Ok(())
        }
        bad => Err(failed(format!("{bad} of {} checks do not hold", checks.len()))),
    }
}

/// Plays both scenes in one home, then runs every check.
fn play(folder: &Path, quiet: bool) -> Result<Vec<Check>, CliError> {
    let stage = Stage::set(folder, quiet).map_err(|error| failed(error.to_string()))?;
    let tool = stage.kill_in_a_tool()?;
    let answer = stage.kill_in_an_answer()?;
    proof::checks(&stage, &tool, &answer)
}

fn failed(what: String) -> CliError {
    CliError::Failed { exit: Exit::RunFailed, what, hint: "run it again with --keep and look into the folder".into() }
}
