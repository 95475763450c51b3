//! The configuration: its settings (`declared`, `settings`, `kind`), its layers (`layers`, of a project `project_layer` and
//! `stricter`) and their files (`places`), the settings of a run (`resolve`), the endpoints of models (`endpoints`) and their credentials (`credentials`). Commands print the values
//! in force (`effective`), errors and warnings (`review`), and every key with its purpose (`reference`, `schema`);
//! `reload` notices a changed file, and `resolver` gives the runtime what is in force. What may not live here: reading or
//! writing of anything but configuration, and printing: a command prints what it gets from here.

#![deny(clippy::print_stdout, clippy::print_stderr)]

mod budget;
mod capacity;
mod concealed;
mod credentials;
mod declared;
mod deprecated;
mod effective;
mod endpoints;
mod environment;
mod error;
mod figures;
mod files;
mod globals;
mod in_use;
mod key_command;
mod key_path;
mod key_status;
mod kind;
mod layers;
mod limits;
mod model_name;
mod nearest;
mod places;
mod profiles;
mod project;
mod project_layer;
mod reference;
mod reload;
mod resolve;
mod resolver;
mod review;
mod routes;
mod rules;
mod schema;
mod search;
mod session;
mod settings;
mod stricter;
#[cfg(test)]
mod tests;
mod trust;
mod variables;
mod warnings;
mod webhooks;
mod zone;

use std::collections::BTreeMap;
use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use engine::{LaneBounds, ModeSource, QueueSettings, SharedBudget};
use jiff::Zoned;
use serde::Deserialize;

pub use capacity::size;
pub use concealed::{address as shown_address, has_key as has_provider_key, is_address};
pub use declared::NotifyBy;
pub use declared::WebhookSignature;
pub use effective::{Effective, Setting};
pub use endpoints::{is_reference, shown_key};
pub use environment::Environment;
pub use error::{ConfigError, KeyPlace};
pub use figures::Figures;
pub use files::{make_private, read_config};
pub use globals::Globals;
pub use key_command::HELPER as KEY_COMMAND_HELPER;
pub use key_path::{KeyPath, KeyValue};
pub use key_status::KeyStatus;
pub use places::{Place, file_of, places};
pub use project::default_session;
pub use reference::template;
pub use resolve::{Resolved, Subject};
pub use resolver::{ConfigResolver, today};
pub use review::{Remark, Review};
pub use schema::schema;
pub use trust::{FileTrust, ProjectTrust, TrustedAllowance};
pub use warnings::fresh;
pub use webhooks::{ConfiguredWebhook, WebhookError};
pub use zone::{local_now, local_zone};

use declared::{
    Agent, Approvals, Budget, Compaction, Display, Gateway, Lanes, ModelFigures, Notify, Offline, PolicyEntry, Profile,
    Provider, Queue, Reply, ReplyRoute, Requests, Retention, Runs, Serve, Session, SkillOptions, Telemetry, Tools,
    Undo, Webhook,
};
use layers::Layers;
use reload::{Stamps, stamps};

/// The name of the file in the home.
pub const FILE: &str = "config.toml";

/// The settings that flags override for one command.
#[derive(Debug, Clone, Default)]
pub struct FlagValues {
    /// `--workspace`: the folder to work in, for all agents.
    pub workspace: Option<String>,
    /// Whether it serves others: then its current folder is nobody's workspace.
    pub is_service: bool,
    /// Whether it runs what it is sent by itself, without a terminal: it would have to stay until somebody answers.
    pub is_unattended: bool,
}

/// The whole configuration, checked.
#[derive(Debug, Clone)]
pub struct Config {
    home: PathBuf,
    /// The user's files, the strongest first.
    files: Vec<PathBuf>,
    /// The stamps of these files just before they were read.
    stamps: Stamps,
    environment: Environment,
    flags: FlagValues,
    values: Values,
    layers: Arc<Layers>,
}

impl Config {
    /// Reads every layer. Fails with the first error.
    pub fn load(home: &Path, environment: &Environment, flags: FlagValues) -> Result<Self, ConfigError> {
        let (config, wrong) = Self::read(home, environment, flags);
        wrong.into_iter().next().map_or(Ok(config), Err)
    }

