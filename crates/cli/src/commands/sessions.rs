//! `limulus sessions list`, `sessions show` and `sessions context`. `end` and `compact` hold the writing commands.

mod delete;
mod export;
mod label;
mod list;

use clap::{Args, Subcommand};
use config::Globals;
use engine::Flags;
use protocol::event::PlanStep;
use protocol::method::{ContextParams, SessionParams, SessionsContext, SessionsShow};
use protocol::show::{ContextStory, ItemStory, ProcessStory, Role, Shown};
use views::name;

use super::cleanup::CleanupArgs;
use super::compact::CompactArgs;
use super::end::EndArgs;
use crate::error::CliError;
use crate::language::word;
use crate::reading::ask;
use crate::render::plan_lines;
use crate::show::choice::SessionChoice;
use crate::show::human::{Page, Zone, columns, count, excerpt, heading, next_recovery, resources};
use crate::show::{json, print, worded};
use crate::unnamed::SessionArgument;
use delete::DeleteArgs;
use export::ExportArgs;
use label::{ArchiveArgs, RenameArgs};
use list::ListArgs;

/// List, show, compact, clean up and end conversations.
#[derive(Debug, Args)]
pub(crate) struct SessionsArgs {
    #[command(subcommand)]
    command: SessionsCommand,
}

impl SessionsArgs {
    /// Where it has its session; none if it needs none.
    pub(crate) fn session(&mut self) -> Option<SessionArgument<'_>> {
        match &mut self.command {
            SessionsCommand::Show { choice, .. } | SessionsCommand::Context { choice, .. } => Some(choice.session()),
            SessionsCommand::Compact(args) => Some(args.choice.session()),
            SessionsCommand::Export(args) => Some(args.choice.session()),
            SessionsCommand::End(args) => Some(args.name.session()),
            SessionsCommand::Archive(args) => Some(args.name.session()),
            SessionsCommand::Delete(args) => Some(args.name.session()),
            SessionsCommand::Rename(args) => args.session(),
            SessionsCommand::List(_) | SessionsCommand::Cleanup(_) => None,
        }
    }

    /// The arguments of a writing command, if it is one.
    pub(crate) fn writing(self) -> Result<Writing, Self> {
        match self.command {
            SessionsCommand::End(end) => Ok(Writing::End(end)),
            SessionsCommand::Compact(compact) => Ok(Writing::Compact(compact)),
            SessionsCommand::Rename(args) => Ok(Writing::Rename(args)),
            SessionsCommand::Archive(args) => Ok(Writing::Archive(args)),
            SessionsCommand::Delete(args) => Ok(Writing::Delete(args)),
            SessionsCommand::Cleanup(cleanup) if cleanup.writes() => Ok(Writing::Cleanup(cleanup)),
            command => Err(Self { command }),
        }
    }
}

/// The commands that write.
pub(crate) enum Writing {
    End(EndArgs),
    Compact(CompactArgs),
    Cleanup(CleanupArgs),
    Rename(RenameArgs),
    Archive(ArchiveArgs),
    Delete(DeleteArgs),
}

#[derive(Debug, Subcommand)]
enum SessionsCommand {
    /// List the sessions by their last activity: title, folder, messages, cost, state, age
    List(ListArgs),
    /// Show a session: its conversation, its background processes, its queue, its run
    Show {
        #[command(flatten)]
        choice: SessionChoice,
        /// Print one JSON object with the whole texts
        #[arg(long)]
        json: bool,
    },
    /// Show what the model receives: every part of the next request, with its estimated tokens
    Context {
        #[command(flatten)]
        choice: SessionChoice,
        /// Show what the last summary replaced instead
        #[arg(long)]
        dropped: bool,
        /// Print one JSON object with the whole texts
        #[arg(long)]
        json: bool,
    },
    /// Write the conversation of a session as Markdown or JSON
    Export(ExportArgs),
    /// Give a session a title
    Rename(RenameArgs),
    /// Hide a session from the list until its next message
    Archive(ArchiveArgs),
    /// Delete the conversation of a session: erase all of its texts and outputs, and what was kept of its files
    Delete(DeleteArgs),
    /// Compact the history of a session: a summary replaces all but its newest part; the journal keeps the original
    Compact(CompactArgs),
    /// Erase old texts and outputs that no session needs; without --enforce, only count them
    Cleanup(CleanupArgs),
    /// End a session permanently: its run, its queue, its background processes; the conversation stays readable
    End(EndArgs),
}

