//! What the commands have in common that follow sessions: a way to the owner, a screen, the signals, and going on with the
//! next owner where the last one left off. What may not live here: what is asked for.

use std::collections::BTreeMap;
use std::io::IsTerminal as _;
use std::sync::Arc;
use std::time::Duration;

use protocol::event::AGENT_EVENT;
use protocol::method::{
    AbortParams, AnswerParams, ApprovalsResolve, EventsSubscribe, Method, RunsAbort, SubscribeParams,
};
use protocol::notice::{Answered, Asked, Notice, Parked};
use protocol::{Client, ClientError, Event, EventFrame};
use serde::Deserialize;
use tokio::signal::unix::{Signal, SignalKind, signal};
use tokio::sync::mpsc;
use tokio::task::JoinHandle;

use super::asking::Asking;
use crate::args::WriterArgs;
use crate::config::{Config, Globals};
use crate::error::{CliError, Exit};
use crate::output;
use crate::owner_client::{Here, Opening, OwnerClient, failed, is_gone};
use crate::render::{Screen, Style};

/// How often the spinner turns.
const TICK: Duration = Duration::from_millis(120);

/// The first Ctrl-C ends the run in order, this one the process at once.
const INTERRUPTS: usize = 2;

/// Stands for the whole home.
pub(crate) const HOME: &str = "";

/// Whoever follows sessions on this terminal.
pub(crate) struct Follower<'a> {
    /// How the next owner is found; a watcher, who owns nothing, waits for one instead.
    opening: Option<Opening<'a>>,
    owner_client: OwnerClient,
    pub(crate) screen: Screen,
    asking: Asking,
    /// The sessions that are followed, each with the cursor of its last line that was drawn.
    followed: BTreeMap<String, String>,
    /// What a request on the side has failed of.
    trouble: (mpsc::UnboundedSender<CliError>, mpsc::UnboundedReceiver<CliError>),
    signals: Signals,
}

struct Signals {
    interrupt: Signal,
    terminate: Signal,
    /// Beside the command, which may wait for a terminal that nobody reads.
    quits: JoinHandle<()>,
}

impl Drop for Signals {
    fn drop(&mut self) {
        self.quits.abort();
    }
}

/// What a follower waits for.
pub(crate) enum Happening {
    /// Something was recorded, and is drawn.
    Told(Box<Event>),
    /// Ctrl-C.
    Interrupt,
    /// The owner went away.
    Gone,
}

/// How a command ends.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum End {
    /// It is done.
    Done,
    /// It was stopped by a signal.
    Stopped,
}

impl<'a> Follower<'a> {
    /// Speaks with the owner of the home, or becomes it.
    pub(crate) async fn open(
        globals: &'a Globals,
        config: Arc<Config>,
        args: &WriterArgs,
        sessions: usize,
    ) -> Result<Self, CliError> {
        let opening = Opening { globals, config, wait: args.wait, asks: can_ask() };
        let signals = Signals::new()?;
        let owner_client = opening.open().await?;
        let screen = Screen::new(Style::of_stdout(args.json, sessions), sessions);
        Ok(Self { opening: Some(opening), ..Self::over(owner_client, screen, signals) })
    }

    /// Watches an owner, as long as it is there.
    pub(crate) fn watch(owner_client: OwnerClient, screen: Screen) -> Result<Self, CliError> {
        Ok(Self::over(owner_client, screen, Signals::new()?))
    }

    fn over(owner_client: OwnerClient, screen: Screen, signals: Signals) -> Self {
        Self {
            opening: None,
            owner_client,
            screen,
            asking: Asking::new(),
            followed: BTreeMap::new(),
            trouble: mpsc::unbounded_channel(),
            signals,
        }
    }

    /// The owner.
    pub(crate) fn client(&self) -> &Client {
        &self.owner_client.client
    }

    /// The cursor of the last line of a session that was drawn.
    pub(crate) fn cursor(&self, key: &str) -> String {
        self.followed.get(key).cloned().unwrap_or_default()
    }

    /// Whether this process owns the home.
    pub(crate) fn is_owner(&self) -> bool {
        self.owner_client.here.is_some()
    }

