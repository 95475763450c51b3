//! The time zone of this machine, from the one file that says it. By itself, jiff first lists the names of all zones of the
//! world: a hundred system calls at the start of each command.

use std::fs::File;
use std::io::Read as _;
use std::path::Path;
use std::sync::{Mutex, PoisonError};
use std::time::{Duration, Instant};

use jiff::tz::TimeZone;
use jiff::{Timestamp, Zoned};

/// The file of the zone.
const FILE: &str = "/etc/localtime";
/// The largest of the world has 4 KiB.
const FILE_BYTES: u64 = 256 << 10;
/// How long a zone is kept: whoever travels with a service need not start it again.
const KEPT: Duration = Duration::from_mins(1);

static ZONE: Mutex<Option<(Instant, TimeZone)>> = Mutex::new(None);

/// The time zone of this machine. Reads a file at most once a minute.
pub fn local_zone() -> TimeZone {
    let mut kept = ZONE.lock().unwrap_or_else(PoisonError::into_inner);
    match &*kept {
        Some((read, zone)) if read.elapsed() < KEPT => zone.clone(),
        _ => {
            let zone = if std::env::var_os("TZ").is_none() { of_file(Path::new(FILE)) } else { None };
            let zone = zone.unwrap_or_else(TimeZone::system);
            *kept = Some((Instant::now(), zone.clone()));
            zone
        }
    }
}

/// The local time.
pub fn local_now() -> Zoned {
    Timestamp::now().to_zoned(local_zone())
}

fn of_file(path: &Path) -> Option<TimeZone> {
    let mut content = vec![];
    File::open(path).ok()?.take(FILE_BYTES).read_to_end(&mut content).ok()?;
    TimeZone::tzif("local", &content).ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_local_time_is_that_of_the_library() {
        for at in ["2026-01-01T00:30:00Z", "2026-07-01T23:30:00Z", "2040-03-29T02:30:00Z"] {
            let at: Timestamp = at.parse().unwrap();
            let (here, there) = (at.to_zoned(local_zone()), at.to_zoned(TimeZone::system()));
            assert_eq!((here.datetime(), here.offset()), (there.datetime(), there.offset()));
        }
    }

    #[test]
    fn a_file_that_is_no_zone_is_not_read_as_one() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("localtime");
        assert!(of_file(&path).is_none(), "there is no file");
        std::fs::write(&path, "UTC").unwrap();
        assert!(of_file(&path).is_none());
        let Ok(zone) = std::fs::read("/usr/share/zoneinfo/Asia/Tokyo") else { return };
        std::fs::write(&path, zone).unwrap();
        let tokyo = Timestamp::UNIX_EPOCH.to_zoned(of_file(&path).unwrap());
        assert_eq!(tokyo.datetime().to_string(), "1970-01-01T09:00:00");
    }
}
