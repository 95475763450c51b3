//! Whether the files of a project may allow more than the configuration of the user: `limulus policy trust`, and the question of
//! `limulus agent`.

use std::path::{Path, PathBuf};

use config::{Config, FileTrust, FlagValues, Globals, ProjectTrust};
use serde::Serialize;

use crate::deprecation;
use crate::error::CliError;
use crate::language::word;
use crate::prompt;
use crate::show::human::{columns, heading, printable_line};
use crate::show::{json, print};

/// The answer, as `--json` prints it.
#[derive(Debug, Serialize)]
struct TrustAnswered {
    files: Vec<ProjectTrust>,
}

pub(super) fn run(path: Option<PathBuf>, trusted: bool, as_json: bool, globals: &Globals) -> Result<(), CliError> {
    let config = deprecation::load(globals, FlagValues::default())?;
    let folder = path.unwrap_or_else(|| PathBuf::from("."));
    let folder = globals.environment.absolute(&folder.to_string_lossy())?;
    if !folder.is_dir() {
        return Err(CliError::Usage {
            what: format!("there is no folder {}", folder.display()),
            hint: "name the folder of a project: limulus policy trust PATH".into(),
        });
    }
    let files = config.project_trust(&folder)?;
    if files.is_empty() {
        return Err(CliError::Usage {
            what: format!("the project of {} has no .limulus/config.toml", folder.display()),
            hint: "there is nothing to trust; docs/policy.md says what such a file may allow".into(),
        });
    }
    config.answer_trust(&files, trusted)?;
    let files: Vec<_> = files.into_iter().map(|file| file.answered(trusted)).collect();
    print(&if as_json { json(&TrustAnswered { files }) } else { lay_out(&files) })
}

fn lay_out(files: &[ProjectTrust]) -> String {
    let mut rows = vec![heading(["FILE", "TRUST", "ALLOWS"])];
    for file in files {
        let mut place = [shown(&file.path), word(name(file.trust))];
        if file.allows.is_empty() {
            let [path, trust] = place.clone();
            rows.push([path, trust, word("nothing beyond your own configuration")]);
        }
        for line in lines(file) {
            let [path, trust] = std::mem::take(&mut place);
            rows.push([path, trust, line]);
        }
    }
    columns(&rows)
}

/// What the files of a project allow that does not count.
pub(super) fn lay_out_open(files: &[ProjectTrust]) -> String {
    let without = |file: &&ProjectTrust| file.trust != FileTrust::Trusted && !file.allows.is_empty();
    let files: Vec<ProjectTrust> = files.iter().filter(without).cloned().collect();
    if files.is_empty() { String::new() } else { format!("\n{}", lay_out(&files)) }
}

fn lines(file: &ProjectTrust) -> impl Iterator<Item = String> {
    file.allows.iter().map(|allowance| {
        let what = printable_line(&allowance.what);
        match &allowance.now {
            Some(now) => word(format!("line {}: {what} (yours: {now})", allowance.line)),
            None => word(format!("line {}: {what}", allowance.line)),
        }
    })
}

fn shown(path: &Path) -> String {
    printable_line(&path.display().to_string()).into_owned()
}

fn name(trust: FileTrust) -> &'static str {
    match trust {
        FileTrust::Trusted => "trusted",
        FileTrust::Refused => "refused",
        FileTrust::Changed => "changed",
        FileTrust::New => "not trusted",
    }
}

/// Asks about what the files of this project allow, once for each content. Returns a note where nobody can be asked.
pub(in crate::commands) fn ask(config: &Config, workspace: &Path, may_ask: bool) -> Result<Option<String>, CliError> {
    let files = config.project_trust(workspace)?;
    let open: Vec<ProjectTrust> = files.into_iter().filter(ProjectTrust::is_open).collect();
    if open.is_empty() {
        return Ok(None);
    }
    if !may_ask {
        let files: Vec<String> = open.iter().map(|file| shown(&file.path)).collect();
        return Ok(Some(format!(
            "what {} allows does not count until you trust it: limulus policy trust",
            files.join(", ")
        )));
    }
    let question = format!(
        "{}\n{}\n{}",
        word("This project asks for more than your own configuration allows:"),
        lay_out(&open).trim_end(),
        word("Trust it? If the file changes, you are asked again. [y/N]"),
    );
    // Without an answer nothing is remembered.
    if let Some(answer) = prompt::ask(&question, prompt::OPEN) {
        config.answer_trust(&open, prompt::is_yes(&answer))?;
    }
    Ok(None)
}
