//! Waits for a lane, as lines. They are in no journal, so such a line has no entry; a subscriber that begins meanwhile
//! receives the wait as it is then.

use engine::{Bound, BranchId, LaneRequest, RunId, Timestamp};
use protocol::event::{QueueLine, Stream};
use protocol::show::{LaneHolder, LaneWait};
use runtime::LaneUpdate;

use super::Line;
use super::batch_position::{BatchPosition, LinePosition};
use super::position::StreamPosition;

/// A wait in the shape of the protocol.
pub fn shape(wait: &engine::LaneWait) -> LaneWait {
    let behind =
        wait.behind.iter().map(|request| LaneHolder { session: request.session.to_string(), run: request.run });
    let agent = (wait.bound == Bound::Agent).then(|| wait.request.agent.to_string());
    let (ahead, behind) = (wait.ahead as u32, behind.collect());
    let for_agents = wait.bound == Bound::Agents;
    LaneWait { lane: wait.request.lane, agent, for_agents, since: wait.since, ahead, behind }
}

/// The line of a wait, for a reader at this cursor.
pub fn line_now(cursor: &StreamPosition, wait: &engine::LaneWait, at: Timestamp) -> Line {
    line(cursor, &wait.request, at, waiting(wait, at))
}

/// The waiting session and the line of its wait.
pub(super) fn queue_line(update: &LaneUpdate) -> (&LaneRequest, Timestamp, QueueLine) {
    match update {
        LaneUpdate::Waits { wait, at } => (&wait.request, *at, waiting(wait, *at)),
        LaneUpdate::Entered { request, since, at } => (
            request,
            *at,
            QueueLine::Entered { message: request.run.into(), lane: request.lane, waited_ms: at.since(*since) },
        ),
    }
}

pub(super) fn line(cursor: &StreamPosition, request: &LaneRequest, at: Timestamp, what: QueueLine) -> Line {
    unrecorded(cursor, (&request.session, Some(request.run)), at, Stream::Queue(what))
}

/// A line of what no entry records.
pub(super) fn unrecorded(
    cursor: &StreamPosition,
    (session, run): (&str, Option<RunId>),
    at: Timestamp,
    what: Stream,
) -> Line {
    let (cursor_text, session) = (cursor.to_string(), session.to_owned());
    let event = protocol::Event { cursor: cursor_text, session, run, at, what, queue: vec![] };
    let nowhere = BatchPosition::nowhere(BranchId(uuid::Uuid::nil()));
    Line { event, at: LinePosition::new(nowhere, cursor.seq(), None) }
}

fn waiting(wait: &engine::LaneWait, at: Timestamp) -> QueueLine {
    QueueLine::Waiting { message: wait.request.run.into(), waited_ms: at.since(wait.since), wait: shape(wait) }
}