    /// Reads every layer but that of a project and collects all errors. The configuration holds the values without errors.
    fn read(home: &Path, environment: &Environment, flags: FlagValues) -> (Self, Vec<ConfigError>) {
        let files = places::of_user(home, environment);
        let stamps = stamps(&files);
        let layers = Layers::read(&files, environment);
        Self::assemble(home, environment, flags, (files, stamps, layers))
    }

    fn assemble(
        home: &Path,
        environment: &Environment,
        flags: FlagValues,
        (files, stamps, layers): (Vec<PathBuf>, Stamps, Layers),
    ) -> (Self, Vec<ConfigError>) {
        let whole = toml::Value::Table(layers.table());
        let values: Values = whole.try_into().expect("every value was checked against the table of keys");
        let mut wrong = layers.wrong().to_vec();
        for (name, provider) in &values.providers {
            // A wrong value is already reported, and not missing. If the kind of a profile is wrong, its keys are not
            // checked.
            let of_no_kind =
                |key: &str| key.rsplit_once('.').is_some_and(|(table, _)| layers.is_wrong(&format!("{table}.kind")));
            // Reported before missing keys: the actual mistake may be the kind.
            let misplaced = provider.misplaced(name).into_iter().filter(|(key, _)| !of_no_kind(key));
            wrong.extend(misplaced.map(|(key, kind)| ConfigError::Misplaced { key, kind }));
            wrong.extend(provider.same_names(name).map(|key| ConfigError::SameProfile { key }));
            let missing = provider.missing(name).into_iter();
            let missing = missing.filter(|(key, _)| !layers.is_wrong(key) && !of_no_kind(key));
            wrong.extend(missing.map(|(key, expected)| ConfigError::Missing { key, expected: expected.to_owned() }));
        }
        for number in 0..values.policy.len() {
            let key = format!("policy.{number}.decision");
            if values.policy[number].decision.is_none() && !layers.is_wrong(&key) {
                wrong.push(ConfigError::Missing { key, expected: "allow, ask or deny".to_owned() });
            }
        }
        let missing = values.tools.web_search.missing().into_iter();
        let missing = missing.filter(|(key, _)| !layers.is_wrong(key));
        wrong.extend(
            missing.map(|(key, expected)| ConfigError::Missing { key: key.to_owned(), expected: expected.to_owned() }),
        );
        let missing = values.webhooks.iter().flat_map(|(name, webhook)| webhook.missing(name));
        wrong.extend(
            missing
                .filter(|(key, _)| !layers.is_wrong(key))
                .map(|(key, expected)| ConfigError::Missing { key, expected: expected.to_owned() }),
        );
        wrong.extend(values.webhooks.iter().filter_map(|(name, webhook)| webhook.unreadable(name)));
        wrong.extend(values.webhooks.iter().filter_map(|(name, webhook)| webhook.unrouted(name, &values.routes)));
        wrong.extend(values.routes.iter().flat_map(|(name, route)| route.wrong(name, &layers)));
        let missing = values.models.iter().filter_map(|(model, figures)| figures.missing(model));
        wrong.extend(
            missing
                .filter(|(key, _)| !layers.is_wrong(key))
                .map(|(key, expected)| ConfigError::Missing { key, expected }),
        );
        let (home, environment, layers) = (home.to_owned(), environment.clone(), Arc::new(layers));
        (Self { home, files, stamps, environment, flags, values, layers }, wrong)
    }

    /// How many runs execute at once, by lane.
    pub fn lanes(&self) -> LaneBounds {
        let Lanes { main, subagent, cron } = self.values.lanes;
        let agent = self.values.budget.runs_of_agent();
        let agents = self.values.budget.agents_at_once();
        LaneBounds { main: main.into(), subagent: subagent.into(), cron: cron.into(), agent, agents }
    }

    /// The names of the configured agents.
    pub fn agents(&self) -> Vec<String> {
        self.values.agents.keys().cloned().collect()
    }

    /// The budgets that all sessions share.
    pub(crate) fn shared_budget(&self) -> SharedBudget {
        self.values.budget.shared()
    }

