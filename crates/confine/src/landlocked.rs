//! Landlock: what may be read and written, by rules that hold whatever the mounts are.

use std::fs;
use std::io;
use std::path::{Path, PathBuf};

use landlock::{
    ABI, Access as _, AccessFs, AccessNet, BitFlags, CompatLevel, Compatible as _, LandlockStatus, PathBeneath,
    Ruleset, RulesetAttr as _, RulesetCreated, RulesetCreatedAttr as _, RulesetError, RulesetStatus, Scope,
};

use crate::paths::{is_unreachable, open_handle};
use crate::report::LayerState;
use crate::setup::{AtStep as _, SetupError, SetupStep};

/// The newest version whose rights are asked for; the kernel gives those that it has.
const NEWEST: ABI = ABI::V9;
/// Devices that every program may use.
const DEVICES: [&str; 9] = ["null", "zero", "full", "random", "urandom", "tty", "ptmx", "pts", "shm"];
/// Of these, what is harmless if it is that of the host: neither its terminals nor its shared memory.
const DEVICES_OF_HOST: usize = 6;

/// What a command may do with files.
#[derive(Debug)]
pub(crate) struct FileRules {
    readable: Vec<PathBuf>,
    writable: Vec<PathBuf>,
    devices: Vec<PathBuf>,
    connections: Connections,
}

/// Whether Landlock forbids TCP.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Connections {
    Allowed,
    Forbidden,
}

impl FileRules {
    /// Inside an own view, which hides what must be hidden.
    pub(crate) fn in_view(writable: Vec<PathBuf>) -> Self {
        let devices = DEVICES.map(|name| Path::new("/dev").join(name)).to_vec();
        Self { readable: vec!["/".into()], writable, devices, connections: Connections::Allowed }
    }

    /// On the file system of the host. Rules can only allow, so everything beside what is hidden is allowed, one by one. What is
    /// created beside it later cannot be read, and the folders above it cannot be listed.
    pub(crate) fn on_host(writable: &[PathBuf], hidden: &[PathBuf], connections: Connections) -> io::Result<Self> {
        // Disks, memory and terminals, which root could read.
        let hidden: Vec<PathBuf> = hidden.iter().cloned().chain(["/dev".into()]).collect();
        let readable = beside(Path::new("/"), &hidden)?;
        let mut allowed = vec![];
        for path in writable {
            allowed.extend(beside(path, &hidden)?);
        }
        let devices = DEVICES[..DEVICES_OF_HOST].iter().map(|name| Path::new("/dev").join(name)).collect();
        Ok(Self { readable, writable: allowed, devices, connections })
    }

    /// Applies the rules to this process and all that it starts. Returns what they hold, and the version of Landlock.
    pub(crate) fn apply(&self) -> Result<(LayerState, u32), SetupError> {
        let rules = self.ruleset().at(SetupStep::Landlock, "the rules")?;
        let rules = self.add_paths(rules)?;
        let status = rules.restrict_self().at(SetupStep::Landlock, "the kernel")?;
        let LandlockStatus::Available { effective_abi, .. } = status.landlock else {
            return Err(SetupError::new(SetupStep::Landlock, "this kernel has no Landlock, or it is off"));
        };
        if status.ruleset == RulesetStatus::NotEnforced {
            return Err(SetupError::new(SetupStep::Landlock, "the kernel enforces nothing"));
        }
        Ok((state(effective_abi), effective_abi as u32))
    }

    /// The rights of the first version are required; of the later ones, those that exist.
    fn ruleset(&self) -> Result<RulesetCreated, RulesetError> {
        let mut rules = Ruleset::default()
            .set_compatibility(CompatLevel::HardRequirement)
            .handle_access(AccessFs::from_all(ABI::V1))?
            .set_compatibility(CompatLevel::BestEffort)
            .handle_access(AccessFs::from_all(NEWEST))?
            .scope(Scope::from_all(NEWEST))?;
        if self.connections == Connections::Forbidden {
            rules = rules.handle_access(AccessNet::from_all(NEWEST))?;
        }
        rules.create()
    }

