//! The invariants at the end of a case. Each check describes its violations.

use std::collections::BTreeMap;
use std::path::Path;
use std::time::{Duration, Instant};

use engine::FailureClass;
use model_server::{ODD_CALLS, Script};
use serde_json::Value;

use super::faults::Ends;
use super::plan::{Case, Work, token};
use super::record::Record;
use super::truth::Truth;

/// How long leftover processes of a run may take to end: the supervisor ends the tree before it exits.
const LEFTOVERS: Duration = Duration::from_secs(10);

/// Everything that is known about a case at its end.
pub(super) struct Aftermath<'a> {
    pub(super) case: &'a Case,
    pub(super) script: &'a Script,
    pub(super) records: &'a [Record],
    pub(super) truth: &'a Truth,
    /// `runs show --json` of each run in the list of the home, in order.
    pub(super) runs: &'a [Value],
    pub(super) folder: &'a Path,
    pub(super) ledger: &'a str,
}

impl<'a> Aftermath<'a> {
    /// The violations of all checks.
    pub(super) fn violations(&self) -> Vec<String> {
        let checks = [
            Self::shown_is_kept,
            Self::acknowledged_is_there,
            Self::every_run_has_ended_once,
            Self::ends_agree,
            Self::answers_are_whole,
            Self::steps_are_whole,
            Self::failures_are_what_went_wrong,
            Self::nothing_ran_twice,
            Self::files_hold_what_was_written,
        ];
        let wrong = checks.iter().flat_map(|check| check(self));
        wrong.chain(super::odd_calls::violations(self)).chain(leftovers(self.folder)).collect()
    }

    /// The text that a client received is a prefix of the stored text, and of the text in `runs show` unless it was
    /// retracted.
    fn shown_is_kept(&self) -> Vec<String> {
        let mut wrong = vec![];
        let shown: BTreeMap<&str, &str> =
            self.steps().filter_map(|step| Some((step["request"].as_str()?, text(step)))).collect();
        for record in self.records {
            let received = match record.received() {
                Ok(received) => received,
                Err(gap) => {
                    wrong.push(gap);
                    continue;
                }
            };
            for (effect, received) in received {
                let kept = self.truth.texts.get(effect).map_or("", String::as_str);
                if !kept.starts_with(&received) {
                    wrong.push(format!("{effect}: a client received {received:?}, the journal has {kept:?}"));
                }
                let retracted = self.truth.retracted.contains(effect);
                match shown.get(effect) {
                    Some(shown) if !retracted && !shown.starts_with(&received) => {
                        wrong.push(format!("{effect}: a client received {received:?}, `runs show` says {shown:?}"));
                    }
                    Some(_) if retracted => wrong.push(format!("{effect}: retracted, and still shown")),
                    None if !retracted => wrong.push(format!("{effect}: received, not retracted, and not shown")),
                    _ => {}
                }
            }
            for effect in record.retracted.iter().filter(|effect| !self.truth.retracted.contains(*effect)) {
                wrong.push(format!("{effect}: a client was notified of a retraction, the journal has no such event"));
            }
        }
        wrong
    }

    fn acknowledged_is_there(&self) -> Vec<String> {
        let accepted = self.records.iter().flat_map(|record| &record.accepted);
        let lost = accepted.filter(|run| !self.truth.accepted.contains(*run) || self.run(run).is_none());
        lost.map(|run| format!("the message of run {run} was acknowledged and is lost")).collect()
    }

    fn every_run_has_ended_once(&self) -> Vec<String> {
        let mut wrong = vec![];
        for run in self.truth.accepted.iter().filter(|run| self.truth.endings.get(*run) != Some(&1)) {
            let times = self.truth.endings.get(run).copied().unwrap_or(0);
            wrong.push(format!("run {run} has {times} terminal events"));
        }
        for run in self.runs.iter().filter(|run| run["outcome"].is_null()) {
            wrong.push(format!("run {} is unfinished: {}", run["run"], run["state"]));
        }
        for (call, times) in self.truth.settled.iter().filter(|(_, times)| **times != 1) {
            wrong.push(format!("call {call} has {times} results"));
        }
        wrong
    }

    /// The end of a run is published at most once, and correctly.
    fn ends_agree(&self) -> Vec<String> {
        let mut wrong = vec![];
        let mut ends = BTreeMap::new();
        for end in self.records.iter().flat_map(|record| &record.ends) {
            *ends.entry(&end.run).or_insert(0) += 1;
            let run = self.run(&end.run).cloned().unwrap_or_default();
            if run["outcome"] != *end.outcome || text(&run) != end.text {
                wrong.push(format!("the end of run {} was reported as {} {:?}", end.run, end.outcome, end.text));
            }
        }
        wrong.extend(
            ends.iter().filter(|(_, times)| **times > 1).map(|(run, times)| format!("run {run} ended {times} times")),
        );
        wrong
    }

