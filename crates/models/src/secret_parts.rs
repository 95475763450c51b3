//! The secrets inside a value that is not a secret as a whole: the token of an `authorization` header, the password and
//! the keys in an address. They are masked wherever they appear alone.

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use reqwest::Url;

use crate::endpoint::SECRET_HEADER_BYTES;

/// Bytes from which any value in the query of an address, or a user name without a password, counts as a secret.
const LONG_BYTES: usize = 20;

/// Words in the names of parameters whose values are secrets.
const NAMES: &[&str] = &["key", "token", "secret", "pass", "pwd", "auth", "sig", "code", "cred"];

/// The secrets in the value of a header, without the value itself: its words, the values of its pairs, and what is in
/// base64 after `Basic`.
pub fn secrets_of_header(value: &str) -> Vec<String> {
    let words = value.split(|c: char| c.is_whitespace() || ";,".contains(c)).map(|word| word.trim_matches('"'));
    let mut secrets: Vec<String> = vec![];
    for word in words {
        // A word that only ends with `=` is base64, not a pair.
        let pair = word.trim_end_matches('=').split_once('=');
        let value = pair.map_or(word, |(name, _)| word[name.len() + 1..].trim_matches('"'));
        // A pair with a short value is no secret either: `theme=dark` is ordinary text.
        if value.len() >= SECRET_HEADER_BYTES {
            secrets.extend([word, value].map(str::to_owned));
        }
        let decoded = STANDARD.decode(word).ok().and_then(|bytes| String::from_utf8(bytes).ok());
        if let Some((user, password)) = decoded.as_deref().and_then(|text| text.split_once(':')) {
            secrets.extend([format!("{user}:{password}"), password.to_owned()]);
        }
    }
    let is_scheme = |word: &str| word.eq_ignore_ascii_case("negotiate");
    secrets.retain(|secret| secret.len() >= SECRET_HEADER_BYTES && secret != value && !is_scheme(secret));
    secrets.sort();
    secrets.dedup();
    secrets
}

/// The secrets in an address: the password, a long user name without one, and keys in its query; each as it is written
/// and decoded.
pub fn secrets_of_address(address: &str) -> Vec<String> {
    let Ok(url) = Url::parse(address.trim()) else { return vec![] };
    let mut secrets: Vec<String> = vec![];
    let password = url.password().unwrap_or_default();
    let user = url.username();
    secrets.extend([password.to_owned(), decoded(password)]);
    if password.is_empty() && user.len() >= LONG_BYTES {
        secrets.extend([user.to_owned(), decoded(user)]);
    }
    for (name, value) in url.query().unwrap_or_default().split('&').filter_map(|pair| pair.split_once('=')) {
        let name = name.to_lowercase();
        if value.len() >= LONG_BYTES || NAMES.iter().any(|word| name.contains(word)) {
            secrets.extend([value.to_owned(), decoded(value)]);
        }
    }
    secrets.retain(|secret| !secret.is_empty());
    secrets.sort();
    secrets.dedup();
    secrets
}

/// Percent-decoded.
fn decoded(text: &str) -> String {
    let form =
        Url::parse(&format!("http://form/?{}", text.replace('+', "%2B").replace('&', "%26").replace('#', "%23")));
    let pair = form
        .ok()
        .and_then(|form| form.query_pairs().next().map(|(name, value)| (name.into_owned(), value.into_owned())));
    match pair {
        Some((name, value)) if value.is_empty() && !text.contains('=') => name,
        Some((name, value)) => format!("{name}={value}"),
        None => text.to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn r50_the_token_of_a_header_is_a_secret_without_the_words_around_it() {
        for (value, expected) in [
            ("Bearer tok-12345", &["tok-12345"][..]),
            ("bearer  tok-12345 ", &["tok-12345"]),
            ("Basic bWU6c2VjcmV0LXRpZGU=", &["bWU6c2VjcmV0LXRpZGU=", "me:secret-tide", "secret-tide"]),
            ("session=abcdefgh; theme=dark", &["abcdefgh", "session=abcdefgh"]),
            ("Negotiate YWJjZGVmZ2g", &["YWJjZGVmZ2g"]),
            ("Token token=\"abcdefgh\", x=1", &["abcdefgh", "token=\"abcdefgh"]),
            ("tok-12345", &[]),
            ("short", &[]),
            ("", &[]),
        ] {
            assert_eq!(secrets_of_header(value), expected, "{value}");
        }
    }

    #[test]
    fn r50_the_password_and_the_keys_of_an_address_are_secrets() {
        for (address, expected) in [
            ("https://me:pa%2Fss-word@h/v1", &["pa%2Fss-word", "pa/ss-word"][..]),
            ("http://proxy-user:hunter2-tide@127.0.0.1:3128", &["hunter2-tide"]),
            ("https://tok_0123456789abcdefgh@h", &["tok_0123456789abcdefgh"]),
            ("https://h/v1?api_key=sk-a%2Bb&api-version=2024-10-21", &["sk-a%2Bb", "sk-a+b"]),
            ("https://h/v1?x=0123456789abcdefghij#part", &["0123456789abcdefghij"]),
            ("https://me@h/v1?api-version=2024-10-21", &[]),
            ("sk-12345", &[]),
        ] {
            assert_eq!(secrets_of_address(address), expected, "{address}");
        }
    }
}
