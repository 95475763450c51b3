//! The credentials of the profiles of a provider: a key, or a login that requests access tokens. Never holds a secret
//! of a login.

use std::collections::BTreeMap;
use std::time::Duration;

use models::Login;
use serde::{Deserialize, Deserializer};

use super::Config;
use super::declared::Profile;
use super::endpoints::KeySource;
use super::error::ConfigError;

/// Maximum timeout of a refresh, seconds: a token server responds faster than a model.
const REFRESH_MOST_S: u64 = 30;

/// The kind of credential that a profile sends.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "lowercase")]
pub(super) enum ProfileKind {
    #[default]
    Key,
    /// An access token, requested with a refresh token.
    OAuth,
}

impl ProfileKind {
    /// The name of the kind in the configuration.
    pub(super) fn name(self) -> &'static str {
        match self {
            Self::Key => "key",
            Self::OAuth => "oauth",
        }
    }
}

/// The default name of a profile.
pub(super) fn unnamed() -> String {
    "default".to_owned()
}

/// The credential of a request.
#[derive(Debug, Clone)]
pub(super) enum Credential<'a> {
    Key(KeySource),
    /// An access token, requested from `token_url`.
    Login {
        token_url: &'a str,
        client_id: &'a str,
        /// The source of the refresh token.
        refresh: &'a KeySource,
    },
}

impl Credential<'_> {
    /// Whether it can be renewed after a provider refused it.
    pub(super) fn can_refresh(&self) -> bool {
        match self {
            Self::Key(_) => false,
            Self::Login { .. } => true,
        }
    }

    /// The source of the secret: the key or the refresh token.
    pub(super) fn source(&self) -> &KeySource {
        match self {
            Self::Key(source) => source,
            Self::Login { refresh, .. } => refresh,
        }
    }
}

impl Profile {
    /// The credential; none if a key is missing, which is an error of the configuration.
    pub(super) fn credential(&self) -> Option<Credential<'_>> {
        match self.kind {
            ProfileKind::Key => self.key.clone().map(Credential::Key),
            ProfileKind::OAuth => Some(Credential::Login {
                token_url: self.token_url.as_deref()?,
                client_id: self.client_id.as_deref()?,
                refresh: self.refresh.as_ref()?,
            }),
        }
    }

    /// The sources of its secrets.
    pub(super) fn sources(&self) -> impl Iterator<Item = &KeySource> {
        self.key.iter().chain(&self.refresh)
    }

    /// The missing keys, each with the value that it takes.
    pub(super) fn missing(&self) -> impl Iterator<Item = (&'static str, &'static str)> {
        let required: &[_] = match self.kind {
            ProfileKind::Key => &[(self.key.is_some(), "key", "env:NAME, file:PATH, cmd:COMMAND or the key itself")],
            ProfileKind::OAuth => &[
                (self.token_url.is_some(), "token_url", "the address that access tokens are requested from"),
                (self.client_id.is_some(), "client_id", "the name by which the token server knows this program"),
                (self.refresh.is_some(), "refresh", "file:PATH, of the file that holds the refresh token"),
            ],
        };
        let missing: Vec<_> =
            required.iter().filter(|(is_set, ..)| !is_set).map(|(_, key, what)| (*key, *what)).collect();
        missing.into_iter()
    }

    /// The keys that belong to the other kind of profile.
    pub(super) fn misplaced(&self) -> impl Iterator<Item = &'static str> {
        let foreign: &[_] = match self.kind {
            ProfileKind::Key => &[
                (self.token_url.is_some(), "token_url"),
                (self.client_id.is_some(), "client_id"),
                (self.refresh.is_some(), "refresh"),
            ],
            ProfileKind::OAuth => &[(self.key.is_some(), "key")],
        };
        let misplaced: Vec<_> = foreign.iter().filter(|(is_set, _)| *is_set).map(|(_, key)| *key).collect();
        misplaced.into_iter()
    }
}

/// Reads a list whose entries are keyed by their numbers, so that a variable can set one of them.
pub(super) fn in_order<'de, T: Deserialize<'de>, D: Deserializer<'de>>(deserializer: D) -> Result<Vec<T>, D::Error> {
    let by_number: BTreeMap<String, T> = BTreeMap::deserialize(deserializer)?;
    let mut entries: Vec<(String, T)> = by_number.into_iter().collect();
    entries.sort_by_key(|(number, _)| number.parse::<u32>().unwrap_or(u32::MAX));
    Ok(entries.into_iter().map(|(_, entry)| entry).collect())
}

impl Config {
    /// The login of a profile; none for a key. The refresh token itself is read when it is needed.
    pub(super) fn login(
        &self,
        provider: &str,
        profile: &str,
        credential: &Credential<'_>,
    ) -> Result<Option<Login>, ConfigError> {
        let Credential::Login { token_url, client_id, refresh } = *credential else { return Ok(None) };
        let place = match refresh {
            KeySource::File(path) => self.environment.absolute(path)?,
            KeySource::Variable(_) | KeySource::Command(_) | KeySource::Literal(_) => {
                unreachable!("the declarations accept only a file")
            }
        };
        Ok(Some(Login {
            provider: provider.to_owned(),
            profile: profile.to_owned(),
            token_url: token_url.to_owned(),
            client_id: client_id.to_owned(),
            place,
            proxy: self.values.providers.get(provider).and_then(|configured| configured.proxy.clone()),
            limit: Duration::from_secs(self.values.requests.first_byte_timeout_s.min(REFRESH_MOST_S)),
        }))
    }
}

#[cfg(test)]
mod tests {
    use std::fs;

