//! The list of what can be set up, and what a typed number or name chooses of it.

use models::{ProviderPreset, provider_presets};

use super::found::Found;

/// What was chosen.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Picked<'a> {
    /// A model that was found.
    Found(&'a Found),
    /// A provider that has to be asked for.
    Preset(&'static ProviderPreset),
}

/// The providers of which nothing was found, in the order of the list.
pub(super) fn others(found: &[Found]) -> impl Iterator<Item = &'static ProviderPreset> {
    provider_presets().iter().filter(|preset| !found.iter().any(|found| found.provider() == preset.name))
}

/// What a number or a name chooses. A unique beginning of a name is enough. An error is the names that it may mean.
pub(super) fn pick<'a>(answer: &str, found: &'a [Found]) -> Result<Picked<'a>, Vec<&'static str>> {
    let answer = answer.trim();
    if let Ok(number) = answer.parse::<usize>() {
        let at = number.checked_sub(1).ok_or_else(Vec::new)?;
        let other = at.checked_sub(found.len()).and_then(|at| others(found).nth(at)).map(Picked::Preset);
        return found.get(at).map(Picked::Found).or(other).ok_or_else(Vec::new);
    }
    if let Some(found) = found.iter().find(|found| found.model == answer) {
        return Ok(Picked::Found(found));
    }
    let preset = by_name(answer)?;
    let of_it = found.iter().find(|found| found.provider() == preset.name);
    Ok(of_it.map_or(Picked::Preset(preset), Picked::Found))
}

/// The provider of this name, or whose name or title alone begins like this.
pub(super) fn by_name(name: &str) -> Result<&'static ProviderPreset, Vec<&'static str>> {
    let name = name.trim().to_lowercase();
    let presets = provider_presets();
    if let Some(preset) = presets.iter().find(|preset| preset.name == name || preset.title.to_lowercase() == name) {
        return Ok(preset);
    }
    let begins =
        |preset: &&ProviderPreset| preset.name.starts_with(&name) || preset.title.to_lowercase().starts_with(&name);
    let matching: Vec<_> = presets.iter().filter(begins).filter(|_| !name.is_empty()).collect();
    match matching[..] {
        [preset] => Ok(preset),
        _ => Err(matching.iter().map(|preset| preset.name).collect()),
    }
}

#[cfg(test)]
mod tests {
    use models::provider_preset;

    use super::super::found::By;
    use super::*;

    #[test]
    fn r61_the_help_says_how_many_providers_there_are() {
        let program = <crate::args::Cli as clap::CommandFactory>::command();
        let about = program.find_subcommand("setup").and_then(clap::Command::get_about).unwrap().to_string();
        assert!(about.contains(&format!("one of {} providers", provider_presets().len())), "{about}");
    }

    #[test]
    fn r61_a_number_a_name_or_a_unique_beginning_chooses() {
        let preset = |name| Picked::Preset(provider_preset(name).unwrap());
        for (answer, name) in [
            ("1", "openai"),
            (" 3 ", "anthropic"),
            ("deepseek", "deepseek"),
            ("DeepS", "deepseek"),
            ("openai", "openai"),
            ("LM Studio", "lmstudio"),
            ("google", "gemini"),
            ("any", "custom"),
            ("22", "custom"),
        ] {
            assert_eq!(pick(answer, &[]), Ok(preset(name)), "{answer}");
        }
        for (answer, may_be) in
            [("m", &["mistral", "moonshot", "minimax"][..]), ("open", &["openai", "openai-responses", "openrouter"])]
        {
            assert_eq!(pick(answer, &[]), Err(may_be.to_vec()), "{answer}");
        }
        for answer in ["", "0", "23", "-1", "acme", "999999999999999999999999"] {
            assert_eq!(pick(answer, &[]), Err(vec![]), "{answer}");
        }
    }

    #[test]
    fn r61_what_was_found_comes_first() {
        let found = |model: &str| Found { model: model.to_owned(), by: By::Variable("GROQ_API_KEY") };
        let found = [found("groq/a"), found("ollama/b:1"), found("ollama/b:2")];
        for (answer, at) in [("1", 0), ("groq", 0), ("gro", 0), ("ollama", 1), ("3", 2), ("ollama/b:2", 2)] {
            assert_eq!(pick(answer, &found), Ok(Picked::Found(&found[at])), "{answer}");
        }
        assert_eq!(pick("4", &found), Ok(Picked::Preset(provider_preset("openai").unwrap())));
        assert!(others(&found).all(|preset| preset.name != "groq" && preset.name != "ollama"));
    }
}
