//! `limulus resume`: resumes unfinished runs and waits until each has ended or waits for a human.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use clap::Args;
use client::{HOME, is_gone};
use config::Globals;
use engine::tables::lifecycle::LifecycleKind;
use engine::tables::transitions::RunState;
use engine::{Delivery, DeliveryState, Lifecycle, Phase, RunId, Session, SessionRow, WaitFor};
use journal::{Read, Reader, Sqlite};
use protocol::event::{DeliveryLine, StateLine, Stream};
use protocol::method::{AbortParams, NoParams, ResumeParams, RunsRecord, SessionsResume, StatusGet, SubscribeParams};
use protocol::{ClientError, Event};
use views::events::StreamPosition;
use views::fold_branch;
use views::{SessionKey, printable_line};

use super::conversation::last_of_folder;
use super::ends::Ends;
use super::follower::{End, Follower, Happening, can_approve};
use super::paused::PausedRun;
use super::{background, budget};
use crate::args::{AnswerArgs, WriterArgs};
use crate::deprecation;
use crate::error::{CliError, Exit, failed};
use crate::output::say;
use crate::prompt;
use crate::render::{Screen, set_markdown};
use crate::show::choice::SessionFilter;
use crate::show::human::{Zone, now, session_name};

/// Resume unfinished runs: of one session, or of all.
#[derive(Debug, Args)]
pub(crate) struct ResumeArgs {
    #[command(flatten)]
    pub(crate) choice: SessionFilter,
    /// Repair a session that needs a human, and resume its run
    #[arg(long, requires = "SessionFilter")]
    force: bool,
    /// Show the output of every call, as display.verbose does
    #[arg(short, long)]
    verbose: bool,
    #[command(flatten)]
    pub(crate) answers: AnswerArgs,
    #[command(flatten)]
    pub(crate) writer: WriterArgs,
}

pub(crate) async fn run(args: ResumeArgs, globals: &Globals) -> Result<(), CliError> {
    set_markdown(args.answers.markdown);
    let key = args.choice.key.as_deref().map(|key| SessionKey::parse(Some(key))).transpose()?;
    let config = Arc::new(deprecation::load(globals, args.writer.flags())?);
    // Do not create a home only to resume nothing.
    let reader = match Reader::open(&globals.home) {
        // This is the command that other commands name for it.
        Err(journal::Error::Older { .. }) => {
            drop(Sqlite::own(&globals.home)?);
            Reader::open(&globals.home)?
        }
        reader => reader?,
    };
    let open = rows(&reader, key.as_ref())?;
    let sessions = if key.is_some() { 1 } else { open.len() };
    let begin = Begin::before(&reader, &open)?;
    // An owner may continue them meanwhile: ends after this position are reported, earlier ones are not awaited.
    let known: BTreeSet<_> = open.iter().map(|row| row.session).collect();
    let rows: Vec<_> = rows(&reader, key.as_ref())?.into_iter().filter(|row| known.contains(&row.session)).collect();
    let mut follower = Follower::open(globals, config, &args.writer, sessions).await?;
    if args.verbose {
        follower.screen.show_detail();
    }
    if background::has_unrecorded(&globals.home) {
        record(&mut follower).await?;
    }
    let is_all = args.choice.key.is_none();
    let params = ResumeParams { session_key: args.choice.key, force: args.force };
    let taken = resume(&mut follower, &reader, &rows, params, begin).await;
    let closed = follower.close(End::of(&taken)).await;
    taken.and(closed)?;
    if is_all && rows.is_empty() && !args.writer.json {
        return offer((args.answers, args.writer), globals).await;
    }
    Ok(())
}

/// Has recorded what background commands changed that ended while nobody owned the home.
async fn record(follower: &mut Follower<'_>) -> Result<(), CliError> {
    // An owner that goes away meanwhile leaves it to the next one.
    let Some(recorded) = follower.ask::<RunsRecord>(NoParams {}).await? else { return Ok(()) };
    for key in recorded.session_keys {
        let name = printable_line(session_name(&key)).into_owned();
        let shown = format!("`limulus diff --session {name}` shows what it changed");
        follower.screen.say(&format!("a background command of {name} has ended and is recorded; {shown}"));
    }
    Ok(())
}

