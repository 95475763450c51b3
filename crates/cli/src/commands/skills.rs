//! `limulus skills`: the skills that the next run of this folder would have; check and add them.

use std::path::{Path, PathBuf};

use clap::{Args, Subcommand};
use config::{ConfigResolver, FlagValues, Globals, Subject, today};
use engine::{Overrides, Settings};
use runtime::{Resolver as _, SessionContext};
use serde::Serialize;
use tokio::sync::mpsc;
use tools::{ADDED_SKILLS, LeftOutSkill, Protected, Skill, SkillOrigin, SkillPlaces, Skills, add_skill, project_root};

use crate::deprecation;
use crate::error::{CliError, Exit};
use crate::language::word;
use crate::show::human::{Page, columns, count, heading, printable_line};
use crate::show::{json, print, worded};

/// List, show, check and add skills: folders with a file SKILL.md, whose instructions the model reads when a task needs them.
#[derive(Debug, Args)]
pub(crate) struct SkillsArgs {
    #[command(subcommand)]
    command: SkillsCommand,
}

#[derive(Debug, Subcommand)]
enum SkillsCommand {
    /// List the skills that the next run of this folder would have, and those that are left out
    List {
        #[command(flatten)]
        of: OfAgent,
        /// Print one JSON object
        #[arg(long)]
        json: bool,
    },
    /// Show a skill as the model reads it
    Show {
        /// The name of the skill
        name: String,
        #[command(flatten)]
        of: OfAgent,
        /// Print one JSON object
        #[arg(long)]
        json: bool,
    },
    /// Name what is wrong with skills, and end with 1 if anything is
    Check {
        /// The folder of one skill, wherever it is [default: all that the next run would find]
        folder: Option<PathBuf>,
        #[command(flatten)]
        of: OfAgent,
        /// Print a JSON array
        #[arg(long)]
        json: bool,
    },
    /// Copy a skill into the folder of your skills
    Add {
        /// The folder of the skill
        folder: PathBuf,
        /// Copy it into this project instead, for everybody who works on it
        #[arg(long)]
        project: bool,
        /// Print one JSON object
        #[arg(long)]
        json: bool,
    },
}

#[derive(Debug, Args)]
struct OfAgent {
    /// Of this agent
    #[arg(long, value_name = "NAME", default_value = "main")]
    agent: String,
}

/// The skills of a run, as `--json` prints them.
#[derive(Debug, Serialize)]
#[serde(rename_all = "camelCase")]
struct ShownSkills {
    skills: Vec<ShownSkill>,
    left_out: Vec<SkillProblem>,
}

#[derive(Debug, Serialize)]
#[serde(rename_all = "camelCase")]
struct ShownSkill {
    name: String,
    description: String,
    origin: SkillOrigin,
    folder: String,
    allowed_tools: Vec<String>,
    problems: Vec<String>,
    /// With `show`: the names of its other files.
    #[serde(skip_serializing_if = "Option::is_none")]
    files: Option<Vec<String>>,
    /// With `show`: its instructions.
    #[serde(skip_serializing_if = "Option::is_none")]
    text: Option<String>,
}

/// What is wrong with a skill.
#[derive(Debug, Serialize)]
struct SkillProblem {
    name: Option<String>,
    folder: String,
    problem: String,
}

pub(crate) fn run(args: SkillsArgs, globals: &Globals) -> Result<(), CliError> {
    match args.command {
        SkillsCommand::List { of, json: as_json } => {
            let Skills { usable, left_out } = Here::of(&of.agent, globals)?.skills();
            let skills = usable.into_iter().map(ShownSkill::of).collect();
            let shown = ShownSkills { skills, left_out: left_out.into_iter().map(SkillProblem::of).collect() };
            print(&if as_json { json(&shown) } else { lay_out(&shown) })
        }
        SkillsCommand::Show { name, of, json: as_json } => {
            let shown = Here::of(&of.agent, globals)?.show(&name)?;
            print(&if as_json { json(&shown) } else { lay_out_one(&shown) })
        }
        SkillsCommand::Check { folder, of, json: as_json } => {
            let problems = match folder {
                Some(folder) => of_folder(&folder),
                None => Here::of(&of.agent, globals)?.problems(),
            };
            print(&if as_json { json(&problems) } else { lay_out_problems(&problems) })?;
            if problems.is_empty() {
                return Ok(());
            }
            let what = format!("{} found in skills", count(problems.len(), "problem"));
            let hint = "docs/skills.md says what a skill has; change the files that are named".to_owned();
            Err(CliError::Refused { exit: Exit::RunFailed, what, hint })
        }
        SkillsCommand::Add { folder, project, json: as_json } => add(&folder, project, as_json, globals),
    }
}

/// What a run of this folder would have.
struct Here {
    settings: Settings,
    user: Option<PathBuf>,
    protected: Protected,
}

impl Here {
    fn of(agent: &str, globals: &Globals) -> Result<Self, CliError> {
        let config = deprecation::load(globals, FlagValues::default())?;
        let overrides = Overrides::default();
        let subject = Subject { agent, overrides: &overrides, session: SessionContext::default(), date: &today() };
        let settings = config.resolve(subject)?.settings;
        let (user, home) = (config.user_folder(), config.home().to_path_buf());
        let redaction = ConfigResolver::new(config.into(), models::Logins::default(), mpsc::channel(1).0).redaction();
        Ok(Self { settings, user, protected: redaction.protected.and(&Protected::folder(home)) })
    }

