//! The identity of a device: a key, by which its client signs what it asks for and the challenge that it was sent.

use base64::Engine as _;
use base64::engine::general_purpose::{STANDARD, URL_SAFE_NO_PAD};
use ring::digest::{SHA256, digest};
use ring::signature::{ED25519, UnparsedPublicKey};
use serde::Deserialize;
use serde_json::json;

use super::trouble::{INVALID, Trouble};

/// How far its clock may differ, milliseconds.
const SKEW_MS: u64 = 10 * 60 * 1_000;

/// What a client says of its device.
#[derive(Debug, Clone, Default, Deserialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct Device {
    pub(super) id: String,
    public_key: String,
    signature: String,
    signed_at: i64,
    #[serde(default)]
    nonce: Option<String>,
}

/// What it signs.
#[derive(Debug, Clone, Copy)]
pub(super) struct Signed<'a> {
    pub(super) client: &'a str,
    pub(super) mode: &'a str,
    pub(super) role: &'a str,
    pub(super) scopes: &'a [String],
    pub(super) token: &'a str,
    pub(super) platform: &'a str,
    pub(super) family: &'a str,
}

impl Device {
    /// Whether it has the key of its id, and has signed this challenge with it now.
    pub(super) fn check(&self, signed: Signed<'_>, (challenge, now): (&str, i64)) -> Result<(), Trouble> {
        let bytes = |text: &str| {
            let text = text.trim_end_matches('=');
            URL_SAFE_NO_PAD.decode(text).or_else(|_| STANDARD.decode(text)).unwrap_or_default()
        };
        let key = bytes(&self.public_key);
        if key.len() != 32 {
            return Err(refused("device public key invalid", "PUBLIC_KEY_INVALID", "device-public-key"));
        }
        let id: Vec<String> = digest(&SHA256, &key).as_ref().iter().map(|byte| format!("{byte:02x}")).collect();
        if id.concat() != self.id {
            return Err(refused("device identity mismatch", "DEVICE_ID_MISMATCH", "device-id-mismatch"));
        }
        match self.nonce.as_deref().map(str::trim).filter(|nonce| !nonce.is_empty()) {
            None => return Err(refused("device nonce required", "NONCE_REQUIRED", "device-nonce-missing")),
            Some(nonce) if nonce != challenge => {
                return Err(refused("device nonce mismatch", "NONCE_MISMATCH", "device-nonce-mismatch"));
            }
            Some(_) => {}
        }
        if self.signed_at.abs_diff(now) > SKEW_MS {
            return Err(refused("device signature expired", "SIGNATURE_EXPIRED", "device-signature-stale"));
        }
        let (key, signature) = (UnparsedPublicKey::new(&ED25519, &key), bytes(&self.signature));
        let is_by_it = |text: String| key.verify(text.as_bytes(), &signature).is_ok();
        let of_v2 = self.of_v2(signed, challenge);
        let plain = |text: &str| text.trim().to_ascii_lowercase();
        let of_v3 = format!("v3{}|{}|{}", &of_v2[2..], plain(signed.platform), plain(signed.family));
        if is_by_it(of_v3) || is_by_it(of_v2) {
            return Ok(());
        }
        Err(refused("device signature invalid", "SIGNATURE_INVALID", "device-signature"))
    }

    fn of_v2(&self, signed: Signed<'_>, challenge: &str) -> String {
        let Signed { client, mode, role, scopes, token, .. } = signed;
        let (id, scopes, at) = (&self.id, scopes.join(","), self.signed_at);
        format!("v2|{id}|{client}|{mode}|{role}|{scopes}|{at}|{token}|{challenge}")
    }
}

fn refused(message: &str, code: &str, reason: &str) -> Trouble {
    let details = json!({ "code": format!("DEVICE_AUTH_{code}"), "reason": reason });
    Trouble::new(INVALID, message).with_details(details)
}

#[cfg(test)]
mod tests {
    use ring::signature::{Ed25519KeyPair, KeyPair as _};

    use super::*;

    /// R60: a device is who has its key, and signs this challenge now.
    #[test]
    fn r60_a_device_signs_the_challenge() {
        let key = Ed25519KeyPair::from_seed_unchecked(&[7; 32]).unwrap();
        let public = key.public_key().as_ref();
        let id: Vec<String> = digest(&SHA256, public).as_ref().iter().map(|byte| format!("{byte:02x}")).collect();
        let scopes = ["operator.read".to_owned(), "operator.write".to_owned()];
        let signed = Signed {
            client: "cli",
            mode: "cli",
            role: "operator",
            scopes: &scopes,
            token: "t",
            platform: "Linux",
            family: "",
        };
        let device = |version: &str| {
            let id = id.concat();
            let mut text = format!("{version}|{id}|cli|cli|operator|operator.read,operator.write|1000|t|nonce");
            if version == "v3" {
                text += "|linux|";
            }
            Device {
                id,
                public_key: URL_SAFE_NO_PAD.encode(public),
                signature: URL_SAFE_NO_PAD.encode(key.sign(text.as_bytes())),
                signed_at: 1_000,
                nonce: Some("nonce".to_owned()),
            }
        };
        let check =
            |device: Device, challenge, now| device.check(signed, (challenge, now)).map_err(|trouble| trouble.message);
        assert_eq!(check(device("v3"), "nonce", 2_000), Ok(()));
        assert_eq!(check(device("v2"), "nonce", 2_000), Ok(()));
        assert!(check(device("v1"), "nonce", 2_000).unwrap_err().contains("signature invalid"));
        assert!(check(device("v3"), "other", 2_000).unwrap_err().contains("nonce mismatch"));
        assert!(check(device("v3"), "nonce", 700_000).unwrap_err().contains("expired"));
        assert!(check(Device { nonce: None, ..device("v3") }, "nonce", 2_000).unwrap_err().contains("required"));
        assert!(
            check(Device { id: "00".to_owned(), ..device("v3") }, "nonce", 2_000).unwrap_err().contains("identity")
        );
        assert!(check(Device { public_key: String::new(), ..device("v3") }, "nonce", 2_000).is_err());
        assert!(check(Device { signed_at: i64::MIN, ..device("v3") }, "nonce", i64::MAX).is_err());
        let more = ["operator.admin".to_owned()];
        let other = device("v3").check(Signed { scopes: &more, ..signed }, ("nonce", 2_000));
        assert!(other.unwrap_err().message.contains("signature invalid"), "it is not what was signed");
    }
}
