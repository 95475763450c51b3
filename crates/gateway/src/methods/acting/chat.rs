//! Chat commands: a message whose first word is a known command gets its response at once, without a model, in any
//! state of the session. A first word such as `/fo` that is none of them is refused. Every other message goes to the model,
//! also one that begins with a path.

use std::cmp::Reverse;
use std::fmt::Write as _;
use std::path::Path;
use std::sync::Arc;

use engine::tables::routing::MODES;
use engine::{Acknowledgement, Command, Override, Overrides, QueueMode, RunRow, Session, SessionRow, Thinking, Usage};
use protocol::method::{AbortParams, AgentParams, CompactParams, PauseParams, RunParams, RunResumeParams};
use runtime::SessionContext;
use serde::de::DeserializeOwned;
use serde_json::Value;
use tools::{SkillOrigin, SkillPlaces, Skills};
use views::SessionKey;
use views::{Source, count, explain, lookup, name, tokens};

use super::{abort, end, pause};
use crate::connection::Caller;
use crate::error::Error;

/// The commands, in the order in which they are listed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum SlashCommand {
    New,
    Stop,
    Pause,
    Resume,
    Compact,
    Queue,
    Model,
    Think,
    Verbose,
    Status,
    Usage,
    Diff,
    Undo,
    Exit,
    Help,
}

/// Each with what it does, in a few words. The rows without are other names of the ones above them.
const COMMANDS: [(&str, SlashCommand, &str); 18] = [
    ("/new", SlashCommand::New, "begins a new conversation"),
    ("/reset", SlashCommand::New, ""),
    ("/clear", SlashCommand::New, ""),
    ("/stop", SlashCommand::Stop, "ends the run"),
    ("/pause", SlashCommand::Pause, "pauses the run"),
    ("/resume", SlashCommand::Resume, "resumes the run"),
    ("/compact", SlashCommand::Compact, "compacts the history"),
    ("/queue", SlashCommand::Queue, "shows or sets the queue mode"),
    ("/model", SlashCommand::Model, "shows or sets the model"),
    ("/think", SlashCommand::Think, "shows or sets the thinking level"),
    ("/verbose", SlashCommand::Verbose, "shows or sets whether outputs of calls are shown"),
    ("/status", SlashCommand::Status, "shows what the session is doing"),
    ("/usage", SlashCommand::Usage, "shows its runs with their tokens and cost"),
    ("/cost", SlashCommand::Usage, ""),
    ("/diff", SlashCommand::Diff, "shows what its last run changed in files"),
    ("/undo", SlashCommand::Undo, "takes back what its last run changed in files"),
    ("/exit", SlashCommand::Exit, "ends this client; a run goes on"),
    ("/help", SlashCommand::Help, "shows this list"),
];

/// The commands, each with what it does. Other names of the same command are left out.
pub(crate) fn chat_commands() -> impl Iterator<Item = (&'static str, &'static str)> {
    COMMANDS.iter().filter(|(_, _, about)| !about.is_empty()).map(|(name, _, about)| (*name, *about))
}

/// Bytes of a word that may be meant as a command, or as a skill.
const NAME_BYTES: usize = 64;

const LEVELS: [Thinking; 6] =
    [Thinking::Off, Thinking::Minimal, Thinking::Low, Thinking::Medium, Thinking::High, Thinking::Xhigh];

/// The result of a command.
pub(super) enum Handled {
    /// The command is done; this is its response.
    Answer(String),
    /// The rest of the text is a message to the model.
    Message(String),
    /// The text is a message that has the model use a skill; its name, if it is one of the user.
    Skill(String, Option<Box<str>>),
}

/// A message that is a command and nothing else.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ChatCommand {
    /// Its name, with the slash.
    pub name: &'static str,
    /// Whether a second one does something else than the first.
    pub is_once: bool,
    /// Whether it has a model asked.
    pub asks_model: bool,
    /// Whether it resumes a run.
    pub resumes: bool,
}