    /// Follows a session from now on.
    pub(crate) async fn follow(&mut self, key: &str) -> Result<(), ClientError> {
        let params = SubscribeParams { session: Some(key.to_owned()), ..SubscribeParams::default() };
        self.follow_from(key, params).await
    }

    /// Whether the whole home is followed.
    pub(crate) fn follows_home(&self) -> bool {
        self.followed.contains_key(HOME)
    }

    /// Follows what these ask for; `key` is the session that it is about.
    pub(crate) async fn follow_from(&mut self, key: &str, params: SubscribeParams) -> Result<(), ClientError> {
        let cursor = self.owner_client.client.call::<EventsSubscribe>(params).await?.cursor;
        self.followed.insert(key.to_owned(), cursor);
        Ok(())
    }

    /// What is left for the next one that watches.
    pub(crate) fn into_screen(self) -> Screen {
        self.screen
    }

    /// Waits for the next thing that matters, drawing and asking meanwhile. One that is dropped loses nothing.
    pub(crate) async fn next(&mut self) -> Result<Happening, CliError> {
        loop {
            tokio::select! {
                biased;
                frame = self.owner_client.events.recv() => match frame {
                    Some(frame) => {
                        if let Some(event) = self.observe(&frame) {
                            return Ok(Happening::Told(event));
                        }
                    }
                    None => return Ok(Happening::Gone),
                },
                Some(trouble) = self.trouble.1.recv() => self.screen.say(&format!("limulus: {trouble}")),
                (question, allow) = self.asking.answer() => {
                    let Asked { call, fingerprint, .. } = question;
                    self.screen.answered();
                    self.aside::<ApprovalsResolve>(AnswerParams { call, fingerprint, allow });
                    self.asking.ask(&mut self.screen);
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

    /// The next line that has come already, drawn. What was told before an answer is here where the answer is.
    pub(crate) fn told(&mut self) -> Option<Box<Event>> {
        loop {
            let frame = self.owner_client.events.try_recv().ok()?;
            if let Some(event) = self.observe(&frame) {
                return Some(event);
            }
        }
    }

    /// Asks for something and draws what happens until it is answered; nothing when the owner went away.
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
                    Happening::Told(_) => {}
                    Happening::Interrupt => super::agent::quit(),
                    Happening::Gone => return Ok(None),
                },
                answer = answers.next() => break answer,
            }
        };
        while self.told().is_some() {}
        match answer {
            Ok(answer) => Ok(Some(answer)),
            Err(error) if is_gone(&error) && !self.is_owner() => Ok(None),
            Err(error) => Err(failed(error)),
        }
    }

    /// Asks for the end of a run; a second Ctrl-C ends this process at once, as a crash would.
    pub(crate) fn abort(&mut self, params: AbortParams) {
        self.screen.say("■ aborting; Ctrl-C again quits at once");
        self.aside::<RunsAbort>(params);
    }

    /// Finds the next owner, or becomes it, and follows what was followed from where it was left.
    pub(crate) async fn reopen(&mut self) -> Result<(), CliError> {
        let before = self.owner_client.pid;
        self.screen.hide_status();
        if let Some(here) = self.owner_client.here.take() {
            self.owner_client = here.attach(can_ask()).await?;
            let client = self.owner_client.client.clone();
            return self.follow_again(&client).await.map_err(failed);
        }
        loop {
            let opening = self.opening.as_ref().ok_or_else(|| CliError::bug("a watcher looked for the next owner"))?;
            self.owner_client = opening.open().await?;
            let client = self.owner_client.client.clone();
            match self.follow_again(&client).await {
                Ok(()) => break,
                Err(error) if is_gone(&error) => {}
                Err(error) => return Err(failed(error)),
            }
        }
        let pid = self.owner_client.pid;
        self.screen.say(&match &self.owner_client.here {
            Some(_) => format!("… pid {before}, which owned the home, is gone; this process goes on"),
            None if pid == before => "… more happened than was read here; this goes on where it was left".to_owned(),
            None => format!("… pid {before}, which owned the home, is gone; pid {pid} goes on"),
        });
        Ok(())
    }

