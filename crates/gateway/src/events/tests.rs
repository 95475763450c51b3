//! Subscribers of the whole home leave at any line and come back with its cursor, while sessions record concurrently
//! and notices arrive in another order than the batches were recorded. At the end all of them have read the same: every
//! session without a gap, and nothing twice.

use std::collections::{BTreeMap, VecDeque};
use std::sync::{Arc, Mutex, Weak};
use std::time::Duration;

use engine::tables::lifecycle::{LifecycleCause, LifecycleKind};
use engine::tables::transitions::RunState;
use engine::{
    Batch, BodyKind, BranchId, CallId, CallOutcome, CallSettled, CallStarted, Closed, Content, Created, EffectId,
    EffectKind, Epoch, Event, Flags, InterruptCause, LifecycleChanged, MessageSealed, Next, Opened, Outcome,
    OutputAdded, Record, RequestSent, Resources, RunEnded, RunId, SealedCall, Seq, SessionId, SessionRow,
    StreamInterrupted, TextAdded, Timestamp, ToolClass, Usage, Views,
};
use journal::{Append, Journal, Memory, Read};
use proptest::prelude::*;
use protocol::event::{AssistantLine, Delta, LifecycleLine, StateLine, Stream, ToolLine};
use protocol::{EventFrame, Frame};
use runtime::Published;
use uuid::Uuid;
use views::events::BatchPosition;
use views::events::{CatchUp, Lines, StreamPosition, StreamScope};

use super::subscription::{Encoded, Subscription, Target, split};
use crate::connection::SendBuffer;

const SESSIONS: usize = 3;

/// A session that records what a real one would, step by step.
struct Session {
    nth: usize,
    seq: u64,
    run: u128,
    step: usize,
    /// The text of the open request, the output of the open call.
    text: String,
    output: String,
    is_over: bool,
}

impl Session {
    fn key(&self) -> String {
        format!("agent:main:{}", self.nth)
    }

    fn id(&self) -> SessionId {
        SessionId(Uuid::from_u128(10 + self.nth as u128))
    }

    fn branch(&self) -> BranchId {
        BranchId(Uuid::from_u128(20 + self.nth as u128))
    }

    fn run(&self) -> RunId {
        RunId(Uuid::from_u128(1_000 * (1 + self.nth as u128) + self.run))
    }

    fn effect(&self, kind: EffectKind) -> EffectId {
        EffectId { run: self.run(), kind, ordinal: 1, try_no: 1 }
    }

