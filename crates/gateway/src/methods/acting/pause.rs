//! `runs.pause`, `runs.resume`, `runs.break`: pause a run now or at a breakpoint, and resume it. The response comes
//! when the command is recorded.

use std::sync::Arc;

use engine::{Breakpoint, Command, RunId};
use protocol::method::{BreakParams, PauseParams, RunAsked, RunParams, RunResumeParams};
use views::lookup;

use crate::connection::Caller;
use crate::error::Error;

pub(in crate::methods) async fn pause(caller: &Arc<Caller>, params: PauseParams) -> Result<RunAsked, Error> {
    let PauseParams { run, session, freeze } = params;
    ask(caller, RunParams { run, session }, |run| Command::Pause { run: Some(run), freeze }).await
}

pub(in crate::methods) async fn resume_run(caller: &Arc<Caller>, params: RunResumeParams) -> Result<RunAsked, Error> {
    let RunResumeParams { run, session, drop } = params;
    ask(caller, RunParams { run, session }, |run| Command::Resume { run: Some(run), drop }).await
}

pub(in crate::methods) async fn break_at(caller: &Arc<Caller>, params: BreakParams) -> Result<RunAsked, Error> {
    let BreakParams { run, session, before_tool, on_state } = params;
    let at = match (before_tool, on_state) {
        (Some(tool), None) => {
            let hint = "`beforeTool` is the name of one tool";
            tools::tool_named(&tool).map_err(|why| Error::invalid(why, hint))?;
            Some(Breakpoint::BeforeTool(tool))
        }
        (None, Some(state)) => Some(Breakpoint::OnState(state)),
        (None, None) => None,
        (Some(_), Some(_)) => {
            return Err(Error::invalid("only one breakpoint can be set at a time", "give `beforeTool` or `onState`"));
        }
    };
    ask(caller, RunParams { run, session }, |run| Command::Break { run, at }).await
}

/// Sends a command to the run that the parameters name.
async fn ask(
    caller: &Arc<Caller>,
    choice: RunParams,
    command: impl FnOnce(RunId) -> Command,
) -> Result<RunAsked, Error> {
    let service = &caller.service;
    let found = lookup::run(&**service.runtime.journal(), &choice)?;
    super::ask(service, &found.session, command(found.run)).await?;
    Ok(RunAsked { run_id: found.run, session_key: found.session.key })
}