/// The command that a message is. `/new TEXT` is none: the text is the message.
pub fn chat_command(message: &str) -> Option<ChatCommand> {
    use SlashCommand::{Compact, New, Pause, Resume, Stop, Undo};
    let (word, _) = parse(message).filter(|(word, rest)| *word != New || rest.is_empty())?;
    let (name, ..) = COMMANDS.iter().find(|(_, known, _)| *known == word)?;
    let is_once = matches!(word, New | Stop | Pause | Resume | Compact | Undo);
    let (resumes, compacts) = (word == Resume, word == Compact);
    Some(ChatCommand { name, is_once, asks_model: resumes || compacts, resumes })
}

/// Whether a message is a command.
pub(super) fn is_command(message: &str) -> bool {
    parse(message).is_some()
}

/// Runs the command in a message; `None` if the message is not a command.
pub(super) async fn handle(
    caller: &Arc<Caller>,
    key: &SessionKey,
    params: &AgentParams,
) -> Result<Option<Handled>, Error> {
    let Some((word, rest)) = parse(&params.message) else {
        return match like_a_command(&params.message) {
            Some((name, rest)) => of_skill(caller, key, (name, rest), params).await.map(Some),
            None => Ok(None),
        };
    };
    let chat = Chat { caller, key };
    if matches!(word, SlashCommand::Undo | SlashCommand::Diff | SlashCommand::Exit) && !rest.is_empty() {
        let hint = "send it alone; `limulus undo --help` and `limulus diff --help` show what these commands can do";
        return Err(Error::invalid("/undo, /diff and /exit take nothing behind them", hint));
    }
    if word == SlashCommand::New && !rest.is_empty() {
        chat.start_new(Some(&params.idempotency_key)).await?;
        return Ok(Some(Handled::Message(rest.to_owned())));
    }
    if !params.attachments.is_empty() {
        return Err(Error::invalid("a command takes no attachments", "send them with a message"));
    }
    chat.respond(word, rest).await.map(|text| Some(Handled::Answer(text)))
}

/// The command that a message begins with, and the text behind it.
fn parse(text: &str) -> Option<(SlashCommand, &str)> {
    let (first, rest) = text.split_once(char::is_whitespace).unwrap_or((text, ""));
    let (_, word, _) = COMMANDS.iter().find(|(name, ..)| first.eq_ignore_ascii_case(name))?;
    Some((*word, rest.trim()))
}

/// The name in the first word of a message, if that looks like a command, and what stands behind it.
fn like_a_command(text: &str) -> Option<(&str, &str)> {
    let (first, rest) = text.split_once(char::is_whitespace).unwrap_or((text, ""));
    let name = first.strip_prefix('/').filter(|name| !name.is_empty() && name.len() <= NAME_BYTES)?;
    let is_of_names = |byte: u8| byte.is_ascii_alphanumeric() || byte == b'-';
    (name.bytes().all(is_of_names) && !name.bytes().all(|byte| byte.is_ascii_digit())).then(|| (name, rest.trim()))
}

/// Skills that an error names, those first whose names begin as what was written.
const SKILLS_NAMED: usize = 20;

/// A message that begins with the name of a skill has the model use it. Another first word that looks like a command is an error.
async fn of_skill(
    caller: &Caller,
    key: &SessionKey,
    (name, rest): (&str, &str),
    params: &AgentParams,
) -> Result<Handled, Error> {
    let skills = skills_of(caller, key, params).await;
    if let Some(skill) = skills.get(&name.to_ascii_lowercase()) {
        // The user's words come first: they are the title of a conversation.
        let text = format!("{rest}\n\nUse the skill `{}`: read it with the tool `skill` first.", skill.name);
        let own = (skill.origin == SkillOrigin::User).then(|| skill.name.as_str().into());
        return Ok(Handled::Skill(text.trim_start().to_owned(), own));
    }
    let mut skills: Vec<_> = skills.usable.iter().map(|skill| skill.name.as_str()).collect();
    skills.sort_by_key(|skill| Reverse(same_beginning(skill, &name.to_ascii_lowercase())));
    let names: Vec<_> = COMMANDS.iter().map(|(name, ..)| (*name).to_owned()).collect();
    let names =
        [names, skills.iter().take(SKILLS_NAMED).map(|skill| format!("/{skill}")).collect()].concat().join(", ");
    let hint = match skills.len().saturating_sub(SKILLS_NAMED) {
        0 => format!("there are {names}; a message that begins with it needs a space before it"),
        more => {
            format!("there are {names} and {more} more skills; a message that begins with it needs a space before it")
        }
    };
    Err(Error::invalid(format!("there is no command /{name}"), hint))
}

