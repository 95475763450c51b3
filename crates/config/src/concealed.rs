//! Finds keys where no key belongs, so that nothing shows them: in a name, in the name of a wire format, after `env:`, in
//! the path of an address. A text that only may be a key is not quoted; one that certainly is one is refused.

use super::layers::dotted;

/// Replaces what is not shown.
pub(super) const HIDDEN: &str = "…";

/// How the keys of known services begin, most used first.
const MARKS: &[&str] = &[
    "sk-",
    "AIza",
    "gsk_",
    "xai-",
    "ghp_",
    "gho_",
    "ghs_",
    "github_pat_",
    "glpat-",
    "hf_",
    "r8_",
    "pplx-",
    "nvapi-",
    "xoxb-",
    "xoxp-",
    "AKIA",
    "ASIA",
    "ya29.",
    "eyJ",
    "rk-",
    "pk-",
];

/// Characters after such a beginning from which it may be a key, and from which it is one if there is a digit.
const MARKED_CHARS: usize = 8;
const KEY_CHARS: usize = 16;

/// Characters of a word of letters and digits from which it may be a key.
const MIXED_CHARS: usize = 16;

/// Characters of any word from which it may be a key.
const LONG_CHARS: usize = 32;

/// The longest text that a message quotes.
const QUOTED_CHARS: usize = 60;

fn words(text: &str) -> impl Iterator<Item = &str> {
    text.split(|c: char| !(c.is_alphanumeric() || "-_.~+".contains(c)))
}

/// Whether the word begins as keys do and goes on for this many characters.
fn is_marked(word: &str, least: usize) -> bool {
    MARKS.iter().any(|mark| word.strip_prefix(mark).is_some_and(|rest| rest.chars().count() >= least))
}

/// Whether a word of the text certainly is a key.
pub fn has_key(text: &str) -> bool {
    words(text).any(|word| is_marked(word, KEY_CHARS) && word.contains(|c: char| c.is_ascii_digit()))
}

/// Whether a word of the text begins as keys do.
fn has_mark(text: &str) -> bool {
    words(text).any(|word| is_marked(word, MARKED_CHARS))
}

/// Whether a word of the text may be a key: it is long, or has letters and digits and is not short.
pub(super) fn may_have_key(text: &str) -> bool {
    let may_be = |word: &str| {
        let (chars, has) = (word.chars().count(), |of: fn(char) -> bool| word.chars().any(of));
        is_marked(word, MARKED_CHARS)
            || chars >= LONG_CHARS
            || chars >= MIXED_CHARS && has(|c| c.is_ascii_digit()) && has(char::is_alphabetic)
    };
    words(text).any(may_be)
}

/// The text as a message shows it; a key in it is not shown.
pub(super) fn without_keys(text: &str) -> String {
    if has_mark(text) { HIDDEN.to_owned() } else { text.to_owned() }
}

/// The text as a message quotes it; none if it may be a key.
pub(super) fn quoted(text: &str) -> Option<String> {
    if may_have_key(text) {
        return None;
    }
    let quoted = format!("{text:?}");
    Some(if quoted.chars().count() <= QUOTED_CHARS {
        quoted
    } else {
        quoted.chars().take(QUOTED_CHARS).chain(HIDDEN.chars()).collect()
    })
}

/// The path of a key of the configuration, as in a file. Names that are keys of providers are not shown.
pub(super) fn shown_path(path: &[String]) -> String {
    let parts: Vec<String> = path.iter().map(|part| without_keys(part)).collect();
    dotted(&parts).replace(&format!("{HIDDEN:?}"), HIDDEN)
}

/// Such a path that ends with an unknown name, which may be anything.
pub(super) fn shown_unknown(path: &[String]) -> String {
    let hidden = |part: &String| if may_have_key(part) { HIDDEN.to_owned() } else { part.clone() };
    match path.split_last() {
        Some((last, before)) => shown_path(&[before, &[hidden(last)]].concat()),
        None => String::new(),
    }
}

/// Whether this is the name of a variable and not a key that was written in its place.
pub(super) fn is_variable(name: &str) -> bool {
    let is_name =
        name.chars().enumerate().all(|(at, c)| c == '_' || c.is_ascii_alphabetic() || at > 0 && c.is_ascii_digit());
    // Names of variables are mostly words in capitals.
    let is_words = !name.contains(|c: char| c.is_ascii_lowercase()) && name.contains('_');
    !name.is_empty() && is_name && !has_mark(name) && (is_words || !may_have_key(name))
}

/// Whether this is a path and not a key that was written in its place.
pub(super) fn is_path(path: &str) -> bool {
    if path.contains('/') { !has_key(path) } else { !may_have_key(path) }
}

