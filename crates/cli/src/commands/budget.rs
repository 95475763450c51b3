//! `limulus budget`: shows and sets what a session and its run may spend.

use std::sync::Arc;

use clap::{Args, Subcommand};
use client::is_gone;
use config::Globals;
use engine::tables::transitions::RunState;
use engine::{Limit, Resource, Scope};
use journal::Reader;
use protocol::Client;
use protocol::method::{BudgetLine, BudgetSet, BudgetSetParams, BudgetShow, BudgetShowParams, BudgetStory};
use views::lookup;

use super::follower::{End, Follower};
use super::resume;
use crate::args::WriterArgs;
use crate::deprecation;
use crate::error::{CliError, Exit, failed};
use crate::language::word;
use crate::reading::ask;
use crate::show::choice::SessionChoice;
use crate::show::human::{Page, columns, dollars, heading};
use crate::show::{json, print};
use crate::unnamed::SessionArgument;

/// Show and set budgets.
#[derive(Debug, Args)]
pub(crate) struct BudgetArgs {
    #[command(subcommand)]
    command: BudgetCommand,
}

#[derive(Debug, Subcommand)]
enum BudgetCommand {
    /// Show what a session and its run have used, what is reserved and free, and their limits
    Show {
        #[command(flatten)]
        choice: SessionChoice,
        /// Print a JSON object
        #[arg(long)]
        json: bool,
    },
    /// Limit what a session, its run, or all runs of a day or of the home may spend from now on; a run that waits for a larger budget continues, in this process if no other one owns the home
    Set(SetArgs),
}

#[derive(Debug, Args)]
#[allow(clippy::struct_excessive_bools, reason = "they are flags of the command line, of which one is given at most")]
struct SetArgs {
    #[command(flatten)]
    choice: SessionChoice,
    /// Limit the unfinished run, instead of all runs of the session together
    #[arg(long)]
    run: bool,
    /// Limit all runs of the session's agent in a day (UTC)
    #[arg(long, conflicts_with = "run")]
    agent: bool,
    /// Limit all runs of the home in a day (UTC)
    #[arg(long, conflicts_with_all = ["run", "agent"])]
    day: bool,
    /// Limit all runs of the home, whenever they ran
    #[arg(long, conflicts_with_all = ["run", "agent", "day"])]
    home: bool,
    /// Limit tokens, read and written
    #[arg(long, value_name = "N|none", value_parser = whole)]
    tokens: Option<Amount>,
    /// Limit the cost in US dollars, such as 2.5
    #[arg(long, value_name = "DOLLARS|none", value_parser = money, allow_hyphen_values = true)]
    cost: Option<Amount>,
    /// Limit the number of tool calls
    #[arg(long, value_name = "N|none", value_parser = whole)]
    calls: Option<Amount>,
    /// Limit the seconds that runs are at work
    #[arg(long, value_name = "S|none", value_parser = whole)]
    wall_s: Option<Amount>,
    /// Limit the bytes of texts, outputs and images in the journal, for a run or a session
    #[arg(long, value_name = "N|none", value_parser = whole)]
    bytes: Option<Amount>,
    #[command(flatten)]
    writer: WriterArgs,
}

/// A limit; None = no limit.
#[derive(Debug, Clone, Copy)]
struct Amount(Option<u64>);

fn whole(text: &str) -> Result<Amount, String> {
    if text == "none" {
        return Ok(Amount(None));
    }
    text.parse().map(|amount| Amount(Some(amount))).map_err(|_| "give a whole number, or `none`".to_owned())
}

fn money(text: &str) -> Result<Amount, String> {
    if text == "none" {
        return Ok(Amount(None));
    }
    let dollars: Option<f64> = text.parse().ok().filter(|dollars| (0.0..=1e9).contains(dollars));
    let micros = dollars.map(|dollars| (dollars * 1e6).round() as u64);
    micros.map(|micros| Amount(Some(micros))).ok_or_else(|| "give US dollars, such as 2.5, or `none`".to_owned())
}

impl BudgetArgs {
    /// Where it has its session.
    pub(crate) fn session(&mut self) -> SessionArgument<'_> {
        match &mut self.command {
            BudgetCommand::Show { choice, .. } => choice.session(),
            BudgetCommand::Set(args) => args.choice.session(),
        }
    }

    /// Whether the command writes, so that it needs the owner.
    pub(crate) fn writes(&self) -> bool {
        matches!(self.command, BudgetCommand::Set(_))
    }
}

pub(crate) fn read(args: BudgetArgs, globals: &Globals) -> Result<(), CliError> {
    let BudgetCommand::Show { choice: SessionChoice { key, .. }, json: as_json } = args.command else {
        return Err(CliError::bug("`budget` was taken for a command that reads"));
    };
    let story = ask::<BudgetShow>(globals, BudgetShowParams { session_key: key })?;
    print(&if as_json { json(&story) } else { lay_out(&story) })
}

