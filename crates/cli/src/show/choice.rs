//! The arguments that choose a run.

use protocol::method::RunParams;

use crate::unnamed::SessionArgument;

/// Chooses a run by its id or by its session.
#[derive(Debug, Clone, Default, clap::Args)]
pub(crate) struct RunChoice {
    /// The run's id, or a unique prefix of it
    #[arg(value_name = "RUN")]
    pub(crate) run: Option<String>,
    /// Choose the active, else last, run of this session: NAME, or agent:AGENT:NAME [default: that of this folder]
    #[arg(long, value_name = "KEY", conflicts_with = "run")]
    pub(crate) session: Option<String>,
}

impl RunChoice {
    /// Where it has its session; none if it names a run.
    pub(crate) fn session(&mut self) -> Option<SessionArgument<'_>> {
        if self.run.is_some() { None } else { Some(SessionArgument::of(&mut self.session)) }
    }
}

impl From<RunChoice> for RunParams {
    fn from(RunChoice { run, session }: RunChoice) -> Self {
        Self { run, session }
    }
}
