//! A chain of three profiles of three models whose owner ends in the middle of it: it crashes before any input, with
//! any batch lost, twice in a row or in the middle of a wait, or it shuts down in order. In each case the same
//! candidates are tried, fail, have cooldowns and are waited for, at the same times, with the same end. `failover.rs`
//! checks which these are, with an oracle.

use engine::tables::lifecycle::LifecycleKind;
use engine::{
    Candidate, EffectId, EffectKind, Event, Failure, FailureClass, Next, Part, Phase, Report, ResumeMode, Run,
    Thinking, Usage,
};

use crate::support::World;
use crate::support::script::run_line;

const MODELS: usize = 3;
const PROFILES: usize = 3;
const CLASSES: [FailureClass; 9] = [
    FailureClass::RateLimit,
    FailureClass::Overloaded,
    FailureClass::Auth,
    FailureClass::Billing,
    FailureClass::Network,
    FailureClass::ModelNotFound,
    FailureClass::ThinkingUnsupported,
    FailureClass::InvalidRequest,
    FailureClass::Unknown,
];

/// The failures of a run's requests, in order; then a request is answered.
#[derive(Debug)]
struct Provider {
    /// The class of failure n; repeats from its start.
    classes: Vec<FailureClass>,
    failures: usize,
    says_ms: Option<u64>,
    /// Whether text comes before each failure.
    streams: bool,
    resume: ResumeMode,
}

/// How the owner ends.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Gone {
    /// It crashes; everything that was decided is in the journal.
    Between,
    /// It crashes, and the next decision is lost.
    InAppend,
    /// It crashes, and so does the next owner after opening the session.
    Twice,
    /// As `Between`, and half of the wait passes meanwhile.
    ForAWhile,
    /// It shuts down in order.
    InOrder,
}

const WAYS: [Gone; 5] = [Gone::Between, Gone::InAppend, Gone::Twice, Gone::ForAWhile, Gone::InOrder];

/// A session with a run whose first request was sent.
fn begun(resume: ResumeMode) -> World {
    let mut world = World::new();
    let one = world.settings.candidates.remove(0);
    for candidate in 0..MODELS * PROFILES {
        world.settings.candidates.push(Candidate {
            model: format!("model-{}", candidate / PROFILES),
            profile: Some(format!("profile-{}", candidate % PROFILES)),
            thinking: Some(Thinking::High),
            ..one.clone()
        });
    }
    world.settings.limits.max_wait_ms = 3_600_000;
    world.settings.resume = resume;
    for line in ["create", "open 1", "message \"hello\"", "lane", "prepared"] {
        run_line(&mut world, line);
    }
    world
}

/// The next input of the run; none if nothing follows. The failures in the journal are those that happened.
fn next(world: &mut World, provider: &Provider) -> Option<Report> {
    let request = world.running.keys().find(|effect| effect.kind == EffectKind::Request).copied();
    let Some(effect) = request else {
        let due = world.armed.filter(|_| world.session().run().is_some_and(is_waiting))?;
        world.now = world.now.max(due.0);
        return Some(Report::Due);
    };
    let failed = world.journal.iter().filter(|record| matches!(record.event, Event::Failed(_))).count();
    let has_text = matches!(world.session().run().map(|run| &run.phase), Some(Phase::Streaming(_)));
    if failed >= provider.failures {
        return Some(if has_text {
            Report::RequestEnded { effect, usage: Usage::default(), stop_reason: None, schema_mismatch: None }
        } else {
            said(effect, "Done.")
        });
    }
    if provider.streams && !has_text {
        return Some(said(effect, "So far. "));
    }
    let class = provider.classes[failed % provider.classes.len()];
    let failure = Failure { retry_after_ms: provider.says_ms, ..Failure::new(class, format!("failure {failed}")) };
    Some(Report::RequestFailed { effect, failure })
}

fn said(effect: EffectId, text: &str) -> Report {
    Report::Streamed { effect, part: Part::Text(text.into()) }
}

