//! Old names and values of settings. Their list is in `protocol::deprecated`.

use protocol::deprecated::{Deprecated, Surface};
use toml::Value;

use super::error::ValueOrigin;
use super::layers::dotted;
use super::settings::toml_value;

/// The path with current names, and the row of the old name that it had.
pub(super) fn renamed(path: &[String]) -> (Vec<String>, Option<&'static Deprecated>) {
    let is_under = |row: &&Deprecated| {
        let old: Vec<&str> = row.old.split('.').collect();
        path.len() >= old.len() && old.iter().zip(path).all(|(old, part)| old == part)
    };
    match Deprecated::of(Surface::ConfigKey).find(is_under) {
        None => (path.to_vec(), None),
        Some(row) => {
            let rest = path[row.old.split('.').count()..].iter().cloned();
            (row.new.split('.').map(str::to_owned).chain(rest).collect(), Some(row))
        }
    }
}

/// The value in its current form, and the row of the old value that it had.
pub(super) fn revalued(path: &[String], value: Value) -> (Value, Option<&'static Deprecated>) {
    let row = Deprecated::find(Surface::ConfigValue, &format!("{} = {value}", dotted(path)));
    let new = row.and_then(|row| row.new.split_once(" = ")).map(|(_, new)| toml_value(new));
    (new.unwrap_or(value), row)
}

/// The old keys under this current path, for the schema: the old name and its row.
pub(super) fn old_names(parent: &[&str]) -> impl Iterator<Item = (&'static str, &'static Deprecated)> {
    let parent = parent.join(".");
    Deprecated::of(Surface::ConfigKey).filter_map(move |row| {
        let (table, name) = row.old.rsplit_once('.')?;
        (table == parent).then_some((name, row))
    })
}

/// The warning: the place of the old form, and what to write instead.
pub(super) fn warning(origin: &ValueOrigin, row: &Deprecated) -> String {
    format!("{origin}: {row}")
}

#[cfg(test)]
mod tests {
    use super::super::settings::{self, Entry, Preset};
    use super::super::tests::{load, settings};
    use super::super::{Config, Environment, FILE, FlagValues};
    use super::*;

    fn path(key: &str) -> Vec<String> {
        key.split('.').map(str::to_owned).collect()
    }

    #[test]
    fn every_old_key_leads_to_a_setting_and_every_old_value_to_one_that_its_setting_takes() {
        for row in Deprecated::of(Surface::ConfigKey) {
            assert_ne!(settings::at(&path(row.new)), Entry::Unknown, "{row}");
            assert_eq!(settings::at(&path(row.old)), Entry::Unknown, "{row}");
        }
        for row in Deprecated::of(Surface::ConfigValue) {
            let (key, new) = row.new.split_once(" = ").unwrap();
            let Entry::Key(kind) = settings::at(&path(key)) else { panic!("{row}") };
            let (old_key, old) = row.old.split_once(" = ").unwrap();
            assert!(old_key == key && kind.fits(&toml_value(new)) && !kind.fits(&toml_value(old)), "{row}");
        }
    }

    /// A setting of each old key, set by its old name in the file: in force under the new name, with a warning.
    #[test]
    fn an_old_key_is_read_as_the_new_one() {
        for row in Deprecated::of(Surface::ConfigKey) {
            let under = settings::all().find(|setting| setting.path.join(".").starts_with(row.new)).unwrap();
            let (Preset::Default(value) | Preset::Example(value)) = under.value;
            let old = under.path.join(".").replacen(row.new, row.old, 1);
            let home = tempfile::tempdir().unwrap();
            let file = home.path().join(FILE);
            std::fs::write(&file, format!("\n{old} = {value}\n")).unwrap();
            let environment = Environment::of(&[], "/now");
            let effective = Config::effective(home.path(), &environment, FlagValues::default()).unwrap();
            let setting = effective.settings.iter().find(|setting| setting.key == under.path.join(".")).unwrap();
            assert_eq!(setting.at, Some(format!("{}:2", file.display())), "{row}");
            let column = old.rfind('.').map_or(1, |dot| dot + 2);
            let warning = format!("{}:2:{column}: {row}", file.display());
            assert_eq!(effective.config.deprecated(), std::slice::from_ref(&warning));
            let review = Config::review(home.path(), &environment, FlagValues::default());
            assert!(review.errors.is_empty() && review.warnings[0].what == warning, "{review:?}");
        }
    }

    #[test]
    fn a_variable_may_have_the_old_name_and_the_new_name_wins_in_one_layer() {
        let load = |file: &str, variables: &[(&str, &str)]| load(file, variables).unwrap();
        let timeout = |config: &Config| config.values.tools.timeout_s;
        let old = "LIMULUS_TOOLS__CALL_S";
        let config = load("tools.timeout_s = 7", &[(old, "8")]);
        assert_eq!(timeout(&config), 8, "a later layer wins, whatever the name");
        let warning = format!(
            "the variable {old}: write `tools.timeout_s` instead of `tools.call_s`; the old form is accepted until 0.3.0"
        );
        assert_eq!(config.deprecated(), [warning]);
        for file in ["[tools]\ncall_s = 5\ntimeout_s = 6", "[tools]\ntimeout_s = 6\ncall_s = 5"] {
            assert_eq!(timeout(&load(file, &[])), 6, "{file}");
        }
        assert_eq!(timeout(&load("tools.timeout_s = 6", &[(old, "5"), ("LIMULUS_TOOLS__TIMEOUT_S", "4")])), 4);
    }

    #[test]
    fn off_switches_a_limit_off_and_a_zero_that_meant_that_still_does() {
        for zero in ["0", "\"off\""] {
            let file = format!(
                "[runs]\nloop_warn_after = {zero}\nloop_stop_after = {zero}\npoison_after = {zero}\n\
                 [budget]\nwrap_up_percent = {zero}\n[session]\nidle_timeout_s = {zero}\n[retention]\nkeep_days = {zero}\n"
            );
            let config = load(&file, &[]).unwrap();
            assert_eq!(config.deprecated().len(), if zero == "0" { 6 } else { 0 });
            let settings = settings(&file, &[]);
            let limits = settings.limits;
            assert_eq!((limits.loop_warn_after, limits.loop_stop_after, limits.poison_after), (0, 0, 0));
            assert_eq!((settings.budget.wrap_up, config.idle_timeout(), config.keep_days()), (0, None, None));
        }
        assert_eq!(load("[runs]\npoison_after = 4", &[]).unwrap().values.runs.poison_after.get(), Some(4));
        // A limit of a budget never meant that: nothing is spent by mistake.
        load("[budget.run]\ntokens = 0", &[]).unwrap_err();
        assert_eq!(settings("budget.run.cost = 0", &[]).budget.run.cost, Some(0));
        let variables = [("LIMULUS_BUDGET__RUN__TOKENS", "off")];
        assert_eq!(settings("[budget.run]\ntokens = 5", &[]).budget.run.tokens, Some(5));
        assert_eq!(settings("[budget.run]\ntokens = 5", &variables).budget.run.tokens, None);
    }
}
