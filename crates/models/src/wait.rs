//! How long a provider asks to wait before the next attempt.
//!
//! Data about this response takes precedence over data about limits in general, and machine-readable data over a
//! sentence:
//!
//! 1. `retry-after-ms`, milliseconds;
//! 2. `retry-after`, seconds (`2`, `0.25`) or a date (`Wed, 21 Oct 2026 07:28:00 GMT`);
//! 3. in the body, Google's `retryDelay` or OpenAI's `resets_in_seconds`, then a sentence (`Please try again in 1m23.5s`);
//! 4. of a 429, the latest reset among the limits with nothing left: `x-ratelimit-reset-tokens: 6m0s` beside
//!    `x-ratelimit-remaining-tokens: 0`, and so on, in the headers or, by OpenRouter, in the body.
//!
//! A value that cannot be parsed or is negative is skipped. No wait is longer than a day, and a date in the past means
//! no wait. Dates are compared with the `date` of the response, so the provider's clock counts.

use jiff::fmt::rfc2822;
use jiff::tz::TimeZone;
use jiff::{SignedDuration, Timestamp, civil};
use reqwest::header::HeaderMap;
use serde_json::Value;

use crate::limits::RETRY_AFTER_MS;

/// The waits in the headers of a response.
#[derive(Debug, Default, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Asked {
    /// The wait for this response, milliseconds.
    pub(crate) retry_after_ms: Option<u64>,
    /// The time until the exhausted limits are reset, milliseconds.
    pub(crate) reset_ms: Option<u64>,
}

/// Reads the headers; `now` is used if the response has no date.
pub(crate) fn of_headers(headers: &HeaderMap, now: Timestamp) -> Asked {
    let text = |name: &str| headers.get(name)?.to_str().ok().map(str::trim);
    let now = text("date").and_then(date).unwrap_or(now);
    let ms = text("retry-after-ms").and_then(|ms| bounded(ms.parse().ok()?));
    let after = || {
        let after = text("retry-after")?;
        after.parse().ok().and_then(seconds).or_else(|| Some(until(date(after)?, now)))
    };
    let names = headers.iter().filter_map(|(name, value)| Some((name.as_str(), value.to_str().ok()?)));
    Asked { retry_after_ms: ms.or_else(after), reset_ms: reset_ms(&names.collect::<Vec<_>>(), now) }
}

/// The time until the last exhausted limit is reset. Headers are named `x-ratelimit-remaining-tokens` and
/// `x-ratelimit-reset-tokens`, or `anthropic-ratelimit-tokens-remaining` and `anthropic-ratelimit-tokens-reset`.
fn reset_ms(headers: &[(&str, &str)], now: Timestamp) -> Option<u64> {
    let lower: Vec<_> = headers.iter().map(|(name, value)| (name.to_lowercase(), value.trim())).collect();
    let spent = lower.iter().filter(|(name, left)| name.contains("ratelimit") && left.parse() == Ok(0.0));
    let resets = spent.filter_map(|(name, _)| {
        let reset = name.replace("remaining", "reset");
        let (_, at) = lower.iter().find(|(other, _)| *other == reset && other != name)?;
        moment(at, now)
    });
    resets.max()
}

/// Parses the reset of a limit: a duration (`6m0s`, `20ms`), a time (RFC 3339), seconds or milliseconds since 1970, or
/// seconds from now.
fn moment(text: &str, now: Timestamp) -> Option<u64> {
    if let Ok(number) = text.parse::<f64>() {
        return match number {
            // Numbers this large are seconds or milliseconds since 1970, for dates from 2001 on.
            1e9..1e11 => Some(until(Timestamp::from_second(number as i64).ok()?, now)),
            1e12..1e14 => Some(until(Timestamp::from_millisecond(number as i64).ok()?, now)),
            _ => seconds(number),
        };
    }
    length(text).or_else(|| Some(until(text.parse().ok()?, now)))
}

