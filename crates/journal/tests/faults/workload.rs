//! The fixed workload that meets every fault: two sessions, the records of a run with a call, two owners one after the
//! other, and a checkpoint of the WAL in between.

use std::path::Path;
use std::sync::Arc;
use std::sync::mpsc::channel;

use engine::tables::lifecycle::LifecycleKind;
use engine::tables::transitions::RunState;
use engine::{
    Batch, Body, BodyKind, BranchId, CallId, CallOutcome, CallSettled, CallStarted, Closed, Content, Created,
    Durability, EffectId, EffectKind, Event, Hash, MessageAccepted, MessageId, MessageSealed, Next, Opened, Outcome,
    OutputAdded, Overrides, QueueMode, QueuePlace, Record, RequestOpened, RequestSent, RunEnded, RunId, RunStarted,
    Seq, SessionId, SessionRow, StepBegun, TextAdded, TextRetracted, Timestamp, ToolClass, Usage, Views,
};
use faulty_vfs::Disk;
use journal::{Append, Error, Journal, Snapshot, Sqlite};
use rusqlite::Connection;
use uuid::Uuid;

/// A step of the workload; each starts after the reply to the one before it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Step {
    /// A process takes the home; the previous one has ended.
    Own,
    /// A batch of a session (0 or 1).
    Append(usize, Act),
    /// A snapshot of a session, without a reply. It comes only before its owner ends: the next append might or might
    /// not be in one group with it.
    Snapshot(usize),
    /// Another process checkpoints the WAL.
    Checkpoint(&'static str),
}

/// What a session records.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Act {
    Create,
    Accept,
    Start,
    Request,
    Text(u64),
    Seal,
    Call,
    Output(u64),
    Settle,
    Retract,
    End,
    Open,
    Close,
}

const STEPS: &[Step] = &[
    Step::Own,
    Step::Append(0, Act::Create),
    Step::Append(0, Act::Accept),
    Step::Append(0, Act::Start),
    Step::Append(0, Act::Request),
    Step::Append(0, Act::Text(0)),
    Step::Append(0, Act::Text(1)),
    Step::Append(1, Act::Create),
    Step::Append(0, Act::Text(2)),
    Step::Append(0, Act::Seal),
    Step::Append(0, Act::Call),
    Step::Checkpoint("PRAGMA wal_checkpoint(PASSIVE)"),
    Step::Append(0, Act::Output(0)),
    Step::Append(1, Act::Accept),
    Step::Append(0, Act::Output(1)),
    Step::Append(0, Act::Settle),
    Step::Snapshot(0),
    Step::Own,
    Step::Append(0, Act::Open),
    Step::Append(0, Act::Retract),
    Step::Checkpoint("PRAGMA wal_checkpoint(TRUNCATE)"),
    Step::Append(1, Act::Retract),
    Step::Append(0, Act::End),
    Step::Append(0, Act::Retract),
    Step::Append(1, Act::Retract),
    Step::Append(0, Act::Close),
    Step::Snapshot(0),
];

/// The replies that callers got in one run of the workload.
#[derive(Debug, Default)]
pub(crate) struct Replies {
    /// The batches that were acknowledged, in order.
    pub(crate) kept: Vec<Batch>,
    /// The batch whose writing failed: its outcome is unknown.
    pub(crate) doubtful: Option<Batch>,
    /// The error of taking ownership, if it failed.
    pub(crate) refused: Option<Error>,
    /// The errors of appends, in order.
    pub(crate) failed: Vec<Error>,
    /// Whether something was acknowledged after a failure that forbids that.
    pub(crate) acknowledged_too_much: bool,
}

impl Replies {
    /// How many batches must survive a loss of power: those up to the last one that was acknowledged as synced.
    pub(crate) fn synced(&self) -> usize {
        let synced = |batch: &Batch| batch.durability() == Durability::Synced;
        self.kept.iter().rposition(synced).map_or(0, |at| at + 1)
    }

    /// The replies as text.
    pub(crate) fn in_words(&self) -> String {
        if let Some(error) = &self.refused {
            let name = format!("{error:?}").split(|c: char| !c.is_alphanumeric()).next().unwrap_or_default().to_owned();
            return format!("opening is refused ({name})");
        }
        match (self.failed.is_empty(), self.doubtful.is_some()) {
            (true, _) => "nothing: the workload is done",
            (false, true) => "an error, and no acknowledgement after it",
            (false, false) => "`Full` for what has no space; the rest is done",
        }
        .to_owned()
    }

