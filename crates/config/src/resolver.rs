//! Resolves the configuration for the runtime: settings when a run starts, an endpoint when a request is sent, secrets
//! to redact when a call starts. It reads the file again after a change. A started run keeps its settings.

use std::borrow::Cow;
use std::collections::BTreeSet;
use std::fs;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use engine::{
    Candidate, Failure, FailureClass, LaneBounds, Overrides, QueueSettings, ReplySettings, Settings, SharedBudget,
};
use models::{Endpoint, Logins};
use runtime::{Redaction, Resolver, RouteTarget, SessionContext};
use tokio::sync::mpsc;

use super::capacity::{self, Capacity};
use super::warnings::fresh;
use super::zone::local_now;
use super::{Config, ConfigError, Stamps, Subject};

/// How long a run that starts may rely on what its message was checked with: as long as a busy thread needs between the two.
const CHECKED_FOR: Duration = Duration::from_millis(2);

/// Resolves from the latest usable configuration.
pub struct ConfigResolver {
    current: Mutex<Current>,
    /// The last workspace whose project says nothing, and when that was looked up.
    unrestricted: Mutex<Option<(PathBuf, Instant)>>,
    /// Notes for the user about a changed file.
    notes: mpsc::Sender<String>,
}

struct Current {
    config: Arc<Config>,
    /// The last version of the user's files that was read, usable or not.
    seen: Stamps,
    /// Every key that this process has used: a former secret stays redacted.
    secrets: Vec<String>,
    /// Every file that has held a key or the configuration.
    protected: BTreeSet<PathBuf>,
    redaction: Redaction,
    /// Access tokens of logged-in profiles.
    logins: Logins,
    /// The last note about the space of the journal.
    space_note: Option<String>,
}

impl ConfigResolver {
    /// Begins with this configuration, which must have been read from the file. `notes` receives what the user is to know;
    /// a note that has no space there is dropped.
    pub fn new(config: Arc<Config>, logins: Logins, notes: mpsc::Sender<String>) -> Self {
        let (secrets, protected, redaction) = (vec![], BTreeSet::new(), Redaction::default());
        let seen = config.stamps().clone();
        let mut current = Current { seen, config, secrets, protected, redaction, logins, space_note: None };
        current.withhold();
        Self { current: Mutex::new(current), unrestricted: Mutex::default(), notes }
    }

    /// The configuration in force. If the changed file is unusable, the previous one stays in force and a note says
    /// why.
    fn current(&self) -> MutexGuard<'_, Current> {
        let mut current = self.lock();
        let stamps = current.config.stamps_now();
        if stamps != current.seen {
            current.seen = stamps;
            let note = match current.config.again() {
                Ok(config) => {
                    // The file may have been written again before it was read.
                    current.seen.clone_from(config.stamps());
                    current.config = Arc::new(config);
                    current.withhold();
                    for warning in fresh(current.config.deprecated()) {
                        // A closed channel has no reader left; a full one has a reader with enough to read.
                        let _ = self.notes.try_send(warning);
                    }
                    "config.toml has changed: providers and keys apply from the next request on, everything else \
                     from the next run on"
                        .to_owned()
                }
                Err(error) => format!(
                    "config.toml has changed and cannot be used, so the previous configuration stays in force: {error} ({})",
                    error.hint()
                ),
            };
            // The receiver is gone if the command has ended.
            let _ = self.notes.try_send(note);
        }
        current
    }

    fn lock(&self) -> MutexGuard<'_, Current> {
        self.current.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn unrestricted(&self) -> MutexGuard<'_, Option<(PathBuf, Instant)>> {
        self.unrestricted.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Whether it was found a moment ago that the project of this workspace says nothing.
    fn is_unrestricted(&self, workspace: &Path) -> bool {
        let last = self.unrestricted();
        last.as_ref().is_some_and(|(known, at)| known == workspace && at.elapsed() < CHECKED_FOR)
    }
}