    /// The model's answer is complete; if kept text is continued, it is the last segment.
    fn answers_are_whole(&self) -> Vec<String> {
        let Some(run) = self.first() else { return vec![] };
        let (outcome, text) = (run["outcome"].as_str().unwrap_or_default(), text(run));
        let (expected, answer) = match (self.case.work, self.case.setup.fault.ends) {
            (Work::Aborted, _) => ("aborted", String::new()),
            (_, Ends::Failed(_)) => ("failed", String::new()),
            (_, Ends::Completed) => ("completed", self.script.answer()),
        };
        let mut wrong = vec![];
        if outcome != expected {
            wrong.push(format!("the run ended as {outcome}, not {expected}"));
        }
        let whole = if self.case.setup.resume == "continue" { text.ends_with(&answer) } else { text == answer };
        if !whole && expected == "completed" {
            wrong.push(format!("the answer is {text:?}, not {answer:?}"));
        }
        if let Ends::Failed(says) = self.case.setup.fault.ends
            && run["error"].as_str().is_none_or(|error| !error.contains(says))
        {
            wrong.push(format!("the run does not say {says:?} but {}", run["error"]));
        }
        wrong
    }

    /// Only the provider's faults caused failures, and these have the right class.
    fn failures_are_what_went_wrong(&self) -> Vec<String> {
        let class = self.case.setup.fault.class;
        let others = self.truth.failures.iter().filter(|failure| Some(**failure) != class);
        let mut wrong: Vec<String> =
            others.map(|failure| format!("something failed as {failure:?}, not {class:?}")).collect();
        if self.truth.failures.contains(&FailureClass::ContextOverflow) && self.truth.compactions == 0 {
            wrong.push("the request was too long, but the history was not compacted".to_owned());
        }
        wrong
    }

    /// The text before the calls of a step is complete, and there once.
    fn steps_are_whole(&self) -> Vec<String> {
        if self.case.setup.resume == "continue" {
            return vec![];
        }
        let preamble = self.script.words(self.script.preamble).concat();
        let steps = self.first().and_then(|run| run["steps"].as_array()).into_iter().flatten();
        let with_calls = steps.filter(|step| step["calls"].as_array().is_some_and(|calls| !calls.is_empty()));
        let wrong = with_calls.filter(|step| ![preamble.as_str(), ODD_CALLS].contains(&text(step)));
        wrong.map(|step| format!("{} says {:?}, not {preamble:?}", step["request"], text(step))).collect()
    }

    /// A command that is reported as done ran once, any other at most once.
    fn nothing_ran_twice(&self) -> Vec<String> {
        let calls: Vec<&Value> =
            self.first().into_iter().flat_map(calls).filter(|call| call["tool"] == "exec").collect();
        let mut wrong = vec![];
        let wanted = self.script.steps.iter().filter(|call| call.tool == "exec").count();
        for at in 0..wanted {
            let token = token(&self.case.name, at);
            let times = self.ledger.lines().filter(|line| *line == token).count();
            let outcome = calls.get(at).and_then(|call| call["outcome"].as_str()).unwrap_or("not called");
            let fits = match outcome {
                "done" | "timed_out" => times == 1,
                "not called" | "skipped" | "denied" => times == 0,
                _ => times <= 1,
            };
            if !fits {
                wrong.push(format!("command {at} is {outcome} and ran {times} times"));
            }
        }
        wrong
    }

    fn files_hold_what_was_written(&self) -> Vec<String> {
        let writes = self
            .first()
            .into_iter()
            .flat_map(calls)
            .filter(|call| call["tool"] == "write" && call["outcome"] == "done");
        let file = self.folder.join("workspace/out.txt");
        let content = std::fs::read_to_string(file).unwrap_or_default();
        let wrong = writes.filter(|_| content != self.case.name);
        wrong.map(|_| format!("out.txt was written and holds {content:?}")).collect()
    }

    fn steps(&self) -> impl Iterator<Item = &Value> {
        self.runs.iter().flat_map(|run| run["steps"].as_array().into_iter().flatten())
    }

    fn run(&self, id: &str) -> Option<&Value> {
        self.runs.iter().find(|run| run["run"] == id)
    }

    /// The run of the case's own message; `None` if it was killed before anything was recorded.
    pub(super) fn first(&self) -> Option<&'a Value> {
        self.runs.len().checked_sub(2).and_then(|at| self.runs.get(at))
    }
}

