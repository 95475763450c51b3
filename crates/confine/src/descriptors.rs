//! Inherited descriptors: a folder or a socket of the caller would be a way around everything else.

use std::io;
use std::os::fd::RawFd;

/// Closes every descriptor above standard error but those that are kept. To be called before this process opens anything.
pub(crate) fn close_inherited(kept: &[RawFd]) -> io::Result<()> {
    let mut open = vec![];
    for entry in std::fs::read_dir("/proc/self/fd")? {
        open.extend(entry?.file_name().to_str().and_then(|name| name.parse::<RawFd>().ok()));
    }
    for descriptor in open.into_iter().filter(|descriptor| *descriptor > 2 && !kept.contains(descriptor)) {
        // The one of the listing is closed already.
        let _ = nix::unistd::close(descriptor);
    }
    Ok(())
}
