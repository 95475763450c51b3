//! Requests a thinking level: does the server accept it, and does the response report thinking?

use engine::Thinking;
use models::{Api, level_name};

use super::ask::{Asker, ProbeRequest};
use super::{Finding, Verdict};

pub(super) async fn probe(asker: &Asker) -> Finding {
    let untried = |says: &str| Finding::optional("thinking", Verdict::Unclear, says, 0);
    if asker.api() == Api::OpenAiChat && asker.levels.is_none() {
        return untried("not tried: it is not known to take `reasoning_effort` (`thinking_levels`)");
    }
    let level = match asker.levels.map(|levels| levels.nearest(Thinking::Low)) {
        Some(None | Some(Thinking::Off)) => return untried("it does not think"),
        Some(Some(level)) => level,
        None => Thinking::Low,
    };
    let text = "How many prime numbers are there below 40? Answer with the number.";
    let observed = asker.ask(ProbeRequest { text, thinking: Some(level), ..ProbeRequest::default() }).await;
    let finding = |verdict, says: String| Finding::optional("thinking", verdict, says, observed.ms);
    if let Some(refusal) = observed.refusal() {
        return finding(Verdict::Fails, refusal).of(&observed);
    }
    let (bytes, tokens) = (observed.reasoning.len(), observed.usage.reasoning);
    if bytes == 0 && tokens == 0 {
        return finding(Verdict::Unclear, format!("{} is accepted, but no thinking is reported", level_name(level)));
    }
    finding(Verdict::Works, format!("{}: {tokens} tokens, {bytes} bytes of it shown", level_name(level)))
}
