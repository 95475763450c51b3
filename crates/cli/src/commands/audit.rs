//! `limulus audit`: the audit log of a session, its verification, and its state at any entry.

use std::fmt::Write as _;

use clap::Args;
use config::Globals;
use protocol::method::{AuditParams, Audited, SessionsAudit, SessionsState, StateParams};
use protocol::show::{AuditLine, Verification};
use uuid::Uuid;

use crate::error::{CliError, Exit};
use crate::language::word;
use crate::reading::ask;
use crate::show::audit::{heading, lay_out};
use crate::show::choice::SessionChoice;
use crate::show::human::{Page, Zone};
use crate::show::{json, json_line, print};

/// Print the audit log of a session: every transition with its time and cause.
#[derive(Debug, Args)]
#[command(after_help = "A damaged entry is shown in its place; the exit code is then 65.")]
pub(crate) struct AuditArgs {
    #[command(flatten)]
    pub(crate) choice: SessionChoice,
    /// Verify it: recompute payload hashes, chains and bodies, replay the entries, and compare
    #[arg(long)]
    verify: bool,
    /// Print one JSON object for each entry
    #[arg(long)]
    json: bool,
    /// Start at this entry of the current branch
    #[arg(long, value_name = "SEQ", value_parser = crate::args::whole_from::<0>)]
    from: Option<u64>,
    /// Show this branch instead of the current one, also one that no session uses any more
    #[arg(long, value_name = "BRANCH")]
    branch: Option<Uuid>,
    /// Print the state after this entry as JSON, and nothing else
    #[arg(long, value_name = "[BRANCH@]SEQ", conflicts_with_all = ["verify", "from"])]
    state: Option<String>,
}

pub(crate) fn run(args: AuditArgs, globals: &Globals) -> Result<(), CliError> {
    let AuditArgs { choice: SessionChoice { key: session_key, .. }, verify, json: as_json, from, branch, state } = args;
    let branch = branch.map(|branch| branch.to_string());
    if let Some(at) = state {
        return print(&json(&ask::<SessionsState>(globals, StateParams { session_key, branch, at })?));
    }
    let params = AuditParams { session_key, branch, from, limit: None, verify };
    let Audited { session_key: key, lines, verified, damaged_from } = ask::<SessionsAudit>(globals, params)?;
    print(&if as_json {
        let verified = verified.iter().map(|verified| json_line(&serde_json::json!({ "verified": verified })));
        lines.iter().map(json_line).chain(verified).collect()
    } else {
        page(&key, &lines, verified.as_ref(), &Zone::local())
    })?;
    match damaged_from {
        None => Ok(()),
        Some(first) => Err(CliError::Failed {
            exit: Exit::Damaged,
            what: format!("{key} is damaged from {first} on"),
            hint: "`limulus doctor` shows what can be done".to_owned(),
        }),
    }
}

fn page(key: &str, lines: &[AuditLine], summary: Option<&Verification>, zone: &Zone) -> String {
    let mut page = Page::default();
    let mut branch = None;
    for line in lines {
        if branch != Some(line.branch) {
            let forked = if branch.is_some() { "continues in" } else { "is" };
            page.line(format!("{key} {forked} branch {}", line.branch));
            branch = Some(line.branch);
        }
    }
    let mut branch = lines.first().map(|line| line.branch);
    let mut text = page.text() + &heading();
    for line in lines {
        if branch != Some(line.branch) {
            let _ = writeln!(text, "      ─── {} ───", word(format!("branch {}", line.branch)));
            branch = Some(line.branch);
        }
        text += &lay_out(line, zone);
    }
    text + &summary.map(verdict).unwrap_or_default()
}

fn verdict(summary: &Verification) -> String {
    let mut page = Page::default();
    let mark = if summary.faults.is_empty() { '✓' } else { '✗' };
    page.line(format!(
        "\n{mark} payload hashes and chain of all entries ({}), bodies that they name ({}), the state replayed from them",
        summary.entries, summary.bodies
    ));
    if let (Some(head), Some(chain)) = (&summary.head, summary.chain) {
        page.line(format!("  chain  {chain} at {head}"));
    }
    if let Some(state) = summary.state_hash {
        page.line(format!("  state  {state}"));
    }
    for fault in &summary.faults {
        page.line(format!("  ✗ {fault}"));
    }
    page.text()
}
