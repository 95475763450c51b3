//! What the commands that write have in common: own the home, run its sessions, draw them, stop in order.

use std::collections::{BTreeMap, VecDeque};
use std::io::IsTerminal as _;
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use engine::{Answer, Command, Refusal};
use gateway::SessionKey;
use gateway::events::{Line, Lines};
use journal::{Journal, Read, Sqlite};
use protocol::Event;
use runtime::{Handle, Linger, Options, Parked, Published, Question, Runtime};
use tokio::signal::unix::{Signal, SignalKind, signal};
use tokio::sync::{mpsc, watch};

use crate::args::WriterArgs;
use crate::config::{Config, Globals};
use crate::error::{CliError, Exit};
use crate::render::{Screen, Style};
use crate::resolver::ConfigResolver;

/// How often another owner is looked for with `--wait`, and the spinner turns.
const TICK: Duration = Duration::from_millis(120);

/// A home that this process owns, with its screen.
pub(crate) struct Writer {
    pub(crate) runtime: Runtime,
    pub(crate) screen: Screen,
    lines: Told,
    questions: mpsc::UnboundedReceiver<Question>,
    /// What is to be said of a configuration that has changed.
    notes: mpsc::UnboundedReceiver<String>,
    answers: (mpsc::UnboundedSender<Answered>, mpsc::UnboundedReceiver<Answered>),
    handles: Vec<Handle>,
    broken: watch::Receiver<Option<journal::Error>>,
    parked: watch::Receiver<BTreeMap<String, Parked>>,
    signals: Signals,
}

/// What the runtime tells, line by line.
struct Told {
    published: mpsc::UnboundedReceiver<Published>,
    lines: Lines,
    waiting: VecDeque<Line>,
}

impl Told {
    /// The next line, in order. One that is dropped loses nothing.
    async fn next(&mut self) -> Option<Event> {
        loop {
            if let Some(line) = self.waiting.pop_front() {
                return Some(line.event);
            }
            let published = self.published.recv().await?;
            self.waiting.extend(self.lines.of(&published));
        }
    }

    /// The next line, if it is there already.
    fn now(&mut self) -> Option<Event> {
        loop {
            if let Some(line) = self.waiting.pop_front() {
                return Some(line.event);
            }
            let published = self.published.try_recv().ok()?;
            self.waiting.extend(self.lines.of(&published));
        }
    }
}

/// A question with the answer of whoever sits at the terminal.
type Answered = (Question, bool);

struct Signals {
    interrupt: Signal,
    terminate: Signal,
}

/// What a writer waits for.
pub(crate) enum Happening {
    /// Something was recorded, and is drawn.
    Told(Box<Event>),
    /// Ctrl-C.
    Interrupt,
}

impl Writer {
    /// Owns the home of this configuration and starts its runtime.
    pub(crate) async fn open(
        globals: &Globals,
        config: Arc<Config>,
        args: &WriterArgs,
        sessions: usize,
    ) -> Result<Self, CliError> {
        let journal = own(&globals.home, args.wait).await?;
        let (events_in, events) = mpsc::unbounded_channel();
        let (questions_in, questions) = mpsc::unbounded_channel();
        let (notes_in, notes) = mpsc::unbounded_channel();
        let on_terminal = std::io::stdin().is_terminal() && std::io::stderr().is_terminal();
        let reader: Arc<dyn Read> = journal.clone();
        let options = Options {
            home: globals.home.clone(),
            supervisor: std::env::current_exe()
                .map_err(|error| CliError::bug(&format!("no path of this program: {error}")))?,
            lane: config.lane_main(),
            models: models::ModelSet::new().with_offline(models::Offline::with_pace(config.offline_pace())),
            resolver: Box::new(ConfigResolver::new(Arc::clone(&config), notes_in)),
            events: Some(events_in),
            questions: on_terminal.then(|| Box::new(questions_in) as _),
            linger: Linger::default(),
        };
        let runtime = Runtime::new(journal, options);
        let signals = || -> std::io::Result<Signals> {
            Ok(Signals { interrupt: signal(SignalKind::interrupt())?, terminate: signal(SignalKind::terminate())? })
        };
        Ok(Self {
            broken: runtime.broken(),
            parked: runtime.parked(),
            runtime,
            screen: Screen::new(Style::of_stdout(args.json, sessions), sessions),
            lines: Told { published: events, lines: Lines::new(reader), waiting: VecDeque::new() },
            questions,
            notes,
            answers: mpsc::unbounded_channel(),
            handles: vec![],
            signals: signals().map_err(|error| CliError::bug(&format!("no signals: {error}")))?,
        })
    }

