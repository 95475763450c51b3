//! The invariants when all runs of a home have ended. Each check describes its violations.

use super::seen::Seen;
use super::sender::Message;
use super::truth::Truth;

/// The violations of all checks.
pub(super) fn violations(truth: &Truth, seen: &[&Seen], messages: &[Message], ledger: &str) -> Vec<String> {
    let mut wrong = messages_are_there_once(truth, messages);
    wrong.extend(commands_ran_once(truth, messages, ledger));
    for (at, seen) in seen.iter().enumerate() {
        let of_watcher =
            seen.violations.iter().cloned().chain(received_is_kept(truth, seen)).chain(ends_agree(truth, seen));
        wrong.extend(of_watcher.map(|what| format!("watcher {at}: {what}")));
    }
    wrong
}

/// Each key is one message; its run ended once, and its answer is the stored text.
fn messages_are_there_once(truth: &Truth, messages: &[Message]) -> Vec<String> {
    let mut wrong = vec![];
    for Message { key, run, text, .. } in messages {
        match truth.keys.get(key).map(Vec::as_slice) {
            None => wrong.push(format!("lost: {key} was acknowledged and is missing")),
            Some([only]) if only == run => {}
            Some(runs) => wrong.push(format!("doubled: {key} was acknowledged as run {run} and is {runs:?}")),
        }
        if truth.ends.get(run).is_some_and(|(_, kept)| kept != text) {
            wrong.push(format!("{key} was answered with {text:?}, and it is {:?}", truth.ends[run].1));
        }
    }
    for run in truth.keys.values().flatten() {
        let times = truth.ends.get(run).map_or(0, |(times, _)| *times);
        if times != 1 {
            wrong.push(format!("run {run} ended {times} times"));
        }
    }
    let settled = truth.settled.iter().filter(|(_, times)| **times != 1);
    wrong.extend(settled.map(|(call, times)| format!("call {call} has {times} results")));
    wrong
}

/// A command that is reported as done ran once, any other at most once.
fn commands_ran_once(truth: &Truth, messages: &[Message], ledger: &str) -> Vec<String> {
    let mut wrong = vec![];
    for Message { key, run, .. } in messages {
        let times = ledger.lines().filter(|line| line == key).count();
        let is_done = truth.commands.contains(run);
        if times > 1 || is_done && times != 1 {
            wrong.push(format!("doubled: the command of {key} ran {times} times, reported as done: {is_done}"));
        }
    }
    wrong
}

/// The text that was read is, byte for byte, the stored text; for retracted text it is the start.
fn received_is_kept(truth: &Truth, seen: &Seen) -> Vec<String> {
    let mut wrong = vec![];
    for (effect, kept) in &truth.texts {
        let received = seen.texts.get(effect).map_or("", String::as_str);
        let is_retracted = truth.retracted.contains(effect);
        let fits = if is_retracted { kept.starts_with(received) } else { kept == received };
        if !fits {
            wrong.push(format!(
                "{effect}: {received:?} was received, the journal has {kept:?}, retracted: {is_retracted}"
            ));
        }
        if is_retracted && !received.is_empty() && !seen.retracted.contains(effect) {
            wrong.push(format!("{effect}: it was retracted, and that was not reported"));
        }
    }
    let unknown = seen.texts.keys().filter(|effect| !truth.texts.contains_key(*effect));
    wrong.extend(unknown.map(|effect| format!("{effect}: received, and not in the journal")));
    wrong
}

/// Each end was published, and correctly.
fn ends_agree(truth: &Truth, seen: &Seen) -> Vec<String> {
    let differs = |(run, (_, kept)): (&engine::RunId, &(u32, String))| match seen.ends.get(run) {
        Some(received) if received == kept => None,
        received => Some(format!("run {run} ended with {kept:?}, received was {received:?}")),
    };
    truth.ends.iter().filter_map(differs).collect()
}

#[cfg(test)]
mod tests {
    use engine::RunId;
    use uuid::Uuid;

    use super::*;

    const RUN: RunId = RunId(Uuid::from_u128(1));

    /// Makes one thing wrong.
    type Spoil = fn(&mut Story);

    struct Story {
        truth: Truth,
        seen: Seen,
        messages: Vec<Message>,
        ledger: String,
    }

    fn in_order() -> Story {
        let mut truth = Truth::default();
        truth.keys.insert("k".into(), vec![RUN]);
        truth.ends.insert(RUN, (1, "ab".into()));
        truth.texts.extend([("r/1".to_owned(), "a".to_owned()), ("r/2".to_owned(), "ab".to_owned())]);
        truth.retracted.insert("r/1".into());
        truth.commands.insert(RUN);
        truth.settled.insert("c".into(), 1);
        let mut seen = Seen::default();
        seen.texts.extend([("r/1".to_owned(), "a".to_owned()), ("r/2".to_owned(), "ab".to_owned())]);
        seen.retracted.insert("r/1".into());
        seen.ends.insert(RUN, "ab".into());
        let messages = vec![Message { key: "k".into(), run: RUN, text: "ab".into(), times: 2 }];
        Story { truth, seen, messages, ledger: "k\n".into() }
    }

    fn found(story: &Story) -> Vec<String> {
        violations(&story.truth, &[&story.seen], &story.messages, &story.ledger)
    }

    #[test]
    fn r10_r43_every_violation_is_found() {
        assert_eq!(found(&in_order()), Vec::<String>::new());
        let table: [(&str, Spoil); 11] = [
            ("lost", |story| story.truth.keys.clear()),
            ("doubled: k was", |story| story.truth.keys.get_mut("k").unwrap().push(RunId(Uuid::from_u128(2)))),
            ("ended 2 times", |story| story.truth.ends.get_mut(&RUN).unwrap().0 = 2),
            ("was answered with", |story| story.messages[0].text.clear()),
            ("has 2 results", |story| {
                story.truth.settled.insert("c".into(), 2);
            }),
            ("ran 2 times", |story| story.ledger += "k\n"),
            ("ran 0 times", |story| story.ledger.clear()),
            ("was received, the journal has", |story| {
                story.seen.texts.insert("r/2".into(), "a".into());
            }),
            ("that was not reported", |story| story.seen.retracted.clear()),
            ("not in the journal", |story| {
                story.seen.texts.insert("r/3".into(), "a".into());
            }),
            ("received was None", |story| story.seen.ends.clear()),
        ];
        for (expected, spoil) in table {
            let mut story = in_order();
            spoil(&mut story);
            assert!(found(&story).iter().any(|what| what.contains(expected)), "{expected}: {:?}", found(&story));
        }
    }
}
