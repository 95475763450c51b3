//! The endpoints of providers, with their keys. A key is read when a request is sent; it is neither stored in a run nor
//! printed.

use std::collections::BTreeSet;
use std::ffi::OsStr;
use std::fmt;
use std::path::PathBuf;

use engine::{Candidate, Hash, ProviderAddress};
use models::{Api, Endpoint, ProviderPreset, SECRET_HEADER_BYTES, Secret, provider_preset, provider_presets};
use serde::{Deserialize, Deserializer};

use super::Config;
use super::concealed::{self, HIDDEN};
use super::credentials::Credential;
use super::declared::Profile;
use super::error::{ConfigError, KeyPlace, ValueOrigin};
use super::files::{self, KEY_BYTES};
use super::key_command;
use super::variables::KEY_VARIABLES;

/// Headers whose values are no secrets.
const PUBLIC_HEADERS: &[&str] = &[
    "accept",
    "accept-language",
    "anthropic-beta",
    "anthropic-version",
    "content-type",
    "http-referer",
    "openai-beta",
    "referer",
    "user-agent",
    "x-title",
];

/// The variables that name the proxies of the environment.
const PROXIES: &[&str] = &["HTTP_PROXY", "HTTPS_PROXY", "ALL_PROXY", "http_proxy", "https_proxy", "all_proxy"];

/// The name of the profile that a variable provides.
pub(super) const BY_VARIABLE: &str = "env";

/// The source of a key: `env:NAME`, `file:PATH`, `cmd:COMMAND`, or the key itself.
#[derive(Clone)]
pub(super) enum KeySource {
    Variable(String),
    File(String),
    /// The first line that a command prints is the key.
    Command(String),
    Literal(Secret),
}

impl fmt::Debug for KeySource {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Variable(_) | Self::File(_) | Self::Command(_) => f.write_str(&self.shown()),
            Self::Literal(_) => f.write_str("a literal"),
        }
    }
}

impl KeySource {
    /// Parses a value of the configuration.
    pub(super) fn of(text: &str) -> Self {
        match text.split_once(':') {
            Some(("env", name)) => Self::Variable(name.to_owned()),
            Some(("file", path)) => Self::File(path.to_owned()),
            Some(("cmd", command)) => Self::Command(command.to_owned()),
            _ => Self::Literal(Secret::new(text)),
        }
    }

    /// Where the key is.
    pub(super) fn place(&self) -> KeyPlace {
        match self {
            Self::Literal(_) => KeyPlace::Text,
            Self::Variable(_) => KeyPlace::Variable,
            Self::File(_) => KeyPlace::File,
            Self::Command(_) => KeyPlace::Command,
        }
    }

    /// Whether it only names the place of a key, and may be printed.
    pub(super) fn is_reference(&self) -> bool {
        match self {
            Self::Variable(_) | Self::File(_) | Self::Command(_) => true,
            Self::Literal(_) => false,
        }
    }

    /// Whether a reference is one and not a key after `env:`, `file:` or `cmd:`.
    pub(super) fn is_plausible(&self) -> bool {
        match self {
            Self::Variable(name) => concealed::is_variable(name),
            Self::File(path) => concealed::is_path(path),
            Self::Command(command) => key_command::is_plausible(command),
            Self::Literal(_) => true,
        }
    }

    /// The reference as `config show` and messages show it; a key is not shown, wherever it stands.
    pub(super) fn shown(&self) -> String {
        match self {
            Self::Variable(name) if self.is_plausible() => format!("env:{name}"),
            Self::Variable(_) => format!("env:{HIDDEN}"),
            Self::File(path) if self.is_plausible() => format!("file:{path}"),
            Self::File(_) => format!("file:{HIDDEN}"),
            Self::Command(command) if self.is_plausible() => format!("cmd:{}", key_command::shown(command)),
            Self::Command(_) => format!("cmd:{HIDDEN}"),
            Self::Literal(_) => HIDDEN.to_owned(),
        }
    }
}

/// Whether a text names the place of a key, `env:NAME`, `file:PATH` or `cmd:COMMAND`, and is not the key itself.
pub fn is_reference(text: &str) -> bool {
    let source = KeySource::of(text);
    source.is_reference() && source.is_plausible()
}

