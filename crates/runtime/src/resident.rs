//! How much of a process is in memory. What may not live here: what follows from it, which the engine's budget pool says.

use std::fs;

/// Resident bytes of a process, as the kernel counts them (`VmRSS`); none where the system has no `/proc`, or no such process.
pub fn resident_bytes(pid: u32) -> Option<u64> {
    let status = fs::read_to_string(format!("/proc/{pid}/status")).ok()?;
    let resident = status.lines().find_map(|line| line.strip_prefix("VmRSS:"))?;
    resident.trim().strip_suffix(" kB")?.parse::<u64>().ok()?.checked_mul(1_024)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn r21_what_a_process_has_in_memory_is_known_where_the_system_says_it() {
        let before = resident_bytes(std::process::id());
        let held = std::hint::black_box(vec![1_u8; 64 << 20]);
        let after = resident_bytes(std::process::id());
        if cfg!(target_os = "linux") {
            let grown = after.zip(before).map(|(after, before)| after.saturating_sub(before));
            assert!(grown > Some(48 << 20), "{before:?} {after:?}");
        }
        drop(held);
        assert_eq!(resident_bytes(u32::MAX), None);
    }
}
