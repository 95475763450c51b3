//! Sessions that rest for long are ended while a service runs. What may not live here: whether one rests, which the engine says.

use std::time::Duration;

use engine::Timestamp;
use gateway::Service;

use crate::config::{Config, Flags, Globals};

/// Between two looks: a part of the time that a session may rest, within these.
const PARTS: u32 = 4;
const LEAST: Duration = Duration::from_secs(1);
const MOST: Duration = Duration::from_hours(1);

/// Ends what rests for too long, for as long as it is polled; what it did is said.
pub(crate) async fn supervise(service: &Service, globals: &Globals, say: impl Fn(String)) {
    loop {
        let config = Config::load(&globals.home, &globals.environment, Flags::default());
        // A configuration that cannot be used is told by whoever needs it first.
        let timeout = config.ok().and_then(|config| config.idle_timeout());
        if let Some(timeout) = timeout {
            let rested = i64::try_from(timeout.as_millis()).unwrap_or(i64::MAX);
            let before = Timestamp(jiff::Timestamp::now().as_millisecond().saturating_sub(rested));
            match service.terminate_idle(before).await {
                Ok(ended) => {
                    for (key, ended) in ended {
                        say(told(&key, timeout, ended));
                    }
                }
                Err(error) => say(format!("sessions that rest could not be looked for: {error}")),
            }
        }
        tokio::time::sleep(timeout.map_or(MOST, |timeout| (timeout / PARTS).clamp(LEAST, MOST))).await;
    }
}

fn told(key: &str, timeout: Duration, ended: Result<(), gateway::Error>) -> String {
    match ended {
        Ok(()) => format!("{key} is ended: nothing has happened in it for {} s", timeout.as_secs()),
        Err(error) => format!("{key}, in which nothing has happened for long, could not be ended: {error}"),
    }
}
