//! Checks a call and, if that allows it and it changes nothing, runs it in one go on the same thread. A round of the agent
//! loop is mostly such a call, and each change of threads costs more than listing a folder.

use std::sync::Arc;
use std::time::Duration;

use engine::{Policy, Settings, ToolResult};
use tokio::sync::oneshot;
use tokio::task::{JoinError, JoinHandle};
use tokio::time::timeout;

use crate::call::{self, CallRequest, Context};
use crate::cancel::{Cancel, CancelOnDrop};
use crate::error::ToolError;
use crate::file_call;
use crate::masking::Secrets;
use crate::policy::{Checked, check_here, unchecked};
use crate::tool::ParsedCall;
use crate::tool_result;

/// A call that takes longer is reported as checked while it still runs, so that its limit begins.
const TOGETHER: Duration = Duration::from_millis(2);

/// A call that changes nothing and that began with its check. Dropping it ends the call.
#[derive(Debug)]
pub struct CallAhead {
    call: Began,
    tool: &'static str,
    _cancel: CancelOnDrop,
}

#[derive(Debug)]
enum Began {
    Ended(Worked),
    Runs(JoinHandle<Option<Box<ToolResult>>>),
}

/// The result of the thread; an error if it panicked.
type Worked = Result<Option<Box<ToolResult>>, JoinError>;

/// Checks a call, and begins it if it may run and changes nothing. Dropping the future ends both. Whoever does not run the call
/// at once drops what began: it would show files as they were at the time of the check.
pub async fn check(settings: Arc<Settings>, context: Context, request: CallRequest) -> (Checked, Option<CallAhead>) {
    let (cancel, secrets) = (Cancel::default(), context.secrets.clone());
    let guard = CancelOnDrop(cancel.clone());
    let (report, reported) = oneshot::channel();
    let mut working = tokio::task::spawn_blocking(move || {
        let (checked, call) = check_here(&settings, &context, &request, &cancel);
        let may_begin = checked.decision == Policy::Allow;
        let reading = call.filter(|_| may_begin).and_then(ParsedCall::into_reading);
        let request = CallRequest { evidence: checked.evidence.clone(), ..request };
        // Nobody is woken by it while the work is awaited.
        let _ = report.send((checked, reading.as_ref().map(|_| call::name(&request))));
        reading.map(|call| Box::new(file_call::run(&context, &request, &*call, &cancel)))
    });
    let ended = timeout(TOGETHER, &mut working).await;
    let Ok((checked, begun)) = reported.await else {
        return (unchecked(&secrets, &ToolError::Defect { tool: "check" }), None);
    };
    let call = match ended {
        Ok(ended) => Began::Ended(ended),
        Err(_) => Began::Runs(working),
    };
    (checked, begun.map(|tool| CallAhead { call, tool, _cancel: guard }))
}

impl CallAhead {
    /// Waits for its result. Dropping the future ends the call.
    pub async fn ended(self) -> ToolResult {
        let ended = match self.call {
            Began::Ended(ended) => ended,
            Began::Runs(running) => running.await,
        };
        let panicked = || tool_result::failed(&Secrets::default(), &ToolError::Defect { tool: self.tool });
        ended.ok().flatten().map_or_else(panicked, |result| *result)
    }
}
