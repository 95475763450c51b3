//! The faults of a single operation of a real disk, and at which operation they happen. They are written as a failure
//! prints them: `torn@12`.

use std::fmt;
use std::str::FromStr;

use faulty_vfs::{Cut, Fault, What};

use crate::case::{Form, InvalidCase};

/// The kinds of such faults.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Harm {
    /// The process dies.
    Process,
    /// The process dies, and its supervised commands end before the next process looks at them.
    Ended,
    /// The power fails: nothing unsynced survives.
    Nothing,
    /// The power fails: everything survives.
    Everything,
    /// The power fails: a prefix of the changes survives.
    Prefix,
    /// The power fails: any sectors survive.
    Torn,
    /// An I/O error.
    Eio,
    /// An I/O error, at this and every later operation of the process.
    EioOn,
    /// No space for this operation.
    Enospc,
    /// Half of a write is done, then there is no space.
    Short,
    /// A read returns only half of its bytes; the rest can be read again.
    Half,
}

/// Every harm with its name in a case, and its name in the counts of faults.
const HARMS: [(Harm, &str, &str); 11] = [
    (Harm::Process, "process", "disk_process"),
    (Harm::Ended, "ended", "disk_ended"),
    (Harm::Nothing, "nothing", "disk_power_nothing"),
    (Harm::Everything, "everything", "disk_power_everything"),
    (Harm::Prefix, "prefix", "disk_power_prefix"),
    (Harm::Torn, "torn", "disk_power_torn"),
    (Harm::Eio, "eio", "disk_eio"),
    (Harm::EioOn, "eio-on", "disk_eio_on"),
    (Harm::Enospc, "enospc", "disk_enospc"),
    (Harm::Short, "short", "disk_short_write"),
    (Harm::Half, "half", "disk_short_read"),
];

/// A harm at the n-th operation of the disk, from 1, counting operations after it was set to which it applies.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[allow(missing_docs, reason = "the fields say it themselves")]
pub struct Hit {
    pub harm: Harm,
    /// The number of the operation, from 1.
    pub nth: u64,
}

impl Harm {
    /// All kinds, in order.
    pub fn all() -> impl Iterator<Item = Self> {
        HARMS.iter().map(|(harm, ..)| *harm)
    }

    fn names(self) -> (&'static str, &'static str) {
        let named = HARMS.iter().find(|(harm, ..)| *harm == self);
        named.map(|(_, case, count)| (*case, *count)).expect("every harm is in the table: a test looks")
    }

    /// Its name in the counts of faults.
    pub fn name(self) -> &'static str {
        self.names().1
    }

    /// The crash that it causes; `None` if it causes none.
    pub fn crash(self) -> Option<Form> {
        match self {
            Self::Process => Some(Form::Process),
            Self::Ended => Some(Form::Ended),
            // The next reader determines how much was kept.
            Self::Nothing | Self::Everything | Self::Prefix | Self::Torn => Some(Form::Power { keep: 0 }),
            Self::Eio | Self::EioOn | Self::Enospc | Self::Short | Self::Half => None,
        }
    }

    /// What a loss of power leaves; `None` for other harms.
    pub fn cut(self, seed: u64) -> Option<Cut> {
        match self {
            Self::Nothing => Some(Cut::Nothing),
            Self::Everything => Some(Cut::Everything),
            Self::Prefix => Some(Cut::Prefix { seed }),
            Self::Torn => Some(Cut::Torn { seed }),
            Self::Process | Self::Ended | Self::Eio | Self::EioOn | Self::Enospc | Self::Short | Self::Half => None,
        }
    }
}

impl Hit {
    /// The fault of the disk.
    pub fn fault(self) -> Fault {
        let at = |what| Fault::at(self.nth.max(1), what);
        match self.harm {
            Harm::Eio => at(What::Eio),
            Harm::EioOn => at(What::Eio).for_ever(),
            Harm::Enospc => at(What::Enospc),
            Harm::Short => at(What::ShortWrite),
            Harm::Half => at(What::ShortRead),
            Harm::Process | Harm::Ended | Harm::Nothing | Harm::Everything | Harm::Prefix | Harm::Torn => {
                at(What::Crash)
            }
        }
    }
}

impl fmt::Display for Hit {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}@{}", self.harm.names().0, self.nth)
    }
}

impl FromStr for Hit {
    type Err = InvalidCase;

    fn from_str(text: &str) -> Result<Self, InvalidCase> {
        let read = || {
            let (name, nth) = text.split_once('@')?;
            let harm = HARMS.iter().find(|(_, case, _)| *case == name).map(|(harm, ..)| *harm)?;
            Some(Self { harm, nth: nth.parse().ok()? })
        };
        read().ok_or_else(|| InvalidCase { text: text.to_owned() })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_hit_reads_as_it_is_printed() {
        for harm in Harm::all() {
            let hit = Hit { harm, nth: 12 };
            assert_eq!(hit.to_string().parse(), Ok(hit));
            assert_eq!(harm.cut(1).is_some(), matches!(harm.crash(), Some(Form::Power { .. })));
        }
        for wrong in ["", "torn", "torn@", "torn@x", "gone@1", "torn/1"] {
            assert!(wrong.parse::<Hit>().is_err(), "{wrong}");
        }
    }
}
