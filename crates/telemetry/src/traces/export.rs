//! Spans are sent in groups. A collector that does not answer gets them later; what waits meanwhile has a bound.

use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use reqwest::StatusCode;
use tokio::sync::{mpsc, watch};
use tokio::task::JoinHandle;
use tokio::time::{Instant, sleep, timeout, timeout_at};

use super::collector::Collector;
use super::otlp::{Span, body};

/// The most spans of a request.
const GROUP: usize = 512;
/// How long the first span of a group waits for others.
const GATHER: Duration = Duration::from_secs(1);
/// The pauses before a group is sent again; the last one again and again.
const PAUSES: [Duration; 4] =
    [Duration::from_secs(1), Duration::from_secs(2), Duration::from_secs(5), Duration::from_secs(30)];
/// The longest time that the end of a service waits for a collector.
const LEAVING: Duration = Duration::from_secs(3);

/// The task that sends spans.
#[derive(Debug)]
pub(crate) struct Exporter {
    leaving: watch::Sender<bool>,
    sending: Mutex<Option<JoinHandle<()>>>,
    lost: Arc<AtomicU64>,
}

impl Exporter {
    pub(super) fn start(collector: Collector, waiting: mpsc::Receiver<Span>, lost: Arc<AtomicU64>) -> Self {
        let (leaving, is_leaving) = watch::channel(false);
        let sending = tokio::spawn(collector.run(waiting, Arc::clone(&lost), is_leaving));
        Self { leaving, sending: Mutex::new(Some(sending)), lost }
    }

    /// Spans that no collector has taken.
    pub(crate) fn lost(&self) -> u64 {
        self.lost.load(Ordering::Relaxed)
    }

    /// Waits until what waits is sent. The sender of the spans is gone.
    pub(crate) async fn leave(&self) {
        self.leaving.send_replace(true);
        let sending = self.sending.lock().unwrap_or_else(PoisonError::into_inner).take();
        if let Some(sending) = sending {
            // A collector that does not answer is not waited for.
            let _ = timeout(LEAVING, sending).await;
        }
    }
}

/// What became of a group.
#[derive(Debug, PartialEq, Eq)]
enum Sent {
    Taken,
    /// The collector will not take it later either.
    Refused(StatusCode),
    Later(String),
}

impl Collector {
    /// Sends what comes until the sender is gone. After `leaving` it tries once, and waits for nothing.
    async fn run(self, mut waiting: mpsc::Receiver<Span>, lost: Arc<AtomicU64>, mut leaving: watch::Receiver<bool>) {
        let mut group = vec![];
        while let Some(first) = waiting.recv().await {
            group.push(first);
            let full = Instant::now() + if *leaving.borrow() { Duration::ZERO } else { GATHER };
            while group.len() < GROUP {
                tokio::select! {
                    more = timeout_at(full, waiting.recv()) => match more {
                        Ok(Some(span)) => group.push(span),
                        Ok(None) | Err(_) => break,
                    },
                    _ = leaving.wait_for(|leaving| *leaving), if !*leaving.borrow() => {
                        while group.len() < GROUP && let Ok(span) = waiting.try_recv() {
                            group.push(span);
                        }
                        break;
                    }
                }
            }
            let spans = group.len();
            if !self.deliver(body(std::mem::take(&mut group), &self.version), &mut leaving).await {
                lost.fetch_add(spans as u64, Ordering::Relaxed);
            }
        }
    }

    /// Whether the collector has taken it.
    async fn deliver(&self, body: Vec<u8>, leaving: &mut watch::Receiver<bool>) -> bool {
        for failures in 0.. {
            match self.send(body.clone()).await {
                Sent::Taken => return true,
                Sent::Refused(status) => {
                    tracing::warn!(target: "limulus::traces", status = status.as_u16(), "the collector refused spans");
                    return false;
                }
                Sent::Later(why) => {
                    if failures == 0 {
                        tracing::warn!(target: "limulus::traces", why, "the collector does not take spans; they wait");
                    }
                    if *leaving.borrow() {
                        return false;
                    }
                    let pause = PAUSES[PAUSES.len().min(failures + 1) - 1];
                    tokio::select! {
                        () = sleep(pause) => {}
                        _ = leaving.wait_for(|leaving| *leaving) => {}
                    }
                }
            }
        }
        false
    }

    async fn send(&self, body: Vec<u8>) -> Sent {
        let request = self.client.post(self.url.clone()).headers(self.headers.clone()).body(body);
        match request.send().await {
            Ok(response) => verdict(response.status()),
            // The address may have secrets in it.
            Err(error) => Sent::Later(error.without_url().to_string()),
        }
    }
}

/// The statuses after which a group is sent again are those of the specification.
fn verdict(status: StatusCode) -> Sent {
    match status.as_u16() {
        200..=299 => Sent::Taken,
        408 | 429 | 502 | 503 | 504 => Sent::Later(status.to_string()),
        _ => Sent::Refused(status),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn r68_only_what_may_pass_is_sent_again() {
        assert_eq!(verdict(StatusCode::OK), Sent::Taken);
        assert_eq!(verdict(StatusCode::BAD_REQUEST), Sent::Refused(StatusCode::BAD_REQUEST));
        assert!(matches!(verdict(StatusCode::SERVICE_UNAVAILABLE), Sent::Later(_)));
        assert!(matches!(verdict(StatusCode::TOO_MANY_REQUESTS), Sent::Later(_)));
    }
}