    /// Records the next step, with bodies; `draw` gives the length of a text.
    #[expect(clippy::too_many_lines, reason = "a table of what is recorded, in order")]
    fn next(&mut self, draw: usize) -> (Vec<Event>, Vec<Content>) {
        let (request, effect) = (self.effect(EffectKind::Request), self.effect(EffectKind::RunCall));
        let call = CallId { run: self.run(), step: 1, index: 0 };
        self.step += 1;
        match self.step {
            1 => {
                let (session, key, branch) = (self.id(), self.key(), self.branch());
                let opened = Opened { epoch: Epoch(1), last_activity: Timestamp(1) };
                (vec![Created { session, key, agent: "main".to_owned(), branch }.into(), opened.into()], vec![])
            }
            2 => (
                vec![
                    RequestSent {
                        reserved: None,
                        tokens: 9,
                        request,
                        epoch: Epoch(1),
                        candidate: 0,
                        items: 1,
                        probe: false,
                    }
                    .into(),
                ],
                vec![],
            ),
            3..=5 => {
                let (offset, text) = (self.text.len() as u64, "text ".repeat(1 + draw % 3));
                self.text.push_str(&text);
                (vec![TextAdded { effect: request, offset, text }.into()], vec![])
            }
            6 => {
                let (text, arguments) =
                    (Content::text(BodyKind::Message, &self.text), Content::text(BodyKind::Message, "{}"));
                let sealed = SealedCall {
                    id: call,
                    provider_id: "p".to_owned(),
                    tool: "read".to_owned(),
                    class: ToolClass::ReadOnly,
                    arguments: arguments.body,
                    answer: None,
                };
                self.text.clear();
                (vec![message(request, &text, vec![sealed]).into()], vec![text, arguments])
            }
            7 => (vec![CallStarted { call, effect, epoch: Epoch(1), class: ToolClass::ReadOnly }.into()], vec![]),
            8..=9 => {
                let (offset, text) = (self.output.len() as u64, "out ".repeat(1 + draw % 2));
                self.output.push_str(&text);
                (vec![OutputAdded { effect, offset, text }.into()], vec![])
            }
            10 => {
                let output = Content::text(BodyKind::Message, &std::mem::take(&mut self.output));
                let settled = CallSettled {
                    call,
                    effect: Some(effect),
                    outcome: CallOutcome::Done,
                    output: output.body,
                    whole: None,
                    attachments: vec![],
                };
                // A subscriber also counts entries that no line reports.
                (vec![settled.into(), Closed { epoch: Epoch(1) }.into()], vec![output])
            }
            _ => {
                let usage = Usage::default();
                let run = self.run();
                self.run += 1;
                (self.step, self.is_over) = (1, self.run == 2);
                let (from, to, cause) = (LifecycleKind::Active, LifecycleKind::Idle, LifecycleCause::Escalated);
                let changed = LifecycleChanged::by(cause, from, to);
                let ended = RunEnded {
                    stop_reason: None,
                    compacted: false,
                    verbose: false,
                    run,
                    outcome: Outcome::Completed,
                    failure: None,
                    text: vec![],
                    usage,
                    checkpoint: None,
                };
                (vec![ended.into(), changed.into()], vec![])
            }
        }
    }

    /// What the next owner records first.
    fn opened(&mut self, epoch: Epoch) -> (Vec<Event>, Vec<Content>) {
        let mut events = vec![Opened { epoch, last_activity: Timestamp(1) }.into()];
        if (3..6).contains(&self.step) {
            let text = Content::text(BodyKind::Message, &std::mem::take(&mut self.text));
            let request = self.effect(EffectKind::Request);
            events.push(StreamInterrupted { request, cause: InterruptCause::Crash, text: Some(text.body) }.into());
            events.push(message(request, &text, vec![]).into());
            self.step = 10;
            return (events, vec![text]);
        }
        (events, vec![])
    }
}

fn message(request: EffectId, text: &Content, calls: Vec<SealedCall>) -> MessageSealed {
    MessageSealed {
        cost: 0,
        request,
        text: Some(text.body),
        reasoning: None,
        calls,
        usage: Usage::default(),
        stop_reason: None,
        next: Next::Finish,
        blocks: None,
        images: vec![],
    }
}

/// A follower of the home, and everything that was read with its cursors before.
struct Reader {
    subscription: Subscription,
    buffer: SendBuffer,
    /// Its lines so far, each with its number.
    lines: Vec<(u64, protocol::Event)>,
}

/// A home whose sessions record concurrently, and all its followers.
struct Home {
    journal: Arc<Memory>,
    lines: Lines,
    sessions: Vec<Session>,
    /// What was recorded in each session but not yet delivered to the hub.
    unheard: Vec<VecDeque<Published>>,
    readers: Vec<Reader>,
}

impl Home {
    fn new() -> Self {
        let journal = Arc::new(Memory::new());
        journal.open();
        let session =
            |nth| Session { nth, seq: 0, run: 0, step: 0, text: String::new(), output: String::new(), is_over: false };
        let sessions = (0..SESSIONS).map(session).collect();
        let unheard = (0..SESSIONS).map(|_| VecDeque::new()).collect();
        Self { lines: Lines::new(journal.clone()), journal, sessions, unheard, readers: vec![] }
    }

