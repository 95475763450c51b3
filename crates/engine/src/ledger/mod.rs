//! What the sessions of a home share: which profiles are in cooldown and until when, and in which order they are asked.
//! The ledger is a second small machine with its own branch, on the same pump. Sessions report failures to it
//! (`report`, until it has recorded them), and receive the cooldowns when a run starts and whenever they change;
//! decisions about a run belong to the session.

mod failure_report;
mod grants;
mod input;
mod levels;
mod order;
#[cfg(test)]
mod tests;

use std::collections::{BTreeMap, VecDeque};
use std::convert::Infallible;

use uuid::Uuid;

use crate::approval::ApprovalGrant;
use crate::batch::{Batch, Record, Views};
use crate::budget_pool::SharedScope;
use crate::decide::Decide;
use crate::event::{
    AllowanceSet, Event, LedgerBegun, ProfileAnswered, ProfileCooldownLifted, ProfileCooldownSet, ProfilePreferred,
};
use crate::failure::FailureClass;
use crate::ids::{BranchId, CallId, EffectId, Moment, RunId, Seq, SessionId, Timestamp};
use crate::input::Refusal;
use crate::settings::Candidate;
use crate::tables::budget::Allowance;
use crate::tables::failover::{Cools, rule_of};
use crate::tables::limits::COUNTED_REPORTS;

pub use failure_report::{CooldownLifted, CooldownSet, FailureReport};
pub use input::{LedgerAnswer, LedgerInput, LedgerUpdate};
use levels::AskedLevel;
pub use levels::LoweredLevel;

/// The subject of a cooldown: a profile with one model, or with all.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub struct Account {
    /// The provider's name in the configuration.
    pub provider: String,
    /// The profile's name; none = it has none.
    pub profile: Option<String>,
    /// The model's name at the provider; none = all of them.
    pub model: Option<String>,
}

/// Why and until when it is in cooldown.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[allow(missing_docs, reason = "the fields say it themselves")]
pub struct Cooldown {
    pub class: FailureClass,
    pub until: Timestamp,
    /// How often in a row.
    pub failures: u32,
    pub since: Timestamp,
    request: EffectId,
}

/// The order among the profiles of a provider.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct ProfileOrder {
    /// The preferred profile, if a user has set one.
    pub preferred: Option<String>,
    /// The last one that answered.
    pub last_good: Option<Option<String>>,
    /// When each last answered or failed, as far as that was recorded.
    used: BTreeMap<Option<String>, Timestamp>,
    /// Cleared profiles, with the time since when, until they fail again.
    cleared: BTreeMap<Option<String>, Timestamp>,
}

/// The state, and what was decided since the last batch.
#[derive(Debug, Clone, PartialEq)]
pub struct Ledger {
    branch: BranchId,
    head: Seq,
    cooldowns: BTreeMap<Account, Cooldown>,
    providers: BTreeMap<String, ProfileOrder>,
    /// The last requests whose failure has counted: a session may report one twice.
    counted: VecDeque<EffectId>,
    /// The thinking levels that were refused, each with what was accepted.
    lowered: BTreeMap<AskedLevel, LoweredLevel>,
    /// The daily limits that were set, by agent or (none) for the home.
    allowances: BTreeMap<SharedScope, Allowance>,
    /// What users have allowed once and for all, by the call that was asked about.
    grants: BTreeMap<CallId, ApprovalGrant>,
    open: Vec<Record>,
}

impl Default for Ledger {
    fn default() -> Self {
        Self::on(Self::BRANCH)
    }
}

impl Ledger {
    /// The branch on which every home's ledger begins. A repaired ledger continues in another.
    pub const BRANCH: BranchId = BranchId(Uuid::nil());

    /// The branch in which a repaired ledger continues.
    pub fn after(branch: BranchId) -> BranchId {
        BranchId(Uuid::from_u128(branch.0.as_u128().saturating_add(1)))
    }

    /// Stands for a session in its batches, which belong to none.
    pub const SESSION: SessionId = SessionId(Uuid::nil());

    /// An empty ledger that continues in this branch.
    pub fn on(branch: BranchId) -> Self {
        let (cooldowns, providers, counted) = (BTreeMap::new(), BTreeMap::new(), VecDeque::new());
        let (lowered, allowances, grants) = (BTreeMap::new(), BTreeMap::new(), BTreeMap::new());
        Self { branch, head: Seq(0), cooldowns, providers, counted, lowered, allowances, grants, open: vec![] }
    }

    /// The last entry of its branch.
    pub fn head(&self) -> Seq {
        self.head
    }

    /// The cooldowns, in order, including expired ones.
    pub fn cooldowns(&self) -> impl Iterator<Item = (&Account, &Cooldown)> {
        self.cooldowns.iter()
    }

    /// The providers whose profiles have an order.
    pub fn providers(&self) -> impl Iterator<Item = (&str, &ProfileOrder)> {
        self.providers.iter().map(|(provider, turns)| (provider.as_str(), turns))
    }

    /// The order among a provider's profiles.
    pub fn turns(&self, provider: &str) -> Option<&ProfileOrder> {
        self.providers.get(provider)
    }