/// Nothing is unfinished: offers to continue the last conversation of this folder. A terminal is asked, elsewhere the command
/// is named.
async fn offer(args: (AnswerArgs, WriterArgs), globals: &Globals) -> Result<(), CliError> {
    let Some(last) = last_of_folder(globals)?.filter(|row| row.lifecycle == LifecycleKind::Idle) else { return Ok(()) };
    let name = printable_line(session_name(&last.key)).into_owned();
    let used = Zone::local().short(last.last_activity, now());
    if !prompt::is_possible() {
        say!("the last conversation of this folder is {name}, of {used}: `limulus agent -c -m TEXT` continues it");
        return Ok(());
    }
    let question = format!(
        "the last conversation of this folder is {name}, of {used}; a message continues it, Enter or `n` does not\n"
    );
    let is_message = |text: &String| !["", "n", "no"].contains(&text.trim().to_lowercase().as_str());
    match prompt::ask(&question, "› ").filter(is_message) {
        Some(text) => super::agent::say_to(&last.key, text, args, globals).await,
        None => Ok(()),
    }
}

/// Follows a session until it is idle. The caller has followed it since before its request, so the lines of a run that has
/// ended or paused by now are still to come.
pub(super) async fn follow_one(follower: &mut Follower<'_>, reader: &Reader, key: &str) -> Result<(), CliError> {
    let rows: Vec<_> = reader.session(key)?.into_iter().collect();
    let params = ResumeParams { session_key: Some(key.to_owned()), force: false };
    resume(follower, reader, &rows, params, Begin::default()).await
}

/// The same for a session that this process only took over. It ends when another process owns the home, and Ctrl-C leaves
/// the run to the next owner.
pub(super) async fn finish_one(follower: &mut Follower<'_>, reader: &Reader, key: &str) -> Result<(), CliError> {
    let rows = rows(reader, Some(&SessionKey::parse(Some(key))?))?;
    let params = ResumeParams { session_key: Some(key.to_owned()), force: false };
    resume(follower, reader, &rows, params, Begin { is_taken_over: true, ..Begin::default() }).await
}

/// The sessions to resume, or to report to a human.
fn rows(read: &dyn Read, key: Option<&SessionKey>) -> Result<Vec<SessionRow>, CliError> {
    let rows = match key {
        Some(key) => vec![read.session(&key.to_string())?.ok_or_else(|| {
            CliError::not_found(format!("there is no session {key}"), "`limulus sessions list` shows them")
        })?],
        // From the index, without loading idle sessions.
        None => read.unfinished()?.into_iter().chain(read.held()?).collect(),
    };
    Ok(rows.into_iter().filter(is_open).collect())
}

