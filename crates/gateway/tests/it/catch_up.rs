//! A subscriber that leaves at any line and comes back reads the same as one that never leaves: nothing twice, nothing
//! missing.

use std::sync::Arc;
use std::time::Duration;

use engine::tables::lifecycle::LifecycleKind;
use engine::tables::transitions::RunState;
use engine::{
    Batch, BodyKind, BranchId, Command, Content, Created, EffectId, EffectKind, Epoch, Event, Flags, InterruptCause,
    MessageSealed, Next, Opened, Position, ReasoningAdded, Record, RequestSent, Resources, RunId, Seq, SessionId,
    SessionRow, StreamInterrupted, TextAdded, Timestamp, Usage, Views,
};
use journal::{Append, Journal as _, Memory, Read as _, Sqlite};
use protocol::event::{AssistantLine, Delta, ReasoningLine, StateLine, Stream};
use runtime::{Options, Published, Runtime};
use testkit::{KEY, OfflineResolver, message};
use uuid::Uuid;
use views::events::{CatchUp, Line, Lines, StreamPosition, StreamScope};

/// Owns the home, opens the session with these commands, collects notices until `is_enough`, and shuts down in order.
async fn own(
    folder: &std::path::Path,
    pace_ms: u64,
    first: Vec<Command>,
    mut is_enough: impl FnMut(&Published) -> bool,
) -> Vec<Published> {
    let resolver = OfflineResolver::in_workspace(folder.join("work").display().to_string());
    let (options, mut events) = testkit::options(resolver, Duration::from_millis(pace_ms));
    let options = Options { home: folder.join("home"), ..options };
    let runtime = Runtime::new(Arc::new(Sqlite::own(&options.home).unwrap()), options);
    runtime.open(KEY, "main", first).await.unwrap();
    let mut batches = vec![];
    while !batches.last().is_some_and(&mut is_enough) {
        batches.push(events.recv().await.unwrap());
    }
    runtime.shutdown().await.unwrap();
    while let Ok(published) = events.try_recv() {
        batches.push(published);
    }
    batches
}

fn has(published: &Published, is_it: impl Fn(&Event) -> bool) -> bool {
    published.batch.records.iter().any(|record| is_it(&record.event))
}

/// What two owners recorded: the first shut down during a response, the second continued it and ran calls.
async fn real_runs() -> Vec<Published> {
    let folder = tempfile::tempdir().unwrap();
    std::fs::create_dir(folder.path().join("work")).unwrap();
    std::fs::write(folder.path().join("work/README.md"), "# A folder\n\nwith a readme").unwrap();
    // The first response takes seconds, so the owner shuts down at its first piece.
    let first =
        vec![message("tokens=300 Tell me a story."), message("look at this folder"), message("list nothing/here")];
    let is_text = |event: &Event| matches!(event, Event::TextAdded(_));
    let mut batches = own(folder.path(), 20, first, |published| has(published, is_text)).await;
    let mut ended = 0;
    let second = own(folder.path(), 0, vec![message("run `echo 1`")], |published| {
        ended += usize::from(has(published, |event| matches!(event, Event::RunEnded(_))));
        ended == 4
    });
    batches.extend(second.await);
    batches
}

