//! A second ledger, kept beside the engine's from what is recorded, by rules written anew: how long, how often in a row, and what
//! ends it. It shares no table with the engine's.

use std::collections::BTreeMap;

use engine::{EffectId, Event, FailureClass, FailureReport, Ledger, ProfileCooled, Record, Timestamp};

use crate::invariant::{Invariant, Violation};

const MINUTE_MS: u64 = 60_000;

/// Who is left alone: the provider's profile, with one model or all.
type Account = (Option<String>, Option<String>);

/// How it is left alone.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Alone {
    until: Timestamp,
    since: Timestamp,
    strikes: u32,
}

/// The second ledger.
#[derive(Debug, Clone, Default)]
pub(crate) struct Book {
    alone: BTreeMap<Account, Alone>,
    /// Entries that began anew.
    pub(crate) expired: u64,
    pub(crate) cooled: u64,
}

impl Book {
    /// Takes an entry in that was decided of one of these strikes, and judges it.
    pub(crate) fn take(
        &mut self,
        record: &Record,
        strikes: &BTreeMap<EffectId, FailureReport>,
    ) -> Result<(), Violation> {
        match &record.event {
            Event::ProfileCooled(cooled) => {
                let failure_report = strikes.values().find(|failure_report| failure_report.request == cooled.request);
                let failure_report =
                    failure_report.ok_or_else(|| Invariant::Cooldown.violated(format!("nobody told of {cooled:?}")))?;
                self.cooled(cooled, failure_report, record.at)
            }
            Event::ProfileAnswered(e) => {
                let is_it = |of: &Account| of.0 == e.profile && of.1.as_ref().is_none_or(|model| *model == e.model);
                self.alone.retain(|of, alone| !is_it(of) || alone.since > e.since);
                Ok(())
            }
            Event::ProfileCleared(e) => {
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
        // A time that is over counts no more; one that is not is longer only if somebody probed.
        let strikes = still.map_or(1, |alone| alone.strikes + u32::from(failure_report.probe));
        let by_itself = at.plus(minutes(e.class, strikes) * MINUTE_MS);
        let until =
            still.map_or(by_itself, |alone| alone.until.max(by_itself)).max(failure_report.until.unwrap_or(by_itself));
        Invariant::Cooldown.holds((e.strikes, e.until) == (strikes, until), || {
            format!("{e:?} at {at} follows {before:?}: it should be {strikes} in a row, until {until}")
        })?;
        self.alone.insert(account, Alone { until, since: at, strikes });
        Ok(())
    }

    /// Whether a ledger leaves everyone alone for as long as this one does.
    pub(crate) fn is_kept_by(&self, ledger: &Ledger, now: Timestamp) -> Result<(), Violation> {
        for (account, alone) in self.alone.iter().filter(|(_, alone)| alone.until > now) {
            let mut cooldowns =
                ledger.cooldowns().filter(|(of, _)| (&of.profile, &of.model) == (&account.0, &account.1));
            let rest = cooldowns.next().map(|(_, rest)| (rest.until, rest.strikes));
            Invariant::Cooldown.holds(rest.is_some_and(|(until, _)| until >= alone.until), || {
                format!("{account:?} was left alone as {alone:?}, after the crash {rest:?}")
            })?;
        }
        Ok(())
    }

    /// The same as a ledger that is all that is left: an answer may be forgotten, a cooldown may not.
    pub(crate) fn adopt(&mut self, ledger: &Ledger) {
        let alone = ledger.cooldowns().map(|(of, rest)| {
            let alone = Alone { until: rest.until, since: rest.since, strikes: rest.strikes };
            ((of.profile.clone(), of.model.clone()), alone)
        });
        self.alone = alone.collect();
    }
}

/// How long, in minutes, when it happens for the n-th time in a row.
fn minutes(class: FailureClass, strikes: u32) -> u64 {
    let step = strikes as usize - 1;
    match class {
        FailureClass::Billing | FailureClass::AuthPermanent => [300, 600, 1200, 1440][step.min(3)],
        _ => [1, 5, 25, 60][step.min(3)],
    }
}
