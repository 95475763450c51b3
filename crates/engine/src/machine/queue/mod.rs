//! Messages: accepted, routed by the table, and put into the queue. Each way from there has its own file; none of them
//! remembers anything, so a restart continues the same way.

mod capacity;
mod cell;
mod control;
mod gather;
mod interrupt;
mod steer;

use super::Machine;
use super::commands::{no_session, state_refusal};
use crate::body::{Attached, Content};
use crate::event::{MessageAccepted, ModeSource, Overrides, QueueMode, QueuePlace, ReceiptState, Reset, WaitFor};
use crate::ids::{MessageId, Moment, RunId, Timestamp};
use crate::input::{Acknowledgement, Receipt, Refusal, SenderOptions};
use crate::mutant;
use crate::queue::{Interrupt, QueueSettings};
use crate::state::{Phase, Session};
use crate::tables::limits::MESSAGE_BYTES;
use crate::tables::routing::{Cell, OnlyIf, Route, route};

/// A message as it was offered.
pub(super) struct Offered {
    pub(super) message: MessageId,
    pub(super) content: Content,
    pub(super) mode: Option<QueueMode>,
    pub(super) queue: QueueSettings,
    pub(super) key: Option<String>,
    pub(super) overrides: Overrides,
    pub(super) attachments: Vec<Attached>,
    pub(super) options: SenderOptions,
}

impl Machine {
    pub(super) fn message(&mut self, offered: Offered, moment: Moment) -> Result<Acknowledgement, Refusal> {
        let Offered { message, content, mode, queue, key, overrides, attachments, options } = offered;
        let Some(session) = &self.session else { return Err(no_session()) };
        let key_of = key.as_ref().filter(|_| !mutant!(KeyForgotten));
        let known = key_of.and_then(|key| session.account.keys.get(key)).copied();
        if let Some(earlier) = known.or_else(|| session.account.messages.contains_key(&message).then_some(message)) {
            return repeated(session, earlier, (&content, &attachments), key.as_deref());
        }
        check_size(session, &content)?;
        options.check().map_err(|what| state_refusal(session, &what))?;
        let session_mode = session.account.queue_mode.filter(|_| !mutant!(ModeIgnored));
        let (mode, mode_by) = match (mode, session_mode) {
            (Some(mode), _) => (mode, ModeSource::Message),
            (None, Some(mode)) => (mode, ModeSource::Session),
            (None, None) => (queue.mode, queue.mode_by),
        };
        let cell = Cell::of(session);
        check_state(session, cell, options.only_if)?;
        let route = route(cell, mode);
        if route == Route::RefuseError {
            return Err(Refusal::NeedsHuman { key: session.account.key.clone() });
        }
        let place = route.place(mode).map_err(|reason| state_refusal(session, reason))?;
        self.ensure_capacity(&queue, moment)?;
        if self.is_stale(&queue) {
            self.emit(Reset {}, moment.now);
        }
        let body = self.keep(content);
        let attachments = self.keep_attached(attachments);
        let debounce_ms = (place == QueuePlace::Gather).then_some(queue.debounce_ms);
        let ends = self.ended_for(route, &queue);
        let SenderOptions { origin, reply_to, masked, .. } = options;
        self.emit(
            MessageAccepted {
                message,
                body,
                mode,
                key,
                overrides,
                attachments,
                place,
                debounce_ms,
                mode_by: Some(mode_by),
                ends,
                origin,
                reply_to,
                masked,
            },
            moment.now,
        );
        self.take_way(message, route, &queue, moment);
        self.advance(moment);
        let session = self.session.as_ref().ok_or_else(no_session)?;
        Ok(Acknowledgement::Receipt(receipt(session, message)))
    }

    /// Whether the conversation is stale: nothing is active or waits, and it was idle too long.
    fn is_stale(&self, queue: &QueueSettings) -> bool {
        let (Some(session), Some(before)) = (&self.session, queue.stale_before) else { return false };
        session.is_idle()
            && session.account.last_activity < before
            && !session.conversation.transcript.items().is_empty()
    }

    /// The run that ends as interrupted for a message that goes this way.
    fn ended_for(&self, route: Route, queue: &QueueSettings) -> Option<RunId> {
        let ends =
            matches!(route, Route::Interrupt | Route::EndPaused) && self.interrupt_of(queue) == Interrupt::Replace;
        self.session.as_ref().filter(|_| ends).and_then(Session::run).map(|run| run.id)
    }

