//! What follows from the settings of a run and is asked for in each of its steps, made once.

use std::fmt;
use std::sync::OnceLock;

use crate::body::Content;

/// What was derived from settings. No part of their value: a clone, which may be changed before it is used, has nothing of it.
#[derive(Default)]
pub struct Derived {
    pub(crate) content: OnceLock<Content>,
    pub(crate) tool_tokens: OnceLock<u64>,
}

impl Clone for Derived {
    fn clone(&self) -> Self {
        Self::default()
    }
}

impl PartialEq for Derived {
    fn eq(&self, _: &Self) -> bool {
        true
    }
}

impl Eq for Derived {}

impl fmt::Debug for Derived {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Derived")
    }
}

/// Returns the value, made at the first call. Whoever changes settings after that gets a stale one, which debug builds notice.
pub(crate) fn once<T: Clone + PartialEq + fmt::Debug>(known: &OnceLock<T>, make: impl Fn() -> T) -> T {
    let value = known.get_or_init(&make).clone();
    debug_assert_eq!(value, make(), "settings were changed after their content was taken");
    value
}

#[cfg(test)]
mod tests {
    use crate::settings::Settings;

    #[test]
    fn a_changed_clone_has_its_own_content() {
        let settings = Settings { agent: "one".to_owned(), ..Settings::default() };
        let content = settings.content();
        let mut other = settings.clone();
        other.agent = "two".to_owned();
        assert_ne!(other.content().body.hash, content.body.hash);
        assert_eq!(settings.content(), content);
        assert_eq!(settings, settings.clone(), "what was derived is no part of the value");
    }

    #[test]
    #[should_panic(expected = "settings were changed")]
    #[cfg(debug_assertions)]
    fn a_stale_content_is_noticed() {
        let mut settings = Settings::default();
        settings.content();
        settings.agent = "two".to_owned();
        settings.content();
    }
}
