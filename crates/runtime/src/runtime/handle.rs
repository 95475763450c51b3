//! The handle of a session.

use std::fmt;
use std::sync::{Arc, Weak};

use engine::tables::limits::MESSAGE_BYTES;
use engine::{Acknowledgement, BranchId, Command, Content, Decision, EditedCall, Refusal, SessionId};
use tokio::sync::oneshot;
use uuid::Uuid;

use super::{Error, Shared};
use crate::actor::Offer;
use crate::sessions::Reading;
use crate::supervise::{Name, supervise};

/// The handle of a session. Its actor may end while the session is idle; the next command starts another one.
#[derive(Clone)]
pub struct Handle {
    /// The key of the session.
    pub key: String,
    agent: String,
    /// A weak reference, so that a handle keeps no runtime and no home open.
    shared: Weak<Shared>,
}

impl fmt::Debug for Handle {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Handle").field("key", &self.key).finish_non_exhaustive()
    }
}

impl Handle {
    /// Opens the session and sends `first` in the same batch; waits until the session is read.
    pub(super) async fn open(
        shared: &Arc<Shared>,
        key: &str,
        agent: &str,
        first: Vec<Command>,
    ) -> Result<(Self, Acknowledgements), Error> {
        let (offers, answers) = offers(first.into_iter().map(|command| masked(shared, command)));
        read(enter(shared, key, agent, offers)?).await?;
        let handle = Self { key: key.to_owned(), agent: agent.to_owned(), shared: Arc::downgrade(shared) };
        Ok((handle, answers))
    }

    /// Sends a command; returns when it is recorded.
    pub async fn command(&self, command: Command) -> Result<Acknowledgement, Refusal> {
        self.send(command).await
    }

    /// Sends a command at once; the answer can be awaited later.
    pub fn send(&self, command: Command) -> impl Future<Output = Result<Acknowledgement, Refusal>> + use<> {
        let (caller, answer) = oneshot::channel();
        let sent = match self.shared.upgrade() {
            Some(shared) => {
                let offer = Offer::command(masked(&shared, command), Some(caller));
                enter(&shared, &self.key, &self.agent, vec![offer])
            }
            None => Err(Error::Leaving),
        };
        async move {
            read(sent?).await?;
            answer.await.map_err(|_| gone())?
        }
    }
}

/// The command without the secrets of the configuration in its texts: they are masked before anything is recorded. The
/// message says how many there were.
fn masked(shared: &Shared, mut command: Command) -> Command {
    let mask = |content: &mut Content| {
        // A text that is too long is refused.
        let text = std::str::from_utf8(&content.bytes).ok().filter(|text| text.len() as u64 <= MESSAGE_BYTES)?;
        let (text, count) = shared.resolver.secrets().mask_counted(text)?;
        *content = Content::text(content.body.kind, &text);
        Some(count)
    };
    match &mut command {
        Command::Message { content, options, overrides, .. } => {
            options.masked = mask(content).unwrap_or_default();
            for text in [&mut overrides.system, &mut overrides.append_system].into_iter().flatten() {
                *text = shared.resolver.secrets().mask(text).into();
            }
        }
        Command::Compact { focus, .. } => drop(mask(focus)),
        Command::Label { title: Some(title), .. } => drop(mask(title)),
        // The model receives these. Whoever writes a secret into arguments means it.
        Command::Answer { decision: Decision::Deny { reason: Some(text) }, .. }
        | Command::Answer { decision: Decision::Once { edited: Some(EditedCall { shown: text, .. }) }, .. } => {
            *text = shared.resolver.secrets().mask(text);
        }
        Command::Answer { decision: Decision::Answered { text }, .. } => drop(mask(text)),
        _ => {}
    }
    command
}

/// Sends these to the session, which is opened if it has no actor.
fn enter(shared: &Arc<Shared>, key: &str, agent: &str, offers: Vec<Offer>) -> Result<Reading, Error> {
    if let Some(error) = shared.broken.borrow().clone() {
        return Err(error.into());
    }
    let (reading, new) = shared.sessions.send(key, offers)?;
    if let Some(new) = new {
        shared.commit_relay.start();
        let name = Name { key: key.to_owned(), agent: agent.to_owned() };
        tokio::spawn(supervise(Arc::clone(shared), name, new));
    }
    Ok(reading)
}

/// Waits until a session is read.
async fn read(mut reading: Reading) -> Result<(), Error> {
    let read = reading.wait_for(Option::is_some).await.map_err(|_| gone())?;
    read.clone().expect("waited for")
}

fn gone() -> Refusal {
    Refusal::Unavailable { reason: "the session has stopped".into() }
}

pub(crate) fn create(key: &str, agent: &str) -> Offer {
    let command = Command::Create {
        session: SessionId(Uuid::now_v7()),
        key: key.to_owned(),
        agent: agent.to_owned(),
        branch: BranchId(Uuid::now_v7()),
    };
    Offer::command(command, None)
}

/// One answer for each command that was sent with the opening, in order.
pub type Acknowledgements = Vec<oneshot::Receiver<Result<Acknowledgement, Refusal>>>;

fn offers(commands: impl Iterator<Item = Command>) -> (Vec<Offer>, Acknowledgements) {
    let pairs = commands.map(|command| {
        let (caller, answer) = oneshot::channel();
        (Offer::command(command, Some(caller)), answer)
    });
    pairs.unzip()
}