impl Current {
    /// Builds the redaction again.
    fn withhold(&mut self) {
        self.secrets.extend(self.config.secrets());
        self.secrets.extend(self.logins.secrets());
        self.secrets.sort();
        self.secrets.dedup();
        self.protected.extend(self.config.protected_files());
        self.redaction = Redaction {
            secrets: tools::Secrets::new(&self.secrets),
            secret_env: self.config.secret_env(),
            passed_env: self.config.passed_env(),
            reach: self.config.network_policy(),
            protected: tools::Protected::files(self.protected.iter().cloned()),
            undo: self.config.store_limits(),
            search: self.config.search_provider(),
        };
    }

    /// Reads the files of keys and headers again, because their contents may have changed.
    fn keep_secrets(&mut self) {
        self.keep(&self.config.secrets());
    }

    fn keep(&mut self, secrets: &[String]) {
        if secrets.iter().any(|secret| !self.secrets.contains(secret)) {
            self.secrets.extend_from_slice(secrets);
            self.withhold();
        }
    }
}

impl Resolver for ConfigResolver {
    fn settings(&self, agent: &str, session: SessionContext<'_>, overrides: &Overrides) -> Result<Settings, Failure> {
        let subject = Subject { agent, overrides, session, date: &today() };
        let config = Arc::clone(&self.current().config);
        match capacity::capacity(config.home(), config.journal_bytes()) {
            Capacity::Enough => {}
            Capacity::Little(note) => {
                // Nobody needs the note twice, and nobody needs it after the command has ended.
                let known = self.current().space_note.replace(note.clone());
                if known.as_ref() != Some(&note) {
                    drop(self.notes.try_send(note));
                }
            }
            Capacity::None(why) => return Err(capacity::no_space(why)),
        }
        let wrong = |error| refused(&error, FailureClass::Refused);
        let workspace = config.workspace_of(subject).map_err(wrong)?;
        let within = config.within(&workspace).map_err(wrong)?;
        let resolved = within.resolve_in(&workspace, subject).map_err(wrong)?;
        if let Cow::Borrowed(_) = within {
            *self.unrestricted() = Some((workspace, Instant::now()));
        }
        if let Some(own) = config.own_workspace(agent, overrides).map_err(wrong)?
            && !own.is_dir()
        {
            let made = fs::create_dir_all(&own);
            made.map_err(|source| {
                wrong(ConfigError::OwnWorkspace { agent: agent.to_owned(), path: own.clone(), why: source.to_string() })
            })?;
            drop(self.notes.try_send(format!("made the workspace {} of agent {agent}", own.display())));
        }
        Ok(resolved.settings)
    }

    fn settings_again(
        &self,
        agent: &str,
        session: SessionContext<'_>,
        overrides: &Overrides,
    ) -> Result<Settings, Failure> {
        let subject = Subject { agent, overrides, session, date: &today() };
        let config = Arc::clone(&self.lock().config);
        match config.workspace_of(subject) {
            Ok(workspace) if self.is_unrestricted(&workspace) => {
                let resolved = config.resolve_in(&workspace, subject);
                Ok(resolved.map_err(|error| refused(&error, FailureClass::Refused))?.settings)
            }
            _ => self.settings(agent, session, overrides),
        }
    }

    fn reply(&self, overrides: &Overrides) -> ReplySettings {
        self.lock().config.reply(overrides)
    }

    fn agents(&self) -> Vec<String> {
        self.current().config.agents()
    }

    fn queue(&self, agent: &str) -> QueueSettings {
        self.current().config.queue(agent, &local_now())
    }

    fn mark(&self) -> Arc<str> {
        self.lock().config.steer_prefix()
    }

    fn route(&self, name: &str) -> Result<RouteTarget, String> {
        let config = Arc::clone(&self.current().config);
        let target = config.route_target(name)?;
        // What was read just now may be another secret than before.
        self.current().keep_secrets();
        Ok(target)
    }

    fn endpoint(&self, candidate: &Candidate) -> Result<Endpoint, Failure> {
        self.endpoint_while(candidate, &|| true)
    }

