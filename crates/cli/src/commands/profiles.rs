//! `limulus profiles`: lists auth profiles with their cooldowns and order, and changes both.

use std::collections::BTreeSet;

use clap::{Args, Subcommand};
use config::{FlagValues, Globals};
use engine::Timestamp;
use protocol::method::{
    CooldownView, LoweredLevelView, NoParams, ProfileClearParams, ProfileUseParams, ProfilesClear, ProfilesCleared,
    ProfilesList, ProfilesListed, ProfilesUse, ProviderOrder,
};
use serde::Serialize;

use super::change::change;
use crate::args::WriterArgs;
use crate::deprecation;
use crate::error::{CliError, Exit};
use crate::language::word;
use crate::reading::ask;
use crate::show::human::{Page, Zone, columns, heading, now};
use crate::show::{json, print, worded};

/// Show which auth profiles are in cooldown, until when, and their order; change both.
#[derive(Debug, Args)]
pub(crate) struct ProfilesArgs {
    #[command(subcommand)]
    command: ProfilesCommand,
}

#[derive(Debug, Subcommand)]
enum ProfilesCommand {
    /// List every profile: its place among those of its provider, whether it is in cooldown, and refused thinking levels
    List {
        /// Print a JSON array
        #[arg(long)]
        json: bool,
    },
    /// Put a profile first among those of its provider, from the next run on
    Use {
        /// PROVIDER/PROFILE; PROVIDER alone restores the automatic order
        #[arg(value_name = "PROVIDER[/PROFILE]")]
        which: String,
        #[command(flatten)]
        writer: WriterArgs,
    },
    /// Clear cooldowns so that profiles are tried at once, for example after paying a bill
    Clear {
        /// The provider, or one profile of it [default: all]
        #[arg(value_name = "PROVIDER[/PROFILE]")]
        which: Option<String>,
        #[command(flatten)]
        writer: WriterArgs,
    },
}

impl ProfilesArgs {
    /// Whether the command writes, so that it needs the owner.
    pub(crate) fn writes(&self) -> bool {
        match self.command {
            ProfilesCommand::List { .. } => false,
            ProfilesCommand::Use { .. } | ProfilesCommand::Clear { .. } => true,
        }
    }
}

/// A row of the list.
#[derive(Debug, PartialEq, Serialize)]
struct Row {
    provider: String,
    /// None for a provider without a key.
    profile: Option<String>,
    /// Whether the user put it first.
    preferred: bool,
    /// Whether it answered last, among several profiles.
    last_good: bool,
    /// Of the profile with all models, or with one.
    #[serde(rename = "left_alone")]
    cooldowns: Vec<CooldownView>,
    /// Thinking levels that models of its provider have refused; in the first row of the provider.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    lowered: Vec<LoweredLevelView>,
}

pub(crate) fn read(args: &ProfilesArgs, globals: &Globals) -> Result<(), CliError> {
    let ProfilesCommand::List { json: as_json } = args.command else {
        return Err(CliError::bug("`profiles` was taken for a command that reads"));
    };
    let config = deprecation::load(globals, FlagValues::default())?;
    let known = match ask::<ProfilesList>(globals, NoParams {}) {
        // A home without a journal has no cooldowns.
        Err(error) if error.exit() == Exit::NotFound => ProfilesListed::default(),
        known => known?,
    };
    let rows = rows(config.profiles(), &known, now());
    print(&if as_json { json(&rows) } else { lay_out(&rows, &Zone::local()) })
}

pub(crate) async fn write(args: ProfilesArgs, globals: &Globals) -> Result<(), CliError> {
    match args.command {
        ProfilesCommand::Use { which, writer } => {
            let (provider, profile) = configured(globals, &which)?;
            let params = ProfileUseParams { provider, profile };
            let used = change(globals, &writer, async |client| client.call::<ProfilesUse>(params.clone()).await);
            let used = used.await?;
            let text = match &used.profile {
                Some(profile) => format!("{}/{profile} comes first from the next run on\n", used.provider),
                None => format!("no profile of {} comes first any more\n", used.provider),
            };
            print(&if writer.json { json(&used) } else { worded(text) })
        }
        ProfilesCommand::Clear { which, writer } => {
            let which = which.map(|which| configured(globals, &which)).transpose()?;
            let (provider, profile) = which.map_or((None, None), |(provider, profile)| (Some(provider), profile));
            let params = ProfileClearParams { provider, profile };
            let cleared = change(globals, &writer, async |client| client.call::<ProfilesClear>(params.clone()).await);
            let cleared = cleared.await?;
            print(&if writer.json { json(&cleared) } else { lay_out_cleared(&cleared) })
        }
        ProfilesCommand::List { .. } => Err(CliError::bug("`profiles` was taken for a command that writes")),
    }
}

