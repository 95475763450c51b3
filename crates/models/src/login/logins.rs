//! The access tokens of this process. All requests that need a missing token wait for the same refresh.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, SystemTime};

use engine::FailureClass;
use futures_util::FutureExt as _;
use futures_util::future::{BoxFuture, Shared, join_all};
use tokio::time::timeout;

use super::grant::{self, AccessToken};
use super::token_file::{NotHad, TokenFile};
use super::{Login, step};
use crate::endpoint::{Endpoint, Secret};
use crate::fault::Fault;
use crate::wire::Clients;

/// The current access tokens and the running refreshes. Clones share them.
#[derive(Debug, Clone, Default)]
pub struct Logins {
    clients: Clients,
    shared: Arc<Mutex<Tokens>>,
}

#[derive(Debug, Default)]
struct Tokens {
    slots: BTreeMap<Login, Slot>,
    /// Every token that this process has had.
    secrets: BTreeSet<Secret>,
}

/// The state of one login.
#[derive(Debug, Default)]
struct Slot {
    access: Option<AccessToken>,
    refreshing: Option<Refreshing>,
    unkept: Option<Unkept>,
}

/// The running refresh. It continues if a request stops waiting for it.
type Refreshing = Shared<BoxFuture<'static, Result<Secret, Fault>>>;

/// A granted refresh token that could not be written.
#[derive(Debug, Clone)]
struct Unkept {
    /// The refresh token in the file, which is used up.
    spent: Secret,
    refresh: Secret,
    access: Result<AccessToken, Fault>,
}

impl Logins {
    /// Every token that this process has had: all output must mask them.
    pub fn secrets(&self) -> Vec<String> {
        self.lock().secrets.iter().map(|secret| secret.reveal().to_owned()).collect()
    }

    /// A valid token: the current one, else the result of the running refresh, else of a new refresh.
    pub(crate) async fn token(&self, login: &Login) -> Result<Secret, Fault> {
        let refreshing = {
            let mut tokens = self.lock();
            let slot = tokens.slots.entry(login.clone()).or_default();
            if let Some(access) = slot.access.as_ref().filter(|access| access.is_usable(SystemTime::now())) {
                return Ok(access.token.clone());
            }
            // A refresh that has ended and is still here has panicked.
            match slot.refreshing.clone().filter(|refreshing| refreshing.peek().is_none()) {
                Some(refreshing) => refreshing,
                None => slot.refreshing.insert(self.begin(login.clone(), slot.unkept.take())).clone(),
            }
        };
        refreshing.await
    }

    /// Observes the failure of a request: a refused token is not used again. If the token was replaced meanwhile, the
    /// failure does not apply to its successor.
    pub(crate) fn observe(&self, endpoint: &Endpoint, class: FailureClass) {
        let Some((login, used)) = endpoint.login.as_ref().zip(endpoint.key.as_ref()) else { return };
        if class != FailureClass::Auth {
            return;
        }
        if let Some(slot) = self.lock().slots.get_mut(login) {
            slot.access = slot.access.take().filter(|access| access.token != *used);
        }
    }

    /// Waits for the running refreshes, at most this long, so that their grants are on disk: a token server may grant a
    /// token only once.
    pub(crate) async fn settle(&self, most: Duration) {
        let under_way = |slot: &Slot| slot.refreshing.clone();
        let under_way: Vec<Refreshing> = self.lock().slots.values().filter_map(under_way).collect();
        // A refresh that takes longer is lost, and perhaps its token too.
        let _ = timeout(most, join_all(under_way)).await;
    }

    fn begin(&self, login: Login, unkept: Option<Unkept>) -> Refreshing {
        let logins = self.clone();
        let task = tokio::spawn(async move {
            let mut unkept = unkept;
            let refreshed = logins.refresh(&login, &mut unkept).await;
            let token = refreshed.as_ref().map(|access| access.token.clone()).map_err(Clone::clone);
            let slot = Slot { access: refreshed.ok(), refreshing: None, unkept };
            logins.lock().slots.insert(login, slot);
            token
        });
        let lost = || Fault::new(FailureClass::Auth, "was not asked: the refresh of its login failed");
        async move { task.await.unwrap_or_else(|_| Err(lost())) }.boxed().shared()
    }

    async fn refresh(&self, login: &Login, unkept: &mut Option<Unkept>) -> Result<AccessToken, Fault> {
        let file = TokenFile::lock(&login.place, login.limit).await.map_err(|why| not_had(login, why))?;
        // Another process or the user may have written a new token.
        let mut refresh = file.read().map_err(|why| not_had(login, why))?;
        self.keep_secret(&refresh);
        if let Some(before) = unkept.take().filter(|before| before.spent == refresh) {
            let kept = keep(login, &file, before, unkept)?;
            refresh = kept.refresh;
            if let Some(access) = kept.access.ok().filter(|access| access.is_usable(SystemTime::now())) {
                return Ok(access);
            }
        }
        let was_sent = file.was_sent(&refresh);
        file.note_sent(&refresh);
        let granted = match grant::ask(&self.clients, login, &refresh).await {
            Err(fault) if fault.class == FailureClass::AuthPermanent && was_sent && grant::is_of_token(&fault) => {
                return Err(fault.with_remedy(login.remedy_of_loss()));
            }
            Err(fault) => {
                if fault.class == FailureClass::AuthPermanent {
                    file.forget_sent();
                }
                return Err(fault);
            }
            Ok(granted) => granted,
        };
        step();
        for secret in granted.access.iter().map(|access| &access.token).chain(&granted.refresh) {
            self.keep_secret(secret);
        }
        let access = granted.access.map_err(|fault| grant::reported(login, &refresh, fault));
        // No await from here to the disk, so that the task cannot be cancelled in between. It is one file an hour.
        if let Some(next) = granted.refresh.filter(|next| *next != refresh) {
            return keep(login, &file, Unkept { spent: refresh, refresh: next, access }, unkept)?.access;
        }
        file.forget_sent();
        access
    }

    fn keep_secret(&self, secret: &Secret) {
        let mut tokens = self.lock();
        if !tokens.secrets.contains(secret) {
            tokens.secrets.insert(secret.clone());
        }
    }

    fn lock(&self) -> MutexGuard<'_, Tokens> {
        self.shared.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Writes the granted token, or keeps it for the next attempt: the old token is used up.
fn keep(login: &Login, file: &TokenFile, granted: Unkept, unkept: &mut Option<Unkept>) -> Result<Unkept, Fault> {
    match file.put(&granted.refresh) {
        Ok(()) => Ok(granted),
        Err(error) => {
            *unkept = Some(granted);
            let what = format!("was not asked: the new refresh token cannot be written to {}", login.place.display());
            let remedy = "Free disk space or make its folder writable before this process ends, or the login is lost. Each \
                          request tries to write it again.";
            Err(Fault::new(FailureClass::Auth, what).with_detail(error.to_string()).with_remedy(remedy.to_owned()))
        }
    }
}

fn not_had(login: &Login, why: NotHad) -> Fault {
    match why {
        NotHad::Unusable(why) => {
            let fault = Fault::new(FailureClass::AuthPermanent, "was not asked: there is no refresh token");
            fault.with_detail(why).with_remedy(login.remedy())
        }
        NotHad::Busy => {
            let seconds = login.limit.as_secs();
            let what =
                format!("was not asked: another process has been refreshing its login for more than {seconds} s");
            let remedy = format!("Look for a process that hangs with {}.lock open.", login.place.display());
            Fault::new(FailureClass::Timeout, what).with_remedy(remedy)
        }
    }
}
