//! Skills: folders with a file `SKILL.md`, whose name and description the model always has, and whose text and other files it
//! reads when a task needs them. They are those of the project and those of the user.

mod add;
mod call;
mod front_matter;
mod list;
mod needs;

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::io::{self, Read as _};
use std::path::{Path, PathBuf};

use engine::Settings;
use serde::Serialize;

use crate::error::ToolError;
use crate::guard::Protected;
use crate::limits::{
    BOOTSTRAP_FOLDERS, SKILL_FILES, SKILL_HEAD_BYTES, SKILL_TEXT_BYTES, SKILLS_IN_FOLDER, SKILLS_MOST,
};
use crate::paths::{ResolvedPath, Workspace, real_folder};
use crate::project::project_root;
use crate::size::size;

use front_matter::FrontMatter;

pub use add::{ADDED_SKILLS, add_skill};
pub(crate) use call::{NAME, SkillTool};
pub use list::skill_list;
use needs::SkillNeeds;

/// The file that makes a folder a skill.
pub const SKILL_FILE: &str = "SKILL.md";
/// The folders of skills, in a folder of the project and in that of the user; the first is the strongest.
const FOLDERS: [&str; 3] = [".limulus/skills", ".agents/skills", ".claude/skills"];

/// Whose a skill is.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum SkillOrigin {
    /// It is in the workspace, or in a folder above it in its project.
    Workspace,
    /// It is in the user's own folder.
    User,
}

/// A skill that a run has.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Skill {
    /// Its name: 1 to 64 lower-case letters, digits and hyphens.
    pub name: String,
    /// What it is for, on one line.
    pub description: String,
    /// Whose it is.
    pub origin: SkillOrigin,
    /// Its folder, without links.
    pub folder: PathBuf,
    /// The tools that it names as its own, as they are written there.
    pub allowed_tools: Vec<String>,
    /// What of it is not as the format has it, and does not keep it from being used.
    pub problems: Vec<String>,
}

/// A folder of a skill that a run does not have.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct LeftOutSkill {
    /// Its name, if it could be read.
    pub name: Option<String>,
    /// Its folder.
    pub folder: PathBuf,
    /// Why.
    pub why: String,
    /// Whether it is a fault: it is broken, or another one has its name. Else it is not for this system or agent.
    pub is_fault: bool,
}

/// The skills of a workspace and of the user.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Skills {
    /// Those that a run has, by name.
    pub usable: Vec<Skill>,
    /// The others.
    pub left_out: Vec<LeftOutSkill>,
}

/// Where skills are looked for.
#[derive(Debug, Clone, Copy)]
pub struct SkillPlaces<'a> {
    /// The folder that the agent works in.
    pub workspace: &'a Path,
    /// The user's folder.
    pub user: Option<&'a Path>,
    /// What is not read.
    pub protected: &'a Protected,
}

/// A folder with skills.
#[derive(Debug, Clone, PartialEq, Eq)]
struct Place {
    folder: PathBuf,
    origin: SkillOrigin,
    /// The folder out of which no link of it may lead; none = each skill may be a link to anywhere.
    root: Option<PathBuf>,
}

/// A folder with skills that was opened: each of them is looked for from here, and not from `/`, since there may be many.
struct OpenPlace<'a> {
    origin: SkillOrigin,
    /// The root without links.
    root: Option<PathBuf>,
    /// The folder; none if it cannot be opened, or nothing in it may be read.
    folder: Option<Workspace>,
    /// Everything, for a skill that is a link.
    within: &'a Workspace,
}

impl<'a> OpenPlace<'a> {
    fn of(place: &Place, within: &'a Workspace) -> Self {
        let root = place.root.as_deref().map(real_folder);
        let folder = place.folder.canonicalize().ok().and_then(|folder| within.in_folder(&folder).ok());
        Self { origin: place.origin, root, folder, within }
    }

    /// The folder of a skill without links, and its `SKILL.md`.
    fn skill(&self, folder: &Path, is_link: bool) -> Result<(PathBuf, ResolvedPath), String> {
        let here = self.folder.as_ref().filter(|_| !is_link).zip(folder.file_name());
        let real = match &here {
            Some((here, name)) => here.root.join(name),
            None => folder.canonicalize().map_err(|error| cannot_read(&error))?,
        };
        if let Some(root) = self.root.as_ref().filter(|root| !real.starts_with(root)) {
            return Err(format!("it leads out of {}", root.display()));
        }
        let file = resolve(here.map_or(self.within, |(here, _)| here), &real, SKILL_FILE);
        let file = file.map_err(|error| error.to_string())?;
        Ok((real, file.ok_or_else(|| format!("its {SKILL_FILE} leads out of it"))?))
    }

