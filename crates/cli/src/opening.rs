//! What is said while a command opens a home, and of the home that it owns then.

use std::sync::Arc;

use client::OpeningNotice;
use gateway::Service;

use crate::output::{self, say};

/// Says it on stderr. A service of this process is shut down in order even if the command is stuck.
pub(crate) fn say_notice(notice: OpeningNotice<'_>) {
    match notice {
        OpeningNotice::Claimed { home } => {
            say!("limulus: a service is about to take {}; waiting for it", home.display());
        }
        OpeningNotice::Waiting { owned } => say!("limulus: {owned}; waiting"),
        OpeningNotice::Became { service } => {
            output::owned_by(Arc::downgrade(service));
            say_damage(service);
        }
    }
}

/// Warns if the ledger is corrupt. The owner continues without it.
pub(crate) fn say_damage(service: &Service) {
    if let Some(damage) = service.runtime().ledger_damage() {
        say!(
            "limulus: the ledger of this home is damaged ({damage})\n  \
             entries before the damage are used; new cooldowns are kept in memory only; runs continue\n  \
             hint: `limulus doctor` shows what can be done"
        );
    }
}
