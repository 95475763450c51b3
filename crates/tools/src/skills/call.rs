//! The tool `skill`: the instructions of a skill, or one of its files.

use engine::{ToolClass, ToolSpec};
use serde::Deserialize;
use serde_json::{Value, json};

use super::{SKILL_FILE, Skill, SkillNeeds, SkillPlaces, SkillText, Skills};
use crate::cancel::Cancel;
use crate::error::ToolError;
use crate::file_call::{At, FileCall};
use crate::paths::Workspace;
use crate::size::size;
use crate::tool::{Act, Needs, ParsedCall, Tool};
use crate::tool_result::ToolText;
use crate::tool_set::{self, spec};

/// The name of the tool.
pub(crate) const NAME: &str = "skill";

/// The tool.
pub(crate) struct SkillTool;

impl Tool for SkillTool {
    fn spec(&self, _timeout_s: u64) -> ToolSpec {
        spec(
            NAME,
            ToolClass::ReadOnly,
            "Read the instructions of a skill, with the folder that its scripts are in and the names of its other files; or one of \
             these files. Without a name: the names of all skills.",
            &json!({
                "name": { "type": "string", "minLength": 1, "maxLength": 64, "description": "The skill." },
                "file": { "type": "string", "minLength": 1, "description": "A file of the skill, instead of its instructions." },
            }),
            &[],
        )
    }

    fn call(&self, arguments: Value) -> Result<ParsedCall, ToolError> {
        Ok(ParsedCall::files(tool_set::arguments::<SkillArguments>(NAME, arguments)?))
    }

    fn needs(&self) -> Needs {
        Needs::Skills
    }
}

#[derive(Debug, Deserialize)]
struct SkillArguments {
    name: Option<String>,
    file: Option<String>,
}

impl FileCall for SkillArguments {
    /// None to judge: the user, or who made the project, has put the files there for the model.
    fn acts(&self, _workspace: &Workspace) -> Result<Vec<Act>, ToolError> {
        Ok(vec![])
    }

    fn run(&self, at: &At<'_>, cancel: &Cancel) -> Result<ToolText, ToolError> {
        cancel.check()?;
        let context = at.context;
        let protected = context.kept();
        let user = context.user.as_deref();
        let places = SkillPlaces { workspace: &context.workspace, user, protected: &protected };
        let Skills { usable, left_out } =
            Skills::find(places, &SkillNeeds::of_this_process(), context.skills.as_deref());
        let known = || usable.iter().map(|skill| skill.name.as_str()).collect::<Vec<_>>().join(", ");
        let Some(name) = &self.name else { return Ok(format!("{}\n", known()).into()) };
        let Some(skill) = usable.iter().find(|skill| skill.name == *name) else {
            let why = left_out.into_iter().find(|skill| skill.name.as_ref() == Some(name)).map(|skill| skill.why);
            return Err(ToolError::UnknownSkill { name: name.clone(), why, known: known() });
        };
        let text = match &self.file {
            None => with_files(skill, &skill.instructions(&protected)?),
            Some(file) => noted(&skill.file(file, &protected)?, file),
        };
        Ok(text.into())
    }
}

/// The instructions, with what the model needs to use the files of the skill.
fn with_files(skill: &Skill, instructions: &SkillText) -> String {
    let folder = skill.folder.display();
    let files = skill.files();
    let files = match &files[..] {
        [] => String::new(),
        files => format!("Its files: {}\n", files.join(", ")),
    };
    let tools = match &skill.allowed_tools[..] {
        [] => String::new(),
        tools => format!("Tools that it names: {}\n", tools.join(" ")),
    };
    let text = noted(instructions, SKILL_FILE);
    format!("Skill {} in {folder}; paths in it are relative to that folder.\n{files}{tools}\n{text}", skill.name)
}

/// The text of a file, with a note on what is left out of it.
fn noted(read: &SkillText, file: &str) -> String {
    let (text, left_out) = (read.text.trim_end(), read.left_out);
    match left_out {
        0 => format!("{text}\n"),
        bytes => format!("{text}\n[{} of {file} are left out; the tool `read` shows them]\n", size(bytes)),
    }
}
