//! How soon a run in progress reacts to a steer, a pause or an abort: measured at the model server, or at the event of
//! the run's end.

use std::path::Path;
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use engine::QueueMode;
use model_server::ModelServer;
use protocol::method::{AbortParams, Agent, PauseParams, RunsAbort, RunsPause};
use protocol::{Answers, Client};

use super::message;
use super::owner::Owner;
use crate::Problem;
use crate::table::{Line, Row, Samples, Target};

/// How often each is timed.
const TIMES: usize = 200;
/// How long to wait for anything before the measurement fails.
const LIMIT: Duration = Duration::from_secs(30);
/// How often a condition is checked.
const LOOK: Duration = Duration::from_micros(100);

/// Measures; it creates a home in this folder.
pub(super) async fn measure(binary: &Path, folder: &Path, server: ModelServer) -> Result<Vec<Line>, Problem> {
    let owner = Owner::start(binary, &folder.join("control"), &server.base_url())?;
    let (client, _events) = owner.connect().await?;
    let control = Control { client, server, workspace: folder.join("control/workspace") };
    let mut lines = vec![];
    for figure in [
        (
            "serve: a running command ends, until the request with the steer is at the model server",
            5.0,
            control.steers().await?,
        ),
        ("serve: a pause in mid-stream, until the model server is hung up on", 20.0, control.pauses().await?),
        ("serve: an abort of a running command, until the end of its run is published", 100.0, control.aborts().await?),
    ] {
        let (what, most, ms) = figure;
        lines.push(Row { what, target: Target::AtMost(most), measured: Samples::new("ms", ms) }.into());
    }
    Ok(lines)
}

struct Control {
    client: Client,
    server: ModelServer,
    workspace: std::path::PathBuf,
}

impl Control {
    /// Sends a message; returns its answers once it is accepted.
    async fn send(&self, session: &str, text: &str, mode: Option<QueueMode>) -> Result<Answers<Agent>, Problem> {
        let mut answers =
            self.client.ask::<Agent>(protocol::method::AgentParams { mode, allow: true, ..message(session, text) })?;
        answers.next().await?;
        Ok(answers)
    }

    /// The command writes down when it ends.
    async fn steers(&self) -> Result<Vec<f64>, Problem> {
        let mut ms = vec![];
        for at in 0..TIMES {
            let (session, go, ended) = (format!("steer-{at}"), format!("go-{at}"), format!("ended-{at}"));
            let command =
                format!("tokens=1\nexec:touch on-{at}; until test -e {go}; do sleep 0.002; done; date +%s%N > {ended}");
            let mut answers = self.send(&session, &command, None).await?;
            until("a running command", || self.workspace.join(format!("on-{at}")).exists()).await?;
            let steered = format!("tokens=1 steer {at}");
            let mut steer = self.send(&session, &steered, Some(QueueMode::Steer)).await?;
            std::fs::write(self.workspace.join(go), "")?;
            let asked = || self.server.seen().into_iter().rev().find(|seen| seen.script.ends_with(&steered));
            until("the request with the steer", || asked().is_some()).await?;
            let ended: f64 = std::fs::read_to_string(self.workspace.join(ended))?.trim().parse()?;
            let asked = asked().ok_or("no request")?.at.duration_since(UNIX_EPOCH)?;
            ms.push(asked.as_secs_f64() * 1e3 - ended / 1e6);
            answers.next().await?;
            steer.next().await?;
        }
        Ok(ms)
    }

    async fn pauses(&self) -> Result<Vec<f64>, Problem> {
        let mut ms = vec![];
        for at in 0..TIMES {
            let name = format!("pause-{at}");
            let (requests, left) = (self.server.requests(), self.server.hung_up().len());
            let mut answers = self.send(&name, "tokens=5000 delay_ms=1", None).await?;
            until("a request", || self.server.requests() > requests).await?;
            // In the middle of its answer.
            tokio::time::sleep(Duration::from_millis(10)).await;
            let asked = SystemTime::now();
            let session = Some(name);
            self.client.call::<RunsPause>(PauseParams { run: None, session: session.clone(), freeze: false }).await?;
            until("a connection that is hung up", || self.server.hung_up().len() > left).await?;
            ms.push(self.server.hung_up()[left].duration_since(asked)?.as_secs_f64() * 1e3);
            // The rest of its answer is not needed.
            self.client.call::<RunsAbort>(AbortParams { session, ..AbortParams::default() }).await?;
            answers.next().await?;
        }
        Ok(ms)
    }

    async fn aborts(&self) -> Result<Vec<f64>, Problem> {
        let mut ms = vec![];
        for at in 0..TIMES {
            let (session, on) = (format!("abort-{at}"), format!("long-{at}"));
            let mut answers = self.send(&session, &format!("exec:touch {on}; sleep 1000"), None).await?;
            until("a running command", || self.workspace.join(&on).exists()).await?;
            let asked = Instant::now();
            self.client.call::<RunsAbort>(AbortParams { session: Some(session), ..AbortParams::default() }).await?;
            answers.next().await?;
            ms.push(asked.elapsed().as_secs_f64() * 1e3);
        }
        Ok(ms)
    }
}

/// Waits until a condition holds, while the connection is served.
async fn until(what: &str, mut is_so: impl FnMut() -> bool) -> Result<(), Problem> {
    let began = Instant::now();
    while !is_so() {
        if began.elapsed() > LIMIT {
            return Err(format!("{what} did not come").into());
        }
        tokio::time::sleep(LOOK).await;
    }
    Ok(())
}
