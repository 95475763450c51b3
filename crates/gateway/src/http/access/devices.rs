//! Devices of OpenClaw's clients: each has a key of its own, is approved for some scopes, and then has a token that only it can use.
//! On this machine a device that has shown a token is approved at once; elsewhere it asks, and the user of the home approves it.

use protocol::{Scope, Scopes};
use ring::hmac;
use serde::{Deserialize, Serialize};
use subtle::ConstantTimeEq as _;

use super::{Access, AccessError, Secret, file, hex};

/// Devices of a home, and how many of them may ask at once.
const MOST: usize = 200;
const MOST_ASKING: usize = 20;
/// How long a request waits for its answer, milliseconds.
const ASKING_MS: i64 = 24 * 3_600 * 1_000;
/// Characters of what a device says of itself.
const NAME_CHARS: usize = 64;
/// Digits of the id of a request.
const REQUEST_DIGITS: usize = 12;
/// The fewest digits that stand for a device.
const LEAST_DIGITS: usize = 4;

/// A device that is known or asks.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct PairedDevice {
    /// Its id: the SHA-256 of its public key, in hexadecimal digits.
    pub id: String,
    /// What it calls itself.
    pub name: String,
    /// What it runs on, as it says.
    pub platform: String,
    /// What it may do; none as long as it has not been approved.
    #[serde(default)]
    pub scopes: Vec<Scope>,
    /// When it was approved for the first time, milliseconds since 1970.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub approved_at: Option<i64>,
    /// The SHA-256 of the token that approved it on this machine, and with which it ends; none = the user approved it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(super) by: Option<String>,
    /// What it asks for.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub request: Option<DeviceRequest>,
}

/// What a device asks for.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct DeviceRequest {
    /// The id of the request, which its client shows.
    pub id: String,
    /// What it wants to do.
    pub scopes: Vec<Scope>,
    /// When it asked, milliseconds since 1970.
    pub at: i64,
}

/// A device that connects with a token of the user or of a program.
#[derive(Debug, Clone)]
pub(in crate::http) struct Asked {
    pub(in crate::http) id: String,
    pub(in crate::http) name: String,
    pub(in crate::http) platform: String,
    pub(in crate::http) scopes: Scopes,
    /// The SHA-256 of the token that it has shown; none if that was its own.
    pub(in crate::http) by: Option<String>,
    /// Milliseconds since 1970.
    pub(in crate::http) now: i64,
}

/// Whether a device may do what it asks for.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(in crate::http) enum Pairing {
    /// It may, and this is the token that it can use from now on.
    Approved { token: String },
    /// It waits for an answer.
    Asking { request: String, is_known: bool },
    /// Too many ask at once.
    Full,
}

impl PairedDevice {
    pub(super) fn scopes(&self) -> Scopes {
        self.scopes.iter().copied().collect()
    }

    fn allows(&self, scopes: Scopes) -> bool {
        let granted = self.scopes();
        self.approved_at.is_some() && scopes.iter().all(|scope| granted.allow(scope))
    }

    fn approve(&mut self, scopes: Vec<Scope>, by: Option<String>, now: i64) {
        self.scopes = scopes;
        self.scopes.sort_unstable();
        self.scopes.dedup();
        self.by = by;
        self.approved_at.get_or_insert(now);
        self.request = None;
    }

    /// What it asks for, if that is not too old.
    fn open_request(&self, now: i64) -> Option<&DeviceRequest> {
        self.request.as_ref().filter(|request| now - request.at <= ASKING_MS)
    }
}

