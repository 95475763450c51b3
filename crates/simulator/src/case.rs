//! A case: a seed, and its crashes. It is written as a failure prints it.

use std::fmt;
use std::str::FromStr;

/// What a crash destroys.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Form {
    /// The process is killed: everything written survives, and supervised commands keep running.
    Process,
    /// The process is killed, and its supervised commands end before the next process looks at them.
    Ended,
    /// Power is lost: of the unsynced batches the first `keep` survive, and every process dies.
    Power {
        /// How many unsynced batches survive.
        keep: usize,
    },
}

/// A crash after a number of operations.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[allow(missing_docs, reason = "the fields say it themselves")]
pub struct Crash {
    /// Operations since the start, or since the previous crash.
    pub at: u32,
    pub form: Form,
}

/// A seed with its crashes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[allow(missing_docs, reason = "the fields say it themselves")]
pub struct Case {
    pub seed: u64,
    /// The first crash; `None` for a case without one.
    pub first: Option<Crash>,
    /// The second crash; `None` for a case without one.
    pub second: Option<Crash>,
}

impl fmt::Display for Form {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Process => f.write_str("process"),
            Self::Ended => f.write_str("ended"),
            Self::Power { keep } => write!(f, "power/{keep}"),
        }
    }
}

impl fmt::Display for Crash {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}:{}", self.at, self.form)
    }
}

impl fmt::Display for Case {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let text = |crash: Option<Crash>| crash.map_or_else(|| "none".to_owned(), |crash| crash.to_string());
        write!(f, "SEED={} CRASH={} SECOND={}", self.seed, text(self.first), text(self.second))
    }
}

/// A text is not a case.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error(
    "`{text}` is not a case: write it as a failure prints it, for example `1 117:process 12:power/3`, `1 117:ended none` \
     or `MODE=random SEED=7 FAULTS=40:eio,90:close DROP=message/2`"
)]
pub struct InvalidCase {
    /// The text that was given.
    pub text: String,
}

impl FromStr for Form {
    type Err = InvalidCase;

    fn from_str(text: &str) -> Result<Self, InvalidCase> {
        let keep = text.strip_prefix("power/").and_then(|keep| keep.parse().ok());
        match (text, keep) {
            ("process", _) => Ok(Self::Process),
            ("ended", _) => Ok(Self::Ended),
            (_, Some(keep)) => Ok(Self::Power { keep }),
            (_, None) => Err(InvalidCase { text: text.to_owned() }),
        }
    }
}

impl FromStr for Case {
    type Err = InvalidCase;

    fn from_str(text: &str) -> Result<Self, InvalidCase> {
        let wrong = || InvalidCase { text: text.to_owned() };
        let words: Vec<&str> = text.split_whitespace().map(|word| word.rsplit('=').next().unwrap_or(word)).collect();
        let [seed, first, second] = words[..] else { return Err(wrong()) };
        Ok(Self {
            seed: seed.parse().map_err(|_| wrong())?,
            first: crash(first).map_err(|()| wrong())?,
            second: crash(second).map_err(|()| wrong())?,
        })
    }
}

/// Parses a crash, or `none`; any other text is an error.
fn crash(text: &str) -> Result<Option<Crash>, ()> {
    if text == "none" {
        return Ok(None);
    }
    let (at, form) = text.split_once(':').ok_or(())?;
    Ok(Some(Crash { at: at.parse().map_err(drop)?, form: form.parse().map_err(drop)? }))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_case_reads_as_it_is_printed() {
        let first = Some(Crash { at: 117, form: Form::Power { keep: 3 } });
        for case in [
            Case { seed: 1, first: None, second: None },
            Case { seed: 2, first, second: Some(Crash { at: 0, form: Form::Ended }) },
        ] {
            assert_eq!(case.to_string().parse(), Ok(case));
        }
        assert_eq!("2 117:power/3 0:ended".parse::<Case>().unwrap().first, first);
        for wrong in ["", "1", "1 2 3", "1 117:gone none", "x 117:process none"] {
            assert!(wrong.parse::<Case>().is_err(), "{wrong}");
        }
    }
}