async fn resume(
    follower: &mut Follower<'_>,
    reader: &Reader,
    rows: &[SessionRow],
    mut params: ResumeParams,
    begin: Begin,
) -> Result<(), CliError> {
    follower.start_runs();
    let paused = paused(reader, params.session_key.as_deref())?;
    if rows.is_empty() {
        return rest(follower, &paused);
    }
    if params.session_key.is_none() {
        for paused in &paused {
            follower.screen.say(&paused.note());
        }
    }
    let force = params.force;
    // Another process has tried to erase what was deleted, and does not try again.
    let has_failed =
        |row: &&SessionRow| !follower.is_owner() && row.lifecycle != LifecycleKind::Error && row.trouble.is_some();
    let not_erased: BTreeSet<String> = rows.iter().filter(has_failed).map(|row| row.key.clone()).collect();
    let is_left = |row: &SessionRow| not_erased.contains(&row.key) && row.run.is_none() && row.queued == 0;
    let (left, rows): (Vec<_>, Vec<_>) = rows.iter().cloned().partition(is_left);
    let mut later = vec![];
    for row in &rows {
        if only_delivers(reader, &row.key)? {
            let shown = session_name(&row.key);
            follower
                .screen
                .say(&format!("… what is to go out of {shown} is tried again later: `limulus deliveries list`"));
            later.push(row.key.clone());
        }
    }
    let rows: Vec<_> = rows.into_iter().filter(|row| !later.contains(&row.key)).collect();
    for row in &left {
        follower.screen.say(&format!("! {}: {}", row.key, row.trouble.as_deref().unwrap_or_default()));
    }
    let is_refused = |row: &&SessionRow| row.lifecycle == LifecycleKind::Error && !force;
    let mut following = Following {
        reader,
        busy: rows.iter().filter(|row| !is_refused(row)).map(|row| (row.key.clone(), Busy::default())).collect(),
        ends: Ends::default(),
        needs_human: rows.iter().find(is_refused).map(|row| row.key.clone()),
        begin,
        waiting: vec![],
        not_erased,
        unraised: None,
        is_leaving: false,
    };
    while !following.busy.is_empty() {
        // `reopen` continues the followed sessions; this follows those that were not followed when the owner went away.
        let is_there = match following.subscribe(follower).await {
            Ok(()) => true,
            Err(error) if is_gone(&error) => false,
            Err(error) => return Err(failed(error)),
        };
        if is_there {
            if following.follow(follower, &params).await?.is_some() {
                break;
            }
            // The first request has repaired it.
            params.force = false;
        }
        follower.reopen().await?;
        // Another process owns the home now, and executes what this one had only taken over.
        if following.begin.is_taken_over && !follower.is_owner() {
            return Ok(());
        }
    }
    if let Some(key) = following.needs_human {
        return Err(needs_human(reader, &key));
    }
    following.ends.result(reader, &mut follower.screen).await?;
    // On a terminal somebody sees it.
    following.unraised.filter(|_| !can_approve()).map_or(Ok(()), Err)
}

/// The paused runs of the session that is named, or of all.
fn paused(reader: &Reader, key: Option<&str>) -> Result<Vec<PausedRun>, CliError> {
    let rows = match key.map(|key| SessionKey::parse(Some(key))).transpose()? {
        Some(key) => reader.session(&key.to_string())?.into_iter().collect(),
        None => reader.sessions()?,
    };
    let paused = rows.iter().map(|row| PausedRun::of(reader, row).transpose());
    paused.flatten().collect()
}

/// Nothing goes on: it is said which runs are paused.
fn rest(follower: &mut Follower<'_>, paused: &[PausedRun]) -> Result<(), CliError> {
    let Some((first, others)) = paused.split_first() else {
        follower.screen.say("nothing is unfinished");
        return Ok(());
    };
    for paused in others {
        follower.screen.say(&paused.note());
    }
    Err(first.rests())
}

fn needs_human(read: &dyn Read, key: &str) -> CliError {
    CliError::Refused {
        exit: Exit::Refused,
        what: format!("session {key} needs a human{}", why(read, key)),
        hint: format!("`limulus resume {key} --force` resumes it"),
    }
}

/// The failure of a session that needs a human, as far as it is readable.
fn why(read: &dyn Read, key: &str) -> String {
    let row = read.session(key).ok().flatten();
    let session = row.and_then(|row| fold_branch(read, &row).ok());
    let Some(Lifecycle::Error { failure, .. }) = session.map(|session| session.conversation.lifecycle) else {
        return String::new();
    };
    format!(": {failure}")
}

/// Up to this many sessions are followed one by one; more are followed as the whole home.
const MOST_FOLLOWED: usize = 200;

/// The cursors after which sessions are followed.
#[derive(Debug, Default)]
struct Begin {
    home: Option<String>,
    sessions: BTreeMap<String, String>,
    /// Whether this command only took them over, and neither started nor resumes them for its user.
    is_taken_over: bool,
}

impl Begin {
    /// The current cursors of these sessions.
    fn before(read: &dyn Read, rows: &[SessionRow]) -> Result<Self, CliError> {
        if rows.len() > MOST_FOLLOWED {
            return Ok(Self { home: Some(StreamPosition::now_in_home(read)?.to_string()), ..Self::default() });
        }
        let now = |row: &SessionRow| Ok((row.key.clone(), StreamPosition::now(read, row.branch)?.to_string()));
        Ok(Self { sessions: rows.iter().map(now).collect::<Result<_, CliError>>()?, ..Self::default() })
    }
}