    async fn follow_again(&mut self, client: &Client) -> Result<(), ClientError> {
        for (key, cursor) in &self.followed {
            let session = (key != HOME).then(|| key.clone());
            let params = SubscribeParams { session, from: Some(cursor.clone()), ..SubscribeParams::default() };
            client.call::<EventsSubscribe>(params).await?;
        }
        Ok(())
    }

    /// Leaves: the owner in order, so that others can go on; whoever is not leaves the owner to itself.
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

    /// Draws what came; gives it where it is of a session.
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
                if let Some(asked) = notice::<Asked>(frame) {
                    let own = self.followed.contains_key(&asked.session);
                    self.asking.put(asked, own, &mut self.screen);
                }
            }
            Answered::NAME => {
                if let Some(answered) = notice::<Answered>(frame) {
                    self.asking.close(&answered, &mut self.screen);
                }
            }
            Parked::NAME => {
                if let Some(parked) = notice::<Parked>(frame) {
                    self.screen.park(&parked);
                }
            }
            // The connection ends with the others, and what this version does not know changes nothing.
            _ => {}
        }
        None
    }

    /// Asks for something whose answer is only of interest if it is no.
    fn aside<M: Method>(&self, params: M::Params) {
        let (client, trouble) = (self.owner_client.client.clone(), self.trouble.0.clone());
        tokio::spawn(async move {
            // An owner that is gone is noticed by whoever follows it.
            if let Err(error @ ClientError::Answered(_)) = client.call::<M>(params).await {
                let _ = trouble.send(failed(error));
            }
        });
    }

    fn stopped(&mut self) -> CliError {
        let (said, what) = if self.is_owner() {
            ("■ stopping: streams are sealed, running commands go on", "the run stays as it is")
        } else {
            ("■ leaving: the owner of the home goes on", "the run goes on in the owner of the home")
        };
        self.screen.say(said);
        CliError::Failed {
            exit: Exit::Stopped,
            what: format!("stopped by a signal; {what}"),
            hint: "`limulus resume` takes it up".into(),
        }
    }
}

impl End {
    /// How a command ends that came to this.
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
        let mut again = signal(SignalKind::interrupt())?;
        let quits = tokio::spawn(async move {
            for _ in 0..INTERRUPTS {
                again.recv().await;
            }
            super::agent::quit();
        });
        Ok(Self { interrupt: signal(SignalKind::interrupt())?, terminate: signal(SignalKind::terminate())?, quits })
    }
}

/// A watcher owns nothing and ends nothing: a signal ends it at any moment, also while it waits for an owner.
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

/// Asks the owner for something that is done when it is answered; becomes the owner where there is none.
pub(crate) async fn change<T>(
    globals: &Globals,
    writer: &WriterArgs,
    call: impl AsyncFn(&Client) -> Result<T, ClientError>,
) -> Result<T, CliError> {
    let config = Arc::new(Config::load(&globals.home, &globals.environment, writer.flags())?);
    let mut follower = Follower::open(globals, config, writer, 1).await?;
    let answer = loop {
        match call(follower.client()).await {
            Ok(answer) => break Ok(answer),
            Err(error) if is_gone(&error) => follower.reopen().await?,
            Err(error) => break Err(failed(error)),
        }
    };
    let closed = follower.close(End::of(&answer)).await;
    answer.and_then(|answer| closed.map(|()| answer))
}

/// Whether a person can be asked on this terminal.
pub(crate) fn can_ask() -> bool {
    std::io::stdin().is_terminal() && std::io::stderr().is_terminal()
}

/// A line of a session; nothing where this version does not know it.
fn read(frame: &EventFrame) -> Option<Box<Event>> {
    if frame.event != AGENT_EVENT {
        return None;
    }
    Event::deserialize(&frame.payload).ok().map(Box::new)
}

/// What a connection is told beside; nothing where this version does not know it.
fn notice<'a, N: Notice + Deserialize<'a>>(frame: &'a EventFrame) -> Option<N> {
    N::deserialize(&frame.payload).ok()
}

/// What only the owner knows: notes are shown, a broken store ends the command.
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
