//! The faults of a world and when they happen. They are written as a failure prints them.

use std::fmt;
use std::str::FromStr;

use crate::case::{Form, InvalidCase};
use crate::hit::Hit;

/// A fault that is injected into the world.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Fault {
    /// The process or the machine crashes.
    Crash(Form),
    /// A fault at one of the next operations of the disk; only for a real disk.
    Disk(Hit),
    /// The next append fails permanently.
    Store(Lost),
    /// The disk is full for this many milliseconds.
    Full(u64),
    /// The next append takes this many milliseconds.
    Slow(u64),
    /// The wall clock jumps by this many milliseconds; the next process sees it.
    Jump(i64),
    /// A report comes a second time; the index counts back from the newest.
    Echo(usize),
    /// The next effect that is stopped sends one more report.
    Late,
    /// The owner shuts down properly.
    Close,
}

/// What a failed append left on the disk.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Lost {
    /// Nothing was written.
    All,
    /// Everything was written: only the reply was lost.
    Word,
}

/// A fault and the operation before which it happens.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[allow(missing_docs, reason = "the fields say it themselves")]
pub struct PlannedFault {
    /// Operations since the start of the world.
    pub at: u32,
    pub fault: Fault,
}

impl Fault {
    /// Its name among the operations.
    pub fn name(self) -> &'static str {
        match self {
            Self::Crash(Form::Process) => "fault_process",
            Self::Crash(Form::Ended) => "fault_ended",
            Self::Crash(Form::Power { .. }) => "fault_power",
            Self::Disk(hit) => hit.harm.name(),
            Self::Store(Lost::All) => "fault_store",
            Self::Store(Lost::Word) => "fault_unsure",
            Self::Full(_) => "fault_full",
            Self::Slow(_) => "fault_slow",
            Self::Jump(_) => "fault_jump",
            Self::Echo(_) => "fault_echo",
            Self::Late => "fault_late",
            Self::Close => "fault_close",
        }
    }

    /// The same fault with smaller numbers; `None` if there is none.
    pub fn smaller(self) -> Option<Self> {
        let less = |number: u64| (number > 1).then_some(number / 2);
        match self {
            Self::Crash(Form::Power { keep }) if keep > 0 => Some(Self::Crash(Form::Power { keep: keep / 2 })),
            Self::Disk(hit) => less(hit.nth).map(|nth| Self::Disk(Hit { nth, ..hit })),
            Self::Full(ms) => less(ms).map(Self::Full),
            Self::Slow(ms) => less(ms).map(Self::Slow),
            Self::Jump(ms) if ms.abs() > 1 => Some(Self::Jump(ms / 2)),
            Self::Echo(back) if back > 0 => Some(Self::Echo(back - 1)),
            Self::Crash(_) | Self::Store(_) | Self::Jump(_) | Self::Echo(_) | Self::Late | Self::Close => None,
        }
    }
}

impl fmt::Display for Fault {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Crash(form) => form.fmt(f),
            Self::Disk(hit) => hit.fmt(f),
            Self::Store(Lost::All) => f.write_str("eio"),
            Self::Store(Lost::Word) => f.write_str("unsure"),
            Self::Full(ms) => write!(f, "full/{ms}"),
            Self::Slow(ms) => write!(f, "slow/{ms}"),
            Self::Jump(ms) => write!(f, "jump/{ms}"),
            Self::Echo(back) => write!(f, "echo/{back}"),
            Self::Late => f.write_str("late"),
            Self::Close => f.write_str("close"),
        }
    }
}

impl fmt::Display for PlannedFault {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}:{}", self.at, self.fault)
    }
}

impl FromStr for Fault {
    type Err = InvalidCase;

    fn from_str(text: &str) -> Result<Self, InvalidCase> {
        let wrong = || InvalidCase { text: text.to_owned() };
        if text.contains('@') {
            return text.parse().map(Self::Disk);
        }
        let (name, number) = text.split_once('/').map_or((text, None), |(name, number)| (name, Some(number)));
        let fault = match (name, number) {
            ("eio", None) => Self::Store(Lost::All),
            ("unsure", None) => Self::Store(Lost::Word),
            ("late", None) => Self::Late,
            ("close", None) => Self::Close,
            ("full", Some(ms)) => Self::Full(ms.parse().map_err(|_| wrong())?),
            ("slow", Some(ms)) => Self::Slow(ms.parse().map_err(|_| wrong())?),
            ("jump", Some(ms)) => Self::Jump(ms.parse().map_err(|_| wrong())?),
            ("echo", Some(back)) => Self::Echo(back.parse().map_err(|_| wrong())?),
            _ => Self::Crash(text.parse()?),
        };
        Ok(fault)
    }
}

impl FromStr for PlannedFault {
    type Err = InvalidCase;

    fn from_str(text: &str) -> Result<Self, InvalidCase> {
        let wrong = || InvalidCase { text: text.to_owned() };
        let (at, fault) = text.split_once(':').ok_or_else(wrong)?;
        Ok(Self { at: at.parse().map_err(|_| wrong())?, fault: fault.parse()? })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::hit::Harm;

    #[test]
    fn a_fault_reads_as_it_is_printed() {
        let faults = [
            Fault::Crash(Form::Process),
            Fault::Crash(Form::Power { keep: 2 }),
            Fault::Disk(Hit { harm: Harm::Torn, nth: 7 }),
            Fault::Store(Lost::All),
            Fault::Store(Lost::Word),
            Fault::Full(300),
            Fault::Slow(5000),
            Fault::Jump(-3_600_000),
            Fault::Echo(2),
            Fault::Late,
            Fault::Close,
        ];
        for fault in faults {
            let planned = PlannedFault { at: 12, fault };
            assert_eq!(planned.to_string().parse(), Ok(planned));
        }
        for wrong in ["", "3", "3:gone", "x:eio", "3:eio/2", "3:full"] {
            assert!(wrong.parse::<PlannedFault>().is_err(), "{wrong}");
        }
    }
}
