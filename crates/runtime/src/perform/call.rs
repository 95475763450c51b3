//! The effects of a call and of the command that it leaves in the background.

use std::sync::{Arc, Mutex, PoisonError};
use std::thread;
use std::time::Duration;

use engine::{BodyKind, CallOutcome, Content, EffectId, EndingCause, Report, Settings};
use tokio::sync::mpsc;
use tools::{CallAhead, CallRequest, Context, ProcessContext, ProcessEnd};

use super::Reporter;
use crate::crashpoint;
use crate::runtime::{Redaction, Shared};

/// How long a call has to end before it is reported as not ended: a second less than the engine waits.
const GRACE: Duration = Duration::from_secs(4);

/// Pieces of live output that may wait; the output's file holds the rest.
const WAITING_PIECES: usize = 64;

/// A call that began with its check, if its check has ended.
pub(crate) type Ahead = Arc<Mutex<Option<CallAhead>>>;

/// `check_call`: checks whether the arguments fit and whether the call may run. A call that changes nothing begins with it.
/// When dropped, the check ends.
pub(super) async fn check(
    settings: Arc<Settings>,
    (context, request): (Context, CallRequest),
    ahead: Ahead,
    reporter: Reporter,
) {
    let effect = reporter.effect();
    if context.tools.runs_commands(&request.tool) {
        let ahead = context.clone();
        list_ahead(move || tools::list_ahead(&ahead));
    }
    let (checked, begun) = tools::check(settings, context, request).await;
    *ahead.lock().unwrap_or_else(PoisonError::into_inner) = begun;
    let report = Report::CallChecked {
        effect,
        decision: checked.decision,
        fingerprint: checked.fingerprint,
        evidence: checked.evidence,
        reason: checked.reason,
        timeout_ms: checked.timeout_ms,
        grant: checked.grant,
        question: checked.question,
    };
    reporter.report(report).await;
}

/// `run_call` of a call that began with its check. When dropped, the call stops.
pub(super) async fn run_begun(begun: CallAhead, reporter: Reporter) {
    let effect = reporter.effect();
    crashpoint::hit("intent_synced");
    let given = begun.ended().await;
    crashpoint::hit("call_ended");
    reporter.report(Report::CallEnded { effect, given }).await;
}

/// `run_call`: runs a call, or attaches to a command that outlived its runtime. When dropped, a tool in this process
/// stops; a command continues under its supervisor.
pub(super) async fn run(context: Context, request: CallRequest, reporter: Reporter) {
    let effect = reporter.effect();
    crashpoint::hit("intent_synced");
    let (send, mut pieces) = mpsc::channel(WAITING_PIECES);
    let run = async {
        // A piece without space is left out, and so are all that follow: live output is best effort, and the result is
        // complete either way.
        let mut open = true;
        let ended = tools::run(&context, &request, |offset, text| {
            open = open && send.try_send((offset, text)).is_ok();
        });
        let ended = ended.await;
        drop(send);
        ended
    };
    let report = async {
        while let Some((offset, text)) = pieces.recv().await {
            crashpoint::hit("mid_call");
            reporter.report(Report::CallOutput { effect, offset, text }).await;
        }
    };
    let (given, ()) = tokio::join!(run, report);
    crashpoint::hit("call_ended");
    reporter.report(Report::CallEnded { effect, given }).await;
}

/// `find_call`: looks up the outcome of a call that a crash interrupted.
pub(super) async fn find(context: Context, request: CallRequest, reporter: Reporter) {
    let effect = reporter.effect();
    let found = tools::find(&context, &request).await;
    reporter.report(Report::CallFound { effect, found: found.found, ended: found.ended }).await;
}

/// `end_call`: ends a running call with all its processes.
pub(super) async fn end(context: Context, request: CallRequest, why: EndingCause, reporter: Reporter) {
    let effect = reporter.effect();
    crashpoint::hit("ending_call");
    let mut given = tools::end(&context, &request, GRACE).await;
    // A command that was done before it could be ended has exceeded no limit; one that its supervisor ended says so.
    if why == EndingCause::Limit && !matches!(given.outcome, CallOutcome::Done | CallOutcome::TimedOut) {
        let limit = tools::limit_reached(&context, &request);
        let text = String::from_utf8_lossy(&given.output.bytes).into_owned() + &limit;
        given.output = Content::text(BodyKind::Output, &text);
    }
    reporter.report(Report::CallEnded { effect, given }).await;
}

/// `hold_process`: follows a background command until it ends. When dropped, it leaves the command to its supervisor.
pub(super) async fn hold_process(shared: Arc<Shared>, process: EffectId, reporter: Reporter) {
    let end = tools::hold_process(&processes(&shared), process).await;
    process_ended(end, reporter).await;
}

/// `end_process`: ends a background command. When dropped, it leaves the command to its supervisor.
pub(super) async fn end_process(shared: Arc<Shared>, process: EffectId, reporter: Reporter) {
    let end = tools::end_process(&processes(&shared), process, GRACE).await;
    process_ended(end, reporter).await;
}

async fn process_ended(end: ProcessEnd, reporter: Reporter) {
    let effect = reporter.effect();
    let ProcessEnd { outcome, how, changes } = end;
    reporter.report(Report::ProcessEnded { effect, outcome, how, changes }).await;
}

fn processes(shared: &Shared) -> ProcessContext {
    let Redaction { secrets, protected, undo, .. } = shared.resolver.redaction();
    ProcessContext { calls: shared.calls(), files: shared.files(undo), protected: protected.and(&shared.own), secrets }
}

/// Lists the workspace ahead of a command, on a thread that nobody waits for: when the process ends, so does the look.
pub(super) fn list_ahead(look: impl FnOnce() + Send + 'static) {
    // Without a thread, the call itself lists it.
    let _ = thread::Builder::new().name("list".to_owned()).spawn(look);
}
