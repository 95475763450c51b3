//! What the commands that follow sessions share: a connection to the owner, a screen, signals, and continuing with the
//! next owner after the last line that was drawn.

mod progress;
mod reopening;

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use config::{Config, Globals};
use journal::{Read as _, Reader};
use protocol::event::AGENT_EVENT;
use protocol::method::{
    AbortParams, AnswerParams, ApprovalsResolve, EventsSubscribe, HealthGet, Method, NoParams, RunsAbort,
    SubscribeParams,
};
use protocol::notice::{Answered, Asked, DiskFull, Notice};
use protocol::{Client, ClientError, Event, EventFrame};
use serde::Deserialize;
use tokio::signal::unix::{Signal, SignalKind, signal};
use tokio::sync::mpsc;
use tokio::time::timeout;

use super::asking::Asking;
use crate::args::WriterArgs;
use crate::deprecation;
use crate::error::{CliError, Exit};
use crate::here::Here;
use crate::output;
use crate::owner_client::{Opening, OwnerClient, failed, is_gone};
use crate::prompt;
use crate::render::{Screen, Style};
use crate::signals::{self, Counting, Insists};

pub(super) use progress::Progress;

/// Interval of the spinner.
const TICK: Duration = Duration::from_millis(120);

/// How long an owner that is asked to end a run may be silent.
const SILENCE: Duration = Duration::from_secs(5);

/// The subscription key of the whole home.
pub(crate) const HOME: &str = "";

