//! Resolves the configuration to the settings of one run.

use std::ffi::OsStr;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use engine::tables::limits::{WINDOW_LEAST, WINDOW_SMALL};
use engine::{
    Candidate, Compaction, Hash, Limits, Overrides, Policy, PromptProfile, PromptSettings, Sampling, Sandbox,
    SandboxMode, SandboxRoot, Settings, Thinking, Titles, ToolSpec, Unattended, WorkspaceCopy,
};
use models::{Api, Levels, level_name};
use runtime::SessionContext;
use tools::{GitHead, GitState, Needs};

use super::Config;
use super::credentials::Credential;
use super::declared::{Agent, ExecPolicy, SandboxNetwork, TitleSource};
use super::endpoints::Route;
use super::error::ConfigError;
use super::settings::Limit;

/// The workspace that is the folder of the command.
const HERE: &str = ".";
/// Characters of the name of a copy.
const COPY_ID: usize = 16;
/// The agent that is always there.
const MAIN: &str = "main";

/// The inputs of a run besides the configuration.
#[derive(Debug, Clone, Copy)]
pub struct Subject<'a> {
    /// The name of its agent.
    pub agent: &'a str,
    /// What its message overrides.
    pub overrides: &'a Overrides,
    /// Its session.
    pub session: SessionContext<'a>,
    /// The date, which is among the facts that its model receives, `YYYY-MM-DD`; empty = it receives none.
    pub date: &'a str,
}

/// The settings of a run, with notes for its user.
#[derive(Debug, Clone, PartialEq)]
pub struct Resolved {
    /// What the run keeps from its start to its end.
    pub settings: Settings,
    /// Lines for stderr, such as a model that was chosen by default or a thinking level that it lacks.
    pub notes: Vec<String>,
}

impl Config {
    /// Refuses a folder that `--workspace` names and that is not there: its name may be mistyped. A service refuses what
    /// `--workspace` or the configuration names relative to a current folder.
    pub fn check_workspace(&self) -> Result<(), ConfigError> {
        if let Some(path) = self.flag_workspace()? {
            return if path.is_dir() { Ok(()) } else { Err(ConfigError::NoWorkspace { path }) };
        }
        let mut named = self.values.agents.iter().filter_map(|(name, agent)| Some((name, agent.workspace.as_deref()?)));
        named.try_for_each(|(name, workspace)| self.must_be_absolute(name, workspace))
    }

    /// The folder that `--workspace` names. A service takes none that depends on where it is started, not even `.`.
    fn flag_workspace(&self) -> Result<Option<PathBuf>, ConfigError> {
        let Some(workspace) = self.flags.workspace.as_deref() else { return Ok(None) };
        let path = self.environment.absolute(workspace)?;
        if self.flags.is_service && is_relative(workspace) {
            return Err(ConfigError::RelativeFlag { workspace: workspace.to_owned(), path });
        }
        Ok(Some(path))
    }

    /// The current folder of a service is no workspace.
    fn must_be_absolute(&self, agent: &str, workspace: &str) -> Result<(), ConfigError> {
        if self.flags.is_service && workspace != HERE && is_relative(workspace) {
            return Err(ConfigError::RelativeWorkspace { agent: agent.to_owned(), workspace: workspace.to_owned() });
        }
        Ok(())
    }

    /// Resolves everything for a run, as the project of its workspace restricts it. An error means that it cannot start.
    pub fn resolve(&self, subject: Subject<'_>) -> Result<Resolved, ConfigError> {
        let workspace = self.workspace_of(subject)?;
        self.within(&workspace)?.resolve_in(&workspace, subject)
    }

    /// Whether commands are allowed that have a sandbox.
    pub fn allows_sandboxed_commands(&self) -> bool {
        self.values.tools.exec.policy == ExecPolicy::Allow && self.values.sandbox.mode != SandboxMode::Off
    }

