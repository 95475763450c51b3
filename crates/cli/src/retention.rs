//! What a home keeps, and for how long: what is old is erased where no session needs it, and no run starts in a journal that is
//! as large as it may be. What may not live here: how content is erased, which is the journal's.

use std::path::Path;
use std::time::Duration;

use engine::{Failure, FailureClass};
use journal::{Collected, Reader};

use crate::config::{Config, Flags, Globals};
use crate::error::CliError;
use crate::show::doctor::size;

/// Percent of what the journal may need from which on a warning is given.
const WARN_PERCENT: u64 = 80;
/// After the start of a service, so that it first does what it was started for.
const FIRST: Duration = Duration::from_mins(1);
/// Between two times that a service looks for what is old.
const EACH: Duration = Duration::from_hours(24);

/// Erases what is old once a day, for as long as it is polled; what it did is said. `erase` is told after how many days.
pub(crate) async fn supervise(
    erase: impl Fn(u32) -> Result<Collected, CliError> + Clone + Send + 'static,
    globals: &Globals,
    say: impl Fn(String),
) {
    tokio::time::sleep(FIRST).await;
    loop {
        let config = Config::load(&globals.home, &globals.environment, Flags::default());
        // A configuration that cannot be used is told by whoever needs it first.
        if let Some(days) = config.ok().and_then(|config| config.keep_days()) {
            let erase = erase.clone();
            match tokio::task::spawn_blocking(move || erase(days)).await {
                Ok(Ok(Collected { bodies: 0, .. })) | Err(_) => {}
                Ok(Ok(Collected { bodies, bytes, .. })) => {
                    say(format!("{bodies} texts and outputs of over {days} days ago are erased ({})", size(bytes)));
                }
                Ok(Err(error)) => say(format!("what is over {days} days old could not be erased: {error}")),
            }
        }
        tokio::time::sleep(EACH).await;
    }
}

/// How a journal stands to what it may need.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Capacity {
    /// There is enough.
    Enough,
    /// There is little: what to tell the user.
    Little(String),
    /// There is none: why no run starts.
    None(String),
}

/// Whether there is room for a new run, where the journal may need so many bytes.
pub(crate) fn room(home: &Path, most: Option<u64>) -> Capacity {
    let Some(most) = most else { return Capacity::Enough };
    // One that cannot be read says so where it is needed.
    let used = Reader::open(home).and_then(|reader| reader.used_bytes()).unwrap_or_default();
    room_of(used + bytes_of(&home.join("calls")), most)
}

/// What the files of a folder and of those in it need. What goes away meanwhile needs nothing.
fn bytes_of(folder: &Path) -> u64 {
    let entries = std::fs::read_dir(folder).into_iter().flatten().flatten();
    let of = |entry: std::fs::DirEntry| match entry.metadata() {
        Ok(metadata) if metadata.is_dir() => bytes_of(&entry.path()),
        Ok(metadata) if metadata.is_file() => metadata.len(),
        _ => 0,
    };
    entries.map(of).sum()
}

fn room_of(used: u64, most: u64) -> Capacity {
    let stands = format!("the journal needs {} of the {} that it may (`retention.journal_mb`)", size(used), size(most));
    if used >= most {
        return Capacity::None(format!(
            "{stands}, so no new run starts: raise it, or erase what is old with `limulus sessions cleanup --days N \
             --enforce`"
        ));
    }
    if used >= most / 100 * WARN_PERCENT {
        return Capacity::Little(format!(
            "{stands}: raise it, or erase what is old with `limulus sessions cleanup --days N --enforce`, before no new run starts"
        ));
    }
    Capacity::Enough
}

/// The failure of a run for which there is no room.
pub(crate) fn no_room(why: String) -> Failure {
    Failure { code: Some(runtime::NO_SPACE.into()), ..Failure::new(FailureClass::Refused, why) }
}

#[cfg(test)]
mod tests {
    use std::sync::{Arc, Mutex};

    use super::*;
    use crate::config::Environment;

    /// Nothing is waited for: the clock is moved by whoever waits.
    #[tokio::test(start_paused = true)]
    async fn r21_a_service_erases_what_is_old_a_minute_after_its_start_and_each_day_by_what_is_configured_then() {
        let home = tempfile::tempdir().unwrap();
        let keep =
            |days: u32| std::fs::write(home.path().join("config.toml"), format!("[retention]\nkeep_days = {days}\n"));
        let globals = Globals { environment: Environment::of(&[], "/now"), home: home.path().to_owned() };
        let (swept, said) = (Arc::new(Mutex::new(vec![])), Mutex::new(vec![]));
        let sweeps = Arc::clone(&swept);
        let erase = move |days| {
            let mut sweeps = sweeps.lock().unwrap();
            sweeps.push(days);
            // The third finds nothing, and of that nothing is said; the fourth fails.
            match sweeps.len() {
                3 => Ok(Collected::default()),
                4 => Err(CliError::bug("no")),
                _ => Ok(Collected { bodies: 2, bytes: 9, ..Collected::default() }),
            }
        };
        let mut task = Box::pin(supervise(erase, &globals, |line| said.lock().unwrap().push(line)));
        let count = || swept.lock().unwrap().len();
        for (passes, days, sweeps) in
            [(59, 30, 0), (2, 30, 1), (86_300, 7, 1), (101, 7, 2), (86_400, 0, 2), (86_400, 7, 3), (86_400, 7, 4)]
        {
            keep(days).unwrap();
            assert!(tokio::time::timeout(Duration::from_secs(passes), &mut task).await.is_err(), "it goes on");
            assert_eq!(count(), sweeps, "after {passes} s more");
        }
        assert_eq!(*swept.lock().unwrap(), [30, 7, 7, 7]);
        drop(task);
        let said = said.into_inner().unwrap();
        assert!(said.len() == 3 && said[0].starts_with("2 texts and outputs of over 30 days ago"), "{said:?}");
        assert!(said[1].contains("over 7 days") && said[2].contains("could not be erased"), "{said:?}");
    }

    #[test]
    fn r21_the_outputs_of_calls_count_in_what_a_journal_may_need() {
        let home = tempfile::tempdir().unwrap();
        let call = home.path().join("calls").join("one");
        std::fs::create_dir_all(&call).unwrap();
        std::fs::write(call.join("output"), vec![b'x'; 1 << 20]).unwrap();
        assert_eq!(room(home.path(), Some(2 << 20)), Capacity::Enough);
        assert!(matches!(room(home.path(), Some(1 << 20)), Capacity::None(_)));
    }

    #[test]
    fn r21_near_what_a_journal_may_need_is_a_warning_and_at_it_no_run_starts() {
        let most = 100 << 20;
        assert_eq!(room_of(79 << 20, most), Capacity::Enough);
        assert!(matches!(room_of(80 << 20, most), Capacity::Little(_)));
        assert!(matches!(room_of(most - 1, most), Capacity::Little(_)));
        let Capacity::None(why) = room_of(most, most) else { panic!("it is full") };
        assert!(why.contains("100 MiB of the 100 MiB") && why.contains("sessions cleanup"), "{why}");
    }
}