fn is_waiting(run: &Run) -> bool {
    matches!(run.phase, Phase::Retry { .. } | Phase::Awaiting { .. })
}

/// Plays a run to its end; its owner ends before step `at`. Returns the number of steps.
fn carry(provider: &Provider, gone: Option<(Gone, usize)>) -> (World, usize) {
    let mut world = begun(provider.resume);
    let mut steps = 0;
    loop {
        steps += 1;
        assert!(steps < 500, "it does not end: {gone:?}");
        if let Some((how, at)) = gone
            && at == steps
        {
            go(&mut world, how, provider);
        }
        let Some(report) = next(&mut world, provider) else { return (world, steps) };
        world.step(report);
    }
}

fn go(world: &mut World, how: Gone, provider: &Provider) {
    match how {
        Gone::Between => {}
        Gone::InAppend => {
            let Some(report) = next(world, provider) else { return };
            world.append_fails = true;
            world.step(report);
        }
        Gone::Twice => world.crash_and_open(),
        Gone::ForAWhile => {
            let due = world.armed.filter(|_| world.session().run().is_some_and(is_waiting));
            world.now += due.map_or(0, |due| (due.0 - world.now).max(0) / 2);
        }
        Gone::InOrder => world.step(Report::Closing),
    }
    world.crash_and_open();
}

/// All decisions about the chain, with their times. A request in flight when its owner ended is sent again: it is the
/// same try of the same candidate, and is listed once.
fn trace(world: &World, resume: ResumeMode) -> Vec<String> {
    let mut trace: Vec<String> = vec![];
    let (mut is_out, mut again) = (false, false);
    for record in &world.journal {
        let line = match &record.event {
            Event::Opened(_) => {
                again = is_out;
                continue;
            }
            Event::RequestSent(_) if std::mem::take(&mut again) => {
                is_out = true;
                continue;
            }
            Event::MessageSealed(e) => {
                is_out = is_out && e.next == Next::Cut;
                continue;
            }
            Event::RequestSent(e) => {
                is_out = true;
                // The kept text of an interrupted answer is sent back: the next request contains it.
                let items = if resume == ResumeMode::Restart { e.items } else { 0 };
                format!("asked {} items {items}", e.candidate)
            }
            Event::Failed(e) => {
                is_out = false;
                format!("failed {:?}", e.failure)
            }
            Event::CandidateCooldownSet(e) => format!("cooled {} until {:?}", e.candidate, e.until),
            Event::RetryScheduled(e) => {
                format!("retry {:?} at {:?} thinking {:?} try {}", e.candidate, e.until, e.thinking, e.try_no)
            }
            Event::WaitBegan(e) => format!("wait {:?} until {:?}", e.on, e.until),
            Event::WaitEnded(e) => format!("waited {:?}", e.on),
            Event::RunEnded(e) => {
                is_out = false;
                format!("ended {:?} {:?}", e.outcome, e.failure)
            }
            Event::LifecycleChanged(e) if e.to == LifecycleKind::Error => format!("held {:?}", e.failure),
            _ => continue,
        };
        trace.push(format!("{} {line}", record.at.0));
    }
    trace
}

/// Text that a subscriber received is retracted or becomes a message, never neither and never both.
fn check_text(world: &World) {
    let mut open: Vec<EffectId> = vec![];
    for record in &world.journal {
        match &record.event {
            Event::TextAdded(e) if !open.contains(&e.effect) => open.push(e.effect),
            Event::TextRetracted(e) => {
                let before = open.len();
                open.retain(|effect| *effect != e.request);
                assert_eq!(open.len() + 1, before, "{} was retracted without text", e.request);
            }
            Event::MessageSealed(e) => open.retain(|effect| *effect != e.request),
            _ => {}
        }
    }
    let is_held = world.session().run().is_some();
    assert!(is_held || open.is_empty(), "neither retracted nor a message: {open:?}");
}

