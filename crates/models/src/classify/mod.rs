//! What an error answer means: from status and body to a [`FailureClass`]. How a body is read is in [`body`], the words and the
//! order of the rules are in [`table`].

mod body;
mod table;
#[cfg(test)]
mod tests;

pub(crate) use body::ErrorBody;

use engine::FailureClass;
use table::{RULES, Statuses};

impl ErrorBody {
    /// The class of an answer with this status; none = inside a stream that began well.
    pub(crate) fn class(&self, status: Option<u16>) -> FailureClass {
        let status = status.or(self.status);
        if self.is_page && status.is_some_and(|status| status < 500 && ![404, 413, 429].contains(&status)) {
            return FailureClass::Malformed;
        }
        self.class_by_words(status).unwrap_or_else(|| class_by_status(status))
    }

    /// Words outweigh the status where providers use one status for several things.
    fn class_by_words(&self, status: Option<u16>) -> Option<FailureClass> {
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
}

fn class_by_status(status: Option<u16>) -> FailureClass {
    match status {
        Some(401) => FailureClass::Auth,
        Some(402) => FailureClass::Billing,
        Some(403) => FailureClass::AuthPermanent,
        // Nothing is at this address of the provider's: that says nothing of another.
        Some(404 | 405 | 410) => FailureClass::ModelNotFound,
        // It is what stands before the provider that asks for more.
        Some(407) => FailureClass::Network,
        Some(408) => FailureClass::Timeout,
        Some(413) => FailureClass::ContextOverflow,
        Some(429) => FailureClass::RateLimit,
        Some(503 | 529) => FailureClass::Overloaded,
        // 409 and 425 are states of the server's that pass; an error in mid-stream without words that are known is its own.
        Some(409 | 425 | 500..) | None => FailureClass::Server,
        Some(200..300) => FailureClass::Malformed,
        Some(_) => FailureClass::InvalidRequest,
    }
}