    /// The workspace of a run.
    pub fn workspace_of(&self, subject: Subject<'_>) -> Result<PathBuf, ConfigError> {
        self.workspace(self.agent(subject.agent)?, subject)
    }

    /// The workspace of a run of the agent `main` that names none.
    pub(super) fn main_workspace(&self) -> Result<PathBuf, ConfigError> {
        let (overrides, session) = (Overrides::default(), SessionContext::default());
        let subject = Subject { agent: MAIN, overrides: &overrides, session, date: "" };
        self.workspace(self.agent(MAIN)?, subject)
    }

    /// The tools of a run: those for which it has what they need. A question to a user who is not there costs tokens and answers
    /// nothing; so does a search where nothing is.
    fn tools(&self, workspace: &Path, agent: &Agent, overrides: &Overrides) -> Arc<[ToolSpec]> {
        let tools =
            if overrides.plan { tools::read_only_specs() } else { tools::specs_within(self.values.tools.timeout_s) };
        let is_full = agent.prompt.unwrap_or_default() == PromptProfile::Full;
        let may_have_skills = is_full && agent.skills.as_ref().is_none_or(|names| !names.is_empty());
        let may_have_memory = is_full && reads_files(agent);
        let has = [
            (Needs::SearchProvider, self.search_address().is_some()),
            (Needs::Route, !self.values.routes.is_empty() && !overrides.plan),
            (Needs::Memory, may_have_memory && [workspace, self.home()].into_iter().any(tools::has_memory)),
            (Needs::Skills, may_have_skills && tools::has_skills(workspace, self.user_folder().as_deref())),
        ];
        let there = has.into_iter().filter(|(_, is_there)| *is_there);
        let tools = there.fold(tools, |tools, (needs, _)| tools::with_tools_for(needs, &tools));
        let tools = if self.values.routes.is_empty() { tools } else { tools::with_routes(&tools, self.routes()) };
        match self.approvals(overrides).unattended {
            Unattended::Wait => tools,
            Unattended::Deny => tools::unattended(&tools),
        }
    }

    /// Resolves everything for a run in this workspace.
    pub(super) fn resolve_in(&self, workspace: &Path, subject: Subject<'_>) -> Result<Resolved, ConfigError> {
        let agent = self.agent(subject.agent)?;
        let (models, note) = self.models(agent, subject);
        let candidates = models
            .iter()
            .map(|model| self.candidate(model, agent, subject.overrides.thinking.or(subject.session.thinking)))
            .collect::<Result<Vec<_>, _>>()?;
        let (candidates, thinking): (Vec<_>, Vec<_>) = candidates.into_iter().unzip();
        let candidates = candidates.into_iter().map(|candidate| overridden(candidate, subject.overrides));
        let candidates: Vec<_> = candidates.flat_map(|candidate| self.with_each_profile(candidate)).collect();
        // Notes on thinking only for the first model: the others may never be tried. All profiles of a model share its
        // window.
        let mut small: Vec<_> = candidates.iter().filter_map(small_window).collect();
        small.dedup();
        let notes = note.into_iter().chain(thinking.into_iter().next().flatten()).chain(small).collect();
        let mut compaction = self.compaction(agent)?;
        if subject.overrides.plan {
            // It asks the model to write a file.
            compaction.flush_lead = None;
        }
        let titles = self.titles(agent, candidates.first())?;
        let of_titles = titles.iter().filter_map(|titles| titles.by.as_ref());
        let addresses = self.addresses_of(candidates.iter().chain(&compaction.by).chain(of_titles));
        let user = self.user_folder();
        let facts = facts(subject.date, workspace, user.as_deref());
        // A copy of the workspace is made later, and has what the workspace has.
        let tools = self.tools(workspace, agent, subject.overrides);
        let granted = |policy| if subject.overrides.allow && policy == Policy::Ask { Policy::Allow } else { policy };
        let exec = self.values.tools.exec.policy.otherwise();
        let (workspace, copy) = match self.copy(workspace, subject)? {
            Some((copy, workspace)) => (workspace, Some(copy)),
            None => (workspace.to_owned(), None),
        };
        let settings = Settings {
            agent: subject.agent.to_owned(),
            workspace: workspace.display().to_string(),
            // Older versions had it in the system prompt, which providers then read anew each day.
            date: String::new(),
            facts,
            candidates,
            limits: self.limits(subject.overrides),
            resume: self.values.runs.resume,
            recover: self.values.runs.recover,
            policy: self.rules(subject).into(),
            approvals: self.approvals(subject.overrides),
            sandbox: Sandbox { copy, ..self.sandbox(subject.overrides) },
            exec: granted(exec),
            outside: granted(self.values.tools.outside_workspace.policy.unwrap_or(exec)),
            // `--yes` approves what is asked often. This is asked seldom, and what it allows outlives the run.
            executed_files: self.values.tools.executed_files.policy,
            compaction,
            titles,
            budget: self.values.budget.resolved(),
            web_fetch: granted(self.values.tools.web_fetch.policy.unwrap_or(exec)),
            web_search: self.search_address(),
            history_turns: agent.history_turns,
            instructions: reads_files(agent),
            addresses,
            stop_before: stops(&subject.overrides.stop_before)?,
            plan: subject.overrides.plan,
            output_schema: subject.overrides.output_schema.as_deref().cloned(),
            prompt: PromptSettings {
                profile: agent.prompt.unwrap_or_default(),
                system: subject.overrides.system.as_deref().map(str::to_owned),
                append: subject.overrides.append_system.as_deref().map(str::to_owned),
                skills: agent.skills.clone(),
            },
            reply: self.reply(subject.overrides),
            tools,
            derived: engine::Derived::default(),
        };
        Ok(Resolved { settings, notes })
    }

