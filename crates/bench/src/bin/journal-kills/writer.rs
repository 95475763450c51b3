//! The child: owns the home and appends as fast as it can, until it is killed.

use std::fs::File;
use std::os::fd::AsFd as _;
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::mpsc;

use engine::Position;
use journal::{Append, Journal as _, Sqlite};

use super::report_line::ReportLine;
use super::script::{self, Script};
use super::{Bug, Problem};

/// Appends of one session that are in flight at once.
pub(super) const IN_FLIGHT: u64 = 2;

/// The arguments that the parent passes to its child.
#[derive(Debug, clap::Args)]
pub(super) struct Args {
    /// Own this home
    #[arg(long)]
    pub(super) home: PathBuf,
    /// Use this seed for the sessions of the home
    #[arg(long)]
    pub(super) seed: u64,
    /// Continue each session after this many steps, which are stored already
    #[arg(long, value_delimiter = ',')]
    pub(super) done: Vec<u64>,
    #[arg(long, value_enum)]
    pub(super) bug: Option<Bug>,
}

/// Appends until the process ends by an error or a signal.
pub(super) fn run(args: &Args) -> Result<(), Problem> {
    let scripts = script::sessions(args.seed, args.done.len() as u64);
    let pipe = Arc::new(File::from(std::io::stdout().as_fd().try_clone_to_owned()?));
    let journal = Sqlite::own(&args.home)?;
    ReportLine::Owned(journal.epoch()).write(&*pipe)?;
    let (answers, answered) = mpsc::channel();
    let mut writer = Writer { journal, scripts, pipe, answers, bug: args.bug };
    let mut next = args.done.clone();
    for _ in 0..IN_FLIGHT {
        for (session, step) in next.iter_mut().enumerate() {
            writer.append(session, *step)?;
            *step += 1;
        }
    }
    loop {
        let session = answered.recv()??;
        writer.append(session, next[session])?;
        next[session] += 1;
    }
}

struct Writer {
    journal: Sqlite,
    scripts: Arc<[Script]>,
    pipe: Arc<File>,
    answers: mpsc::Sender<Result<usize, journal::Error>>,
    bug: Option<Bug>,
}

impl Writer {
    fn append(&mut self, session: usize, step: u64) -> Result<(), Problem> {
        let batch = Arc::new(self.scripts[session].batch(step));
        let (pipe, answers) = (Arc::clone(&self.pipe), self.answers.clone());
        let is_early = self.bug == Some(Bug::Early);
        if is_early {
            ReportLine::Done { session, step, position: Position(0) }.write(&*pipe)?;
        }
        let done = move |answer: Result<Position, journal::Error>| {
            let answer = answer.map(|position| {
                let reported = ReportLine::Done { session, step, position };
                // If the parent is gone, nobody reads the pipe, and there is nothing left to do.
                if !is_early && reported.write(&*pipe).is_err() {
                    std::process::exit(0);
                }
                session
            });
            // The loop above lives as long as the process.
            let _ = answers.send(answer);
        };
        self.journal.append(Append { batch, epoch: self.journal.epoch() }, Box::new(done));
        if let Some(snapshot) = self.scripts[session].snapshot_after(step) {
            self.journal.keep_snapshot(snapshot);
        }
        Ok(())
    }
}