/// Every way to end before every step.
fn check(provider: &Provider) {
    let (whole, steps) = carry(provider, None);
    let expected = trace(&whole, provider.resume);
    check_text(&whole);
    for at in 1..=steps {
        for how in WAYS {
            let (world, _) = carry(provider, Some((how, at)));
            assert_eq!(trace(&world, provider.resume), expected, "{provider:?}: gone {how:?} before step {at}");
            check_text(&world);
        }
    }
}

#[test]
fn r50_r51_r54_a_chain_of_one_class_is_the_same_whenever_its_owner_goes() {
    for class in CLASSES {
        for (failures, says_ms) in [(2, None), (5, Some(700)), (11, Some(61_000))] {
            let provider =
                Provider { classes: vec![class], failures, says_ms, streams: false, resume: ResumeMode::Restart };
            check(&provider);
        }
    }
}

/// Text came before each failure: it is retracted, or the next candidate continues from it.
#[test]
fn r12_r50_r51_r54_a_chain_of_broken_answers_is_the_same_whenever_its_owner_goes() {
    let broken = [FailureClass::Network, FailureClass::Server, FailureClass::RateLimit, FailureClass::Overloaded];
    for class in broken {
        for resume in [ResumeMode::Restart, ResumeMode::Continue] {
            check(&Provider { classes: vec![class], failures: 4, says_ms: None, streams: true, resume });
        }
    }
}

/// No two failures in a row are alike: one class does not reset the count of another.
#[test]
fn r54_a_chain_of_all_classes_is_the_same_whenever_its_owner_goes() {
    let mixed = CLASSES.iter().copied().filter(|class| {
        !matches!(class, FailureClass::InvalidRequest | FailureClass::Unknown | FailureClass::ThinkingUnsupported)
    });
    let mixed: Vec<FailureClass> = mixed.collect();
    for from in 0..mixed.len() {
        let mut classes = mixed.clone();
        classes.rotate_left(from);
        classes.insert(from, FailureClass::ThinkingUnsupported);
        for failures in [6, 20] {
            let says_ms = (from % 2 == 0).then_some(300);
            let (streams, resume) = (from % 3 == 0, ResumeMode::Restart);
            check(&Provider { classes: classes.clone(), failures, says_ms, streams, resume });
        }
    }
}

/// Plays the inputs of a chain script; its owner ends before input `gone`. Returns none if that is in the middle of an
/// answer to which the next input belongs, or without an unfinished run.
fn played(inputs: &[&str], gone: Option<usize>) -> Option<Vec<String>> {
    let mut world = World::new();
    for (at, input) in inputs.iter().enumerate() {
        if gone == Some(at) {
            let run = world.journal.iter().any(|record| matches!(record.event, Event::RunStarted(_)));
            let run = run.then(|| world.session().run()).flatten()?;
            if matches!(run.phase, Phase::Streaming(_) | Phase::ToolExec) {
                return None;
            }
            world.crash_and_open();
        }
        run_line(&mut world, input);
    }
    Some(trace(&world, ResumeMode::Continue))
}

#[test]
fn r50_r54_a_crash_before_any_line_of_a_chain_script_changes_nothing() {
    let folder = std::path::Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/scripts");
    let (mut chains, mut times) = (0, 0);
    for entry in std::fs::read_dir(folder).expect("the scripts") {
        let path = entry.expect("a script").path();
        let name = path.file_name().and_then(|name| name.to_str()).expect("a name").to_owned();
        if !name.starts_with("chain_") {
            continue;
        }
        chains += 1;
        let script = std::fs::read_to_string(&path).expect("a script");
        let inputs: Vec<&str> = script.lines().filter_map(|line| line.strip_prefix("> ")).collect();
        let whole = played(&inputs, None).expect("no owner ends");
        for gone in 0..inputs.len() {
            let Some(crashed) = played(&inputs, Some(gone)) else { continue };
            times += 1;
            assert_eq!(crashed, whole, "{name}, a crash before line {gone}: {}", inputs[gone]);
        }
    }
    assert!(chains >= 12 && times >= 4 * chains, "{times} crashes in {chains} chains");
}