    /// What happens to questions: a message says it, else the configuration. Else they wait, unless the owner is a command
    /// that would have to stay until somebody answers.
    fn sandbox(&self, overrides: &Overrides) -> Sandbox {
        let values = &self.values.sandbox;
        let mode = overrides.sandbox.unwrap_or(values.mode);
        if mode == SandboxMode::Off {
            return Sandbox::default();
        }
        Sandbox {
            mode,
            allows: self.values.tools.exec.policy == ExecPolicy::Sandbox,
            network: values.network == SandboxNetwork::On,
            hidden: values.hidden.clone(),
            writable: values.writable.clone(),
            copy: None,
            memory_mib: values.memory_mib,
        }
    }

    /// The copy in which the run works, and its workspace there; none if it works in the workspace itself, as what only reads does.
    /// All runs of a session have the same copy of a folder.
    fn copy(&self, workspace: &Path, subject: Subject<'_>) -> Result<Option<(WorkspaceCopy, PathBuf)>, ConfigError> {
        let root = subject.overrides.root.unwrap_or(self.values.sandbox.root);
        let only_reads = subject.overrides.plan || subject.overrides.compact;
        let (Some(key), false) = (subject.session.key, root == SandboxRoot::Workspace || only_reads) else {
            return Ok(None);
        };
        let workspace = tools::real_folder(workspace);
        let user = self.environment.real_user();
        // The folder of the user is no project, even if its start files are under version control.
        let project = tools::project_root(&workspace, user).filter(|project| Some(*project) != user);
        let of = project.unwrap_or(&workspace);
        let id = [self.home.as_os_str(), of.as_os_str(), OsStr::new(key)].map(OsStr::as_encoded_bytes).join(&0);
        let id = &Hash::of(&id).to_string()[..COPY_ID];
        let name = of.file_name().unwrap_or_else(|| OsStr::new("workspace"));
        let folder = self.environment.state_folder()?.join("copies").join(id).join(name);
        let within = folder.join(workspace.strip_prefix(of).unwrap_or(Path::new("")));
        let copy = WorkspaceCopy { root, of: of.display().to_string(), folder: folder.display().to_string() };
        Ok(Some((copy, within.components().collect())))
    }

