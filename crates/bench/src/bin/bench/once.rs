//! Work that is done once, in a separate process, to measure a whole process: its syncs and its peak memory.

use std::ffi::OsString;
use std::path::PathBuf;
use std::process::Command;

use super::Problem;
use super::warm::{Warm, peak_mib, tokio};

/// What to do, and where.
#[derive(Debug, clap::Args)]
#[group(skip)]
pub(super) struct Once {
    /// The folder of the home
    #[arg(long)]
    pub(super) folder: PathBuf,
    /// The URL of the model server
    #[arg(long)]
    pub(super) base_url: String,
    /// The number of sessions that get the message
    #[arg(long)]
    pub(super) sessions: usize,
    /// The number of them that run at once
    #[arg(long)]
    pub(super) lane: usize,
}

/// The counts of the work that was done.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(super) struct Done {
    pub(super) batches: u64,
    pub(super) entries: u64,
    pub(super) progress: u64,
    /// The peak memory of the process, MiB.
    pub(super) peak_mib: f64,
}

impl Once {
    /// The arguments of this program for this work and message.
    pub(super) fn arguments(&self, message: &str) -> Vec<OsString> {
        let (sessions, lane) = (self.sessions.to_string(), self.lane.to_string());
        let words =
            ["once", "--message", message, "--base-url", &self.base_url, "--sessions", &sessions, "--lane", &lane];
        words.iter().map(OsString::from).chain(["--folder".into(), self.folder.clone().into()]).collect()
    }

    /// Does it in another process.
    pub(super) fn apart(&self, message: &str) -> Result<Done, Problem> {
        let output = Command::new(std::env::current_exe()?).args(self.arguments(message)).output()?;
        if !output.status.success() {
            return Err(String::from_utf8_lossy(&output.stderr).into_owned().into());
        }
        Done::parse(&String::from_utf8_lossy(&output.stdout))
    }

    /// Does it here and prints the result.
    pub(super) fn run(&self, message: &str) -> Result<(), Problem> {
        let counts = tokio()?.block_on(async {
            let mut warm = Warm::new(&self.folder, &self.base_url, self.lane)?;
            let counts = warm.run(self.sessions, message).await?;
            warm.runtime.shutdown().await?;
            Ok::<_, Problem>(counts)
        })?;
        println!("{} {} {} {}", counts.batches, counts.entries, counts.progress, peak_mib()?);
        Ok(())
    }
}

impl Done {
    /// Reads what [`Once::run`] prints.
    pub(super) fn parse(text: &str) -> Result<Self, Problem> {
        let [batches, entries, progress, peak] = text.split_whitespace().collect::<Vec<_>>()[..] else {
            return Err("the process printed no counts".into());
        };
        Ok(Self {
            batches: batches.parse()?,
            entries: entries.parse()?,
            progress: progress.parse()?,
            peak_mib: peak.parse()?,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_printed_is_read() {
        let done = Done { batches: 1, entries: 2, progress: 3, peak_mib: 4.5 };
        assert_eq!(Done::parse("1 2 3 4.5\n").expect("four numbers"), done);
        assert!(Done::parse("").is_err());
    }
}