    fn record(&mut self, nth: usize, (events, bodies): (Vec<Event>, Vec<Content>)) {
        let session = &mut self.sessions[nth];
        let is_idle = events.iter().any(|event| matches!(event, Event::RunEnded(_)));
        let mut records = vec![];
        for event in events {
            let seq = event.progress().is_none().then(|| {
                session.seq += 1;
                Seq(session.seq)
            });
            records.push(Record { seq, at: Timestamp(7), event });
        }
        let (lifecycle, run_state) =
            if is_idle { (LifecycleKind::Idle, RunState::Idle) } else { (LifecycleKind::Active, RunState::Streaming) };
        let row = SessionRow {
            session: session.id(),
            key: session.key(),
            agent: "main".to_owned(),
            branch: session.branch(),
            created_at: Timestamp(1),
            last_activity: Timestamp(1),
            lifecycle,
            run_state,
            run: None,
            queued: 0,
            unfinished: !is_idle,
            trouble: None,
            totals: Some(engine::SessionTotals::default()),
            title: None,
            model_title: None,
            visibility: engine::Visibility::Listed,
            begun_at: None,
        };
        let views = Views { session: Some(row), ..Views::default() };
        let batch = Batch { session: session.id(), branch: session.branch(), records, bodies, views };
        let (batch, epoch) = (Arc::new(batch), self.journal.epoch());
        let position = Arc::new(Mutex::new(None));
        let stored = Arc::clone(&position);
        let done = Box::new(move |done: Result<_, _>| *stored.lock().unwrap() = Some(done.unwrap()));
        self.journal.append(Append { batch: Arc::clone(&batch), epoch }, done);
        let position = position.lock().unwrap().unwrap();
        let (session, key) = (session.id(), session.key().into());
        let flags = Flags::default();
        let published = Published {
            session,
            key,
            batch,
            epoch,
            position,
            lifecycle,
            run_state,
            flags,
            passed: vec![],
            resources: Resources::default(),
            settings: None,
            found: vec![],
            commit: Duration::ZERO,
        };
        self.unheard[nth].push_back(published);
    }

    /// What a hub does with a batch.
    fn observe(&mut self, nth: usize) {
        let Some(published) = self.unheard[nth].pop_front() else { return };
        let batch = BatchPosition::of(&published);
        let lines: Vec<_> = self.lines.of(&published).into_iter().map(Arc::new).collect();
        for reader in &mut self.readers {
            for line in &lines {
                reader.subscription.observe(&reader.buffer, line, &Encoded::of(line)).unwrap();
            }
            reader.subscription.pass(&batch);
        }
    }

    fn observe_all(&mut self) {
        for nth in 0..SESSIONS {
            while !self.unheard[nth].is_empty() {
                self.observe(nth);
            }
        }
    }

    /// Adds a follower that has read these lines; notices in `meanwhile` arrive while it reads the journal.
    fn subscribe(&mut self, before: Vec<(u64, protocol::Event)>, meanwhile: impl FnOnce(&mut Self)) {
        let cursor = before.last().map_or(String::new(), |(_, line)| line.cursor.clone());
        let (cursor, numbers) = split(&cursor);
        let cursor = if cursor.is_empty() { "home:0.0" } else { cursor };
        let cursor = StreamPosition::parse(StreamScope::Home, cursor).unwrap();
        let mut subscription = Subscription::new(Weak::new(), 5, Target::Home, numbers);
        subscription.begin_at(&cursor.to_string());
        self.readers.push(Reader { subscription, buffer: SendBuffer::default(), lines: before });
        let at = self.readers.len() - 1;
        let journal = Arc::clone(&self.journal);
        let mut reading = CatchUp::of_home(journal.as_ref(), &cursor).unwrap();
        while reading.more(journal.as_ref()).unwrap() {}
        self.readers[at].subscription.start_buffering();
        reading.finish(journal.as_ref()).unwrap();
        let position = reading.position().clone();
        let lines = reading.take_lines();
        meanwhile(self);
        let reader = &mut self.readers[at];
        for line in &lines {
            reader.subscription.send(&reader.buffer, line, &Encoded::of(line)).unwrap();
        }
        reader.subscription.go_live(&reader.buffer, position).unwrap();
    }