    fn endpoint_while(&self, candidate: &Candidate, is_awaited: &dyn Fn() -> bool) -> Result<Endpoint, Failure> {
        // Others do not wait for a command that prints a key. Whether there is one was asked of this configuration.
        let config = Arc::clone(&self.lock().config);
        let endpoint = config.endpoint_while(&candidate.provider, candidate.profile.as_deref(), is_awaited);
        let endpoint = endpoint.map_err(|error| refused(&error, FailureClass::Auth))?;
        let mut current = self.lock();
        current.keep(&config.secrets());
        // Another one may be in force now: its keys are secrets as well.
        if !Arc::ptr_eq(&config, &current.config) {
            current.keep_secrets();
        }
        Ok(endpoint)
    }

    fn may_block(&self, candidate: &Candidate) -> bool {
        self.current().config.runs_command_for(&candidate.provider)
    }

    fn address(&self, candidate: &Candidate) -> Result<Endpoint, Failure> {
        let endpoint = self.current().config.place(&candidate.provider);
        endpoint.map_err(|error| refused(&error, FailureClass::Auth))
    }

    fn user_folder(&self) -> Option<PathBuf> {
        self.lock().config.user_folder()
    }

    fn secrets(&self) -> tools::Secrets {
        let mut current = self.lock();
        let tokens = current.logins.secrets();
        current.keep(&tokens);
        current.redaction.secrets.clone()
    }

    fn redaction(&self) -> Redaction {
        let mut current = self.current();
        let tokens = current.logins.secrets();
        current.keep(&tokens);
        current.redaction.clone()
    }

    fn redaction_of(&self, settings: &Settings) -> Redaction {
        let redaction = self.redaction();
        let config = Arc::clone(&self.current().config);
        match config.within(Path::new(&settings.workspace)) {
            Ok(within) => {
                let passed_env = [within.passed_env(), config.env_of_skills(settings)].concat();
                Redaction { passed_env, reach: within.network_policy(), ..redaction }
            }
            // What the project forbids is not known.
            Err(_) => Redaction { passed_env: vec![], reach: tools::NetworkPolicy::Public, ..redaction },
        }
    }

    fn shared_budget(&self, _agent: &str) -> SharedBudget {
        self.current().config.shared_budget()
    }

    fn lanes(&self) -> LaneBounds {
        // Whoever asks for a slot has asked for settings before, or does so next.
        self.lock().config.lanes()
    }
}

/// The local date, `YYYY-MM-DD`.
pub fn today() -> String {
    local_now().date().to_string()
}

fn refused(error: &ConfigError, class: FailureClass) -> Failure {
    Failure::new(class, format!("{error} ({})", error.hint()))
}

#[cfg(test)]
mod tests {
    use std::fs;

    use engine::Policy;
    use tempfile::TempDir;

    use super::super::{Environment, FILE, FlagValues};
    use super::*;

    struct Home {
        folder: TempDir,
        resolver: ConfigResolver,
        notes: mpsc::Receiver<String>,
    }

    impl Home {
        fn new(file: &str) -> Self {
            let folder = tempfile::tempdir().unwrap();
            put(folder.path(), file);
            let environment = Environment::of(&[("HOME", "/u")], "/now");
            let config = Config::load(folder.path(), &environment, FlagValues::default()).unwrap();
            let (notes_in, notes) = mpsc::channel(64);
            Self { folder, resolver: ConfigResolver::new(Arc::new(config), Logins::default(), notes_in), notes }
        }

        fn put(&self, file: &str) {
            put(self.folder.path(), file);
        }

        fn settings(&self) -> Settings {
            self.resolver.settings("main", SessionContext::default(), &Overrides::default()).unwrap()
        }

        fn notes(&mut self) -> Vec<String> {
            std::iter::from_fn(|| self.notes.try_recv().ok()).collect()
        }
    }

    /// As editors do it: a new file in the place of the old one.
    fn put(home: &Path, file: &str) {
        fs::write(home.join("new"), file).unwrap();
        fs::rename(home.join("new"), home.join(FILE)).unwrap();
    }

