//! Terminates idle sessions while a service runs. The engine decides whether a session is idle.

use std::time::Duration;

use config::{FlagValues, Globals};
use engine::Timestamp;
use gateway::Service;

use crate::deprecation;

/// The interval between two checks is a fraction of the idle timeout, within these bounds.
const PARTS: u32 = 4;
const LEAST: Duration = Duration::from_secs(1);
const MOST: Duration = Duration::from_hours(1);

/// Terminates idle sessions for as long as the future is polled, and reports each through `say`.
pub(crate) async fn supervise(service: &Service, globals: &Globals, say: impl Fn(String)) {
    loop {
        let config = deprecation::load(globals, FlagValues::default());
        // Whoever needs an unusable configuration first reports it.
        let timeout = config.ok().and_then(|config| config.idle_timeout());
        if let Some(timeout) = timeout {
            let idle_ms = i64::try_from(timeout.as_millis()).unwrap_or(i64::MAX);
            let before = Timestamp(jiff::Timestamp::now().as_millisecond().saturating_sub(idle_ms));
            match service.terminate_idle(before).await {
                Ok(ended) => {
                    for (key, ended) in ended {
                        say(note(&key, timeout, ended));
                    }
                }
                Err(error) => say(format!("the search for idle sessions failed: {error}")),
            }
        }
        tokio::time::sleep(timeout.map_or(MOST, |timeout| (timeout / PARTS).clamp(LEAST, MOST))).await;
    }
}

fn note(key: &str, timeout: Duration, ended: Result<(), gateway::Error>) -> String {
    match ended {
        Ok(()) => format!("{key} ended: it was idle for {} s", timeout.as_secs()),
        Err(error) => format!("the idle session {key} could not be ended: {error}"),
    }
}