    /// Kills the owner: undelivered batches are in the journal alone, and its followers come back to the next owner.
    fn kill(&mut self) {
        self.readers.iter_mut().for_each(Reader::read);
        let left = std::mem::take(&mut self.readers);
        self.unheard.iter_mut().for_each(VecDeque::clear);
        self.journal.crash_process();
        let epoch = self.journal.open();
        self.lines = Lines::new(self.journal.clone());
        for reader in left {
            self.subscribe(reader.lines, |_| {});
        }
        for nth in 0..SESSIONS {
            if self.sessions[nth].step > 0 && !self.sessions[nth].is_over {
                let opened = self.sessions[nth].opened(epoch);
                self.record(nth, opened);
            }
        }
    }

    fn end(&mut self) {
        for nth in 0..SESSIONS {
            while !self.sessions[nth].is_over {
                let next = self.sessions[nth].next(0);
                self.record(nth, next);
            }
        }
        self.observe_all();
        self.readers.iter_mut().for_each(Reader::read);
    }
}

impl Reader {
    /// Takes in what was sent.
    fn read(&mut self) {
        self.buffer.finish();
        let buffer = std::mem::take(&mut self.buffer);
        let mut bytes = vec![];
        let runtime = tokio::runtime::Builder::new_current_thread().build().unwrap();
        while let Some(more) = runtime.block_on(buffer.take()) {
            bytes.extend(more.bytes());
        }
        for line in String::from_utf8(bytes).unwrap().lines() {
            let Frame::Event(EventFrame { payload, seq: Some(seq), .. }) = serde_json::from_str(line).unwrap() else {
                panic!("{line}")
            };
            self.lines.push((seq, serde_json::from_value(payload).unwrap()));
        }
    }

    /// What the follower has read of each session, with adjacent pieces of a text joined.
    fn stories(&self) -> BTreeMap<String, Vec<String>> {
        let mut stories: BTreeMap<String, Vec<String>> = BTreeMap::new();
        let mut texts: BTreeMap<EffectId, u64> = BTreeMap::new();
        let mut pieces: BTreeMap<String, EffectId> = BTreeMap::new();
        let mut opened = vec![];
        for (_, line) in &self.lines {
            let story = stories.entry(line.session.clone()).or_default();
            match &line.what {
                // Output that a call wrote while nobody followed is in its result.
                Stream::State(StateLine::Changed { .. }) | Stream::Usage(_) | Stream::Tool(ToolLine::Update(_)) => {}
                Stream::Assistant(AssistantLine::Delta(Delta { effect, offset, text })) => {
                    let end = texts.entry(*effect).or_default();
                    assert_eq!(end, offset, "a gap or a repetition: {line:?}");
                    *end += text.len() as u64;
                    match story.last_mut() {
                        Some(last) if pieces.get(&line.session) == Some(effect) => last.push_str(text),
                        _ => story.push(text.clone()),
                    }
                    pieces.insert(line.session.clone(), *effect);
                }
                // An interrupted text is reported again with the interruption, behind it.
                Stream::Lifecycle(LifecycleLine::Opened { .. }) => {
                    opened.push(format!("{} {:?}", line.session, line.what));
                }
                what => {
                    pieces.remove(&line.session);
                    story.push(format!("{:?} {what:?}", line.run));
                }
            }
        }
        opened.sort();
        stories.insert("opened".to_owned(), opened);
        stories
    }

    /// Numbers are 1, 2, 3 … within a run, and over all lines without a run.
    fn check_numbers(&self) {
        let mut last: BTreeMap<Option<RunId>, u64> = BTreeMap::new();
        for (seq, line) in &self.lines {
            let last = last.entry(line.run).or_default();
            assert_eq!(*seq, *last + 1, "{line:?}");
            *last = if line.run_end().is_some() { 0 } else { *seq };
        }
    }
}