    /// The default queue settings of an agent, and the time before which conversations are stale now.
    pub fn queue(&self, agent: &str, now: &Zoned) -> QueueSettings {
        let Queue { mode, debounce_ms, cap, drop, cut, interrupt, .. } = self.values.queue;
        let agent = self.values.agents.get(agent);
        let of_home =
            if self.layers.is_configured(&["queue", "mode"]) { ModeSource::Configuration } else { ModeSource::BuiltIn };
        let of_agent = agent.and_then(|agent| agent.queue);
        let (mode, mode_by) = of_agent.map_or((mode, of_home), |mode| (mode, ModeSource::Agent));
        let interrupt = agent.and_then(|agent| agent.interrupt).unwrap_or(interrupt);
        let stale_before = self.values.session.reset.stale_before(now);
        QueueSettings { mode, mode_by, debounce_ms, cap, drop, cut, interrupt, message_interrupt: None, stale_before }
    }

    /// Idle time after which a service ends a session; none = never.
    pub fn idle_timeout(&self) -> Option<Duration> {
        self.values.session.idle_timeout_s.get().map(Duration::from_secs)
    }

    /// Days after which unneeded texts and outputs are erased; none = never.
    pub fn keep_days(&self) -> Option<u32> {
        self.values.retention.keep_days.get()
    }

    /// The maximum size of the journal, bytes; none = unlimited.
    pub(crate) fn journal_bytes(&self) -> Option<u64> {
        self.values.retention.journal_mb.get().map(|most| most << 20)
    }

    /// How much is kept of what files held before they were changed.
    pub fn store_limits(&self) -> tools::StoreLimits {
        let Undo { max_mb, keep_days, file_mb, commands, workspace_mb, workspace_files } = self.values.undo;
        let bytes = |most: Option<u64>| most.map_or(u64::MAX, |most| most << 20);
        tools::StoreLimits {
            file_bytes: bytes(file_mb.get()),
            most_bytes: bytes(max_mb.get()),
            workspace: commands.then(|| tools::WorkspaceLimits {
                files: workspace_files.get().map_or(usize::MAX, |files| files as usize),
                // The contents of one workspace are never the reason to remove those of all others.
                bytes: bytes(workspace_mb.get()).min(bytes(max_mb.get()) / 2),
            }),
            keep_ms: keep_days.get().map_or(u64::MAX, |days| u64::from(days) * 24 * 60 * 60 * 1000),
        }
    }

    /// A warning for each old name that the user's files and the variables use.
    pub fn deprecated(&self) -> &[String] {
        self.layers.deprecated()
    }

    /// The home: the folder with the journal.
    pub fn home(&self) -> &Path {
        &self.home
    }

    /// The user's folder, if it is known.
    pub fn user_folder(&self) -> Option<PathBuf> {
        self.environment.get("HOME").map(PathBuf::from)
    }

    /// The prefix that marks a steer for the model.
    pub(crate) fn steer_prefix(&self) -> Arc<str> {
        Arc::clone(&self.values.queue.steer_prefix)
    }

    /// How long streaming answers may continue when the service is stopped.
    pub fn drain(&self) -> Duration {
        Duration::from_secs(self.values.serve.drain_s)
    }

    /// Where a service listens besides its socket; none = nowhere.
    pub fn listen(&self) -> Option<SocketAddr> {
        self.values.gateway.listen.parse().ok()
    }

    /// The files of the certificate with which the service encrypts, and of its key, as they are configured.
    pub fn tls(&self) -> (Option<&str>, Option<&str>) {
        let gateway = &self.values.gateway;
        (gateway.tls_cert.as_deref(), gateway.tls_key.as_deref())
    }

    /// Whether a proxy that encrypts stands before the service.
    pub fn is_behind_proxy(&self) -> bool {
        self.values.gateway.behind_proxy
    }

    /// Further names under which clients reach the service.
    pub fn hosts(&self) -> &[String] {
        &self.values.gateway.hosts
    }

    /// The collector that receives traces; none = nobody does.
    pub fn otlp(&self) -> Option<&str> {
        self.values.telemetry.otlp.as_deref()
    }

    /// The delay of the built-in model before each piece of its answer.
    pub fn offline_pace(&self) -> Duration {
        Duration::from_millis(self.values.offline.pace_ms)
    }