    #[test]
    fn r24_a_changed_file_counts_for_the_next_run_and_a_broken_one_changes_nothing() {
        let mut home = Home::new("[runs]\ndeadline_s = 5\n");
        let before = home.settings();
        assert_eq!((before.limits.deadline_ms, home.notes().len()), (Some(5_000), 0));
        home.put("[runs]\ndeadline_s = 7\n");
        assert_eq!((home.settings().limits.deadline_ms, before.limits.deadline_ms), (Some(7_000), Some(5_000)));
        let notes = home.notes();
        assert!(notes.len() == 1 && notes[0].contains("everything else from the next run on"), "{notes:?}");
        home.put("[runs]\ndedline_s = 9\n");
        assert_eq!(home.settings().limits.deadline_ms, Some(7_000));
        assert_eq!(home.settings().limits.deadline_ms, Some(7_000));
        let notes = home.notes();
        assert!(
            notes.len() == 1 && notes[0].contains("stays in force") && notes[0].contains("deadline_s"),
            "{notes:?}"
        );
        fs::remove_file(home.folder.path().join(FILE)).unwrap();
        assert_eq!(home.settings().limits.deadline_ms, None, "without a file the defaults are in force");
        assert_eq!(home.notes().len(), 1);
    }

    /// R24: what a run relies on a moment after its message was checked is not relied on later.
    #[test]
    fn r24_a_file_that_a_project_gets_counts_for_the_next_run() {
        let home = Home::new("");
        let workspace = home.folder.path().join("proj");
        fs::create_dir_all(workspace.join(".limulus")).unwrap();
        let overrides = Overrides { workspace: Some(workspace.display().to_string()), ..Overrides::default() };
        let again = || home.resolver.settings_again("main", SessionContext::default(), &overrides).unwrap();
        assert_eq!(again().exec, Policy::Ask);
        fs::write(workspace.join(".limulus/config.toml"), "tools.exec.policy = \"deny\"\n").unwrap();
        let until = Instant::now() + Duration::from_secs(30);
        while again().exec != Policy::Deny {
            assert!(Instant::now() < until, "the file of the project was not looked for again");
        }
        fs::remove_file(workspace.join(".limulus/config.toml")).unwrap();
        assert_eq!(again().exec, Policy::Ask, "a project that says something is looked up each time");
    }

    #[test]
    fn r50_a_new_key_is_used_by_the_next_request_and_the_old_one_stays_a_secret() {
        let file = |key: &str, base_url: &str| {
            format!(
                "[agents.main]\nmodel = \"acme/m\"\n[providers.acme]\napi = \"openai-chat\"\nbase_url = \"{base_url}\"\n\
                 [[providers.acme.profiles]]\nkey = \"{key}\"\n"
            )
        };
        let home = Home::new(&file("sk-the-first", "http://127.0.0.1:1"));
        let candidate = home.settings().candidates.remove(0);
        let endpoint = |home: &Home| {
            assert!(!home.resolver.may_block(&candidate));
            home.resolver.endpoint(&candidate).unwrap()
        };
        let key = |home: &Home| endpoint(home).key.unwrap().reveal().to_owned();
        let masked = |home: &Home| home.resolver.redaction().secrets.mask("sk-the-first sk-the-second sk-the-third");
        assert_eq!(
            (key(&home).as_str(), masked(&home).as_str()),
            ("sk-the-first", "[secret] sk-the-second sk-the-third")
        );
        home.put(&file("sk-the-second", "http://127.0.0.1:2"));
        assert_eq!(endpoint(&home).base_url, "http://127.0.0.1:2");
        assert_eq!((key(&home).as_str(), masked(&home).as_str()), ("sk-the-second", "[secret] [secret] sk-the-third"));
        // A file of a key that holds another one: config.toml is as it was.
        let place = home.folder.path().join("key");
        fs::write(&place, "sk-the-second").unwrap();
        home.put(&file(&format!("file:{}", place.display()), "http://127.0.0.1:2"));
        key(&home);
        fs::write(&place, "sk-the-third").unwrap();
        assert_eq!((key(&home).as_str(), masked(&home).as_str()), ("sk-the-third", "[secret] [secret] [secret]"));
    }
}
