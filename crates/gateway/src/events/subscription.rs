//! One subscriber: what it wants, where it stands, what it is told. What may not live here: when.

use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::sync::Arc;

use engine::RunId;

use super::hub::Whose;
use super::{Cursor, Line};
use crate::connection::{Chunk, Outbox, Slow};
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

/// A line as bytes: all of it but the numbers that are the subscriber's own.
#[derive(Debug, Clone)]
pub(crate) struct Encoded(Arc<[u8]>);

/// A subscriber.
pub(crate) struct Subscription {
    pub(crate) caller: Whose,
    number: u64,
    target: Target,
    /// What happens while it catches up.
    kept: Option<Kept>,
    /// Where it had caught up to, until an entry behind it is heard.
    caught_up: Option<Cursor>,
    /// The number of its last line of each run, and of those without a run.
    numbers: BTreeMap<Option<RunId>, u64>,
    /// The cursor of its last line.
    cursor: String,
}

#[derive(Default)]
struct Kept {
    lines: Vec<(Arc<Line>, Encoded)>,
    bytes: usize,
}

impl Encoded {
    /// `"session":…}}` and the end of the line: what follows the cursor.
    pub(crate) fn of(line: &Line) -> Self {
        let mut event = line.event.clone();
        event.cursor = String::new();
        let bytes = serde_json::to_vec(&event).expect("a line is plain data");
        let shared = bytes.strip_prefix(br#"{"cursor":"","#).expect("the cursor is the first of a line");
        Self([shared, b"}\n"].concat().into())
    }
}

impl Subscription {
    pub(crate) fn new(caller: Whose, number: u64, target: Target, numbers: &str) -> Self {
        let numbers = read_numbers(numbers);
        Self { caller, number, target, kept: Some(Kept::default()), caught_up: None, numbers, cursor: String::new() }
    }

    /// Whether it may be told of this session.
    pub(crate) fn listens_to(&self, session: &str) -> bool {
        match &self.target {
            Target::Home => true,
            Target::Session(key) | Target::Run(key, _) => key == session,
        }
    }

    /// Whether it is told of this line.
    pub(crate) fn wants(&self, line: &Line) -> bool {
        match &self.target {
            Target::Home => true,
            Target::Session(key) => *key == line.event.session,
            Target::Run(key, run) => *key == line.event.session && line.event.run == Some(*run),
        }
    }

    /// Where it stands.
    pub(crate) fn cursor(&self) -> &str {
        &self.cursor
    }

    /// Something happened: it is told, or that is kept until it has caught up.
    pub(crate) fn hear(&mut self, outbox: &Outbox, line: &Arc<Line>, encoded: &Encoded) -> Result<(), Slow> {
        let Some(kept) = &mut self.kept else {
            if self.was_read_back(line) {
                return Ok(());
            }
            return self.send(outbox, line, encoded);
        };
        kept.bytes += encoded.0.len();
        if kept.bytes > BUFFERED_BYTES {
            return Err(Slow);
        }
        kept.lines.push((Arc::clone(line), encoded.clone()));
        Ok(())
    }

    /// It has caught up to this cursor: what was kept and is behind it follows.
    pub(crate) fn go_live(&mut self, outbox: &Outbox, caught_up: &Cursor) -> Result<(), Slow> {
        let kept = self.kept.take().unwrap_or_default();
        self.caught_up = Some(caught_up.clone());
        for (line, encoded) in kept.lines {
            if !self.was_read_back(&line) {
                self.send(outbox, &line, &encoded)?;
            }
        }
        Ok(())
    }

    /// Whether it has read this line in the journal, which is ahead of what is heard.
    fn was_read_back(&mut self, line: &Line) -> bool {
        let Some(caught_up) = &self.caught_up else { return false };
        let was_read = caught_up.has_seen(&line.place);
        if caught_up.is_before(&line.place) {
            self.caught_up = None;
        }
        was_read
    }