    /// Reads the front matter of a skill.
    fn read(&self, folder: &Path, is_link: bool) -> Result<(Skill, FrontMatter), String> {
        let (real, resolved) = self.skill(folder, is_link)?;
        let (file, bytes) = resolved.open_file("read").map_err(|error| error.to_string())?;
        let mut head = Vec::with_capacity(SKILL_HEAD_BYTES);
        file.take(SKILL_HEAD_BYTES as u64).read_to_end(&mut head).map_err(|error| cannot_read(&error))?;
        let whole = match std::str::from_utf8(&head) {
            Ok(whole) => whole,
            // The end may be in the middle of a character.
            Err(error) if error.error_len().is_none() => {
                std::str::from_utf8(&head[..error.valid_up_to()]).unwrap_or_default()
            }
            Err(_) => return Err(format!("{SKILL_FILE} is not text in UTF-8")),
        };
        let (front, _) = front_matter::split(whole.trim_start_matches('\u{feff}')).ok_or_else(|| {
            format!(
                "{SKILL_FILE} does not begin with `---`, its name and description, and another `---` within {}",
                size(SKILL_HEAD_BYTES as u64)
            )
        })?;
        let matter =
            FrontMatter::parse(front).map_err(|why| format!("the front matter of {SKILL_FILE} is broken: {why}"))?;
        let name = matter.name()?;
        let description = matter.description()?;
        let mut problems = matter.problems();
        let of_folder = folder.file_name().map(|name| name.to_string_lossy().into_owned()).unwrap_or_default();
        if of_folder != name {
            problems.push(format!("its folder is called {of_folder:?}, and its name is {name}"));
        }
        if bytes > SKILL_TEXT_BYTES as u64 {
            problems.push(format!(
                "{SKILL_FILE} has {}; the model receives {} of it",
                size(bytes),
                size(SKILL_TEXT_BYTES as u64)
            ));
        }
        let allowed_tools = matter.allowed_tools();
        Ok((Skill { name, description, origin: self.origin, folder: real, allowed_tools, problems }, matter))
    }
}

fn cannot_read(error: &io::Error) -> String {
    format!("cannot read it: {error}")
}

impl<'a> SkillPlaces<'a> {
    /// The folders in which there may be skills, the strongest first.
    fn all(&self) -> Vec<Place> {
        let root = project_root(self.workspace, self.user).unwrap_or(self.workspace);
        let of_project = self.workspace.ancestors().take_while(|folder| folder.starts_with(root));
        let of_project = of_project.take(BOOTSTRAP_FOLDERS).filter(|folder| Some(*folder) != self.user);
        let within = |base: &'a Path, origin, root: Option<&Path>| {
            let root = root.map(Path::to_owned);
            FOLDERS.map(|name| Place { folder: base.join(name), origin, root: root.clone() })
        };
        let of_project = of_project.flat_map(|base| within(base, SkillOrigin::Workspace, Some(root)));
        of_project.chain(self.user.into_iter().flat_map(|base| within(base, SkillOrigin::User, None))).collect()
    }
}

/// Whether there may be skills: whether a folder for them has anything in it. It follows no link and reads no content, since it is
/// asked on a thread that should not wait for a disk that somebody else has chosen; a link counts as a folder with something.
pub fn has_skills(workspace: &Path, user: Option<&Path>) -> bool {
    let may_have = |folder: &Path| {
        let kind = |path: &Path| path.symlink_metadata().ok().map(|found| found.file_type());
        let above = folder.parent().and_then(kind);
        match (above, above.filter(fs::FileType::is_dir).and_then(|_| kind(folder))) {
            (Some(above), _) if above.is_symlink() => true,
            (_, Some(found)) if found.is_dir() => {
                fs::read_dir(folder).is_ok_and(|mut entries| entries.next().is_some())
            }
            (_, found) => found.is_some_and(|found| found.is_symlink()),
        }
    };
    let places = SkillPlaces { workspace, user, protected: &Protected::default() };
    places.all().iter().any(|place| may_have(&place.folder))
}

