//! A message on its way: sent to the owner of the home, and followed to the end of the run that answers it.

use std::path::{Path, PathBuf};

use client::is_gone;
use engine::tables::lifecycle::LifecycleKind;
use engine::{MessageId, Outcome, QueueMode, ReceiptState, RunId, WaitFor};
use journal::Reader;
use protocol::Event;
use protocol::event::{LifecycleLine, QueueLine, RunEnd, StateLine, Stream};
use protocol::method::{AbortParams, Agent, AgentAnswer, AgentParams, Ended};

use super::agent::{Ending, never_began};
use super::budget::{self, Awaited};
use super::follower::{Follower, Happening, can_approve};
use super::given::denied_before;
use super::message::{refuse_again, was_refused};
use super::paused::Pauses;
use crate::error::{CliError, Exit, failed};
use crate::render::Screen;

/// A sent message and what is known about it.
#[derive(Debug, Default)]
pub(super) struct Sent {
    /// Its run, once the message is accepted.
    pub(super) run: Option<RunId>,
    /// The run with which this command leaves, as far as the owner in this process knows.
    leaves_with: Option<RunId>,
    /// Whether it was sent to an owner, which may have taken it.
    was_offered: bool,
    /// Its id, if another run may take it over.
    pub(super) steers: Option<MessageId>,
    /// Ends of runs that arrived before the acceptance.
    ended: Vec<(RunId, RunEnd)>,
    /// Why its session needs a human, and what helps, if that arrived before the acceptance.
    held: Option<Held>,
    /// The run of which a line has said last that it waits for a larger budget.
    waits: Option<RunId>,
    /// The folder of the home.
    home: PathBuf,
    /// Its journal, from the first look at it until the owner changes.
    journal: Option<Reader>,
    /// Whether its run may stop before a call.
    pub(super) stops: bool,
    /// The pauses of its session.
    pauses: Pauses,
    /// The run that was paused before the message was sent.
    pub(super) paused_before: Option<RunId>,
    /// Whether this process owns the home, and so executes what the message waits for.
    is_owner: bool,
}

/// The journal of this home, which is opened once: a command that has just begun looks several times.
fn look<'a>(journal: &'a mut Option<Reader>, home: &Path) -> Result<&'a Reader, CliError> {
    match journal {
        Some(journal) => Ok(journal),
        closed => Ok(closed.insert(Reader::open(home)?)),
    }
}

/// A session that needs a human since a run of it has failed.
#[derive(Debug)]
struct Held {
    run: Option<RunId>,
    why: String,
    remedy: Option<String>,
}

impl Sent {
    /// A message to the session of this key.
    pub(super) fn to(key: &str, home: &Path) -> Self {
        Self { home: home.to_owned(), pauses: Pauses::of(key.to_owned()), ..Self::default() }
    }

    /// The journal of the home.
    pub(super) fn journal(&mut self) -> Result<&Reader, CliError> {
        look(&mut self.journal, &self.home)
    }

    /// The owner of the home has changed, and the journal may be another file.
    pub(super) fn owner_changed(&mut self) {
        self.journal = None;
    }

