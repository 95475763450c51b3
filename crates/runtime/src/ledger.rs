//! Drives the home's ledger: one machine for all of its sessions. A decision is in the journal before anyone acts on
//! it; the decisions are the engine's.

use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use engine::policy::PolicyRule;
use engine::{
    Allowance, ApprovalGrant, Batch, BranchId, Candidate, CooldownSet, Decide as _, Do, Event, Hash, Ledger,
    LedgerAnswer, LedgerInput, LedgerUpdate, Pump, RunId, Seq, SessionId, SharedScope, Thinking, ThinkingLowered,
    Timestamp,
};
use journal::{Append, Read, StoredLineage};
use tokio::sync::{oneshot, watch};

use crate::clock::Clock;
use crate::runtime::Shared;

/// The ledger of a home: its recorded state and its changes.
#[derive(Debug)]
pub(crate) struct HomeLedger {
    inside: Mutex<Inside>,
    /// The last entry of the recorded ledger.
    head: AtomicU64,
    cleared: watch::Sender<()>,
    /// Why it could not be read to its end. In that case it holds what comes before the damage and what this process
    /// has learned since, and stores none of the latter.
    damage: Option<journal::Error>,
}

#[derive(Debug)]
struct Inside {
    /// The recorded state, which everyone reads.
    recorded: Ledger,
    /// The deciding machine; ahead of the journal while something is being appended.
    pump: Pump<Ledger, Caller>,
}

/// The callers that wait until something is recorded.
type Caller = oneshot::Sender<Result<LedgerAnswer, journal::Error>>;

/// Folds the ledger of a home.
pub fn ledger(journal: &dyn Read) -> Result<Ledger, journal::Error> {
    let Some(branch) = journal.ledger()? else { return Ok(Ledger::default()) };
    Ok(fold(branch, &journal.history(branch)?))
}

/// The ledger of a home up to the first corrupt entry, and the error there.
pub fn readable_ledger(journal: &dyn Read) -> (Ledger, Option<journal::Error>) {
    match ledger(journal) {
        Ok(ledger) => (ledger, None),
        Err(damage) => (before_damage(journal).unwrap_or_default(), Some(damage)),
    }
}

fn fold(branch: BranchId, line: &StoredLineage) -> Ledger {
    let mut ledger = Ledger::on(branch);
    for (_, entry) in line.entries() {
        ledger.apply(&entry.event, entry.at);
    }
    ledger
}

/// If an entry cannot be read, no lineage that contains it can; the last readable entry is searched for.
fn before_damage(journal: &dyn Read) -> Option<Ledger> {
    let branch = journal.ledger().ok()??;
    let (mut good, mut damaged) = (None, journal.last(branch).ok()?.0 + 1);
    while damaged - good.as_ref().map_or(0, |(at, _)| *at) > 1 {
        let at = damaged.midpoint(good.as_ref().map_or(0, |(at, _)| *at));
        match journal.history_until(branch, Seq(at)) {
            Ok(line) => good = Some((at, line)),
            Err(_) => damaged = at,
        }
    }
    good.map(|(_, line)| fold(branch, &line))
}

impl HomeLedger {
    /// Opens the ledger. If it cannot be read to its end, the sessions of the home use the readable part, and share
    /// new cooldowns as long as this process lives; `limulus doctor` shows the damage.
    pub(crate) fn read(journal: &dyn Read) -> Self {
        let (ledger, damage) = readable_ledger(journal);
        Self {
            head: AtomicU64::new(ledger.head().0),
            inside: Mutex::new(Inside { pump: Pump::new(ledger.clone()), recorded: ledger }),
            cleared: watch::Sender::new(()),
            damage,
        }
    }

    /// Why it could not be read, if it could not.
    pub(crate) fn damage(&self) -> Option<&journal::Error> {
        self.damage.as_ref()
    }

    /// Orders the profiles of a chain.
    pub(crate) fn order(&self, chain: &mut [Candidate]) {
        self.lock().recorded.order(chain);
    }

    /// Whether a thinking level of this model was refused.
    pub(crate) fn has_lowered(&self, candidate: &Candidate) -> bool {
        let is_it = |of: &(&str, &str)| *of == (candidate.provider.as_str(), candidate.model.as_str());
        self.lock().recorded.lowered().any(|(provider, model, ..)| is_it(&(provider, model)))
    }

    /// The level at which a run begins with this candidate ([`Ledger::accepted_level`]).
    pub(crate) fn accepted_level(&self, candidate: &Candidate, config: Hash, now: Timestamp) -> Option<Thinking> {
        self.lock().recorded.accepted_level(candidate, config, now)
    }

