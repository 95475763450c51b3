//! Random next steps.

use engine::tables::routing::OnlyIf;
use engine::tables::transitions::RunState;
use engine::{
    BodyKind, Breakpoint, Command, Content, Decide as _, MessageId, Override, Overrides, QueueMode, Report, RunId,
    SenderOptions, Stage,
};
use uuid::Uuid;

use super::super::oracle::{Asked, Offered};
use super::{World, configured};

/// Messages of one interleaving.
const MESSAGES: u32 = 50;

impl World {
    /// A step of any kind.
    pub(super) fn anything(&mut self) -> Result<(), String> {
        match self.rng.pick(40) {
            0..=7 if self.messages < MESSAGES => self.message(),
            8 => self.pause(),
            9..=11 => self.resume(),
            12 if self.rng.one_in(2) && self.may_end() => self.input(Command::Abort { run: None }, &Asked::Abort),
            13 => self.cancel(),
            14 if self.rng.one_in(8) => self.input(Command::Clear, &Asked::Other),
            15 => self.restart(),
            16 => self.answer(),
            17 | 18 => {
                let long = if self.may_end() { 70_000 } else { 1_000 };
                self.now += self.rng.of(&[100, 600, 1_000, long]);
                self.input(Report::Due, &Asked::Other)
            }
            19 | 24 => self.set_breakpoint(),
            20 if self.rng.one_in(4) && self.may_end() => self.input(Command::Reset, &Asked::Reset),
            21 if self.rng.one_in(2) => self.set_mode(),
            22 if self.rng.one_in(4) => {
                self.queue = configured(&mut self.rng);
                Ok(())
            }
            23 if self.rng.one_in(2) => self.again(),
            25 if self.messages < MESSAGES => self.compact(),
            _ => self.progress(),
        }
    }

    /// Whether a step that ends a run is done now: half of the interleavings have few of them, so that their runs get
    /// further.
    fn may_end(&mut self) -> bool {
        !self.is_calm || self.rng.one_in(6)
    }

    /// A step that lets the interleaving become quiet.
    pub(super) fn help(&mut self) -> Result<(), String> {
        let run = self.session()?.run();
        if run.is_some_and(|run| run.pause.is_some()) {
            return self.input(Command::Resume { run: None, drop: false }, &Asked::Resume { drop: false });
        }
        if run.is_some_and(|run| run.step.calls.iter().any(|call| call.stage == Stage::Asking)) {
            return self.answer();
        }
        if self.effects.is_empty() {
            self.now = self.machine.deadline().map_or(self.now, |at| at.0.max(self.now));
            return self.input(Report::Due, &Asked::Other);
        }
        self.progress()
    }

    fn message(&mut self) -> Result<(), String> {
        self.messages += 1;
        let modes =
            [QueueMode::Steer, QueueMode::Followup, QueueMode::Collect, QueueMode::SteerBacklog, QueueMode::Interrupt];
        // An interrupt ends much: fewer of them let the other modes get further.
        let mode = if self.rng.one_in(3) && self.may_end() { self.rng.of(&modes) } else { self.rng.of(&modes[..4]) };
        // Some leave it to their session, or to the settings.
        let mode = Some(mode).filter(|_| !self.rng.one_in(4));
        let message = MessageId(Uuid::from_u128(u128::from(self.messages) + 100));
        let content = Content::text(BodyKind::Message, &format!("look at {}", self.messages));
        let only_if = self.rng.one_in(8).then(|| self.rng.of(&[OnlyIf::Idle, OnlyIf::Active]));
        let queue = self.queue;
        let offered = Offered { message, body: content.body.hash, mode, queue, compacts: false, only_if };
        self.send(message, content, (mode, only_if), &Asked::Message(offered))
    }

    fn send(
        &mut self,
        message: MessageId,
        content: Content,
        (mode, only_if): (Option<QueueMode>, Option<OnlyIf>),
        asked: &Asked,
    ) -> Result<(), String> {
        let command = Command::Message {
            message,
            content,
            mode,
            queue: self.queue,
            key: None,
            overrides: Overrides::default(),
            attachments: vec![],
            options: SenderOptions { only_if, ..SenderOptions::default() },
        };
        self.input(command, asked)
    }

