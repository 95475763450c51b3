//! Asks the owner what a run waits for if it waits for long, in the words of `limulus runs explain`.

use engine::RunId;
use protocol::Client;
use protocol::method::{RunParams, RunsExplain};
use tokio::sync::mpsc;

use crate::render::Screen;

/// Answers that wait to be shown: one is asked for at a time, seconds apart.
const ANSWERS: usize = 4;

/// What the owner answers; None if it has nothing to say.
pub(super) type Explanation = (RunId, Option<String>);

/// The questions that are open.
pub(super) struct Explaining {
    answers: (mpsc::Sender<Explanation>, mpsc::Receiver<Explanation>),
}

impl Default for Explaining {
    fn default() -> Self {
        Self { answers: mpsc::channel(ANSWERS) }
    }
}

impl Explaining {
    /// Asks, if the screen wants to know.
    pub(super) fn ask(&self, screen: &mut Screen, client: &Client) {
        let Some(run) = screen.wants_explanation() else { return };
        let (client, answers) = (client.clone(), self.answers.0.clone());
        tokio::spawn(async move {
            let params = RunParams { run: Some(run.to_string()), ..RunParams::default() };
            // An owner that cannot answer says nothing: the status line stays as it is.
            let waits_for = client.call::<RunsExplain>(params).await.ok().and_then(|explained| explained.waits_for);
            let _ = answers.try_send((run, waits_for));
        });
    }

    /// Waits for the next answer. Cancel-safe.
    pub(super) async fn next(&mut self) -> Option<Explanation> {
        self.answers.1.recv().await
    }
}
