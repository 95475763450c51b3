//! `limulus prompt`: the system prompt, part by part: what the next run here would receive, or what a session received last.

use std::path::Path;

use clap::Args;
use config::{ConfigResolver, FlagValues, Globals, Subject, today};
use engine::{Hash, Overrides, text_tokens};
use protocol::method::{AgentsList, ContextParams, NoParams, SessionsContext};
use protocol::show::{ContextKind, ContextPart};
use runtime::prompt::{self, PromptPlaces, PromptSources};
use runtime::{Resolver as _, SessionContext};
use serde::Serialize;
use tokio::sync::mpsc;
use tools::Secrets;

use crate::deprecation;
use crate::error::{CliError, Exit};
use crate::language::word;
use crate::prompt::is_possible;
use crate::reading::ask;
use crate::show::human::{Page, count};
use crate::show::{json, print};

/// What the model receives beside the prompt, as a note before a message.
const FACTS: &str = "facts";
/// What of a prompt comes from no file.
const OWN: &str = "limulus";

/// Show the system prompt that the next run of this folder would receive, part by part, with tokens and origins.
#[derive(Debug, Args)]
pub(crate) struct PromptArgs {
    /// What this session received last, instead of what a new one would
    #[arg(long, value_name = "KEY", conflicts_with_all = ["agent", "check"])]
    pub(crate) session: Option<String>,
    /// Of this agent
    #[arg(long, value_name = "NAME", default_value = "main")]
    agent: String,
    /// Only name what is left out of bootstrap files, and end with 1 if anything is
    #[arg(long)]
    check: bool,
    /// Print one JSON object
    #[arg(long)]
    json: bool,
}

/// A system prompt, as `--json` prints it.
#[derive(Debug, Serialize)]
struct ShownPrompt {
    /// Its tokens, estimated, without the schemas of tools.
    tokens: u64,
    /// The tokens of the schemas of tools, which go with each request beside it.
    tools: u64,
    parts: Vec<ShownPart>,
    problems: Vec<PromptProblem>,
}

#[derive(Debug, Serialize)]
struct ShownPart {
    name: String,
    /// The file that it comes from, or `limulus`.
    origin: String,
    /// BLAKE3 of its text.
    hash: Hash,
    tokens: u64,
    /// Whether it stays the same from run to run, as long as no file and no setting changes.
    stable: bool,
    text: String,
}

/// What of a bootstrap file the model does not receive as it was written.
#[derive(Debug, Serialize)]
struct PromptProblem {
    file: String,
    problem: String,
}

pub(crate) fn run(args: PromptArgs, globals: &Globals) -> Result<(), CliError> {
    let shown = match args.session {
        Some(key) => of_session(key, globals)?,
        None => of_next_run(&args.agent, args.check, globals)?,
    };
    print(&match (args.json, args.check) {
        (true, _) => json(&shown),
        (false, true) => lay_out_problems(&shown.problems),
        (false, false) => lay_out(&shown),
    })?;
    if args.check && !shown.problems.is_empty() {
        let what = format!("{} left out of the prompt", count(shown.problems.len(), "part"));
        let hint = "change the files that are named, or what they include".to_owned();
        return Err(CliError::Refused { exit: Exit::RunFailed, what, hint });
    }
    Ok(())
}

/// What a session received with its last request.
fn of_session(key: String, globals: &Globals) -> Result<ShownPrompt, CliError> {
    let context = ask::<SessionsContext>(globals, ContextParams { session_key: Some(key), dropped: false })?;
    let tools = context.parts.iter().filter(|part| part.what == ContextKind::Tools).map(|part| part.tokens).sum();
    let is_prompt = |part: &ContextPart| matches!(part.what, ContextKind::System | ContextKind::Instructions);
    let parts = context.parts.into_iter().filter(is_prompt).map(|part| {
        let name = part.name.unwrap_or_default();
        ShownPart {
            hash: Hash::of(part.text.as_bytes()),
            stable: prompt::is_stable(&name),
            name,
            origin: part.file.unwrap_or_else(|| OWN.to_owned()),
            tokens: part.tokens,
            text: part.text,
        }
    });
    Ok(ShownPrompt::new(parts.collect(), tools, vec![]))
}

