//! A sender of messages, each with its own key; it repeats a message until it is answered.

use engine::RunId;
use model_server::rng::Rng;
use protocol::Client;
use protocol::method::{Agent, AgentAnswer, AgentParams};
use tokio::sync::watch;

use super::connector::{Connector, ask_again};

/// The answers that a sender got.
#[derive(Debug, Default)]
pub(super) struct Sent {
    /// Key, run and the text of the answer, in order.
    pub(super) messages: Vec<Message>,
    pub(super) violations: Vec<String>,
}

/// A message that was answered.
#[derive(Debug, Clone)]
pub(super) struct Message {
    pub(super) key: String,
    pub(super) run: RunId,
    pub(super) text: String,
    /// How often it was sent.
    pub(super) times: u32,
}

/// A client that sends messages until it must stop.
pub(super) struct Sender {
    pub(super) name: String,
    pub(super) connector: Connector,
    pub(super) rng: Rng,
    pub(super) sessions: Vec<String>,
    /// True once no further message must be sent.
    pub(super) enough: watch::Receiver<bool>,
}

impl Sender {
    /// Sends until it must stop, and waits for the answer to the last message.
    pub(super) async fn work(mut self) -> Sent {
        let mut sent = Sent::default();
        let mut client = None;
        for number in 0.. {
            if *self.enough.borrow() {
                break;
            }
            let key = format!("{}-{number}", self.name);
            let params = self.message(&key);
            match self.until_answered(params, &mut client).await {
                Ok(message) => sent.messages.push(message),
                Err(violation) => {
                    sent.violations.push(format!("{key}: {violation}"));
                    break;
                }
            }
        }
        sent
    }

    fn message(&mut self, key: &str) -> AgentParams {
        let session = &self.sessions[self.rng.below(self.sessions.len() as u64) as usize];
        let tokens = 4 + self.rng.below(24);
        let mut message = format!("{key} tokens={tokens} delay_ms={}", self.rng.below(6));
        if self.rng.below(3) == 0 {
            message = format!("{message}\nexec:echo {key} >> ledger");
        }
        AgentParams {
            message,
            session_key: session.clone(),
            idempotency_key: key.to_owned(),
            mode: Some(engine::QueueMode::Followup),
            interrupt: None,
            model: None,
            timeout_ms: None,
            allow: false,
            workspace: None,
            attachments: vec![],
            ..AgentParams::default()
        }
    }

    async fn until_answered(&self, params: AgentParams, client: &mut Option<Client>) -> Result<Message, String> {
        let mut known: Option<RunId> = None;
        for times in 1.. {
            if client.is_none() {
                *client = Some(self.connector.connect().await.0);
            }
            let connected = client.as_ref().ok_or("no connection")?;
            let mut answers = match connected.ask::<Agent>(params.clone()) {
                Ok(answers) => answers,
                Err(error) => {
                    ask_again(&error)?;
                    *client = None;
                    continue;
                }
            };
            loop {
                match answers.next().await {
                    Ok(AgentAnswer::Accepted { run_id, .. }) => {
                        if known.is_some_and(|known| known != run_id) {
                            return Err(format!("it was run {known:?}, sent again it is run {run_id}"));
                        }
                        known = Some(run_id);
                    }
                    Ok(AgentAnswer::Ok(ended)) if known == Some(ended.run_id) => {
                        let key = params.idempotency_key.clone();
                        return Ok(Message { key, run: ended.run_id, text: ended.text, times });
                    }
                    Ok(answer) => return Err(format!("it was answered with {answer:?}")),
                    Err(error) => {
                        ask_again(&error)?;
                        *client = None;
                        break;
                    }
                }
            }
        }
        unreachable!("it is sent until it is answered")
    }
}
