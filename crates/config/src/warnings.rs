//! Warnings about old names in the configuration, each of which a process gives once.

use std::collections::BTreeSet;
use std::sync::{Mutex, PoisonError};

static GIVEN: Mutex<BTreeSet<String>> = Mutex::new(BTreeSet::new());

/// Those of these warnings that this process has not given yet.
pub fn fresh(warnings: &[String]) -> Vec<String> {
    let mut given = GIVEN.lock().unwrap_or_else(PoisonError::into_inner);
    warnings.iter().filter(|warning| given.insert((*warning).clone())).cloned().collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_old_name_is_warned_about_once() {
        let warnings = ["a test's own".to_owned(), "a test's own".to_owned()];
        assert_eq!((fresh(&warnings).len(), fresh(&warnings).len()), (1, 0));
    }
}