/// The parts that are the same in every way of reading: states are reported when they are read, and the missed part of
/// a text comes in one piece.
fn story(lines: &[Line]) -> Vec<String> {
    let mut story: Vec<(Option<(EffectId, &'static str)>, String)> = vec![];
    for line in lines {
        let (piece, text) = match &line.event.what {
            Stream::State(StateLine::Changed { .. }) | Stream::Usage(_) => continue,
            Stream::Assistant(AssistantLine::Delta(Delta { effect, text, .. })) => {
                (Some((*effect, "says")), text.clone())
            }
            Stream::Reasoning(ReasoningLine::Delta(Delta { effect, text, .. })) => {
                (Some((*effect, "thinks")), text.clone())
            }
            what => (None, format!("{:?} {} {} {what:?}", line.event.run, line.event.session, line.event.at)),
        };
        match story.last_mut() {
            Some((last, so_far)) if piece.is_some() && *last == piece => so_far.push_str(&text),
            _ => story.push((piece, text)),
        }
    }
    story.into_iter().map(|(piece, text)| format!("{piece:?} {text}")).collect()
}

/// A cursor of the session.
fn position(cursor: &str) -> StreamPosition {
    StreamPosition::parse(StreamScope::Session, cursor).unwrap()
}

/// A subscriber that sees everything live, in a journal that grows batch by batch.
struct Watched {
    journal: Arc<Memory>,
    lines: Lines,
    seen: Vec<Line>,
    /// The last entry recorded here.
    seq: u64,
}

impl Watched {
    fn new() -> Self {
        let journal = Arc::new(Memory::new());
        Self { lines: Lines::new(journal.clone()), journal, seen: vec![], seq: 0 }
    }

    fn record(&mut self, published: &Published) {
        while self.journal.epoch() < published.epoch {
            self.journal.open();
            self.lines = Lines::new(self.journal.clone());
        }
        let append = Append { batch: Arc::clone(&published.batch), epoch: published.epoch };
        self.journal.append(append, Box::new(|done| assert!(done.is_ok(), "{done:?}")));
        let position = self.journal.head().unwrap();
        self.seen.extend(self.lines.of(&Published { position, ..published.clone() }));
    }

    /// Comes back with the cursor of every line so far, and with none.
    #[track_caller]
    fn check(&self) {
        let row = self.row();
        let begin = (0, StreamPosition::beginning(StreamScope::Session));
        let cursors = self.seen.iter().enumerate().map(|(at, line)| (at + 1, position(&line.event.cursor)));
        for (seen, cursor) in std::iter::once(begin).chain(cursors) {
            let (missed, reached) = self.missed(&row, &cursor);
            assert_eq!(story(&missed), story(&self.seen[seen..]), "from {cursor}, after {seen} lines");
            assert!(self.seen.iter().all(|line| reached.has_seen(&line.at)), "{reached}");
            let (again, _) = self.missed(&row, &reached);
            assert_eq!(story(&again), Vec::<String>::new(), "from {reached} again");
            self.check_places(seen, &cursor);
        }
    }

    /// What a reader with this cursor has missed, and its position afterwards.
    fn missed(&self, row: &SessionRow, cursor: &StreamPosition) -> (Vec<Line>, StreamPosition) {
        let mut reading = CatchUp::of_session(self.journal.as_ref(), row, cursor).unwrap();
        reading.finish(self.journal.as_ref()).unwrap();
        (reading.take_lines(), reading.position().clone())
    }

    fn row(&self) -> SessionRow {
        SessionRow {
            session: SESSION,
            key: KEY.to_owned(),
            agent: "main".to_owned(),
            branch: self.journal.branches().unwrap()[0].0,
            created_at: Timestamp(1),
            last_activity: Timestamp(1),
            lifecycle: LifecycleKind::Active,
            run_state: RunState::Streaming,
            run: None,
            queued: 0,
            unfinished: true,
            trouble: None,
            totals: None,
            title: None,
            model_title: None,
            visibility: engine::Visibility::Listed,
            begun_at: None,
        }
    }

    /// Records what an owner did.
    fn events(&mut self, epoch: u64, events: Vec<Event>, bodies: &[&Content]) {
        let mut records = vec![];
        for event in events {
            let seq = event.progress().is_none().then(|| {
                self.seq += 1;
                Seq(self.seq)
            });
            records.push(Record { seq, at: Timestamp(7), event });
        }
        let batch = Batch {
            session: SESSION,
            branch: BRANCH,
            records,
            bodies: bodies.iter().copied().cloned().collect(),
            views: Views::default(),
        };
        self.record(&Published {
            session: SESSION,
            key: KEY.into(),
            batch: Arc::new(batch),
            epoch: Epoch(epoch),
            position: Position(0),
            lifecycle: LifecycleKind::Active,
            run_state: RunState::Streaming,
            flags: Flags::default(),
            passed: vec![],
            resources: Resources::default(),
            settings: None,
            found: vec![],
            commit: Duration::ZERO,
        });
    }

    /// The hub must leave out of the live lines exactly what was read back in the journal.
    #[track_caller]
    fn check_places(&self, seen: usize, cursor: &StreamPosition) {
        for (at, line) in self.seen.iter().enumerate() {
            if !line.event.is_state() {
                assert_eq!(cursor.has_seen(&line.at), at < seen, "line {at} from {cursor}: {:?}", line.event);
            }
        }
    }
}

/// R11, R43.
#[tokio::test]
async fn r11_r43_a_reader_that_resumes_at_any_line_has_read_the_same() {
    let mut watched = Watched::new();
    for published in real_runs().await {
        watched.record(&published);
        watched.check();
    }
    let said = format!("{:?}", story(&watched.seen));
    for part in ["Cut", "Struck", "README.md", "Failed", "Denied", "End("] {
        assert!(said.contains(part), "{part} is not in the story: {said}");
    }
}

/// R11, R43: what is recorded while a session is read arrives live. It changes nothing of what was read.
#[tokio::test]
async fn r11_r43_a_batch_that_is_recorded_while_a_session_is_read_takes_nothing_away() {
    let folder = tempfile::tempdir().unwrap();
    std::fs::create_dir(folder.path().join("work")).unwrap();
    let is_end = |event: &Event| matches!(event, Event::RunEnded(_));
    // Piece by piece: the text is progress until its run ends.
    let first = vec![message("tokens=5 Tell me a story.")];
    let batches = own(folder.path(), 20, first, |published| has(published, is_end)).await;
    let mut watched = Watched::new();
    for published in batches {
        let seen = watched.seen.len();
        let reading = (seen > 0).then(|| {
            let begin = StreamPosition::beginning(StreamScope::Session);
            CatchUp::of_session(watched.journal.as_ref(), &watched.row(), &begin).unwrap()
        });
        watched.record(&published);
        if let Some(mut reading) = reading {
            reading.finish(watched.journal.as_ref()).unwrap();
            let lines = reading.take_lines();
            assert_eq!(story(&lines), story(&watched.seen[..seen]), "before {:?}", published.batch.records);
        }
    }
}

/// R43: batches without a listener are skipped, and a later listener receives the same lines as if all had been
/// projected.
#[tokio::test]
async fn r43_a_late_listener_receives_the_same_lines() {
    let batches = real_runs().await;
    let mut watched = Watched::new();
    let expected: Vec<Vec<Line>> = batches
        .iter()
        .map(|published| {
            let before = watched.seen.len();
            watched.record(published);
            watched.seen[before..].to_vec()
        })
        .collect();
    for heard_from in 0..batches.len() {
        let mut lines = Lines::new(watched.journal.clone());
        for (at, published) in batches.iter().enumerate() {
            if at > 0 && batches[at - 1].epoch < published.epoch {
                lines = Lines::new(watched.journal.clone());
            }
            if at < heard_from {
                lines.pass_over(published);
            } else {
                assert_eq!(lines.of(published), expected[at], "batch {at}, listening from {heard_from}");
            }
        }
    }
}

const SESSION: SessionId = SessionId(Uuid::from_u128(2));
const BRANCH: BranchId = BranchId(Uuid::from_u128(3));
const REQUEST: EffectId = EffectId { run: RunId(Uuid::from_u128(1)), kind: EffectKind::Request, ordinal: 1, try_no: 1 };

/// A response of which 7 bytes of reasoning and 12 of text have arrived.
fn thoughtful() -> Watched {
    let mut watched = Watched::new();
    let (key, agent) = (KEY.to_owned(), "main".to_owned());
    watched.events(1, vec![Created { session: SESSION, key, agent, branch: BRANCH }.into()], &[]);
    watched.events(1, vec![Opened { epoch: Epoch(1), last_activity: Timestamp(1) }.into()], &[]);
    watched.events(
        1,
        vec![
            RequestSent {
                reserved: None,
                tokens: 9,
                request: REQUEST,
                epoch: Epoch(1),
                candidate: 0,
                items: 1,
                probe: false,
            }
            .into(),
        ],
        &[],
    );
    watched.events(1, vec![ReasoningAdded { effect: REQUEST, offset: 0, text: "Hmm, so".to_owned() }.into()], &[]);
    watched.events(1, vec![TextAdded { effect: REQUEST, offset: 7, text: "Once ".to_owned() }.into()], &[]);
    watched.events(1, vec![TextAdded { effect: REQUEST, offset: 12, text: "upon a ".to_owned() }.into()], &[]);
    watched
}

fn sealed(text: &Content, reasoning: Option<&Content>, next: Next) -> MessageSealed {
    MessageSealed {
        cost: 0,
        request: REQUEST,
        text: Some(text.body),
        reasoning: reasoning.map(|content| content.body),
        calls: vec![],
        usage: Usage::default(),
        stop_reason: None,
        next,
        blocks: None,
        images: vec![],
    }
}

/// R11: reasoning and text have their own offsets, though both belong to one request.
#[test]
fn r11_missed_reasoning_and_text_come_from_the_sealed_message() {
    let mut watched = thoughtful();
    let reasoning = Content::text(BodyKind::Reasoning, "Hmm, so");
    let text = Content::text(BodyKind::Message, "Once upon a time");
    watched.events(1, vec![TextAdded { effect: REQUEST, offset: 19, text: "time".to_owned() }.into()], &[]);
    watched.events(1, vec![sealed(&text, Some(&reasoning), Next::Finish).into()], &[&text, &reasoning]);
    watched.check();
}

/// R11: the next owner keeps the text alone, which is at least as much as anybody saw.
#[test]
fn r11_an_interruption_that_drops_the_reasoning_does_not_retract_the_text() {
    let mut watched = thoughtful();
    let text = Content::text(BodyKind::Message, "Once upon a ");
    let opened = Opened { epoch: Epoch(2), last_activity: Timestamp(1) };
    let cut = StreamInterrupted { request: REQUEST, cause: InterruptCause::Crash, text: Some(text.body) };
    watched.events(2, vec![opened.into(), cut.into(), sealed(&text, None, Next::Cut).into()], &[&text]);
    let live: Vec<Line> = watched.seen.drain(4..).collect();
    assert_eq!(live.len(), 5, "the last piece, what the next owner did, and its state: {live:?}");
    let row = watched.row();
    for (at, line) in live.iter().enumerate() {
        let (missed, _) = watched.missed(&row, &position(&line.event.cursor));
        assert_eq!(story(&missed), story(&live[at + 1..]), "after {:?}", line.event);
    }
}
