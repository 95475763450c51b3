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
    fn allows(&self, scopes: Scopes) -> bool {
        let granted: Scopes = self.scopes.iter().copied().collect();
        self.approved_at.is_some() && scopes.iter().all(|scope| granted.allow(scope))
    }

    /// Approves what it asks for.
    fn approve(&mut self, scopes: Vec<Scope>, now: i64) {
        self.scopes.extend(scopes);
        self.scopes.sort_unstable();
        self.scopes.dedup();
        self.approved_at.get_or_insert(now);
        self.request = None;
    }

    /// Whether it may do nothing and its request has waited for too long.
    fn is_over(&self, now: i64) -> bool {
        self.approved_at.is_none() && self.request.as_ref().is_none_or(|request| now - request.at > ASKING_MS)
    }
}

impl Access {
    /// What becomes of a device that connects. `is_here`: it is on this machine, so it is approved at once.
    pub(in crate::http) fn pair(&mut self, asked: Asked, is_here: bool) -> Result<Pairing, AccessError> {
        let Asked { id, name, platform, scopes, now } = asked;
        self.devices.retain(|device| !device.is_over(now));
        let place = self.devices.iter().position(|device| device.id == id);
        if place.is_none() && self.devices.len() >= MOST {
            return Ok(Pairing::Full);
        }
        let asking = self.devices.iter().filter(|device| device.request.is_some() && device.id != id).count();
        let wanted = scopes.iter().collect::<Vec<_>>();
        let place = place.unwrap_or_else(|| {
            let short = |text: String| text.chars().filter(|c| !c.is_control()).take(NAME_CHARS).collect();
            let (name, platform) = (short(name), short(platform));
            self.devices.push(PairedDevice { id, name, platform, scopes: vec![], approved_at: None, request: None });
            self.devices.len() - 1
        });
        let device = &mut self.devices[place];
        if is_here && !device.allows(scopes) {
            device.approve(wanted.clone(), now);
        }
        if device.allows(scopes) {
            let id = device.id.clone();
            return Ok(Pairing::Approved { token: self.token_of_device(&id)? });
        }
        let is_known = device.approved_at.is_some();
        if asking >= MOST_ASKING {
            self.devices.retain(|device| device.approved_at.is_some() || device.request.is_some());
            return Ok(Pairing::Full);
        }
        // One request for the same: a client that tries again asks for nothing new.
        let request = device.request.take().filter(|request| request.scopes == wanted);
        let request =
            request.unwrap_or_else(|| DeviceRequest { id: uuid::Uuid::now_v7().to_string(), scopes: wanted, at: now });
        let request = device.request.insert(request).id.clone();
        Ok(Pairing::Asking { request, is_known })
    }

    /// The approval of a device that may do what it asks for, and does not ask for more any more.
    pub(in crate::http) fn known(&self, asked: &Asked) -> Option<Pairing> {
        let device = self.devices.iter().find(|device| device.id == asked.id)?;
        let token = (device.allows(asked.scopes)).then(|| self.made_token(&device.id)).flatten()?;
        Some(Pairing::Approved { token })
    }

