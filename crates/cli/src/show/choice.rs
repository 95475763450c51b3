//! The arguments that choose a run or a session. A session is named in its place, or with `--session`.

use clap::Args;
use protocol::method::RunParams;

use crate::unnamed::SessionArgument;

/// Chooses a run by its id or by its session.
#[derive(Debug, Clone, Default, Args)]
pub(crate) struct RunChoice {
    /// The run's id, or a unique prefix of it; or a session, for its active, else last, run
    #[arg(value_name = "RUN|KEY")]
    pub(crate) run: Option<String>,
    /// Choose the active, else last, run of this session: NAME, or agent:AGENT:NAME [default: that of this folder]
    #[arg(long, value_name = "KEY", conflicts_with = "run")]
    pub(crate) session: Option<String>,
}

impl RunChoice {
    /// Where it has its session.
    pub(crate) fn session(&mut self) -> SessionArgument<'_> {
        SessionArgument::of(&mut self.session).or_run(&mut self.run)
    }
}

impl From<RunChoice> for RunParams {
    fn from(RunChoice { run, session }: RunChoice) -> Self {
        Self { run, session }
    }
}

/// Chooses a session.
#[derive(Debug, Clone, Default, Args)]
pub(crate) struct SessionChoice {
    /// The session: NAME, or agent:AGENT:NAME [default: that of this folder]
    pub(crate) key: Option<String>,
    /// The same as KEY
    #[arg(long, value_name = "KEY", conflicts_with = "key")]
    session: Option<String>,
}

/// Chooses one session, or all.
#[derive(Debug, Clone, Default, Args)]
pub(crate) struct SessionFilter {
    /// The session: NAME, or agent:AGENT:NAME [default: all]
    pub(crate) key: Option<String>,
    /// The same as KEY
    #[arg(long, value_name = "KEY", conflicts_with = "key")]
    session: Option<String>,
}

/// Names a session.
#[derive(Debug, Clone, Default, Args)]
pub(crate) struct SessionName {
    /// The session: NAME, or agent:AGENT:NAME
    #[arg(required_unless_present = "session")]
    key: Option<String>,
    /// The same as KEY
    #[arg(long, value_name = "KEY", conflicts_with = "key")]
    session: Option<String>,
}

impl SessionChoice {
    /// Where it has its session.
    pub(crate) fn session(&mut self) -> SessionArgument<'_> {
        SessionArgument::of(one(&mut self.key, &mut self.session))
    }
}

impl SessionFilter {
    /// Where it has its session.
    pub(crate) fn session(&mut self) -> SessionArgument<'_> {
        SessionArgument::of(one(&mut self.key, &mut self.session)).or_all()
    }
}

impl SessionName {
    /// Where it has its session.
    pub(crate) fn session(&mut self) -> SessionArgument<'_> {
        SessionArgument::of(one(&mut self.key, &mut self.session))
    }

    /// The name.
    pub(crate) fn key(&self) -> &str {
        self.key.as_deref().or(self.session.as_deref()).expect("the command line has one of both")
    }
}

/// The place of the key, which is the same wherever it was given.
fn one<'a>(key: &'a mut Option<String>, flag: &mut Option<String>) -> &'a mut Option<String> {
    if key.is_none() {
        *key = flag.take();
    }
    key
}
