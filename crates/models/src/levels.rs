//! The thinking levels of a model. The adapters know the parameters of each API.

use std::fmt;
use std::sync::Arc;

use engine::{Candidate, Thinking};
use serde::{Deserialize, Serialize, Serializer};

use crate::endpoint::{Api, Endpoint};
use crate::model::{Message, Request};
use crate::model_set::ModelSet;

/// Every level from the lowest up, with its name in the configuration.
const NAMES: [(Thinking, &str); 6] = [
    (Thinking::Off, "off"),
    (Thinking::Minimal, "minimal"),
    (Thinking::Low, "low"),
    (Thinking::Medium, "medium"),
    (Thinking::High, "high"),
    (Thinking::Xhigh, "xhigh"),
];

/// The thinking levels that a model supports.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize)]
#[serde(from = "Written")]
pub enum Levels {
    /// The model takes a budget of tokens, so every level is supported.
    Budget,
    /// A set of levels: bit `n` is the n-th level from the lowest, beginning with 0.
    Listed(u8),
}

/// Parses the form in the catalogue: `"budget"`, or a list.
#[derive(Deserialize)]
#[serde(untagged)]
enum Written {
    Keyword(Keyword),
    List(Vec<Thinking>),
}

#[derive(Deserialize)]
#[serde(rename_all = "snake_case")]
enum Keyword {
    Budget,
}

impl From<Written> for Levels {
    fn from(written: Written) -> Self {
        match written {
            Written::Keyword(Keyword::Budget) => Self::Budget,
            Written::List(levels) => Self::of(&levels),
        }
    }
}

impl Levels {
    /// No levels: the model does not think.
    pub const NONE: Self = Self::Listed(0);

    /// The set of these levels, in any order.
    pub fn of(levels: &[Thinking]) -> Self {
        Self::Listed(levels.iter().fold(0, |bits, level| bits | bit(*level)))
    }

    /// All supported levels, from the lowest up.
    pub fn all(self) -> impl Iterator<Item = Thinking> {
        let has = move |level: Thinking| match self {
            Self::Budget => true,
            Self::Listed(bits) => bits & bit(level) != 0,
        };
        NAMES.iter().map(|(level, _)| *level).filter(move |level| has(*level))
    }

    /// The supported level nearest to the requested one: the lowest that is at least as high, else the highest; none if
    /// the model has no levels.
    pub fn nearest(self, asked: Thinking) -> Option<Thinking> {
        self.all().find(|level| *level >= asked).or_else(|| self.all().last())
    }
}

/// Those of these levels (none means all) that have their own parameter, from the highest down; empty if every level
/// has one.
pub fn levels_apart(candidate: &Candidate, api: Api, levels: Option<Levels>) -> Vec<Thinking> {
    let mut request = Request {
        candidate: candidate.clone(),
        system: Arc::<str>::from("").into(),
        messages: vec![Message::user("").into()],
        tools: vec![].into(),
        endpoint: Endpoint::new(api, "", None),
        continues: false,
        cache_key: None,
        output_schema: None,
    };
    let has = |level: Thinking| levels.is_none_or(|levels| levels.all().any(|known| known == level));
    let (mut apart, mut before) = (vec![], vec![]);
    for (level, _) in NAMES.iter().rev().filter(|(level, _)| has(*level)) {
        request.candidate.thinking = Some(*level);
        let body = ModelSet::body(&request);
        if apart.is_empty() || body != before {
            apart.push(*level);
        }
        before = body;
    }
    if apart.len() == NAMES.len() { vec![] } else { apart }
}

fn bit(level: Thinking) -> u8 {
    1 << level as u8
}

/// The name of a level in the configuration.
pub fn level_name(level: Thinking) -> &'static str {
    NAMES[level as usize].1
}

impl fmt::Display for Levels {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Budget => f.write_str("budget"),
            Self::Listed(0) => f.write_str("none"),
            Self::Listed(_) => {
                let names: Vec<_> = self.all().map(level_name).collect();
                f.write_str(&names.join(" "))
            }
        }
    }
}

/// Serialised as the list of the levels' names.
impl Serialize for Levels {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_seq(self.all().map(level_name))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn r53_the_nearest_level_is_requested() {
        use Thinking::{High, Low, Medium, Minimal, Off, Xhigh};
        let table = [
            (Levels::Budget, Minimal, Some(Minimal)),
            (Levels::of(&[Off, Low, High]), Minimal, Some(Low)),
            (Levels::of(&[Off, Low, High]), Medium, Some(High)),
            (Levels::of(&[Low, High]), Off, Some(Low)),
            (Levels::of(&[Low, Medium]), Xhigh, Some(Medium)),
            (Levels::NONE, High, None),
        ];
        for (levels, asked, expected) in table {
            assert_eq!(levels.nearest(asked), expected, "{levels} {asked:?}");
        }
    }

    #[test]
    fn levels_are_shown_by_their_names() {
        for (place, (level, name)) in NAMES.iter().enumerate() {
            assert_eq!((*level as usize, level_name(*level)), (place, *name));
        }
        assert_eq!(Levels::of(&[Thinking::High, Thinking::Off]).to_string(), "off high");
        assert_eq!([Levels::NONE, Levels::Budget].map(|levels| levels.to_string()), ["none", "budget"]);
    }
}
