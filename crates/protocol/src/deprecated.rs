//! The one list of old names that are still accepted: configuration keys and values, methods, commands, flags and their
//! arguments. Every place that reads such a name asks this list, so an old name leaves the program with its row.

use std::fmt;

/// The version that refuses the old names.
pub const ACCEPTED_UNTIL: &str = "0.3.0";

/// Where a name is written.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Surface {
    /// The path of a configuration key, or of a table of keys.
    ConfigKey,
    /// `KEY = VALUE` in the configuration, the value as TOML.
    ConfigValue,
    /// A method of the protocol.
    Method,
    /// A command of the program.
    Command,
    /// A flag, as `COMMAND --FLAG`.
    Flag,
    /// The argument of a flag, as `COMMAND --FLAG ARGUMENT`.
    Argument,
}

/// A row: what was renamed, and to what.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Deprecated {
    /// Where the name is written.
    pub surface: Surface,
    /// The name that is accepted until [`ACCEPTED_UNTIL`].
    pub old: &'static str,
    /// The name to write instead.
    pub new: &'static str,
}

const fn row(surface: Surface, old: &'static str, new: &'static str) -> Deprecated {
    Deprecated { surface, old, new }
}

/// All old names, with the names that replace them.
pub const DEPRECATED: &[Deprecated] = &[
    row(Surface::ConfigKey, "compaction.keep", "compaction.keep_recent_tokens"),
    row(Surface::ConfigKey, "compaction.reserve", "compaction.reserve_tokens"),
    row(Surface::ConfigKey, "compaction.memory_flush_soft", "compaction.memory_flush_lead_tokens"),
    row(Surface::ConfigKey, "runs.repeats_told", "runs.loop_warn_after"),
    row(Surface::ConfigKey, "runs.repeats_most", "runs.loop_stop_after"),
    row(Surface::ConfigKey, "requests.first_byte_s", "requests.first_byte_timeout_s"),
    row(Surface::ConfigKey, "requests.silent_s", "requests.idle_timeout_s"),
    row(Surface::ConfigKey, "tools.call_s", "tools.timeout_s"),
    row(Surface::ConfigKey, "tools.outside", "tools.outside_workspace"),
    row(Surface::ConfigKey, "queue.mark", "queue.steer_prefix"),
    row(Surface::ConfigValue, "runs.loop_warn_after = 0", "runs.loop_warn_after = \"off\""),
    row(Surface::ConfigValue, "runs.loop_stop_after = 0", "runs.loop_stop_after = \"off\""),
    row(Surface::ConfigValue, "runs.poison_after = 0", "runs.poison_after = \"off\""),
    row(Surface::ConfigValue, "budget.wrap_up_percent = 0", "budget.wrap_up_percent = \"off\""),
    row(Surface::ConfigValue, "session.idle_timeout_s = 0", "session.idle_timeout_s = \"off\""),
    row(Surface::ConfigValue, "retention.keep_days = 0", "retention.keep_days = \"off\""),
    row(Surface::Method, "asks.answer", "approvals.resolve"),
    row(Surface::Command, "recovery", "failover"),
    row(Surface::Flag, "doctor --mend", "doctor --repair"),
    row(Surface::Argument, "doctor --repair rescue", "doctor --repair export"),
];

impl Deprecated {
    /// The row of an old name.
    pub fn find(surface: Surface, old: &str) -> Option<&'static Self> {
        DEPRECATED.iter().find(|row| row.surface == surface && row.old == old)
    }

    /// The old names of one surface.
    pub fn of(surface: Surface) -> impl Iterator<Item = &'static Self> {
        DEPRECATED.iter().filter(move |row| row.surface == surface)
    }
}

/// The warning, on one line.
impl fmt::Display for Deprecated {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { surface, old, new } = self;
        match surface {
            Surface::ConfigKey | Surface::ConfigValue => write!(f, "write `{new}` instead of `{old}`")?,
            Surface::Method => write!(f, "the method `{old}` is now called `{new}`")?,
            Surface::Command | Surface::Flag | Surface::Argument => {
                write!(f, "`limulus {old}` is now called `limulus {new}`")?;
            }
        }
        write!(f, "; the old form is accepted until {ACCEPTED_UNTIL}")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_old_name_is_listed_once_and_maps_to_a_current_name() {
        for row in DEPRECATED {
            let same = DEPRECATED.iter().filter(|other| (other.surface, other.old) == (row.surface, row.old));
            assert_eq!(same.count(), 1, "{row}");
            assert_eq!(Deprecated::find(row.surface, row.new), None, "{row}");
            assert!(!row.to_string().contains('\n'));
        }
    }

    #[test]
    fn each_new_method_is_in_the_table_and_no_old_one_is() {
        let is_known = |name: &str| crate::method::METHODS.iter().any(|method| method.name == name);
        for row in Deprecated::of(Surface::Method) {
            assert!(is_known(row.new) && !is_known(row.old), "{row}");
        }
    }
}
