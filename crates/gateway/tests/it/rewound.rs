//! A resuming subscriber receives the following lines without a gap, or the report that a power loss removed what it
//! has seen.

use std::path::Path;
use std::sync::Arc;
use std::sync::mpsc::channel;
use std::time::Duration;

use engine::tables::lifecycle::LifecycleKind;
use engine::tables::transitions::RunState;
use engine::{
    Batch, BodyKind, BranchId, Content, Created, EffectId, EffectKind, Event, Flags, InterruptCause, Opened, Record,
    Resources, RunId, Seq, SessionId, SessionRow, StreamInterrupted, TextAdded, TextRetracted, Timestamp, Views,
};
use faulty_vfs::{Cut, Disk};
use journal::{Append, Journal, Read, Reader, Sqlite, Tail};
use protocol::event::{AssistantLine, StateLine, Stream};
use runtime::Published;
use tempfile::TempDir;
use uuid::Uuid;
use views::events::{self, CatchUp, Lines, Resume, StreamPosition, StreamScope};

const KEY: &str = "agent:main:main";
const RUN: RunId = RunId(Uuid::from_u128(1));
const SESSION: SessionId = SessionId(Uuid::from_u128(2));
const BRANCH: BranchId = BranchId(Uuid::from_u128(3));
const REQUEST: EffectId = EffectId { run: RUN, kind: EffectKind::Request, ordinal: 1, try_no: 1 };

/// A session that its owner records, and a subscriber of it.
struct Live {
    journal: Arc<Sqlite>,
    lines: Lines,
    seq: u64,
    cursors: Vec<StreamPosition>,
}

impl Live {
    fn own(home: &Path, seq: u64) -> Self {
        let journal = Arc::new(Sqlite::own(home).unwrap());
        Self { lines: Lines::new(journal.clone()), journal, seq, cursors: vec![] }
    }

    /// Records, and notifies the subscriber.
    fn record(&mut self, event: Event, bodies: Vec<Content>) {
        let seq = event.progress().is_none().then(|| {
            self.seq += 1;
            Seq(self.seq)
        });
        let records = vec![Record { seq, at: Timestamp(7), event }];
        let views = Views { session: Some(row()), ..Views::default() };
        let batch = Batch { session: SESSION, branch: BRANCH, records, bodies, views };
        let (batch, epoch) = (Arc::new(batch), self.journal.epoch());
        let (sender, durable) = channel();
        let done = Box::new(move |answer| sender.send(answer).unwrap());
        self.journal.append(Append { batch: Arc::clone(&batch), epoch }, done);
        let position = durable.recv().unwrap().unwrap();
        let lines = self.lines.of(&Published {
            session: SESSION,
            key: KEY.into(),
            batch,
            epoch,
            position,
            lifecycle: LifecycleKind::Active,
            run_state: RunState::Streaming,
            flags: Flags::default(),
            passed: vec![],
            resources: Resources::default(),
            settings: None,
            found: vec![],
            commit: Duration::ZERO,
        });
        let last = lines.last().map(|line| parse(&line.event.cursor).unwrap());
        self.cursors.extend(last.or(self.cursors.last().cloned()));
    }

    fn last(&self) -> StreamPosition {
        self.cursors.last().cloned().unwrap()
    }

    /// A session that is open, synced.
    fn begin(&mut self) {
        let key = KEY.to_owned();
        self.record(Created { session: SESSION, key, agent: "main".to_owned(), branch: BRANCH }.into(), vec![]);
        let epoch = self.journal.epoch();
        self.record(Opened { epoch, last_activity: Timestamp(1) }.into(), vec![]);
    }

    fn text(&mut self, offset: u64, text: &str) {
        self.record(TextAdded { effect: REQUEST, offset, text: text.to_owned() }.into(), vec![]);
    }

    /// An entry that is only written.
    fn retract(&mut self) {
        self.record(TextRetracted { request: REQUEST }.into(), vec![]);
    }

    fn cut(&mut self, text: &str) {
        let text = Content::text(BodyKind::Message, text);
        let cut = StreamInterrupted { request: REQUEST, cause: InterruptCause::Crash, text: Some(text.body) };
        self.record(cut.into(), vec![text]);
    }
}