    fn skills(&self) -> Skills {
        let workspace = Path::new(&self.settings.workspace);
        let places = SkillPlaces { workspace, user: self.user.as_deref(), protected: &self.protected };
        Skills::of_run(&self.settings, places)
    }

    fn show(&self, name: &str) -> Result<ShownSkill, CliError> {
        let Skills { mut usable, left_out } = self.skills();
        let Some(at) = usable.iter().position(|skill| skill.name == name) else {
            let why = left_out.into_iter().find(|skill| skill.name.as_deref() == Some(name)).map(|skill| skill.why);
            let what = match why {
                Some(why) => format!("the skill {name} is left out: {why}"),
                None => format!("there is no skill {name}"),
            };
            let hint = "`limulus skills list` lists them".to_owned();
            return Err(CliError::Refused { exit: Exit::NotFound, what, hint });
        };
        let skill = usable.swap_remove(at);
        let text = skill.instructions(&self.protected).map_err(|error| CliError::Refused {
            exit: Exit::RunFailed,
            what: format!("the skill {name} cannot be read: {error}"),
            hint: "`limulus skills check` names what is wrong with skills".to_owned(),
        })?;
        let files = Some(skill.files());
        Ok(ShownSkill { files, text: Some(text.text), ..ShownSkill::of(skill) })
    }

    fn problems(&self) -> Vec<SkillProblem> {
        let Skills { usable, left_out } = self.skills();
        left_out.into_iter().map(SkillProblem::of).chain(usable.into_iter().flat_map(SkillProblem::of_used)).collect()
    }
}

impl ShownSkill {
    fn of(skill: Skill) -> Self {
        let Skill { name, description, origin, folder, allowed_tools, problems } = skill;
        let folder = folder.display().to_string();
        Self { name, description, origin, folder, allowed_tools, problems, files: None, text: None }
    }
}

impl SkillProblem {
    fn of(left_out: LeftOutSkill) -> Self {
        let LeftOutSkill { name, folder, why, .. } = left_out;
        Self { name, folder: folder.display().to_string(), problem: why }
    }

    fn of_used(skill: Skill) -> impl Iterator<Item = Self> {
        let (name, folder) = (skill.name, skill.folder.display().to_string());
        let of = move |problem| Self { name: Some(name.clone()), folder: folder.clone(), problem };
        skill.problems.into_iter().map(of)
    }
}

/// What is wrong with the skill in a folder.
fn of_folder(folder: &Path) -> Vec<SkillProblem> {
    match Skill::read(folder) {
        Ok(skill) => SkillProblem::of_used(skill).collect(),
        Err(why) => vec![SkillProblem { name: None, folder: folder.display().to_string(), problem: why }],
    }
}

fn add(folder: &Path, to_project: bool, as_json: bool, globals: &Globals) -> Result<(), CliError> {
    let refused = |what: String| CliError::Refused {
        exit: Exit::RunFailed,
        what: format!("the skill was not added: {what}"),
        hint: "`limulus skills check FOLDER` says whether a folder is a skill".to_owned(),
    };
    let config = deprecation::load(globals, FlagValues::default())?;
    let user = config.user_folder();
    let base = if to_project {
        let here = std::env::current_dir().map_err(|error| refused(format!("this folder cannot be read: {error}")))?;
        project_root(&here, user.as_deref()).unwrap_or(&here).to_owned()
    } else {
        user.ok_or_else(|| refused("HOME is not set".to_owned()))?
    };
    let (skill, folder) = add_skill(folder, &base.join(ADDED_SKILLS), to_project.then_some(&base)).map_err(refused)?;
    let shown = ShownSkill { folder: folder.display().to_string(), ..ShownSkill::of(skill) };
    let text = || {
        let folder = printable_line(&shown.folder);
        worded(format!("the skill {} is in {folder}; the next run has it\n", shown.name))
    };
    print(&if as_json { json(&shown) } else { text() })
}

fn lay_out(shown: &ShownSkills) -> String {
    let mut page = Page::default();
    if shown.skills.is_empty() {
        page.line("there are no skills here; `limulus skills add FOLDER` adds one");
    } else {
        let mut rows = vec![heading(["NAME", "OF", "FOR"])];
        rows.extend(shown.skills.iter().map(|skill| {
            let of = match skill.origin {
                SkillOrigin::Workspace => "project",
                SkillOrigin::User => "user",
            };
            [skill.name.clone(), word(of), printable_line(&skill.description).into_owned()]
        }));
        page.line_as_it_is(columns(&rows).trim_end());
    }
    for left_out in &shown.left_out {
        page.line_as_it_is(line_of(left_out));
    }
    page.text()
}

fn lay_out_one(skill: &ShownSkill) -> String {
    let mut page = Page::default();
    page.line_as_it_is(format!("# {} ({})\n", skill.name, printable_line(&skill.folder)));
    page.indented("", &skill.description);
    for name in skill.files.iter().flatten() {
        page.indented("- ", name);
    }
    page.line_as_it_is("");
    page.indented("", skill.text.as_deref().unwrap_or_default());
    page.text()
}

fn lay_out_problems(problems: &[SkillProblem]) -> String {
    let mut page = Page::default();
    for problem in problems {
        page.line_as_it_is(line_of(problem));
    }
    if problems.is_empty() {
        page.line("nothing is wrong with the skills");
    }
    page.text()
}

fn line_of(SkillProblem { folder, problem, .. }: &SkillProblem) -> String {
    format!("{}: {}", printable_line(folder), word(printable_line(problem)))
}
