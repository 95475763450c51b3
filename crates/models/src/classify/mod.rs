//! Classifies an error response by status and body as a [`FailureClass`]. [`body`] parses bodies; [`table`] has the
//! rules in order.

mod body;
mod table;
#[cfg(test)]
mod tests;

pub(crate) use body::ErrorBody;

use engine::FailureClass;
use table::{RULES, Statuses};

impl ErrorBody {
    /// The class of a response with this status; none for an error inside a stream that began well.
    pub(crate) fn class(&self, status: Option<u16>) -> FailureClass {
        let status = status.or(self.status);
        if self.is_page && status.is_some_and(|status| status < 500 && ![404, 413, 429].contains(&status)) {
            return FailureClass::Malformed;
        }
        self.class_by_words(status).unwrap_or_else(|| class_by_status(status))
    }

    /// The words of the body take precedence over the status, since providers use one status for several errors.
    fn class_by_words(&self, status: Option<u16>) -> Option<FailureClass> {
        if self.exceeds_limit_alone() {
            return Some(FailureClass::ContextOverflow);
        }
        let rule = RULES.iter().find(|rule| {
            let fits = match rule.statuses {
                Statuses::Refused => status.is_none_or(|status| status < 500),
                Statuses::Only(statuses) => status.is_none_or(|status| statuses.contains(&status)),
                Statuses::InStream => status.is_none(),
                Statuses::Any => true,
            };
            fits && rule.all.iter().all(|any| any.iter().any(|word| self.words.contains(word)))
        });
        rule.map(|rule| rule.class)
    }

    /// Whether the request alone is larger than a limit of tokens per minute (`Limit 6000, Requested 14368`): however
    /// long the wait, only a shorter request fits.
    fn exceeds_limit_alone(&self) -> bool {
        let number = |lead: &str| {
            self.words.match_indices(lead).find_map(|(at, _)| leading_number(&self.words[at..][lead.len()..]))
        };
        let numbers = number("requested").zip(number("limit"));
        self.words.contains("tokens per") && numbers.is_some_and(|(requested, limit)| requested > limit)
    }
}

/// The number at the beginning of a text: ` 6000, `, `: 30,000`.
fn leading_number(text: &str) -> Option<u64> {
    let text = text.trim_start_matches([':', ' ']);
    let digits = text.find(|c: char| !(c.is_ascii_digit() || c == ',')).unwrap_or(text.len());
    text[..digits].replace(',', "").parse().ok()
}

fn class_by_status(status: Option<u16>) -> FailureClass {
    match status {
        Some(401) => FailureClass::Auth,
        Some(402) => FailureClass::Billing,
        Some(403) => FailureClass::AuthPermanent,
        // The provider serves nothing at this address, which says nothing about other addresses.
        Some(404 | 405 | 410) => FailureClass::ModelNotFound,
        // A proxy in front of the provider asks for authentication.
        Some(407) => FailureClass::Network,
        Some(408) => FailureClass::Timeout,
        Some(413) => FailureClass::ContextOverflow,
        Some(429) => FailureClass::RateLimit,
        Some(503 | 529) => FailureClass::Overloaded,
        // 409 and 425 are temporary states of the server; an error in mid-stream without known words is the server's
        // error.
        Some(409 | 425 | 500..) | None => FailureClass::Server,
        Some(200..300) => FailureClass::Malformed,
        Some(_) => FailureClass::InvalidRequest,
    }
}
