//! `run_call`: runs a call, or attaches to a command that outlived its runtime. Dropped, a tool in this process stops; a
//! command goes on under its supervisor.

use engine::Report;
use tokio::sync::mpsc;
use tools::{CallRequest, Context};

use super::Reporter;
use crate::crashpoint;

/// Pieces of live output that may wait; more waits in the output's file.
const WAITING_PIECES: usize = 64;

pub(super) async fn perform(context: Context, request: CallRequest, reporter: Reporter) {
    let effect = reporter.effect();
    crashpoint::hit("intent_synced");
    let (send, mut pieces) = mpsc::channel(WAITING_PIECES);
    let run = async {
        // A piece that finds no room is left out, and with it all that follow: live output is a courtesy, the result is
        // whole either way.
        let mut open = true;
        let ended = tools::run(&context, &request, |offset, text| {
            open = open && send.try_send((offset, text)).is_ok();
        });
        let ended = ended.await;
        drop(send);
        ended
    };
    let tell = async {
        while let Some((offset, text)) = pieces.recv().await {
            crashpoint::hit("mid_call");
            reporter.report(Report::CallOutput { effect, offset, text }).await;
        }
    };
    let (given, ()) = tokio::join!(run, tell);
    crashpoint::hit("call_ended");
    reporter.report(Report::CallEnded { effect, given }).await;
}