    fn approvals(&self, overrides: &Overrides) -> engine::Approvals {
        let values = self.values.approvals;
        let otherwise = if self.flags.is_unattended { Unattended::Deny } else { Unattended::Wait };
        engine::Approvals {
            unattended: overrides.unattended.or(values.unattended).unwrap_or(otherwise),
            expires_ms: values.expires_s.get().map(|seconds| seconds * 1_000),
            on_expiry: values.on_expiry,
        }
    }

    /// The folder that the message names, else the command line, else the agent's. A service has a folder of its own for an
    /// agent that has none: see [`Config::own_workspace`].
    fn workspace(&self, agent: &Agent, subject: Subject<'_>) -> Result<PathBuf, ConfigError> {
        if let Some(own) = self.own_workspace(subject.agent, subject.overrides)? {
            return Ok(own);
        }
        let sent = subject.overrides.workspace.as_deref();
        if sent.is_none()
            && let Some(flag) = self.flag_workspace()?
        {
            return Ok(flag);
        }
        let named = sent.or(agent.workspace.as_deref()).unwrap_or(HERE);
        self.must_be_absolute(subject.agent, named)?;
        self.environment.absolute(named)
    }

    /// The folder in which a service lets an agent work for which nobody named one: `~/limulus/AGENT`. It is made when it is
    /// needed.
    pub(crate) fn own_workspace(&self, agent: &str, overrides: &Overrides) -> Result<Option<PathBuf>, ConfigError> {
        let configured = self.values.agents.get(agent).and_then(|agent| agent.workspace.as_deref());
        let is_named = overrides.workspace.is_some() || self.flags.workspace.is_some();
        if is_named || !self.flags.is_service || configured.is_some_and(|named| named != HERE) {
            return Ok(None);
        }
        self.environment.absolute(&format!("~/limulus/{agent}")).map(Some)
    }

    fn compaction(&self, agent: &Agent) -> Result<Compaction, ConfigError> {
        let configured = &self.values.compaction;
        let (auto, reserve, keep) = (configured.auto, configured.reserve_tokens, configured.keep_recent_tokens);
        let by = configured.model.as_ref().map(|model| self.candidate(model, agent, None)).transpose()?;
        let by = by.map(|(candidate, _)| candidate);
        let flush_lead = configured.memory_flush.then_some(configured.memory_flush_lead_tokens);
        Ok(Compaction { auto, reserve, keep, flush_lead, by })
    }

    /// The model that names a conversation; none = the first words of its first message do. The built-in offline model names none.
    fn titles(&self, agent: &Agent, first: Option<&Candidate>) -> Result<Option<Titles>, ConfigError> {
        let configured = &self.values.session;
        if configured.titles == TitleSource::Words {
            return Ok(None);
        }
        let by = configured.title_model.as_ref().map(|model| self.candidate(model, agent, None)).transpose()?;
        let by = by.map(|(candidate, _)| candidate);
        let is_model = by.as_ref().or(first).is_some_and(|asked| asked.provider != "offline");
        Ok(is_model.then_some(Titles { by }))
    }

    fn agent(&self, name: &str) -> Result<&Agent, ConfigError> {
        self.values.agents.get(name).ok_or_else(|| ConfigError::UnknownAgent {
            agent: name.to_owned(),
            known: self.values.agents.keys().cloned().collect(),
        })
    }

    /// The models in the order in which they may be tried, each once: that of the message, else of the session, else of
    /// the agent, else the default; then the agent's fallbacks.
    fn models(&self, agent: &Agent, subject: Subject<'_>) -> (Vec<String>, Option<String>) {
        let chosen = subject.overrides.model.as_deref().or(subject.session.model).or(agent.model.as_deref());
        let (first, note) = match chosen {
            Some(model) => (model.to_owned(), None),
            None => self.default_model(),
        };
        let mut models = vec![first];
        for fallback in &agent.fallbacks {
            if !models.contains(fallback) {
                models.push(fallback.clone());
            }
        }
        (models, note)
    }

