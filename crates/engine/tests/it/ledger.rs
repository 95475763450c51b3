//! Sessions and the ledger that they share, with inputs in any order and a crash at any moment: a cooldown that one
//! session reports reaches all, and nothing shortens it.

use std::collections::BTreeMap;
use std::sync::Arc;

use engine::{
    Candidate, Content, CooldownSet, Decide as _, Effect, EffectId, Event, Failure, FailureClass, Ledger, Part, Record,
    Report, Timestamp, Usage,
};

use crate::support::World;
use crate::support::script::run_line;

const CLASSES: [FailureClass; 7] = [
    FailureClass::RateLimit,
    FailureClass::Overloaded,
    FailureClass::Auth,
    FailureClass::AuthPermanent,
    FailureClass::Billing,
    FailureClass::Network,
    FailureClass::ModelNotFound,
];

/// What is drawn is the same for the same seed.
struct Chance(u64);

impl Chance {
    fn below(&mut self, most: u64) -> u64 {
        self.0 = self.0.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        (self.0 >> 33) % most
    }
}

struct Home {
    sessions: Vec<World>,
    ledger: Ledger,
    /// The recorded branch of the ledger.
    kept: Vec<Record>,
    now: i64,
    messages: u64,
    /// When each request was sent.
    sent: BTreeMap<(usize, EffectId), i64>,
    /// The cooldowns that the run of each session received last, and the number of its entries then.
    reported: BTreeMap<usize, (usize, Vec<CooldownSet>)>,
}

impl Home {
    fn new() -> Self {
        let sessions = (0..3).map(|_| {
            let mut world = World::new();
            let one = world.settings.candidates.remove(0);
            for (model, profile) in [("one", "a"), ("one", "b"), ("two", "a"), ("two", "b")] {
                let (model, profile) = (model.to_owned(), Some(profile.to_owned()));
                world.settings.candidates.push(Candidate { model, profile, ..one.clone() });
            }
            run_line(&mut world, "create");
            run_line(&mut world, "open 1");
            world
        });
        Self {
            sessions: sessions.collect(),
            ledger: Ledger::default(),
            kept: vec![],
            now: 0,
            messages: 0,
            sent: BTreeMap::new(),
            reported: BTreeMap::new(),
        }
    }

    /// Records what the ledger decided before anyone acts on it. No cooldown is shortened, except by an answer.
    fn keep(&mut self, before: &Ledger) {
        let Some(batch) = self.ledger.take_batch() else { return };
        let answered = batch.records.iter().any(|record| matches!(record.event, Event::ProfileAnswered(_)));
        for (account, rest) in before.cooldowns().filter(|(_, rest)| rest.until.0 > self.now && !answered) {
            let now = self.ledger.cooldowns().find(|(other, _)| *other == account);
            assert!(now.is_some_and(|(_, now)| now.until >= rest.until), "{account:?} was in cooldown until {rest:?}");
        }
        self.kept.extend(batch.records);
    }

    /// The process crashes: only recorded entries survive.
    fn crash(&mut self) {
        let mut folded = Ledger::default();
        self.kept.iter().for_each(|record| folded.apply(&record.event, record.at));
        assert_eq!(folded, self.ledger, "only recorded entries were known");
        self.ledger = folded;
        for world in &mut self.sessions {
            world.now = self.now;
            world.crash_and_open();
        }
    }

    /// Reports the cooldowns to the run before any input that may lead to a request.
    fn notify(&mut self, at: usize) {
        let world = &mut self.sessions[at];
        let Some(run) = world.session().run().map(|run| run.id) else { return };
        let settings = world.pump.machine().settings().expect("a run");
        let cooling = self.ledger.cooling(&settings.candidates, run, Timestamp(self.now));
        self.reported.insert(at, (world.journal.len(), cooling.clone()));
        world.now = self.now;
        world.step(Report::CooldownSet { cooling });
    }