impl Access {
    /// What becomes of a device that connects. `is_here`: it is on this machine, so it is approved at once. `user` is the SHA-256 of
    /// the token of the user.
    pub(in crate::http) fn pair(&mut self, asked: Asked, is_here: bool, user: &str) -> Result<Pairing, AccessError> {
        let Asked { id, name, platform, scopes, by, now } = asked;
        self.forget_over(user, now);
        let place = self.devices.iter().position(|device| device.id == id);
        let wanted = scopes.iter().collect::<Vec<_>>();
        let asking = self.devices.iter().filter(|device| device.request.is_some() && device.id != id).count();
        let is_known = place.is_some_and(|place| self.devices[place].approved_at.is_some());
        let may_now = place.is_some_and(|place| self.devices[place].allows(scopes));
        if !may_now && !is_here && asking >= MOST_ASKING {
            return Ok(Pairing::Full);
        }
        if place.is_none() && self.devices.len() >= MOST {
            // Those that a token has approved here are approved again when they connect.
            let Some(oldest) = self.devices.iter().position(|device| device.by.is_some()) else {
                return Ok(Pairing::Full);
            };
            self.devices.remove(oldest);
        }
        let place = self.devices.iter().position(|device| device.id == id).unwrap_or_else(|| {
            let short = |text: &str| text.chars().filter(|c| !c.is_control()).take(NAME_CHARS).collect();
            let (id, name, platform) = (id.clone(), short(&name), short(&platform));
            let (scopes, approved_at, by, request) = (vec![], None, None, None);
            self.devices.push(PairedDevice { id, name, platform, scopes, approved_at, by, request });
            self.devices.len() - 1
        });
        let device = &mut self.devices[place];
        // A token adds nothing to what the user has approved, which does not end with it.
        if is_here && !may_now && !(is_known && device.by.is_none()) {
            // What another token has approved would outlive that one.
            let kept = if device.by == by { device.scopes.clone() } else { vec![] };
            device.approve(kept.into_iter().chain(wanted.clone()).collect(), by, now);
        }
        if device.allows(scopes) {
            return Ok(Pairing::Approved { token: self.token_of_device(&id)? });
        }
        // One request for the same: a client that tries again asks for nothing new.
        let request = device.request.take().filter(|request| request.scopes == wanted);
        let new = || {
            let id = file::random().map(|random| random[..REQUEST_DIGITS].to_owned());
            id.map(|id| DeviceRequest { id, scopes: wanted, at: now })
        };
        let request = request.map_or_else(new, Ok);
        let request = request.map_err(|source| AccessError::Io { act: "make", path: "a request".into(), source })?;
        let request = device.request.insert(request).id.clone();
        Ok(Pairing::Asking { request, is_known })
    }

    /// Removes requests that are too old, devices that never were approved, and those whose approval has ended.
    fn forget_over(&mut self, user: &str, now: i64) {
        let good: Vec<bool> = self.devices.iter().map(|device| self.is_good(device, user, now)).collect();
        let mut good = good.into_iter();
        self.devices.retain_mut(|device| {
            if device.open_request(now).is_none() {
                device.request = None;
            }
            let is_good = good.next().unwrap_or_default();
            is_good || device.approved_at.is_none() && device.request.is_some()
        });
    }

    /// Whether a device is approved, and the token that approved it still opens something.
    pub(super) fn is_good(&self, device: &PairedDevice, user: &str, now: i64) -> bool {
        let holds =
            |by: &str| by == user || self.tokens.iter().any(|token| token.hash == by && !token.has_expired(now));
        device.approved_at.is_some() && device.by.as_deref().is_none_or(holds)
    }

    /// The approval of a device that may do what it asks for.
    pub(in crate::http) fn known(&self, asked: &Asked, user: &str) -> Option<Pairing> {
        let device = self.devices.iter().find(|device| device.id == asked.id)?;
        let may = device.allows(asked.scopes) && self.is_good(device, user, asked.now);
        let token = may.then(|| self.made_token(&device.id)).flatten()?;
        Some(Pairing::Approved { token })
    }

    /// The approved device whose token this is.
    pub(super) fn device_with(&self, token: &str, user: &str, now: i64) -> Option<&PairedDevice> {
        let mut matching = self.devices.iter().filter(|device| self.is_good(device, user, now)).filter(|device| {
            let own = self.made_token(&device.id);
            own.is_some_and(|own| own.as_bytes().ct_eq(token.as_bytes()).into())
        });
        matching.next()
    }

    /// The token of a device: the same each time, and another one if the device was revoked and approved again.
    fn token_of_device(&mut self, id: &str) -> Result<String, AccessError> {
        if self.secret.is_none() {
            let secret = file::random();
            let secret = secret.map_err(|source| AccessError::Io { act: "make", path: "a secret".into(), source })?;
            self.secret = Some(Secret(secret));
        }
        Ok(self.made_token(id).unwrap_or_default())
    }

    fn made_token(&self, id: &str) -> Option<String> {
        let secret = self.secret.as_ref()?;
        let device = self.devices.iter().find(|device| device.id == id)?;
        let key = hmac::Key::new(hmac::HMAC_SHA256, secret.0.as_bytes());
        let approved_at = device.approved_at?;
        Some(hex(hmac::sign(&key, format!("{id}|{approved_at}").as_bytes()).as_ref()))
    }