    /// Records a failure that concerns other sessions. A request that was in flight when the profile's cooldown began
    /// says nothing new; a failed probe counts once more. No cooldown is ever shortened.
    pub fn record_failure(&mut self, failure_report: &FailureReport, now: Timestamp) {
        let cools = rule_of(failure_report.class).cools;
        let account = failure_report.account(cools);
        let before = self.cooldowns.get(&account).filter(|rest| rest.until > now);
        if cools == Cools::Nothing || self.counted.contains(&failure_report.request) {
            return;
        }
        let failures = before.map_or(0, |rest| rest.failures) + u32::from(before.is_none() || failure_report.probe);
        let by_itself = now.plus(cools.cooldown_ms(failures));
        let asked = failure_report.until.unwrap_or(by_itself);
        let until = before.map_or(by_itself, |rest| rest.until.max(by_itself)).max(asked);
        let Account { provider, profile, model } = account;
        let (class, request) = (failure_report.class, failure_report.request);
        self.emit(ProfileCooldownSet { provider, profile, model, class, until, failures, request }, now);
    }

    /// Whether the complete answer to a request that was sent at `since` changes which profile anyone asks. `alone`
    /// says that no other profile exists.
    pub fn is_update(&self, candidate: &Candidate, alone: bool, since: Timestamp) -> bool {
        let last_good = self.turns(&candidate.provider).and_then(|turns| turns.last_good.as_ref());
        let repaired = |(account, rest): (&Account, &Cooldown)| account.holds(candidate) && rest.since <= since;
        !alone && last_good != Some(&candidate.profile) || self.cooldowns.iter().any(repaired)
    }

    /// Records that a request that was sent at `since` was answered completely.
    pub fn answered(&mut self, candidate: &Candidate, since: Timestamp, now: Timestamp) {
        let Candidate { provider, profile, model, .. } = candidate.clone();
        self.emit(ProfileAnswered { provider, profile, model, since }, now);
    }

    /// Sets the preferred profile; none = no preference.
    pub fn prefer(&mut self, provider: &str, profile: Option<&str>, now: Timestamp) {
        let profile = profile.map(str::to_owned);
        if self.turns(provider).and_then(|turns| turns.preferred.clone()) != profile {
            self.emit(ProfilePreferred { provider: provider.to_owned(), profile }, now);
        }
    }

    /// Clears the cooldowns of this provider and profile, or of any, whatever failed. Returns the cooldowns.
    pub fn clear(&mut self, provider: Option<&str>, profile: Option<&str>, now: Timestamp) -> Vec<(Account, Cooldown)> {
        let is_it = |account: &Account| {
            let named = profile.is_none() || account.profile.as_deref() == profile;
            named && provider.is_none_or(|provider| account.provider == provider)
        };
        let gone = self.cooldowns.iter().filter(|(account, rest)| rest.until > now && is_it(account));
        let gone: Vec<(Account, Cooldown)> = gone.map(|(account, rest)| (account.clone(), *rest)).collect();
        let mut profiles: Vec<_> = gone.iter().map(|(of, _)| (of.provider.clone(), of.profile.clone())).collect();
        profiles.dedup();
        for (provider, profile) in profiles {
            self.emit(ProfileCooldownLifted { provider, profile }, now);
        }
        gone
    }

    /// The candidates of a run's chain that are in cooldown, without the failures that the run itself has seen: how
    /// long it avoids those is its own decision.
    pub fn cooling(&self, chain: &[Candidate], run: RunId, now: Timestamp) -> Vec<CooldownSet> {
        let rest = |candidate: &Candidate| {
            let of = |(account, rest): &(&Account, &Cooldown)| account.holds(candidate) && rest.request.run != run;
            self.cooldowns()
                .filter(of)
                .map(|(_, rest)| *rest)
                .filter(|rest| rest.until > now)
                .max_by_key(|rest| rest.until)
        };
        let cooled = chain.iter().zip(0..).filter_map(|(candidate, at)| {
            let Cooldown { until, class, .. } = rest(candidate)?;
            Some(CooldownSet { candidate: at, until, class })
        });
        cooled.collect()
    }

    /// The candidates of a run's chain that a user has cleared and that have not failed since.
    fn cleared(&self, chain: &[Candidate]) -> Vec<CooldownLifted> {
        let cleared = chain.iter().zip(0..).filter_map(|(of, candidate)| {
            let at = *self.turns(&of.provider)?.cleared.get(&of.profile)?;
            Some(CooldownLifted { candidate, at })
        });
        cleared.collect()
    }

    /// Everything that it reports to a run.
    pub fn standing(&self, chain: &[Candidate], run: RunId, now: Timestamp) -> LedgerUpdate {
        let (cleared, cooling) = (self.cleared(chain), self.cooling(chain, run, now));
        LedgerUpdate { cleared, cooling, limited: self.is_limited() }
    }

    /// Whether a user has set a limit that sessions share.
    pub fn is_limited(&self) -> bool {
        self.allowances.values().any(|of| !of.is_unlimited())
    }

