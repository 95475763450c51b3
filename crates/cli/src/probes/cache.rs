//! Sends the same long prefix twice: does the reported usage show that the provider read it from its cache?

use std::fmt::Write as _;

use super::ask::{Asker, ProbeRequest};
use super::{Finding, Verdict};

/// Lines of the prefix, about 6,000 tokens: providers cache nothing below 1,024 tokens, some nothing below 4,096.
const LINES: usize = 400;

/// The smallest window that has space for the prefix.
const LEAST_WINDOW: u64 = 16_000;

pub(super) async fn probe(asker: &Asker) -> Finding {
    if asker.candidate.context_window < LEAST_WINDOW {
        return Finding::optional("cache", Verdict::Unclear, "not tried: the window is too small for it", 0);
    }
    let ask =
        || asker.ask(ProbeRequest { system: beginning(), text: "Answer with the word OK.", ..ProbeRequest::default() });
    let (first, second) = (ask().await, ask().await);
    let finding = |verdict, says: String| Finding::optional("cache", verdict, says, first.ms + second.ms);
    if let Some(refusal) = first.refusal().or(second.refusal()) {
        return finding(Verdict::Unclear, refusal);
    }
    let usage = second.usage;
    let all = usage.prompt();
    match (usage.cached, first.is_counted && second.is_counted) {
        (_, false) => finding(Verdict::Unclear, "the server reports no usage".to_owned()),
        (0, true) => {
            let written = first.usage.cache_written.saturating_add(usage.cache_written);
            finding(
                Verdict::Unclear,
                format!("of {all} tokens the server reports none as read from it, {written} as written"),
            )
        }
        (cached, true) => {
            finding(Verdict::Works, format!("{cached} of {all} tokens were read from it the second time"))
        }
    }
}

fn beginning() -> String {
    let mut text = "This is a check of the connection. The lines that follow mean nothing.\n".to_owned();
    for line in 0..LINES {
        // Writing to a String cannot fail.
        let _ = writeln!(text, "Line {line}: the tide comes in, the tide goes out, and the crab stays.");
    }
    text
}
