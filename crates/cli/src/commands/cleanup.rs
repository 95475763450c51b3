//! `limulus sessions cleanup`: what is old, and its erasure.

use clap::Args;
use journal::{Collected, Old, Reader, Sqlite};
use serde_json::json as object;

use crate::config::{Config, Flags, Globals};
use crate::error::{CliError, Exit};
use crate::retention::{before, erase, states};
use crate::show::doctor::size;
use crate::show::{json, print};

/// Erase texts and outputs that are old and that no session needs. Says what would go, until you ask for it.
#[derive(Debug, Args)]
#[command(
    after_help = "What stays: what the conversations of sessions hold that were not ended, what lists show, settings, \
                        prompts,\nevery entry of the audit log. `limulus serve` does the same once a day, where \
                        retention.keep_days is set."
)]
pub(crate) struct CleanupArgs {
    /// Do it; else it is only said what would go
    #[arg(long)]
    enforce: bool,
    /// What is older than so many days [default: retention.keep_days]
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(0..=100_000))]
    days: Option<u32>,
    /// Print one JSON object
    #[arg(long)]
    json: bool,
}

pub(crate) fn run(args: &CleanupArgs, globals: &Globals) -> Result<(), CliError> {
    let config = Config::load(&globals.home, &globals.environment, Flags::default())?;
    let configured = Some(config.retention().keep_days).filter(|days| *days > 0);
    let Some(days) = args.days.or(configured) else {
        return Err(CliError::Refused {
            exit: Exit::Usage,
            what: "nothing is old: `retention.keep_days` is 0, so all is kept for ever".to_owned(),
            hint: "say how many days are kept: --days N".to_owned(),
        });
    };
    let collected = if args.enforce {
        erase(&Sqlite::own(&globals.home)?, before(days))?
    } else {
        let reader = Reader::open(&globals.home)?;
        reader.erasable(&Old { before: before(days), states: &states(&reader)? })?
    };
    let Collected { bodies, bytes, .. } = collected;
    if args.json {
        return print(&json(&object!({ "days": days, "enforced": args.enforce, "bodies": bodies, "bytes": bytes })));
    }
    let texts = if bodies == 1 { "1 text or output".to_owned() } else { format!("{bodies} texts and outputs") };
    let (bytes, done) = (size(bytes), if args.enforce { "erased" } else { "to be erased with --enforce" });
    print(&format!("{texts} of over {days} days ago ({bytes}): {done}\n"))
}
