//! One subscriber: its filter, its position and what it receives.

use std::borrow::Cow;
use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::sync::{Arc, OnceLock};

use engine::{Position, RunId};
use protocol::chat::{Chat, ChatState};
use protocol::event::AGENT_EVENT;
use protocol::limits::{BUFFERED_BYTES, FIRST_FRAME_BYTES, FRAME_BYTES};
use protocol::notice::Notice as _;
use serde::Serialize;
use views::events::{BatchPosition, LinePosition};
use views::events::{Chats, Line, StreamPosition, StreamScope};

use super::hub::WeakCaller;
use crate::connection::{Chunk, SendBuffer, Slow, frame};

/// Bytes of a line without its frame.
const LINE_BYTES: usize = FRAME_BYTES - FIRST_FRAME_BYTES;

/// Bytes that may wait for a client when it receives the text so far.
const CHAT_BEHIND_BYTES: usize = BUFFERED_BYTES / 4;

/// Separates the cursor of a line from the numbers of its subscriber.
const NUMBERS: char = '#';

/// The filter of a subscriber.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Target {
    /// The whole home.
    Home,
    /// The session of this key.
    Session(String),
    /// A run of a session.
    Run(String, RunId),
}

impl Target {
    /// The session of the filter; `None` for the whole home.
    pub(crate) fn key(&self) -> Option<&str> {
        match self {
            Self::Home => None,
            Self::Session(key) | Self::Run(key, _) => Some(key),
        }
    }
}

/// A line as bytes, without the numbers that are the subscriber's own.
#[derive(Debug, Clone)]
pub(crate) struct Encoded {
    /// The parts before it, if its texts make it longer than a frame.
    parts: Option<Arc<[u8]>>,
    line: Arc<[u8]>,
    /// The end of a run as chat, which all subscribers share too.
    chat: Option<Arc<OnceLock<Encoded>>>,
}

/// One subscription of a client.
pub(crate) struct Subscription {
    pub(crate) caller: WeakCaller,
    number: u64,
    target: Target,
    stage: Stage,
    /// The number of the last line of each run, and of lines without a run.
    numbers: BTreeMap<Option<RunId>, u64>,
    /// The cursor of the last line.
    cursor: String,
    /// The chat projection, if the client asked for chat instead of lines.
    chats: Option<Chats>,
}

/// The phase of a subscription.
enum Stage {
    /// Missed lines are being read; live lines are dropped, because a later page holds them.
    Reading,
    /// The last missed lines are being read; live lines are buffered.
    Buffering(LiveBuffer),
    /// Live lines are delivered.
    Live(CaughtUp),
}

/// The position of a subscriber that has caught up: the journal is ahead of the commit notices.
struct CaughtUp {
    position: StreamPosition,
    /// The position in the home up to which the journal was read back.
    until: Position,
    /// Set once a notice behind it has arrived: nothing later of its session was read back.
    is_past: bool,
}

impl CaughtUp {
    fn new(position: StreamPosition) -> Self {
        Self { until: position.head(), position, is_past: false }
    }

    /// The cursor for a subscriber that receives this line; `None` if it was read back.
    fn notify<'a>(&mut self, line: &'a Line) -> Option<Cow<'a, str>> {
        // A line without an entry cannot have been read back, and advances no position.
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

    /// All lines of a batch have been delivered.
    fn pass(&mut self, batch: &BatchPosition) {
        if let (StreamScope::Home, Some(range)) = (self.position.scope(), batch.range()) {
            self.position.see_range(range, batch.epoch);
        }
    }
}

/// A line, and its bytes.
type SharedLine = (Arc<Line>, Encoded);

/// The live lines that are buffered while a subscriber catches up.
#[derive(Default)]
struct LiveBuffer {
    buffered: Vec<Buffered>,
    bytes: usize,
}

enum Buffered {
    Line(SharedLine),
    /// A batch has no more lines.
    BatchEnd(BatchPosition),
}

impl Encoded {
    /// The length in bytes, without the frame around it.
    pub(crate) fn bytes(&self) -> usize {
        self.line.len() + self.parts.as_ref().map_or(0, |parts| parts.len())
    }

    /// `"session":…}}` and the end of the line: what follows the cursor.
    pub(crate) fn of(line: &Line) -> Self {
        let mut event = line.event.clone();
        event.cursor = String::new();
        let chat = event.run_end().map(|_| Arc::default());
        Self { chat, ..Self::behind_cursor(&event) }
    }

    /// Everything that follows the cursor, which is empty here, and the end of the line.
    fn behind_cursor(payload: &impl Serialize) -> Self {
        let bytes = serde_json::to_vec(payload).expect("a line is plain data");
        let behind = bytes.strip_prefix(br#"{"cursor":"","#).expect("the cursor comes first");
        if bytes.len() <= LINE_BYTES {
            return Self { parts: None, line: [behind, b"}\n"].concat().into(), chat: None };
        }
        let mut payload = serde_json::to_value(payload).expect("a line is plain data");
        payload.as_object_mut().map(|fields| fields.remove("cursor"));
        let parts: Vec<u8> = protocol::part::split(&mut payload).iter().flat_map(frame).collect();
        let line = format!("{payload}}}\n");
        Self { parts: Some(parts.into()), line: line.as_bytes()[1..].into(), chat: None }
    }
}

impl Subscription {
    pub(crate) fn new(caller: WeakCaller, number: u64, target: Target, numbers: &str) -> Self {
        let numbers = read_numbers(numbers);
        Self { caller, number, target, stage: Stage::Reading, numbers, cursor: String::new(), chats: None }
    }

