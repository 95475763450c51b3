//! A served home with an unfinished run.

use serde_json::Value;

use super::{Finished, Home, Process, pids, until};

/// A command that runs until the file `go` exists.
pub(crate) const HOLD: &str = "run `echo $$ >> pids; until test -e go; do sleep 0.02; done`";

/// A served home with a run that executes such a command.
pub(crate) struct Busy {
    pub(crate) home: Home,
    _owner: Process,
    run: Option<Process>,
}

impl Busy {
    pub(crate) fn new() -> Self {
        let home = Home::new();
        let owner = home.start(&["serve"]);
        owner.until_err("serving");
        let run = home.start(&["agent", "--yes", "-m", HOLD]);
        until("a command that holds", || pids(&home.file("pids")).len() == 1);
        Self { home, _owner: owner, run: Some(run) }
    }

    /// The output of `runs explain`.
    pub(crate) fn explained(&self) -> Value {
        self.home.json(&["runs", "explain"])
    }

    pub(crate) fn send(&self, mode: &str, text: &str) -> Value {
        self.home.json(&["send", "--mode", mode, text])
    }

    /// Ends the command and waits for the end of the run.
    pub(crate) fn finish(&mut self) -> Finished {
        self.run.take().expect("it has not ended").finish()
    }

    pub(crate) fn let_go(&self) {
        self.home.put("go", "");
    }

    /// The receipt of a message when it is settled.
    pub(crate) fn receipt(&self, sent: &Value) -> Value {
        let message = sent["message"].as_str().expect("a text").to_owned();
        let receipt = || self.home.json(&["receipt", &message]);
        until("the end of a message", || {
            ["ended", "cancelled", "dropped"].contains(&receipt()["state"].as_str().expect("a text"))
        });
        receipt()
    }

    /// The user messages in the order of the conversation.
    pub(crate) fn said(&self) -> Vec<String> {
        let shown = self.home.json(&["sessions", "show"]);
        let items = shown["transcript"].as_array().expect("a list").iter().filter(|item| item["role"] == "user");
        items.map(|item| item["text"].as_str().expect("a text").to_owned()).collect()
    }
}
