//! The error of the token estimate: against the tokenizers of several families of models, and after a provider has
//! counted the previous request.

use engine::{Budget, Candidate, Compaction, Limits, Policy, ResumeMode, Settings, Transcript, text_tokens};
use serde_json::json;
use tiktoken::{CoreBpe, get_encoding};

use super::Problem;
use super::table::{Line, Row, Samples, Target};

/// Bytes of a piece: about what a message or a result has.
const PIECE_BYTES: usize = 1_500;
/// Pieces of each kind of text.
const PIECES: usize = 20;
/// With this error a request of 100,000 tokens is still well within the reserve.
const COUNTED_PERCENT: f64 = 5.0;

/// A family of models: the name of its row, one of its models, and its tokenizer.
struct Family {
    what: &'static str,
    model: &'static str,
    encoding: &'static str,
}

/// Each with its own vocabulary.
const FAMILIES: &[Family] = &[
    Family { what: "tokens estimated, GPT (o200k_base): off by", model: "gpt-5", encoding: "o200k_base" },
    Family { what: "the same, Llama 3", model: "llama3.3", encoding: "llama3" },
    Family { what: "the same, DeepSeek V3", model: "deepseek-chat", encoding: "deepseek_v3" },
    Family { what: "the same, Qwen 2", model: "qwen3", encoding: "qwen2" },
    Family { what: "the same, Mistral V3", model: "mistral-large", encoding: "mistral_v3" },
];

/// Makes a text of one kind.
type Text = fn() -> String;

/// The name of the row of each kind of text, and where such text comes from.
const KINDS: &[(&str, Text)] = &[
    ("tokens estimated, English prose, all families: off by", || {
        include_str!("../../../../../ARCHITECTURE.md").to_owned()
    }),
    ("the same, code", || include_str!("../../../../engine/src/state/transcript.rs").to_owned()),
    ("the same, JSON", || include_str!("../../../../../docs/protocol.schema.json").to_owned()),
    ("the same, Chinese", || {
        [include_str!("../../../../../README.zh-CN.md"), include_str!("../../../../cli/locales/zh-CN.ftl")].concat()
    }),
    ("the same, numbers", numbers),
];

/// Measures every family, every kind of text, and requests whose beginning a provider has counted.
pub(super) fn measure() -> Result<Vec<Line>, Problem> {
    let texts: Vec<Vec<String>> = KINDS.iter().map(|(_, text)| pieces(&text())).collect();
    let all: Vec<&String> = (0..PIECES).flat_map(|at| texts.iter().filter_map(move |kind| kind.get(at))).collect();
    let mut lines = vec![];
    for family in FAMILIES {
        let tokenizer = family.tokenizer()?;
        lines.push(row(family.what, Target::None, all.iter().map(|text| family.error(tokenizer, text)).collect()));
    }
    for ((what, _), texts) in KINDS.iter().zip(&texts) {
        let mut errors = vec![];
        for family in FAMILIES {
            let tokenizer = family.tokenizer()?;
            errors.extend(texts.iter().map(|text| family.error(tokenizer, text)));
        }
        lines.push(row(what, Target::None, errors));
    }
    let mut counted = vec![];
    for family in FAMILIES {
        counted.extend(family.errors_when_counted(family.tokenizer()?, &all)?);
    }
    let what = "a request of all of these, the one before it counted, all families: off by, p99";
    lines
        .push(Row { what, target: Target::AtMost(COUNTED_PERCENT), measured: Samples::new("%", counted).p99() }.into());
    Ok(lines)
}

fn row(what: &'static str, target: Target, errors: Vec<f64>) -> Line {
    Row { what, target, measured: Samples::new("%", errors) }.into()
}

impl Family {
    fn tokenizer(&self) -> Result<&'static CoreBpe, Problem> {
        get_encoding(self.encoding).ok_or_else(|| format!("there is no tokenizer {}", self.encoding).into())
    }

    /// The error of the estimate of a text, in percent.
    fn error(&self, tokenizer: &CoreBpe, text: &str) -> f64 {
        let rate = u64::from(models::token_rate(self.model));
        off_by(text_tokens(text.as_bytes()) * rate / 1_000, tokenizer.count(text) as u64)
    }

    /// The error for each request of a conversation that grows by one text at a time, from the second request on, when
    /// the provider has counted the previous one. The first few are left out, because a new text is a large part of
    /// them.
    fn errors_when_counted(&self, tokenizer: &CoreBpe, texts: &[&String]) -> Result<Vec<f64>, Problem> {
        let settings = settings(self.model);
        let hash = settings.content().body.hash;
        let (mut estimated, mut counted) = (0, 0);
        let mut errors = vec![];
        for text in texts {
            let (before, known) = (estimated, counted);
            estimated += text_tokens(text.as_bytes());
            counted += tokenizer.count(text) as u64;
            if errors.is_empty() && known == 0 {
                continue;
            }
            let usage = json!({ "tokens": known, "items": before, "settings": hash, "candidate": 0 });
            let transcript: Transcript = serde_json::from_value(json!({
                "items": [], "seqs": [], "tokens": estimated, "sent": 0, "sent_tokens": before, "counted": usage,
                "resets": 0, "flush": "not"
            }))?;
            errors.push(off_by(transcript.request_tokens((hash, &settings), 0, None), counted));
        }
        Ok(errors.split_off(KINDS.len()))
    }
}