    /// From here on live lines are buffered, until the subscription has caught up.
    pub(crate) fn start_buffering(&mut self) {
        self.stage = Stage::Buffering(LiveBuffer::default());
    }

    /// Whether lines of this session may match the filter.
    pub(crate) fn listens_to(&self, session: &str) -> bool {
        self.target.key().is_none_or(|key| key == session)
    }

    /// Whether this line matches the filter.
    pub(crate) fn wants(&self, line: &Line) -> bool {
        match &self.target {
            Target::Home => true,
            Target::Session(key) => *key == line.event.session,
            Target::Run(key, run) => {
                *key == line.event.session && (line.event.run == Some(*run) || line.event.settles(*run))
            }
        }
    }

    /// The cursor of the last line that was sent.
    pub(crate) fn cursor(&self) -> &str {
        &self.cursor
    }

    /// Switches to chat, which continues from these answers.
    pub(crate) fn chat(&mut self, chats: Chats) {
        self.chats = Some(chats);
    }

    /// Sets the position at which the subscription begins.
    pub(crate) fn begin_at(&mut self, cursor: &str) -> &str {
        self.cursor = self.numbered(cursor);
        &self.cursor
    }

    /// Delivers a live line, or keeps it until the subscription has caught up.
    pub(crate) fn observe(
        &mut self,
        send_buffer: &SendBuffer,
        line: &Arc<Line>,
        encoded: &Encoded,
    ) -> Result<(), Slow> {
        match &mut self.stage {
            Stage::Reading => Ok(()),
            Stage::Buffering(kept) => {
                kept.bytes += encoded.bytes();
                if kept.bytes > BUFFERED_BYTES {
                    return Err(Slow);
                }
                kept.buffered.push(Buffered::Line((Arc::clone(line), encoded.clone())));
                Ok(())
            }
            Stage::Live(_) => self.notify(send_buffer, line, encoded),
        }
    }

    /// Marks a batch as delivered: entries without a line count as well.
    pub(crate) fn pass(&mut self, batch: &BatchPosition) {
        match &mut self.stage {
            Stage::Buffering(kept) if self.target == Target::Home => kept.buffered.push(Buffered::BatchEnd(*batch)),
            Stage::Live(caught_up) => caught_up.pass(batch),
            Stage::Reading | Stage::Buffering(_) => {}
        }
    }

    /// The subscription has caught up to this position: delivers the buffered lines behind it.
    pub(crate) fn go_live(&mut self, send_buffer: &SendBuffer, position: StreamPosition) -> Result<(), Slow> {
        let stage = std::mem::replace(&mut self.stage, Stage::Live(CaughtUp::new(position)));
        let Stage::Buffering(kept) = stage else { return Ok(()) };
        for buffered in kept.buffered {
            match buffered {
                Buffered::Line((line, encoded)) => self.notify(send_buffer, &line, &encoded)?,
                Buffered::BatchEnd(batch) => self.pass(&batch),
            }
        }
        Ok(())
    }

    /// Delivers a line, unless it was read in the journal.
    fn notify(&mut self, send_buffer: &SendBuffer, line: &Line, encoded: &Encoded) -> Result<(), Slow> {
        let Stage::Live(caught_up) = &mut self.stage else { return Ok(()) };
        let Some(cursor) = caught_up.notify(line) else { return Ok(()) };
        self.send_at(send_buffer, line, encoded, &cursor)
    }

    /// Sends a line under its next number, if it matches the filter.
    pub(crate) fn send(&mut self, send_buffer: &SendBuffer, line: &Line, encoded: &Encoded) -> Result<(), Slow> {
        self.send_at(send_buffer, line, encoded, &line.event.cursor)
    }