    /// Records the reply to one batch. `Full`, and `UnknownBranch` if the branch's first batch found no space, mean
    /// that the batch is not stored and the journal stays usable; after every other error nothing may be acknowledged.
    pub(crate) fn answer(&mut self, batch: Batch, answer: Result<(), Error>) {
        match answer {
            Ok(()) => {
                self.acknowledged_too_much |= self.doubtful.is_some();
                self.kept.push(batch);
            }
            Err(error) => {
                let is_refused = matches!(error, Error::Full { .. } | Error::UnknownBranch { .. });
                if !is_refused && self.doubtful.is_none() {
                    self.doubtful = Some(batch);
                }
                self.failed.push(error);
            }
        }
    }
}

/// The number of batches in the workload.
pub(crate) fn batches() -> usize {
    STEPS.iter().filter(|step| matches!(step, Step::Append(..))).count()
}

/// Runs the workload until it is done, or the process is dead.
pub(crate) fn work(home: &Path, disk: &Disk) -> Replies {
    let (mut replies, mut sessions) = (Replies::default(), [Script::new(1), Script::new(2)]);
    let mut owner: Option<Sqlite> = None;
    for step in STEPS {
        if disk.is_crashed() {
            break;
        }
        match step {
            Step::Own => {
                drop(owner.take());
                // Whoever reads next decides what became of a doubtful batch, and the rest of the workload would depend
                // on it.
                if replies.doubtful.is_some() || disk.is_crashed() {
                    break;
                }
                match Sqlite::own(home) {
                    Ok(sqlite) => owner = Some(sqlite),
                    Err(error) => {
                        replies.refused = Some(error);
                        break;
                    }
                }
            }
            Step::Append(session, act) => {
                let (Some(owner), session) = (&owner, &mut sessions[*session]) else { continue };
                let before = session.clone();
                let batch = session.batch(*act);
                let answer = append(owner, batch.clone());
                if answer.is_err() {
                    *session = before;
                }
                // A dead process replies to nobody; its files may hold the batch.
                let answer = if disk.is_crashed() { Err(Error::Gone) } else { answer };
                replies.answer(batch, answer);
            }
            Step::Snapshot(session) => {
                if let Some(owner) = &owner {
                    owner.keep_snapshot(sessions[*session].snapshot());
                }
            }
            Step::Checkpoint(sql) => {
                // Another process does this, and ignores errors.
                let _ = Connection::open(home.join("journal.db")).and_then(|c| c.query_row(sql, [], |_| Ok(())));
            }
        }
    }
    replies
}

/// Appends and waits for the result.
pub(crate) fn append(journal: &dyn Journal, batch: Batch) -> Result<(), Error> {
    let (sender, answer) = channel();
    let done = Box::new(move |answer| sender.send(answer).unwrap());
    journal.append(Append { batch: Arc::new(batch), epoch: journal.epoch() }, done);
    answer.recv().unwrap().map(|_| ())
}

/// A session that makes its batches.
#[derive(Debug, Clone)]
pub(crate) struct Script {
    session: SessionId,
    branch: BranchId,
    seq: u64,
    at: i64,
}

impl Script {
    pub(crate) fn new(n: u128) -> Self {
        Self { session: SessionId(Uuid::from_u128(n)), branch: BranchId(Uuid::from_u128(n + 100)), seq: 0, at: 1_000 }
    }

    /// A session as a later owner would begin it.
    pub(crate) fn begin(n: u128) -> Batch {
        Self::new(n).batch(Act::Create)
    }

    /// A session with a message and the start of its run.
    pub(crate) fn messages(n: u128) -> Vec<Batch> {
        let mut script = Self::new(n);
        [Act::Create, Act::Accept, Act::Start].map(|act| script.batch(act)).into()
    }

    /// Not a real state: the test only needs to know whether it is kept.
    fn snapshot(&self) -> Snapshot {
        Snapshot::new(self.branch, Seq(self.seq), long("state").into_bytes())
    }

    fn run(&self) -> RunId {
        RunId(self.session.0)
    }

    fn effect(&self, kind: EffectKind) -> EffectId {
        EffectId { run: self.run(), kind, ordinal: 1, try_no: 1 }
    }

    fn batch(&mut self, act: Act) -> Batch {
        let (events, bodies) = self.events(act);
        let records: Vec<Record> = events.into_iter().map(|event| self.record(event)).collect();
        let views = Views { session: Some(self.row()), ..Views::default() };
        Batch { session: self.session, branch: self.branch, records, bodies, views }
    }

    fn record(&mut self, event: Event) -> Record {
        self.at += 7;
        let seq = event.progress().is_none().then(|| {
            self.seq += 1;
            Seq(self.seq)
        });
        Record { seq, at: Timestamp(self.at), event }
    }