    /// Takes up a session, asking for `first` in the batch that opens it; gives their answers.
    pub(crate) async fn session(&mut self, key: &SessionKey, first: Vec<Command>) -> Result<Vec<Answer>, CliError> {
        let (handle, answers) = self.runtime.open(&key.to_string(), &key.agent, first).await?;
        self.handles.push(handle);
        let mut given = vec![];
        for answer in answers {
            let gone = || Refusal::Unavailable { reason: "the session has stopped".into() };
            match answer.await.unwrap_or_else(|_| Err(gone())) {
                Ok(answer) => given.push(answer),
                Err(refusal) => return Err(self.refused(refusal)),
            }
        }
        Ok(given)
    }

    /// The store's own error says more than that the answer is not to be had.
    fn refused(&mut self, refusal: Refusal) -> CliError {
        let parked = || self.parked.borrow().values().next().map(|parked| parked.error.clone());
        let stored = self.broken.borrow_and_update().clone().or_else(parked);
        match (refusal, stored) {
            (Refusal::Unavailable { .. }, Some(error)) => error.into(),
            (refusal, _) => refusal.into(),
        }
    }

    /// Waits for the next thing that matters, drawing and asking meanwhile.
    pub(crate) async fn next(&mut self) -> Result<Happening, CliError> {
        loop {
            tokio::select! {
                biased;
                Some(event) = self.lines.next() => {
                    self.screen.draw(&event);
                    return Ok(Happening::Told(Box::new(event)));
                }
                Some(note) = self.notes.recv() => self.screen.say(&note),
                Some(question) = self.questions.recv() => self.put(question),
                Some((question, allow)) = self.answers.1.recv() => self.answer(question, allow).await,
                Ok(()) = self.broken.changed() => {
                    if let Some(error) = self.broken.borrow_and_update().clone() {
                        self.screen.hide_status();
                        return Err(error.into());
                    }
                }
                Ok(()) = self.parked.changed() => {
                    let parked = self.parked.borrow_and_update().clone();
                    self.screen.park(&parked);
                }
                _ = self.signals.interrupt.recv() => return Ok(Happening::Interrupt),
                _ = self.signals.terminate.recv() => {
                    self.screen.say("■ stopping: streams are sealed, running commands go on");
                    return Err(stopped());
                }
                () = tokio::time::sleep(TICK) => self.screen.tick(),
            }
        }
    }

    /// Ends the runs of all open sessions; a second Ctrl-C ends this process at once, as a crash would.
    pub(crate) fn abort_all(&mut self) {
        self.screen.say("■ aborting; Ctrl-C again quits at once");
        for handle in &self.handles {
            // A session without a run refuses, which is what is wanted of it.
            drop(handle.send(Command::Abort { run: None }));
        }
    }

    /// Draws what was committed by now.
    pub(crate) fn catch_up(&mut self) {
        while let Some(event) = self.lines.now() {
            self.screen.draw(&event);
        }
    }

    /// Leaves in order.
    pub(crate) async fn close(self) -> Result<(), CliError> {
        let Self { runtime, mut screen, mut lines, mut notes, .. } = self;
        screen.hide_status();
        runtime.shutdown().await?;
        while let Some(event) = lines.now() {
            screen.draw(&event);
        }
        while let Ok(note) = notes.try_recv() {
            screen.say(&note);
        }
        screen.hide_status();
        Ok(())
    }

    /// Reads the answer on a thread of its own: a terminal cannot be read without waiting.
    fn put(&mut self, question: Question) {
        self.screen.ask(&format!("? allow: {} [y/N]", question.text));
        let answers = self.answers.0.clone();
        std::thread::spawn(move || {
            let mut line = String::new();
            let read = std::io::stdin().read_line(&mut line).is_ok();
            let allow = read && matches!(line.trim().to_lowercase().as_str(), "y" | "yes" | "是" | "好");
            let _ = answers.send((question, allow));
        });
    }

    async fn answer(&mut self, question: Question, allow: bool) {
        let Some(handle) = self.handles.iter().find(|handle| handle.key == question.key) else { return };
        let Question { call, fingerprint, .. } = question;
        let by = "the user, on the terminal".to_owned();
        if let Err(refusal) = handle.command(Command::Answer { call, fingerprint, allow, by }).await {
            self.screen.say(&format!("limulus: {refusal}"));
        }
    }
}

fn stopped() -> CliError {
    CliError::Failed {
        exit: Exit::Stopped,
        what: "stopped by a signal; the run stays as it is".into(),
        hint: "`limulus resume` takes it up".into(),
    }
}

/// Owns a home, as soon as nobody else does.
pub(super) async fn own(home: &Path, wait: bool) -> Result<Arc<Sqlite>, CliError> {
    let mut told = false;
    loop {
        match Sqlite::own(home) {
            Ok(journal) => {
                debug_assert!(journal.epoch().0 > 0);
                return Ok(Arc::new(journal));
            }
            Err(error @ journal::Error::Owned { .. }) if wait => {
                if !std::mem::replace(&mut told, true) {
                    eprintln!("limulus: {error}; waiting");
                }
                tokio::time::sleep(TICK).await;
            }
            Err(error) => return Err(error.into()),
        }
    }
}
