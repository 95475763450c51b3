//! The files of typed keys: one for each provider, readable by the user alone.

use std::fs;
use std::io::{self, Write as _};
use std::path::Path;

use config::make_private;
use models::Secret;

/// Writes a key, whole or not at all. A new file belongs to the user alone, whatever the umask and an earlier file say.
pub(super) fn write(path: &Path, key: &Secret) -> io::Result<()> {
    let folder = path.parent().expect("a file has a folder");
    make_private(folder)?;
    // Made with mode 0600.
    let mut written = tempfile::NamedTempFile::new_in(folder)?;
    writeln!(written, "{}", key.reveal())?;
    written.as_file().sync_all()?;
    written.persist(path).map_err(|error| error.error)?;
    fs::File::open(folder)?.sync_all()
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::PermissionsExt as _;

    use super::*;

    #[test]
    fn r50_a_typed_key_is_in_a_file_for_its_user_alone() {
        let home = tempfile::tempdir().unwrap();
        let path = home.path().join("keys/acme");
        write(&path, &Secret::new("sk-first")).unwrap();
        fs::set_permissions(&path, fs::Permissions::from_mode(0o644)).unwrap();
        write(&path, &Secret::new("sk-second")).unwrap();
        let mode = |path: &Path| fs::metadata(path).unwrap().permissions().mode() & 0o777;
        assert_eq!((mode(&path), mode(path.parent().unwrap())), (0o600, 0o700));
        assert_eq!(fs::read_to_string(&path).unwrap(), "sk-second\n");
        assert_eq!(fs::read_dir(path.parent().unwrap()).unwrap().count(), 1, "nothing else is left");
    }
}
