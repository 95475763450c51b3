//! The usual metrics of a process, as Linux shows them. On other systems there are none.

use std::fs;
use std::sync::atomic::AtomicU64;

use prometheus_client::metrics::counter::Counter;
use prometheus_client::metrics::gauge::Gauge;
use prometheus_client::registry::Registry;

/// Ticks of the scheduler in a second: what Linux shows to programs is always in these.
const TICKS: f64 = 100.0;

#[derive(Debug, Default)]
pub(super) struct Process {
    cpu: Counter<f64, AtomicU64>,
    memory: Gauge,
    descriptors: Gauge,
}

impl Process {
    pub(super) fn register(&self, registry: &mut Registry) {
        if cfg!(target_os = "linux") {
            registry.register("process_cpu_seconds", "CPU time of the process", self.cpu.clone());
            registry.register("process_resident_memory_bytes", "Memory of the process", self.memory.clone());
            registry.register("process_open_fds", "Open file descriptors of the process", self.descriptors.clone());
        }
    }

    pub(super) fn set(&self) {
        if let Some(seconds) = fs::read_to_string("/proc/self/stat").ok().as_deref().and_then(cpu_seconds) {
            let before = self.cpu.get();
            if seconds > before {
                self.cpu.inc_by(seconds - before);
            }
        }
        if let Some(bytes) = fs::read_to_string("/proc/self/status").ok().as_deref().and_then(resident_bytes) {
            self.memory.set(bytes);
        }
        if let Ok(open) = fs::read_dir("/proc/self/fd") {
            self.descriptors.set(i64::try_from(open.count()).unwrap_or(i64::MAX));
        }
    }
}

/// The CPU time in `/proc/PID/stat`. The name of the program may contain anything.
fn cpu_seconds(stat: &str) -> Option<f64> {
    let mut fields = stat.rsplit_once(')')?.1.split_ascii_whitespace().skip(11);
    let mut ticks = || fields.next()?.parse::<u64>().ok();
    Some((ticks()? + ticks()?) as f64 / TICKS)
}

fn resident_bytes(status: &str) -> Option<i64> {
    let line = status.lines().find_map(|line| line.strip_prefix("VmRSS:"))?;
    line.trim().strip_suffix(" kB")?.trim().parse::<i64>().ok().map(|kib| kib * 1024)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn r68_the_time_and_the_memory_of_a_process_are_read() {
        let stat = "42 (a) b) S 1 2 3 4 5 6 7 8 9 10 150 50 0 0 20";
        assert_eq!(cpu_seconds(stat), Some(2.0));
        assert_eq!(cpu_seconds("42 (cut"), None);
        assert_eq!(resident_bytes("Name:\tx\nVmRSS:\t  1234 kB\n"), Some(1_263_616));
        assert_eq!(resident_bytes("Name:\tx\n"), None);
    }
}