    /// Whether a lowered level is worth a record ([`Ledger::is_lowered_anew`]).
    pub(crate) fn is_lowered_anew(&self, lowered: &ThinkingLowered, now: Timestamp) -> bool {
        self.lock().recorded.is_lowered_anew(lowered, now)
    }

    /// The candidates of a run's chain that are in cooldown.
    pub(crate) fn cooling(&self, chain: &[Candidate], run: RunId, now: Timestamp) -> Vec<CooldownSet> {
        self.lock().recorded.cooling(chain, run, now)
    }

    /// What it reports to a run, if it has changed since the run last read it ([`Ledger::update`]).
    pub(crate) fn update(
        &self,
        seen: &mut Option<Seq>,
        chain: &[Candidate],
        run: RunId,
        now: Timestamp,
    ) -> LedgerUpdate {
        // This is called before each piece of a response.
        if Some(Seq(self.head.load(Ordering::Acquire))) == *seen {
            return LedgerUpdate::default();
        }
        self.lock().recorded.update(seen, chain, run, now)
    }

    /// Changes when a user has cleared a cooldown. A run that only waits for one receives no other input that would
    /// report it.
    pub(crate) fn cooldowns_cleared(&self) -> watch::Receiver<()> {
        self.cleared.subscribe()
    }

    /// The limits that were set for a scope.
    pub(crate) fn allowance(&self, of: &SharedScope) -> Allowance {
        self.lock().recorded.allowance(of)
    }

    /// Whether a limit that sessions share was set.
    pub(crate) fn is_limited(&self) -> bool {
        self.lock().recorded.is_limited()
    }

    /// The grants, in order.
    pub(crate) fn grants(&self) -> Vec<ApprovalGrant> {
        self.lock().recorded.grants().cloned().collect()
    }

    /// The rules of the grants for the calls of this session.
    pub(crate) fn granted(&self, session: SessionId, agent: &str) -> Vec<PolicyRule> {
        self.lock().recorded.grants_for(session, agent).map(|grant| grant.rule.clone()).collect()
    }

    /// Whether a response is worth a record ([`Ledger::is_update`]).
    pub(crate) fn is_update(&self, candidate: &Candidate, alone: bool, since: Timestamp) -> bool {
        self.lock().recorded.is_update(candidate, alone, since)
    }

    /// Decides, unless a batch is being appended: then the next batch does. Returns what is to be appended now.
    fn offer(&self, input: LedgerInput, clock: &Clock, caller: Caller) -> Option<Arc<Batch>> {
        let mut inside = self.lock();
        inside.pump.offer(input, clock.moment(), Some(caller));
        self.next_batch(&mut inside)
    }

    /// Completes an append: with `now` it is in the journal; with an error, the decision is undone. Returns what
    /// is to be appended next.
    fn settle(&self, kept: Result<(), journal::Error>, now: Timestamp) -> Option<Arc<Batch>> {
        let mut inside = self.lock();
        match kept {
            Ok(()) => inside.pump.committed(now),
            Err(error) => {
                inside.pump.failed(&error.to_string());
                self.carry_out(&mut inside, Some(&error));
                inside.pump = Pump::new(inside.recorded.clone());
            }
        }
        self.next_batch(&mut inside)
    }

    fn next_batch(&self, inside: &mut Inside) -> Option<Arc<Batch>> {
        self.carry_out(inside, None);
        let batch = inside.pump.next_batch();
        self.carry_out(inside, None);
        batch
    }

    /// Carries out the pump's outputs. Callers receive `failure`, or why nothing is stored, if there is a reason.
    fn carry_out(&self, inside: &mut Inside, failure: Option<&journal::Error>) {
        while let Some(todo) = inside.pump.poll() {
            match todo {
                Do::Publish(batch) => {
                    inside.recorded.apply_batch(&batch);
                    self.head.store(inside.recorded.head().0, Ordering::Release);
                    if batch.records.iter().any(|record| matches!(record.event, Event::ProfileCooldownLifted(_))) {
                        self.cleared.send_replace(());
                    }
                }
                Do::Answer(caller, answer) => {
                    let answer = match (failure.or(self.damage.as_ref()), answer) {
                        (Some(error), _) => Err(error.clone()),
                        (None, answer) => Ok(answer.expect("the ledger refuses nothing that the journal does not")),
                    };
                    // A caller that is gone needs no answer.
                    let _ = caller.send(answer);
                }
                Do::Start(effect) => match effect {},
                Do::Stop(_) | Do::Arm(_) | Do::Broken(_) => {}
            }
        }
    }

