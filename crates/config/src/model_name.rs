//! A model that is named without its provider: the one model of that name, or an error that lists what may be meant.

use std::borrow::Cow;
use std::collections::BTreeSet;

use strsim::levenshtein;

use super::Config;
use super::error::ConfigError;

/// Names that an error lists.
const SHOWN: usize = 5;
/// Wrong letters of a name that is mistyped; a longer one may have a third.
const MISTYPED: usize = 2;

impl Config {
    /// The full name, `PROVIDER/MODEL`, of a model that may be named without its provider. If several providers have it, the only
    /// one that can be asked as things are is meant.
    pub fn full_name<'a>(&self, model: &'a str) -> Result<Cow<'a, str>, ConfigError> {
        if model.contains('/') {
            return Ok(Cow::Borrowed(model));
        }
        let of_name: Vec<String> = self.known().into_iter().filter(|full| name(full) == model).collect();
        let usable: Vec<&String> = of_name.iter().filter(|full| self.is_usable(full)).collect();
        match (&usable[..], &of_name[..]) {
            ([only], _) => Ok(Cow::Owned((*only).clone())),
            ([], [only]) => Ok(Cow::Owned(only.clone())),
            ([], []) => Err(ConfigError::NotAModel { model: model.to_owned(), nearest: self.nearest_models(model) }),
            _ => Err(ConfigError::AmbiguousModel { model: model.to_owned(), candidates: of_name }),
        }
    }

    /// The models whose names are near to this one or contain it, the nearest first.
    pub fn nearest_models(&self, model: &str) -> Vec<String> {
        let wanted = model.to_lowercase();
        let distance = |full: &String| {
            let (full, short) = (full.to_lowercase(), name(full).to_lowercase());
            levenshtein(&full, &wanted).min(levenshtein(&short, &wanted))
        };
        let most = MISTYPED.max(wanted.chars().count() / 3);
        let is_part = |full: &str| !wanted.is_empty() && full.to_lowercase().contains(&wanted);
        let mut near: Vec<(usize, String)> = self.known().into_iter().map(|full| (distance(&full), full)).collect();
        near.retain(|(distance, full)| *distance <= most || is_part(full));
        near.sort();
        near.into_iter().take(SHOWN).map(|(_, full)| full).collect()
    }

    fn known(&self) -> BTreeSet<String> {
        let known = models::known_models().map(str::to_owned);
        known
            .chain(self.named_models())
            .chain(["offline/offline".to_owned()])
            .filter(|model| model.contains('/'))
            .collect()
    }

    fn is_usable(&self, full: &str) -> bool {
        full.split_once('/').is_some_and(|(provider, _)| self.route(provider).is_some())
    }
}

/// The name without the provider.
fn name(full: &str) -> &str {
    full.split_once('/').map_or(full, |(_, name)| name)
}

#[cfg(test)]
mod tests {
    use super::super::tests::load;
    use super::*;

    const TWO: &str = "[agents.main]\nmodel = \"acme/m-large\"\nfallbacks = [\"other/m-large\", \"other/m-small\"]\n\
                       [providers.acme]\napi = \"openai-chat\"\nbase_url = \"http://127.0.0.1:1\"\n";

    #[test]
    fn r24_a_model_of_a_unique_name_needs_no_provider() {
        let config = load(TWO, &[]).unwrap();
        let full = |model: &str| config.full_name(model).map(Cow::into_owned);
        assert_eq!(full("acme/whatever/it-is").unwrap(), "acme/whatever/it-is");
        assert_eq!(full("m-large").unwrap(), "acme/m-large", "the provider `other` is not configured");
        assert_eq!(full("m-small").unwrap(), "other/m-small", "there is one of this name");
        assert_eq!(full("offline").unwrap(), "offline/offline");
        let known = models::known_models().next().unwrap();
        assert_eq!(full(name(known)).unwrap(), known);
        let candidate = config.candidate_of("m-large").unwrap();
        assert_eq!((candidate.provider.as_str(), candidate.model.as_str()), ("acme", "m-large"));
    }

    #[test]
    fn r24_an_ambiguous_or_unknown_model_is_refused_with_what_may_be_meant() {
        let both = format!("{TWO}[providers.other]\napi = \"openai-chat\"\nbase_url = \"http://127.0.0.1:2\"\n");
        let config = load(&both, &[]).unwrap();
        let error = config.full_name("m-large").unwrap_err();
        assert_eq!(error.to_string(), "several providers have a model `m-large`");
        assert_eq!(error.hint(), "name one of them: acme/m-large, other/m-large");
        let error = config.full_name("m-lrage").unwrap_err();
        assert_eq!(error.to_string(), "`m-lrage` is not a model");
        assert_eq!(error.hint(), "write PROVIDER/MODEL; near it are acme/m-large, other/m-large");
        let error = config.full_name("zzzzzzzz").unwrap_err();
        assert_eq!(
            error.hint(),
            "write PROVIDER/MODEL, such as offline/offline; `limulus models list --search TEXT` finds some"
        );
        assert_eq!(config.nearest_models("M-SMALL"), ["other/m-small"]);
    }
}