/// An existing provider and profile.
fn configured(globals: &Globals, which: &str) -> Result<(String, Option<String>), CliError> {
    let config = deprecation::load(globals, FlagValues::default())?;
    let (provider, profile) = which.split_once('/').map_or((which, None), |(of, name)| (of, Some(name)));
    let profiles = config.profiles();
    let is_it = |(of, name): &(String, String)| of == provider && profile.is_none_or(|profile| profile == name);
    // A provider without a key may be in cooldown as well.
    if profiles.iter().any(is_it) || profile.is_none() && config.is_configured(provider) {
        return Ok((provider.to_owned(), profile.map(str::to_owned)));
    }
    let names: Vec<String> = profiles.iter().map(|(provider, profile)| format!("{provider}/{profile}")).collect();
    let hint = match &names[..] {
        [] => "add [[providers.NAME.profiles]] to config.toml; docs/configuration.md shows how".to_owned(),
        names => format!("there are: {}", names.join(", ")),
    };
    Err(CliError::not_found(format!("there is no profile `{which}`"), hint))
}

fn rows(profiles: Vec<(String, String)>, known: &ProfilesListed, now: Timestamp) -> Vec<Row> {
    let turns = |provider: &str| known.turns.iter().find(|turns| turns.provider == provider);
    let is = |of: Option<&ProviderOrder>, name: fn(&ProviderOrder) -> &Option<String>, profile: &Option<String>| {
        profile.is_some() && of.is_some_and(|of| name(of) == profile)
    };
    let lowered = || known.lowered.iter().filter(|level| level.until > now);
    let mut shown = BTreeSet::new();
    let row = |(provider, profile): (String, Option<String>)| {
        let cooldowns = known.cooldown_until.iter().filter(|cooldown| {
            (&cooldown.provider, &cooldown.profile) == (&provider, &profile) && cooldown.until > now
        });
        Row {
            preferred: is(turns(&provider), |of| &of.preferred, &profile),
            last_good: is(turns(&provider), |of| &of.last_good, &profile),
            cooldowns: cooldowns.cloned().collect(),
            // Levels belong to the provider: its first row has them.
            lowered: if shown.insert(provider.clone()) {
                lowered().filter(|level| level.provider == provider).cloned().collect()
            } else {
                vec![]
            },
            provider,
            profile,
        }
    };
    let keyless = known.cooldown_until.iter().filter(|cooldown| cooldown.profile.is_none() && cooldown.until > now);
    let mut keyless: Vec<String> = keyless.map(|cooldown| cooldown.provider.clone()).collect();
    let has_none = |level: &&LoweredLevelView| profiles.iter().all(|(provider, _)| *provider != level.provider);
    keyless.extend(lowered().filter(has_none).map(|level| level.provider.clone()));
    keyless.sort_unstable();
    keyless.dedup();
    let named = profiles.into_iter().map(|(provider, profile)| (provider, Some(profile)));
    named.chain(keyless.into_iter().map(|provider| (provider, None))).map(row).collect()
}

fn lay_out(rows: &[Row], zone: &Zone) -> String {
    if rows.is_empty() {
        return worded("no profiles are configured: add [[providers.NAME.profiles]] to config.toml\n");
    }
    let heading = heading(["PROVIDER", "PROFILE", "ORDER", "STATE"]);
    let lines = rows.iter().flat_map(|row| {
        let order = match (row.preferred, row.last_good) {
            (true, _) => "first",
            (false, true) => "answered last",
            (false, false) => "",
        };
        let mut states = match &row.cooldowns[..] {
            [] => vec!["available".to_owned()],
            cooldowns => cooldowns.iter().map(|cooldown| state(cooldown, zone)).collect(),
        };
        states.extend(row.lowered.iter().map(|level| level_state(level, zone)));
        let line =
            |state: String| [row.provider.clone(), row.profile.clone().unwrap_or_default(), word(order), word(state)];
        states.into_iter().map(line).collect::<Vec<_>>()
    });
    columns(&std::iter::once(heading).chain(lines).collect::<Vec<_>>())
}