/// The followed sessions and their outcomes so far.
struct Following<'a> {
    reader: &'a Reader,
    busy: BTreeMap<String, Busy>,
    ends: Ends,
    needs_human: Option<String>,
    begin: Begin,
    /// The sessions that wait for a larger budget.
    waiting: Vec<String>,
    /// The sessions whose owner has failed to erase a deleted conversation: only the next one tries again.
    not_erased: BTreeSet<String>,
    /// The error for the last of them whose limit a command raises.
    unraised: Option<CliError>,
    /// Set after Ctrl-C: a session is done when its unfinished run ends.
    is_leaving: bool,
}

impl Following<'_> {
    async fn subscribe(&self, follower: &mut Follower<'_>) -> Result<(), ClientError> {
        if follower.follows_home() {
            return Ok(());
        }
        if let Some(from) = self.begin.home.clone() {
            return follower
                .follow_from(HOME, SubscribeParams { from: Some(from), ..SubscribeParams::default() })
                .await;
        }
        for key in self.busy.keys().filter(|key| follower.cursor(key).is_empty()).cloned().collect::<Vec<_>>() {
            let from = self.begin.sessions.get(&key).cloned();
            let params = SubscribeParams { session: Some(key.clone()), from, ..SubscribeParams::default() };
            follower.follow_from(&key, params).await?;
        }
        Ok(())
    }

    /// Reports until when waiting sessions wait: that line was emitted before this command followed them.
    async fn report_waits(&self, follower: &mut Follower<'_>) {
        // A failed request changes nothing: the sessions continue.
        let Ok(status) = follower.client().call::<StatusGet>(NoParams {}).await else { return };
        let zone = Zone::local();
        for unfinished in status.unfinished.iter().filter(|unfinished| self.busy.contains_key(&unfinished.key)) {
            let Some(until) = unfinished.waits_until else { continue };
            let whose = if self.busy.len() > 1 { format!("[{}] ", unfinished.key) } else { String::new() };
            let (waits_for, until) = (&unfinished.waits_for, zone.time(until));
            follower.screen.say(&format!("{whose}… waits for {waits_for}, until {until}"));
        }
    }

    /// Resumes the sessions and follows them until they are idle. None if the owner went away.
    async fn follow(&mut self, follower: &mut Follower<'_>, params: &ResumeParams) -> Result<Option<()>, CliError> {
        match follower.client().call::<SessionsResume>(params.clone()).await {
            Ok(_) => {}
            Err(error) if follower.may_retry(&error) => return Ok(None),
            Err(error) => return Err(failed(error)),
        }
        self.report_waits(follower).await;
        while !self.busy.is_empty() {
            match follower.next().await? {
                Happening::Recorded(event) => {
                    let before = self.waiting.len();
                    self.see(&event, &mut follower.screen)?;
                    for key in &self.waiting[before..] {
                        let awaited = budget::awaited(follower.client(), key).await;
                        let why =
                            awaited.as_ref().map(|awaited| format!(": {}", awaited.in_words())).unwrap_or_default();
                        follower.screen.say(&format!("session {key} waits for a larger budget{why}"));
                        self.unraised = awaited.map(|awaited| awaited.error(key)).or(self.unraised.take());
                    }
                }
                // The run is not this command's: it is left as it is, and the next owner resumes it.
                Happening::Interrupt if self.begin.is_taken_over => return Err(follower.stopped()),
                Happening::Interrupt => {
                    self.is_leaving = true;
                    for key in self.busy.keys() {
                        follower.abort(AbortParams { session: Some(key.clone()), ..AbortParams::default() });
                    }
                }
                Happening::Gone => return Ok(None),
            }
        }
        Ok(Some(()))
    }

    fn see(&mut self, event: &Event, screen: &mut Screen) -> Result<(), CliError> {
        self.ends.see(event, self.reader, screen)?;
        if self.is_leaving && event.run_end().is_some() && self.busy.remove(&event.session).is_some() {
            if self.reader.session(&event.session)?.is_some_and(|row| row.unfinished) {
                screen.say(&format!("… more waits: `limulus resume {}` continues with it", event.session));
            }
            return Ok(());
        }
        if waits_for_more(self.reader, event) && self.busy.remove(&event.session).is_some() {
            self.waiting.push(event.session.clone());
            return Ok(());
        }
        if let Stream::State(StateLine::Erased { error: Some(_) }) = event.what {
            self.not_erased.insert(event.session.clone());
        }
        let Some(lifecycle) = self.busy.get_mut(&event.session).and_then(|busy| busy.see(event)) else { return Ok(()) };
        let erases = if self.not_erased.contains(&event.session) { Erases::Failed } else { Erases::MayStill };
        // A delivery may be tried again hours later: nobody waits for that.
        if matches!(event.what, Stream::Delivery(DeliveryLine::Failed { .. }))
            && only_delivers(self.reader, &event.session)?
        {
            self.busy.remove(&event.session);
            return Ok(());
        }
        // The failure from before the repair, or the session continues despite it.
        if continues(self.reader, &event.session, lifecycle, erases)? {
            return Ok(());
        }
        if lifecycle == LifecycleKind::Suspended {
            // Somebody may have resumed it meanwhile.
            let Some(paused) = PausedRun::of_key(self.reader, &event.session)? else { return Ok(()) };
            self.ends.pause(paused);
        }
        self.busy.remove(&event.session);
        if lifecycle == LifecycleKind::Error {
            self.needs_human = Some(event.session.clone());
        }
        Ok(())
    }
}

