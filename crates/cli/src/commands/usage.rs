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
    /// Show how much of what models read came from the caches of providers, instead of the cost
    #[arg(long)]
    cache: bool,
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
    print(&if args.json { json(&story) } else { lay_out(&story, by, args.cache) })
}

fn lay_out(story: &UsageStory, by: UsageBy, of_cache: bool) -> String {
    let name = match by {
        UsageBy::Model => "MODEL",
        UsageBy::Session => "SESSION",
        UsageBy::Day => "DAY",
    };
    let (head, row): (_, fn(&UsageRow) -> [String; 6]) = if of_cache {
        (heading([name, "RUNS", "READ", "FROM CACHE", "INTO CACHE", "HIT RATE"]), cache_row)
    } else {
        (heading([name, "RUNS", "READ", "FROM CACHE", "WRITTEN", "COST"]), cost_row)
    };
    let mut all = row(&story.all);
    all[0] = word(&all[0]);
    let rows: Vec<_> = std::iter::once(head).chain(story.rows.iter().map(row)).chain([all]).collect();
    columns(&rows)
}

fn cost_row(row: &UsageRow) -> [String; 6] {
    let UsageRow { name, runs, usage, cost_micros } = row;
    let amounts = [*runs, usage.read_anew(), usage.cached, usage.output].map(|of| of.to_string());
    let [runs, read, cached, written] = amounts;
    [name.clone(), runs, read, cached, written, dollars(*cost_micros)]
}

/// The hit rate is the part of all tokens read that came from the cache.
fn cache_row(row: &UsageRow) -> [String; 6] {
    let UsageRow { name, runs, usage, .. } = row;
    let read = usage.read_anew();
    let rate = usage.cached.saturating_mul(1_000).checked_div(usage.prompt());
    let rate = rate.map_or_else(|| "-".to_owned(), |rate| format!("{}.{} %", rate / 10, rate % 10));
    let [runs, read, cached, into] = [*runs, read, usage.cached, usage.cache_written].map(|of| of.to_string());
    [name.clone(), runs, read, cached, into, rate]
}

#[cfg(test)]
mod tests {
    use engine::Usage;

    use super::*;

    /// R66: the hit rate is the part of what was read that came from the cache.
    #[test]
    fn r66_the_hit_rate_of_the_cache_is_shown() {
        let row = |input, cached, cache_written| {
            let usage = Usage { input, cached, cache_written, ..Usage::default() };
            cache_row(&UsageRow { name: "m".to_owned(), runs: 2, usage, cost_micros: 7 }).join(" ")
        };
        assert_eq!(row(50, 900, 50), "m 2 100 900 50 90.0 %");
        assert_eq!(row(2, 1, 0), "m 2 2 1 0 33.3 %");
        assert_eq!(row(0, 0, 0), "m 2 0 0 0 -");
    }
}
