//! What is typed while a run is followed: a steer of that run, shown once it is recorded.

use std::collections::BTreeSet;
use std::time::Duration;

use client::is_gone;
use engine::tables::routing::OnlyIf;
use engine::{MessageId, QueueMode};
use protocol::event::{QueueLine, Stream};
use protocol::method::{Agent, AgentAnswer, AgentParams};
use protocol::{Client, Event};
use tokio::sync::mpsc;
use tokio::time::timeout;
use uuid::Uuid;

use crate::error::failed;
use crate::keyboard::{Entered, Keyboard, Typed};
use crate::render::Screen;

/// What is said of a message that is too long to be typed.
const TOO_LONG: &str = "not sent: it is longer than 64 KiB; put it into a file of the workspace and name the file";

/// Typed messages that may wait for the answer of the owner: more than a person types while one is on its way.
const UNDERWAY: usize = 16;

/// How long the end of a command waits for the answer to what was typed last.
const PATIENCE: Duration = Duration::from_secs(5);

/// The keyboard of a follower, and what became of what was typed.
pub(crate) struct Steering {
    keyboard: Keyboard,
    /// The session that is steered.
    key: String,
    sent: (mpsc::Sender<Sent>, mpsc::Receiver<Sent>),
    /// Recorded, and taken by no run yet.
    open: Vec<MessageId>,
    /// Settled, perhaps before it was known here that it was recorded.
    settled: BTreeSet<MessageId>,
    /// The number of messages on their way.
    underway: usize,
}

/// A typed message that was sent.
struct Sent {
    text: String,
    /// What the owner answered, or why it is not recorded.
    answer: Result<AgentAnswer, String>,
}

/// What a follower has to do.
pub(crate) enum Step {
    Typed(Typed),
    Answered(Box<Answered>),
}

/// The answer to a typed message.
pub(crate) struct Answered(Sent);

impl Steering {
    /// Of a session, if this terminal has a keyboard.
    pub(crate) fn of(key: &str) -> Option<Self> {
        let keyboard = Keyboard::open()?;
        Some(Self {
            keyboard,
            key: key.to_owned(),
            sent: mpsc::channel(UNDERWAY),
            open: vec![],
            settled: BTreeSet::new(),
            underway: 0,
        })
    }

    /// A question takes the line: what is half typed comes back afterwards.
    pub(crate) fn leave_to_question(&mut self, screen: &mut Screen) {
        self.keyboard.turn_off();
        screen.set_input_line(None);
    }

    /// Whether a question may be asked: nobody is typing.
    pub(crate) fn is_quiet(&self) -> bool {
        self.keyboard.is_quiet()
    }

    /// Reads the keys from now on, and shows the line.
    pub(crate) fn read_keys(&mut self, screen: &mut Screen) {
        self.keyboard.turn_on();
        screen.set_input_line(self.keyboard.line());
    }

    /// Waits for keys and answers. Cancel-safe.
    pub(crate) async fn next(&mut self) -> Step {
        tokio::select! {
            biased;
            Some(sent) = self.sent.1.recv() => Step::Answered(Box::new(Answered(sent))),
            typed = self.keyboard.typed() => Step::Typed(typed),
        }
    }

    /// Takes in what was typed, or what became of it.
    pub(crate) fn take(&mut self, step: Step, client: &Client, screen: &mut Screen) {
        match step {
            Step::Typed(Typed::Changed) => {}
            Step::Typed(Typed::Entered(lines)) => {
                for line in lines {
                    match line {
                        Entered::Line(text) => self.send(text, client, screen),
                        Entered::TooLong => screen.say(TOO_LONG),
                    }
                }
            }
            Step::Typed(Typed::Suspend) => {
                screen.set_input_line(None);
                screen.hide_status();
                self.keyboard.suspend();
            }
            Step::Answered(answered) => self.answered(*answered, screen),
        }
    }

    /// Sends a message to the run. It is shown when it is recorded.
    fn send(&mut self, text: String, client: &Client, screen: &mut Screen) {
        if self.underway == UNDERWAY {
            return screen.say(&format!("not sent: {text}\n(the owner has not answered {UNDERWAY} others yet)"));
        }
        let params = AgentParams {
            message: text.clone(),
            session_key: self.key.clone(),
            idempotency_key: Uuid::now_v7().to_string(),
            mode: Some(QueueMode::Steer),
            // If the run has ended meanwhile, nobody would follow another one.
            only_if: Some(OnlyIf::Active),
            ..AgentParams::default()
        };
        screen.sends(&params.idempotency_key);
        self.underway += 1;
        let (client, sent) = (client.clone(), self.sent.0.clone());
        tokio::spawn(async move {
            let answer = match client.ask::<Agent>(params) {
                Ok(mut answers) => answers.next().await,
                Err(error) => Err(error),
            };
            let answer = answer.map_err(|error| {
                if is_gone(&error) { "the owner of the home is gone".to_owned() } else { failed(error).to_string() }
            });
            // There is space: no more are on their way.
            let _ = sent.try_send(Sent { text, answer });
        });
    }

    fn answered(&mut self, Answered(Sent { text, answer }): Answered, screen: &mut Screen) {
        self.underway -= 1;
        match answer {
            Ok(AgentAnswer::Accepted { message, .. }) => {
                if !self.settled.remove(&message) {
                    self.open.push(message);
                }
                screen.say(&format!("› steer: {text}"));
            }
            Ok(AgentAnswer::Command { text }) => screen.say(&text),
            Ok(AgentAnswer::Ok(_) | AgentAnswer::Error(_) | AgentAnswer::Timeout(_)) => {}
            Err(why) => screen.say(&format!("not sent: {text}\n({why})")),
        }
    }

    /// Takes in what became of messages.
    pub(crate) fn see(&mut self, event: &Event) {
        if let Stream::Queue(QueueLine::Settled { message, .. }) = &event.what {
            let open = self.open.len();
            self.open.retain(|of| of != message);
            if self.open.len() == open && self.underway > 0 {
                self.settled.insert(*message);
            }
        }
    }

    /// Waits until it is known of each message whether it is recorded.
    pub(crate) async fn await_answers(&mut self, screen: &mut Screen) {
        while self.underway > 0 {
            let Ok(Some(sent)) = timeout(PATIENCE, self.sent.1.recv()).await else { return };
            self.answered(Answered(sent), screen);
        }
    }

    /// A recorded message that the run did not take: it has a run of its own.
    pub(crate) fn pop_open(&mut self) -> Option<MessageId> {
        if self.open.is_empty() { None } else { Some(self.open.remove(0)) }
    }

    /// Gives the terminal back, and says what was typed and not sent.
    pub(crate) fn finish(self, screen: &mut Screen) {
        screen.set_input_line(None);
        for text in self.keyboard.finish() {
            screen.say(&format!("not sent: {text}"));
        }
    }
}