    /// How a run on a terminal calls for its user; none = not at all.
    pub fn notifications(&self) -> Option<Notifications> {
        let Notify { after_s, by, command } = &self.values.notify;
        let after = Duration::from_secs(after_s.get()?);
        Some(Notifications { after, by: by.clone(), command: command.clone().unwrap_or_default() })
    }

    /// Whether commands show the output of every call.
    pub fn is_verbose(&self) -> bool {
        self.values.display.verbose
    }

    /// Whether answers are shown on a terminal as they are written.
    pub fn is_markdown_raw(&self) -> bool {
        self.values.display.markdown == declared::MarkdownMode::Raw
    }
}

/// How a run on a terminal calls for its user.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Notifications {
    /// After this time without the user.
    pub after: Duration,
    /// What is sent to the terminal.
    pub by: Vec<NotifyBy>,
    /// The program that is started, with its arguments; empty = none.
    pub command: Vec<String>,
}

/// The values of all settings; `declared` declares their types.
#[derive(Debug, Clone, Deserialize)]
#[serde(deny_unknown_fields)]
struct Values {
    agents: BTreeMap<String, Agent>,
    runs: Runs,
    requests: Requests,
    tools: Tools,
    sandbox: declared::Sandbox,
    approvals: Approvals,
    compaction: Compaction,
    budget: Budget,
    session: Session,
    retention: Retention,
    undo: Undo,
    queue: Queue,
    lanes: Lanes,
    serve: Serve,
    gateway: Gateway,
    #[serde(default)]
    webhooks: BTreeMap<String, Webhook>,
    reply: Reply,
    #[serde(default)]
    routes: BTreeMap<String, ReplyRoute>,
    #[serde(default)]
    telemetry: Telemetry,
    display: Display,
    notify: Notify,
    offline: Offline,
    #[serde(default, deserialize_with = "credentials::in_order")]
    policy: Vec<PolicyEntry>,
    #[serde(default)]
    skills: BTreeMap<String, SkillOptions>,
    #[serde(default)]
    providers: BTreeMap<String, Provider>,
    #[serde(default)]
    models: BTreeMap<String, ModelFigures>,
}

impl Provider {
    /// The missing keys, each with the value that it takes.
    fn missing(&self, name: &str) -> Vec<(String, &'static str)> {
        let known = models::provider_preset(name);
        let mut missing = vec![];
        let key = |key: &str| layers::dotted(&["providers".to_owned(), name.to_owned()]) + "." + key;
        if self.api.is_none() && known.is_none() {
            missing.push((key("api"), "the wire format, such as \"openai-chat\""));
        }
        if self.base_url.is_none() && known.is_none_or(|known| known.base_url.is_none()) {
            missing.push((key("base_url"), "the address of the API, such as \"http://127.0.0.1:9911/v1\""));
        }
        for (number, profile) in self.profiles.iter().enumerate() {
            missing.extend(
                profile.missing().map(|(part, expected)| (key(&format!("profiles.{number}.{part}")), expected)),
            );
        }
        missing
    }

    /// The keys of the names that an earlier profile has as well.
    fn same_names(&self, name: &str) -> impl Iterator<Item = String> {
        let table = layers::dotted(&["providers".to_owned(), name.to_owned()]);
        let names = |number: usize| self.profiles[..number].iter().map(|profile| &profile.name);
        let profiles = self.profiles.iter().enumerate();
        let again = profiles.filter(move |(number, profile)| names(*number).any(|before| *before == profile.name));
        again.map(move |(number, _)| format!("{table}.profiles.{number}.name"))
    }

    /// The keys that belong to another kind of profile, each with the kind of its profile.
    fn misplaced(&self, name: &str) -> Vec<(String, &'static str)> {
        let table = layers::dotted(&["providers".to_owned(), name.to_owned()]);
        let misplaced = |(number, profile): (usize, &Profile)| {
            let key = |part: &str| (format!("{table}.profiles.{number}.{part}"), profile.kind.name());
            profile.misplaced().map(key).collect::<Vec<_>>()
        };
        self.profiles.iter().enumerate().flat_map(misplaced).collect()
    }
}