    fn step(&mut self, at: usize, chance: &mut Chance) {
        self.notify(at);
        let now = self.now;
        let world = &mut self.sessions[at];
        world.now = now;
        let number = chance.below(world.running.len().max(1) as u64) as usize;
        let Some(effect) = world.running.values().nth(number).cloned() else {
            match world.armed {
                Some(due) if due.0 <= now => world.step(Report::Due),
                Some(_) => {}
                None => {
                    self.messages += 1;
                    run_line(world, &format!("message \"hello\" id={}", self.messages));
                }
            }
            return;
        };
        match effect {
            Effect::Lane { id, .. } => {
                let mut settings = world.settings.clone();
                self.ledger.order(&mut settings.candidates);
                let cooling = self.ledger.cooling(&settings.candidates, id.run, Timestamp(now));
                self.reported.insert(at, (world.journal.len(), cooling.clone()));
                world.step(Report::LaneEntered { effect: id, settings: Arc::new(settings), cooling });
            }
            Effect::Prepare { id } => {
                let prompt = Content::text(engine::BodyKind::Prompt, "You are Limulus.");
                world.step(Report::Prepared { effect: id, prompt });
            }
            Effect::Request { id, candidate, .. } => self.answer(at, (id, candidate), chance),
            Effect::Report { id, failure_report } => {
                let before = self.ledger.clone();
                self.ledger.record_failure(&failure_report, Timestamp(now));
                self.keep(&before);
                if chance.below(4) == 0 {
                    return self.crash();
                }
                self.sessions[at].step(Report::Reported { effect: id });
            }
            other => panic!("nothing here asks for {other:?}"),
        }
    }

    fn answer(&mut self, at: usize, (effect, candidate): (EffectId, u32), chance: &mut Chance) {
        let since = Timestamp(*self.sent.entry((at, effect)).or_insert(self.now));
        let world = &mut self.sessions[at];
        let chain = &world.pump.machine().settings().expect("a run").candidates;
        let candidate = chain[candidate as usize].clone();
        if chance.below(3) > 0 {
            let class = CLASSES[chance.below(CLASSES.len() as u64) as usize];
            let retry_after_ms = (chance.below(4) == 0).then_some(90_000);
            let Candidate { provider, model, profile, .. } = candidate;
            let (provider, model) = (Some(provider), Some(model));
            let failure = Failure { retry_after_ms, provider, model, profile, ..Failure::new(class, "it is so") };
            return world.step(Report::RequestFailed { effect, failure });
        }
        let before = self.ledger.clone();
        if self.ledger.is_update(&candidate, false, since) {
            self.ledger.answered(&candidate, since, Timestamp(self.now));
        }
        world.step(Report::Streamed { effect, part: Part::Text("Done.".into()) });
        world.step(Report::RequestEnded { effect, usage: Usage::default(), stop_reason: None, schema_mismatch: None });
        self.keep(&before);
    }

    /// Checks that no run asks a candidate in a reported cooldown, except as a marked probe.
    fn check_asked(&self) {
        for (at, world) in self.sessions.iter().enumerate() {
            let (since, cooldowns) = self.reported.get(&at).map_or((0, &[][..]), |(since, of)| (*since, of));
            for record in &world.journal[since..] {
                let Event::RequestSent(sent) = &record.event else { continue };
                let cooldown = cooldowns.iter().find(|cooled| cooled.candidate == sent.candidate);
                let free = cooldown.is_none_or(|cooled| cooled.until <= record.at || sent.probe);
                assert!(free, "a candidate in cooldown is asked at {}: {cooldown:?}", record.at);
            }
        }
    }

    /// Checks that each reported failure is in the ledger, and that no report is pending.
    fn check_reported(&self) {
        for world in &self.sessions {
            assert_eq!(world.session().account.pending_reports, []);
            for record in &world.journal {
                let Event::CandidateCooldownSet(cooled) = &record.event else { continue };
                let Some(request) = cooled.request else { continue };
                let is_it = |record: &&Record| match &record.event {
                    Event::ProfileCooldownSet(e) => e.request == request && Some(e.until) >= cooled.until,
                    _ => false,
                };
                assert!(self.kept.iter().any(|record| is_it(&record)), "{cooled:?} is not in the ledger");
            }
        }
    }
}

#[test]
fn r50_what_one_session_learns_is_reported_and_kept_whatever_happens() {
    let (mut probes, mut skipped) = (0, 0);
    for seed in 0..150 {
        let (mut home, mut chance) = (Home::new(), Chance(seed));
        for _ in 0..150 {
            match chance.below(20) {
                0 => home.crash(),
                1..=3 => home.now += [500, 60_000, 400_000, 20_000_000][chance.below(4) as usize],
                _ => {
                    let at = chance.below(3) as usize;
                    home.step(at, &mut chance);
                }
            }
            home.check_asked();
        }
        while home.sessions.iter().any(|world| !world.session().account.pending_reports.is_empty()) {
            for at in 0..3 {
                home.step(at, &mut chance);
            }
        }
        home.check_reported();
        let records = home.sessions.iter().flat_map(|world| &world.journal);
        for record in records {
            match &record.event {
                Event::RequestSent(sent) => probes += u32::from(sent.probe),
                Event::CandidateCooldownSet(cooled) => skipped += u32::from(cooled.request.is_none()),
                _ => {}
            }
        }
    }
    assert!(probes > 100 && skipped > 100, "{probes} probes, {skipped} in cooldown: too few to prove anything");
}
