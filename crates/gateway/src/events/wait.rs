//! Waits for a place in a lane, as lines. They are in no journal: such a line stands for no entry, and whoever begins to
//! listen meanwhile is told of the wait as it is then. What may not live here: who waits, which the runtime knows.

use engine::{Bound, BranchId, LaneRequest, Timestamp};
use protocol::event::{QueueLine, Stream};
use protocol::show::{LaneHolder, LaneWait};
use runtime::LaneUpdate;

use super::Line;
use super::place::{BatchPosition, LinePosition};
use super::position::StreamPosition;

/// A wait as the protocol has it.
pub(crate) fn shape(wait: &engine::LaneWait) -> LaneWait {
    let behind =
        wait.behind.iter().map(|request| LaneHolder { session: request.session.to_string(), run: request.run });
    let agent = (wait.bound == Bound::Agent).then(|| wait.request.agent.to_string());
    let (ahead, behind) = (wait.ahead as u32, behind.collect());
    LaneWait { lane: wait.request.lane, agent, since: wait.since, ahead, behind }
}

/// A line of a wait, for whoever stands at this cursor.
pub(crate) fn line_now(cursor: &StreamPosition, wait: &engine::LaneWait, at: Timestamp) -> Line {
    line(cursor, &wait.request, at, waiting(wait, at))
}

/// Who waits, and the line of that.
pub(super) fn told(news: &LaneUpdate) -> (&LaneRequest, Timestamp, QueueLine) {
    match news {
        LaneUpdate::Waits { wait, at } => (&wait.request, *at, waiting(wait, *at)),
        LaneUpdate::Entered { request, since, at } => (
            request,
            *at,
            QueueLine::Entered { message: request.run.into(), lane: request.lane, waited_ms: at.since(*since) },
        ),
    }
}

pub(super) fn line(cursor: &StreamPosition, request: &LaneRequest, at: Timestamp, what: QueueLine) -> Line {
    let event = protocol::Event {
        cursor: cursor.to_string(),
        session: request.session.to_string(),
        run: Some(request.run),
        at,
        what: Stream::Queue(what),
        queue: vec![],
    };
    let nowhere = BatchPosition::nowhere(BranchId(uuid::Uuid::nil()));
    Line { event, at: LinePosition::new(nowhere, cursor.seq(), None) }
}

fn waiting(wait: &engine::LaneWait, at: Timestamp) -> QueueLine {
    QueueLine::Waiting { message: wait.request.run.into(), waited_ms: at.since(wait.since), wait: shape(wait) }
}