    /// Sends the message under its key and follows its run to the end. None if the owner went away.
    pub(super) async fn follow(
        &mut self,
        follower: &mut Follower<'_>,
        params: &AgentParams,
    ) -> Result<Option<Ending>, CliError> {
        let is_known = self.run.is_some();
        self.is_owner = follower.is_owner();
        if self.was_offered && !is_known {
            refuse_again(&params.message)?;
        }
        let mut answers = match follower.client().ask::<Agent>(params.clone()) {
            Ok(answers) => answers,
            Err(error) if is_gone(&error) => return Ok(None),
            Err(error) => return Err(failed(error)),
        };
        self.was_offered = true;
        let mut has_answered = false;
        loop {
            self.leave_with_its_run(follower);
            // The response first: it says how much of the lines is shown that come after it.
            let answer = tokio::select! {
                biased;
                answer = answers.next(), if !has_answered => answer,
                happening = follower.next() => {
                    match happening? {
                        Happening::Recorded(event) => {
                            if let Some((run, end)) = self.see(&event, &mut follower.screen)? {
                                return Ok(Some(Ending::Run(run, end)));
                            }
                        }
                        Happening::Interrupt => follower.abort(self.abort(&params.session_key)),
                        Happening::Gone => return Ok(None),
                    }
                    continue;
                }
            };
            if let Ok(AgentAnswer::Accepted { verbose, .. }) = &answer {
                follower.screen.set_verbose(*verbose);
            }
            // Lines that came before the response are drawn before it counts.
            while let Some(event) = follower.next_arrived() {
                if let Some((run, end)) = self.see(&event, &mut follower.screen)? {
                    return Ok(Some(Ending::Run(run, end)));
                }
            }
            match answer {
                Ok(AgentAnswer::Accepted { run_id, message, mode, .. }) => {
                    self.run = Some(run_id);
                    // A message with a followup leg is answered by that leg.
                    self.steers = Some(message).filter(|_| mode != QueueMode::SteerBacklog);
                    let is_its_own = RunId::from(message) == run_id;
                    if let Some(ending) =
                        self.accepted(follower, &params.session_key, (run_id, is_its_own), mode).await?
                    {
                        return Ok(Some(ending));
                    }
                }
                Ok(AgentAnswer::Command { text }) => return Ok(Some(Ending::Command(text))),
                // The missed lines contain its last line.
                Ok(_) if is_known => has_answered = true,
                Ok(AgentAnswer::Ok(ended) | AgentAnswer::Error(ended) | AgentAnswer::Timeout(ended)) => {
                    let (run, end) = answered_before(follower, &params.session_key, ended);
                    if denied_before(&self.home, run)? {
                        follower.note_denied(run);
                    }
                    return Ok(Some(Ending::Run(run, end)));
                }
                Err(error) if follower.may_retry(&error) => {
                    self.was_offered = !was_refused(&error);
                    return Ok(None);
                }
                Err(error) => return Err(failed(error)),
            }
        }
    }

    /// What is already known of its run when the message is accepted: its end, or why it does not come.
    async fn accepted(
        &mut self,
        follower: &mut Follower<'_>,
        key: &str,
        (run, is_its_own): (RunId, bool),
        mode: QueueMode,
    ) -> Result<Option<Ending>, CliError> {
        // Where nobody can be asked, nobody raises a limit either.
        if mode != QueueMode::Interrupt
            && !can_approve()
            && let Some(awaited) = budget::awaited(follower.client(), key).await
        {
            // Its run has begun and stopped before the response came here, and the line that says so may follow.
            if is_its_own && self.waits != Some(run) {
                follower.screen.say(&awaited.line());
            }
            return Err(awaited.error(key));
        }
        if let Some(held) = self.held.take() {
            return Err(held.of(run));
        }
        // Its run may have stopped before this command began.
        self.must_go_on(&mut follower.screen)?;
        let Some(at) = self.ended.iter().position(|(ended, _)| *ended == run) else { return Ok(None) };
        let (run, end) = self.ended.swap_remove(at);
        Ok(Some(Ending::Run(run, end)))
    }

    /// Follows its run to the end. None if the owner went away.
    pub(super) async fn wait(
        &mut self,
        follower: &mut Follower<'_>,
        key: &str,
    ) -> Result<Option<(RunId, RunEnd)>, CliError> {
        self.is_owner = follower.is_owner();
        loop {
            self.leave_with_its_run(follower);
            match follower.next().await? {
                Happening::Recorded(event) => {
                    if let Some(end) = self.see(&event, &mut follower.screen)? {
                        return Ok(Some(end));
                    }
                }
                Happening::Interrupt => follower.abort(self.abort(key)),
                Happening::Gone => return Ok(None),
            }
        }
    }