pub(crate) async fn write(args: BudgetArgs, globals: &Globals) -> Result<(), CliError> {
    let BudgetCommand::Set(args) = args.command else {
        return Err(CliError::bug("`budget` was taken for a command that writes"));
    };
    let params = args.params()?;
    let config = Arc::new(deprecation::load(globals, args.writer.flags())?);
    let mut follower = Follower::open_to_change(globals, config, &args.writer).await?;
    let set = set(&mut follower, &args, params, globals).await;
    let closed = follower.close(End::of(&set)).await;
    set.and(closed)
}

/// Sets the limits. A run that waited for it goes on: if this process is the owner, it follows the run to its end, because no other
/// process executes it.
async fn set(
    follower: &mut Follower<'_>,
    args: &SetArgs,
    params: BudgetSetParams,
    globals: &Globals,
) -> Result<(), CliError> {
    let reader = Reader::open(&globals.home)?;
    // The request itself says if there is none.
    let row = params.session_key.as_deref().and_then(|key| lookup::session(&reader, Some(key)).ok());
    let waiting = row.filter(|row| row.run_state == RunState::Awaiting && follower.is_owner());
    if let Some(row) = &waiting {
        follower.follow(&row.key).await?;
    }
    let story = loop {
        match follower.client().call::<BudgetSet>(params.clone()).await {
            Ok(story) => break story,
            Err(error) if is_gone(&error) => follower.reopen().await?,
            Err(error) => return Err(failed(error)),
        }
    };
    print(&if args.writer.json { json(&story) } else { lay_out(&story) })?;
    match waiting.filter(|_| !story.waits && follower.is_owner()) {
        Some(row) => resume::follow_one(follower, &reader, &row.key).await,
        None => follower.finish(Some(&story.session_key)).await,
    }
}

impl SetArgs {
    fn params(&self) -> Result<BudgetSetParams, CliError> {
        let amounts = [
            (Resource::Tokens, self.tokens),
            (Resource::Cost, self.cost),
            (Resource::Calls, self.calls),
            (Resource::Wall, self.wall_s),
            (Resource::Bytes, self.bytes),
        ];
        if amounts.iter().all(|(_, amount)| amount.is_none()) {
            let hint = "name at least one of --tokens, --cost, --calls, --wall-s, --bytes";
            return Err(CliError::Usage { what: "no limit is given".to_owned(), hint: hint.to_owned() });
        }
        let lifted = |(of, amount): &(Resource, Option<Amount>)| matches!(amount, Some(Amount(None))).then_some(*of);
        let some = |amount: Option<Amount>| amount.and_then(|amount| amount.0);
        Ok(BudgetSetParams {
            session_key: self.choice.key.clone(),
            run: self.run,
            agent: self.agent,
            day: self.day,
            home: self.home,
            tokens: some(self.tokens),
            cost_micros: some(self.cost),
            calls: some(self.calls),
            wall_ms: some(self.wall_s).map(|seconds| seconds.saturating_mul(1_000)),
            bytes: some(self.bytes),
            lift: amounts.iter().filter_map(lifted).collect(),
        })
    }
}

fn lay_out(story: &BudgetStory) -> String {
    let mut page = Page::default();
    let head = heading(["SCOPE", "OF", "USED", "RESERVED", "FREE", "LIMIT"]);
    let row = |line: &BudgetLine| {
        let (scope, of) = (word(line.scope.name()), word(line.of.name()));
        let (used, reserved) = (amount(line.of, line.used), amount(line.of, line.reserved));
        let free = line.free.map_or_else(|| "-".to_owned(), |free| amount(line.of, free));
        let limit = line.limit.map_or_else(|| word("none"), |limit| amount(line.of, limit));
        [scope, of, used, reserved, free, limit]
    };
    let rows: Vec<_> = std::iter::once(head).chain(story.lines.iter().map(row)).collect();
    page.line_as_it_is(columns(&rows).trim_end());
    let key = &story.session_key;
    let is_tight =
        |line: &&BudgetLine| line.scope == Scope::Process && line.limit.is_some_and(|limit| line.used >= limit);
    if let Some(line) = story.lines.iter().find(is_tight).filter(|_| story.waits) {
        let most = line.limit.map(|limit| amount(line.of, limit)).unwrap_or_default();
        page.line(format!(
            "its run waits for others to end: the process may have {most} in memory (`budget.process.memory_mb`)"
        ));
    } else if story.waits {
        let limit = stopping(story);
        let command = limit.as_ref().and_then(|limit| raising(key, limit));
        let command = command.unwrap_or_else(|| format!("limulus budget set {key} --tokens N"));
        page.line(format!("its run waits for a larger budget: `{command}` resumes it"));
        if let Some(limit) = limit {
            page.line(limit.in_words());
        }
    }
    page.text()
}