    use engine::Overrides;

    use super::super::{Environment, FILE, FlagValues, Subject};
    use super::*;

    /// A provider with a key and a login.
    const ACME: &str = "[agents.main]\nmodel = \"acme/m\"\n[providers.acme]\napi = \"openai-chat\"\nbase_url = \"http://h\"\n\
                        proxy = \"http://127.0.0.1:2\"\n[requests]\nfirst_byte_timeout_s = 7\n[[providers.acme.profiles]]\nname = \"work\"\n\
                        kind = \"oauth\"\ntoken_url = \"https://h/token\"\nclient_id = \"limulus\"\nrefresh = \"file:~/token\"\n\
                        [[providers.acme.profiles]]\nname = \"home\"\nkind = \"key\"\nkey = \"sk-literal\"\n";

    fn load(file: &str, user: &str) -> Result<Config, ConfigError> {
        let home = tempfile::tempdir().unwrap();
        fs::write(home.path().join(FILE), file).unwrap();
        Config::load(home.path(), &Environment::of(&[("HOME", user)], "/now"), FlagValues::default())
    }

    #[test]
    fn r50_a_login_is_resolved_like_a_key_and_its_file_holds_a_secret() {
        let user = tempfile::tempdir().unwrap();
        let place = user.path().join("token");
        fs::write(&place, "rt-secret\n").unwrap();
        let config = load(ACME, user.path().to_str().unwrap()).unwrap();
        let overrides = Overrides::default();
        let subject = Subject {
            agent: "main",
            overrides: &overrides,
            session: runtime::SessionContext::default(),
            date: "2026-11-22",
        };
        let candidates = config.resolve(subject).unwrap().settings.candidates;
        let candidates: Vec<_> =
            candidates.iter().map(|one| (one.profile.as_deref().unwrap(), one.can_refresh)).collect();
        assert_eq!(candidates, [("work", true), ("home", false)]);
        let endpoint = config.endpoint("acme", Some("work")).unwrap();
        let expected = Login {
            provider: "acme".to_owned(),
            profile: "work".to_owned(),
            token_url: "https://h/token".to_owned(),
            client_id: "limulus".to_owned(),
            place: place.clone(),
            proxy: Some("http://127.0.0.1:2".to_owned()),
            limit: Duration::from_secs(7),
        };
        assert_eq!((endpoint.login, endpoint.key), (Some(expected), None));
        let endpoint = config.endpoint("acme", Some("home")).unwrap();
        assert_eq!((endpoint.login, endpoint.key.unwrap().reveal()), (None, "sk-literal"));
        assert_eq!(config.secrets(), ["rt-secret", "sk-literal"]);
        assert_eq!(config.key_status("acme").to_string(), "✓ file:~/token");
        fs::remove_file(&place).unwrap();
        let unread = config.unreadable_keys();
        assert!(unread.len() == 1 && unread[0].to_string().contains("(profile `work`)"), "{unread:?}");
    }

    #[test]
    fn r50_each_error_of_a_login_has_a_hint() {
        let wrong = |from: &str, to: &str| {
            let error = load(&ACME.replacen(from, to, 1), "/u").unwrap_err();
            let text = format!("{error} ({})", error.hint());
            text.split_once("/config.toml:").map_or(text.clone(), |(_, rest)| rest.to_owned())
        };
        let place = "providers.acme.profiles.0";
        for (from, to, expected) in [
            ("\"oauth\"", "\"login\"", format!("11:1: `{place}.kind` cannot be \"login\" (it takes one of key, oauth)")),
            (
                "kind = \"oauth\"\n",
                "",
                format!("`{place}.token_url` is not for a profile of kind \"key\" (remove it, or write kind = \"oauth\" beside it)"),
            ),
            (
                "token_url = \"https://h/token\"\n",
                "",
                format!("`{place}.token_url` is missing (add it to config.toml: it takes the address that access tokens are requested from)"),
            ),
            (
                "client_id = \"limulus\"\n",
                "",
                format!("`{place}.client_id` is missing (add it to config.toml: it takes the name by which the token server knows this program)"),
            ),
            (
                "refresh = \"file:~/token\"\n",
                "",
                format!("`{place}.refresh` is missing (add it to config.toml: it takes file:PATH, of the file that holds the refresh token)"),
            ),
            (
                "refresh = \"file:~/token\"",
                "refresh = \"file:~/token\"\nkey = \"sk-x\"",
                format!("`{place}.key` is not for a profile of kind \"oauth\" (remove it, or write kind = \"key\" beside it)"),
            ),
            (
                "key = \"sk-literal\"",
                "key = \"sk-literal\"\nclient_id = \"c\"",
                "`providers.acme.profiles.1.client_id` is not for a profile of kind \"key\" (remove it, or write kind = \"oauth\" beside it)".to_owned(),
            ),
            (
                "name = \"home\"",
                "name = \"work\"",
                "`providers.acme.profiles.1.name` is the name of another profile of its provider, or both have none (give each profile of a provider a name of its own, such as name = \"work\")".to_owned(),
            ),
            (
                "https://h/token",
                "http://h/token",
                format!("12:1: `{place}.token_url` cannot be \"http://h/token\" (it takes an address that begins with https://, or with http:// on this machine)"),
            ),
            (
                "file:~/token",
                "rt-secret",
                format!("14:1: `{place}.refresh` cannot be what it holds (it takes file:PATH, of a file that holds the refresh token and nothing else; new ones are written there)"),
            ),
        ] {
            assert_eq!(wrong(from, to), expected);
        }
    }
}