    /// The end of its run, if this line is that end.
    fn see(&mut self, event: &Event, screen: &mut Screen) -> Result<Option<(RunId, RunEnd)>, CliError> {
        if let Some((run, state)) = self.run.and_then(|run| Some((run, event.never_began(run)?))) {
            return Ok(never_began(state).map(|end| (run, end)));
        }
        if let (Some(run), Some(end)) = (event.run, event.run_end()) {
            if self.run == Some(run) {
                return Ok(Some((run, end.clone())));
            }
            self.ended.push((run, end.clone()));
        }
        if let Stream::Queue(QueueLine::Settled { message, taken_by: Some(run), state, .. }) = &event.what
            && self.steers == Some(*message)
            && matches!(state, ReceiptState::Steered | ReceiptState::Merged)
        {
            self.run = Some(*run);
        }
        if matches!(&event.what, Stream::State(StateLine::Waiting { on: WaitFor::Budget, .. })) {
            self.waits = event.run;
        }
        if let Stream::State(StateLine::Waiting { on: WaitFor::Budget, budget: Some(budget), .. }) = &event.what
            && (self.run.is_some() && self.run == event.run && !can_approve())
            && let Some(awaited) = budget.as_limit().and_then(|limit| Awaited::of(&event.session, &limit))
        {
            return Err(awaited.error(&event.session));
        }
        match &event.what {
            Stream::State(StateLine::Changed { lifecycle: LifecycleKind::Suspended, .. }) => {
                self.must_go_on(screen)?;
            }
            Stream::State(StateLine::Changed { .. }) => {
                self.pauses.over();
                self.paused_before = None;
            }
            _ => {}
        }
        if let Stream::State(StateLine::Lifecycle { reason, remedy, .. }) = &event.what {
            let held = reason.clone().map(|why| Held { run: event.run, why, remedy: remedy.clone() });
            // Before the response nobody knows whether the message is recorded; the response says so.
            match (self.run, held) {
                (Some(run), Some(held)) => return Err(held.of(run)),
                (_, held) => self.held = held,
            }
        }
        Ok(None)
    }

    /// Returns an error if its run has stopped where its message says, or if a breakpoint has stopped whatever this process
    /// executes for it. Any other pause is waited for: it is said how the paused run goes on.
    fn must_go_on(&mut self, screen: &mut Screen) -> Result<(), CliError> {
        let Some(run) = self.run else { return Ok(()) };
        let Some(paused) = self.pauses.news(look(&mut self.journal, &self.home)?)? else { return Ok(()) };
        let (is_its_own, is_new) = (paused.run == run, self.paused_before != Some(paused.run));
        if paused.is_at_breakpoint() && (is_its_own && self.stops || self.is_owner && is_new) {
            if !is_its_own {
                screen.say("… the message is recorded and follows when that run has ended");
            }
            return Err(paused.stopped());
        }
        screen.waits(&paused.note(), &paused.wait_line());
        Ok(())
    }

    /// This command leaves when its run has ended, which may be another one than before.
    fn leave_with_its_run(&mut self, follower: &Follower<'_>) {
        if self.leaves_with != self.run
            && let Some(run) = self.run
        {
            follower.hold_runs_after(run);
            self.leaves_with = self.run;
        }
    }

    /// The run that Ctrl-C ends: its own, or the one that the message waits for.
    fn abort(&self, key: &str) -> AbortParams {
        match self.run {
            Some(run) => AbortParams { run: Some(run.to_string()), ..AbortParams::default() },
            None => AbortParams { session: Some(key.to_owned()), ..AbortParams::default() },
        }
    }
}

impl Held {
    /// The error of a message that is recorded and has this run.
    fn of(self, run: RunId) -> CliError {
        let Self { run: other, why, remedy } = self;
        let is_other = other.is_some_and(|other| other != run);
        let what = if is_other { format!("{why}; the message is recorded and waits for that") } else { why };
        CliError::Refused { exit: Exit::Refused, what, hint: remedy.unwrap_or_default() }
    }
}

/// Prints the answer of a run that had ended before the same key was sent again.
fn answered_before(follower: &mut Follower<'_>, key: &str, ended: Ended) -> (RunId, RunEnd) {
    let Ended { run_id, outcome, ended_at, text, usage, error, stop_reason, .. } = ended;
    let end = RunEnd { outcome, text, usage, error, stop_reason, category: None, checkpoint: None };
    let line = match outcome {
        Outcome::Completed => LifecycleLine::End(end.clone()),
        _ => LifecycleLine::Error(end.clone()),
    };
    follower.screen.say(&format!("run {run_id} answered this key before"));
    follower.screen.draw_again(&Event {
        cursor: follower.cursor(key),
        session: key.to_owned(),
        run: Some(run_id),
        at: ended_at,
        what: Stream::Lifecycle(line),
        queue: vec![],
    });
    (run_id, end)
}
