//! What a command reached and what it was refused, for the model and for people. Only hosts, ports and counts: paths, queries and
//! headers hold secrets.

use std::fs::File;
use std::io;
use std::sync::{Mutex, MutexGuard, PoisonError};

use rustix::fd::OwnedFd;
use rustix::fs::{AtFlags, Mode, OFlags, openat, renameat, unlinkat};
use serde::{Deserialize, Serialize};

use super::host::{self, Host};
use crate::folder::CallFolder;
use crate::limits::{HOST_BYTES, NETWORK_HOSTS, NETWORK_REPORT_BYTES};

/// The name of the report in the folder of a call.
const REPORT: &str = "network.json";
const FRESH: &str = "network.json.new";

/// Why a host was refused.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(crate) enum HostRefusal {
    /// No rule allows it, or one denies it.
    NotAllowed,
    /// It has an address that is not on the public internet.
    Private,
    /// It is no host.
    BadHost,
    /// Its name has no address.
    Unresolved,
    /// What is sent to it is no TLS, or names another host.
    Sni,
}

impl HostRefusal {
    /// Why, in words that follow the name of the host.
    pub(crate) fn reason(self) -> &'static str {
        match self {
            Self::NotAllowed => "not among the hosts that this command may reach",
            Self::Private => "not on the public internet",
            Self::BadHost => "not a valid host name",
            Self::Unresolved => "not a name that could be resolved",
            Self::Sni => "only for TLS that names this host",
        }
    }
}

/// A host that was refused.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct RefusedHost {
    pub(crate) host: String,
    pub(crate) port: u16,
    pub(crate) why: HostRefusal,
    pub(crate) times: u64,
}

/// A host that was connected to.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct ReachedHost {
    pub(crate) host: String,
    pub(crate) port: u16,
    /// From the command to the host.
    pub(crate) bytes_up: u64,
    pub(crate) bytes_down: u64,
}

/// What a command did with its network.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct NetworkReport {
    #[serde(default)]
    pub(crate) refused: Vec<RefusedHost>,
    #[serde(default)]
    pub(crate) reached: Vec<ReachedHost>,
    /// Refusals of hosts that the list has no space for.
    #[serde(default, skip_serializing_if = "is_zero")]
    pub(crate) more_refused: u64,
    /// Connections to hosts that the list has no space for.
    #[serde(default, skip_serializing_if = "is_zero")]
    pub(crate) more_reached: u64,
    /// Why the command had no network although it has rules for hosts.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) trouble: Option<String>,
}

#[expect(clippy::trivially_copy_pass_by_ref, reason = "serde passes a reference")]
fn is_zero(count: &u64) -> bool {
    *count == 0
}

impl NetworkReport {
    /// Reads the report of a call. None if it has none, or one that the supervisor did not write.
    pub(crate) fn read(call: &CallFolder) -> Option<Self> {
        let report: Self = serde_json::from_str(&call.small_file(REPORT, NETWORK_REPORT_BYTES)?).ok()?;
        let is_plain = |host: &str| host == printable(host);
        let are_plain = report.refused.iter().all(|refused| is_plain(&refused.host))
            && report.reached.iter().all(|reached| is_plain(&reached.host));
        are_plain.then_some(report)
    }

    /// Returns whether the host is new.
    fn refuse(&mut self, host: String, port: u16, why: HostRefusal) -> bool {
        let is_it = |known: &&mut RefusedHost| known.host == host && known.port == port && known.why == why;
        if let Some(known) = self.refused.iter_mut().find(is_it) {
            known.times += 1;
            return false;
        }
        if self.refused.len() == NETWORK_HOSTS {
            self.more_refused += 1;
            return false;
        }
        self.refused.push(RefusedHost { host, port, why, times: 1 });
        true
    }

