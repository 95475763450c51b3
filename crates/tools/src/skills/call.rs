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
use crate::tool::{Act, ParsedCall, Tool};
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
             these files.",
            &json!({
                "name": { "type": "string", "minLength": 1, "maxLength": 64, "description": "The skill." },
                "file": { "type": "string", "minLength": 1, "description": "A file of the skill, instead of its instructions." },
            }),
            &["name"],
        )
    }

    fn call(&self, arguments: Value) -> Result<ParsedCall, ToolError> {
        Ok(ParsedCall::files(tool_set::arguments::<SkillArguments>(NAME, arguments)?))
    }

    fn needs_configuration(&self) -> bool {
        true
    }
}

#[derive(Debug, Deserialize)]
struct SkillArguments {
    name: String,
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
        let Some(skill) = usable.iter().find(|skill| skill.name == self.name) else {
            let why = left_out.into_iter().find(|skill| skill.name.as_ref() == Some(&self.name)).map(|skill| skill.why);
            let known = usable.iter().map(|skill| skill.name.as_str()).collect::<Vec<_>>().join(", ");
            return Err(ToolError::UnknownSkill { name: self.name.clone(), why, known });
        };
        let text = match &self.file {
            None => with_files(skill, &skill.instructions(&protected)?),
            Some(file) => noted(&skill.file(file, &protected)?, "read it with the tool `read` to see the rest"),
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
    let text = noted(instructions, "its end can be read with the tool `read`");
    format!("Skill {} in {folder}; paths in it are relative to that folder.\n{files}{tools}\n{text}", skill.name)
}

fn noted(read: &SkillText, hint: &str) -> String {
    let SkillText { text, left_out } = read;
    match left_out {
        0 => format!("{}\n", text.trim_end()),
        bytes => {
            format!("{}\n[{} of {SKILL_FILE} or of this file are left out; {hint}]\n", text.trim_end(), size(*bytes))
        }
    }
}
