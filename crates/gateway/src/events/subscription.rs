//! One subscriber: what it wants, where it stands, what it is told. What may not live here: when.

use std::borrow::Cow;
use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::sync::Arc;

use engine::{Position, RunId};
use protocol::chat::Chat;
use protocol::notice::Notice as _;
use serde::Serialize;

use super::hub::Whose;
use super::place::{BatchPosition, LinePosition};
use super::{Chats, Line, StreamPosition, StreamScope};
use crate::connection::{Chunk, SendBuffer, Slow};
use protocol::limits::BUFFERED_BYTES;

/// What stands between the cursor of a line and the numbers of its subscriber.
const NUMBERS: char = '#';

/// What a subscriber wants.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Target {
    /// The whole home.
    Home,
    /// A session, by its key.
    Session(String),
    /// A run of a session.
    Run(String, RunId),
}

impl Target {
    /// The session that it is about; none of the whole home.
    pub(crate) fn key(&self) -> Option<&str> {
        match self {
            Self::Home => None,
            Self::Session(key) | Self::Run(key, _) => Some(key),
        }
    }
}

/// A line as bytes: all of it but the numbers that are the subscriber's own.
#[derive(Debug, Clone)]
pub(crate) struct Encoded(Arc<[u8]>);

/// A subscriber.
pub(crate) struct Subscription {
    pub(crate) caller: Whose,
    number: u64,
    target: Target,
    stage: Stage,
    /// The number of its last line of each run, and of those without a run.
    numbers: BTreeMap<Option<RunId>, u64>,
    /// The cursor of its last line.
    cursor: String,
    /// What it is told instead of lines, where it asked for chat.
    chats: Option<Chats>,
}

/// How far it is.
enum Stage {
    /// It is read for what it has missed; what happens meanwhile is read as well.
    Reads,
    /// It is read for the last of it: what happens is kept.
    Keeps(Kept),
    /// It hears what happens.
    Live(CaughtUp),
}

/// Where a subscriber stands that has read back what it had missed: the journal is ahead of what is heard.
struct CaughtUp {
    position: StreamPosition,
    /// The position in the home up to which it was read back.
    until: Position,
    /// An entry behind it was heard: nothing of its session that comes was read back.
    is_past: bool,
}

impl CaughtUp {
    fn new(position: StreamPosition) -> Self {
        Self { until: position.head(), position, is_past: false }
    }

    /// The cursor of a subscriber that is told this line; none if it was read back.
    fn notify<'a>(&mut self, line: &'a Line) -> Option<Cow<'a, str>> {
        // What stands for no entry cannot have been read, and moves nobody on.
        let is_wait = line.event.is_lane_wait();
        match self.position.scope() {
            StreamScope::Session => {
                let was_read = !is_wait && !self.is_past && self.position.has_seen(&line.at);
                self.is_past |= !is_wait && line.at.seq() > self.position.seq();
                (!was_read).then_some(Cow::Borrowed(&line.event.cursor))
            }
            StreamScope::Home => {
                if !is_wait {
                    if self.has_read(&line.at) {
                        return None;
                    }
                    self.position.follow(line);
                }
                Some(Cow::Owned(self.position.to_string()))
            }
        }
    }

    /// Whether a line of the home was read back.
    fn has_read(&self, line: &LinePosition) -> bool {
        let session = self.position.session(line.batch().branch);
        let progress = || line.progress().zip(session).is_some_and(|(end, session)| session.has_reached(end));
        line.batch().was_read(self.until).unwrap_or_else(progress)
    }

    /// All was told of a batch.
    fn pass(&mut self, batch: &BatchPosition) {
        if let (StreamScope::Home, Some(range)) = (self.position.scope(), batch.range()) {
            self.position.see_range(range, batch.epoch);
        }
    }
}

/// A line, and its bytes.
type Told = (Arc<Line>, Encoded);

/// What happens while a subscriber catches up.
#[derive(Default)]
struct Kept {
    buffered: Vec<Buffered>,
    bytes: usize,
}

enum Buffered {
    Line(Told),
    /// A batch has no more lines.
    BatchEnd(BatchPosition),
}

