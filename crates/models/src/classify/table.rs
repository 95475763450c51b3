//! The table of rules that assign a class to words and a status. The first rule that matches decides.
//!
//! Judge a rule by the effect of its class: `billing` and `auth_permanent` disable a key for hours, `invalid_request`
//! ends the run, `context_overflow` compacts the conversation, `rate_limit` waits. So unambiguous codes come before
//! words that a sentence may contain incidentally, such as the address of a billing page. The words are taken from the
//! bodies in `tests/it/failures`.

use engine::FailureClass::{
    self, Auth, AuthPermanent, Billing, ContextOverflow, InvalidRequest, Malformed, ModelNotFound, Overloaded,
    RateLimit, Server, ThinkingUnsupported, Timeout,
};

/// The statuses to which a rule applies. An error inside a stream has no status, unless a relay reports one.
pub(super) enum Statuses {
    Any,
    /// Any status below 500, or no status.
    Refused,
    /// One of these statuses, or no status.
    Only(&'static [u16]),
    /// No status: the error is inside a stream.
    InStream,
}

pub(super) struct Rule {
    pub(super) class: FailureClass,
    pub(super) statuses: Statuses,
    /// The body must contain one word of each list.
    pub(super) all: &'static [&'static [&'static str]],
}

const fn rule(class: FailureClass, statuses: Statuses, all: &'static [&'static [&'static str]]) -> Rule {
    Rule { class, statuses, all }
}

pub(super) const RULES: &[Rule] = &[
    // A content filter of the provider: OpenRouter reports it as 403, which does not mean the key, and relays as 500,
    // although the same content is filtered again.
    rule(InvalidRequest, Statuses::Only(&[400, 403, 422, 451, 500]), &[FILTER]),
    rule(InvalidRequest, Statuses::Only(&[400, 403]), &[&["flagged"]]),
    rule(Billing, Statuses::Refused, &[DEPLETED]),
    // Gemini writes "check your plan and billing details" also for limits per minute.
    rule(RateLimit, Statuses::Only(&[429]), &[&["resource_exhausted"]]),
    rule(ContextOverflow, Statuses::Only(&[400, 429]), &[LONG_CONTEXT]),
    // Ollama offers "extra usage" in the same sentence.
    rule(RateLimit, Statuses::Refused, &[USED_UP]),
    rule(Billing, Statuses::Refused, &[EMPTY]),
    // MiniMax reports an empty account as 500, and some relays do so. 502 to 504 concern the account of a relay.
    rule(Billing, Statuses::Only(&[500]), &[EMPTY]),
    rule(Billing, Statuses::Refused, &[CREDIT]),
    rule(RateLimit, Statuses::Refused, &[RATE]),
    rule(Billing, Statuses::Refused, &[&["billing"]]),
    rule(ContextOverflow, Statuses::Any, &[OVERFLOW]),
    // OpenAI has the model, but not for this account; it names the parameter with which it noticed.
    rule(ModelNotFound, Statuses::Only(&[400, 403, 404]), &[&["organization must be verified"]]),
    rule(ThinkingUnsupported, Statuses::Only(&[400, 422]), &[THINKING_FORM]),
    rule(ThinkingUnsupported, Statuses::Only(&[400, 422]), &[THINKING, REFUSED]),
    rule(ModelNotFound, Statuses::Only(&[400, 403, 404]), &[MODEL_CODES]),
    rule(ModelNotFound, Statuses::Only(&[400, 403, 404, 422]), &[&["model"], MISSING]),
    rule(AuthPermanent, Statuses::Only(&[400, 401, 403]), &[REVOKED]),
    // Some servers report a wrong or expired key as 400 or 403.
    rule(Auth, Statuses::Only(&[400, 401, 403]), &[KEY]),
    rule(Auth, Statuses::Only(&[401, 403]), &[&["expired", "invalid token"]]),
    rule(Overloaded, Statuses::Any, &[CAPACITY]),
    // The server found that the model broke the format of its calls. A retry mostly succeeds.
    rule(Malformed, Statuses::Only(&[400]), &[&["tool_use_failed"]]),
    // A relay tells what failed behind it: it will fail again.
    rule(InvalidRequest, Statuses::Any, &[&["[invalid_request_error]", "[invalid_prompt]"]]),
    // A relay did not know what failed behind it and sent its default error.
    rule(Server, Statuses::Only(&[400]), &[&["upstream request failed"]]),
    rule(Timeout, Statuses::InStream, &[&["timeout", "timed out"]]),
    rule(AuthPermanent, Statuses::InStream, &[&["permission"]]),
    rule(InvalidRequest, Statuses::InStream, &[INVALID]),
];

const FILTER: &[&str] = &[
    "content_filter",
    "content management policy",
    "content_policy",
    "contentpolicy",
    "content filter",
    "responsibleaipolicy",
    "data_inspection_failed",
    "datainspectionfailed",
    "inappropriate content",
    "content exists risk",
    "requires moderation",
    "sensitive_words",
    "sensitive words",
    "new_sensitive",
    "敏感内容",
    "敏感词",
];

/// The account has no credit left, whatever else the body says.
const DEPLETED: &[&str] = &["credits are depleted", "insufficient_quota", "insufficient_g1_credits"];

/// The plan has no long contexts; shorter requests succeed.
const LONG_CONTEXT: &[&str] = &["required for long context"];

/// The quota of some hours or days is used up and comes back by itself.
const USED_UP: &[&str] = &[
    "usage_limit_reached",
    "usage limit reached",
    "usage limit exceeded",
    "usage limit has been reached",
    "hourly usage limit",
    "session usage limit",
    "daily usage limit",
    "weekly usage limit",
    "monthly usage limit",
    "使用上限",
    "次数限额",
];

/// The account has no credit left, or its plan has ended: a sentence that says nothing else.
const EMPTY: &[&str] = &[
    "insufficient quota",
    "insufficient credit",
    "insufficient balance",
    "insufficient_balance",
    "insufficient account balance",
    "insufficient funds",
    "insufficient_user_quota",
    "quota is not enough",
    "account is in good standing",
    "free tier of the model has been exhausted",
    "余额不足",
    "额度不足",
    "预扣费额度失败",
    "欠费",
    "套餐已到期",
];

const CREDIT: &[&str] = &[
    "exceeded your current quota",
    "exceeded current quota",
    "exceeded_current_quota",
    "credit balance",
    "more credits",
    "out of credits",
    "any credits",
    "available credits",
    "spending limit",
    "key limit exceeded",
    "usage limits",
    "extra usage",
    "hard limit",
    "payment required",
    "arrear",
];

const RATE: &[&str] = &[
    "rate_limit",
    "rate limit",
    "ratelimit",
    "rate-limit",
    "too many requests",
    "tokens per min",
    "requests per min",
    "throttl",
    "wait before trying again",
    "速率限制",
    "频率过高",
    "并发数过高",
    "流量限制",
];

const OVERFLOW: &[&str] = &[
    "context_length_exceeded",
    "context length",
    "context window",
    "maximum context",
    "context size",
    "exceed_context",
    "exceed context",
    "prompt is too long",
    "prompt too long",
    "input is too long",
    "too many tokens",
    "input token count",
    "prompt token count",
    "token limit exceeded",
    "model token limit",
    "reduce the length of the messages",
    "range of input length",
    "request_too_large",
    "request too large",
    "maximum prompt length",
    "maximum model length",
    "maximum allowed length",
    "maximum supported sequence length",
    "too long to fit",
    "max_model_len",
    "max_seq_len",
    "n_ctx",
    "`inputs` tokens",
    "`inputs` must have less than",
    "prompt tokens limit exceeded",
    "tokens too long",
    "tokens_too_long",
    "characters_too_long",
    "上下文长度",
    "超出最大长度",
    "输入长度超",
    "prompt 超长",
];

/// The form in which the level is sent is refused. The words name the parameter: a tag or a field of a message may be
/// refused with the same words.
const THINKING_FORM: &[&str] = &[
    "thinking: input tag",
    "thinking.type: input tag",
    "budget_tokens: input should",
    "unknown field \"thinking\"",
    "unknown field \"reasoning",
];

const THINKING: &[&str] = &[
    "reasoning_effort",
    "reasoning effort",
    "reasoning.effort",
    "reasoningeffort",
    "effort parameter",
    "thinking",
    "think value",
];

const REFUSED: &[&str] = &[
    "not support",
    "unsupported",
    "unrecognized",
    "invalid value",
    "is invalid",
    "can't be disabled",
    "cannot be set",
    "must be greater than",
    "must be a positive",
    "is out of range",
];

const MODEL_CODES: &[&str] = &[
    "model_not_found",
    "model_not_exist",
    "unknown_model",
    "invalid_model",
    "deploymentnotfound",
    "模型不存在",
    // The provider has the model, but not for requests with tools, or not for this account.
    "no endpoints found",
    "no endpoints available",
    "no allowed providers",
    "not support tool",
    "tool-call-parser",
];

const MISSING: &[&str] = &[
    "not found",
    "not_found_error",
    "not exist",
    "not a valid",
    "unknown",
    "no such",
    "have access",
    "decommissioned",
    "has been deprecated",
];

const REVOKED: &[&str] = &[
    "deactivated",
    "revoked",
    "suspended",
    "has been disabled",
    "been restricted",
    "banned",
    "leaked",
    "permission_error",
    "key has been deleted",
    "已被锁定",
    "location is not supported",
    "unsupported_country",
];

const KEY: &[&str] =
    &["api key", "api_key", "apikey", "authentication", "unauthorized", "authorized_error", "身份验证"];

const CAPACITY: &[&str] = &[
    "overloaded",
    "no capacity",
    "at capacity",
    "capacity exceeded",
    "high demand",
    "server busy",
    "server is busy",
    "more system memory",
    "访问量过大",
    "负载已饱和",
];

/// The request is wrong. Outside a stream, the status says so.
const INVALID: &[&str] = &[
    "invalid_request",
    "bad request",
    "bad_request",
    "badrequest",
    "invalid_prompt",
    "invalid_image",
    "invalid argument",
    "invalid_argument",
    "invalid-argument",
    "参数有误",
    "参数非法",
];