/// Bytes at the beginning of two names that are the same.
fn same_beginning(one: &str, other: &str) -> usize {
    one.bytes().zip(other.bytes()).take_while(|(one, other)| one == other).count()
}

/// The skills that the run of a message would have.
async fn skills_of(caller: &Caller, key: &SessionKey, params: &AgentParams) -> Skills {
    let service = Arc::clone(&caller.service);
    let overrides = Overrides { workspace: params.workspace.clone(), ..Overrides::default() };
    let (agent, key) = (key.agent.clone(), key.to_string());
    let finding = move || {
        let resolver = service.runtime.resolver();
        let session = SessionContext { key: Some(&key), ..SessionContext::default() };
        let settings = resolver.settings(&agent, session, &overrides).ok()?;
        let (user, protected) = (resolver.user_folder(), resolver.redaction().protected);
        let workspace = settings.known_workspace();
        let places = SkillPlaces { workspace: Path::new(&workspace), user: user.as_deref(), protected: &protected };
        Some(Skills::of_run(&settings, places))
    };
    tokio::task::spawn_blocking(finding).await.ok().flatten().unwrap_or_default()
}

/// The commands, a line each.
fn list() -> String {
    let mut lines: Vec<String> = vec![];
    for (name, _, about) in COMMANDS {
        match lines.last_mut().filter(|_| about.is_empty()) {
            Some(above) => *above = above.replacen(':', &format!(", {name}:"), 1),
            None => lines.push(format!("{name}: {about}")),
        }
    }
    lines.join("\n")
}

/// The session that the message was sent to.
pub(super) struct Chat<'a> {
    pub(super) caller: &'a Arc<Caller>,
    pub(super) key: &'a SessionKey,
}