/// Runs a command of this folder that writes.
pub(crate) async fn write(command: Writing, globals: &Globals) -> Result<(), CliError> {
    match command {
        Writing::End(args) => super::end::run(args, globals).await,
        Writing::Compact(args) => super::compact::run(args, globals).await,
        Writing::Cleanup(args) => super::cleanup::write(&args, globals).await,
        Writing::Rename(args) => label::rename(args, globals).await,
        Writing::Archive(args) => label::archive(args, globals).await,
        Writing::Delete(args) => delete::run(args, globals).await,
    }
}

pub(crate) fn run(args: SessionsArgs, globals: &Globals) -> Result<(), CliError> {
    let zone = Zone::local();
    print(&match args.command {
        SessionsCommand::List(args) => list::read(&args, globals)?,
        SessionsCommand::Show { choice: SessionChoice { key, .. }, json: as_json } => {
            let session = ask::<SessionsShow>(globals, SessionParams { session_key: key, ..SessionParams::default() })?;
            if as_json { json(&session) } else { lay_out(&session, &zone) }
        }
        SessionsCommand::Context { choice: SessionChoice { key, .. }, dropped, json: as_json } => {
            let context = ask::<SessionsContext>(globals, ContextParams { session_key: key, dropped })?;
            if as_json { json(&context) } else { lay_out_context(&context, dropped) }
        }
        SessionsCommand::Cleanup(args) => return super::cleanup::read(&args, globals),
        SessionsCommand::Export(args) => return export::run(&args, globals),
        SessionsCommand::End(_)
        | SessionsCommand::Compact(_)
        | SessionsCommand::Rename(_)
        | SessionsCommand::Archive(_)
        | SessionsCommand::Delete(_) => {
            return Err(CliError::bug("a command that writes was taken for one that reads"));
        }
    })
}

/// A line for each part, and their total.
fn lay_out_context(context: &ContextStory, dropped: bool) -> String {
    let heading = heading(["TOKENS", "ENTRY", "PART", "TEXT"]);
    let rows = context.parts.iter().map(|part| {
        let seq = part.seq.map(|seq| seq.to_string()).unwrap_or_default();
        let text = match (&part.file, &part.name) {
            (Some(of), _) | (None, Some(of)) => format!("{of}: {}", part.text),
            (None, None) => part.text.clone(),
        };
        [part.tokens.to_string(), seq, word(name(&part.what)), excerpt(&text, 90)]
    });
    let table = columns(&std::iter::once(heading).chain(rows).collect::<Vec<_>>());
    if dropped {
        let tokens: u64 = context.parts.iter().map(|part| part.tokens).sum();
        let items = count(context.parts.len(), "item");
        return table + &worded(format!("\na summary replaces these {items}, about {tokens} tokens\n"));
    }
    let model = context.model.as_ref().map(|model| format!(" to {model}")).unwrap_or_default();
    let counted =
        context.counted.map(|counted| format!("; the provider counted {counted} in the last one")).unwrap_or_default();
    let bounds = context.window.zip(context.threshold).map(|(window, threshold)| {
        format!(
            "its window holds {window}; Limulus compacts the history if a request would hold more than {threshold}\n"
        )
    });
    let tokens = context.tokens;
    let left_out = if context.left_out > 0 {
        let items = count(context.left_out as usize, "older item");
        format!("it leaves out {items}: `history_turns` of the agent allows no more turns\n")
    } else {
        String::new()
    };
    let bounds = bounds.unwrap_or_default();
    let sum = format!("\nthe next request{model} holds about {tokens} tokens{counted}\n{left_out}{bounds}");
    table + &worded(sum)
}

