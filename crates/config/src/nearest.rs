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

/// The known path that is nearest to this one; none if none is near. Names that the user chose, such as that of an agent, are
/// kept.
pub(super) fn nearest(path: &[String], among: Among) -> Option<Vec<String>> {
    let wanted = path.join(".");
    let (mut candidates, mut named_last) = (Vec::<Vec<String>>::new(), vec![]);
    for pattern in settings::all().map(|setting| setting.path) {
        let shortest = if among == Among::Keys { pattern.len() } else { 1 };
        for length in shortest..=pattern.len() {
            let candidate = named(&pattern[..length], path);
            // A table that contains the wrong path is no suggestion.
            if !candidates.contains(&candidate) && !path.starts_with(&candidate) {
                // Its last part is the user's own.
                named_last.extend((pattern[length - 1] == "*").then(|| candidate.clone()));
                candidates.push(candidate);
            }
        }
    }
    let is_related = |candidate: &Vec<String>| {
        // A key under the wrong heading is nearer than another key of that heading.
        let moved = candidate.last() == path.last() && candidate.len() > 1 && !named_last.contains(candidate);
        // So is an abbreviation: `window` for `context_window`.
        let is_short =
            |(known, given): (&String, &String)| known != given && known.split('_').any(|word| word == given);
        moved || candidate.len() == path.len() && candidate.last().zip(path.last()).is_some_and(is_short)
    };
    let distance = |candidate: &Vec<String>| levenshtein(&wanted, &candidate.join("."));
    let cost =
        |candidate: &Vec<String>| distance(candidate).min(if is_related(candidate) { RELATED } else { usize::MAX });
    let is_near = |candidate: &Vec<String>| {
        let is_in_table = levenshtein(&candidate[0], &path[0]) <= MISTYPED;
        let most = if is_in_table { MISTYPED.max(wanted.chars().count() / 3) } else { MISTYPED };
        // A table where a key belongs is not mistyped: any of its keys shows what is meant.
        candidate.starts_with(path) || is_related(candidate) || distance(candidate) <= most
    };
    let least = candidates.iter().map(cost).min()?;
    // Of two that are equally near, one of the same table.
    let table = |path: &[String]| path[..path.len().saturating_sub(1)].to_vec();
    let nearest = candidates.into_iter().filter(|candidate| cost(candidate) == least && is_near(candidate));
    nearest.min_by_key(|candidate| table(candidate) != table(path))
}

/// The distance of names that have a part in common, whatever their letters.
const RELATED: usize = 3;
/// Wrong letters of a name that is mistyped; a longer one may have a third.
const MISTYPED: usize = 2;

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
            assert_eq!(nearest(&path, Among::All).unwrap().join("."), right, "{wrong}");
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
        assert_eq!(nearest(&["tool".to_owned(), "timeout_s".to_owned()], Among::Keys).unwrap(), ["tools", "timeout_s"]);
    }

    #[test]
    fn r24_a_key_that_is_near_to_none_gets_no_suggestion() {
        for unknown in ["x", "banana", "permissions.defaultMode", "mcpServers.github.args", "theme", "env.FOO_BAR"] {
            let path: Vec<String> = unknown.split('.').map(str::to_owned).collect();
            for among in [Among::All, Among::Keys] {
                assert_eq!(nearest(&path, among), None, "{unknown} {among:?}");
            }
        }
    }
}
