//! `limulus config`: shows, checks, locates, creates and changes the configuration.

mod edit;
pub(super) mod file;
mod init;
mod set;
mod text;

use std::fmt::Write as _;
use std::path::Path;

use clap::{Args, Subcommand};
use config::{
    Config, Effective, FILE, FlagValues, Globals, Place, Remark, Review, Setting, Subject, places, schema, today,
};
use serde::Serialize;

use crate::error::CliError;
use crate::show::human::{columns, count, printable};
use crate::show::{json, print, worded};

/// Show, check, locate, create and change the configuration.
#[derive(Debug, Args)]
pub(crate) struct ConfigArgs {
    #[command(subcommand)]
    command: ConfigCommand,
}

#[derive(Debug, Subcommand)]
enum ConfigCommand {
    /// Print all settings in force, as TOML; a secret key in the file is printed as …
    Show {
        /// Print where each value comes from: defaults, file, project, variable or flag
        #[arg(long)]
        origin: bool,
        /// Print only what differs from the defaults
        #[arg(long)]
        changed: bool,
        /// Assume `agent --workspace DIR`
        #[arg(long, value_name = "DIR")]
        workspace: Option<String>,
        /// Print one JSON object
        #[arg(long)]
        json: bool,
    },
    /// Print the value in force of a key, or of each key of a table
    Get {
        /// The key as in the file, such as tools.exec.policy
        key: String,
        /// Print one JSON object; of a table a list of them
        #[arg(long)]
        json: bool,
    },
    /// Set a key in the file; everything else in it stays, comments too
    Set {
        /// The key as in the file, such as tools.exec.policy
        key: String,
        /// Its value; a list or a table in TOML, such as `{ timeout_s = 60 }`
        #[arg(allow_hyphen_values = true)]
        value: String,
        /// Print one JSON object
        #[arg(long)]
        json: bool,
    },
    /// Take a key, or all keys of a table, out of the file
    Unset {
        /// The key as in the file, such as tools.exec.policy
        key: String,
        /// Print one JSON object
        #[arg(long)]
        json: bool,
    },
    /// Open the file in $VISUAL or $EDITOR, and check it afterwards
    Edit {
        /// Open the file that sets this key [default: that of the home]
        key: Option<String>,
        /// Print one JSON object
        #[arg(long)]
        json: bool,
    },
    /// Print all errors and warnings; exit code 78 if a run could not start
    Check {
        /// Print one JSON object
        #[arg(long)]
        json: bool,
    },
    /// Print where the file is, whether it exists or not
    Path {
        /// Print one JSON object
        #[arg(long)]
        json: bool,
    },
    /// Print the JSON Schema of the file, for editors
    Schema {
        /// Accepted without effect: the schema is JSON
        #[arg(long)]
        json: bool,
    },
    /// Write a file with every key in it, commented out; never overwrite an existing one
    Init {
        /// Print the file instead of writing it
        #[arg(long)]
        print: bool,
        /// Print one JSON object
        #[arg(long)]
        json: bool,
    },
}

pub(crate) fn run(args: ConfigArgs, globals: &Globals) -> Result<(), CliError> {
    match args.command {
        ConfigCommand::Show { origin, changed, workspace, json } => {
            let mut effective = Config::effective(
                &globals.home,
                &globals.environment,
                FlagValues { workspace, ..FlagValues::default() },
            )?;
            effective.settings.retain(|setting| !changed || setting.layer != "defaults");
            let shown = Shown::of(effective, globals);
            print(&if json { self::json(&shown) } else { lay_out(&shown, origin) })
        }
        ConfigCommand::Get { key, json } => set::get(globals, &key, json),
        ConfigCommand::Set { key, value, json } => set::set(globals, &key, &value, json),
        ConfigCommand::Unset { key, json } => set::unset(globals, &key, json),
        ConfigCommand::Edit { key, json } => edit::run(globals, key.as_deref(), json),
        ConfigCommand::Check { json } => check(globals, json),
        ConfigCommand::Path { json } => {
            let place = ConfigFile::of(globals);
            print(&if json { self::json(&place) } else { format!("{}\n", place.file) })
        }
        ConfigCommand::Schema { json: _ } => print(&json(&schema())),
        ConfigCommand::Init { print, json } => init::run(globals, print, json),
    }
}