    /// The model if none is configured, with a note about it.
    pub(super) fn default_model(&self) -> (String, Option<String>) {
        if let Some((provider, key, model)) = self.by_variable().first() {
            let model = format!("{provider}/{model}");
            let note = format!("no model is configured and {key} is set: {model} answers");
            return (model, Some(note));
        }
        let note = "no model is configured and no key of a provider is set (`limulus setup` chooses one): the built-in offline \
                    model answers (no AI; it works the tools)";
        ("offline/offline".to_owned(), Some(note.to_owned()))
    }

    /// A model as a candidate of the agent `main`.
    pub fn candidate_of(&self, model: &str) -> Result<Candidate, ConfigError> {
        self.candidate(model, self.agent(MAIN)?, None).map(|(candidate, _)| candidate)
    }

    /// A model as a candidate, with a note if it cannot think at the requested level.
    pub(super) fn candidate(
        &self,
        model: &str,
        agent: &Agent,
        thinking: Option<Thinking>,
    ) -> Result<(Candidate, Option<String>), ConfigError> {
        let full = self.full_name(model)?;
        let model = full.as_ref();
        let parts = model.split_once('/').filter(|(provider, name)| !provider.is_empty() && !name.is_empty());
        let (provider, name) =
            parts.ok_or_else(|| ConfigError::NotAModel { model: model.to_owned(), nearest: vec![] })?;
        let route = self.route(provider).ok_or_else(|| ConfigError::UnknownProvider {
            model: model.to_owned(),
            provider: provider.to_owned(),
            known: self.providers(),
        })?;
        let figures = self.figures(provider, name).info;
        let configured = || self.values.models.get(model).and_then(|model| model.thinking).or(agent.thinking);
        let request = thinking.or_else(configured);
        let (thinking, note) = supported_thinking(model, request, &route, figures.thinking);
        let candidate = Candidate {
            provider: provider.to_owned(),
            model: name.to_owned(),
            profile: route.profiles.first().map(|(name, _)| (*name).to_owned()),
            token_rate: models::token_rate(name),
            can_refresh: route.profiles.first().is_some_and(|(_, credential)| credential.can_refresh()),
            levels: vec![],
            context_window: figures.context_window,
            max_output: figures.max_output,
            thinking,
            images: figures.images,
            structured_output: figures.structured_output,
            sampling: Sampling::default(),
            price: figures.price,
        };
        let api = Api::from_name(route.api).expect("the declarations accept no other");
        let levels = thinking.map(|_| models::levels_apart(&candidate, api, figures.thinking)).unwrap_or_default();
        Ok((Candidate { levels, ..candidate }, note))
    }

    /// A candidate for each profile of the provider, in their order; the candidate itself if it has none.
    fn with_each_profile(&self, candidate: Candidate) -> Vec<Candidate> {
        let profiles = self.route(&candidate.provider).map(|route| route.profiles).unwrap_or_default();
        let with = |(name, credential): &(&str, Credential<'_>)| Candidate {
            profile: Some((*name).to_owned()),
            can_refresh: credential.can_refresh(),
            ..candidate.clone()
        };
        let each: Vec<Candidate> = profiles.iter().map(with).collect();
        if each.is_empty() { vec![candidate] } else { each }
    }

    fn limits(&self, overrides: &Overrides) -> Limits {
        let (runs, requests) = (&self.values.runs, &self.values.requests);
        let in_ms = |limit: Limit<u64>| limit.get().map(|seconds| seconds * 1_000);
        Limits {
            deadline_ms: overrides.deadline_ms.or(in_ms(runs.deadline_s)),
            stall_ms: in_ms(runs.stall_s),
            first_byte_timeout_ms: requests.first_byte_timeout_s * 1000,
            idle_timeout_ms: requests.idle_timeout_s * 1000,
            tool_timeout_ms: self.values.tools.timeout_s * 1000,
            max_wait_ms: requests.max_wait_s * 1000,
            retries: requests.retries,
            // Whoever limits an answer wants no more of it.
            continuations: if overrides.max_output.is_some() { 0 } else { requests.continuations },
            poison_after: runs.poison_after.or_zero(),
            loop_warn_after: runs.loop_warn_after.or_zero(),
            loop_stop_after: runs.loop_stop_after.or_zero(),
            compact_ms: self.values.compaction.limit_s * 1000,
        }
    }
}