fn row() -> SessionRow {
    SessionRow {
        session: SESSION,
        key: KEY.to_owned(),
        agent: "main".to_owned(),
        branch: BRANCH,
        created_at: Timestamp(1),
        last_activity: Timestamp(1),
        lifecycle: LifecycleKind::Active,
        run_state: RunState::Streaming,
        run: Some(RUN),
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

fn home() -> (TempDir, Disk) {
    let home = tempfile::tempdir().unwrap();
    let disk = Disk::install(home.path()).unwrap();
    disk.watch("journal.mark");
    (home, disk)
}

/// The journal that the power loss left.
fn after(disk: &Disk, cut: Cut) -> TempDir {
    let after = tempfile::tempdir().unwrap();
    disk.power_cut(cut, after.path()).unwrap();
    after
}

fn parse(cursor: &str) -> Result<StreamPosition, events::InvalidCursor> {
    StreamPosition::parse(StreamScope::Session, cursor)
}

fn resume(cursor: &StreamPosition, home: &Path) -> Resume {
    cursor.resume(&Reader::open(home).unwrap(), BRANCH).unwrap()
}

fn rewound(cursor: &StreamPosition, home: &Path) -> StreamPosition {
    match resume(cursor, home) {
        Resume::Rewound { to } => to,
        Resume::Tail(tail) => panic!("nothing was said of what is gone: {tail:?}"),
    }
}

fn nothing() -> Resume {
    Resume::Tail(Tail { entries: vec![], progress: vec![] })
}

/// R11: written entries may be lost; a reader that has seen them is notified, and resumes from what exists.
#[test]
fn r11_a_reader_of_lost_text_receives_rewound() {
    let (home, disk) = home();
    let mut live = Live::own(home.path(), 0);
    live.begin();
    let synced = live.last();
    live.text(0, "Once upon ");
    live.text(10, "a time");

    let kept = after(&disk, Cut::Everything);
    assert_eq!(resume(&live.last(), kept.path()), nothing());

    let lost = after(&disk, Cut::Nothing);
    let to = rewound(&live.last(), lost.path());
    assert_eq!(resume(&to, lost.path()), nothing(), "it cannot resume from its new position");
    assert_eq!(to, synced);
    let some = (0..40).map(|seed| after(&disk, Cut::Prefix { seed }));
    let partly = some
        .map(|home| resume(&live.last(), home.path()))
        .find(|resume| matches!(resume, Resume::Rewound { to } if *to == live.cursors[2]));
    assert!(partly.is_some(), "no cut kept the first piece alone");

    let event = events::rewound(&row(), &to, Timestamp(9));
    assert_eq!((event.what, event.at), (Stream::State(StateLine::Rewound { to: to.to_string() }), Timestamp(9)));
    assert_eq!(event.cursor, to.to_string());
}

/// The next owner has recorded something else in place of the lost entries, so the head alone is not enough.
#[test]
fn r11_another_entry_in_the_same_place_is_not_taken_for_the_one_that_was_seen() {
    let (home, disk) = home();
    let mut live = Live::own(home.path(), 0);
    live.begin();
    let synced = live.last();
    live.retract();
    live.text(0, "x");
    assert_ne!(live.last(), synced);

    let lost = after(&disk, Cut::Nothing);
    let mut next = Live::own(lost.path(), 2);
    next.retract();
    next.retract();
    assert_eq!(rewound(&live.last(), lost.path()), synced);
    let Resume::Tail(tail) = resume(&synced, lost.path()) else { panic!("existing entries were reported as lost") };
    assert_eq!(tail.entries.iter().map(|entry| entry.seq).collect::<Vec<_>>(), [Seq(3), Seq(4)]);
}

/// The next owner has sealed less than was seen.
#[test]
fn r11_a_body_shorter_than_the_seen_text_is_reported_as_rewound() {
    let (home, disk) = home();
    let mut live = Live::own(home.path(), 0);
    live.begin();
    let synced = live.last();
    live.text(0, "Once upon ");
    let first = live.last();
    live.text(10, "a time");

    let lost = after(&disk, Cut::Nothing);
    Live::own(lost.path(), 2).cut("Once upon ");
    assert_eq!(rewound(&live.last(), lost.path()), synced);
    assert!(matches!(resume(&first, lost.path()), Resume::Tail(tail) if tail.entries.len() == 1));
}

#[test]
fn a_resumed_stream_has_no_gap_and_no_repeat() {
    let (home, _disk) = home();
    let mut live = Live::own(home.path(), 0);
    live.begin();
    live.text(0, "Once upon ");
    live.text(10, "a time");
    let open = live.journal.tail(BRANCH, Seq(1)).unwrap();
    for (seen, cursor) in live.cursors.iter().enumerate() {
        let Resume::Tail(tail) = resume(cursor, home.path()) else { panic!("{cursor}") };
        let all = open.entries.len() + open.progress.len();
        assert_eq!(tail.entries.len() + tail.progress.len(), all - seen - 1, "{cursor}");
        assert!(open.entries.ends_with(&tail.entries) && open.progress.ends_with(&tail.progress), "{cursor}");
    }
    live.cut("Once upon a time");
    for cursor in &live.cursors[1..4] {
        assert!(matches!(resume(cursor, home.path()), Resume::Tail(tail) if tail.entries.len() == 1), "{cursor}");
    }
    assert_eq!(resume(&live.last(), home.path()), nothing());
}

#[test]
fn a_cursor_is_read_as_it_was_written_and_nothing_else_is() {
    let text = format!("3.17:{REQUEST}=16");
    assert_eq!(parse(&text).unwrap().to_string(), text);
    assert_eq!(parse("0.0"), Ok(StreamPosition::beginning(StreamScope::Session)));
    for wrong in ["", "17", "3.x", "3.17:", "3.17:nothing=4", &format!("3.17:{REQUEST}"), "-1.2"] {
        assert!(parse(wrong).is_err_and(|error| error.to_string().contains(wrong)), "{wrong}");
    }
}

/// What a resuming follower of the whole home receives, and its position afterwards.
fn of_home(from: &StreamPosition, home: &Path) -> (Vec<Stream>, StreamPosition) {
    let store = Reader::open(home).unwrap();
    let mut reading = CatchUp::of_home(&store, from).unwrap();
    while reading.more(&store).unwrap() {}
    reading.finish(&store).unwrap();
    let lines = reading.take_lines().into_iter().map(|line| line.event).filter(|event| !event.is_state());
    let lines = lines.map(|event| {
        let gone = matches!(&event.what, Stream::State(StateLine::Rewound { to }) if *to == event.cursor);
        assert!(gone || event.session == KEY, "{event:?}");
        event.what
    });
    (lines.collect(), reading.position().clone())
}

fn is_rewound(what: &Stream, to: &StreamPosition) -> bool {
    *what == Stream::State(StateLine::Rewound { to: to.to_string() })
}

/// R11, R43: entries are lost, of any session, and others may take their positions.
#[test]
fn r43_a_follower_of_the_home_that_has_seen_lost_entries_receives_rewound() {
    let (home, disk) = home();
    let mut live = Live::own(home.path(), 0);
    live.begin();
    let synced = StreamPosition::now_in_home(live.journal.as_ref()).unwrap();
    live.retract();
    live.text(0, "Once upon ");
    let seen = StreamPosition::now_in_home(live.journal.as_ref()).unwrap();
    assert_eq!(of_home(&seen, after(&disk, Cut::Everything).path()), (vec![], seen.clone()));

    let lost = after(&disk, Cut::Nothing);
    let (lines, to) = of_home(&seen, lost.path());
    assert_eq!(to, synced);
    assert!(matches!(&lines[..], [Stream::State(_), of_session] if is_rewound(of_session, &synced)), "{lines:?}");

    let mut next = Live::own(lost.path(), 2);
    next.retract();
    next.retract();
    let (lines, to) = of_home(&seen, lost.path());
    let retracted = |what: &&Stream| matches!(what, Stream::Assistant(AssistantLine::Struck { .. }));
    assert_eq!(lines.iter().filter(retracted).count(), 2, "the new entries were not reported: {lines:?}");
    assert_eq!(to, StreamPosition::now_in_home(next.journal.as_ref()).unwrap());
    assert_eq!(of_home(&synced, lost.path()).0.len(), 2, "nothing that it has seen is gone");
}

/// R11, R43: a piece of an open response is lost.
#[test]
fn r43_a_follower_of_the_home_is_notified_of_the_session_that_lost_text() {
    let (home, disk) = home();
    let mut live = Live::own(home.path(), 0);
    live.begin();
    let synced = StreamPosition::now_in_home(live.journal.as_ref()).unwrap();
    live.text(0, "Once upon ");
    let seen = StreamPosition::now_in_home(live.journal.as_ref()).unwrap();
    assert_ne!(seen, synced);
    let lost = after(&disk, Cut::Nothing);
    let (lines, to) = of_home(&seen, lost.path());
    assert!(matches!(&lines[..], [what] if is_rewound(what, &synced)), "{lines:?}");
    assert_eq!(to, synced);
    assert_eq!(of_home(&synced, home.path()).0.len(), 1, "the piece that it has not seen");
}