    /// Approves what a device asks for, named by its request, or gives a device these scopes. Returns its id.
    pub fn approve_device(&mut self, name: &str, scopes: Option<Vec<Scope>>, now: i64) -> Result<String, AccessError> {
        let unknown = || AccessError::Unknown { what: "request", name: name.to_owned() };
        let device = self.device_named(name)?;
        let scopes = if let Some(scopes) = scopes {
            scopes
        } else {
            // By its id: meanwhile it may ask for something else.
            let request = device.open_request(now).filter(|request| request.id == name).ok_or_else(unknown)?;
            let all = if device.by.is_none() { device.scopes.clone() } else { vec![] };
            all.into_iter().chain(request.scopes.clone()).collect()
        };
        device.approve(scopes, None, now);
        Ok(device.id.clone())
    }

    /// Revokes a device, or refuses what a device asks for, if that is named. Returns its id.
    pub fn revoke_device(&mut self, name: &str) -> Result<String, AccessError> {
        let device = self.device_named(name)?;
        let id = device.id.clone();
        let is_request = device.request.as_ref().is_some_and(|request| request.id == name);
        if is_request && device.approved_at.is_some() {
            device.request = None;
        } else {
            self.devices.retain(|device| device.id != id);
        }
        Ok(id)
    }

    /// The device of an id, of the beginning of one, or of a request.
    fn device_named(&mut self, name: &str) -> Result<&mut PairedDevice, AccessError> {
        let is_it = |device: &PairedDevice| {
            let is_request = device.request.as_ref().is_some_and(|request| request.id == name);
            is_request || device.id == name || name.len() >= LEAST_DIGITS && device.id.starts_with(name)
        };
        let mut matching = self.devices.iter_mut().filter(|device| is_it(device));
        match (matching.next(), matching.next()) {
            (Some(device), None) => Ok(device),
            (None, _) => Err(AccessError::Unknown { what: "device", name: name.to_owned() }),
            (Some(_), Some(_)) => Err(AccessError::Ambiguous { name: name.to_owned() }),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The hash of the token of the user.
    const USER: &str = "user";

    fn asked(id: &str, scopes: &[Scope], now: i64) -> Asked {
        let scopes = scopes.iter().copied().collect();
        let (name, platform, by) = ("cli\n".to_owned(), "linux".to_owned(), Some(USER.to_owned()));
        Asked { id: id.to_owned(), name, platform, scopes, by, now }
    }

    fn token(pairing: Pairing) -> String {
        let Pairing::Approved { token } = pairing else { panic!("it is approved: {pairing:?}") };
        token
    }

    fn request(pairing: Pairing) -> String {
        let Pairing::Asking { request, .. } = pairing else { panic!("it asks: {pairing:?}") };
        request
    }

    /// R60: on this machine a device is approved at once; elsewhere its user is asked, and each further scope is a question too.
    #[test]
    fn r60_a_device_elsewhere_waits_for_its_approval() {
        let mut access = Access::default();
        let first = token(access.pair(asked("aaaa1", &[Scope::Read], 1), true, USER).unwrap());
        assert_eq!(token(access.pair(asked("aaaa1", &[Scope::Read], 2), false, USER).unwrap()), first, "it is known");
        let more = [Scope::Read, Scope::Admin];
        let asks = request(access.pair(asked("aaaa1", &more, 3), false, USER).unwrap());
        let of = |access: &Access, token: &str| access.device_with(token, USER, 4).map(|device| device.scopes.clone());
        assert_eq!(of(&access, &first), Some(vec![Scope::Read]));
        assert_eq!(request(access.pair(asked("aaaa1", &more, 4), false, USER).unwrap()), asks, "it is the same one");
        access.approve_device(&asks, None, 5).unwrap();
        let second = token(access.pair(asked("aaaa1", &[Scope::Admin], 6), false, USER).unwrap());
        assert_eq!(second, first);
        assert_eq!(access.devices[0].by, None, "what the user approves does not end with a token");

        let other = access.pair(asked("aaaa2", &[Scope::Write], 7), false, USER).unwrap();
        assert_eq!(access.devices[1].name, "cli");
        assert!(matches!(access.approve_device("aaaa", None, 8), Err(AccessError::Ambiguous { .. })));
        assert!(matches!(access.approve_device("aaa", None, 8), Err(AccessError::Unknown { .. })));
        assert!(
            matches!(access.approve_device("aaaa2", None, 8), Err(AccessError::Unknown { .. })),
            "it has no request"
        );
        access.revoke_device(&request(other)).unwrap();
        assert_eq!(access.devices.len(), 1, "who never was approved is gone");
        access.pair(asked("aaaa2", &[Scope::Write], 8), false, USER).unwrap();
        access.approve_device("aaaa2", Some(vec![Scope::Read]), 8).unwrap();
        let asks = request(access.pair(asked("aaaa2", &[Scope::Write], 9), false, USER).unwrap());
        access.revoke_device(&asks).unwrap();
        let third = token(access.pair(asked("aaaa2", &[Scope::Read], 10), false, USER).unwrap());
        assert_eq!(of(&access, &third), Some(vec![Scope::Read]), "only what it asked for was refused");
        access.approve_device("aaaa1", Some(vec![Scope::Read]), 11).unwrap();
        assert_eq!(of(&access, &second), Some(vec![Scope::Read]), "it may do less now");
    }

    /// R60: a device that a token has approved ends with that token; so does one that is revoked.
    #[test]
    fn r60_the_token_of_a_device_ends_with_its_approval() {
        let mut access = Access::default();
        let first = token(access.pair(asked("aaaa1", &[Scope::Read], 1), true, USER).unwrap());
        assert!(access.device_with(&first, USER, 2).is_some());
        assert!(access.device_with(&first, "another token of the user", 2).is_none());
        let again = access.pair(asked("aaaa1", &[Scope::Read], 2), false, "another token of the user").unwrap();
        assert!(matches!(again, Pairing::Asking { is_known: false, .. }), "{again:?}");
        access.revoke_device("aaaa1").unwrap();
        assert!(access.device_with(&first, USER, 2).is_none() && access.devices.is_empty());
        let second = token(access.pair(asked("aaaa1", &[Scope::Read], 3), true, USER).unwrap());
        assert!(second != first && access.device_with(&first, USER, 3).is_none());
        assert!(access.device_with("", USER, 3).is_none());
        // What one token has approved is not carried over to another one.
        let by = |by: &str, scopes: &[Scope]| Asked { by: Some(by.to_owned()), ..asked("aaaa2", scopes, 4) };
        access.pair(by("first", &[Scope::Read, Scope::Approve]), true, "first").unwrap();
        access.pair(by("second", &[Scope::Write]), true, "first").unwrap();
        let scopes = |access: &Access| access.devices.last().map(|device| device.scopes.clone());
        assert_eq!(scopes(&access), Some(vec![Scope::Write]));
        access.pair(by("second", &[Scope::Approve]), true, "second").unwrap();
        assert_eq!(scopes(&access), Some(vec![Scope::Write, Scope::Approve]));
    }

    /// R60: who asks again and again fills no home, and locks nobody out for good.
    #[test]
    fn r60_only_so_many_devices_ask_at_once() {
        let mut access = Access::default();
        for number in 0..MOST_ASKING {
            let pairing = access.pair(asked(&format!("bbbb{number}"), &[Scope::Read], 1), false, USER).unwrap();
            assert!(matches!(pairing, Pairing::Asking { .. }));
        }
        assert_eq!(access.pair(asked("cccc", &[Scope::Read], 2), false, USER).unwrap(), Pairing::Full);
        assert_eq!(access.devices.len(), MOST_ASKING);
        token(access.pair(asked("cccc", &[Scope::Read], 3), true, USER).unwrap());
        let old = request(access.pair(asked("bbbb1", &[Scope::Read], 3), false, USER).unwrap());
        let later = access.pair(asked("dddd", &[Scope::Read], 2 + ASKING_MS), false, USER).unwrap();
        assert!(matches!(later, Pairing::Asking { .. }));
        assert_eq!(access.devices.len(), 2, "what is older than a day is gone");
        assert!(access.approve_device(&old, None, 2 + ASKING_MS).is_err());
        // Those that are approved on this machine make way for each other.
        for number in 0..2 * MOST {
            token(access.pair(asked(&format!("eeee{number}"), &[Scope::Read], 4 + ASKING_MS), true, USER).unwrap());
        }
        assert_eq!(access.devices.len(), MOST);
    }
}
