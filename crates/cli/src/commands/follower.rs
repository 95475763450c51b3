//! What the commands that follow sessions share: a screen, approval requests and signals around a subscriber, which continues
//! with the next owner after the last line that was drawn.

use std::collections::BTreeSet;
use std::path::Path;
use std::sync::Arc;
use std::task::{Context, Waker};
use std::time::Duration;

use client::{Arrival, Opening, OwnerClient, Reopened, Subscriber, is_gone};
use config::{Config, Globals};
use engine::{MessageId, NOBODY_TO_ASK, RunId};
use gateway::methods::chat_command;
use journal::{Read as _, Reader};
use protocol::event::{Stream, ToolLine};
use protocol::method::{
    AbortParams, ApprovalShown, ApprovalsResolve, HealthGet, Method, NoParams, OwnerKind, QuestionsAnswer, RunsAbort,
    SubscribeParams,
};
use protocol::{Client, ClientError, Event};
use tokio::signal::unix::{Signal, SignalKind, signal};
use tokio::sync::{mpsc, watch};
use tokio::time::{sleep, timeout};
use views::count;

use super::approvals::edited;
use super::asking::{Asking, LookedUp, Reaction, Unasked};
use super::explaining::Explaining;
use super::steering::{Steering, Step};
use crate::args::WriterArgs;
use crate::error::{CliError, Exit, failed};
use crate::keyboard;
use crate::notifier::Notifier;
use crate::opening::say_notice;
use crate::output;
use crate::prompt;
use crate::render::{Screen, Style};
use crate::signals::{self, Counting, Insists};

/// Interval of the spinner.
const TICK: Duration = Duration::from_millis(120);

/// Errors of requests that wait to be shown.
const TROUBLES: usize = 16;

/// How long an owner that is asked to end a run may be silent.
const SILENCE: Duration = Duration::from_secs(5);

/// Follows sessions on this terminal.
pub(crate) struct Follower<'a> {
    subscriber: Subscriber<'a>,
    pub(crate) screen: Screen,
    asking: Asking,
    /// What the owner says about requests whose approval for good is considered.
    looked_up: (mpsc::Sender<LookedUp>, mpsc::Receiver<LookedUp>),
    /// What is typed meanwhile, if it steers a run.
    steering: Option<Steering>,
    /// Errors of requests whose response nobody awaits.
    trouble: (mpsc::Sender<CliError>, mpsc::Receiver<CliError>),
    signals: Signals,
    explaining: Explaining,
    /// Calls for the user of this terminal.
    notifier: Notifier,
    /// Where the editor of the user is named; a watcher does not know.
    globals: Option<&'a Globals>,
    /// The runs of which something was denied because nobody could be asked.
    denied: BTreeSet<RunId>,
    /// The open questions, where nobody can be asked here.
    unasked: Unasked,
}

struct Signals {
    interrupt: Signal,
    terminate: Signal,
    /// On a thread of its own, because the command may block on a terminal that nobody reads.
    _counting: Counting,
}

/// The next thing that matters to a follower.
pub(crate) enum Happening {
    /// A line arrived and was drawn.
    Recorded(Box<Event>),
    /// Ctrl-C.
    Interrupt,
    /// The owner went away.
    Gone,
}

/// How a command ends.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum End {
    /// The command is done.
    Done,
    /// A signal stopped it.
    Stopped,
}

impl<'a> Follower<'a> {
    /// Connects to the owner of the home, or becomes it.
    pub(crate) async fn open(
        globals: &'a Globals,
        config: Arc<Config>,
        args: &WriterArgs,
        sessions: usize,
    ) -> Result<Self, CliError> {
        Self::open_as(globals, config, args, (sessions, false)).await
    }

    /// The same for a command that changes something of one session and leaves: as the owner it starts and continues no run,
    /// whose request would be paid for without an answer, unless [`finish`](Self::finish) has it do so.
    pub(crate) async fn open_to_change(
        globals: &'a Globals,
        config: Arc<Config>,
        args: &WriterArgs,
    ) -> Result<Self, CliError> {
        Self::open_as(globals, config, args, (1, true)).await
    }