fn off_by(estimated: u64, counted: u64) -> f64 {
    estimated.abs_diff(counted) as f64 * 100.0 / counted.max(1) as f64
}

/// The beginning of a text, in pieces.
fn pieces(text: &str) -> Vec<String> {
    let mut pieces = vec![];
    let mut rest = text;
    while pieces.len() < PIECES && !rest.is_empty() {
        let end = rest.floor_char_boundary(PIECE_BYTES);
        pieces.push(rest[..end].to_owned());
        rest = &rest[end..];
    }
    pieces
}

/// Lines of a table of figures, as a query of a database prints it.
fn numbers() -> String {
    let mut state = 1u64;
    let mut next = move |below: u64| {
        state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        (state >> 33) % below
    };
    let mut lines = String::new();
    while lines.len() < PIECES * PIECE_BYTES {
        let (day, price, count, id) = (next(28) + 1, next(1_000_000), next(10_000), next(1 << 30));
        lines.extend(["2026-03-", &format!("{day:02},{}.{:02},{count},{id:08x}\n", price / 100, price % 100)]);
    }
    lines
}

fn settings(model: &str) -> Settings {
    let candidate = Candidate {
        provider: "scripted".into(),
        model: model.into(),
        profile: None,
        context_window: 1_000_000,
        max_output: 8_192,
        thinking: None,
        images: false,
        structured_output: false,
        sampling: engine::Sampling::default(),
        token_rate: models::token_rate(model),
        can_refresh: false,
        levels: vec![],
        price: None,
    };
    Settings {
        policy: [].into(),
        agent: "main".into(),
        workspace: "/bench".into(),
        date: "2026-01-01".into(),
        facts: String::new(),
        prompt: engine::PromptSettings::default(),
        candidates: vec![candidate],
        limits: Limits::default(),
        resume: ResumeMode::Restart,
        approvals: engine::Approvals::default(),
        sandbox: engine::Sandbox::default(),
        exec: Policy::Deny,
        outside: Policy::Deny,
        history_turns: None,
        instructions: false,
        addresses: vec![],
        recover: engine::Recover::Ask,
        executed_files: Policy::Allow,
        web_fetch: Policy::Deny,
        web_search: None,
        compaction: Compaction::default(),
        titles: None,
        reply: engine::ReplySettings::default(),
        tools: [].into(),
        stop_before: vec![],
        plan: false,
        output_schema: None,
        derived: engine::Derived::default(),
        budget: Budget::default(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn r41_the_tokenizer_counts_what_the_estimate_was_fitted_to() {
        let tokenizer = FAMILIES[0].tokenizer().unwrap();
        let prose = "The horseshoe crab has outlived five mass extinctions, and it still comes ashore with the tide.";
        for (text, counted) in [(prose, 24), ("鲎已经活过了五次大灭绝，至今仍随着潮水上岸。", 21)]
        {
            assert_eq!(tokenizer.count(text), counted, "{text}");
        }
    }

    #[test]
    fn r41_what_a_provider_has_counted_makes_the_next_estimate_a_close_one() {
        let texts: Vec<String> = KINDS.iter().flat_map(|(_, text)| pieces(&text()).into_iter().take(4)).collect();
        let texts: Vec<&String> = texts.iter().collect();
        // The rate of this family does not fit its tokenizer: only its own counts bring the estimate close.
        let family = Family { what: "", model: "claude-sonnet-4-5", encoding: "o200k_base" };
        let tokenizer = family.tokenizer().unwrap();
        let whole = texts.iter().map(|text| text.as_str()).collect::<String>();
        let counted = family.errors_when_counted(tokenizer, &texts).unwrap();
        let last = counted.last().copied().unwrap();
        assert!(last < 5.0 && last < family.error(tokenizer, &whole) / 2.0, "{last} of {counted:?}");
    }

    #[test]
    fn each_kind_of_text_has_enough_pieces() {
        for (what, text) in KINDS {
            let pieces = pieces(&text());
            assert!(pieces.len() >= 8 && pieces.iter().all(|piece| piece.len() <= PIECE_BYTES), "{what}");
        }
    }
}