/// Follows sessions on this terminal.
pub(crate) struct Follower<'a> {
    /// How to find or become the next owner; None for a watcher, which waits for one instead.
    opening: Option<Opening<'a>>,
    owner_client: OwnerClient,
    pub(crate) screen: Screen,
    asking: Asking,
    /// The followed sessions, each with the cursor of its last drawn line.
    followed: BTreeMap<String, String>,
    /// Errors of requests whose response nobody awaits.
    trouble: (mpsc::UnboundedSender<CliError>, mpsc::UnboundedReceiver<CliError>),
    signals: Signals,
    /// Whether this process became the owner because another owner was gone.
    took_over: bool,
    progress: Progress,
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
        config.check_workspace()?;
        let opening = Opening { globals, config, wait: args.wait, can_approve: can_approve() };
        let signals = Signals::new()?;
        let owner_client = opening.open().await?;
        let mut screen = Screen::new(Style::of_stdout(args.json, sessions), sessions);
        if opening.config.is_verbose() {
            screen.show_detail();
        }
        let took_over = owner_client.is_successor;
        Ok(Self { opening: Some(opening), took_over, ..Self::over(owner_client, screen, signals) })
    }

    /// Watches an owner until it goes away.
    pub(crate) fn watch(owner_client: OwnerClient, screen: Screen) -> Result<Self, CliError> {
        Ok(Self::over(owner_client, screen, Signals::new()?))
    }

    fn over(owner_client: OwnerClient, screen: Screen, signals: Signals) -> Self {
        Self {
            opening: None,
            owner_client,
            screen,
            asking: Asking::default(),
            followed: BTreeMap::new(),
            trouble: mpsc::unbounded_channel(),
            signals,
            took_over: false,
            progress: Progress::default(),
        }
    }

    /// The connection to the owner.
    pub(crate) fn client(&self) -> &Client {
        &self.owner_client.client
    }

    /// The cursor of the last drawn line of a session.
    pub(crate) fn cursor(&self, key: &str) -> String {
        self.followed.get(key).cloned().unwrap_or_default()
    }

    /// Whether this process owns the home and keeps it.
    pub(crate) fn is_owner(&self) -> bool {
        self.owner_client.here.as_ref().is_some_and(|here| !here.is_handing_over())
    }

    /// Whether a request that failed with this error may succeed on a new connection: to the next owner, or to this process'
    /// own owner if that has dropped a connection that was not read in time.
    pub(crate) fn may_retry(&self, error: &ClientError) -> bool {
        matches!(error, ClientError::Gone) || (is_gone(error) && !self.is_owner())
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

    /// Whether the whole home is followed.
    pub(crate) fn follows_home(&self) -> bool {
        self.followed.contains_key(HOME)
    }

    /// Follows with these parameters; `key` is the session.
    pub(crate) async fn follow_from(&mut self, key: &str, params: SubscribeParams) -> Result<(), ClientError> {
        let cursor = self.owner_client.client.call::<EventsSubscribe>(params).await?.cursor;
        self.followed.insert(key.to_owned(), cursor);
        Ok(())
    }

    /// Returns what the next watcher needs.
    pub(crate) fn into_screen(self) -> Screen {
        self.screen
    }

    /// Waits for the next thing that matters; draws lines and shows approval requests meanwhile. Cancel-safe.
    pub(crate) async fn next(&mut self) -> Result<Happening, CliError> {
        loop {
            self.asking.show(&mut self.screen);
            let is_asking = self.screen.is_asking();
            tokio::select! {
                biased;
                frame = self.owner_client.events.recv() => match frame {
                    Some(frame) => {
                        if let Some(event) = self.observe(&frame) {
                            return Ok(Happening::Recorded(event));
                        }
                    }
                    None => return Ok(Happening::Gone),
                },
                Some(trouble) = self.trouble.1.recv() => self.screen.say(&format!("limulus: {trouble}")),
                (request, allow) = self.asking.answer(is_asking) => {
                    let Asked { call, fingerprint, .. } = request;
                    self.screen.answered();
                    self.send::<ApprovalsResolve>(AnswerParams { call, fingerprint, allow });
                }
                trouble = here(&mut self.owner_client.here, &mut self.screen) => {
                    self.screen.hide_status();
                    return Err(trouble);
                }
                _ = self.signals.interrupt.recv() => return Ok(Happening::Interrupt),
                _ = self.signals.terminate.recv() => return Err(self.stopped()),
                () = tokio::time::sleep(TICK) => self.screen.tick(),
            }
        }
    }

    /// Draws the next line that has already arrived. When a response is here, so are all lines before it.
    pub(crate) fn next_arrived(&mut self) -> Option<Box<Event>> {
        loop {
            let frame = self.owner_client.events.try_recv().ok()?;
            if let Some(event) = self.observe(&frame) {
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
        if self.owner_client.here.is_none() {
            tokio::spawn(quit_if_silent(self.client().clone()));
        }
    }

    /// If this process has taken the home over, follows this session until nothing of it is unfinished: its run was
    /// resumed here by the request, and no other process executes it. How the run ends is no failure of the command.
    pub(crate) async fn finish(&mut self, key: Option<&str>) -> Result<(), CliError> {
        let Some((opening, key)) = self.opening.as_ref().zip(key).filter(|_| self.took_over && self.is_owner()) else {
            return Ok(());
        };
        let reader = Reader::open(&opening.globals.home)?;
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

    /// Disconnects. If this process is the owner, it shuts down in order, so that others can continue.
    pub(crate) async fn close(mut self, end: End) -> Result<(), CliError> {
        self.screen.hide_status();
        let Some(mut here) = self.owner_client.here.take() else { return Ok(()) };
        let leaving = here.leave(end == End::Stopped);
        let (mut owner_client, mut screen) = (self.owner_client, self.screen);
        let drawing = async {
            while let Some(frame) = owner_client.events.recv().await {
                if end == End::Stopped
                    && let Some(event) = read(&frame)
                {
                    screen.draw(&event);
                }
            }
        };
        let (left, ()) = tokio::join!(leaving, drawing);
        while let Ok(note) = here.notes.try_recv() {
            screen.say(&note);
        }
        screen.hide_status();
        left
    }

    /// Draws what arrived; returns it if it belongs to a session.
    fn observe(&mut self, frame: &EventFrame) -> Option<Box<Event>> {
        match frame.event.as_str() {
            AGENT_EVENT => {
                let event = read(frame)?;
                self.screen.draw(&event);
                let followed = if self.follows_home() { HOME } else { &event.session };
                if let Some(cursor) = self.followed.get_mut(followed) {
                    cursor.clone_from(&event.cursor);
                }
                return Some(event);
            }
            Asked::NAME => {
                let asked = notice::<Asked>(frame);
                // A question of another session is not this terminal's, whatever the owner sends.
                let own = |asked: &Asked| self.follows_home() || self.followed.contains_key(&asked.session);
                if let Some(asked) = asked.filter(own) {
                    self.asking.put(asked);
                }
            }
            Answered::NAME => {
                if let Some(answered) = notice::<Answered>(frame) {
                    self.asking.close(&answered, &mut self.screen);
                }
            }
            DiskFull::NAME => {
                if let Some(parked) = notice::<DiskFull>(frame) {
                    self.screen.disk_full(&parked);
                }
            }
            // The other events end the connection; unknown ones are ignored.
            _ => {}
        }
        None
    }

    /// Sends a request whose response matters only if it is an error.
    fn send<M: Method>(&self, params: M::Params) {
        let (client, trouble) = (self.owner_client.client.clone(), self.trouble.0.clone());
        tokio::spawn(async move {
            // The follower notices an owner that is gone.
            if let Err(error @ ClientError::Answered(_)) = client.call::<M>(params).await {
                let _ = trouble.send(failed(error));
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
        output::end_where_stuck()?;
        let (interrupt, terminate) = (signal(SignalKind::interrupt())?, signal(SignalKind::terminate())?);
        Ok(Self { interrupt, terminate, _counting: signals::count(Insists::Interrupts)? })
    }
}

/// Ends this process if the owner does not answer: it does not carry out the abort either.
async fn quit_if_silent(client: Client) {
    if timeout(SILENCE, client.call::<HealthGet>(NoParams {})).await.is_err() {
        output::say!("limulus: the owner of the home does not answer; its run ends if it goes on");
        super::agent::quit();
    }
}

/// Ends a watcher on a signal at any time, also while it waits for an owner: it owns nothing and ends nothing.
pub(crate) fn quit_on_signals() -> Result<(), CliError> {
    let signal = |kind| signal(kind).map_err(|error| CliError::bug(&format!("no signals: {error}")));
    let (mut interrupt, mut terminate) = (signal(SignalKind::interrupt())?, signal(SignalKind::terminate())?);
    tokio::spawn(async move {
        tokio::select! {
            _ = interrupt.recv() => super::agent::quit(),
            _ = terminate.recv() => std::process::exit(i32::from(Exit::Stopped as u8)),
        }
    });
    Ok(())
}

/// The response to a change, which may have opened a session.
pub(crate) trait Changed {
    /// The key of that session.
    fn session_key(&self) -> Option<&str>;
}

macro_rules! changed {
    ($($of_session:ident),+; $($of_home:ident),+) => {
        $(impl Changed for protocol::method::$of_session {
            fn session_key(&self) -> Option<&str> {
                Some(&self.session_key)
            }
        })+
        $(impl Changed for protocol::method::$of_home {
            fn session_key(&self) -> Option<&str> {
                None
            }
        })+
    };
}

changed!(BudgetStory, Cancelled, FilesUndone, QueueModeSet, RunAsked, Uncompacted; CleanedUp, ProfileUsed, ProfilesCleared);

/// Sends one request to the owner, or becomes the owner if there is none, and returns the response.
pub(crate) async fn change<T: Changed>(
    globals: &Globals,
    writer: &WriterArgs,
    call: impl AsyncFn(&Client) -> Result<T, ClientError>,
) -> Result<T, CliError> {
    let config = Arc::new(deprecation::load(globals, writer.flags())?);
    let mut follower = Follower::open(globals, config, writer, 1).await?;
    let answer = loop {
        match call(follower.client()).await {
            Ok(answer) => break Ok(answer),
            Err(error) if is_gone(&error) => follower.reopen().await?,
            Err(error) => break Err(failed(error)),
        }
    };
    let answer = match answer {
        Ok(answer) => {
            let key = answer.session_key();
            let finished = follower.finish(key).await;
            finished.map(|()| answer)
        }
        error => error,
    };
    let closed = follower.close(End::of(&answer)).await;
    answer.and_then(|answer| closed.map(|()| answer))
}

/// Whether this terminal can answer approval requests.
pub(crate) fn can_approve() -> bool {
    prompt::is_possible()
}

/// A line of a session; None if this version does not know it.
fn read(frame: &EventFrame) -> Option<Box<Event>> {
    if frame.event != AGENT_EVENT {
        return None;
    }
    Event::deserialize(&frame.payload).ok().map(Box::new)
}

/// An event of the connection; None if this version does not know it.
fn notice<'a, N: Notice + Deserialize<'a>>(frame: &'a EventFrame) -> Option<N> {
    N::deserialize(&frame.payload).ok()
}

/// Handles events of an owning process: shows notes, and ends the command if the store fails.
async fn here(here: &mut Option<Here>, screen: &mut Screen) -> CliError {
    let Some(Here { notes, broken, .. }) = here else { return std::future::pending().await };
    loop {
        tokio::select! {
            Some(note) = notes.recv() => screen.say(&note),
            Ok(()) = broken.changed() => {
                if let Some(error) = broken.borrow_and_update().clone() {
                    return error.into();
                }
            }
            else => return std::future::pending().await,
        }
    }
}