impl Encoded {
    /// `"session":…}}` and the end of the line: what follows the cursor.
    pub(crate) fn of(line: &Line) -> Self {
        let mut event = line.event.clone();
        event.cursor = String::new();
        Self(behind_cursor(&event))
    }
}

/// All that follows the cursor, which is empty here, and the end of the line.
fn behind_cursor(told: &impl Serialize) -> Arc<[u8]> {
    let bytes = serde_json::to_vec(told).expect("what is told is plain data");
    let shared = bytes.strip_prefix(br#"{"cursor":"","#).expect("the cursor is the first of it");
    [shared, b"}\n"].concat().into()
}

impl Subscription {
    pub(crate) fn new(caller: Whose, number: u64, target: Target, numbers: &str) -> Self {
        let numbers = read_numbers(numbers);
        Self { caller, number, target, stage: Stage::Reads, numbers, cursor: String::new(), chats: None }
    }

    /// From here on what happens is kept for it, until it has caught up.
    pub(crate) fn keep(&mut self) {
        self.stage = Stage::Keeps(Kept::default());
    }

    /// Whether it may be told of this session.
    pub(crate) fn listens_to(&self, session: &str) -> bool {
        self.target.key().is_none_or(|key| key == session)
    }

    /// Whether it is told of this line.
    pub(crate) fn wants(&self, line: &Line) -> bool {
        match &self.target {
            Target::Home => true,
            Target::Session(key) => *key == line.event.session,
            Target::Run(key, run) => {
                *key == line.event.session && (line.event.run == Some(*run) || line.event.settles(*run))
            }
        }
    }

    /// Where it stands.
    pub(crate) fn cursor(&self) -> &str {
        &self.cursor
    }

    /// It is told chat, which goes on from these.
    pub(crate) fn chat(&mut self, chats: Chats) {
        self.chats = Some(chats);
    }

    /// It begins here.
    pub(crate) fn begin_at(&mut self, cursor: &str) -> &str {
        self.cursor = self.numbered(cursor);
        &self.cursor
    }

    /// Something happened: it is told, or that is kept until it has caught up.
    pub(crate) fn observe(&mut self, outbox: &SendBuffer, line: &Arc<Line>, encoded: &Encoded) -> Result<(), Slow> {
        match &mut self.stage {
            Stage::Reads => Ok(()),
            Stage::Keeps(kept) => {
                kept.bytes += encoded.0.len();
                if kept.bytes > BUFFERED_BYTES {
                    return Err(Slow);
                }
                kept.buffered.push(Buffered::Line((Arc::clone(line), encoded.clone())));
                Ok(())
            }
            Stage::Live(_) => self.notify(outbox, line, encoded),
        }
    }

    /// All was told of a batch: entries of which no line tells count as well.
    pub(crate) fn pass(&mut self, batch: &BatchPosition) {
        match &mut self.stage {
            Stage::Keeps(kept) if self.target == Target::Home => kept.buffered.push(Buffered::BatchEnd(*batch)),
            Stage::Live(caught_up) => caught_up.pass(batch),
            Stage::Reads | Stage::Keeps(_) => {}
        }
    }

    /// It has caught up and stands here: what was kept and is behind it follows.
    pub(crate) fn go_live(&mut self, outbox: &SendBuffer, position: StreamPosition) -> Result<(), Slow> {
        let stage = std::mem::replace(&mut self.stage, Stage::Live(CaughtUp::new(position)));
        let Stage::Keeps(kept) = stage else { return Ok(()) };
        for buffered in kept.buffered {
            match buffered {
                Buffered::Line((line, encoded)) => self.notify(outbox, &line, &encoded)?,
                Buffered::BatchEnd(batch) => self.pass(&batch),
            }
        }
        Ok(())
    }

    /// Tells a line, unless it was read in the journal.
    fn notify(&mut self, outbox: &SendBuffer, line: &Line, encoded: &Encoded) -> Result<(), Slow> {
        let Stage::Live(caught_up) = &mut self.stage else { return Ok(()) };
        let Some(cursor) = caught_up.notify(line) else { return Ok(()) };
        self.send_at(outbox, line, encoded, &cursor)
    }

    /// Sends a line under its next number, if it is wanted.
    pub(crate) fn send(&mut self, outbox: &SendBuffer, line: &Line, encoded: &Encoded) -> Result<(), Slow> {
        self.send_at(outbox, line, encoded, &line.event.cursor)
    }

    fn send_at(&mut self, outbox: &SendBuffer, line: &Line, encoded: &Encoded, cursor: &str) -> Result<(), Slow> {
        if !self.wants(line) {
            return Ok(());
        }
        let (name, shared) = match &mut self.chats {
            None => ("agent", Arc::clone(&encoded.0)),
            Some(chats) => match chats.observe(&line.event) {
                Some(chat) => (Chat::NAME, behind_cursor(&chat)),
                None => return Ok(()),
            },
        };
        let run = line.event.run;
        let seq = self.numbers.get(&run).copied().unwrap_or_default() + 1;
        let before = self.numbers.insert(run, seq);
        let ends = line.event.run_end().is_some();
        if ends {
            self.numbers.remove(&run);
        }
        let cursor = self.numbered(cursor);
        let head = format!(
            r#"{{"type":"event","event":"{name}","seq":{seq},"subscription":{},"payload":{{"cursor":"{cursor}","#,
            self.number
        );
        let sent = outbox.offer([Chunk::Own(head.into_bytes()), Chunk::Shared(shared)]);
        if sent.is_err() {
            // It was not told of this one.
            match before {
                Some(before) => self.numbers.insert(run, before),
                None => self.numbers.remove(&run),
            };
            return sent;
        }
        self.cursor = cursor;
        Ok(())
    }

    /// A cursor with which the numbers go on.
    pub(crate) fn numbered(&self, cursor: &str) -> String {
        let mut text = format!("{cursor}{NUMBERS}");
        for (at, (run, seq)) in self.numbers.iter().enumerate() {
            let comma = if at == 0 { "" } else { "," };
            let run = run.map(|run| run.to_string()).unwrap_or_default();
            let _ = write!(text, "{comma}{run}={seq}");
        }
        text
    }
}

/// A subscriber's cursor: that of its last line, and its numbers.
pub(crate) fn split(cursor: &str) -> (&str, &str) {
    cursor.split_once(NUMBERS).unwrap_or((cursor, ""))
}

/// What does not read counts from 1 again.
fn read_numbers(text: &str) -> BTreeMap<Option<RunId>, u64> {
    let number = |part: &str| {
        let (run, seq) = part.split_once('=')?;
        let run = if run.is_empty() { None } else { Some(run.parse().ok()?) };
        Some((run, seq.parse().ok()?))
    };
    text.split(',').filter_map(number).collect()
}

#[cfg(test)]
mod tests {
    use std::sync::Weak;

    use engine::{BranchId, Epoch, Seq, Timestamp};
    use protocol::event::{LifecycleLine, Stream};
    use protocol::{EventFrame, Frame};

    use super::*;

    /// A line of the run that stands at this entry.
    fn line(run: Option<RunId>, seq: u64) -> Arc<Line> {
        let branch = BranchId(uuid::Uuid::from_u128(9));
        let batch = BatchPosition::of_entries(branch, Epoch(1), (Seq(seq), 1), Position(seq));
        let event = protocol::Event {
            cursor: StreamPosition::at(Epoch(1), Seq(seq)).to_string(),
            session: "agent:main:main".to_owned(),
            run,
            at: Timestamp(7),
            what: Stream::Lifecycle(LifecycleLine::Start),
            queue: vec![],
        };
        Arc::new(Line { event, at: LinePosition::new(batch, Seq(seq), None) })
    }

    fn subscription(target: Target, numbers: &str) -> Subscription {
        let mut subscription = Subscription::new(Weak::new(), 5, target, numbers);
        subscription.keep();
        subscription
    }

    /// What was sent: number and cursor of each.
    async fn sent(outbox: &SendBuffer) -> Vec<(u64, String)> {
        outbox.finish();
        let mut bytes = vec![];
        while let Some(more) = outbox.take().await {
            bytes.extend(more);
        }
        let text = String::from_utf8(bytes).unwrap();
        let frames = text.lines().map(|line| match serde_json::from_str(line).unwrap() {
            Frame::Event(EventFrame { payload, seq: Some(seq), subscription: Some(5), .. }) => {
                let event: protocol::Event = serde_json::from_value(payload).unwrap();
                (seq, event.cursor)
            }
            frame => panic!("{frame:?}"),
        });
        frames.collect()
    }

    #[tokio::test]
    async fn r43_what_happens_while_it_catches_up_follows_it_and_is_not_told_twice() {
        let (outbox, run) = (SendBuffer::default(), Some(RunId(uuid::Uuid::from_u128(1))));
        let mut subscription = subscription(Target::Session("agent:main:main".to_owned()), "");
        for seq in 3..6 {
            let line = line(run, seq);
            subscription.observe(&outbox, &line, &Encoded::of(&line)).unwrap();
        }
        // Of these the first two are in what it read back.
        for seq in 1..5 {
            let line = line(run, seq);
            subscription.send(&outbox, &line, &Encoded::of(&line)).unwrap();
        }
        subscription.go_live(&outbox, StreamPosition::at(Epoch(1), Seq(4))).unwrap();
        let last = line(run, 6);
        subscription.observe(&outbox, &last, &Encoded::of(&last)).unwrap();
        let sent = sent(&outbox).await;
        assert_eq!(sent.iter().map(|(seq, _)| *seq).collect::<Vec<_>>(), [1, 2, 3, 4, 5, 6]);
        assert!(sent.iter().zip(1..).all(|((_, cursor), seq)| cursor.starts_with(&format!("1.{seq}#"))), "{sent:?}");
        assert_eq!(sent[5].1, subscription.cursor());
    }

    /// Found by `serve-kills`: the journal is ahead of whoever tells what happens.
    #[tokio::test]
    async fn r43_what_it_read_back_is_not_told_again_by_a_batch_that_is_heard_late() {
        let (outbox, run) = (SendBuffer::default(), Some(RunId(uuid::Uuid::from_u128(1))));
        let mut subscription = subscription(Target::Session("agent:main:main".to_owned()), "");
        subscription.go_live(&outbox, StreamPosition::at(Epoch(1), Seq(4))).unwrap();
        for seq in 3..7 {
            let line = line(run, seq);
            subscription.observe(&outbox, &line, &Encoded::of(&line)).unwrap();
        }
        let cursors: Vec<_> = sent(&outbox).await.into_iter().map(|(_, cursor)| split(&cursor).0.to_owned()).collect();
        assert_eq!(cursors, ["1.5", "1.6"]);
    }

    #[tokio::test]
    async fn r43_numbers_are_of_each_run_and_go_on_with_the_cursor() {
        let (one, two) = (Some(RunId(uuid::Uuid::from_u128(1))), Some(RunId(uuid::Uuid::from_u128(2))));
        let outbox = SendBuffer::default();
        let mut first = subscription(Target::Home, "");
        first.go_live(&outbox, StreamPosition::beginning(StreamScope::Home)).unwrap();
        for (run, seq) in [(one, 1), (two, 2), (None, 3), (one, 4)] {
            let line = line(run, seq);
            first.observe(&outbox, &line, &Encoded::of(&line)).unwrap();
            first.pass(line.at.batch());
        }
        let told = sent(&outbox).await;
        assert_eq!(told.iter().map(|(seq, _)| *seq).collect::<Vec<_>>(), [1, 1, 1, 2]);
        let (cursor, numbers) = split(&told[3].1);
        assert_eq!(cursor, "home:1.4");

        let outbox = SendBuffer::default();
        let mut back = subscription(Target::Run("agent:main:main".to_owned(), one.unwrap()), numbers);
        back.go_live(&outbox, StreamPosition::at(Epoch(1), Seq(4))).unwrap();
        for (run, seq) in [(two, 5), (one, 6)] {
            let line = line(run, seq);
            back.observe(&outbox, &line, &Encoded::of(&line)).unwrap();
        }
        assert_eq!(sent(&outbox).await.iter().map(|(seq, _)| *seq).collect::<Vec<_>>(), [3], "of the one run alone");
    }
}