/// The value of a key as messages show it.
pub fn shown_key(text: &str) -> String {
    KeySource::of(text).shown()
}

impl<'de> Deserialize<'de> for KeySource {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        Ok(Self::of(&String::deserialize(deserializer)?))
    }
}

/// How a provider is reached: its wire format, address and credentials.
pub(super) struct Route<'a> {
    pub(super) api: &'a str,
    pub(super) base_url: &'a str,
    pub(super) profiles: Vec<(&'a str, Credential<'a>)>,
}

fn by_variable(key: &str) -> Credential<'static> {
    Credential::Key(KeySource::Variable(key.to_owned()))
}

/// The credential of a profile.
fn credential<'a>(provider: &str, route: &'a Route<'_>, profile: &str) -> Result<&'a Credential<'a>, ConfigError> {
    let found = route.profiles.iter().find(|(name, _)| *name == profile).map(|(_, credential)| credential);
    let (provider, profile) = (provider.to_owned(), profile.to_owned());
    found.ok_or(ConfigError::UnknownProfile { provider, profile })
}

impl Config {
    /// The route to a provider: as configured, else as built in. None if it is not available.
    pub(super) fn route(&self, provider: &str) -> Option<Route<'_>> {
        let known = provider_preset(provider);
        if let Some(configured) = self.values.providers.get(provider) {
            let profiles = configured.profiles.iter().filter_map(|p| Some((p.name.as_str(), p.credential()?)));
            return Some(Route {
                api: configured.api.as_deref().or(known.map(|known| known.api.name()))?,
                base_url: configured.base_url.as_deref().or(known.and_then(|known| known.base_url))?,
                profiles: profiles.collect(),
            });
        }
        if provider == "offline" {
            return Some(Route { api: Api::Offline.name(), base_url: "", profiles: vec![] });
        }
        let known = known.filter(|known| self.has_key_of(known))?;
        Some(Route {
            api: known.api.name(),
            base_url: known.base_url?,
            profiles: known.key.map(|key| (BY_VARIABLE, by_variable(key))).into_iter().collect(),
        })
    }

    /// Whether the variable of a provider's key is set, if it needs one.
    fn has_key_of(&self, known: &ProviderPreset) -> bool {
        known.key.is_none_or(|key| self.environment.get(key).is_some())
    }

    /// The known providers whose variable is set and which are used without a configuration, in order, each with its variable and
    /// default model.
    pub fn by_variable(&self) -> Vec<(&'static str, &'static str, &'static str)> {
        let by_variable = |known: &'static ProviderPreset| {
            let variable = known.key.filter(|key| self.environment.get(key).is_some())?;
            Some((known.name, variable, known.model?))
        };
        provider_presets().iter().filter_map(by_variable).collect()
    }

    /// Whether the file or a variable configures a provider.
    pub fn is_configured(&self, provider: &str) -> bool {
        self.values.providers.contains_key(provider)
    }

    /// Whether a provider has configured profiles.
    pub fn has_profiles(&self, provider: &str) -> bool {
        self.values.providers.get(provider).is_some_and(|provider| !provider.profiles.is_empty())
    }

    /// Whether the configuration has headers for a provider.
    pub fn has_headers(&self, provider: &str) -> bool {
        self.values.providers.get(provider).is_some_and(|provider| !provider.headers.is_empty())
    }

    /// The address of a provider, if it has one.
    pub fn address_of(&self, provider: &str) -> Option<String> {
        self.place(provider).ok().map(|endpoint| endpoint.base_url).filter(|address| !address.is_empty())
    }

    /// The key in this variable.
    pub fn key_in(&self, variable: &str) -> Option<Secret> {
        self.environment.get(variable).map(Secret::new)
    }

    /// The settings of built-in providers, as if they were configured: path, value and layer.
    pub(super) fn known_values(&self) -> Vec<(Vec<String>, String, ValueOrigin)> {
        let mut values = vec![];
        for known in provider_presets() {
            let Some(route) = self.route(known.name) else { continue };
            let path =
                |key: &[&str]| ["providers", known.name].iter().chain(key).map(|&part| part.to_owned()).collect();
            values.push((path(&["api"]), route.api.to_owned(), ValueOrigin::Defaults));
            values.push((path(&["base_url"]), route.base_url.to_owned(), ValueOrigin::Defaults));
            if let (Some(variable), None) = (known.key, self.values.providers.get(known.name)) {
                let origin = ValueOrigin::Variable { name: variable.to_owned() };
                values.push((path(&["profiles", "0", "key"]), format!("env:{variable}"), origin));
            }
        }
        values
    }

    /// The keys and headers of providers that cannot be read now, without running a command. None of them prevents a run from
    /// starting.
    pub(super) fn unreadable_keys(&self) -> Vec<ConfigError> {
        let mut wrong = vec![];
        for (name, provider) in &self.values.providers {
            for profile in &provider.profiles {
                for source in profile.sources() {
                    let (provider, profile, place) = (name.clone(), profile.name.clone(), source.place());
                    let unread = self.known_key(source).err();
                    wrong.extend(unread.map(|detail| ConfigError::Key { provider, profile, place, detail }));
                }
            }
            for (header, source) in &provider.headers {
                let (provider, header, place) = (name.clone(), header.clone(), source.place());
                let unread = self.known_key(source).err();
                wrong.extend(unread.map(|detail| ConfigError::Header { provider, header, place, detail }));
            }
        }
        wrong.extend(self.unreadable_search_key());
        wrong
    }

    /// Whether a key or a header of a provider is printed by a command.
    pub(super) fn runs_command_for(&self, provider: &str) -> bool {
        let headers =
            self.values.providers.get(provider).into_iter().flat_map(|configured| configured.headers.values());
        let route = self.route(provider);
        let keys = route.iter().flat_map(|route| &route.profiles).map(|(_, credential)| credential.source());
        headers.chain(keys).any(|source| matches!(source, KeySource::Command(_)))
    }

    /// Where a provider is served, without its key and headers. Nothing is read.
    pub(super) fn place(&self, provider: &str) -> Result<Endpoint, ConfigError> {
        let route = self.route(provider).ok_or_else(|| ConfigError::UnknownProvider {
            model: provider.to_owned(),
            provider: provider.to_owned(),
            known: self.providers(),
        })?;
        let api = Api::from_name(route.api).expect("the declarations accept no other");
        Ok(Endpoint::new(api, route.base_url, None))
    }

    /// The endpoint and key of a request now. `profile` is that of the candidate; none = without a key. Blocks while a command
    /// prints the key: no task calls it.
    pub fn endpoint(&self, provider: &str, profile: Option<&str>) -> Result<Endpoint, ConfigError> {
        self.endpoint_while(provider, profile, &|| true)
    }

    /// The same. A command that prints the key is ended as soon as nobody awaits it any more.
    pub(super) fn endpoint_while(
        &self,
        provider: &str,
        profile: Option<&str>,
        is_awaited: &dyn Fn() -> bool,
    ) -> Result<Endpoint, ConfigError> {
        let mut endpoint = self.place(provider)?;
        if let Some((profile, route)) = profile.zip(self.route(provider)) {
            let credential = credential(provider, &route, profile)?;
            endpoint.login = self.login(provider, profile, credential)?;
            endpoint.key = self.key((provider, profile), credential, is_awaited)?;
            let source = credential.source();
            endpoint.key_source = source.is_reference().then(|| source.shown());
        }
        if let Some(configured) = self.values.providers.get(provider) {
            endpoint.proxy.clone_from(&configured.proxy);
            for (name, source) in &configured.headers {
                let value = self.read_key_while(source, is_awaited).map_err(|detail| ConfigError::Header {
                    provider: provider.to_owned(),
                    header: name.clone(),
                    place: source.place(),
                    detail,
                })?;
                endpoint.headers.push((name.clone(), value));
            }
        }
        Ok(endpoint)
    }

    /// Where the credentials of these candidates are sent now, each profile once.
    pub(super) fn addresses_of<'a>(&self, candidates: impl Iterator<Item = &'a Candidate>) -> Vec<ProviderAddress> {
        let mut addresses: Vec<ProviderAddress> = vec![];
        for Candidate { provider, profile, .. } in candidates {
            let is_known = |known: &ProviderAddress| known.provider == *provider && known.profile == *profile;
            if addresses.iter().any(is_known) {
                continue;
            }
            let address = self.address(provider, profile.as_deref());
            addresses.extend(address.map(|address| ProviderAddress {
                provider: provider.clone(),
                profile: profile.clone(),
                address,
            }));
        }
        addresses
    }

    /// The address of a profile's requests, without reading its key; none for the built-in model.
    fn address(&self, provider: &str, profile: Option<&str>) -> Option<Hash> {
        let route = self.route(provider).filter(|route| !route.base_url.is_empty())?;
        let mut endpoint = Endpoint::new(Api::from_name(route.api)?, route.base_url, None);
        endpoint.proxy = self.values.providers.get(provider).and_then(|configured| configured.proxy.clone());
        if let Some(profile) = profile {
            endpoint.login = self.login(provider, profile, credential(provider, &route, profile).ok()?).ok()?;
        }
        Some(endpoint.address())
    }

    /// The key of a profile; none for a login.
    fn key(
        &self,
        (provider, profile): (&str, &str),
        credential: &Credential<'_>,
        is_awaited: &dyn Fn() -> bool,
    ) -> Result<Option<Secret>, ConfigError> {
        let Credential::Key(source) = credential else { return Ok(None) };
        let (provider, profile) = (provider.to_owned(), profile.to_owned());
        let key = self.read_key_while(source, is_awaited);
        key.map(Some).map_err(|detail| ConfigError::Key { provider, profile, place: source.place(), detail })
    }

    /// The key, if it is known without running a command. An error is the reason why it cannot be read.
    pub(super) fn known_key(&self, source: &KeySource) -> Result<Option<Secret>, String> {
        match source {
            KeySource::Command(command) => Ok(self.environment.command_keys().known(command)),
            KeySource::Literal(_) | KeySource::Variable(_) | KeySource::File(_) => self.read_key(source).map(Some),
        }
    }

    /// Reads a key; an error is the reason why it cannot be read. Blocks while a command runs.
    pub(super) fn read_key(&self, source: &KeySource) -> Result<Secret, String> {
        self.read_key_while(source, &|| true)
    }

    /// The same, until nobody awaits it any more.
    pub(super) fn read_key_while(&self, source: &KeySource, is_awaited: &dyn Fn() -> bool) -> Result<Secret, String> {
        let key = match source {
            KeySource::Literal(key) => key.clone(),
            KeySource::Variable(name) => {
                Secret::new(self.environment.get(name).ok_or_else(|| format!("the variable {name} is not set"))?)
            }
            KeySource::File(path) => {
                let path = self.environment.absolute(path).map_err(|error| error.to_string())?;
                let text = files::read(&path, KEY_BYTES);
                Secret::new(&text.map_err(|error| format!("{} cannot be read ({error})", path.display()))?)
            }
            KeySource::Command(command) => {
                let variables = self.environment.of_key_command(&self.passed_env(), &self.secret_env());
                self.environment.command_keys().get(command, self.environment.helper(), variables, is_awaited)?
            }
        };
        if key.reveal().is_empty() { Err(format!("{source:?} is empty")) } else { Ok(key) }
    }

    /// Every key that can be read now, and those that commands have printed. All of them are masked wherever they appear.
    pub fn secrets(&self) -> Vec<String> {
        let configured = self.key_sources().filter_map(|source| self.known_key(source).ok().flatten());
        let headers = self.header_sources().filter_map(|source| self.known_key(source).ok().flatten());
        let headers = headers.filter(|value| value.reveal().len() >= SECRET_HEADER_BYTES);
        let built_in = KEY_VARIABLES.iter().filter_map(|name| self.environment.get(name)).map(Secret::new);
        let whole: Vec<String> = configured.chain(headers).chain(built_in).map(|key| key.reveal().to_owned()).collect();
        // The token alone is as secret as the header that it is sent in.
        let parts: Vec<String> = whole.iter().flat_map(|value| models::secrets_of_header(value)).collect();
        let addresses = self.addresses().flat_map(models::secrets_of_address);
        whole.into_iter().chain(parts).chain(addresses).collect()
    }

    /// Every address that may hold a password or a key, including those of the environment's proxies.
    fn addresses(&self) -> impl Iterator<Item = &str> {
        let providers = self.values.providers.values();
        let configured = providers.flat_map(|provider| {
            let tokens = provider.profiles.iter().filter_map(|profile| profile.token_url.as_ref());
            provider.base_url.iter().chain(&provider.proxy).chain(tokens)
        });
        let proxies = PROXIES.iter().filter_map(|name| self.environment.get(name));
        configured.chain(&self.values.tools.web_search.url).map(String::as_str).chain(proxies)
    }

    /// The files that no tool may read or write, besides those in the home: the configuration, where a link leads to it,
    /// and the files of keys, with what a refresh writes beside them.
    pub(crate) fn protected_files(&self) -> BTreeSet<PathBuf> {
        let places = self.key_files().flat_map(|path| [path.canonicalize().unwrap_or_else(|_| path.clone()), path]);
        let beside =
            |path: &PathBuf, end: &str| PathBuf::from([path.as_os_str(), OsStr::new(end)].join(OsStr::new("")));
        let keys = places.flat_map(|path| ["", ".lock", ".new"].map(|end| beside(&path, end)));
        keys.chain(self.user_files().iter().cloned()).chain(self.command_files()).collect()
    }

    /// The programs and scripts of the user's own commands, those for keys and the one that calls for the user: they run without a
    /// question, so who may write one may run anything.
    fn command_files(&self) -> impl Iterator<Item = PathBuf> {
        let keys = self.key_sources().chain(self.header_sources()).filter_map(|source| match source {
            KeySource::Command(command) => key_command::words(command),
            KeySource::Variable(_) | KeySource::File(_) | KeySource::Literal(_) => None,
        });
        let home = self.environment.get("HOME").map(PathBuf::from);
        let paths = move |word: String| {
            let mut folders: Vec<PathBuf> = home.clone().into_iter().collect();
            if !word.contains('/') {
                folders.extend(self.environment.get("PATH").into_iter().flat_map(std::env::split_paths));
            }
            let here = self.environment.absolute(&word).ok();
            let named = folders.into_iter().map(|folder| folder.join(&word)).chain(here);
            named.filter(|path| path.is_file()).collect::<Vec<_>>()
        };
        let words = keys.chain(self.values.notify.command.clone()).flatten();
        words.flat_map(paths).flat_map(|path| [path.canonicalize().unwrap_or_else(|_| path.clone()), path])
    }

    /// The files of keys and headers, as the configuration names them.
    pub(super) fn key_files(&self) -> impl Iterator<Item = PathBuf> {
        self.key_sources().chain(self.header_sources()).filter_map(|source| match source {
            KeySource::File(path) => self.environment.absolute(path).ok(),
            KeySource::Variable(_) | KeySource::Command(_) | KeySource::Literal(_) => None,
        })
    }

    /// The addresses from which pages may be fetched.
    pub fn network_policy(&self) -> tools::NetworkPolicy {
        if self.values.tools.web_fetch.allow_private {
            tools::NetworkPolicy::Anywhere
        } else {
            tools::NetworkPolicy::Public
        }
    }

    pub(super) fn key_sources(&self) -> impl Iterator<Item = &KeySource> {
        let profiles = self.values.providers.values().flat_map(|provider| &provider.profiles);
        let webhooks = self.values.webhooks.values().filter_map(|webhook| webhook.secret.as_ref());
        let routes = self.values.routes.values().flat_map(|route| route.url.iter().chain(&route.secret));
        profiles.flat_map(Profile::sources).chain(&self.values.tools.web_search.key).chain(webhooks).chain(routes)
    }

    /// The sources of headers that may hold secrets. A literal value of a header that says what a request is holds none;
    /// masking it would garble ordinary text.
    pub(super) fn header_sources(&self) -> impl Iterator<Item = &KeySource> {
        let headers = self.values.providers.values().flat_map(|provider| &provider.headers);
        let is_public = |(name, source): &(&String, &KeySource)| {
            !source.is_reference() && PUBLIC_HEADERS.iter().any(|known| name.eq_ignore_ascii_case(known))
        };
        headers.filter(move |header| !is_public(header)).map(|(_, source)| source)
    }

    /// The names of all available providers, for messages.
    pub(super) fn providers(&self) -> Vec<String> {
        let mut names: Vec<String> = self.values.providers.keys().cloned().collect();
        for built_in in ["offline"].into_iter().chain(provider_presets().iter().map(|known| known.name)) {
            if !names.iter().any(|name| name == built_in) && self.route(built_in).is_some() {
                names.push(built_in.to_owned());
            }
        }
        names
    }
}