/// The wait in an error body: Google's `retryDelay`, OpenAI's `resets_in_seconds`, a sentence, or OpenRouter's copy of
/// headers.
pub(crate) fn of_body(error: &Value, words: &str) -> Option<u64> {
    let details = error.get("details").and_then(Value::as_array);
    let delay = |detail: &Value| length(detail.get("retryDelay")?.as_str()?);
    let delay = details.into_iter().flatten().find_map(delay);
    let delay = delay.or_else(|| error.get("resets_in_seconds")?.as_f64().and_then(seconds));
    delay.or_else(|| of_text(words)).or_else(|| {
        let headers = error.pointer("/metadata/headers")?.as_object()?.iter();
        let headers = headers.filter_map(|(name, value)| Some((name.as_str(), value.as_str()?)));
        reset_ms(&headers.collect::<Vec<_>>(), Timestamp::now())
    })
}

/// The words before a wait in a sentence.
const LEADS: &[&str] = &["try again in ", "retry in ", "retry after ", "try again after ", "wait "];

/// The wait in a lower-case sentence: `try again in 1m23.5s`, `retry after 26 seconds`, `please wait 84152s`.
pub(crate) fn of_text(words: &str) -> Option<u64> {
    let after = |lead: &&str| words.match_indices(*lead).find_map(|(at, lead)| length(&words[at + lead.len()..]));
    LEADS.iter().find_map(after)
}

/// A duration with units at the beginning of a text: `1m23.5s`, `20ms`, `26 seconds`.
fn length(text: &str) -> Option<u64> {
    let mut rest = text;
    let mut total = None;
    loop {
        let digits = rest.find(|c: char| !(c.is_ascii_digit() || c == '.')).unwrap_or(rest.len());
        let Ok(number) = rest[..digits].parse::<f64>() else { break };
        let unit = rest[digits..].trim_start();
        let end = unit.find(|c: char| !c.is_alphabetic()).unwrap_or(unit.len());
        let unit_ms = match &unit[..end] {
            "ms" | "millisecond" | "milliseconds" => 1.0,
            "s" | "sec" | "secs" | "second" | "seconds" => 1_000.0,
            "m" | "min" | "mins" | "minute" | "minutes" => 60_000.0,
            "h" | "hour" | "hours" => 3_600_000.0,
            "d" | "day" | "days" => 86_400_000.0,
            _ => break,
        };
        total = Some(total.unwrap_or(0.0) + number * unit_ms);
        rest = unit[end..].trim_start();
    }
    bounded(total?)
}

fn seconds(seconds: f64) -> Option<u64> {
    bounded(seconds * 1000.0)
}

/// Whole milliseconds, rounded up, at most a day; none if the value is negative or not a number.
fn bounded(ms: f64) -> Option<u64> {
    // Sums of decimal fractions can be slightly too large.
    (ms >= 0.0).then_some(((ms - 1e-6).ceil() as u64).min(RETRY_AFTER_MS))
}

fn date(text: &str) -> Option<Timestamp> {
    let of_today = rfc2822::DateTimeParser::new().relaxed_weekday(true).parse_timestamp(text).ok();
    // Two obsolete forms that HTTP recipients must accept, and one that no server should send.
    let older = || {
        let forms = ["%A, %d-%b-%y %H:%M:%S GMT", "%a %b %e %H:%M:%S %Y"];
        let date = forms.iter().find_map(|form| civil::DateTime::strptime(form, text).ok());
        date.and_then(|date| Some(date.to_zoned(TimeZone::UTC).ok()?.timestamp()))
    };
    of_today.or_else(older).or_else(|| text.parse().ok())
}

fn until(then: Timestamp, now: Timestamp) -> u64 {
    let wait = then.duration_since(now).max(SignedDuration::ZERO);
    u64::try_from(wait.as_millis()).unwrap_or(RETRY_AFTER_MS).min(RETRY_AFTER_MS)
}

#[cfg(test)]
mod tests {
    use reqwest::header::{HeaderName, HeaderValue};