    /// Sends a line under its next number, if it is wanted.
    pub(crate) fn send(&mut self, outbox: &Outbox, line: &Line, encoded: &Encoded) -> Result<(), Slow> {
        if !self.wants(line) {
            return Ok(());
        }
        let run = line.event.run;
        let seq = self.numbers.get(&run).copied().unwrap_or_default() + 1;
        let before = self.numbers.insert(run, seq);
        let ends = line.event.run_end().is_some();
        if ends {
            self.numbers.remove(&run);
        }
        let cursor = self.numbered(&line.event.cursor);
        let head = format!(
            r#"{{"type":"event","event":"agent","seq":{seq},"subscription":{},"payload":{{"cursor":"{cursor}","#,
            self.number
        );
        let sent = outbox.offer([Chunk::Own(head.into_bytes()), Chunk::Shared(Arc::clone(&encoded.0))]);
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

    use engine::{Epoch, Seq, Timestamp};
    use protocol::event::{LifecycleLine, Stream};
    use protocol::{EventFrame, Frame};

    use super::*;

    /// A line of the run that stands at this entry.
    fn line(run: Option<RunId>, seq: u64) -> Arc<Line> {
        let cursor = Cursor::at(Epoch(1), Seq(seq));
        let event = protocol::Event {
            cursor: cursor.to_string(),
            session: "agent:main:main".to_owned(),
            run,
            at: Timestamp(7),
            what: Stream::Lifecycle(LifecycleLine::Start),
        };
        Arc::new(Line { event, place: cursor.place() })
    }

    fn subscription(target: Target, numbers: &str) -> Subscription {
        Subscription::new(Weak::new(), 5, target, numbers)
    }

    /// What was sent: number and cursor of each.
    async fn sent(outbox: &Outbox) -> Vec<(u64, String)> {
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
        let (outbox, run) = (Outbox::default(), Some(RunId(uuid::Uuid::from_u128(1))));
        let mut subscription = subscription(Target::Session("agent:main:main".to_owned()), "");
        for seq in 3..6 {
            let line = line(run, seq);
            subscription.hear(&outbox, &line, &Encoded::of(&line)).unwrap();
        }
        // Of these the first two are in what it read back.
        for seq in 1..5 {
            let line = line(run, seq);
            subscription.send(&outbox, &line, &Encoded::of(&line)).unwrap();
        }
        subscription.go_live(&outbox, &Cursor::at(Epoch(1), Seq(4))).unwrap();
        let last = line(run, 6);
        subscription.hear(&outbox, &last, &Encoded::of(&last)).unwrap();
        let sent = sent(&outbox).await;
        assert_eq!(sent.iter().map(|(seq, _)| *seq).collect::<Vec<_>>(), [1, 2, 3, 4, 5, 6]);
        assert!(sent.iter().zip(1..).all(|((_, cursor), seq)| cursor.starts_with(&format!("1.{seq}#"))), "{sent:?}");
        assert_eq!(sent[5].1, subscription.cursor());
    }

    /// Found by `serve-kills`: the journal is ahead of whoever tells what happens.
    #[tokio::test]
    async fn r43_what_it_read_back_is_not_told_again_by_a_batch_that_is_heard_late() {
        let (outbox, run) = (Outbox::default(), Some(RunId(uuid::Uuid::from_u128(1))));
        let mut subscription = subscription(Target::Session("agent:main:main".to_owned()), "");
        subscription.go_live(&outbox, &Cursor::at(Epoch(1), Seq(4))).unwrap();
        for seq in 3..7 {
            let line = line(run, seq);
            subscription.hear(&outbox, &line, &Encoded::of(&line)).unwrap();
        }
        let cursors: Vec<_> = sent(&outbox).await.into_iter().map(|(_, cursor)| split(&cursor).0.to_owned()).collect();
        assert_eq!(cursors, ["1.5", "1.6"]);
    }

    #[tokio::test]
    async fn r43_numbers_are_of_each_run_and_go_on_with_the_cursor() {
        let (one, two) = (Some(RunId(uuid::Uuid::from_u128(1))), Some(RunId(uuid::Uuid::from_u128(2))));
        let outbox = Outbox::default();
        let mut first = subscription(Target::Home, "");
        first.go_live(&outbox, &Cursor::default()).unwrap();
        for (run, seq) in [(one, 1), (two, 2), (None, 3), (one, 4)] {
            let line = line(run, seq);
            first.hear(&outbox, &line, &Encoded::of(&line)).unwrap();
        }
        let told = sent(&outbox).await;
        assert_eq!(told.iter().map(|(seq, _)| *seq).collect::<Vec<_>>(), [1, 1, 1, 2]);
        let (cursor, numbers) = split(&told[3].1);
        assert_eq!(cursor, "1.4");

        let outbox = Outbox::default();
        let mut back = subscription(Target::Run("agent:main:main".to_owned(), one.unwrap()), numbers);
        back.go_live(&outbox, &Cursor::at(Epoch(1), Seq(4))).unwrap();
        for (run, seq) in [(two, 5), (one, 6)] {
            let line = line(run, seq);
            back.hear(&outbox, &line, &Encoded::of(&line)).unwrap();
        }
        assert_eq!(sent(&outbox).await.iter().map(|(seq, _)| *seq).collect::<Vec<_>>(), [3], "of the one run alone");
    }
}