/// What the next run of this folder would receive in a new session. All files are checked, whichever session it is.
fn of_next_run(agent: &str, check: bool, globals: &Globals) -> Result<ShownPrompt, CliError> {
    // As a run that begins here and now: without a terminal it has no tool that asks.
    let flags = FlagValues { is_unattended: !is_possible(), ..FlagValues::default() };
    let config = deprecation::load(globals, flags)?;
    let overrides = Overrides::default();
    let subject = Subject { agent, overrides: &overrides, session: SessionContext::default(), date: &today() };
    let settings = config.resolve(subject)?.settings;
    let user = config.user_folder();
    let home = config.home().to_path_buf();
    let redaction = ConfigResolver::new(config.into(), models::Logins::default(), mpsc::channel(1).0).redaction();
    let protected = redaction.protected.and(&tools::Protected::folder(home.clone()));
    let places = PromptPlaces { home: &home, user: user.as_deref(), protected: &protected };
    let sources = PromptSources::read(&settings, places, || check || has_no_session(agent, globals));
    let whole = prompt::system(&settings, &sources, user.as_deref(), &redaction.secrets);
    let parts = prompt::parts(&whole).into_iter().map(|part| ShownPart {
        name: part.name.to_owned(),
        origin: part.file.unwrap_or(OWN).to_owned(),
        hash: Hash::of(part.content().as_bytes()),
        tokens: text_tokens(part.text.as_bytes()),
        stable: part.is_stable(),
        text: part.content().to_owned(),
    });
    let facts = (!settings.facts.is_empty()).then(|| ShownPart::facts(&settings.facts));
    let problems = problems(&sources, &redaction.secrets);
    Ok(ShownPrompt::new(parts.chain(facts).collect(), settings.tool_tokens(), problems))
}

/// What of the files and skills the model does not receive.
/// Whether a new session of the agent would be its first one. Without a home it would.
fn has_no_session(agent: &str, globals: &Globals) -> bool {
    let agents = ask::<AgentsList>(globals, NoParams {}).map(|listed| listed.agents).unwrap_or_default();
    agents.iter().filter(|one| one.agent == agent).all(|one| one.sessions.values().sum::<usize>() == 0)
}

fn problems(sources: &PromptSources, secrets: &Secrets) -> Vec<PromptProblem> {
    let problem =
        |file: &Path, problem: &str| PromptProblem { file: file.display().to_string(), problem: secrets.mask(problem) };
    let of_files = sources.files.iter().flat_map(|file| {
        file.text.as_ref().err().into_iter().chain(&file.problems).map(|why| problem(&file.path, why))
    });
    let of_skills = sources.skills.left_out.iter().map(|skill| problem(&skill.folder, &skill.why));
    let of_skills_used =
        sources.skills.usable.iter().flat_map(|skill| skill.problems.iter().map(|why| problem(&skill.folder, why)));
    of_files.chain(of_skills).chain(of_skills_used).collect()
}

impl ShownPart {
    /// What changes from day to day, which the model receives as a note.
    fn facts(facts: &str) -> Self {
        let text = format!("Note from limulus: {facts}");
        Self {
            name: FACTS.to_owned(),
            origin: OWN.to_owned(),
            hash: Hash::of(text.as_bytes()),
            tokens: text_tokens(text.as_bytes()),
            stable: false,
            text,
        }
    }
}

impl ShownPrompt {
    fn new(parts: Vec<ShownPart>, tools: u64, problems: Vec<PromptProblem>) -> Self {
        Self { tokens: parts.iter().map(|part| part.tokens).sum(), tools, parts, problems }
    }
}

fn lay_out(shown: &ShownPrompt) -> String {
    let mut page = Page::default();
    for part in &shown.parts {
        let ShownPart { name, origin, tokens, .. } = part;
        let tokens = count(usize::try_from(*tokens).unwrap_or(usize::MAX), "token");
        page.line_as_it_is(format!("## {name} ({}, {origin})\n", word(&tokens)));
        page.line_as_it_is(format!("{}\n", part.text));
    }
    for PromptProblem { file, problem } in &shown.problems {
        page.line_as_it_is(format!("{file}: {}", word(problem)));
    }
    page.line(format!("{} tokens, and {} of the schemas of tools beside them", shown.tokens, shown.tools));
    page.text()
}

fn lay_out_problems(problems: &[PromptProblem]) -> String {
    let mut page = Page::default();
    for PromptProblem { file, problem } in problems {
        page.line_as_it_is(format!("{file}: {}", word(problem)));
    }
    if problems.is_empty() {
        page.line("every bootstrap file is in the prompt as it was written");
    }
    page.text()
}