/// The limit that stops the run; if it was raised meanwhile, the fullest. None if no command sets it.
fn stopping(story: &BudgetStory) -> Option<Limit> {
    let set_by_command = |line: &&BudgetLine| line.limit.is_some() && line.scope != Scope::Process;
    let stops = |line: &BudgetLine| line.as_limit().is_some_and(|limit| limit.is_reached());
    let fullest = story.lines.iter().filter(set_by_command).max_by_key(|line| (stops(line), share(line)));
    fullest.and_then(BudgetLine::as_limit)
}

/// The command that makes a limit twice what it is, or what the next request needs if that is more. None for a limit that no
/// command sets.
pub(crate) fn raising(key: &str, limit: &Limit) -> Option<String> {
    let needed = limit.used.saturating_add(limit.reserved).saturating_add(limit.needs);
    let amount = needed.max(limit.limit).max(1).saturating_mul(2);
    let amount = match limit.of {
        Resource::Tokens => format!("--tokens {amount}"),
        Resource::Cost => {
            format!("--cost {}", dollars(amount).trim_start_matches('$').trim_end_matches('0').trim_end_matches('.'))
        }
        Resource::Calls => format!("--calls {amount}"),
        Resource::Wall => format!("--wall-s {}", amount.div_ceil(1_000)),
        Resource::Bytes => format!("--bytes {amount}"),
        Resource::Memory => return None,
    };
    (limit.scope != Scope::Process).then(|| format!("limulus budget set {key}{} {amount}", scope_flag(limit.scope)))
}

/// What the run of a session waits for and the command that lets it go on, both in words; none if it waits for no budget that a
/// command sets, or if the owner cannot say.
pub(crate) async fn awaited(client: &Client, key: &str) -> Option<Awaited> {
    let story = client.call::<BudgetShow>(BudgetShowParams { session_key: Some(key.to_owned()) }).await.ok()?;
    stopping(&story).filter(|limit| story.waits && limit.is_reached()).and_then(|limit| Awaited::of(key, &limit))
}

/// A budget that is used up.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Awaited {
    what: String,
    command: String,
}

impl Awaited {
    pub(crate) fn of(key: &str, limit: &Limit) -> Option<Self> {
        Some(Self { what: limit.in_words(), command: raising(key, limit)? })
    }

    /// As the line that a run leaves when it begins to wait.
    pub(crate) fn line(&self) -> String {
        format!("… {}: waits for more; `{}` raises it", self.what, self.command)
    }

    /// As a note of one line.
    pub(crate) fn in_words(&self) -> String {
        format!("{}; `{}` raises it, and the run goes on", self.what, self.command)
    }

    /// As the error of a command without a terminal, where nobody would see that its run waits.
    pub(crate) fn error(&self, key: &str) -> CliError {
        CliError::Failed {
            exit: Exit::Budget,
            what: format!("{}; the run of {key} waits", self.what),
            hint: format!("`{}` raises it, and the run goes on", self.command),
        }
    }
}

/// The used part of a limit, in hundredths of a percent.
fn share(line: &BudgetLine) -> u128 {
    u128::from(line.used) * 10_000 / u128::from(line.limit.unwrap_or(1).max(1))
}

fn scope_flag(scope: Scope) -> &'static str {
    match scope {
        Scope::Run => " --run",
        // The limit of the process cannot be set by a command.
        Scope::Session | Scope::Process => "",
        Scope::Agent => " --agent",
        Scope::Day => " --day",
        Scope::Home => " --home",
    }
}

/// An amount with its unit.
fn amount(of: Resource, amount: u64) -> String {
    match of {
        Resource::Tokens | Resource::Calls | Resource::Bytes => amount.to_string(),
        Resource::Cost => dollars(amount),
        Resource::Wall => format!("{} s", amount / 1_000),
        Resource::Memory => format!("{} MiB", amount >> 20),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn r23_the_command_that_raises_a_limit_has_real_numbers() {
        let check = |scope, of, (used, reserved, limit, needs), command: Option<&str>| {
            let limit = Limit { scope, of, used, reserved, kept: None, limit, needs };
            assert_eq!(raising("main", &limit).as_deref(), command);
        };
        check(Scope::Run, Resource::Calls, (2, 0, 2, 0), Some("limulus budget set main --run --calls 4"));
        check(Scope::Run, Resource::Calls, (0, 0, 0, 0), Some("limulus budget set main --run --calls 2"));
        check(Scope::Session, Resource::Tokens, (0, 150, 3_000, 5_000), Some("limulus budget set main --tokens 10300"));
        check(
            Scope::Agent,
            Resource::Cost,
            (1_200_000, 0, 1_250_000, 0),
            Some("limulus budget set main --agent --cost 2.5"),
        );
        check(Scope::Day, Resource::Cost, (1, 0, 5_000_000, 0), Some("limulus budget set main --day --cost 10"));
        check(Scope::Home, Resource::Wall, (9_500, 0, 9_000, 0), Some("limulus budget set main --home --wall-s 19"));
        check(Scope::Session, Resource::Bytes, (7, 0, 7, 0), Some("limulus budget set main --bytes 14"));
        check(Scope::Process, Resource::Memory, (7, 0, 7, 0), None);
    }
}