    /// The same for a message that this command follows. One that is a command and asks no model only changes something.
    pub(crate) async fn open_for_message(
        globals: &'a Globals,
        config: Arc<Config>,
        args: &WriterArgs,
        message: &str,
    ) -> Result<Self, CliError> {
        let holds_runs = chat_command(message).is_some_and(|command| !command.asks_model);
        Self::open_as(globals, config, args, (1, holds_runs)).await
    }

    async fn open_as(
        globals: &'a Globals,
        config: Arc<Config>,
        args: &WriterArgs,
        (sessions, holds_runs): (usize, bool),
    ) -> Result<Self, CliError> {
        config.check_workspace()?;
        let notifier = Notifier::of(&config, args.json);
        let (is_verbose, is_raw) = (config.is_verbose(), config.is_markdown_raw());
        let opening =
            Opening { globals, config, wait: args.wait, can_approve: can_approve(), holds_runs, notify: &say_notice };
        let signals = Signals::new()?;
        let subscriber = Subscriber::open(opening).await?;
        let mut screen = Screen::new(Style::of_stdout(args.json, sessions), sessions);
        screen.read_outputs_of(&globals.home);
        if is_verbose {
            screen.show_detail();
        }
        if is_raw {
            screen.prefer_raw_answers();
        }
        Ok(Self { notifier, globals: Some(globals), ..Self::over(subscriber, screen, signals) })
    }

    /// Watches an owner until it goes away.
    pub(crate) fn watch(owner_client: OwnerClient, screen: Screen) -> Result<Self, CliError> {
        Ok(Self::over(Subscriber::watch(owner_client), screen, Signals::new()?))
    }

    fn over(subscriber: Subscriber<'a>, screen: Screen, signals: Signals) -> Self {
        Self {
            subscriber,
            screen,
            asking: Asking::default(),
            looked_up: mpsc::channel(1),
            steering: None,
            trouble: mpsc::channel(TROUBLES),
            signals,
            explaining: Explaining::default(),
            notifier: Notifier::off(),
            globals: None,
            denied: BTreeSet::new(),
            unasked: Unasked::default(),
        }
    }

    /// Whether the owner knows this method: it may have another version.
    pub(crate) fn can(&self, method: &str) -> bool {
        self.subscriber.can(method)
    }

    /// The connection to the owner.
    pub(crate) fn client(&self) -> &Client {
        self.subscriber.client()
    }

    /// The cursor of the last drawn line of a session.
    pub(crate) fn cursor(&self, key: &str) -> String {
        self.subscriber.cursor(key)
    }

    /// Whether this process owns the home and keeps it.
    pub(crate) fn is_owner(&self) -> bool {
        self.subscriber.is_owner()
    }

