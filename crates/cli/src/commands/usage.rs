//! `limulus usage`: what the runs of the home have used.

use clap::{Args, ValueEnum};
use config::Globals;
use protocol::method::{UsageBy, UsageGet, UsageParams, UsageRow, UsageStory};

use crate::error::CliError;
use crate::language::word;
use crate::reading::ask;
use crate::show::choice::SessionFilter;
use crate::show::human::{columns, dollars, heading};
use crate::show::{json, print};

/// Show what the runs of this home have used.
#[derive(Debug, Args)]
pub(crate) struct UsageArgs {
    /// Group runs by this; a run counts for the model that it ended with and the day (UTC) on which it started
    #[arg(long, value_enum, default_value_t = By::Model)]
    by: By,
    #[command(flatten)]
    pub(crate) choice: SessionFilter,
    /// Print a JSON object
    #[arg(long)]
    json: bool,
}

#[derive(Debug, Clone, Copy, ValueEnum)]
enum By {
    Day,
    Session,
    Model,
}

pub(crate) fn run(args: UsageArgs, globals: &Globals) -> Result<(), CliError> {
    let by = match args.by {
        By::Day => UsageBy::Day,
        By::Session => UsageBy::Session,
        By::Model => UsageBy::Model,
    };
    let story = ask::<UsageGet>(globals, UsageParams { by, session_key: args.choice.key, since: None })?;
    print(&if args.json { json(&story) } else { lay_out(&story, by) })
}

fn lay_out(story: &UsageStory, by: UsageBy) -> String {
    let name = match by {
        UsageBy::Model => "MODEL",
        UsageBy::Session => "SESSION",
        UsageBy::Day => "DAY",
    };
    let head = heading([name, "RUNS", "READ", "FROM CACHE", "WRITTEN", "COST"]);
    let row = |row: &UsageRow| {
        let UsageRow { name, runs, usage, cost_micros } = row;
        let amounts = [*runs, usage.input + usage.cache_written, usage.cached, usage.output].map(|of| of.to_string());
        let [runs, read, cached, written] = amounts;
        [name.clone(), runs, read, cached, written, dollars(*cost_micros)]
    };
    let mut all = row(&story.all);
    all[0] = word(&all[0]);
    let rows: Vec<_> = std::iter::once(head).chain(story.rows.iter().map(row)).chain([all]).collect();
    columns(&rows)
}