/// Whether this is an address of a server: it begins as one, and has no blanks or line ends.
pub fn is_address(text: &str) -> bool {
    let rest = text.strip_prefix("http://").or_else(|| text.strip_prefix("https://"));
    rest.is_some_and(|rest| !rest.is_empty() && !rest.contains(|c: char| c.is_whitespace() || c.is_control()))
}

/// The address without its user, password, the values of its query, and parts of its path that may be keys.
pub fn address(address: &str) -> String {
    let (scheme, rest) =
        address.split_once("://").map_or(("", address), |(_, rest)| address.split_at(address.len() - rest.len()));
    let (before, query) = rest.split_once(['?', '#']).unwrap_or((rest, ""));
    let (host, path) = before.split_at(before.find('/').unwrap_or(before.len()));
    let (user, host) = host.rsplit_once('@').map_or(("", host), |(_, host)| ("…@", host));
    let host = without_keys(host);
    let part = |part: &str| if may_have_key(part) { HIDDEN.to_owned() } else { part.to_owned() };
    let path = path.split('/').map(part).collect::<Vec<_>>().join("/");
    let pair = |pair: &str| match pair.split_once('=') {
        Some((name @ "api-version", version)) if !may_have_key(version) => format!("{name}={version}"),
        Some((name, _)) => format!("{}={HIDDEN}", part(name)),
        None => HIDDEN.to_owned(),
    };
    let query = query.split('&').map(pair).collect::<Vec<_>>().join("&");
    let query = if before.len() == rest.len() { String::new() } else { format!("?{query}") };
    format!("{scheme}{user}{host}{path}{query}")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn r50_what_may_be_a_key_is_told_from_names() {
        for text in [
            "sk-literal-0123456789",
            "a sk-0123456789abcdefg",
            "AIzaSyB1234567890abcd",
            "https://h/sk-abcdefghij0123456789/v1",
            "eyJhbGciOiJIUzI1NiJ9",
        ] {
            assert!(has_key(text) && may_have_key(text) && quoted(text).is_none(), "{text}");
        }
        for text in [
            "sk-literal-key",
            "ghp_012345678",
            "/srv/sk-projects-2024",
            "0123456789abcdef",
            "correcthorsebatterystaplecorrectly",
            "550e8400-e29b-41d4-a716-446655440000",
        ] {
            assert!(!has_key(text) && may_have_key(text), "{text}");
        }
        for text in [
            "",
            "openai-chat",
            "gpt-5.4",
            "sk-1",
            "xai-grok",
            "risk-management",
            "acme/some-model",
            "main",
            "a b c d 1 2 3 4 5 6",
        ] {
            assert!(!has_key(text) && !may_have_key(text), "{text}");
        }
    }

    #[test]
    fn r50_a_reference_is_told_from_a_key_in_its_place() {
        for name in ["ACME_KEY", "MY_COMPANY_OPENAI_API_KEY_2", "key", "_k", "acmeKey"] {
            assert!(is_variable(name), "{name}");
        }
        for name in [
            "",
            "sk-1",
            "1A",
            "a b",
            "AIzaSyB123456789",
            "AKIAIOSFODNN7EXAMPLE",
            "0123456789abcdef",
            "a123456789abcdef0",
            "ghp_0123456789",
        ] {
            assert!(!is_variable(name), "{name}");
        }
        assert!(is_path("~/.acme-key") && is_path("/run/secrets/0123456789abcdef01") && is_path("key"));
        assert!(!is_path("0123456789abcdef") && !is_path("sk-literal-key") && !is_path("/x/sk-literal-0123456789"));
    }

    #[test]
    fn r50_an_address_is_shown_without_what_may_be_a_secret() {
        for (text, shown) in [
            ("http://me:sk-password@127.0.0.1:1/v1", "http://…@127.0.0.1:1/v1"),
            ("https://h/v1?api_key=KEY&api-version=2024-10-21", "https://h/v1?api_key=…&api-version=2024-10-21"),
            ("https://h/v1?KEY", "https://h/v1?…"),
            ("https://h/v1#KEY", "https://h/v1?…"),
            ("https://h?k=a@b/c", "https://h?k=…"),
            ("https://h/0123456789abcdef/v1", "https://h/…/v1"),
            ("https://sk-literal-key/v1", "https://…/v1"),
            ("me:pass@h/v1", "…@h/v1"),
            ("http://127.0.0.1:9911/v1", "http://127.0.0.1:9911/v1"),
        ] {
            assert_eq!(address(text), shown);
        }
    }
}