    /// A request to compact, behind what waits for its run. Other worlds compact the history of a run.
    fn compact(&mut self) -> Result<(), String> {
        let session = self.session()?;
        if session.run().is_some() || session.conversation.queue.is_empty() {
            return Ok(());
        }
        self.messages += 1;
        let message = MessageId(Uuid::from_u128(u128::from(self.messages) + 100));
        let focus = Content::text(BodyKind::Message, "the numbers");
        let mode = Some(QueueMode::Followup);
        let queue = self.queue;
        let offered = Offered { message, body: focus.body.hash, mode, queue, compacts: true, only_if: None };
        self.input(Command::Compact { message, focus, queue: self.queue }, &Asked::Message(offered))
    }

    /// A sender that got no acknowledgement sends its message again, perhaps in another mode.
    fn again(&mut self) -> Result<(), String> {
        if self.accepted.is_empty() {
            return Ok(());
        }
        let (message, number) = self.accepted[self.rng.pick(self.accepted.len())];
        let content = Content::text(BodyKind::Message, &format!("look at {number}"));
        let mode = self.rng.of(&[None, Some(QueueMode::Steer), Some(QueueMode::Interrupt)]);
        self.send(message, content, (mode, Some(OnlyIf::Idle)), &Asked::Again(message))
    }

    fn pause(&mut self) -> Result<(), String> {
        let freeze = self.rng.one_in(3);
        self.input(Command::Pause { run: None, freeze }, &Asked::Pause { freeze })
    }

    fn resume(&mut self) -> Result<(), String> {
        let drop = self.rng.one_in(6) && self.may_end();
        self.input(Command::Resume { run: None, drop }, &Asked::Resume { drop })
    }

    fn set_breakpoint(&mut self) -> Result<(), String> {
        let Some(run) = self.session()?.run().map(|run| run.id) else { return Ok(()) };
        let other = RunId(Uuid::from_u128(99));
        let run = if self.rng.one_in(8) { other } else { run };
        let states = [
            RunState::Preparing,
            RunState::ToolExec,
            RunState::Awaiting,
            RunState::Error,
            RunState::Retry,
            RunState::Compacting,
            RunState::Streaming,
        ];
        let at = match self.rng.pick(8) {
            0 => None,
            1..=3 => Some(Breakpoint::BeforeTool(self.rng.of(&["exec", "read"]).into())),
            _ => Some(Breakpoint::OnState(self.rng.of(&states))),
        };
        self.input(Command::Break { run, at: at.clone() }, &Asked::Break { run, at })
    }

    /// Sets the session's mode for messages without one.
    fn set_mode(&mut self) -> Result<(), String> {
        let mode = self.rng.of(&[None, Some(QueueMode::Steer), Some(QueueMode::Collect), Some(QueueMode::Interrupt)]);
        self.input(Command::Override(Override::QueueMode(mode)), &Asked::Override(mode))
    }

    fn cancel(&mut self) -> Result<(), String> {
        let queue = &self.session()?.conversation.queue;
        if queue.is_empty() {
            return Ok(());
        }
        let count = queue.len();
        let at = self.rng.pick(count);
        let (message, leg) =
            self.session()?.conversation.queue.get(at).map(|one| (one.message, one.leg)).ok_or("it is there")?;
        let leg = Some(leg).filter(|_| self.rng.one_in(2));
        self.input(Command::Cancel { message, leg }, &Asked::Other)
    }

    pub(super) fn answer(&mut self) -> Result<(), String> {
        let calls = self.session()?.run().map(|run| run.step.calls.as_slice()).unwrap_or_default();
        let asks = calls.iter().find(|call| call.stage == Stage::Asking);
        let Some((call, fingerprint)) = asks.and_then(|call| Some((call.id, call.fingerprint?))) else { return Ok(()) };
        let allow = self.rng.one_in(2);
        self.input(
            Command::Answer {
                call,
                fingerprint,
                decision: if allow { engine::Decision::ONCE } else { engine::Decision::DENY },
                by: "me".into(),
            },
            &Asked::Other,
        )
    }

    /// Requests while its run waits for its lane.
    pub(super) fn while_it_waits(&mut self) -> Result<(), String> {
        if self.rng.one_in(2) && self.messages < MESSAGES {
            self.message()?;
        }
        if self.rng.one_in(4) {
            self.pause()?;
        }
        Ok(())
    }

    /// The process ends, properly or not. What comes while it shuts down is accepted too.
    fn restart(&mut self) -> Result<(), String> {
        if self.rng.one_in(3) {
            self.input(Report::Closing, &Asked::Other)?;
            if self.rng.one_in(2) && self.messages < MESSAGES {
                self.message()?;
            }
        }
        self.crash()
    }
}
