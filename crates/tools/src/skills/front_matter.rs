//! The front matter of a skill: YAML between two lines `---`.

use std::collections::BTreeMap;

use saphyr_parser::{Event, Parser};

use crate::limits::{SKILL_DESCRIPTION_CHARS, SKILL_NAME_CHARS};

/// Lists and maps that may be in each other.
const DEPTH: usize = 16;

/// What stands in the front matter.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct FrontMatter(BTreeMap<String, Node>);

/// A value of YAML. Every scalar is a text.
#[derive(Debug, Clone, PartialEq, Eq)]
enum Node {
    Text(String),
    List(Vec<Node>),
    Map(BTreeMap<String, Node>),
}

/// The front matter of a text, and what stands behind it.
pub(super) fn split(text: &str) -> Option<(&str, &str)> {
    let rest = text.strip_prefix("---")?;
    let rest = rest.strip_prefix("\r\n").or_else(|| rest.strip_prefix('\n'))?;
    let mut at = 0;
    for line in rest.split_inclusive('\n') {
        if line.trim_end() == "---" {
            return Some((&rest[..at], &rest[at + line.len()..]));
        }
        at += line.len();
    }
    None
}

impl FrontMatter {
    pub(super) fn parse(text: &str) -> Result<Self, String> {
        match parse(text)? {
            Node::Map(values) => Ok(Self(values)),
            Node::Text(_) | Node::List(_) => Err("it has no lines `name: …` and `description: …`".to_owned()),
        }
    }

    pub(super) fn name(&self) -> Result<String, String> {
        let name = self.text("name").ok_or("it has no `name`")?;
        let is_of_names = |char: char| char.is_ascii_lowercase() || char.is_ascii_digit() || char == '-';
        let is_valid = name.chars().all(is_of_names) && !name.starts_with('-') && !name.ends_with('-');
        if name.is_empty() || name.len() > SKILL_NAME_CHARS || !is_valid {
            return Err(format!(
                "its name {:?} is not 1 to {SKILL_NAME_CHARS} lower-case letters, digits and hyphens between them",
                name.chars().take(SKILL_NAME_CHARS).collect::<String>()
            ));
        }
        Ok(name.to_owned())
    }

    /// What the skill is for, on one line.
    pub(super) fn description(&self) -> Result<String, String> {
        let text = self.text("description").ok_or("it has no `description`")?;
        let line = text.split_whitespace().collect::<Vec<_>>().join(" ");
        let line: String = line.chars().filter(|char| !char.is_control()).take(SKILL_DESCRIPTION_CHARS).collect();
        if line.is_empty() { Err("its description is empty".to_owned()) } else { Ok(line) }
    }

    /// What is not as the format has it.
    pub(super) fn problems(&self) -> Vec<String> {
        let chars = self.text("description").map_or(0, |text| text.chars().count());
        let is_long = chars > SKILL_DESCRIPTION_CHARS;
        let problem = || format!("its description has {chars} characters, and {SKILL_DESCRIPTION_CHARS} are shown");
        is_long.then(problem).into_iter().collect()
    }

    /// The names in `allowed-tools`: a list, or a text with spaces or commas between them. A space in brackets separates nothing.
    pub(super) fn allowed_tools(&self) -> Vec<String> {
        let Some(Node::Text(text)) = self.0.get("allowed-tools") else { return self.names(&["allowed-tools"]) };
        let mut depth = 0_usize;
        let separates = |char: char| {
            match char {
                '(' => depth += 1,
                ')' => depth = depth.saturating_sub(1),
                _ => {}
            }
            depth == 0 && (char.is_whitespace() || char == ',')
        };
        text.split(separates).filter(|name| !name.is_empty()).map(str::to_owned).collect()
    }

    /// The names of what it needs: a list, or one name. `metadata` has it for this program or for one with the same form.
    pub(super) fn needs(&self, path: &[&str]) -> Vec<String> {
        let of = |program: &&str| self.names(&[&["metadata", program], path].concat());
        ["limulus", "openclaw"].iter().map(of).find(|names| !names.is_empty()).unwrap_or_default()
    }

    fn names(&self, path: &[&str]) -> Vec<String> {
        let mut at = self.0.get(path[0]);
        for name in &path[1..] {
            at = at.and_then(|node| if let Node::Map(values) = node { values.get(*name) } else { None });
        }
        let text = |node: &Node| if let Node::Text(text) = node { Some(text.clone()) } else { None };
        match at {
            Some(Node::List(nodes)) => nodes.iter().filter_map(text).collect(),
            Some(node) => text(node).into_iter().collect(),
            None => vec![],
        }
    }

    fn text(&self, name: &str) -> Option<&str> {
        if let Some(Node::Text(text)) = self.0.get(name) { Some(text.trim()) } else { None }
    }
}

/// An open list or map, the map with the key whose value comes next.
enum Open {
    List(Vec<Node>),
    Map(BTreeMap<String, Node>, Option<String>),
}

/// The first document. Aliases are refused: a few lines of them stand for gigabytes.
fn parse(text: &str) -> Result<Node, String> {
    let mut open: Vec<Open> = vec![];
    for event in Parser::new_from_str(text) {
        let (event, _) = event.map_err(|error| error.to_string())?;
        let node = match event {
            Event::Scalar(text, ..) => Node::Text(text.into_owned()),
            Event::SequenceStart(..) => {
                open.push(Open::List(vec![]));
                continue;
            }
            Event::MappingStart(..) => {
                open.push(Open::Map(BTreeMap::new(), None));
                continue;
            }
            Event::SequenceEnd | Event::MappingEnd => match open.pop() {
                Some(Open::List(nodes)) => Node::List(nodes),
                Some(Open::Map(values, _)) => Node::Map(values),
                None => continue,
            },
            Event::Alias(_) => return Err("aliases (`*name`) are not supported".to_owned()),
            Event::Nothing | Event::StreamStart | Event::StreamEnd | Event::DocumentStart(_) | Event::DocumentEnd => {
                continue;
            }
        };
        if open.len() > DEPTH {
            return Err(format!("more than {DEPTH} lists and maps are in each other"));
        }
        match open.last_mut() {
            None => return Ok(node),
            Some(Open::List(nodes)) => nodes.push(node),
            Some(Open::Map(values, key)) => match (key.take(), node) {
                (Some(name), value) if values.contains_key(&name) => {
                    return Err(format!("`{name}` stands there twice, the second time with {}", kind(&value)));
                }
                (Some(name), value) => {
                    values.insert(name, value);
                }
                (None, Node::Text(name)) => *key = Some(name),
                (None, node) => return Err(format!("a name is {}", kind(&node))),
            },
        }
    }
    Err("it is empty".to_owned())
}

fn kind(node: &Node) -> &'static str {
    match node {
        Node::Text(_) => "a text",
        Node::List(_) => "a list",
        Node::Map(_) => "a map",
    }
}
