//! `limulus models check`: sends small real requests and prints a line for each.

use config::{FlagValues, Globals, Resolved, Subject, today};
use engine::Overrides;
use serde::Serialize;

use crate::cells::cells;
use crate::deprecation;
use crate::error::{CliError, Exit};
use crate::language::word;
use crate::output::say_step;
use crate::probes::{Asker, Finding, probe};
use crate::show::human::printable;
use crate::show::{json, print};

/// The cells of what is checked.
const WHAT_CELLS: usize = 10;

/// The findings for a model.
#[derive(Debug, Serialize)]
struct Checked {
    /// `PROVIDER/MODEL`.
    model: String,
    /// The wire format, as in `providers.NAME.api`.
    api: &'static str,
    /// Whether an agent can use it.
    works: bool,
    checks: Vec<Finding>,
}

pub(super) async fn run(model: Option<String>, as_json: bool, globals: &Globals) -> Result<(), CliError> {
    let config = deprecation::load(globals, FlagValues::default())?;
    let overrides = Overrides { model, ..Overrides::default() };
    let subject =
        Subject { agent: "main", overrides: &overrides, session: runtime::SessionContext::default(), date: &today() };
    let Resolved { settings, .. } = config.resolve(subject)?;
    let candidate = settings.candidates.into_iter().next().ok_or_else(|| CliError::bug("a run without a model"))?;
    let endpoint = config.endpoint(&candidate.provider, candidate.profile.as_deref())?;
    let model = format!("{}/{}", candidate.provider, candidate.model);
    let levels = config.figures(&candidate.provider, &candidate.model).info.thinking;
    let api = endpoint.api.name();
    if !as_json {
        print(&format!("{model} ({api})\n"))?;
    }
    let mut checks = vec![];
    probe(
        &Asker::new(candidate, endpoint, levels),
        |what| say_step(&format!("… {what}")),
        |finding| {
            say_step("");
            if !as_json {
                // If stdout is closed, the exit code still reports the result.
                let _ = print(&line(&finding));
            }
            checks.push(finding);
        },
    )
    .await;
    say_step("");
    let failed = checks.iter().find(|finding| finding.is_fatal()).cloned();
    let checked = Checked { model: model.clone(), api, works: failed.is_none(), checks };
    if as_json {
        print(&json(&checked))?;
    }
    match failed {
        None => Ok(()),
        Some(finding) => Err(CliError::Failed {
            exit: Exit::RunFailed,
            what: format!("{model} cannot be used: {} fails", finding.what),
            hint: finding.hint.unwrap_or_else(|| "choose another model for agents with tools".to_owned()),
        }),
    }
}

/// `✓ tools       called ls {"path":"."} · 812 ms`.
fn line(finding: &Finding) -> String {
    let Finding { what, verdict, says, ms, .. } = finding;
    let time = if *ms == 0 { String::new() } else { format!(" · {ms} ms") };
    let what = word(*what);
    let blanks = " ".repeat(WHAT_CELLS.saturating_sub(cells(&what)));
    format!("{} {what}{blanks}  {}{time}\n", verdict.mark(), word(printable(says)))
}
