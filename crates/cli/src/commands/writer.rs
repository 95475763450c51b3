//! What the commands that write have in common: own the home, run its sessions, draw them, stop in order.

use std::collections::BTreeMap;
use std::io::IsTerminal as _;
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use engine::{Answer, Command, Refusal};
use gateway::SessionKey;
use journal::{Journal, Read, Sqlite};
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
    events: mpsc::UnboundedReceiver<Published>,
    questions: mpsc::UnboundedReceiver<Question>,
    /// What is to be said of a configuration that has changed.
    notes: mpsc::UnboundedReceiver<String>,
    answers: (mpsc::UnboundedSender<Answered>, mpsc::UnboundedReceiver<Answered>),
    handles: Vec<Handle>,
    broken: watch::Receiver<Option<journal::Error>>,
    parked: watch::Receiver<BTreeMap<String, Parked>>,
    signals: Signals,
}

/// A question with the answer of whoever sits at the terminal.
type Answered = (Question, bool);

struct Signals {
    interrupt: Signal,
    terminate: Signal,
}

/// What a writer waits for.
pub(crate) enum Happening {
    /// A batch was committed, and is drawn.
    Published(Published),
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
            screen: Screen::new(Style::of_stdout(args.json, sessions), reader, sessions),
            events,
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
                Some(published) = self.events.recv() => {
                    self.screen.draw(&published);
                    return Ok(Happening::Published(published));
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
        draw_waiting(&mut self.events, &mut self.screen);
    }

    /// Leaves in order.
    pub(crate) async fn close(mut self) -> Result<(), CliError> {
        self.screen.hide_status();
        self.runtime.shutdown().await?;
        draw_waiting(&mut self.events, &mut self.screen);
        while let Ok(note) = self.notes.try_recv() {
            self.screen.say(&note);
        }
        self.screen.hide_status();
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

fn draw_waiting(events: &mut mpsc::UnboundedReceiver<Published>, screen: &mut Screen) {
    while let Ok(published) = events.try_recv() {
        screen.draw(&published);
    }
}

fn stopped() -> CliError {
    CliError::Failed {
        exit: Exit::Stopped,
        what: "stopped by a signal; the run stays as it is".into(),
        hint: "`limulus resume` takes it up".into(),
    }
}

async fn own(home: &Path, wait: bool) -> Result<Arc<Sqlite>, CliError> {
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
