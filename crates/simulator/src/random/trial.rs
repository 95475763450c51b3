//! A random case as text: a mode, a seed, and what was changed of what the seed gives.

use std::fmt;
use std::str::FromStr;

use crate::case::InvalidCase;
use crate::fault::PlannedFault;
use crate::invariant::Violation;
use crate::world::Medium;

/// The kinds of random cases.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Mode {
    /// A few faults anywhere.
    Random,
    /// Many faults in a row and absent users, then no more faults: whatever can end must end.
    Liveness,
    /// The real journal over a disk that can fail at any operation.
    Disk,
}

impl Mode {
    /// All modes.
    pub const ALL: [Self; 3] = [Self::Random, Self::Liveness, Self::Disk];

    /// Its name on the command line.
    pub fn name(self) -> &'static str {
        match self {
            Self::Random => "random",
            Self::Liveness => "liveness",
            Self::Disk => "disk",
        }
    }

    /// Where its journal is stored.
    pub fn medium(self) -> Medium {
        match self {
            Self::Random | Self::Liveness => Medium::Memory,
            Self::Disk => Medium::File,
        }
    }
}

/// A part of the drawn workload.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Part {
    /// A message with its run.
    Message(usize),
    /// A turn of a run.
    Turn(usize, usize),
    /// The calls of a turn.
    Calls(usize, usize),
    /// The failure of a turn.
    Failure(usize, usize),
    /// The odd behaviour of the answer of a turn.
    Odd(usize, usize),
    /// What the user does besides sending the message.
    User(usize),
    /// A candidate.
    Candidate(usize),
}

/// A random case.
#[derive(Debug, Clone, PartialEq, Eq)]
#[allow(missing_docs, reason = "the fields say it themselves")]
pub struct Trial {
    pub mode: Mode,
    pub seed: u64,
    /// The faults, in order, if they are not those of the seed.
    pub faults: Option<Vec<PlannedFault>>,
    /// The parts of the workload that are left out.
    pub dropped: Vec<Part>,
}

impl Trial {
    /// The case that this seed gives.
    pub fn new(mode: Mode, seed: u64) -> Self {
        Self { mode, seed, faults: None, dropped: vec![] }
    }
}

/// A random case that violated an invariant.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{trial} {violation}")]
#[allow(missing_docs, reason = "the fields say it themselves")]
pub struct Failed {
    pub trial: Trial,
    pub violation: Violation,
}

impl fmt::Display for Part {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Message(run) => write!(f, "message/{run}"),
            Self::Turn(run, turn) => write!(f, "turn/{run}/{turn}"),
            Self::Calls(run, turn) => write!(f, "calls/{run}/{turn}"),
            Self::Failure(run, turn) => write!(f, "failure/{run}/{turn}"),
            Self::Odd(run, turn) => write!(f, "odd/{run}/{turn}"),
            Self::User(run) => write!(f, "user/{run}"),
            Self::Candidate(at) => write!(f, "candidate/{at}"),
        }
    }
}

impl fmt::Display for Trial {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "MODE={} SEED={}", self.mode.name(), self.seed)?;
        if let Some(faults) = &self.faults {
            let faults: Vec<String> = faults.iter().map(ToString::to_string).collect();
            write!(f, " FAULTS={}", if faults.is_empty() { "none".to_owned() } else { faults.join(",") })?;
        }
        if !self.dropped.is_empty() {
            let dropped: Vec<String> = self.dropped.iter().map(ToString::to_string).collect();
            write!(f, " DROP={}", dropped.join(","))?;
        }
        Ok(())
    }
}

impl FromStr for Part {
    type Err = InvalidCase;

    fn from_str(text: &str) -> Result<Self, InvalidCase> {
        let wrong = || InvalidCase { text: text.to_owned() };
        let words: Vec<&str> = text.split('/').collect();
        let number = |word: &str| word.parse::<usize>().map_err(|_| wrong());
        Ok(match words[..] {
            ["message", run] => Self::Message(number(run)?),
            ["user", run] => Self::User(number(run)?),
            ["turn", run, turn] => Self::Turn(number(run)?, number(turn)?),
            ["calls", run, turn] => Self::Calls(number(run)?, number(turn)?),
            ["candidate", at] => Self::Candidate(number(at)?),
            ["odd", run, turn] => Self::Odd(number(run)?, number(turn)?),
            ["failure", run, turn] => Self::Failure(number(run)?, number(turn)?),
            _ => return Err(wrong()),
        })
    }
}

impl FromStr for Trial {
    type Err = InvalidCase;

    fn from_str(text: &str) -> Result<Self, InvalidCase> {
        let wrong = || InvalidCase { text: text.to_owned() };
        let mut words = text.split_whitespace();
        let mode = words.next().and_then(|word| word.strip_prefix("MODE="));
        let mode = Mode::ALL.into_iter().find(|known| Some(known.name()) == mode).ok_or_else(wrong)?;
        let seed = words.next().and_then(|word| word.strip_prefix("SEED=")).ok_or_else(wrong)?;
        let mut trial = Self::new(mode, seed.parse().map_err(|_| wrong())?);
        for word in words {
            match word.split_once('=') {
                Some(("FAULTS", "none")) => trial.faults = Some(vec![]),
                Some(("FAULTS", list)) => {
                    trial.faults = Some(list.split(',').map(str::parse).collect::<Result<_, _>>()?);
                }
                Some(("DROP", list)) => trial.dropped = list.split(',').map(str::parse).collect::<Result<_, _>>()?,
                _ => return Err(wrong()),
            }
        }
        Ok(trial)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_random_case_reads_as_it_is_printed() {
        for text in [
            "MODE=random SEED=7",
            "MODE=liveness SEED=18446744073709551615 FAULTS=none",
            "MODE=disk SEED=3 FAULTS=0:torn@7,4:eio-on@90",
            "MODE=random SEED=3 FAULTS=12:process,40:power/2,41:full/90 DROP=message/2,turn/0/1,calls/1/0,failure/1/1,odd/0/1,user/0,candidate/3",
        ] {
            assert_eq!(text.parse::<Trial>().unwrap().to_string(), text);
        }
        for wrong in [
            "",
            "MODE=other SEED=1",
            "MODE=random",
            "MODE=random SEED=x",
            "MODE=random SEED=1 DROP=x/1",
            "1 2:process none",
        ] {
            assert!(wrong.parse::<Trial>().is_err(), "{wrong}");
        }
    }
}