/// Whether the skill of this name is the user's own: it is in one of their folders, and in none of the project, whose skill would come
/// before it. Nothing is read.
pub fn is_users_skill(name: &str, workspace: &Path, user: Option<&Path>) -> bool {
    let places = SkillPlaces { workspace, user, protected: &Protected::default() };
    let is_there = |place: &Place| place.folder.join(name).symlink_metadata().is_ok();
    let first = places.all().into_iter().find(is_there);
    first.is_some_and(|place| place.origin == SkillOrigin::User && place.folder.join(name).join(SKILL_FILE).is_file())
}

impl Skills {
    /// Finds the skills that a run with these settings has; none without the tool that reads them. What is hidden from its commands
    /// is not read. May block.
    pub fn of_run(settings: &Settings, places: SkillPlaces<'_>) -> Self {
        if settings.tool(NAME).is_none() {
            return Self::default();
        }
        let protected = &places.protected.clone().and(&crate::sandbox::hidden(&settings.sandbox));
        let places = SkillPlaces { protected, ..places };
        Self::find(places, &SkillNeeds::of_this_process(), settings.prompt.skills.as_deref())
    }

    /// Finds the skills of these places, of these names if there are any: `only`. Of a flood of them the first count.
    fn find(places: SkillPlaces<'_>, needs: &SkillNeeds, only: Option<&[String]>) -> Self {
        let mut found = Self::default();
        let (mut known, mut seen) = (BTreeMap::<String, PathBuf>::new(), BTreeSet::new());
        let Ok(within) = everything(places.protected) else { return found };
        for place in places.all() {
            let here = OpenPlace::of(&place, &within);
            for (folder, kind) in entries(&place.folder) {
                if kind.is_file() || folder.join(SKILL_FILE).symlink_metadata().is_err() {
                    continue;
                }
                if found.usable.len() + found.left_out.len() >= SKILLS_MOST {
                    let why = format!("there are more than {SKILLS_MOST} skills, and the rest is not looked at");
                    found.left_out.push(LeftOutSkill { name: None, folder, why, is_fault: true });
                    found.usable.sort_by(|one, other| one.name.cmp(&other.name));
                    return found;
                }
                let (skill, matter) = match here.read(&folder, kind.is_symlink()) {
                    Ok(read) => read,
                    Err(why) => {
                        found.left_out.push(LeftOutSkill { name: None, folder, why, is_fault: true });
                        continue;
                    }
                };
                // A link to a folder of skills that was looked at already.
                if !seen.insert(skill.folder.clone()) {
                    continue;
                }
                // The names of folders alone say which skill of a name counts: `is_users_skill` relies on it.
                let is_misnamed = place.origin == SkillOrigin::Workspace && !folder.ends_with(&skill.name);
                let misnamed = is_misnamed.then(|| {
                    format!("a skill of a project has the name of its folder, and this one is {}", skill.name)
                });
                let stronger = known
                    .get(&skill.name)
                    .map(|stronger| format!("the skill of the same name in {} comes before it", stronger.display()));
                let unlisted = || {
                    let is_listed = only.is_none_or(|only| only.contains(&skill.name));
                    (!is_listed).then(|| "`agents.NAME.skills` does not name it".to_owned())
                };
                let fault = misnamed.or(stronger);
                let is_fault = fault.is_some();
                if let Some(why) = fault.or_else(unlisted).or_else(|| needs.missing(&matter)) {
                    let Skill { name, folder, .. } = skill;
                    found.left_out.push(LeftOutSkill { name: Some(name), folder, why, is_fault });
                    continue;
                }
                known.insert(skill.name.clone(), skill.folder.clone());
                found.usable.push(skill);
            }
        }
        found.usable.sort_by(|one, other| one.name.cmp(&other.name));
        found
    }

    /// The skill of this name.
    pub fn get(&self, name: &str) -> Option<&Skill> {
        self.usable.iter().find(|skill| skill.name == name)
    }
}

/// A text of a skill, and whether it was cut.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SkillText {
    /// The text of `SKILL.md` behind its front matter, or of another file of the skill.
    pub text: String,
    /// Bytes of it that are left out at its end.
    pub left_out: u64,
}

impl Skill {
    /// Reads the folder of a skill wherever it is, as that of a user.
    pub fn read(folder: &Path) -> Result<Self, String> {
        let within = everything(&Protected::default()).map_err(|error| error.to_string())?;
        OpenPlace { origin: SkillOrigin::User, root: None, folder: None, within: &within }
            .read(folder, true)
            .map(|(skill, _)| skill)
    }