    /// The home; none for one that only watches.
    pub(crate) fn home(&self) -> Option<&'a Path> {
        self.subscriber.home()
    }

    /// What the owner is; one of an older version does not say.
    pub(crate) fn owner_kind(&self) -> Option<OwnerKind> {
        self.subscriber.owner_kind()
    }

    /// This command leaves when this run has ended: as the owner it starts none after it.
    pub(crate) fn hold_runs_after(&self, run: RunId) {
        self.subscriber.hold_runs_after(run);
    }

    /// Runs start and continue here, if this process owns the home.
    pub(crate) fn start_runs(&mut self) {
        self.subscriber.start_runs();
    }

    /// Whether a request that failed with this error may succeed on a new connection: to the next owner, or to this process'
    /// own owner if that has dropped a connection that was not read in time.
    pub(crate) fn may_retry(&self, error: &ClientError) -> bool {
        self.subscriber.may_retry(error)
    }

    /// Follows a session from now on, also if the owner goes away meanwhile.
    pub(crate) async fn follow(&mut self, key: &str) -> Result<(), CliError> {
        loop {
            let params = SubscribeParams { session: Some(key.to_owned()), ..SubscribeParams::default() };
            match self.follow_from(key, params).await {
                Ok(()) => return Ok(()),
                Err(error) if self.may_retry(&error) => self.reopen().await?,
                Err(error) => return Err(failed(error)),
            }
        }
    }

    /// From now on what is typed here steers the run of this session.
    pub(crate) fn steer_by_keyboard(&mut self, key: &str) {
        if self.screen.shows_input() {
            self.steering = Steering::of(key);
        }
    }

    /// A message that was typed here and that no run has taken: it has a run of its own.
    pub(crate) async fn pop_steer(&mut self) -> Option<MessageId> {
        let steering = self.steering.as_mut()?;
        steering.await_answers(&mut self.screen).await;
        while self.next_arrived().is_some() {}
        self.steering.as_mut()?.pop_open()
    }

    /// Whether something of this run was denied because there was no terminal to ask on.
    pub(crate) fn was_denied(&self, run: RunId) -> bool {
        self.denied.contains(&run)
    }

    /// The same is known of a run that had ended before.
    pub(crate) fn note_denied(&mut self, run: RunId) {
        self.denied.insert(run);
    }

    /// Whether the whole home is followed.
    pub(crate) fn follows_home(&self) -> bool {
        self.subscriber.follows_home()
    }

    /// Follows with these parameters; `key` is the session.
    pub(crate) async fn follow_from(&mut self, key: &str, params: SubscribeParams) -> Result<(), ClientError> {
        self.subscriber.follow(key, params).await
    }

    /// Returns what the next watcher needs.
    pub(crate) fn into_screen(self) -> Screen {
        self.screen
    }

    /// Waits for the next thing that matters; draws lines and shows approval requests meanwhile. Cancel-safe.
    pub(crate) async fn next(&mut self) -> Result<Happening, CliError> {
        loop {
            self.show_question_or_line();
            let is_asking = self.screen.is_asking();
            tokio::select! {
                biased;
                arrival = self.subscriber.next() => {
                    if let Some(happening) = self.observe(arrival)? {
                        return Ok(happening);
                    }
                }
                Some(trouble) = self.trouble.1.recv() => self.screen.say(&format!("limulus: {trouble}")),
                reaction = self.asking.answer(is_asking) => self.react(reaction),
                Some(shown) = self.looked_up.1.recv() => {
                    if let Some(shown) = self.asking.take_looked_up(shown, &mut self.screen) {
                        self.edit(&shown);
                    }
                }
                _ = self.signals.interrupt.recv() => return Ok(Happening::Interrupt),
                _ = self.signals.terminate.recv() => return Err(self.stopped()),
                step = typed(&mut self.steering) => {
                    self.notifier.seen();
                    if let Some(steering) = &mut self.steering {
                        steering.take(step, self.subscriber.client(), &mut self.screen);
                    }
                }
                Some((run, waits_for)) = self.explaining.next() => self.screen.explained(run, waits_for),
                () = tokio::time::sleep(TICK) => {
                    self.screen.tick();
                    self.notifier.tick();
                    self.explaining.ask(&mut self.screen, self.subscriber.client());
                }
            }
        }
    }

    /// Does what follows from an answer of the user.
    fn react(&mut self, reaction: Reaction) {
        match self.asking.take_key() {
            Some(key) => self.screen.answered_by(&key),
            None => self.screen.answered(),
        }
        match reaction {
            Reaction::Resolve(params) => {
                self.notifier.resolved(params.call);
                self.send::<ApprovalsResolve>(*params);
            }
            Reaction::Answer(params) => {
                self.notifier.resolved(params.call);
                self.send::<QuestionsAnswer>(*params);
            }
            Reaction::Look(request, wanted) => {
                self.asking.look_up((&request, wanted), self.subscriber.client(), &self.looked_up.0);
            }
            Reaction::Say(what) => self.screen.say(&what),
            Reaction::Again => {}
        }
    }

    /// Has the user change the arguments of a call in an editor, and approves it with them. The editor has the terminal meanwhile.
    fn edit(&mut self, shown: &ApprovalShown) {
        let Some(globals) = self.globals else {
            return self.screen.say("there is no editor here; `limulus approvals approve ID --edit` opens one");
        };
        self.screen.hide_status();
        keyboard::give_back();
        let edited = {
            // Ctrl-C is for the editor.
            let _elsewhere = signals::are_elsewhere();
            edited(globals, shown)
        };
        let mut context = Context::from_waker(Waker::noop());
        while self.signals.interrupt.poll_recv(&mut context).is_ready() {}
        match edited {
            Ok(Some(arguments)) => {
                if let Some(params) = self.asking.resolve_edited(shown.call, arguments) {
                    self.react(Reaction::Resolve(Box::new(params)));
                }
            }
            Ok(None) => self.screen.say("the arguments are as they were"),
            Err(error) => self.screen.say(&format!("limulus: {error}")),
        }
    }

    /// A question has the line; else what is typed has it.
    fn show_question_or_line(&mut self) {
        let Some(steering) = &mut self.steering else { return self.asking.show(&mut self.screen) };
        if self.asking.is_due(&self.screen) {
            // What is on its way, such as a paste, would be the answer. The next tick looks again.
            if !steering.is_quiet() {
                return steering.read_keys(&mut self.screen);
            }
            // First, so that what is typed from the question on is its answer.
            steering.leave_to_question(&mut self.screen);
        }
        self.asking.show(&mut self.screen);
        if !self.screen.is_asking() {
            steering.read_keys(&mut self.screen);
        }
    }

    /// Draws the next line that has already arrived. When a response is here, so are all lines before it.
    pub(crate) fn next_arrived(&mut self) -> Option<Box<Event>> {
        loop {
            let arrival = self.subscriber.next_arrived()?;
            if let Ok(Some(Happening::Recorded(event))) = self.observe(arrival) {
                return Some(event);
            }
        }
    }

    /// Sends a request and draws what happens until the response arrives. None if the owner went away.
    pub(crate) async fn ask<M: Method>(&mut self, params: M::Params) -> Result<Option<M::Result>, CliError> {
        let mut answers = match self.client().ask::<M>(params) {
            Ok(answers) => answers,
            Err(error) if is_gone(&error) => return Ok(None),
            Err(error) => return Err(failed(error)),
        };
        let answer = loop {
            tokio::select! {
                biased;
                happening = self.next() => match happening? {
                    Happening::Recorded(_) => {}
                    Happening::Interrupt => super::agent::quit(),
                    Happening::Gone => return Ok(None),
                },
                answer = answers.next() => break answer,
            }
        };
        while self.next_arrived().is_some() {}
        match answer {
            Ok(answer) => Ok(Some(answer)),
            Err(error) if self.may_retry(&error) => Ok(None),
            Err(error) => Err(failed(error)),
        }
    }

    /// Requests the end of a run. A second Ctrl-C ends this process at once, as a crash would.
    pub(crate) fn abort(&mut self, params: AbortParams) {
        self.screen.say("■ aborting; Ctrl-C again quits at once");
        signals::is_aborting();
        self.send::<RunsAbort>(params);
        if !self.subscriber.is_own() {
            tokio::spawn(quit_if_silent(self.client().clone()));
        }
    }

    /// If this process has taken the home over, follows this session until nothing of it is unfinished: its run was
    /// resumed here by the request, and no other process executes it. How the run ends is no failure of the command.
    pub(crate) async fn finish(&mut self, key: Option<&str>) -> Result<(), CliError> {
        match key.filter(|_| self.subscriber.has_taken_over()) {
            Some(key) => self.continue_session(key).await,
            None => Ok(()),
        }
    }

    /// If this process owns the home, follows this session until nothing of it is unfinished. How its runs end is no failure
    /// of the command.
    pub(crate) async fn continue_session(&mut self, key: &str) -> Result<(), CliError> {
        let Some(home) = self.subscriber.owned() else { return Ok(()) };
        let reader = Reader::open(home)?;
        if !reader.session(key)?.is_some_and(|row| row.unfinished) {
            return Ok(());
        }
        self.screen.say(&format!("… this process continues until nothing of {key} is unfinished"));
        self.screen.leave_stdout();
        if self.cursor(key).is_empty() && !self.follows_home() {
            self.follow(key).await?;
        }
        match Box::pin(super::resume::finish_one(self, &reader, key)).await {
            Err(error) if error.exit() == Exit::Stopped => Err(error),
            Err(error) => {
                self.screen.say(&format!("limulus: {error}"));
                Ok(())
            }
            Ok(()) => Ok(()),
        }
    }

    /// Says which messages of this session wait for an owner that answers them, if this one leaves.
    pub(crate) fn say_what_waits(&mut self, key: &str) -> Result<(), CliError> {
        if let Some(waiting) = self.waiting(key)? {
            self.screen.say(&format!("waiting: {waiting}; `limulus resume {key}` or `limulus serve` goes on with it"));
        }
        Ok(())
    }

    /// Says which messages of this session have waited for an owner, if this command is the one that runs are started by.
    pub(crate) fn say_what_is_answered_too(&mut self, key: &str) -> Result<(), CliError> {
        if let Some(messages) = self.waiting(key)? {
            self.screen.say(&format!("… this process also answers what waits in {key}: {messages}"));
        }
        Ok(())
    }

    /// How many messages of this session wait, if this process owns the home and one does.
    fn waiting(&self, key: &str) -> Result<Option<String>, CliError> {
        let Some(home) = self.subscriber.owned() else { return Ok(None) };
        let waiting = Reader::open(home)?.session(key)?.map_or(0, |row| row.queued as usize);
        Ok((waiting > 0).then(|| count(waiting, "message")))
    }

    /// Disconnects. If this process is the owner, it shuts down in order, so that others can continue.
    pub(crate) async fn close(mut self, end: End) -> Result<(), CliError> {
        if let Some(steering) = self.steering.take() {
            steering.finish(&mut self.screen);
        }
        self.screen.hide_status();
        let (is_stopped, mut screen, mut signals) = (end == End::Stopped, self.screen, self.signals);
        let (at_once, is_at_once) = watch::channel(is_stopped);
        let closed = self.subscriber.close(is_at_once, |arrival| match arrival {
            Arrival::Line(event) if is_stopped => screen.draw(&event),
            Arrival::Line(event) => screen.draw_delivery(&event),
            Arrival::Note(note) => screen.say(&note),
            _ => {}
        });
        let mut closed = Box::pin(closed);
        let left = loop {
            tokio::select! {
                closed = &mut closed => break closed,
                _ = signals.interrupt.recv() => {}
                _ = signals.terminate.recv() => {}
            }
            at_once.send_replace(true);
        };
        drop(closed);
        screen.hide_status();
        Ok(left?)
    }

    /// Draws what arrived; returns what matters to a command.
    fn observe(&mut self, arrival: Arrival) -> Result<Option<Happening>, CliError> {
        match arrival {
            Arrival::Line(event) => {
                self.screen.draw(&event);
                self.notifier.line(&event);
                if let Stream::Tool(ToolLine::Answered { allow: false, by, .. }) = &event.what
                    && by.starts_with(NOBODY_TO_ASK)
                {
                    self.denied.extend(event.run);
                }
                if let Some(steering) = &mut self.steering {
                    steering.see(&event);
                }
                if !can_approve() {
                    for line in self.unasked.ways_to_answer(&event) {
                        self.screen.say(&line);
                    }
                }
                return Ok(Some(Happening::Recorded(event)));
            }
            Arrival::Asked(asked) => {
                self.notifier.asked(&asked);
                self.asking.put(asked, self.subscriber.client(), &self.looked_up.0);
            }
            Arrival::Answered(answered) => {
                self.notifier.answered(&answered);
                self.asking.close(&answered, &mut self.screen);
            }
            Arrival::DiskFull(parked) => self.screen.disk_full(&parked),
            Arrival::Note(note) => self.screen.say(&note),
            Arrival::Broken(error) => {
                self.screen.hide_status();
                return Err(error.into());
            }
            Arrival::Gone => return Ok(Some(Happening::Gone)),
        }
        Ok(None)
    }

    /// Finds or becomes the next owner, and continues each followed session after its last line.
    pub(crate) async fn reopen(&mut self) -> Result<(), CliError> {
        self.screen.hide_status();
        let screen = &mut self.screen;
        let mut say = |note: String| screen.say(&note);
        let reopened = tokio::select! {
            reopened = self.subscriber.reopen(&mut say) => reopened?,
            _ = self.signals.terminate.recv() => return Err(self.stopped()),
        };
        if let Some(text) = continues(reopened) {
            self.screen.say(&text);
        }
        Ok(())
    }

    /// Sends a request whose response matters only if it is an error.
    fn send<M: Method>(&self, params: M::Params) {
        let (client, trouble) = (self.client().clone(), self.trouble.0.clone());
        tokio::spawn(async move {
            // The follower notices an owner that is gone.
            if let Err(error @ ClientError::Answered(_)) = client.call::<M>(params).await {
                // More than the screen has shown yet say nothing new.
                let _ = trouble.try_send(failed(error));
            }
        });
    }

    pub(super) fn stopped(&mut self) -> CliError {
        let (note, what) = if self.is_owner() {
            ("■ stopping: streams are sealed, running commands continue", "the run stays as it is")
        } else {
            ("■ leaving: the owner of the home continues", "the run continues in the owner of the home")
        };
        self.screen.say(note);
        CliError::Failed {
            exit: Exit::Stopped,
            what: format!("stopped by a signal; {what}"),
            hint: "`limulus resume` resumes it".into(),
        }
    }
}

