//! Retention: erases old content that no session needs. The journal implements the erasure; the configuration refuses new
//! runs when the journal is full.

use std::time::Duration;

use config::{FlagValues, Globals, size};
use journal::Collected;
use tools::FileStore;

use crate::deprecation;
use crate::error::CliError;

/// Delay after the start of a service, so that it resumes its work first.
const FIRST: Duration = Duration::from_mins(1);
/// Interval between two erasures.
const EACH: Duration = Duration::from_hours(24);

/// Erases old content once a day, for as long as the future is polled, and reports it through `say`; contents of files that
/// are kept for an undo go without a word. `erase` receives
/// the number of days.
pub(crate) async fn supervise(
    erase: impl Fn(u32) -> Result<Collected, CliError> + Clone + Send + 'static,
    globals: &Globals,
    say: impl Fn(String),
) {
    tokio::time::sleep(FIRST).await;
    loop {
        let config = deprecation::load(globals, FlagValues::default());
        if let Ok(config) = &config {
            let files = FileStore::new(globals.home.join("files"), config.store_limits());
            // There may be none.
            let _ = tokio::task::spawn_blocking(move || files.trim()).await;
        }
        // Whoever needs an unusable configuration first reports it.
        if let Some(days) = config.ok().and_then(|config| config.keep_days()) {
            let erase = erase.clone();
            match tokio::task::spawn_blocking(move || erase(days)).await {
                Ok(Ok(Collected { bodies: 0, .. })) | Err(_) => {}
                Ok(Ok(Collected { bodies, bytes, .. })) => {
                    say(format!("{bodies} texts and outputs of over {days} days ago are erased ({})", size(bytes)));
                }
                Ok(Err(error)) => {
                    say(format!("texts and outputs of over {days} days ago could not be erased: {error}"));
                }
            }
        }
        tokio::time::sleep(EACH).await;
    }
}

#[cfg(test)]
mod tests {
    use std::sync::{Arc, Mutex};

    use super::*;
    use config::Environment;

    /// The clock is paused; it advances when the test waits.
    #[tokio::test(start_paused = true)]
    async fn r21_a_service_erases_old_content_a_minute_after_its_start_and_then_daily_by_the_current_configuration() {
        let home = tempfile::tempdir().unwrap();
        let keep =
            |days: u32| std::fs::write(home.path().join("config.toml"), format!("[retention]\nkeep_days = {days}\n"));
        let globals = Globals::new(Environment::default(), home.path().to_owned());
        let (swept, notes) = (Arc::new(Mutex::new(vec![])), Mutex::new(vec![]));
        let sweeps = Arc::clone(&swept);
        let erase = move |days| {
            let mut sweeps = sweeps.lock().unwrap();
            sweeps.push(days);
            // The third finds nothing and reports nothing; the fourth fails.
            match sweeps.len() {
                3 => Ok(Collected::default()),
                4 => Err(CliError::bug("no")),
                _ => Ok(Collected { bodies: 2, bytes: 9, ..Collected::default() }),
            }
        };
        let mut task = Box::pin(supervise(erase, &globals, |line| notes.lock().unwrap().push(line)));
        let count = || swept.lock().unwrap().len();
        for (passes, days, sweeps) in
            [(59, 30, 0), (2, 30, 1), (86_300, 7, 1), (101, 7, 2), (86_400, 0, 2), (86_400, 7, 3), (86_400, 7, 4)]
        {
            keep(days).unwrap();
            assert!(
                tokio::time::timeout(Duration::from_secs(passes), &mut task).await.is_err(),
                "it runs until the test ends it"
            );
            assert_eq!(count(), sweeps, "after {passes} s more");
        }
        assert_eq!(*swept.lock().unwrap(), [30, 7, 7, 7]);
        drop(task);
        let notes = notes.into_inner().unwrap();
        assert!(notes.len() == 3 && notes[0].starts_with("2 texts and outputs of over 30 days ago"), "{notes:?}");
        assert!(notes[1].contains("over 7 days") && notes[2].contains("could not be erased"), "{notes:?}");
    }
}
