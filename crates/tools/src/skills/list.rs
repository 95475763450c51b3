//! The list of skills in a system prompt: bounded, so that a hundred skills do not take the window.

use super::Skill;
use crate::limits::SKILL_LIST_BYTES;

/// Characters of a description, the longest first: the first that makes the list fit is taken.
const CHARS: [usize; 4] = [1_024, 300, 120, 0];

/// A line for each skill: its name and its description, shorter ones if they are many. At most about 2,000 tokens.
pub fn skill_list(skills: &[Skill]) -> String {
    let lists = CHARS.map(|chars| skills.iter().map(|skill| line(skill, chars)).collect::<Vec<_>>());
    let bytes = |lines: &[String]| lines.iter().map(String::len).sum::<usize>();
    let [.., shortest] = &lists;
    let lines = lists.iter().find(|lines| bytes(lines) <= SKILL_LIST_BYTES).unwrap_or(shortest);
    let mut left = SKILL_LIST_BYTES;
    let mut fits = |line: &&String| {
        let rest = left.checked_sub(line.len());
        left = rest.unwrap_or(0);
        rest.is_some()
    };
    let shown: Vec<&String> = lines.iter().take_while(&mut fits).collect();
    let more = lines.len() - shown.len();
    let more = if more == 0 {
        String::new()
    } else {
        format!("- and {more} more: the tool `skill` without a name lists all\n")
    };
    shown.into_iter().map(String::as_str).chain([more.as_str()]).collect()
}

fn line(skill: &Skill, chars: usize) -> String {
    let Skill { name, description, .. } = skill;
    match (chars, description.char_indices().nth(chars)) {
        (0, _) => format!("- {name}\n"),
        (_, None) => format!("- {name}: {description}\n"),
        (_, Some((end, _))) => format!("- {name}: {}…\n", description[..end].trim_end()),
    }
}