fn state(cooldown: &CooldownView, zone: &Zone) -> String {
    let with = cooldown.model.as_ref().map(|model| format!(" with {model}")).unwrap_or_default();
    format!("in cooldown{with} until {}: {}", zone.time(cooldown.until), cooldown.class.name())
}

fn level_state(level: &LoweredLevelView, zone: &Zone) -> String {
    let LoweredLevelView { model, asked, accepted, until, .. } = level;
    let (asked, accepted) = (models::level_name(*asked), models::level_name(*accepted));
    format!("{model} refused thinking {asked}, so {accepted} is requested until {}", zone.time(*until))
}

fn lay_out_cleared(cleared: &ProfilesCleared) -> String {
    if cleared.cleared.is_empty() {
        return worded("no profile was in cooldown\n");
    }
    let mut page = Page::default();
    for CooldownView { provider, profile, model, class, .. } in &cleared.cleared {
        let name = profile.as_ref().map(|profile| format!("/{profile}")).unwrap_or_default();
        let with = model.as_ref().map(|model| format!(" with {model}")).unwrap_or_default();
        page.line(format!("{provider}{name}{with} is available again (it was in cooldown: {})", class.name()));
    }
    page.text()
}

#[cfg(test)]
mod tests {
    use engine::FailureClass;

    use super::*;

    #[test]
    fn r50_each_profile_is_listed_with_its_place_and_its_cooldown() {
        let cooldown = |profile: &str, model: Option<&str>, until| CooldownView {
            provider: if profile.is_empty() && model.is_some() { "local" } else { "acme" }.into(),
            profile: (!profile.is_empty()).then(|| profile.into()),
            model: model.map(str::to_owned),
            class: if model.is_some() { FailureClass::RateLimit } else { FailureClass::Billing },
            since: Timestamp(0),
            until: Timestamp(until),
            failures: 1,
        };
        let lowered = |provider: &str, until| LoweredLevelView {
            provider: provider.into(),
            model: "large".into(),
            asked: engine::Thinking::High,
            accepted: engine::Thinking::Low,
            until: Timestamp(until),
        };
        let known = ProfilesListed {
            cooldown_until: vec![
                cooldown("home", None, 60_000),
                cooldown("home", Some("large"), 90_000),
                cooldown("old", None, 9),
                cooldown("", Some("small"), 9),
                cooldown("", Some("large"), 90_000),
                cooldown("", None, 70_000),
            ],
            turns: vec![ProviderOrder {
                provider: "acme".into(),
                preferred: Some("work".into()),
                last_good: Some("home".into()),
            }],
            lowered: vec![lowered("acme", 90_000), lowered("acme", 9), lowered("plain", 90_000)],
        };
        let profiles = ["work", "home", "old"].map(|profile| ("acme".to_owned(), profile.to_owned())).to_vec();
        let rows = rows(profiles, &known, Timestamp(10));
        assert_eq!(
            lay_out(&rows, &Zone::utc()),
            "PROVIDER  PROFILE  ORDER          STATE\n\
             acme      work     first          available\n\
             acme      work     first          large refused thinking high, so low is requested until 1970-01-01 00:01:30\n\
             acme      home     answered last  in cooldown until 1970-01-01 00:01:00: billing\n\
             acme      home     answered last  in cooldown with large until 1970-01-01 00:01:30: rate_limit\n\
             acme      old                     available\n\
             acme                              in cooldown until 1970-01-01 00:01:10: billing\n\
             local                             in cooldown with large until 1970-01-01 00:01:30: rate_limit\n\
             plain                             available\n\
             plain                             large refused thinking high, so low is requested until 1970-01-01 00:01:30\n"
        );
        assert_eq!(serde_json::to_value(&rows).unwrap()[1]["left_alone"][0]["class"], "billing");
        let cleared = ProfilesCleared { cleared: known.cooldown_until[..2].to_vec() };
        assert_eq!(
            lay_out_cleared(&cleared),
            "acme/home is available again (it was in cooldown: billing)\n\
             acme/home with large is available again (it was in cooldown: rate_limit)\n"
        );
    }
}