    /// The instructions: what stands behind the front matter.
    pub fn instructions(&self, protected: &Protected) -> Result<SkillText, ToolError> {
        let SkillText { text, left_out } = self.file(SKILL_FILE, protected)?;
        let text = front_matter::split(&text).map_or(text.as_str(), |(_, body)| body).trim().to_owned();
        Ok(SkillText { text, left_out })
    }

    /// A file of its folder, with a path relative to that. No link leads out of it.
    pub fn file(&self, path: &str, protected: &Protected) -> Result<SkillText, ToolError> {
        let outside = || ToolError::OutsideSkill { name: self.name.clone(), path: path.to_owned() };
        let resolved = resolve(&everything(protected)?, &self.folder, path)?.ok_or_else(outside)?;
        let (file, bytes) = resolved.open_file("read")?;
        let mut text = vec![];
        let failed = ToolError::file("read", resolved.shown.clone());
        file.take(SKILL_TEXT_BYTES as u64).read_to_end(&mut text).map_err(failed)?;
        let (text, left_out) = match String::from_utf8(text) {
            Ok(text) => (text, bytes.saturating_sub(SKILL_TEXT_BYTES as u64)),
            Err(error) if bytes > SKILL_TEXT_BYTES as u64 && error.utf8_error().error_len().is_none() => {
                let valid = error.utf8_error().valid_up_to();
                (String::from_utf8_lossy(&error.into_bytes()[..valid]).into_owned(), bytes - valid as u64)
            }
            Err(_) => return Err(ToolError::NotText { path: resolved.shown, bytes, what: "another encoding" }),
        };
        Ok(SkillText { text: text.trim_start_matches('\u{feff}').to_owned(), left_out })
    }

    /// The other files of its folder, with paths relative to it, in order; at most so many as are worth naming, of so many entries
    /// as are worth looking at. What controls a terminal or a line in a name is replaced.
    pub fn files(&self) -> Vec<String> {
        let (mut files, mut looked_at) = (vec![], 0);
        let mut open = vec![self.folder.clone()];
        while let Some(folder) = open.pop() {
            for (path, kind) in entries(&folder) {
                looked_at += 1;
                if files.len() >= SKILL_FILES || looked_at > SKILLS_IN_FOLDER {
                    break;
                }
                let name = path.strip_prefix(&self.folder).unwrap_or(&path).display().to_string();
                if kind.is_dir() {
                    open.push(path);
                } else if name != SKILL_FILE {
                    files.push(name.replace(char::is_control, "\u{fffd}"));
                }
            }
        }
        files.sort();
        files
    }
}

/// What paths are resolved in: everything, so that a folder which is hidden does not become visible because a skill is in it.
fn everything(protected: &Protected) -> Result<Workspace, ToolError> {
    Workspace::open(Path::new("/"), protected)
}

/// A path in the folder of a skill, without links; none if it leads out of it. The folder is in `within`.
fn resolve(within: &Workspace, folder: &Path, path: &str) -> Result<Option<ResolvedPath>, ToolError> {
    // With a dot before it, a folder called `~` is not the user's.
    let from_root = Path::new(".").join(folder.strip_prefix(&within.root).unwrap_or(folder)).join(path);
    let not_text = || ToolError::BadPath { path: folder.join(path).display().to_string(), reason: "it is not UTF-8" };
    let resolved = within.locate(from_root.to_str().ok_or_else(not_text)?)?;
    let is_inside = resolved.real.starts_with(folder);
    Ok(is_inside.then(|| ResolvedPath { shown: path.to_owned(), ..resolved }))
}

/// The entries of a folder with their kinds, in order. None if it cannot be read.
fn entries(folder: &Path) -> Vec<(PathBuf, fs::FileType)> {
    let read = fs::read_dir(folder).into_iter().flatten();
    let known = |entry: io::Result<fs::DirEntry>| entry.and_then(|entry| Ok((entry.path(), entry.file_type()?))).ok();
    let mut entries: Vec<_> = read.take(SKILLS_IN_FOLDER).filter_map(known).collect();
    entries.sort_by(|(one, _), (other, _)| one.cmp(other));
    entries
}

#[cfg(test)]
mod tests;