    /// What an interrupt does: the first of the message's, the session's and the default one that is set.
    fn interrupt_of(&self, queue: &QueueSettings) -> Interrupt {
        let of_session = self.session.as_ref().and_then(|session| session.account.interrupt);
        queue.message_interrupt.or(of_session).unwrap_or(queue.interrupt)
    }

    /// The effects of a message beside its place in the queue. Everything else follows from the state.
    fn take_way(&mut self, message: MessageId, route: Route, queue: &QueueSettings, moment: Moment) {
        match route {
            Route::NextBoundary | Route::Both if queue.cut => self.interrupt_for_steer(moment),
            Route::Answer => self.answer_with(message, moment),
            Route::Interrupt => self.interrupt(self.interrupt_of(queue), moment),
            Route::EndPaused if self.interrupt_of(queue) == Interrupt::Replace => self.end_held(moment),
            Route::Start
            | Route::StartGathered
            | Route::Join
            | Route::ThisRequest
            | Route::NextBoundary
            | Route::SkipCalls
            | Route::Withdraw
            | Route::Deliver
            | Route::Keep
            | Route::Queue
            | Route::Gather
            | Route::Both
            | Route::Ahead
            | Route::EndPaused
            | Route::Hold
            | Route::RefuseError
            | Route::RefuseTerminated => {}
        }
    }
}

/// Refuses a message whose sender asks for another state.
fn check_state(session: &Session, cell: Cell, only_if: Option<OnlyIf>) -> Result<(), Refusal> {
    let Some(wanted) = only_if.filter(|wanted| !wanted.holds_in(cell)) else { return Ok(()) };
    let (is, wanted) = (cell.text(), wanted.name());
    let reason = format!(
        "the message was to be accepted only while the session is {wanted}, and it is: {is}; send it without that condition, or later"
    );
    Err(state_refusal(session, &reason))
}

fn check_size(session: &Session, content: &Content) -> Result<(), Refusal> {
    if content.body.bytes <= MESSAGE_BYTES {
        return Ok(());
    }
    let (is, most) = (content.body.bytes.div_ceil(1 << 20), MESSAGE_BYTES >> 20);
    let reason = format!(
        "the message has {is} MiB, at most {most} MiB can be sent; put it into a file in the workspace and name the file"
    );
    Err(state_refusal(session, &reason))
}

/// The answer to a message that was accepted before: the same content gives the same run, other content a conflict.
fn repeated(
    session: &Session,
    earlier: MessageId,
    (content, attached): (&Content, &[Attached]),
    key: Option<&str>,
) -> Result<Acknowledgement, Refusal> {
    let receipt = receipt(session, earlier);
    let same = session.account.messages.get(&earlier).is_some_and(|message| {
        let files = message.attachments.iter().map(|attachment| attachment.body.hash);
        message.body.hash == content.body.hash && files.eq(attached.iter().map(|attached| attached.content.body.hash))
    });
    if same {
        return Ok(Acknowledgement::Receipt(receipt));
    }
    let key = key.map_or_else(|| earlier.to_string(), str::to_owned);
    Err(Refusal::Conflict { key, run: receipt.run })
}

fn receipt(session: &Session, message: MessageId) -> Receipt {
    let known = session.account.messages.get(&message);
    let mut waiting = session.conversation.queue.iter().filter(|queued| !queued.is_extra());
    let ahead = waiting.position(|queued| queued.message == message);
    Receipt {
        message,
        mode: known.map_or(QueueMode::default(), |known| known.mode),
        mode_by: known.and_then(|known| known.mode_by),
        state: known.map_or(ReceiptState::Refused, |known| known.state),
        run: known.map_or(message.into(), |known| known.run),
        ends: known.and_then(|known| known.ends),
        steer: known.and_then(|known| known.steer),
        ahead: ahead.map(|at| at as u32 + 1),
        until: ahead.and_then(|_| waits_until(session)),
        accepted_at: known.map_or(session.account.last_activity, |known| known.accepted_at),
        verbose: session.account.verbose == Some(true),
    }
}

/// When the run's wait ends that everything in the queue waits for as well, if that is known.
fn waits_until(session: &Session) -> Option<Timestamp> {
    let Phase::Awaiting { on: WaitFor::Quota | WaitFor::Budget, until } = session.run()?.phase else { return None };
    until
}