fn lay_out(session: &Shown, zone: &Zone) -> String {
    let mut page = Page::default();
    page.line(format!(
        "{} is {}, its run {}{}",
        session.key,
        session.lifecycle,
        session.run_state,
        flags(session.flags)
    ));
    let last = session.last_outcome.map(|outcome| format!("its last run: {}; ", outcome.name())).unwrap_or_default();
    page.line(format!("  {last}{}", resources(&session.resources)));
    if let Some(trouble) = &session.trouble {
        page.indented("  trouble: ", trouble);
    }
    if let Some(next) = &session.next_recovery {
        page.line(format!("  {}", next_recovery(next, zone)));
    }
    if let Some(at) = &session.removed_to {
        page.line(format!("the entries up to {at} were removed; their content comes from the snapshot at that entry"));
    }
    for item in session.transcript.iter().flatten() {
        lay_out_item(&mut page, item);
    }
    if let Some(run) = session.run.as_ref().filter(|run| !run.open_text.is_empty()) {
        page.line("\nassistant, still streaming");
        page.indented("  ", &run.open_text);
    }
    lay_out_plan(&mut page, session.plan.as_deref().unwrap_or_default());
    lay_out_processes(&mut page, session.processes.as_deref().unwrap_or_default(), zone);
    if !session.queue.is_empty() {
        page.line(format!("\n{} queued", count(session.queue.len(), "message")));
        for queued in &session.queue {
            let at = zone.time(queued.summary.accepted_at);
            page.line_as_it_is(format!("  {at}  {}", excerpt(&queued.text, 100)));
        }
    }
    if let Some(run) = session.run.as_ref().map(|run| &run.summary) {
        let (run, status) = (run.run, run.status());
        page.line(format!("\nrun {run} is {status}; `limulus runs show {run}` shows it"));
    }
    page.text()
}

fn lay_out_plan(page: &mut Page, steps: &[PlanStep]) {
    if !steps.is_empty() {
        page.line("\nplan");
    }
    for (mark, step) in plan_lines(steps) {
        page.line_as_it_is(format!("  {mark} {step}"));
    }
}

fn lay_out_processes(page: &mut Page, processes: &[ProcessStory], zone: &Zone) {
    if !processes.is_empty() {
        page.line("\nin the background");
    }
    for process in processes {
        let how = process.how.as_ref().map(|how| format!(": {how}")).unwrap_or_default();
        let (from, until) = (zone.time(process.started_at), zone.time(process.until));
        let times =
            if process.outcome.is_none() { format!("since {from}, until {until}") } else { format!("began {from}") };
        let (state, times) = (word(process.state.name()), word(times));
        page.line_as_it_is(format!("  {} {state}{how}, {times}  {}", process.id, excerpt(&process.command, 100)));
    }
}

/// The flags that are set, in brackets.
fn flags(flags: Flags) -> String {
    let flags = serde_json::to_value(flags).expect("flags are plain data");
    let set = flags.as_object().into_iter().flatten().filter(|(_, on)| on.as_bool() == Some(true));
    let set: Vec<&str> = set.map(|(flag, _)| flag.as_str()).collect();
    if set.is_empty() { String::new() } else { format!(" ({})", set.join(", ")) }
}

fn lay_out_item(page: &mut Page, item: &ItemStory) {
    let at = item.seq.map(|seq| format!(" @{seq}")).unwrap_or_default();
    page.line_as_it_is(format!("\n{}{at}", word(name(&item.role))));
    match item.role {
        // The model reads the whole text, a person seldom does.
        Role::Tool => page.line_as_it_is(format!("  {}", excerpt(&item.text, 200))),
        Role::User | Role::Assistant | Role::Summary | Role::Note => page.indented("  ", &item.text),
    }
    for file in &item.attachments {
        let (name, kind) = (excerpt(&file.name, 60), excerpt(&file.media_type, 40));
        page.line_as_it_is(format!("  + {name} ({kind}, {})", tools::size(file.bytes)));
    }
    for call in &item.calls {
        page.line_as_it_is(format!("  → {} {}", excerpt(&call.tool, 40), excerpt(&call.arguments, 120)));
    }
}

#[cfg(test)]
mod tests {
    use gateway::methods::reading::Reads as _;
    use views::Source;
    use views::scene::Scene;

    use super::*;

    #[test]
    fn a_conversation_is_shown_with_what_is_still_streaming() {
        let mut scene = Scene::new();
        scene.start("list it");
        scene.call("ls", "{}");
        scene.end_stream();
        scene.allow_and_start();
        scene.settle("a.txt\nb.txt");
        scene.stream("Two \u{1b}[2Jfiles");
        scene.message("and then?");
        let session = SessionsShow::read(&Source::of(&scene.journal), SessionParams::default()).unwrap();
        insta::assert_snapshot!(lay_out(&session, &Zone::utc()));
    }
}