/// A candidate as a message wants it.
fn overridden(candidate: Candidate, overrides: &Overrides) -> Candidate {
    let most = overrides.max_output.map_or(candidate.max_output, |most| candidate.max_output.min(most.get().into()));
    Candidate { max_output: most, sampling: overrides.sampling.as_deref().copied().unwrap_or_default(), ..candidate }
}

/// Whether runs of this agent read bootstrap files and files of memory.
fn reads_files(agent: &Agent) -> bool {
    agent.instructions.unwrap_or(true)
}

/// The tools of each class or tool before which a run is to stop.
fn stops(before: &[String]) -> Result<Vec<Vec<String>>, ConfigError> {
    before.iter().map(|name| tools::tools_of(name).map_err(|why| ConfigError::StopBefore { why })).collect()
}

/// What changes from day to day. The name of a branch is the project's own word, so it stands in quotes.
fn facts(date: &str, workspace: &Path, user: Option<&Path>) -> String {
    let Ok(day) = date.parse::<jiff::civil::Date>() else { return String::new() };
    let zone = super::local_now().strftime("%:z").to_string();
    let git = tools::git_state(workspace, user).map(|GitState { head, under_way }| {
        let head = match head {
            GitHead::Branch(name) => format!("; the git branch is `{name}`"),
            GitHead::Commit(id) => format!("; no git branch is checked out, but commit {id}"),
        };
        head + &under_way.map(|what| format!(", and {what} is under way")).unwrap_or_default()
    });
    format!("today is {}, {date} (UTC{zone}){}.", day.strftime("%a"), git.unwrap_or_default())
}

/// Whether the folder that a path names depends on a current folder.
fn is_relative(path: &str) -> bool {
    !path.starts_with(['/', '~'])
}

/// The note about a model with a small context window.
fn small_window(candidate: &Candidate) -> Option<String> {
    let Candidate { provider, model, context_window, .. } = candidate;
    (WINDOW_LEAST..WINDOW_SMALL).contains(context_window).then(|| {
        format!(
            "{provider}/{model} has a context window of only {context_window} tokens: \
             {WINDOW_SMALL} or more are recommended"
        )
    })
}

/// The thinking level that a model is sent, with a note if it differs from the requested one.
fn supported_thinking(
    model: &str,
    request: Option<Thinking>,
    route: &Route<'_>,
    levels: Option<Levels>,
) -> (Option<Thinking>, Option<String>) {
    let Some(request) = request else { return (None, None) };
    let name = level_name(request);
    let is_chat = route.api == Api::OpenAiChat.name();
    let unsent = |why: String| (None, Some(format!("thinking = {name} is not sent to {model}: {why}")));
    let Some(levels) = levels else {
        // Servers that do not know the parameter refuse the whole request.
        let why = format!("set `thinking_levels` in [models.\"{model}\"] if it takes `reasoning_effort`");
        return if is_chat { unsent(why) } else { (Some(request), None) };
    };
    if is_chat && !models::chat_takes_effort(route.base_url, model) {
        return unsent("chat completions of OpenAI take none beside tools, use `openai-responses`".to_owned());
    }
    match levels.nearest(request) {
        Some(level) if level == request => (Some(request), None),
        Some(level) => {
            let note = format!("thinking = {name}: {model} has {levels}, so {} is requested", level_name(level));
            (Some(level), Some(note))
        }
        None if request == Thinking::Off => (None, None),
        None => (None, Some(format!("thinking = {name} is not sent: {model} does not think"))),
    }
}
