//! Shares the settings of the latest run with the next one: sessions with equal settings hold them, and the list of
//! tools in their requests, once.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use engine::{Settings, ToolSpec};
use models::Cached;

/// The settings of the latest run.
#[derive(Debug, Default)]
pub(crate) struct Latest(Mutex<Option<LatestSettings>>);

#[derive(Debug)]
struct LatestSettings {
    settings: Arc<Settings>,
    tools: Cached<Arc<[ToolSpec]>>,
}

impl Latest {
    /// Returns these settings, or the shared ones if they are equal.
    pub(crate) fn settings(&self, settings: Settings) -> Arc<Settings> {
        let mut given = self.lock();
        if let Some(given) = given.as_ref().filter(|given| *given.settings == settings) {
            return Arc::clone(&given.settings);
        }
        let tools = Cached::from(settings.tools.clone());
        let settings = Arc::new(settings);
        *given = Some(LatestSettings { settings: Arc::clone(&settings), tools });
        settings
    }

    /// The tools of settings.
    pub(crate) fn tools(&self, settings: &Arc<Settings>) -> Cached<Arc<[ToolSpec]>> {
        match self.lock().as_ref() {
            Some(given) if Arc::ptr_eq(&given.settings, settings) => given.tools.clone(),
            _ => Cached::from(settings.tools.clone()),
        }
    }

    fn lock(&self) -> MutexGuard<'_, Option<LatestSettings>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_same_settings_are_held_once_and_others_never_taken_for_them() {
        let settings = |agent: &str| Settings { agent: agent.to_owned(), ..Settings::default() };
        let latest = Latest::default();
        let one = latest.settings(settings("one"));
        assert!(Arc::ptr_eq(&one, &latest.settings(settings("one"))));
        assert!(std::ptr::eq(&raw const *latest.tools(&one), &raw const *latest.tools(&one)));
        let two = latest.settings(settings("two"));
        assert_eq!((one.agent.as_str(), two.agent.as_str()), ("one", "two"));
        assert_eq!(*latest.tools(&one), one.tools);
    }
}