impl Chat<'_> {
    async fn respond(&self, word: SlashCommand, rest: &str) -> Result<String, Error> {
        match word {
            SlashCommand::New => self.start_new(None).await,
            SlashCommand::Stop => self.stop().await,
            SlashCommand::Pause => self.pause(one_of(rest, &["freeze"])?.is_some()).await,
            SlashCommand::Resume => self.resume(one_of(rest, &["drop"])?.is_some()).await,
            SlashCommand::Compact => self.compact(rest).await,
            SlashCommand::Queue => self.queue(rest).await,
            SlashCommand::Model => self.model(rest).await,
            SlashCommand::Think => self.think(rest).await,
            SlashCommand::Verbose => self.verbose(rest).await,
            SlashCommand::Status => self.status().await,
            SlashCommand::Usage => self.usage().await,
            SlashCommand::Diff => self.diff().await,
            SlashCommand::Undo => self.undo().await,
            SlashCommand::Exit => Ok("there is no chat to end here".to_owned()),
            SlashCommand::Help => Ok(list()),
        }
    }

    fn row(&self) -> Result<SessionRow, Error> {
        super::session(&self.caller.service, &self.key.to_string())
    }

    async fn session(&self) -> Result<Session, Error> {
        super::state_of(&self.caller.service, self.row()?).await
    }

    /// Sends a command to the session, which is created if it does not exist.
    async fn command(&self, command: Command) -> Result<Acknowledgement, Error> {
        super::command_to(&self.caller.service, &self.key.to_string(), &self.key.agent, command).await
    }

    /// Returns when the compaction is done, or when the active run is to do it.
    async fn compact(&self, rest: &str) -> Result<String, Error> {
        let focus = Some(rest.to_owned()).filter(|focus| !focus.is_empty());
        let params = CompactParams { session_key: Some(self.key.to_string()), focus };
        let compacted = super::compact(self.caller, params).await?;
        Ok(match compacted.done {
            Some(done) => done.sentence(&compacted.session_key),
            None => format!("the run of {} compacts its history before its next request", self.key),
        })
    }

    /// Starts a new conversation, unless a message with this key already did.
    async fn start_new(&self, key: Option<&str>) -> Result<String, Error> {
        let journal = self.caller.service.runtime.journal();
        if let (Some(key), Some(row)) = (key, journal.session(&self.key.to_string())?)
            && journal.receipts(row.session)?.iter().any(|receipt| receipt.key.as_deref() == Some(key))
        {
            return Ok(String::new());
        }
        // Whoever asked may be the owner, and its process ends with the answer: until then nothing of the run continues.
        let service = &self.caller.service;
        let run = journal.session(&self.key.to_string())?.and_then(|row| row.run);
        let ending = run.filter(|_| key.is_none()).map(|run| service.hub.wait_for(run));
        self.command(Command::Reset).await?;
        if let Some(ending) = ending {
            end::observed(self.caller, ending, &mut None).await?;
        }
        Ok(format!("a new conversation begins in {}", self.key))
    }

    /// Returns when the run has ended, so that nothing of it continues after the response.
    async fn stop(&self) -> Result<String, Error> {
        let service = &self.caller.service;
        let (row, key) = (self.row()?, self.key.to_string());
        let waiting = row.run.map(|run| service.hub.wait_for(run));
        let aborted =
            match abort::abort(self.caller, AbortParams { session: Some(key), ..AbortParams::default() }).await {
                Ok(aborted) => aborted,
                Err(Error::NotFound { .. }) => return Ok(format!("no run is active in {}", self.key)),
                Err(error) => return Err(error),
            };
        if let Some(waiting) = waiting {
            end::observed(self.caller, waiting, &mut None).await?;
        }
        let left = self.row()?.queued as usize;
        let queued = if left > 0 { format!("; next: {}", count(left, "queued message")) } else { String::new() };
        Ok(format!("run {} has ended; its output so far is kept{queued}", aborted.run_id))
    }

    /// The session, if it has an active run.
    fn under_way(&self) -> Result<Option<String>, Error> {
        let row = self.row()?;
        let what = || Error::not_found(format!("no run is active in {}", row.key), "send a message to start a run");
        row.run.map(|_| Some(row.key.clone())).ok_or_else(what)
    }

    async fn pause(&self, freeze: bool) -> Result<String, Error> {
        let session = self.under_way()?;
        let asked = pause::pause(self.caller, PauseParams { run: None, session, freeze }).await?;
        let frozen = if freeze { ", and its commands are stopped" } else { "" };
        Ok(format!("run {} is paused{frozen}; /resume continues it", asked.run_id))
    }

    async fn resume(&self, drop: bool) -> Result<String, Error> {
        let session = self.under_way()?;
        let asked = pause::resume_run(self.caller, RunResumeParams { run: None, session, drop }).await?;
        Ok(format!("run {} {}", asked.run_id, if drop { "has ended as interrupted" } else { "continues" }))
    }

    async fn queue(&self, rest: &str) -> Result<String, Error> {
        let names = || MODES.map(|mode| name(&mode)).join(", ");
        let mode = match rest {
            "" => return self.queue_status().await,
            "replace" | "suspend" => {
                self.command(Command::Override(Override::Interrupt(named(rest)))).await?;
                return Ok(format!("an interrupt of {} will {rest} its run", self.key));
            }
            "default" => {
                self.command(Command::Override(Override::Interrupt(None))).await?;
                None
            }
            _ => Some(named(&rest.replace(['-', '+'], "_")).ok_or_else(|| {
                let hint = format!("there are: {}, default; replace and suspend say what an interrupt does", names());
                Error::invalid(format!("`{rest}` is not a queue mode"), hint)
            })?),
        };
        self.command(Command::Override(Override::QueueMode(mode))).await?;
        Ok(format!("messages to {} are queued as {}", self.key, self.mode_label(mode)))
    }

    fn mode_label(&self, mode: Option<QueueMode>) -> String {
        let configured = || self.caller.service.runtime.resolver().queue(&self.key.agent).mode;
        set_or_default(mode.map(|mode| name(&mode)), || name(&configured()))
    }

    async fn queue_status(&self) -> Result<String, Error> {
        let (row, session) = (self.row()?, self.session().await?);
        let waits = count(row.queued as usize, "message");
        Ok(format!("messages are queued as {}; {waits} waiting", self.mode_label(session.account.queue_mode)))
    }

    /// A model that cannot be used is refused without a change.
    async fn model(&self, rest: &str) -> Result<String, Error> {
        let model = match rest {
            "" => return Ok(format!("the model is {}", self.model_label(self.session().await?.account.model)?)),
            "default" => None,
            model => Some(model.to_owned()),
        };
        let label = self.model_label(model.clone())?;
        // A name without a provider is that of one model now, and perhaps of several later.
        let model = model.map(|model| if model.contains('/') { model } else { label.clone() });
        self.command(Command::Override(Override::Model(model))).await?;
        Ok(format!("from the next run on the model is {label}"))
    }

    fn model_label(&self, model: Option<String>) -> Result<String, Error> {
        let resolver = self.caller.service.runtime.resolver();
        let wants = runtime::SessionContext { model: model.as_deref(), ..Default::default() };
        let settings = resolver.settings(&self.key.agent, wants, &Overrides::default()).map_err(|failure| {
            Error::invalid(
                failure.to_string(),
                "`limulus models list` shows the usable models, `default` is the configured one",
            )
        })?;
        let configured = || {
            let first = settings.candidates.first();
            first.map_or_else(String::new, |candidate| format!("{}/{}", candidate.provider, candidate.model))
        };
        let model = model.map(|model| if model.contains('/') { model } else { configured() });
        Ok(set_or_default(model, configured))
    }

    async fn think(&self, rest: &str) -> Result<String, Error> {
        let level = match rest {
            "" => return Ok(format!("thinking is {}", thinking_label(self.session().await?.account.thinking))),
            "default" => None,
            _ => Some(named::<Thinking>(rest).ok_or_else(|| {
                let hint = format!("there are: {}, default", LEVELS.map(|level| name(&level)).join(", "));
                Error::invalid(format!("`{rest}` is not a thinking level"), hint)
            })?),
        };
        self.command(Command::Override(Override::Thinking(level))).await?;
        Ok(format!("from the next run on thinking is {}", thinking_label(level)))
    }

    async fn verbose(&self, rest: &str) -> Result<String, Error> {
        let verbose = match one_of(rest, &["on", "off", "default"])? {
            None => return Ok(format!("verbose is {}", verbose_label(self.session().await?.account.verbose))),
            Some("on") => Some(true),
            Some("off") => Some(false),
            Some(_) => None,
        };
        self.command(Command::Override(Override::Verbose(verbose))).await?;
        Ok(format!("verbose is {}", verbose_label(verbose)))
    }

    async fn status(&self) -> Result<String, Error> {
        let service = &self.caller.service;
        let (row, session) = (self.row()?, self.session().await?);
        let waits = count(row.queued as usize, "message");
        let mut text = format!("{} is {}; {waits} waiting", row.key, row.lifecycle.name());
        if row.run.is_some() {
            let (home, waits, of) = (Arc::clone(service.home()), service.runtime.waits(), Some(row.key.clone()));
            let explained = end::reading(service, move |read| {
                let most_bytes = u64::MAX;
                let (home, waits) = (home.as_ref(), waits.as_slice());
                let source = Source { home, read, immutable: false, most_bytes, waits, full: &[], agents: &[] };
                Ok(explain(&source, &lookup::run(read, &RunParams { run: None, session: of })?)?)
            });
            let explained = explained.await?;
            let waits_for = explained.waits_for.unwrap_or_default();
            let _ = write!(text, "\nrun {} is {}; it waits for {waits_for}", explained.run, explained.state);
        }
        let _ = write!(text, "\nmodel: {}", self.model_label(session.account.model.clone())?);
        let _ = write!(text, "\nthinking: {}", thinking_label(session.account.thinking));
        let _ = write!(text, "\nqueue: {}", self.mode_label(session.account.queue_mode));
        let _ = write!(text, "\nverbose: {}", verbose_label(session.account.verbose));
        Ok(text)
    }

    async fn usage(&self) -> Result<String, Error> {
        let row = self.row()?;
        let session = row.session;
        let runs = end::reading(&self.caller.service, move |journal| Ok(journal.runs(Some(session))?)).await?;
        let mut models: Vec<(&str, usize, Usage, u64)> = vec![];
        for RunRow { model, usage, cost, .. } in &runs {
            match models.iter_mut().find(|(known, ..)| known == model) {
                Some((_, runs, all, spent)) => {
                    *runs += 1;
                    all.add(usage);
                    *spent = spent.saturating_add(*cost);
                }
                None => models.push((model, 1, *usage, *cost)),
            }
        }
        let price = |micros: u64| if micros > 0 { format!(", ${:.4}", micros as f64 / 1e6) } else { String::new() };
        let lines = models.iter().map(|(model, runs, usage, cost)| {
            format!("\n{model}: {}, {}{}", count(*runs, "run"), tokens(usage), price(*cost))
        });
        Ok(format!("{}: {}{}", row.key, count(runs.len(), "run"), lines.collect::<String>()))
    }
}