/// The calls of a run, in the order in which the model made them.
pub(super) fn calls(run: &Value) -> impl Iterator<Item = &Value> {
    let steps = run["steps"].as_array().into_iter().flatten();
    steps.flat_map(|step| step["calls"].as_array().into_iter().flatten())
}

pub(super) fn text(of: &Value) -> &str {
    of["text"].as_str().unwrap_or_default()
}

/// Processes that still have the case's folder in their command line after they had time to end.
fn leftovers(folder: &Path) -> Vec<String> {
    let started = Instant::now();
    loop {
        let alive = processes(folder);
        if alive.is_empty() || started.elapsed() > LEFTOVERS {
            return alive.into_iter().map(|process| format!("still running: {process}")).collect();
        }
        std::thread::sleep(Duration::from_millis(2));
    }
}

fn processes(folder: &Path) -> Vec<String> {
    let named = folder.to_string_lossy().into_owned();
    let entries = std::fs::read_dir("/proc").into_iter().flatten().flatten();
    let own = std::process::id().to_string();
    let lines = entries.filter(|entry| entry.file_name() != own.as_str()).filter_map(|entry| {
        let line = std::fs::read(entry.path().join("cmdline")).ok()?;
        let line = String::from_utf8_lossy(&line).replace('\0', " ");
        line.contains(&named).then(|| format!("{} {line}", entry.file_name().to_string_lossy()))
    });
    lines.collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::faults::{FAULTS, NONE, ProviderFault};
    use crate::odd_calls::{self, OddMet};
    use crate::plan::{Attack, Build, Setup};
    use crate::record::{End, Exit};
    use serde_json::json;

    const RUN: &str = "r";
    const REQUEST: &str = "r/request/1/1";

    /// The kind, the outcomes of each round's calls, the result of the check, and the violations.
    type OddCase<'a> = (&'a str, &'a [&'a [&'a str]], OddMet, &'a [&'a str]);

    /// Makes one thing wrong.
    type Spoil = fn(&mut Story);

    /// A good case, to be spoilt.
    struct Story {
        record: Record,
        truth: Truth,
        runs: Vec<Value>,
        ledger: String,
        fault: String,
        provider: &'static ProviderFault,
    }

    fn in_order() -> Story {
        let record = Record {
            texts: [(REQUEST.to_owned(), vec![(0, "word0".to_owned())])].into(),
            retracted: std::collections::BTreeSet::new(),
            accepted: vec![RUN.to_owned()],
            ends: vec![End { run: RUN.into(), outcome: "completed".into(), text: "word0 word1".into() }],
            exit: Exit::Code(0),
        };
        let truth = Truth {
            accepted: [RUN.to_owned()].into(),
            endings: [(RUN.to_owned(), 1)].into(),
            texts: [(REQUEST.to_owned(), "word0 word1".to_owned())].into(),
            settled: [("r/1/0".to_owned(), 1)].into(),
            ..Truth::default()
        };
        let calls = json!([{ "id": "r/1/0", "tool": "exec", "outcome": "done" }]);
        let run = json!({
            "run": RUN, "outcome": "completed", "text": "word0 word1",
            "steps": [{ "request": REQUEST, "text": "word0 word1", "calls": calls }],
        });
        let afterwards = json!({ "run": "later", "outcome": "completed", "text": "", "steps": [] });
        let (runs, ledger) = (vec![run, afterwards], "case.0\n".to_owned());
        Story { record, truth, runs, ledger, fault: String::new(), provider: &NONE }
    }

    fn violations(story: &Story) -> Vec<String> {
        judged(story).0
    }

    /// All violations, those of odd calls, and the outcome of these calls.
    fn judged(story: &Story) -> (Vec<String>, Vec<String>, OddMet) {
        let case = Case {
            name: "case".into(),
            build: Build::Points,
            work: Work::Rounds,
            setup: Setup { fault: story.provider, ..Setup::default() },
            attacks: vec![Attack::None],
        };
        let script = Script::parse(&format!("preamble=2 tokens=2 {}\nexec:true", story.fault)).unwrap();
        let records = std::slice::from_ref(&story.record);
        let folder = Path::new("/nowhere/at/all");
        let (truth, runs, ledger) = (&story.truth, &story.runs, &story.ledger);
        let aftermath = Aftermath { case: &case, script: &script, records, truth, runs, folder, ledger };
        (aftermath.violations(), odd_calls::violations(&aftermath), odd_calls::met(&aftermath))
    }

    #[test]
    fn r24_violations_of_odd_calls_are_found() {
        let round = |outcomes: &[&str]| {
            let call = |outcome: &&str| json!({ "id": "r/1/0", "tool": "ls", "outcome": outcome, "output": "why" });
            let calls = outcomes.iter().map(call).collect::<Vec<_>>();
            json!({ "request": "r/request/0/1", "text": ODD_CALLS, "calls": calls })
        };
        let none: [&str; 0] = [];
        let table: [OddCase<'_>; 8] = [
            ("call_unknown", &[], OddMet::Missed, &none),
            ("call_unknown", &[&["denied"]], OddMet::Denied(1), &none),
            ("call_unknown", &[&["done"]], OddMet::Denied(1), &["is \"done\", not denied"]),
            ("call_same_id", &[&["done", "done"]], OddMet::Done(2), &none),
            ("call_same_id", &[&["done"]], OddMet::Done(1), &["1 odd calls are kept, not 2"]),
            ("call_same_id", &[&["done", "done"], &["done", "done"]], OddMet::Done(4), &["2 rounds of odd calls"]),
            ("call_none", &[], OddMet::AskedAgain, &none),
            ("call_none", &[&["done"]], OddMet::AskedAgain, &["1 rounds of odd calls are kept, not 0"]),
        ];
        for (fault, rounds, met, expected) in table {
            let mut story = in_order();
            let steps = story.runs[0]["steps"].as_array_mut().unwrap();
            steps.splice(0..0, rounds.iter().map(|outcomes| round(outcomes)));
            story.truth.failures = if fault == "call_none" { vec![FailureClass::Malformed] } else { vec![] };
            story.fault = format!("odd={fault}x1");
            let (_, found, was_met) = judged(&story);
            assert_eq!(was_met, met, "{fault} {rounds:?}");
            assert_eq!(found.len(), expected.len(), "{fault} {rounds:?}: {found:?}");
            assert!(found.iter().zip(expected).all(|(found, expected)| found.contains(expected)), "{found:?}");
        }
    }

    #[test]
    fn r10_r13_every_violation_is_found() {
        assert_eq!(violations(&in_order()), Vec::<String>::new());
        let table: [(&str, Spoil); 14] = [
            ("was not compacted", |story| story.truth.failures.push(FailureClass::ContextOverflow)),
            ("says \"word0\", not \"word0 word1\"", |story| story.runs[0]["steps"][0]["text"] = json!("word0")),
            ("failed as Server, not None", |story| story.truth.failures.push(FailureClass::Server)),
            ("and is lost", |story| story.record.accepted.push("gone".into())),
            ("the journal has", |story| story.truth.texts.clear()),
            ("not shown", |story| story.runs[0]["steps"] = json!([])),
            ("still shown", |story| {
                story.truth.retracted.insert(REQUEST.into());
            }),
            ("no such event", |story| {
                story.record.retracted.insert("r/request/9/1".into());
            }),
            ("2 terminal events", |story| {
                story.truth.endings.insert(RUN.into(), 2);
            }),
            ("is unfinished", |story| story.runs[1]["outcome"] = Value::Null),
            ("2 results", |story| {
                story.truth.settled.insert("r/1/0".into(), 2);
            }),
            ("ran 2 times", |story| story.ledger = "case.0\ncase.0\n".into()),
            ("ran 0 times", |story| story.ledger.clear()),
            ("was reported as", |story| story.record.ends[0].text = "other".into()),
        ];
        for (expected, spoil) in table {
            let mut story = in_order();
            spoil(&mut story);
            let found = violations(&story);
            assert!(found.iter().any(|violation| violation.contains(expected)), "{expected}: {found:?}");
        }
    }
    #[test]
    fn r51_a_run_that_must_fail_ends_so_and_says_why() {
        let fails = FAULTS.iter().find(|fault| matches!(fault.ends, Ends::Failed(_))).unwrap();
        let found = |outcome: &str, text: &str, error: &str| {
            let mut story = Story { provider: fails, ..in_order() };
            (story.runs[0]["outcome"], story.runs[0]["text"]) = (json!(outcome), json!(text));
            story.runs[0]["error"] = json!(error);
            (story.record.ends[0].outcome, story.record.ends[0].text) = (outcome.to_owned(), text.to_owned());
            violations(&story)
        };
        let Ends::Failed(says) = fails.ends else { unreachable!() };
        assert_eq!(found("failed", "", says), Vec::<String>::new());
        assert_eq!(found("completed", "", says), ["the run ended as completed, not failed"]);
        assert_eq!(found("failed", "", "no reason"), [format!("the run does not say {says:?} but \"no reason\"")]);
    }
}