    fn lock(&self) -> MutexGuard<'_, Inside> {
        self.inside.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Decides, and waits until the decision is in the journal. A caller that stops waiting does not undo it. If the ledger
/// is damaged, the damage is the error, and the decision holds until this process ends.
pub(crate) async fn record(shared: &Arc<Shared>, input: LedgerInput) -> Result<LedgerAnswer, journal::Error> {
    begin_record(shared, input).await.unwrap_or(Err(journal::Error::Gone))
}

/// Decides at once. Unless another decision is being appended, the journal has this one in its queue when this returns,
/// ahead of whatever is appended later. What is returned receives the answer, and need not be waited for.
pub(crate) fn begin_record(
    shared: &Arc<Shared>,
    input: LedgerInput,
) -> oneshot::Receiver<Result<LedgerAnswer, journal::Error>> {
    let (caller, answer) = oneshot::channel();
    if let Some(batch) = shared.ledger.offer(input, &shared.clock, caller) {
        let kept = append(shared, batch);
        tokio::spawn(keep(Arc::clone(shared), kept));
    }
    answer
}

/// The hash of what decides which thinking levels a model takes: its API, its address, and its levels.
pub(crate) fn level_config(endpoint: &models::Endpoint, candidate: &Candidate) -> Hash {
    let (api, levels) = (endpoint.api.name(), &candidate.levels);
    Hash::of(format!("{api} {} {levels:?}", endpoint.base_url).as_bytes())
}

/// Lets a run begin at the levels that its models accepted before.
pub(crate) fn apply_accepted_levels(shared: &Shared, candidates: &mut [Candidate]) {
    for candidate in candidates.iter_mut().filter(|candidate| shared.ledger.has_lowered(candidate)) {
        // Without an endpoint its request fails for that reason, at any level.
        if let Ok(endpoint) = shared.resolver.address(candidate) {
            let config = level_config(&endpoint, candidate);
            candidate.thinking = shared.ledger.accepted_level(candidate, config, shared.clock.now());
        }
    }
}

/// The answer to an append.
type Kept = oneshot::Receiver<Result<(), journal::Error>>;

/// Waits for this append, and appends what was decided meanwhile.
async fn keep(shared: Arc<Shared>, mut kept: Kept) {
    loop {
        let answer = kept.await.unwrap_or(Err(journal::Error::Gone));
        let Some(batch) = shared.ledger.settle(answer, shared.clock.now()) else { return };
        kept = append(&shared, batch);
    }
}

/// Puts a batch into the queue of the journal. With a damaged ledger nothing is stored.
fn append(shared: &Shared, batch: Arc<Batch>) -> Kept {
    let (done, kept) = oneshot::channel();
    // Where nobody waits any more, nobody needs an answer.
    if shared.ledger.damage.is_some() {
        drop(done.send(Ok(())));
        return kept;
    }
    let append = Append { batch, epoch: shared.journal.epoch() };
    shared.journal.append(append, Box::new(|answer| drop(done.send(answer.map(|_| ())))));
    kept
}

#[cfg(test)]
mod tests {
    use journal::Memory;

    use super::*;

    #[test]
    fn r50_an_append_that_fails_leaves_the_ledger_as_it_was_and_the_next_one_may_succeed() {
        let (ledger, clock) = (HomeLedger::read(&Memory::new()), Clock::new());
        let prefer = |profile: &str| {
            let (caller, answer) = oneshot::channel();
            let input = LedgerInput::Prefer { provider: "acme".into(), profile: Some(profile.into()) };
            (ledger.offer(input, &clock, caller), answer)
        };
        let preferred = || ledger.lock().recorded.turns("acme").and_then(|turns| turns.preferred.clone());
        let (batch, mut first) = prefer("a");
        let (meanwhile, mut second) = prefer("b");
        assert!(batch.is_some() && meanwhile.is_none() && first.try_recv().is_err());
        assert!(ledger.settle(Err(journal::Error::Gone), clock.now()).is_none());
        for answer in [&mut first, &mut second] {
            assert!(matches!(answer.try_recv(), Ok(Err(journal::Error::Gone))));
        }
        assert_eq!(preferred(), None);
        let (batch, mut third) = prefer("c");
        assert!(batch.is_some() && preferred().is_none() && third.try_recv().is_err());
        assert!(ledger.settle(Ok(()), clock.now()).is_none());
        assert!(matches!(third.try_recv(), Ok(Ok(LedgerAnswer::Done))));
        assert_eq!(preferred().as_deref(), Some("c"));
    }
}
