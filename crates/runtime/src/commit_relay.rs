//! The way of the journal's answers to the actors. The journal answers a whole group at once, from its own thread; here
//! that is one wake-up of this thread, where an answer to each actor would be one each. What may not live here: what an
//! answer means.

use tokio::sync::mpsc;

use crate::actor::Commit;

/// An answer and the actor that waits for it.
pub(crate) type CommitNotice = (mpsc::UnboundedSender<Commit>, Commit);

/// Notices that are taken in one go.
const ROUND: usize = 256;

/// Delivers until nobody can write any more.
pub(crate) async fn deliver(mut notices: mpsc::UnboundedReceiver<CommitNotice>) {
    let mut round = Vec::new();
    while notices.recv_many(&mut round, ROUND).await > 0 {
        for (actor, commit) in round.drain(..) {
            // An actor that is gone needs no answer.
            let _ = actor.send(commit);
        }
    }
}