/// Whether the session has something to resume, or to report to a human.
fn is_open(row: &SessionRow) -> bool {
    row.unfinished || row.lifecycle == LifecycleKind::Error
}

/// What is known of an erasure that a session owes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Erases {
    MayStill,
    /// Its owner has failed, and does not try again.
    Failed,
}

/// Whether a session that a line shows as idle continues: it still ends processes, or no longer needs a human. This is
/// checked again at each of its lines.
fn continues(read: &dyn Read, key: &str, idle: LifecycleKind, erases: Erases) -> Result<bool, CliError> {
    let goes_on = |row: SessionRow| match (idle, row.lifecycle) {
        // It may try again by itself, but minutes later, and a human may want to know now.
        (LifecycleKind::Error, LifecycleKind::Error) => false,
        (LifecycleKind::Error, _) => true,
        _ => row.unfinished && !(erases == Erases::Failed && row.trouble.is_some()),
    };
    Ok(read.session(key)?.is_some_and(goes_on))
}

/// Whether nothing of a session goes on but deliveries, all of which wait for their next try.
fn only_delivers(read: &dyn Read, key: &str) -> Result<bool, CliError> {
    let Some(row) = read.session(key)?.filter(|row| row.run.is_none() && row.queued == 0) else { return Ok(false) };
    let account = fold_branch(read, &row)?.account;
    let owes = account.undo.is_some() || account.erasure.is_some() || !account.pending_reports.is_empty();
    let ends = account.processes.iter().any(engine::Process::is_ending);
    let later = |delivery: &Delivery| matches!(delivery.state, DeliveryState::Waiting { until } if until > now());
    let waits = account.outbox.heads().next().is_some() && account.outbox.heads().all(later);
    Ok(row.unfinished && !owes && !ends && waits)
}

/// Whether a line shows a run that waits for a larger budget.
fn waits_for_more(read: &dyn Read, event: &Event) -> bool {
    let Stream::State(StateLine::Changed { state: RunState::Awaiting, .. }) = event.what else { return false };
    let session = read.session(&event.session).ok().flatten().and_then(|row| fold_branch(read, &row).ok());
    let run = session.as_ref().and_then(Session::run);
    run.is_some_and(|run| matches!(run.phase, Phase::Awaiting { on: WaitFor::Budget, .. }))
}

/// A session that is followed until it no longer continues by itself.
#[derive(Debug, Default)]
struct Busy {
    /// Whether a run of it has started and not ended.
    has_run: bool,
    /// The run whose end was seen last. Lines of it may follow: what other sessions learned of it.
    ended: Option<RunId>,
    idle: Option<LifecycleKind>,
}