/// The value set for the session, else the default.
fn set_or_default(set: Option<String>, otherwise: impl FnOnce() -> String) -> String {
    set.map_or_else(|| format!("{} (as configured)", otherwise()), |set| format!("{set} (for this session)"))
}

fn thinking_label(level: Option<Thinking>) -> String {
    level.map_or_else(|| "as configured".to_owned(), |level| format!("{} (for this session)", name(&level)))
}

fn verbose_label(verbose: Option<bool>) -> &'static str {
    match verbose {
        Some(true) => "on (for this session)",
        Some(false) => "off (for this session)",
        None => "off",
    }
}

/// A name of the engine, as people type it.
fn named<T: DeserializeOwned>(text: &str) -> Option<T> {
    serde_json::from_value(Value::String(text.to_ascii_lowercase())).ok()
}

/// The argument of a command that accepts only these values.
fn one_of<'a>(rest: &str, known: &[&'a str]) -> Result<Option<&'a str>, Error> {
    if rest.is_empty() {
        return Ok(None);
    }
    let found = known.iter().find(|known| rest.eq_ignore_ascii_case(known)).copied();
    found.map(Some).ok_or_else(|| {
        Error::invalid(format!("`{rest}` is not a known value"), format!("there are: {}", known.join(", ")))
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    /// R62: only a whole first word is a command; what looks like one is a message.
    #[test]
    fn r62_a_command_is_a_first_word_and_nothing_else() {
        assert_eq!(parse("/status"), Some((SlashCommand::Status, "")));
        assert_eq!(parse("/New  what is 2 + 2?\nthink"), Some((SlashCommand::New, "what is 2 + 2?\nthink")));
        assert_eq!(parse("/reset"), Some((SlashCommand::New, "")));
        for message in ["/etc/passwd is what?", "/statuses", " /status", "stop", "", "what does /status do?"] {
            assert_eq!(parse(message), None, "{message:?}");
        }
    }

    #[test]
    fn r10_a_command_that_does_more_the_second_time_is_known() {
        let check = |message: &str, expected: Option<(&str, bool)>| {
            assert_eq!(chat_command(message).map(|command| (command.name, command.is_once)), expected, "{message}");
        };
        check("/undo", Some(("/undo", true)));
        check("/RESET", Some(("/new", true)));
        check("/compact the bugs", Some(("/compact", true)));
        check("/model acme/large", Some(("/model", false)));
        check("/diff", Some(("/diff", false)));
        check("/new what is this?", None);
        check("/etc/hosts", None);
    }

    /// R62: values are parsed as people type them.
    #[test]
    fn r62_the_argument_of_a_command_is_parsed_or_refused() {
        assert_eq!(named::<QueueMode>("steer_backlog"), Some(QueueMode::SteerBacklog));
        assert_eq!(named::<Thinking>("XHIGH"), Some(Thinking::Xhigh));
        assert_eq!(named::<Thinking>("enormous"), None);
        assert_eq!(one_of("Freeze", &["freeze"]).unwrap(), Some("freeze"));
        assert!(one_of("hard", &["freeze"]).unwrap_err().to_string().contains("hard"));
    }
}