    use super::*;

    const NOW: &str = "2026-10-21T07:28:00Z";

    type Headers<'a> = &'a [(&'a str, &'a str)];

    fn asked(headers: Headers<'_>) -> Asked {
        let header =
            |(name, value): &(&str, &str)| (name.parse::<HeaderName>().unwrap(), HeaderValue::from_str(value).unwrap());
        of_headers(&headers.iter().map(header).collect(), NOW.parse().unwrap())
    }

    #[test]
    fn r51_retry_after_is_taken_in_seconds_milliseconds_and_dates_and_bounded() {
        let cases = [
            ("retry-after", "2", Some(2_000)),
            ("retry-after", " 2 ", Some(2_000)),
            ("retry-after", "0.25", Some(250)),
            ("retry-after", "0", Some(0)),
            ("retry-after", "1000000000", Some(RETRY_AFTER_MS)),
            ("retry-after", "-1", None),
            ("retry-after", "soon", None),
            ("retry-after", "Wednesday, 21-Oct-26 07:28:30 GMT", Some(30_000)),
            ("retry-after", "Wed Oct 21 07:28:30 2026", Some(30_000)),
            ("retry-after", "2026-10-21T07:28:30Z", Some(30_000)),
            ("retry-after", "", None),
            ("retry-after", "NaN", None),
            ("retry-after", "inf", Some(RETRY_AFTER_MS)),
            ("retry-after", "Wed, 21 Oct 2026 07:28:30 GMT", Some(30_000)),
            ("retry-after", "Fri, 31 Dec 1999 23:59:59 GMT", Some(0)),
            ("retry-after", "Fri, 31 Dec 2999 23:59:59 GMT", Some(RETRY_AFTER_MS)),
            ("retry-after", "Wed, 21 Oct 2026 25:28:30 GMT", None),
            ("retry-after-ms", "1500", Some(1_500)),
            ("retry-after-ms", "0", Some(0)),
            ("retry-after-ms", "-5", None),
            ("retry-after-ms", "1e99", Some(RETRY_AFTER_MS)),
            ("x-other", "1", None),
        ];
        for (name, value, expected) in cases {
            assert_eq!(asked(&[(name, value)]).retry_after_ms, expected, "{name}: {value}");
        }
    }

    #[test]
    fn r51_milliseconds_outrank_seconds_and_garbage_yields() {
        let after = |headers: Headers<'_>| asked(headers).retry_after_ms;
        assert_eq!(after(&[("retry-after", "9"), ("retry-after-ms", "1500")]), Some(1_500));
        assert_eq!(after(&[("retry-after", "9"), ("retry-after-ms", "soon")]), Some(9_000));
        assert_eq!(after(&[("retry-after", "9"), ("retry-after-ms", "-1")]), Some(9_000));
    }

    #[test]
    fn r51_a_date_is_taken_against_the_clock_of_the_provider() {
        let after = "Wed, 21 Oct 2026 09:00:10 GMT";
        let headers = [("date", "Wed, 21 Oct 2026 09:00:00 GMT"), ("retry-after", after)];
        assert_eq!(asked(&headers).retry_after_ms, Some(10_000));
    }