impl Busy {
    /// Its lifecycle when nothing more follows: the end of a run is its last line.
    fn see(&mut self, event: &Event) -> Option<LifecycleKind> {
        if event.run_end().is_some() {
            (self.has_run, self.ended) = (false, event.run);
        } else if event.run.is_some() && event.run != self.ended && !matches!(event.what, Stream::Delivery(_)) {
            self.has_run = true;
        }
        if let Stream::State(StateLine::Changed { .. }) = event.what {
            self.idle = idle_lifecycle(event);
        }
        // It was interrupted in an idle session, which shows no other line.
        let ends = matches!(event.what, Stream::State(StateLine::Undone { .. } | StateLine::Erased { .. }));
        if ends || matches!(event.what, Stream::Delivery(DeliveryLine::Ended { .. } | DeliveryLine::Failed { .. })) {
            self.idle = self.idle.or(Some(LifecycleKind::Idle));
        }
        let is_over = |lifecycle: &LifecycleKind| !self.has_run || !matches!(lifecycle, LifecycleKind::Idle);
        self.idle.filter(is_over)
    }
}

/// The lifecycle, if the session no longer continues by itself.
fn idle_lifecycle(event: &Event) -> Option<LifecycleKind> {
    let Stream::State(StateLine::Changed { lifecycle, flags, .. }) = &event.what else { return None };
    let is_idle = match lifecycle {
        LifecycleKind::Ready | LifecycleKind::Idle => !flags.is_waiting,
        LifecycleKind::Suspended | LifecycleKind::Error | LifecycleKind::Terminated => true,
        LifecycleKind::Initializing | LifecycleKind::Active | LifecycleKind::Recovering => false,
    };
    is_idle.then_some(*lifecycle)
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::*;

    const RUN: &str = "01a21802-8a29-71ab-9a53-8bbebcdcbe9d";
    const NEXT: &str = "01a21802-8a29-71ab-9a53-8bbebcdcbe9e";

    fn line(run: Option<&str>, what: &Value) -> Event {
        let mut line = json!({"cursor": "1.1", "session": "agent:main:main", "run": run, "at": 1});
        line.as_object_mut().unwrap().extend(what.as_object().unwrap().clone());
        Event::of_payload(&line).unwrap()
    }

    fn changed(lifecycle: &str) -> Event {
        let flags = json!({
            "isStreaming": false, "isCompacting": false, "isWaiting": false, "isBlocked": false,
            "canInterrupt": false, "hasError": false, "needsRecovery": false
        });
        let resources = json!({
            "token_usage": 1, "token_limit": null, "token_reserved": 0, "memory_usage": null, "memory_limit": null,
            "session_bytes": 1, "created_at": 1, "started_at": 1, "last_activity_at": 1
        });
        let changed = json!({
            "stream": "state", "type": "changed", "state": "idle", "lifecycle": lifecycle, "flags": flags,
            "last_outcome": null, "can_abort": false, "resources": resources
        });
        line(None, &changed)
    }

    fn ended(run: &str) -> Event {
        let usage = json!({"input": 1, "cached": 0, "cache_written": 0, "output": 1, "reasoning": 0});
        let end = json!({
            "stream": "lifecycle", "type": "end", "outcome": "completed", "text": "yes", "usage": usage, "error": null
        });
        line(Some(run), &end)
    }

    fn reported(run: &str) -> Event {
        let reported = json!({"stream": "state", "type": "reported", "request": format!("{run}/request/1/1")});
        line(Some(run), &reported)
    }

    /// A session whose run has ended owes other sessions what it learned of a key, and is unfinished until that is recorded.
    #[test]
    fn r11_a_line_that_follows_the_end_of_a_run_begins_no_other_one() {
        let mut busy = Busy::default();
        assert_eq!(busy.see(&reported(RUN)), None);
        assert_eq!(busy.see(&changed("idle")), None, "its run has not ended");
        assert_eq!(busy.see(&ended(RUN)), Some(LifecycleKind::Idle));
        assert_eq!(busy.see(&reported(RUN)), Some(LifecycleKind::Idle), "looked at once more, not waited for");
        assert_eq!(busy.see(&reported(NEXT)), None, "another run has begun");
        assert_eq!(busy.see(&ended(NEXT)), Some(LifecycleKind::Idle));
    }
}
