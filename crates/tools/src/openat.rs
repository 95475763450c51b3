//! The only way to open files below an open folder. It follows no symbolic link, whenever the link was created: it
//! opens exactly the path that `paths.rs` resolved, or fails.

use std::ffi::OsStr;
use std::io;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::path::{Component, Path};

use rustix::fs::{Dir, Mode, OFlags, ResolveFlags, mkdirat, openat, openat2};
use rustix::io::Errno;

use crate::limits::OPEN_TRIES;

/// Flags to open a folder only as a starting point.
pub(crate) const FOLDER: OFlags = OFlags::PATH.union(OFlags::DIRECTORY);

/// The system call by which a path is opened.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Way {
    /// `openat2`: the kernel itself refuses links and paths that leave the folder.
    Whole,
    /// `openat` name by name, each without following a link: for a kernel or a filter without `openat2`.
    ByName,
}

/// Opens `relative`, a path without links, `.` and `..`. The empty path is the folder itself.
pub(crate) fn open(folder: impl AsFd, relative: &Path, flags: OFlags) -> io::Result<OwnedFd> {
    let folder = folder.as_fd();
    match open_by(Way::Whole, folder, relative, flags) {
        // Some filters of system calls refuse unknown calls as not permitted.
        Err(Errno::NOSYS | Errno::PERM) => open_by(Way::ByName, folder, relative, flags),
        result => result,
    }
    .map_err(io_error)
}

/// Opens a folder, and creates it and its parents if they do not exist. `judge` sees each folder before another is created
/// in it; an error of it ends the work.
pub(crate) fn make(
    folder: impl AsFd,
    relative: &Path,
    judge: impl Fn(BorrowedFd<'_>) -> io::Result<()>,
) -> io::Result<OwnedFd> {
    match open(&folder, relative, FOLDER) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => {}
        result => return result,
    }
    let mut at = open(folder, Path::new(""), FOLDER)?;
    for name in names(relative)? {
        judge(at.as_fd())?;
        match mkdirat(&at, name, Mode::from_raw_mode(0o777)) {
            Ok(()) | Err(Errno::EXIST) => at = open(&at, Path::new(name), FOLDER)?,
            Err(errno) => return Err(io_error(errno)),
        }
    }
    Ok(at)
}

/// The names in a folder, without `.` and `..`, unordered.
pub(crate) fn list(folder: impl AsFd) -> io::Result<Vec<Vec<u8>>> {
    let mut found = Vec::new();
    for entry in Dir::read_from(folder)? {
        let name = entry?.file_name().to_bytes().to_vec();
        if name != b"." && name != b".." {
            found.push(name);
        }
    }
    Ok(found)
}

/// The parent folder and the name in it; for the folder itself the name `.`.
pub(crate) fn split(relative: &Path) -> (&Path, &OsStr) {
    let name = relative.file_name().unwrap_or_else(|| OsStr::new("."));
    (relative.parent().unwrap_or_else(|| Path::new("")), name)
}

/// The path of a name that [`split`] returned, below its parent folder.
pub(crate) fn below(name: &OsStr) -> &Path {
    Path::new(if name == "." { OsStr::new("") } else { name })
}

fn open_by(way: Way, folder: BorrowedFd<'_>, relative: &Path, flags: OFlags) -> rustix::io::Result<OwnedFd> {
    let flags = flags | OFlags::CLOEXEC;
    names(relative).map_err(|_| Errno::XDEV)?;
    match way {
        Way::Whole => open_whole(folder, relative, flags),
        Way::ByName => open_by_name(folder, relative, flags),
    }
}

fn open_whole(folder: BorrowedFd<'_>, relative: &Path, flags: OFlags) -> rustix::io::Result<OwnedFd> {
    let path = if relative.as_os_str().is_empty() { Path::new(".") } else { relative };
    let resolve = ResolveFlags::BENEATH | ResolveFlags::NO_MAGICLINKS | ResolveFlags::NO_SYMLINKS;
    let mut tries = 0;
    loop {
        tries += 1;
        match openat2(folder, path, flags, Mode::empty(), resolve) {
            // A folder on the path was renamed meanwhile.
            Err(Errno::AGAIN) if tries < OPEN_TRIES => {}
            result => return result,
        }
    }
}

fn open_by_name(folder: BorrowedFd<'_>, relative: &Path, flags: OFlags) -> rustix::io::Result<OwnedFd> {
    let (above, last) = split(relative);
    let mut at = None;
    for name in above {
        let from = at.as_ref().map_or(folder, AsFd::as_fd);
        at = Some(openat(from, name, FOLDER | OFlags::NOFOLLOW | OFlags::CLOEXEC, Mode::empty())?);
    }
    openat(at.as_ref().map_or(folder, AsFd::as_fd), last, flags | OFlags::NOFOLLOW, Mode::empty())
}

/// The names of a path. Any other component is an error.
fn names(relative: &Path) -> io::Result<Vec<&OsStr>> {
    let plain = |component| match component {
        Component::Normal(name) => Ok(name),
        _ => Err(io::Error::from(io::ErrorKind::InvalidInput)),
    };
    relative.components().map(plain).collect()
}

fn io_error(errno: Errno) -> io::Error {
    match errno {
        Errno::LOOP => {
            io::Error::other("somebody created a link on this path while it was opened; check the path again")
        }
        errno => errno.into(),
    }
}

#[cfg(test)]
mod tests {
    use std::fs;
    use std::os::unix::fs::symlink;

    use super::*;

    /// A folder with a file, and with links to the file, to a folder in it and to a folder outside.
    fn world() -> (tempfile::TempDir, OwnedFd) {
        let home = tempfile::tempdir().unwrap();
        fs::create_dir_all(home.path().join("ws/sub")).unwrap();
        fs::write(home.path().join("ws/sub/a"), "in").unwrap();
        fs::write(home.path().join("out"), "out").unwrap();
        symlink("sub", home.path().join("ws/near")).unwrap();
        symlink("sub/a", home.path().join("ws/file")).unwrap();
        symlink("..", home.path().join("ws/away")).unwrap();
        let folder = openat(rustix::fs::CWD, home.path().join("ws"), FOLDER, Mode::empty()).unwrap();
        (home, folder)
    }

    #[test]
    fn both_system_calls_open_and_refuse_the_same_paths() {
        let (_home, folder) = world();
        for way in [Way::Whole, Way::ByName] {
            let opens = |path: &str| open_by(way, folder.as_fd(), Path::new(path), OFlags::RDONLY).is_ok();
            for path in ["sub/a", "sub", ""] {
                assert!(opens(path), "{way:?} {path}");
            }
            for path in ["near/a", "near", "file", "away/out", "away", "../out", "sub/../sub/a", "/etc/passwd", "gone"]
            {
                assert!(!opens(path), "{way:?} {path}");
            }
        }
    }

    #[test]
    fn folders_are_made_but_not_behind_a_link() {
        let (home, folder) = world();
        let made = |path: &str| make(&folder, Path::new(path), |_| Ok(()));
        made("sub/b/c").unwrap();
        made("sub/b").unwrap();
        assert!(home.path().join("ws/sub/b/c").is_dir());
        for path in ["away/d", "near/d", "sub/a/d"] {
            assert!(made(path).is_err(), "{path}");
        }
        assert!(!home.path().join("d").exists() && !home.path().join("ws/sub/d").exists());
    }
}
