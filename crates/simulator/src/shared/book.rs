//! A second ledger, computed beside the engine's from what is recorded, by separate rules: how long a cooldown is, how
//! many failures in a row, and what ends it. It shares no table with the engine's.

use std::collections::BTreeMap;

use engine::{Event, FailureClass, FailureReport, Ledger, ProfileCooled, Record, Timestamp};

use crate::invariant::{Invariant, Violation};

const MINUTE_MS: u64 = 60_000;

/// What is in cooldown: the provider's profile, for one model or all.
type Account = (Option<String>, Option<String>);

/// Its cooldown.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Alone {
    until: Timestamp,
    since: Timestamp,
    failures: u32,
}

/// The second ledger.
#[derive(Debug, Clone, Default)]
pub(crate) struct Book {
    alone: BTreeMap<Account, Alone>,
    /// Entries whose previous cooldown had ended.
    pub(crate) expired: u64,
    pub(crate) cooled: u64,
}

impl Book {
    /// Adds an entry that this failure report caused, and judges it.
    pub(crate) fn take(&mut self, record: &Record, failure_report: Option<&FailureReport>) -> Result<(), Violation> {
        match (&record.event, failure_report) {
            (Event::ProfileCooled(cooled), Some(failure_report)) => self.cooled(cooled, failure_report, record.at),
            (Event::ProfileAnswered(e), _) => {
                let is_it = |of: &Account| of.0 == e.profile && of.1.as_ref().is_none_or(|model| *model == e.model);
                self.alone.retain(|of, alone| !is_it(of) || alone.since > e.since);
                Ok(())
            }
            (Event::ProfileCleared(e), _) => {
                self.alone.retain(|of, _| of.0 != e.profile);
                Ok(())
            }
            _ => Ok(()),
        }
    }

    fn cooled(&mut self, e: &ProfileCooled, failure_report: &FailureReport, at: Timestamp) -> Result<(), Violation> {
        let account = (e.profile.clone(), e.model.clone());
        let before = self.alone.get(&account).copied();
        let still = before.filter(|alone| alone.until > at);
        self.expired += u64::from(before.is_some() && still.is_none());
        self.cooled += 1;
        // A cooldown that is over no longer counts; one that is not gets longer only after a probe.
        let failures = still.map_or(1, |alone| alone.failures + u32::from(failure_report.probe));
        let by_itself = at.plus(minutes(e.class, failures) * MINUTE_MS);
        let until =
            still.map_or(by_itself, |alone| alone.until.max(by_itself)).max(failure_report.until.unwrap_or(by_itself));
        Invariant::Cooldown.holds((e.strikes, e.until) == (failures, until), || {
            format!("{e:?} at {at} follows {before:?}: it should be {failures} in a row, until {until}")
        })?;
        self.alone.insert(account, Alone { until, since: at, failures });
        Ok(())
    }

    /// Checks that every cooldown of this ledger is in `ledger`, as long as here.
    pub(crate) fn is_kept_by(&self, ledger: &Ledger, now: Timestamp) -> Result<(), Violation> {
        for (account, alone) in self.alone.iter().filter(|(_, alone)| alone.until > now) {
            let mut cooldowns =
                ledger.cooldowns().filter(|(of, _)| (&of.profile, &of.model) == (&account.0, &account.1));
            let rest = cooldowns.next().map(|(_, rest)| (rest.until, rest.strikes));
            Invariant::Cooldown.holds(rest.is_some_and(|(until, _)| until >= alone.until), || {
                format!("{account:?} was in cooldown as {alone:?}, after the crash {rest:?}")
            })?;
        }
        Ok(())
    }

    /// Takes over a ledger after a crash: an answer may be forgotten, a cooldown may not.
    pub(crate) fn adopt(&mut self, ledger: &Ledger) {
        let alone = ledger.cooldowns().map(|(of, rest)| {
            let alone = Alone { until: rest.until, since: rest.since, failures: rest.strikes };
            ((of.profile.clone(), of.model.clone()), alone)
        });
        self.alone = alone.collect();
    }
}

/// The minutes of a cooldown after the n-th failure in a row.
fn minutes(class: FailureClass, failures: u32) -> u64 {
    let step = failures as usize - 1;
    match class {
        FailureClass::Billing | FailureClass::AuthPermanent => [300, 600, 1200, 1440][step.min(3)],
        _ => [1, 5, 25, 60][step.min(3)],
    }
}