impl End {
    /// How a command with this result ends.
    pub(crate) fn of<T>(result: &Result<T, CliError>) -> Self {
        match result {
            Err(error) if error.exit() == Exit::Stopped => Self::Stopped,
            _ => Self::Done,
        }
    }
}

impl Signals {
    fn new() -> Result<Self, CliError> {
        let signal = |kind| signal(kind).map_err(|error| CliError::bug(&format!("no signals: {error}")));
        // The first handler: a signal that comes before it is there would be lost to a command that waits for an owner.
        let counting = signals::count(Insists::Interrupts)?;
        output::end_where_stuck()?;
        let (interrupt, terminate) = (signal(SignalKind::interrupt())?, signal(SignalKind::terminate())?);
        Ok(Self { interrupt, terminate, _counting: counting })
    }
}

/// Ends this process once the owner does not answer: it does not carry out the abort either. An owner that has answered
/// may be stopped before the run has ended.
async fn quit_if_silent(client: Client) {
    loop {
        match timeout(SILENCE, client.call::<HealthGet>(NoParams {})).await {
            Ok(Ok(_)) => sleep(SILENCE).await,
            // The follower notices an owner that is gone.
            Ok(Err(_)) => return,
            Err(_) => break,
        }
    }
    output::say!("limulus: the owner of the home does not answer; its run ends if it goes on");
    super::agent::quit();
}

