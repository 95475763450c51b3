//! How a run is named on the command line.

use protocol::method::RunParams;

/// How a run is named on the command line.
#[derive(Debug, Clone, Default, clap::Args)]
pub(crate) struct RunChoice {
    /// The run's id, or as much of its beginning as is unique
    #[arg(value_name = "RUN")]
    pub(crate) run: Option<String>,
    /// The session whose active, else last, run is meant: NAME, or agent:AGENT:NAME [default: agent:main:main]
    #[arg(long, value_name = "KEY", conflicts_with = "run")]
    pub(crate) session: Option<String>,
}

impl From<RunChoice> for RunParams {
    fn from(RunChoice { run, session }: RunChoice) -> Self {
        Self { run, session }
    }
}
