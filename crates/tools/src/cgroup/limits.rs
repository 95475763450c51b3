//! What all processes of a command may use together.

use std::fs;
use std::path::Path;

use serde::{Deserialize, Serialize};

/// Hundredths of the memory of the machine that a command in its sandbox may use, unless the configuration says otherwise: enough
/// for every build that works at all, and the rest keeps the machine and its owner answering.
const MEMORY_PERCENT: u64 = 75;
/// Processes and threads of a command: more than any build has, far fewer than the 32,768 ids of a small machine.
pub(super) const PROCESSES: u64 = 8_192;
pub(super) const MIB: u64 = 1 << 20;

/// Which limit a command ran into.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(crate) enum Exceeded {
    /// MiB of memory. The kernel has killed it.
    MemoryMib(u64),
    /// Processes and threads. It could start no more.
    Processes(u64),
}

impl Exceeded {
    /// What the model receives about it.
    pub(crate) fn sentence(self) -> String {
        match self {
            Self::MemoryMib(most) => format!(
                "killed, since its processes together used more than the {most} MiB of memory that a command may use \
                 (`sandbox.memory_mib`)"
            ),
            Self::Processes(most) => format!("it could start no more than {most} processes and threads"),
        }
    }
}

/// Bytes of memory for a command in its sandbox; none if nobody knows what the machine has.
pub(crate) fn memory_bytes(configured_mib: Option<u64>) -> Option<u64> {
    let text = || fs::read_to_string("/proc/meminfo").ok();
    configured_mib.map(|mib| mib.saturating_mul(MIB)).or_else(|| Some(of_machine(&text()?)? / 100 * MEMORY_PERCENT))
}

/// `MemTotal:   1234 kB`
fn of_machine(meminfo: &str) -> Option<u64> {
    let line = meminfo.lines().find_map(|line| line.strip_prefix("MemTotal:"))?;
    Some(line.split_whitespace().next()?.parse::<u64>().ok()? * 1024)
}

/// Limits what is in a cgroup. Returns whether its memory is limited.
pub(super) fn set(folder: &Path, memory_bytes: u64) -> bool {
    let write = |name: &str, value: &str| fs::write(folder.join(name), value).is_ok();
    let is_limited = write("memory.max", &memory_bytes.to_string());
    if is_limited {
        // Else it would push everything else out of the memory first.
        write("memory.swap.max", "0");
        // A command of which the kernel has killed some process ends in ways that nobody understands.
        write("memory.oom.group", "1");
        write("pids.max", &PROCESSES.to_string());
    }
    is_limited
}

/// The limit that the kernel has enforced on what was in a cgroup.
pub(super) fn exceeded(folder: &Path, memory_bytes: u64) -> Option<Exceeded> {
    let has_counted = |file: &str, event: &str| {
        let text = fs::read_to_string(folder.join(file)).unwrap_or_default();
        let counts = text.lines().filter_map(|line| line.split_once(' '));
        counts.into_iter().any(|(name, count)| name == event && count.trim() != "0")
    };
    if has_counted("memory.events", "oom_kill") {
        return Some(Exceeded::MemoryMib(memory_bytes / MIB));
    }
    has_counted("pids.events", "max").then_some(Exceeded::Processes(PROCESSES))
}

#[cfg(test)]
mod tests {
    use super::*;

    /// R67: without a setting a command gets three quarters of what the machine has.
    #[test]
    fn r67_the_memory_of_a_command_is_a_part_of_that_of_the_machine() {
        assert_eq!(of_machine("MemTotal:       24684112 kB\nMemFree: 1 kB\n"), Some(24_684_112 * 1024));
        assert_eq!(of_machine("MemFree: 1 kB\n"), None);
        assert_eq!(memory_bytes(Some(64)), Some(64 << 20));
        let machine = of_machine(&fs::read_to_string("/proc/meminfo").unwrap()).unwrap();
        assert!(memory_bytes(None).is_some_and(|bytes| bytes < machine && bytes > machine / 2));
    }

    /// R67: what the kernel counts says which limit a command ran into.
    #[test]
    fn r67_the_kernels_counts_say_which_limit_was_exceeded() {
        let folder = tempfile::tempdir().unwrap();
        let write = |name: &str, text: &str| fs::write(folder.path().join(name), text).unwrap();
        assert_eq!(exceeded(folder.path(), MIB), None);
        write("memory.events", "low 0\nhigh 0\nmax 12\noom 0\noom_kill 0\noom_group_kill 0\n");
        write("pids.events", "max 0\n");
        assert_eq!(exceeded(folder.path(), MIB), None);
        write("pids.events", "max 3\n");
        assert_eq!(exceeded(folder.path(), MIB), Some(Exceeded::Processes(PROCESSES)));
        write("memory.events", "low 0\nhigh 0\nmax 12\noom 1\noom_kill 2\noom_group_kill 1\n");
        assert_eq!(exceeded(folder.path(), 5 * MIB), Some(Exceeded::MemoryMib(5)));
        assert!(set(folder.path(), 7 * MIB));
        assert_eq!(fs::read_to_string(folder.path().join("memory.max")).unwrap(), (7 * MIB).to_string());
    }
}
