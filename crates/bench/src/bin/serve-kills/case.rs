//! One home: its owner is killed many times, then everything settles and is checked.

use std::path::Path;
use std::sync::PoisonError;
use std::time::{Duration, Instant};

use model_server::rng::Rng;
use tokio::sync::watch;
use tokio::task::JoinSet;

use super::checks;
use super::connector::Connector;
use super::owner::KillHome;
use super::sender::{Sender, Sent};
use super::truth::Truth;
use super::watcher::{HOME, Shared, Watcher};

/// Sessions of a home.
const SESSIONS: usize = 3;
/// Watchers of the events; the last reads the whole home, the others every session by itself.
const WATCHERS: usize = 3;
const SENDERS: u64 = 3;
/// The longest life of an owner that is to be killed, after its first line, microseconds.
const LIFE_US: u64 = 120_000;
/// How long the last owner may take to finish everything: after that it hangs.
const SETTLED: Duration = Duration::from_mins(2);

/// A case and its parameters.
pub(super) struct Case<'a> {
    pub(super) binary: &'a Path,
    pub(super) base_url: &'a str,
    pub(super) kills: u64,
    pub(super) rng: Rng,
}

/// The result of one case, or of all.
#[derive(Debug, Default)]
pub(super) struct Verdict {
    pub(super) kills: u64,
    pub(super) messages: usize,
    /// Messages that had to be sent more than once.
    again: usize,
    homes: u64,
    lines: u64,
    received_bytes: usize,
    commands: usize,
    pub(super) violations: Vec<String>,
}

impl Case<'_> {
    /// Runs the case. The error is for what stops the harness.
    pub(super) async fn play(mut self) -> Result<Verdict, String> {
        let kill_home = KillHome::new(self.base_url).map_err(|error| format!("the home cannot be created: {error}"))?;
        let connector = Connector { socket: kill_home.home().join("limulus.sock") };
        let sessions: Vec<String> = (0..SESSIONS).map(|at| format!("agent:main:s{at}")).collect();
        let (enough, is_enough) = watch::channel(false);
        let mut watching = JoinSet::new();
        let seen: Vec<Shared> = (0..WATCHERS).map(|_| Shared::default()).collect();
        for (at, seen) in seen.iter().enumerate() {
            let home = [HOME.to_owned()];
            let followed = if at + 1 == WATCHERS { &home[..] } else { &sessions[..] };
            let sessions = followed.iter().map(|session| (session.clone(), None)).collect();
            watching.spawn(Watcher { connector: connector.clone(), seen: seen.clone(), sessions }.work());
        }
        let mut sending = JoinSet::new();
        for at in 0..SENDERS {
            let (sessions, rng) = (sessions.clone(), Rng::new(self.rng.next()));
            let (name, enough) = (format!("k{at}"), is_enough.clone());
            sending.spawn(Sender { name, connector: connector.clone(), rng, sessions, enough }.work());
        }
        for _ in 0..self.kills {
            let owner = kill_home.serve(self.binary)?;
            tokio::time::sleep(Duration::from_micros(self.rng.below(LIFE_US))).await;
            owner.kill()?;
        }
        let owner = kill_home.serve(self.binary)?;
        enough.send_replace(true);
        let settled = tokio::time::timeout(SETTLED, settle(sending, &seen)).await;
        watching.shutdown().await;
        let (sent, mut wrong) = match settled {
            Ok(sent) => (sent, vec![]),
            Err(_) => (Sent::default(), vec![format!("the last owner had {} s and did not settle", SETTLED.as_secs())]),
        };
        owner.stop()?;
        wrong.extend(sent.violations.iter().cloned());
        let verdict = self.judge(&kill_home, &sent, &seen, wrong)?;
        if !verdict.violations.is_empty() {
            println!("serve-kills: the home is kept in {}", kill_home.keep().display());
        }
        Ok(verdict)
    }

    fn judge(
        &self,
        kill_home: &KillHome,
        sent: &Sent,
        seen: &[Shared],
        mut wrong: Vec<String>,
    ) -> Result<Verdict, String> {
        let truth = Truth::read(&kill_home.home()).map_err(|error| format!("the journal does not read: {error}"))?;
        let ledger = std::fs::read_to_string(kill_home.workspace().join("ledger")).unwrap_or_default();
        let seen: Vec<_> = seen.iter().map(|seen| seen.lock().unwrap_or_else(PoisonError::into_inner)).collect();
        let read: Vec<_> = seen.iter().map(|seen| &**seen).collect();
        wrong.extend(checks::violations(&truth, &read, &sent.messages, &ledger));
        Ok(Verdict {
            kills: self.kills,
            messages: sent.messages.len(),
            again: sent.messages.iter().filter(|message| message.times > 1).count(),
            homes: 1,
            lines: read.iter().map(|seen| seen.lines).sum(),
            received_bytes: read.iter().flat_map(|seen| seen.texts.values()).map(String::len).sum(),
            commands: ledger.lines().count(),
            violations: wrong,
        })
    }
}

/// Waits until every message is answered, and every watcher has read the end of its run.
async fn settle(mut sending: JoinSet<Sent>, seen: &[Shared]) -> Sent {
    let mut all = Sent::default();
    while let Some(sent) = sending.join_next().await {
        match sent {
            Ok(sent) => {
                all.messages.extend(sent.messages);
                all.violations.extend(sent.violations);
            }
            Err(error) => all.violations.push(format!("a sender failed: {error}")),
        }
    }
    let started = Instant::now();
    let has_read = |seen: &Shared| {
        let seen = seen.lock().unwrap_or_else(PoisonError::into_inner);
        !seen.violations.is_empty() || all.messages.iter().all(|message| seen.ends.contains_key(&message.run))
    };
    while !seen.iter().all(has_read) && started.elapsed() < SETTLED / 2 {
        // waits: a watcher notifies nobody of its progress; between two looks only
        tokio::time::sleep(Duration::from_millis(2)).await;
    }
    all
}

impl Verdict {
    pub(super) fn add(&mut self, other: Self) {
        self.kills += other.kills;
        self.messages += other.messages;
        self.again += other.again;
        self.homes += other.homes;
        self.lines += other.lines;
        self.received_bytes += other.received_bytes;
        self.commands += other.commands;
        self.violations.extend(other.violations);
    }

    pub(super) fn text(&self, seconds: f64) -> String {
        let of = |what: &str| self.violations.iter().filter(|violation| violation.contains(what)).count();
        let (lost, doubled) = (of("lost: "), of("doubled: "));
        let mut lines = vec![
            format!(
                "{} SIGKILL of `limulus serve` in {seconds:.1} s: {:.0} a minute, over {} homes, {WATCHERS} watchers and {SENDERS} senders attached",
                self.kills,
                self.kills as f64 / seconds * 60.0,
                self.homes
            ),
            format!(
                "checked: {} messages ({} sent more than once), {} commands, {} lines and {} bytes of text against the journal",
                self.messages, self.again, self.commands, self.lines, self.received_bytes
            ),
            format!("{lost} lost, {doubled} doubled, {} other violations", self.violations.len() - lost - doubled),
        ];
        lines.extend(self.violations.iter().map(|violation| format!("violation: {violation}")));
        lines.join("\n")
    }
}