    fn send_at(&mut self, send_buffer: &SendBuffer, line: &Line, encoded: &Encoded, cursor: &str) -> Result<(), Slow> {
        if !self.wants(line) {
            return Ok(());
        }
        let (name, encoded) = match (&mut self.chats, &encoded.chat) {
            (None, _) => (AGENT_EVENT, encoded.clone()),
            (Some(chats), Some(end)) => match chats.end(&line.event) {
                Some(chat) => (Chat::NAME, end.get_or_init(|| Encoded::behind_cursor(&chat())).clone()),
                None => return Ok(()),
            },
            (Some(chats), None) => match chats.observe(&line.event) {
                // The next one repeats its text. A client that is behind would receive one megabyte after the other.
                Some(chat) if chat.state == ChatState::Delta && send_buffer.bytes() > CHAT_BEHIND_BYTES => {
                    return Ok(());
                }
                Some(chat) => (Chat::NAME, Encoded::behind_cursor(&chat)),
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
        let chunks = [Chunk::Own(head.into_bytes()), Chunk::Shared(encoded.line)];
        let sent = match encoded.parts {
            None => send_buffer.offer(chunks),
            Some(parts) => {
                let [head, line] = chunks;
                send_buffer.offer([Chunk::Shared(parts), head, line])
            }
        };
        if sent.is_err() {
            // The subscriber did not receive this line.
            match before {
                Some(before) => self.numbers.insert(run, before),
                None => self.numbers.remove(&run),
            };
            return sent;
        }
        self.cursor = cursor;
        Ok(())
    }

    /// Takes over the numbers of a cursor.
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

/// Numbers that do not parse start from 1 again.
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

    /// A line of the run at this entry.
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
        subscription.start_buffering();
        subscription
    }

    /// What was sent: the number and cursor of each line.
    async fn sent(send_buffer: &SendBuffer) -> Vec<(u64, String)> {
        send_buffer.finish();
        let mut bytes = vec![];
        while let Some(more) = send_buffer.take().await {
            bytes.extend(more.bytes());
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
    async fn r43_live_lines_during_a_catch_up_follow_it_and_are_sent_once() {
        let (send_buffer, run) = (SendBuffer::default(), Some(RunId(uuid::Uuid::from_u128(1))));
        let mut subscription = subscription(Target::Session("agent:main:main".to_owned()), "");
        for seq in 3..6 {
            let line = line(run, seq);
            subscription.observe(&send_buffer, &line, &Encoded::of(&line)).unwrap();
        }
        // The first two were read back already.
        for seq in 1..5 {
            let line = line(run, seq);
            subscription.send(&send_buffer, &line, &Encoded::of(&line)).unwrap();
        }
        subscription.go_live(&send_buffer, StreamPosition::at(Epoch(1), Seq(4))).unwrap();
        let last = line(run, 6);
        subscription.observe(&send_buffer, &last, &Encoded::of(&last)).unwrap();
        let sent = sent(&send_buffer).await;
        assert_eq!(sent.iter().map(|(seq, _)| *seq).collect::<Vec<_>>(), [1, 2, 3, 4, 5, 6]);
        assert!(sent.iter().zip(1..).all(|((_, cursor), seq)| cursor.starts_with(&format!("1.{seq}#"))), "{sent:?}");
        assert_eq!(sent[5].1, subscription.cursor());
    }

    /// Found by `serve-kills`: the journal is ahead of the commit notices.
    #[tokio::test]
    async fn r43_lines_that_were_read_back_are_not_sent_again_by_a_late_notice() {
        let (send_buffer, run) = (SendBuffer::default(), Some(RunId(uuid::Uuid::from_u128(1))));
        let mut subscription = subscription(Target::Session("agent:main:main".to_owned()), "");
        subscription.go_live(&send_buffer, StreamPosition::at(Epoch(1), Seq(4))).unwrap();
        for seq in 3..7 {
            let line = line(run, seq);
            subscription.observe(&send_buffer, &line, &Encoded::of(&line)).unwrap();
        }
        let cursors: Vec<_> =
            sent(&send_buffer).await.into_iter().map(|(_, cursor)| split(&cursor).0.to_owned()).collect();
        assert_eq!(cursors, ["1.5", "1.6"]);
    }

    #[tokio::test]
    async fn r43_each_run_has_its_own_numbers_and_they_continue_with_the_cursor() {
        let (one, two) = (Some(RunId(uuid::Uuid::from_u128(1))), Some(RunId(uuid::Uuid::from_u128(2))));
        let send_buffer = SendBuffer::default();
        let mut first = subscription(Target::Home, "");
        first.go_live(&send_buffer, StreamPosition::beginning(StreamScope::Home)).unwrap();
        for (run, seq) in [(one, 1), (two, 2), (None, 3), (one, 4)] {
            let line = line(run, seq);
            first.observe(&send_buffer, &line, &Encoded::of(&line)).unwrap();
            first.pass(line.at.batch());
        }
        let received = sent(&send_buffer).await;
        assert_eq!(received.iter().map(|(seq, _)| *seq).collect::<Vec<_>>(), [1, 1, 1, 2]);
        let (cursor, numbers) = split(&received[3].1);
        assert_eq!(cursor, "home:1.4");

        let send_buffer = SendBuffer::default();
        let mut back = subscription(Target::Run("agent:main:main".to_owned(), one.unwrap()), numbers);
        back.go_live(&send_buffer, StreamPosition::at(Epoch(1), Seq(4))).unwrap();
        for (run, seq) in [(two, 5), (one, 6)] {
            let line = line(run, seq);
            back.observe(&send_buffer, &line, &Encoded::of(&line)).unwrap();
        }
        assert_eq!(
            sent(&send_buffer).await.iter().map(|(seq, _)| *seq).collect::<Vec<_>>(),
            [3],
            "of the one run alone"
        );
    }
}
