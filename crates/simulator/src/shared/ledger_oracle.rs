//! The oracle of the ledger: a second implementation that follows the recorded events, with rules of its own for the
//! length, the count and the end of a cooldown. It shares no table with the engine.

use std::collections::BTreeMap;

use engine::{EffectId, Event, FailureClass, FailureReport, Ledger, ProfileCooldownSet, Record, Timestamp};

use crate::invariant::{Invariant, Violation};

const MINUTE_MS: u64 = 60_000;

/// The subject of a cooldown: a profile with one model, or with all (`None`).
type Account = (Option<String>, Option<String>);

/// A cooldown: its end, its beginning, and how often in a row.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Cooling {
    until: Timestamp,
    since: Timestamp,
    times: u32,
}

/// The expected state of the ledger.
#[derive(Debug, Clone, Default)]
pub(crate) struct LedgerOracle {
    cooldowns: BTreeMap<Account, Cooling>,
    /// Cooldowns that began after an earlier one of the same subject was over.
    pub(crate) expired: u64,
    pub(crate) cooled: u64,
}

impl LedgerOracle {
    /// Folds an entry, and checks it against the failure report that caused it.
    pub(crate) fn take(
        &mut self,
        record: &Record,
        reports: &BTreeMap<EffectId, FailureReport>,
    ) -> Result<(), Violation> {
        match &record.event {
            Event::ProfileCooldownSet(cooled) => {
                let failure_report = reports.values().find(|failure_report| failure_report.request == cooled.request);
                let failure_report = failure_report
                    .ok_or_else(|| Invariant::Cooldown.violated(format!("no report led to {cooled:?}")))?;
                self.cooled(cooled, failure_report, record.at)
            }
            Event::ProfileAnswered(e) => {
                let is_it = |of: &Account| of.0 == e.profile && of.1.as_ref().is_none_or(|model| *model == e.model);
                self.cooldowns.retain(|of, cooldown| !is_it(of) || cooldown.since > e.since);
                Ok(())
            }
            Event::ProfileCooldownLifted(e) => {
                self.cooldowns.retain(|of, _| of.0 != e.profile);
                Ok(())
            }
            _ => Ok(()),
        }
    }

    fn cooled(
        &mut self,
        e: &ProfileCooldownSet,
        failure_report: &FailureReport,
        at: Timestamp,
    ) -> Result<(), Violation> {
        let account = (e.profile.clone(), e.model.clone());
        let before = self.cooldowns.get(&account).copied();
        let still = before.filter(|cooldown| cooldown.until > at);
        self.expired += u64::from(before.is_some() && still.is_none());
        self.cooled += 1;
        // A cooldown that is over no longer counts; only a failed probe lengthens one that is not.
        let times = still.map_or(1, |cooldown| cooldown.times + u32::from(failure_report.probe));
        let by_itself = at.plus(minutes(e.class, times) * MINUTE_MS);
        let until = still
            .map_or(by_itself, |cooldown| cooldown.until.max(by_itself))
            .max(failure_report.until.unwrap_or(by_itself));
        Invariant::Cooldown.holds((e.failures, e.until) == (times, until), || {
            format!("{e:?} at {at} follows {before:?}: it should be {times} in a row, until {until}")
        })?;
        self.cooldowns.insert(account, Cooling { until, since: at, times });
        Ok(())
    }

    /// Checks that a ledger has every cooldown of this one, at least as long.
    pub(crate) fn is_kept_by(&self, ledger: &Ledger, now: Timestamp) -> Result<(), Violation> {
        for (account, cooldown) in self.cooldowns.iter().filter(|(_, cooldown)| cooldown.until > now) {
            let mut cooldowns =
                ledger.cooldowns().filter(|(of, _)| (&of.profile, &of.model) == (&account.0, &account.1));
            let actual = cooldowns.next().map(|(_, actual)| (actual.until, actual.failures));
            Invariant::Cooldown.holds(actual.is_some_and(|(until, _)| until >= cooldown.until), || {
                format!("{account:?} was in cooldown as {cooldown:?}, after the crash as {actual:?}")
            })?;
        }
        Ok(())
    }

    /// Takes over the ledger that survived a crash: it may have lost an answer, but no cooldown.
    pub(crate) fn adopt(&mut self, ledger: &Ledger) {
        let cooldowns = ledger.cooldowns().map(|(of, kept)| {
            let cooldown = Cooling { until: kept.until, since: kept.since, times: kept.failures };
            ((of.profile.clone(), of.model.clone()), cooldown)
        });
        self.cooldowns = cooldowns.collect();
    }
}

/// The length in minutes of the n-th cooldown in a row.
fn minutes(class: FailureClass, times: u32) -> u64 {
    let step = times as usize - 1;
    match class {
        FailureClass::Billing | FailureClass::AuthPermanent => [300, 600, 1200, 1440][step.min(3)],
        _ => [1, 5, 25, 60][step.min(3)],
    }
}