    fn row(&self) -> SessionRow {
        SessionRow {
            session: self.session,
            key: format!("agent:main:{}", self.session),
            agent: "main".to_owned(),
            branch: self.branch,
            created_at: Timestamp(1),
            last_activity: Timestamp(self.at),
            lifecycle: LifecycleKind::Active,
            run_state: RunState::Streaming,
            run: Some(self.run()),
            queued: self.seq as u32,
            unfinished: true,
            trouble: None,
            totals: None,
            title: None,
            model_title: None,
            visibility: engine::Visibility::Listed,
            begun_at: None,
        }
    }

    fn events(&self, act: Act) -> (Vec<Event>, Vec<Content>) {
        let request = self.effect(EffectKind::Request);
        let call = CallId { run: self.run(), step: 1, index: 0 };
        let with = |text: String, event: &dyn Fn(Body) -> Event| {
            let content = Content::text(BodyKind::Message, &text);
            (vec![event(content.body)], vec![content])
        };
        let event = match act {
            Act::Create => self.created(),
            Act::Accept => return with(long("message"), &|body| self.accepted(body)),
            Act::Start => return self.started(),
            Act::Request => RequestSent {
                reserved: None,
                request,
                epoch: engine::Epoch(1),
                candidate: 0,
                items: 1,
                tokens: 9,
                probe: false,
            }
            .into(),
            Act::Text(at) => {
                let text = TextAdded { effect: request, offset: at * 300, text: "t".repeat(300) };
                let opened = (at == 0).then(|| RequestOpened { request }.into());
                return (opened.into_iter().chain([text.into()]).collect(), vec![]);
            }
            Act::Seal => return with(long("answer"), &|body| sealed(request, body)),
            Act::Call => CallStarted {
                call,
                effect: self.effect(EffectKind::RunCall),
                epoch: engine::Epoch(1),
                class: ToolClass::Once,
            }
            .into(),
            Act::Output(at) => {
                let effect = self.effect(EffectKind::RunCall);
                OutputAdded { effect, offset: at * 700, text: "o".repeat(700) }.into()
            }
            Act::Settle => return with(long("output"), &|body| self.settled(call, body)),
            Act::Retract => TextRetracted { request }.into(),
            Act::End => return with(long("answer"), &|body| self.ended(body)),
            Act::Open => Opened { epoch: engine::Epoch(2), last_activity: Timestamp(self.at) }.into(),
            Act::Close => Closed { epoch: engine::Epoch(2) }.into(),
        };
        (vec![event], vec![])
    }

    fn created(&self) -> Event {
        let Self { session, branch, .. } = *self;
        Created { session, key: self.row().key, agent: "main".to_owned(), branch }.into()
    }

    fn accepted(&self, body: Body) -> Event {
        let (message, mode) = (MessageId(self.session.0), QueueMode::Followup);
        MessageAccepted {
            message,
            body,
            mode,
            key: None,
            overrides: Overrides::default(),
            attachments: vec![],
            place: QueuePlace::Back,
            debounce_ms: None,
            ends: None,
            mode_by: None,
            origin: None,
            reply_to: None,
            masked: 0,
        }
        .into()
    }

    fn started(&self) -> (Vec<Event>, Vec<Content>) {
        let prompt = Content::text(BodyKind::Message, "be brief");
        let inputs = vec![MessageId(self.session.0)];
        let begun = StepBegun { step: 1, prompt: prompt.body }.into();
        let started = RunStarted { run: self.run(), inputs, settings: prompt.body.hash, blocks: false }.into();
        (vec![started, begun], vec![prompt])
    }

    fn settled(&self, call: CallId, output: Body) -> Event {
        let effect = Some(self.effect(EffectKind::RunCall));
        CallSettled { call, effect, outcome: CallOutcome::Done, output, whole: None, attachments: vec![] }.into()
    }

    fn ended(&self, text: Body) -> Event {
        let usage = Usage::default();
        RunEnded {
            run: self.run(),
            outcome: Outcome::Completed,
            failure: None,
            text: vec![text],
            usage,
            checkpoint: None,
            stop_reason: None,
            compacted: false,
            verbose: false,
        }
        .into()
    }
}

fn sealed(request: EffectId, text: Body) -> Event {
    let usage = Usage::default();
    MessageSealed {
        cost: 0,
        request,
        text: Some(text),
        reasoning: None,
        calls: vec![],
        usage,
        stop_reason: None,
        next: Next::Finish,
        blocks: None,
        images: vec![],
    }
    .into()
}

/// Two incompressible kilobytes.
fn long(name: &str) -> String {
    (0..32).map(|n| Hash::of(format!("{name} {n}").as_bytes()).to_string()).collect()
}