    /// Returns the place of the host, if it has one, and whether it is new.
    fn reach(&mut self, host: String, port: u16) -> (Option<usize>, bool) {
        if let Some(at) = self.reached.iter().position(|known| known.host == host && known.port == port) {
            return (Some(at), false);
        }
        if self.reached.len() == NETWORK_HOSTS {
            self.more_reached += 1;
            return (None, false);
        }
        self.reached.push(ReachedHost { host, port, bytes_up: 0, bytes_down: 0 });
        (Some(self.reached.len() - 1), true)
    }
}

/// The report while the command runs.
#[derive(Debug)]
pub(super) struct NetworkRecorder {
    folder: OwnedFd,
    state: Mutex<RecorderState>,
}

#[derive(Debug, Default)]
struct RecorderState {
    report: NetworkReport,
    /// Whether the command has ended: what comes then is not recorded any more.
    is_over: bool,
}

impl NetworkRecorder {
    pub(super) fn new(folder: OwnedFd) -> Self {
        Self { folder, state: Mutex::default() }
    }

    fn state(&self) -> MutexGuard<'_, RecorderState> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// A host as the command named it, which may be none.
    pub(super) fn refuse(&self, host: &str, port: u16, why: HostRefusal) {
        // In front of it a name and a password may stand.
        let host = printable(host.rsplit('@').next().unwrap_or(host));
        let mut state = self.state();
        if state.report.refuse(host, port, why) {
            self.write(&state);
        }
    }

    /// Returns where the bytes of the connection are counted.
    pub(super) fn reach(&self, host: &Host, port: u16) -> Option<usize> {
        let mut state = self.state();
        let (at, is_new) = state.report.reach(host.to_string(), port);
        if is_new {
            self.write(&state);
        }
        at
    }

    pub(super) fn count(&self, at: Option<usize>, up: usize, down: usize) {
        let mut state = self.state();
        if let Some(reached) = at.and_then(|at| state.report.reached.get_mut(at)) {
            reached.bytes_up += up as u64;
            reached.bytes_down += down as u64;
        }
    }

    pub(super) fn trouble(&self, trouble: String) {
        let mut state = self.state();
        state.report.trouble = Some(trouble);
        self.write(&state);
    }

    /// Writes what is known at the end of the command, if there is anything.
    pub(super) fn finish(&self) {
        let mut state = self.state();
        if state.report != NetworkReport::default() {
            self.write(&state);
        }
        state.is_over = true;
    }

    /// A full disk loses the report, and nothing else.
    fn write(&self, state: &RecorderState) {
        if !state.is_over {
            let _ = write(&self.folder, &state.report);
        }
    }
}

fn write(folder: &OwnedFd, report: &NetworkReport) -> io::Result<()> {
    let _ = unlinkat(folder, FRESH, AtFlags::empty());
    let flags = OFlags::WRONLY | OFlags::CREATE | OFlags::EXCL | OFlags::NOFOLLOW | OFlags::CLOEXEC;
    let file = File::from(openat(folder, FRESH, flags, Mode::RUSR | Mode::WUSR)?);
    io::Write::write_all(&mut &file, &serde_json::to_vec(report)?)?;
    Ok(renameat(folder, FRESH, folder, REPORT)?)
}

/// A host that may be shown, whatever a command wrote.
fn printable(host: &str) -> String {
    let is_plain = |c: char| c.is_ascii_alphanumeric() || "-_.:[]?".contains(c);
    host.chars().take(HOST_BYTES).map(|c| if is_plain(c) { c } else { '?' }).collect()
}

/// The first of the refused hosts, in words. None if there is none.
pub(crate) fn refusals(report: &NetworkReport, most: usize) -> Option<String> {
    let named =
        |refused: &RefusedHost| format!("{} ({})", host::authority(&refused.host, refused.port), refused.why.reason());
    let named: Vec<_> = report.refused.iter().take(most).map(named).collect();
    let more = report.refused.len().saturating_sub(most) as u64 + report.more_refused;
    let rest = if more > 0 { format!(" and {more} more") } else { String::new() };
    (!named.is_empty()).then(|| named.join(", ") + &rest)
}
