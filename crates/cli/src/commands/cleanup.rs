//! `limulus sessions cleanup`: counts or erases old content.

use clap::Args;
use config::{FlagValues, Globals, size};
use gateway::methods::{before, states};
use journal::{Collected, Old, Reader};
use protocol::Client;
use protocol::method::{CleanedUp, CleanupParams, SessionsCleanup};
use serde_json::json as object;

use super::change::change;
use crate::args::WriterArgs;
use crate::deprecation;
use crate::error::{CliError, Exit};
use crate::show::human::now;
use crate::show::{json, print, worded};

/// Erase old texts and outputs that no session needs; without --enforce, only count them.
#[derive(Debug, Args)]
#[command(
    after_help = "It keeps the conversations of sessions that were not ended, what lists show, settings, prompts, \
                        and every entry of the audit log. If retention.keep_days is set, `limulus serve` does the \
                        same once a day."
)]
pub(crate) struct CleanupArgs {
    /// Erase them, instead of only counting them
    #[arg(long)]
    enforce: bool,
    /// Choose what is older than this many days [default: retention.keep_days]
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(0..=100_000))]
    days: Option<u32>,
    #[command(flatten)]
    writer: WriterArgs,
}

impl CleanupArgs {
    /// Whether the command erases, so that it needs the owner.
    pub(crate) fn writes(&self) -> bool {
        self.enforce
    }

    /// The number of days to keep.
    fn days(&self, globals: &Globals) -> Result<u32, CliError> {
        let config = deprecation::load(globals, FlagValues::default())?;
        self.days.or(config.keep_days()).ok_or_else(|| CliError::Refused {
            exit: Exit::Usage,
            what: "nothing is old: `retention.keep_days` is off, so everything is kept".to_owned(),
            hint: "give the number of days to keep: --days N".to_owned(),
        })
    }
}

/// Prints what would be erased.
pub(crate) fn read(args: &CleanupArgs, globals: &Globals) -> Result<(), CliError> {
    let (days, reader) = (args.days(globals)?, Reader::open(&globals.home)?);
    let before = before(now(), days);
    let Collected { bodies, bytes, .. } = reader.erasable(&Old { before, states: &states(&reader)? })?;
    say(args, days, &CleanedUp { bodies, bytes })
}

/// Erases old content; the owner does it if there is one.
pub(crate) async fn write(args: &CleanupArgs, globals: &Globals) -> Result<(), CliError> {
    let days = args.days(globals)?;
    // An owner would create a journal only to find nothing in it.
    Reader::open(&globals.home)?;
    let call = async |client: &Client| client.call::<SessionsCleanup>(CleanupParams { days }).await;
    say(args, days, &change(globals, &args.writer, call).await?)
}

fn say(args: &CleanupArgs, days: u32, found: &CleanedUp) -> Result<(), CliError> {
    let CleanedUp { bodies, bytes } = *found;
    if args.writer.json {
        return print(&json(&object!({ "days": days, "enforced": args.enforce, "bodies": bodies, "bytes": bytes })));
    }
    let texts = if bodies == 1 { "1 text or output".to_owned() } else { format!("{bodies} texts and outputs") };
    let (bytes, done) = (size(bytes), if args.enforce { "erased" } else { "to be erased with --enforce" });
    print(&worded(format!("{texts} of over {days} days ago ({bytes}): {done}\n")))
}