#[derive(Debug, Clone)]
enum Step {
    /// A session records.
    Record(usize, usize),
    /// The notice of a session's batch arrives.
    Notice(usize),
    /// A follower comes back with the cursor of a line, while this many notices arrive.
    Back(prop::sample::Index, prop::sample::Index, Vec<usize>),
    /// The owner is killed.
    Kill,
}

fn step() -> impl Strategy<Value = Step> {
    prop_oneof![
        10 => (0..SESSIONS, 0..6usize).prop_map(|(nth, draw)| Step::Record(nth, draw)),
        8 => (0..SESSIONS).prop_map(Step::Notice),
        3 => (any::<prop::sample::Index>(), any::<prop::sample::Index>(), prop::collection::vec(0..SESSIONS, 0..4))
            .prop_map(|(who, at, observed)| Step::Back(who, at, observed)),
        1 => Just(Step::Kill),
    ]
}

fn play(steps: &[Step]) {
    let mut home = Home::new();
    // A follower that never leaves as long as the owner lives.
    home.subscribe(vec![], |_| {});
    for step in steps {
        match step {
            Step::Record(nth, _) if home.sessions[*nth].is_over => {}
            Step::Record(nth, draw) => {
                let next = home.sessions[*nth].next(*draw);
                home.record(*nth, next);
            }
            Step::Notice(nth) => home.observe(*nth),
            Step::Back(who, at, observed) => {
                home.readers.iter_mut().for_each(Reader::read);
                let lines = &home.readers[who.index(home.readers.len())].lines;
                let before = lines[..at.index(lines.len() + 1)].to_vec();
                home.subscribe(before, |home| observed.iter().for_each(|nth| home.observe(*nth)));
            }
            Step::Kill => home.kill(),
        }
    }
    home.end();
    // A follower that begins last and reads everything back.
    home.subscribe(vec![], |_| {});
    home.readers.iter_mut().for_each(Reader::read);
    let all = home.readers.last().unwrap().stories();
    assert_eq!(all.len(), SESSIONS + 1);
    for reader in &home.readers {
        reader.check_numbers();
        for (session, story) in reader.stories() {
            assert_eq!(story, all[&session], "{session}");
        }
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 256, ..ProptestConfig::default() })]

    /// R11, R43.
    #[test]
    fn r43_a_resumed_reader_of_the_home_reads_the_same_as_a_continuous_one(
        steps in prop::collection::vec(step(), 0..120)
    ) {
        play(&steps);
    }
}

/// Bounds of pages and batches do not change the result.
#[test]
fn r43_a_home_of_many_pages_is_read_back_in_the_order_in_which_it_was_recorded() {
    let mut home = Home::new();
    home.subscribe(vec![], |_| {});
    for _ in 0..3 {
        for nth in 0..SESSIONS {
            for _ in 0..400 {
                let next = home.sessions[nth].next(0);
                home.record(nth, next);
                home.observe(nth);
            }
        }
    }
    home.readers.iter_mut().for_each(Reader::read);
    home.subscribe(vec![], |_| {});
    home.readers.iter_mut().for_each(Reader::read);
    let order = |reader: &Reader| {
        let lines = reader.lines.iter().map(|(_, line)| line).filter(|line| !line.is_state());
        let lines = lines.filter(|line| {
            !matches!(line.what, Stream::Assistant(AssistantLine::Delta(_)) | Stream::Tool(ToolLine::Update(_)))
        });
        lines.map(|line| format!("{} {:?}", line.session, line.what)).collect::<Vec<_>>()
    };
    assert!(home.journal.head().unwrap().0 > 1_500);
    assert_eq!(order(&home.readers[0]), order(&home.readers[1]));
}
