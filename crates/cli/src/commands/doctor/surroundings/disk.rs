//! The disk of the home: its free space and its file system.

use std::path::Path;

use config::size;
use rustix::fs::{statfs, statvfs};

use super::{Level, Section};

/// Free bytes below which a warning is given.
const LITTLE: u64 = 500 << 20;

/// File systems of other machines, by the number that the system gives them. A journal needs locks and shared memory that these do
/// not keep.
const NETWORK: &[(u32, &str)] = &[
    (0x6969, "NFS"),
    (0xFF53_4D42, "CIFS"),
    (0xFE53_4D42, "SMB"),
    (0x517B, "SMB"),
    (0x0102_1997, "9P"),
    (0x5346_414F, "AFS"),
    (0x00C3_6400, "Ceph"),
    (0x0BD0_0BD0, "Lustre"),
    (0x7375_7245, "Coda"),
    (0x6573_5546, "FUSE"),
];

/// Other file systems, by the same number.
const LOCAL: &[(u32, &str)] = &[
    (0xEF53, "ext4"),
    (0x5846_5342, "XFS"),
    (0x9123_683E, "Btrfs"),
    (0x2FC1_2FC1, "ZFS"),
    (0xF2F5_2010, "F2FS"),
    (0x0102_1994, "tmpfs"),
    (0x8584_58F6, "ramfs"),
    (0x794C_7630, "overlayfs"),
    (0xCA45_1A4E, "bcachefs"),
];

pub(super) fn look(home: &Path) -> Section {
    let mut section = Section::new("disk");
    // A home that is not there yet will be on the disk of the folder above it.
    let Some(folder) = home.ancestors().find(|folder| folder.exists()) else { return section };
    match statvfs(folder) {
        Err(error) => {
            section.add("space", Level::Warning, format!("the space of {} is not known ({error})", folder.display()));
        }
        Ok(disk) => {
            let (free, all) =
                (disk.f_bavail.saturating_mul(disk.f_frsize), disk.f_blocks.saturating_mul(disk.f_frsize));
            let text = format!("{} of {} are free", size(free), size(all));
            if free < LITTLE {
                section.hint(
                    "space",
                    Level::Warning,
                    text,
                    "make space: at a full disk runs wait, and nothing is lost",
                );
            } else {
                section.add("space", Level::Ok, text);
            }
        }
    }
    let Ok(found) = statfs(folder) else { return section };
    // The number has 32 bits; the system gives it in a wider type, on some machines with a sign.
    let number = found.f_type as u32;
    let named = |names: &[(u32, &'static str)]| names.iter().find(|(known, _)| *known == number).map(|(_, name)| *name);
    match (named(NETWORK), named(LOCAL)) {
        (Some("FUSE"), _) => {
            let hint = "if it is on another machine, set LIMULUS_HOME to a folder on a disk of this one";
            section.hint("file_system", Level::Note, "the home is on FUSE", hint);
        }
        (Some(name), _) => {
            let text =
                format!("the home is on {name}, a file system of another machine: the journal may be damaged there");
            let hint = "set LIMULUS_HOME to a folder on a disk of this machine";
            section.hint("file_system", Level::Warning, text, hint);
        }
        (None, Some(name @ ("tmpfs" | "ramfs"))) => {
            let text = format!("the home is in memory ({name}): it is gone when this machine stops");
            section.hint("file_system", Level::Note, text, "set LIMULUS_HOME to a folder on a disk to keep it");
        }
        (None, name) => {
            section.add("file_system", Level::Ok, name.map_or(format!("file system {number:#x}"), str::to_owned));
        }
    }
    section
}