/// Waits for what is typed, if it steers a run.
async fn typed(steering: &mut Option<Steering>) -> Step {
    match steering {
        Some(steering) => steering.next().await,
        None => std::future::pending().await,
    }
}

/// Ends a watcher on a signal at any time, also while it waits for an owner: it owns nothing and ends nothing.
pub(crate) fn quit_on_signals() -> Result<(), CliError> {
    let signal = |kind| signal(kind).map_err(|error| CliError::bug(&format!("no signals: {error}")));
    let (mut interrupt, mut terminate) = (signal(SignalKind::interrupt())?, signal(SignalKind::terminate())?);
    tokio::spawn(async move {
        tokio::select! {
            _ = interrupt.recv() => super::agent::quit(),
            _ = terminate.recv() => {
                keyboard::give_back();
                std::process::exit(i32::from(Exit::Stopped as u8));
            }
        }
    });
    Ok(())
}

/// Whether this terminal can answer approval requests.
pub(crate) fn can_approve() -> bool {
    prompt::is_possible()
}

/// Who continues, for the user.
fn continues(reopened: Reopened) -> Option<String> {
    Some(match reopened {
        Reopened::Kept => return None,
        Reopened::Returned => "… the service that asked for the home is gone; this process continues".to_owned(),
        Reopened::Became { before } => format!("… pid {before}, which owned the home, is gone; this process continues"),
        Reopened::HandedOver { pid } => format!("… this process handed the home over; pid {pid} continues"),
        Reopened::Same => "… more happened than was read here; this continues where it stopped".to_owned(),
        Reopened::Other { before, pid } => format!("… pid {before} no longer owns the home; pid {pid} continues"),
    })
}
