//! The language of what is printed for people. English texts are in the code; the catalogue of another language has them beside
//! its own, so a text is translated where it is printed, also one that another process or the journal gave. What has no
//! translation stays English, and so does everything that is printed as JSON.

mod catalogue;
pub(crate) mod help;
#[cfg(test)]
mod sources;
#[cfg(test)]
mod whole;

use std::borrow::Cow;
use std::sync::OnceLock;

use self::catalogue::Catalogue;

/// The catalogue of the only other language.
const CHINESE: &str = include_str!("../../locales/zh-CN.ftl");

/// The variables of a locale, the strongest first.
const LOCALE: [&str; 3] = ["LC_ALL", "LC_MESSAGES", "LANG"];

/// The catalogue that the locale of this process asks for; none is English.
#[cfg(not(test))]
fn catalogue() -> Option<&'static Catalogue> {
    static CATALOGUE: OnceLock<Option<Catalogue>> = OnceLock::new();
    let chosen = || is_chinese(|name| std::env::var(name).ok()).then(|| Catalogue::parse(CHINESE));
    CATALOGUE.get_or_init(chosen).as_ref()
}

#[cfg(test)]
thread_local! {
    /// Whether a test of this thread wants Chinese.
    static IS_CHINESE: std::cell::Cell<bool> = const { std::cell::Cell::new(false) };
}

/// The catalogue that a test asks for, whatever the locale of its process.
#[cfg(test)]
fn catalogue() -> Option<&'static Catalogue> {
    static CATALOGUE: OnceLock<Catalogue> = OnceLock::new();
    IS_CHINESE.get().then(|| CATALOGUE.get_or_init(|| Catalogue::parse(CHINESE)))
}

/// What a test does in Chinese.
#[cfg(test)]
pub(crate) fn in_chinese<T>(test: impl FnOnce() -> T) -> T {
    IS_CHINESE.set(true);
    let result = test();
    IS_CHINESE.set(false);
    result
}

/// Whether a locale asks for Chinese. `LANGUAGE` lists languages by preference, and counts only beside a locale.
fn is_chinese(variable: impl Fn(&str) -> Option<String>) -> bool {
    let locale =
        LOCALE.into_iter().find_map(|name| variable(name).filter(|value| !value.is_empty())).unwrap_or_default();
    if matches!(locale.split('.').next(), None | Some("" | "C" | "POSIX")) {
        return false;
    }
    let preferred = variable("LANGUAGE").filter(|value| !value.is_empty()).unwrap_or(locale);
    // The first one that is there.
    let known = |language: &str| match language.split(['_', '-', '.', '@']).next()?.to_ascii_lowercase().as_str() {
        "zh" => Some(true),
        "en" | "c" | "posix" => Some(false),
        _ => None,
    };
    preferred.split(':').find_map(known).unwrap_or(false)
}

/// A text in the language of this process, line by line.
pub(crate) fn lines(text: &str) -> Cow<'_, str> {
    match catalogue() {
        Some(catalogue) => Cow::Owned(catalogue.lines(text)),
        None => Cow::Borrowed(text),
    }
}

/// Words of this program in the language of this process, for the cell of a table.
pub(crate) fn word(words: impl AsRef<str>) -> String {
    text(words.as_ref()).into_owned()
}

/// A text in the language of this process.
pub(crate) fn text(text: &str) -> Cow<'_, str> {
    catalogue().and_then(|catalogue| catalogue.translated(text)).map_or(Cow::Borrowed(text), Cow::Owned)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn r61_the_locale_chooses_the_language() {
        for (variables, expected) in [
            (&[][..], false),
            (&[("LANG", "zh_CN.UTF-8")], true),
            (&[("LANG", "zh")], true),
            (&[("LANG", "ZH_cn.utf8")], true),
            (&[("LANG", "zh_CN.UTF-8"), ("LANGUAGE", "fr:zh")], true),
            (&[("LANG", "zh_CN.UTF-8"), ("LANGUAGE", "fr:en:zh")], false),
            (&[("LANG", "zh_CN.UTF-8"), ("LANGUAGE", "fr")], false),
            (&[("LANG", "zh-Hans")], true),
            (&[("LANG", "zha_CN.UTF-8")], false),
            (&[("LANG", "en_US.UTF-8")], false),
            (&[("LANG", "zh_CN.UTF-8"), ("LC_ALL", "C")], false),
            (&[("LANG", "zh_CN.UTF-8"), ("LC_ALL", "C.UTF-8")], false),
            (&[("LANG", "zh_CN.UTF-8"), ("LC_MESSAGES", "POSIX")], false),
            (&[("LANG", "zh_CN.UTF-8"), ("LC_ALL", "")], true),
            (&[("LANG", "en_US.UTF-8"), ("LC_MESSAGES", "zh_CN.UTF-8")], true),
            (&[("LANG", "en_US.UTF-8"), ("LANGUAGE", "zh_CN:en")], true),
            (&[("LANG", "zh_CN.UTF-8"), ("LANGUAGE", "en:zh")], false),
            (&[("LANG", "C"), ("LANGUAGE", "zh_CN")], false),
        ] {
            let variable =
                |name: &str| variables.iter().find(|(of, _)| *of == name).map(|(_, value)| (*value).to_owned());
            assert_eq!(is_chinese(variable), expected, "{variables:?}");
        }
    }
}