    /// The approved device whose token this is.
    pub(super) fn device_with(&self, token: &str) -> Option<&PairedDevice> {
        let approved = self.devices.iter().filter(|device| device.approved_at.is_some());
        let mut matching = approved.filter(|device| {
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

    /// Approves what a device asks for; `scopes` instead of that if given. Returns its id.
    pub fn approve_device(&mut self, name: &str, scopes: Option<Vec<Scope>>, now: i64) -> Result<String, AccessError> {
        let device = self.device_named(name)?;
        let wanted = device.request.as_ref().map(|request| request.scopes.clone());
        let scopes = scopes.or(wanted).unwrap_or_default();
        device.approve(scopes, now);
        Ok(device.id.clone())
    }

    /// Revokes a device, or refuses what it asks for. Returns its id.
    pub fn revoke_device(&mut self, name: &str) -> Result<String, AccessError> {
        let id = self.device_named(name)?.id.clone();
        self.devices.retain(|device| device.id != id);
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

    fn asked(id: &str, scopes: &[Scope], now: i64) -> Asked {
        let scopes = scopes.iter().copied().collect();
        Asked { id: id.to_owned(), name: "cli\n".to_owned(), platform: "linux".to_owned(), scopes, now }
    }

    fn token(pairing: Pairing) -> String {
        let Pairing::Approved { token } = pairing else { panic!("it is approved: {pairing:?}") };
        token
    }

    /// R60: on this machine a device is approved at once; elsewhere its user is asked, and each further scope is a question too.
    #[test]
    fn r60_a_device_elsewhere_waits_for_its_approval() {
        let mut access = Access::default();
        let first = token(access.pair(asked("aaaa1", &[Scope::Read], 1), true).unwrap());
        assert_eq!(token(access.pair(asked("aaaa1", &[Scope::Read], 2), false).unwrap()), first, "it is known");
        let Pairing::Asking { request, is_known: true } =
            access.pair(asked("aaaa1", &[Scope::Read, Scope::Admin], 3), false).unwrap()
        else {
            panic!("it asks for more")
        };
        assert_eq!(access.device_with(&first).map(|device| device.scopes.clone()), Some(vec![Scope::Read]));
        let again = access.pair(asked("aaaa1", &[Scope::Read, Scope::Admin], 4), false).unwrap();
        assert_eq!(again, Pairing::Asking { request: request.clone(), is_known: true });
        access.approve_device(&request, None, 5).unwrap();
        assert_eq!(token(access.pair(asked("aaaa1", &[Scope::Admin], 6), false).unwrap()), first);

        let other = access.pair(asked("aaaa2", &[Scope::Write], 7), false).unwrap();
        assert!(matches!(other, Pairing::Asking { is_known: false, .. }));
        assert_eq!(access.devices[1].name, "cli");
        assert!(matches!(access.approve_device("aaaa", None, 8), Err(AccessError::Ambiguous { .. })));
        assert!(matches!(access.approve_device("aaa", None, 8), Err(AccessError::Unknown { .. })));
        access.approve_device("aaaa2", Some(vec![Scope::Read]), 8).unwrap();
        assert!(matches!(access.pair(asked("aaaa2", &[Scope::Write], 9), false).unwrap(), Pairing::Asking { .. }));
        let second = token(access.pair(asked("aaaa2", &[Scope::Read], 10), false).unwrap());
        assert!(second != first && access.device_with(&second).is_some_and(|device| device.id == "aaaa2"));
    }

    /// R60: a token of a device that was revoked opens nothing, also after the device was approved again.
    #[test]
    fn r60_the_token_of_a_revoked_device_opens_nothing() {
        let mut access = Access::default();
        let first = token(access.pair(asked("aaaa1", &[Scope::Read], 1), true).unwrap());
        access.revoke_device("aaaa1").unwrap();
        assert!(access.device_with(&first).is_none() && access.devices.is_empty());
        let second = token(access.pair(asked("aaaa1", &[Scope::Read], 2), true).unwrap());
        assert!(second != first && access.device_with(&first).is_none());
        assert!(access.device_with("").is_none());
    }

    /// R60: who asks again and again fills no home, and locks nobody out for good.
    #[test]
    fn r60_only_so_many_devices_ask_at_once() {
        let mut access = Access::default();
        for number in 0..MOST_ASKING {
            let pairing = access.pair(asked(&format!("bbbb{number}"), &[Scope::Read], 1), false).unwrap();
            assert!(matches!(pairing, Pairing::Asking { .. }));
        }
        assert_eq!(access.pair(asked("cccc", &[Scope::Read], 2), false).unwrap(), Pairing::Full);
        assert_eq!(access.devices.len(), MOST_ASKING);
        token(access.pair(asked("cccc", &[Scope::Read], 3), true).unwrap());
        let later = access.pair(asked("dddd", &[Scope::Read], 2 + ASKING_MS), false).unwrap();
        assert!(matches!(later, Pairing::Asking { .. }));
        assert_eq!(access.devices.len(), 2);
    }
}