    #[test]
    fn r51_the_latest_reset_of_a_limit_with_nothing_left_counts() {
        let cases: &[(Headers<'_>, Option<u64>)] = &[
            (&[("x-ratelimit-remaining-tokens", "0"), ("x-ratelimit-reset-tokens", "6m0s")], Some(360_000)),
            (&[("x-ratelimit-remaining-tokens", "0"), ("x-ratelimit-reset-tokens", "20ms")], Some(20)),
            (&[("x-ratelimit-remaining-tokens", "0"), ("x-ratelimit-reset-tokens", "7.66s")], Some(7_660)),
            (&[("x-ratelimit-remaining-tokens", "5"), ("x-ratelimit-reset-tokens", "6m0s")], None),
            (&[("x-ratelimit-reset-tokens", "6m0s")], None),
            (&[("x-ratelimit-remaining-tokens", "0")], None),
            (&[("x-ratelimit-remaining-tokens", "0"), ("x-ratelimit-reset-requests", "6m0s")], None),
            (&[("x-ratelimit-remaining-tokens", "0"), ("x-ratelimit-reset-tokens", "soon")], None),
            (
                &[
                    ("x-ratelimit-remaining-requests", "0"),
                    ("x-ratelimit-reset-requests", "8.64s"),
                    ("x-ratelimit-remaining-tokens", "0"),
                    ("x-ratelimit-reset-tokens", "1m2s"),
                ],
                Some(62_000),
            ),
            (
                &[
                    ("anthropic-ratelimit-input-tokens-remaining", "0"),
                    ("anthropic-ratelimit-input-tokens-reset", "2026-10-21T07:28:05Z"),
                    ("anthropic-ratelimit-requests-remaining", "49"),
                    ("anthropic-ratelimit-requests-reset", "2026-10-21T08:28:05Z"),
                ],
                Some(5_000),
            ),
            (&[("x-ratelimit-remaining", "0"), ("x-ratelimit-reset", "1792567681")], Some(1_000)),
            (&[("x-ratelimit-remaining", "0"), ("x-ratelimit-reset", "1792567680500")], Some(500)),
            (&[("x-ratelimit-remaining", "0"), ("x-ratelimit-reset", "30")], Some(30_000)),
            (&[("x-ratelimit-remaining", "0"), ("x-ratelimit-reset", "-30")], None),
        ];
        for (headers, expected) in cases {
            assert_eq!(asked(headers).reset_ms, *expected, "{headers:?}");
            assert_eq!(asked(headers).retry_after_ms, None);
        }
    }

    #[test]
    fn r51_a_wait_in_a_sentence_is_understood() {
        let cases = [
            ("please try again in 20s. contact us", Some(20_000)),
            ("please try again in 9.816s. visit", Some(9_816)),
            ("please try again in 1m23.5s. ", Some(83_500)),
            ("please try again in 9m38.016s. need", Some(578_016)),
            ("please try again in 6ms.", Some(6)),
            ("please try again in 1h2m0s", Some(3_720_000)),
            ("please try again in 5 minutes.", Some(300_000)),
            ("please retry after 26 seconds. ", Some(26_000)),
            ("please retry after 86400 seconds. ", Some(RETRY_AFTER_MS)),
            ("please retry in 34.074824224s.", Some(34_075)),
            ("please try again after 1 seconds", Some(1_000)),
            ("please wait 84152s before", Some(84_152_000)),
            ("please wait 8 hours 24 minutes and try again", Some(30_240_000)),
            ("please wait a moment; wait 5 seconds", Some(5_000)),
            ("please try again in a few minutes", None),
            ("please wait or upgrade to continue", None),
            ("please try again in 3 fortnights", None),
            ("please try again later", None),
            ("retry after ", None),
        ];
        for (text, expected) in cases {
            assert_eq!(of_text(text), expected, "{text}");
        }
    }

    #[test]
    fn r51_the_fields_of_a_body_are_understood() {
        let of_body = |body: &str, words: &str| of_body(&serde_json::from_str(body).unwrap(), words);
        let delay = |delay: &str| of_body(&format!(r#"{{"details":[{{"reason":"x"}},{{"retryDelay":{delay}}}]}}"#), "");
        assert_eq!([delay(r#""34.0705s""#), delay(r#""0s""#)], [Some(34_071), Some(0)]);
        assert_eq!([delay(r#""soon""#), delay(r#""-1s""#), delay("7")], [None; 3]);
        let past = r#"{"metadata":{"headers":{"X-RateLimit-Remaining":"0","X-RateLimit-Reset":"1745971200000"}}}"#;
        assert_eq!([of_body(past, ""), of_body(past, "retry in 7s")], [Some(0), Some(7_000)]);
    }
}