    fn add_paths(&self, mut rules: RulesetCreated) -> Result<RulesetCreated, SetupError> {
        let groups =
            [(&self.readable, AccessFs::from_read(NEWEST)), (&self.writable, writing()), (&self.devices, writing())];
        for (paths, rights) in groups {
            for path in paths {
                rules = add(rules, path, rights)?;
            }
        }
        Ok(rules)
    }
}

/// Everything but making devices.
fn writing() -> BitFlags<AccessFs> {
    AccessFs::from_all(NEWEST) & !(AccessFs::MakeChar | AccessFs::MakeBlock)
}

/// Adds a path; one that this process cannot reach, the command cannot reach either.
fn add(rules: RulesetCreated, path: &Path, rights: BitFlags<AccessFs>) -> Result<RulesetCreated, SetupError> {
    let handle = match open_handle(path) {
        Ok(handle) => handle,
        Err(error) if is_unreachable(&error) => return Ok(rules),
        Err(error) => return Err(SetupError::new(SetupStep::Landlock, format!("{}: {error}", path.display()))),
    };
    let found = rustix::fs::fstat(&handle).at(SetupStep::Landlock, path.display())?;
    let is_folder = rustix::fs::FileType::from_raw_mode(found.st_mode).is_dir();
    let rights = if is_folder { rights } else { rights & AccessFs::from_file(NEWEST) };
    rules.add_rule(PathBeneath::new(handle, rights)).at(SetupStep::Landlock, path.display())
}

/// The paths at or below `path` that contain nothing hidden and together are all that is not hidden, but for the folders on
/// the way. Symbolic links are left out: what they lead to has its own place.
fn beside(path: &Path, hidden: &[PathBuf]) -> io::Result<Vec<PathBuf>> {
    if hidden.iter().any(|hidden| hidden == path) {
        return Ok(vec![]);
    }
    if !hidden.iter().any(|hidden| hidden.starts_with(path)) {
        return Ok(vec![path.to_owned()]);
    }
    let entries = match fs::read_dir(path) {
        Ok(entries) => entries,
        Err(error) if is_unreachable(&error) => return Ok(vec![]),
        Err(error) => return Err(error),
    };
    let mut paths = vec![];
    for entry in entries {
        let entry = entry?;
        if !entry.file_type()?.is_symlink() {
            paths.extend(beside(&entry.path(), hidden)?);
        }
    }
    Ok(paths)
}

fn state(abi: ABI) -> LayerState {
    let missing = [
        (ABI::V2, "moving files between folders fails"),
        (ABI::V3, "truncating files is not held"),
        (ABI::V5, "ioctl on devices is not held"),
        (ABI::V6, "signals to other processes and abstract sockets are not held"),
    ];
    let missing: Vec<_> = missing.into_iter().filter(|(needed, _)| abi < *needed).map(|(_, what)| what).collect();
    if missing.is_empty() { LayerState::Enforced } else { LayerState::partial(missing.join("; ")) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn everything_beside_what_is_hidden_is_allowed() {
        let home = tempfile::tempdir().unwrap();
        let at = |name: &str| home.path().join(name);
        for folder in [".ssh", ".config/gh", ".config/git", "work"] {
            fs::create_dir_all(at(folder)).unwrap();
        }
        std::os::unix::fs::symlink(at(".ssh"), at("link")).unwrap();
        let mut found = beside(home.path(), &[at(".ssh"), at(".config/gh"), at("absent")]).unwrap();
        found.sort();
        assert_eq!(found, [at(".config/git"), at("work")]);
        assert_eq!(beside(&at("work"), &[at(".ssh")]).unwrap(), [at("work")]);
        assert_eq!(beside(&at(".ssh"), &[at(".ssh")]).unwrap(), Vec::<PathBuf>::new());
    }
}
