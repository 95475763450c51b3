//! Finds the known key that is nearest to an unknown one.

use strsim::levenshtein;

use super::settings;

/// Which suggestions are allowed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Among {
    /// Keys and tables.
    All,
    /// Only keys.
    Keys,
}

/// The known path that is nearest to this one. Names that the user chose, such as that of an agent, are kept.
pub(super) fn nearest(path: &[String], among: Among) -> Vec<String> {
    let wanted = path.join(".");
    let mut candidates: Vec<Vec<String>> = vec![];
    for pattern in settings::all().map(|setting| setting.path) {
        let shortest = if among == Among::Keys { pattern.len() } else { 1 };
        for length in shortest..=pattern.len() {
            let candidate = named(&pattern[..length], path);
            // A table that contains the wrong path is no suggestion.
            if !candidates.contains(&candidate) && !path.starts_with(&candidate) {
                candidates.push(candidate);
            }
        }
    }
    let cost = |candidate: &Vec<String>| {
        // A key under the wrong heading is nearer than another key of that heading.
        let moved = candidate.last() == path.last() && candidate.len() > 1;
        // So is an abbreviation: `window` for `context_window`.
        let is_short =
            |(known, given): (&String, &String)| known != given && known.split('_').any(|word| word == given);
        let is_short = candidate.len() == path.len() && candidate.last().zip(path.last()).is_some_and(is_short);
        levenshtein(&wanted, &candidate.join(".")).min(if moved || is_short { 3 } else { usize::MAX })
    };
    candidates.into_iter().min_by_key(cost).unwrap_or_default()
}

/// The pattern with each `*` replaced by the path's name at that position.
fn named(pattern: &[&str], path: &[String]) -> Vec<String> {
    let name = |at: usize| path.get(at).map_or("NAME", String::as_str);
    pattern.iter().enumerate().map(|(at, part)| if *part == "*" { name(at) } else { part }.to_owned()).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_unknown_key_gets_the_nearest_known_one() {
        let check = |wrong: &str, right: &str| {
            let path: Vec<String> = wrong.split('.').map(str::to_owned).collect();
            assert_eq!(nearest(&path, Among::All).join("."), right, "{wrong}");
        };
        check("runs.deadline", "runs.deadline_s");
        check("runs.dedline_s", "runs.deadline_s");
        check("tools.exec.polcy", "tools.exec.policy");
        check("tool", "tools");
        check("policy", "tools.exec.policy");
        check("agents.main.modle", "agents.main.model");
        check("agents.helper.work", "agents.helper.model");
        check("deadline_s", "runs.deadline_s");
        check("providers.acme.url", "providers.acme.api");
        check("providers.acme.baseurl", "providers.acme.base_url");
        assert_eq!(nearest(&["tool".to_owned(), "timeout_s".to_owned()], Among::Keys), ["tools", "timeout_s"]);
    }
}
