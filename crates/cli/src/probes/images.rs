//! Sends an image: does the server accept it, and does the model see what is in it?

use models::File;

use super::ask::{Asker, ProbeRequest};
use super::{Finding, Verdict};

/// A PNG of a red square.
const RED: &[u8] = include_bytes!("red.png");

pub(super) async fn probe(asker: &Asker) -> Finding {
    let file = File { media_type: "image/png".into(), name: "square.png".into(), bytes: RED.into() };
    let text = "Which colour is this square? Answer with one English word.";
    let observed = asker.ask(ProbeRequest { text, files: vec![file], ..ProbeRequest::default() }).await;
    let finding = |verdict, says: String| Finding::optional("images", verdict, says, observed.ms);
    let model = format!("[models.\"{}/{}\"]", asker.candidate.provider, asker.candidate.model);
    if let Some(refusal) = observed.refusal() {
        let advice = if asker.candidate.images { format!(" (set images = false in {model})") } else { String::new() };
        return finding(Verdict::Fails, refusal + &advice).of(&observed);
    }
    if observed.text.to_lowercase().contains("red") {
        let advice = if asker.candidate.images { String::new() } else { format!("; set images = true in {model}") };
        return finding(Verdict::Works, format!("it sees a red square{advice}"));
    }
    finding(Verdict::Unclear, format!("it was taken for {}, and is a red square", observed.quoted()))
}