/// The place of the configuration file.
#[derive(Debug, PartialEq, Serialize)]
struct ConfigFile {
    home: String,
    file: String,
    exists: bool,
    /// Every file, the strongest first.
    files: Vec<Place>,
}

impl ConfigFile {
    fn of(globals: &Globals) -> Self {
        let file = globals.home.join(FILE);
        Self { home: show(&globals.home), exists: file.exists(), file: show(&file), files: places(globals) }
    }
}

fn show(path: &Path) -> String {
    path.display().to_string()
}

/// All settings in force.
#[derive(Debug, PartialEq, Serialize)]
struct Shown {
    #[serde(flatten)]
    place: ConfigFile,
    settings: Vec<Setting>,
    /// Notes on the model: the one that answers if none is configured, and settings that it does not support.
    notes: Vec<String>,
}

impl Shown {
    fn of(effective: Effective, globals: &Globals) -> Self {
        let Effective { config, settings } = effective;
        let overrides = engine::Overrides::default();
        let subject = Subject {
            agent: "main",
            overrides: &overrides,
            session: runtime::SessionContext::default(),
            date: &today(),
        };
        // `config check` reports what cannot be resolved; here it is printed as written.
        let notes = config.resolve(subject).map(|resolved| resolved.notes).unwrap_or_default();
        Self { place: ConfigFile::of(globals), settings, notes }
    }
}

fn lay_out(shown: &Shown, with_origin: bool) -> String {
    let rows = shown.settings.iter().map(|setting| {
        let from = setting.at.as_deref().unwrap_or(setting.layer);
        let comment = if with_origin { format!("# {from}") } else { String::new() };
        [format!("{} = {}", setting.key, setting.value), comment].map(|cell| printable(&cell).into_owned())
    });
    let mut text = columns(&rows.collect::<Vec<_>>());
    for note in &shown.notes {
        // Writing to a String cannot fail.
        let _ = writeln!(text, "# {note}");
    }
    text
}

/// The result of `config check`.
#[derive(Debug, PartialEq, Serialize)]
struct Checked {
    #[serde(flatten)]
    place: ConfigFile,
    errors: Vec<Remark>,
    warnings: Vec<Remark>,
}

fn check(globals: &Globals, as_json: bool) -> Result<(), CliError> {
    let Review { errors, warnings, set } = Config::review(&globals.home, &globals.environment, FlagValues::default());
    let checked = Checked { place: ConfigFile::of(globals), errors, warnings };
    print(&if as_json { json(&checked) } else { worded(lay_out_check(&checked, set)) })?;
    match checked.errors.len() {
        0 => Ok(()),
        number => Err(CliError::Config {
            what: format!("the configuration has {}", count(number, "error")),
            hint: "each is listed on stdout with its place and what to write instead".to_owned(),
        }),
    }
}

fn lay_out_check(checked: &Checked, set: usize) -> String {
    let mut text = remarks(&checked.errors, &checked.warnings);
    if checked.errors.is_empty() {
        let ConfigFile { file, exists, files, .. } = &checked.place;
        let others = files.iter().filter(|other| other.exists && show(&other.path) != *file);
        let absent = if *exists { "" } else { " (it is not there)" };
        let all = std::iter::once(format!("{file}{absent}"));
        let all = all.chain(others.map(|other| printable(&show(&other.path)).into_owned()));
        let all = all.collect::<Vec<_>>().join(", ");
        let _ = writeln!(text, "✓ {all} and the variables can be used: {}", set_keys(set));
    }
    text
}

/// Errors and warnings, each with its hint.
fn remarks(errors: &[Remark], warnings: &[Remark]) -> String {
    let marked = errors.iter().map(|error| ('✗', error)).chain(warnings.iter().map(|warning| ('!', warning)));
    let lines = marked
        .map(|(mark, Remark { what, hint })| format!("{mark} {}\n  hint: {}\n", printable(what), printable(hint)));
    lines.collect()
}

fn set_keys(set: usize) -> String {
    if set == 0 { "they change nothing".to_owned() } else { format!("{} set", count(set, "key")) }
}
