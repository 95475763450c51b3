//! What a service says of its work to those who watch it: metrics, logs, traces. All of it is derived from the batches that the
//! journal has committed, so the machine knows nothing of it, and nothing is counted that a crash could take back.

mod facts;
pub mod log;
pub mod metrics;
pub mod traces;
mod watch;

use std::sync::{Mutex, MutexGuard, OnceLock, PoisonError};

use runtime::Published;
use serde::Serialize;

use log::Story;
use metrics::{Metrics, Now};
use traces::{Collector, Exporter, Traces};
use watch::Watch;

/// Watches the sessions of a home.
#[derive(Debug, Default)]
pub struct Telemetry {
    sessions: Mutex<Sessions>,
    metrics: Metrics,
    exporter: OnceLock<Exporter>,
}

/// What is known of the sessions.
#[derive(Debug, Default)]
struct Sessions {
    watch: Watch,
    story: Story,
    /// None if nobody collects them.
    traces: Option<Traces>,
}

impl Telemetry {
    /// Takes in a committed batch. The batches of a session come in order.
    pub fn observe(&self, published: &Published) {
        self.metrics.commit(published.commit);
        let mut sessions = self.lock();
        let Sessions { watch, story, traces } = &mut *sessions;
        watch.observe(published, &mut |place, fact| {
            self.metrics.record(fact);
            story.record(place, fact);
            if let Some(traces) = traces {
                traces.record(place, fact);
            }
        });
    }

    /// What is counted.
    pub fn metrics(&self) -> &Metrics {
        &self.metrics
    }

    /// All metrics as text, with these that are measured now.
    pub fn text(&self, now: &Now) -> String {
        let lost = self.exporter.get().map_or(0, Exporter::lost);
        self.metrics.text(now, lost)
    }

    /// Sends the spans of what comes from here on. Must be called inside a tokio runtime, once.
    pub fn trace_to(&self, collector: Collector) {
        let (traces, exporter) = traces::start(collector);
        if self.exporter.set(exporter).is_ok() {
            self.lock().traces = Some(traces);
        }
    }

    /// Sends what waits, and waits until that is done: for an end in order.
    pub async fn leave(&self) {
        let Some(exporter) = self.exporter.get() else { return };
        // Without its sender the exporter ends with what waits.
        self.lock().traces = None;
        exporter.leave().await;
    }

    fn lock(&self) -> MutexGuard<'_, Sessions> {
        self.sessions.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// The name of a value on disk and on the wire.
fn name(value: impl Serialize) -> String {
    let name = serde_json::to_value(value).ok();
    name.and_then(|name| name.as_str().map(str::to_owned)).unwrap_or_default()
}