    /// The limits that were set for a scope.
    pub fn allowance(&self, of: &SharedScope) -> Allowance {
        self.allowances.get(of).copied().unwrap_or_default()
    }

    /// Sets the limit of each named resource.
    pub fn allow(&mut self, of: SharedScope, change: Allowance, now: Timestamp) {
        let allowance = change.or(self.allowance(&of));
        self.emit(AllowanceSet::new(of, allowance), now);
    }
}

impl Decide for Ledger {
    type Input = LedgerInput;
    type Answer = LedgerAnswer;
    type Effect = Infallible;

    /// The ledger refuses nothing.
    fn handle(&mut self, input: LedgerInput, Moment { now, .. }: Moment) -> Result<LedgerAnswer, Refusal> {
        match input {
            LedgerInput::Failed(failure_report) => self.record_failure(&failure_report, now),
            LedgerInput::Answered { candidate, alone, since } => {
                if self.is_update(&candidate, alone, since) {
                    self.answered(&candidate, since, now);
                }
            }
            LedgerInput::Lowered(lowered) => self.lower(lowered, now),
            LedgerInput::Prefer { provider, profile } => self.prefer(&provider, profile.as_deref(), now),
            LedgerInput::Clear { provider, profile } => {
                return Ok(LedgerAnswer::Lifted(self.clear(provider.as_deref(), profile.as_deref(), now)));
            }
            LedgerInput::Allow { of, change } => self.allow(of, change, now),
            LedgerInput::Grant(grant) => return Ok(LedgerAnswer::Granted(self.grant(grant, now))),
            LedgerInput::Revoke { grant, by } => return Ok(LedgerAnswer::Revoked(self.revoke(grant, by, now))),
        }
        Ok(LedgerAnswer::Done)
    }

    #[expect(
        clippy::wildcard_enum_match_arm,
        reason = "the ledger has a journal of its own; other kinds are sessions'"
    )]
    fn apply(&mut self, event: &Event, at: Timestamp) {
        // A fork is the first entry of its branch; the entries before it belong to the branch that was left.
        self.head = if matches!(event, Event::Forked(_)) { Seq(1) } else { Seq(self.head.0 + 1) };
        match event {
            Event::ProfileCooldownSet(e) => {
                let ProfileCooldownSet { provider, profile, model, class, until, failures, request } = e.clone();
                self.used(&provider, profile.as_ref(), at).cleared.remove(&profile);
                if self.counted.len() == COUNTED_REPORTS {
                    self.counted.pop_front();
                }
                self.counted.push_back(request);
                let rest = Cooldown { class, until, failures, since: at, request };
                self.cooldowns.insert(Account { provider, profile, model }, rest);
            }
            Event::ProfileAnswered(e) => {
                let is_it = |account: &Account| {
                    let model = account.model.as_ref().is_none_or(|model| *model == e.model);
                    model && (&account.provider, &account.profile) == (&e.provider, &e.profile)
                };
                self.cooldowns.retain(|account, rest| !is_it(account) || rest.since > e.since);
                self.used(&e.provider, e.profile.as_ref(), at).last_good = Some(e.profile.clone());
            }
            Event::ThinkingLowered(e) => self.level_lowered(e, at),
            Event::ProfilePreferred(e) => {
                self.providers.entry(e.provider.clone()).or_default().preferred.clone_from(&e.profile);
            }
            Event::AllowanceSet(e) => {
                self.allowances.insert(e.of(), e.allowance);
            }
            Event::GrantGiven(e) => {
                self.grants.insert(e.grant.id, e.grant.clone());
            }
            Event::GrantRevoked(e) => {
                self.grants.remove(&e.grant);
            }
            Event::ProfileCooldownLifted(e) => {
                self.cooldowns.retain(|account, _| (&account.provider, &account.profile) != (&e.provider, &e.profile));
                self.providers.entry(e.provider.clone()).or_default().cleared.insert(e.profile.clone(), at);
            }
            _ => {}
        }
    }

    fn take_batch(&mut self) -> Option<Batch> {
        let records = std::mem::take(&mut self.open);
        let (session, branch) = (Self::SESSION, self.branch);
        (!records.is_empty()).then(|| Batch { session, branch, records, bodies: vec![], views: Views::default() })
    }

    fn effects(&self) -> Vec<Infallible> {
        vec![]
    }

    fn id_of(effect: &Infallible) -> EffectId {
        match *effect {}
    }
}

impl Ledger {
    fn used(&mut self, provider: &str, profile: Option<&String>, at: Timestamp) -> &mut ProfileOrder {
        let turns = self.providers.entry(provider.to_owned()).or_default();
        turns.used.insert(profile.cloned(), at);
        turns
    }

    fn emit(&mut self, event: impl Into<Event>, at: Timestamp) {
        if self.head == Seq(0) {
            self.record(LedgerBegun { branch: self.branch }.into(), at);
        }
        self.record(event.into(), at);
    }

    fn record(&mut self, event: Event, at: Timestamp) {
        self.apply(&event, at);
        self.open.push(Record { seq: Some(self.head), at, event });
    }
}
