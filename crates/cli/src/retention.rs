//! Retention: erases old content that no session needs, and refuses new runs when the journal is full. The journal
//! implements the erasure.

use std::path::Path;
use std::time::Duration;

use engine::{Failure, FailureClass};
use journal::{Collected, Reader};
use tools::FileStore;

use crate::config::{Config, Flags, Globals};
use crate::error::CliError;
use crate::show::doctor::size;

/// Percent of the size limit of the journal at which a warning is given.
const WARN_PERCENT: u64 = 80;
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
        let config = Config::load(&globals.home, &globals.environment, Flags::default());
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

/// The space of a journal, compared with its limit.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Capacity {
    /// Enough space is left.
    Enough,
    /// Little space is left; the text warns the user.
    Little(String),
    /// No space is left; the text says why no run starts.
    None(String),
}

/// Whether the journal has space for a new run below this many bytes.
pub(crate) fn capacity(home: &Path, most: Option<u64>) -> Capacity {
    let Some(most) = most else { return Capacity::Enough };
    // An unreadable journal is reported where it is opened.
    let used = Reader::open(home).and_then(|reader| reader.used_bytes()).unwrap_or_default();
    capacity_of(used + bytes_of(&home.join("calls")), most)
}

/// Bytes of all files in a folder, recursively. A file that disappears meanwhile counts as 0.
fn bytes_of(folder: &Path) -> u64 {
    let entries = std::fs::read_dir(folder).into_iter().flatten().flatten();
    let of = |entry: std::fs::DirEntry| match entry.metadata() {
        Ok(metadata) if metadata.is_dir() => bytes_of(&entry.path()),
        Ok(metadata) if metadata.is_file() => metadata.len(),
        _ => 0,
    };
    entries.map(of).sum()
}

fn capacity_of(used: u64, most: u64) -> Capacity {
    let usage =
        format!("the journal uses {} of the {} that it may use (`retention.journal_mb`)", size(used), size(most));
    if used >= most {
        return Capacity::None(format!(
            "{usage}, so no new run starts: raise it, or erase old content with `limulus sessions cleanup --days N \
             --enforce`"
        ));
    }
    if used >= most / 100 * WARN_PERCENT {
        return Capacity::Little(format!(
            "{usage}: raise it, or erase old content with `limulus sessions cleanup --days N --enforce`; at the limit no new run starts"
        ));
    }
    Capacity::Enough
}

/// The failure of a run for which no space is left.
pub(crate) fn no_space(why: String) -> Failure {
    Failure { code: Some(runtime::NO_SPACE.into()), ..Failure::new(FailureClass::Refused, why) }
}

#[cfg(test)]
mod tests {
    use std::sync::{Arc, Mutex};

    use super::*;
    use crate::config::Environment;

    /// The clock is paused; it advances when the test waits.
    #[tokio::test(start_paused = true)]
    async fn r21_a_service_erases_old_content_a_minute_after_its_start_and_then_daily_by_the_current_configuration() {
        let home = tempfile::tempdir().unwrap();
        let keep =
            |days: u32| std::fs::write(home.path().join("config.toml"), format!("[retention]\nkeep_days = {days}\n"));
        let globals = Globals { environment: Environment::of(&[], "/now"), home: home.path().to_owned() };
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

    #[test]
    fn r21_outputs_of_calls_count_towards_the_size_of_the_journal() {
        let home = tempfile::tempdir().unwrap();
        let call = home.path().join("calls").join("one");
        std::fs::create_dir_all(&call).unwrap();
        std::fs::write(call.join("output"), vec![b'x'; 1 << 20]).unwrap();
        assert_eq!(capacity(home.path(), Some(2 << 20)), Capacity::Enough);
        assert!(matches!(capacity(home.path(), Some(1 << 20)), Capacity::None(_)));
    }

    #[test]
    fn r21_near_the_limit_of_the_journal_is_a_warning_and_at_it_no_run_starts() {
        let most = 100 << 20;
        assert_eq!(capacity_of(79 << 20, most), Capacity::Enough);
        assert!(matches!(capacity_of(80 << 20, most), Capacity::Little(_)));
        assert!(matches!(capacity_of(most - 1, most), Capacity::Little(_)));
        let Capacity::None(why) = capacity_of(most, most) else { panic!("it is full") };
        assert!(why.contains("100 MiB of the 100 MiB") && why.contains("sessions cleanup"), "{why}");
    }
}
