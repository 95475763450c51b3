//! Parameters and results of the methods on questions of the model to the user. Names of parameters are camelCase.

use engine::{AnswerForm, CallId, Hash, RunId, Timestamp};
#[cfg(feature = "schema")]
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::Value;

/// Parameters of `questions.list`.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(JsonSchema))]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct QuestionsListParams {
    /// Only those of this session: a name, or agent:AGENT:NAME.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub session: Option<String>,
    /// The maximum number of questions; without it all.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub limit: Option<usize>,
    /// The `next` of the page before.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub after: Option<String>,
}

/// Result of `questions.list`: the open questions, oldest first.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(JsonSchema))]
pub struct QuestionsListed {
    /// The questions.
    pub questions: Vec<QuestionShown>,
    /// Where the next page begins; none after the last one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub next: Option<String>,
}

/// Parameters of `questions.show`.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(JsonSchema))]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct QuestionParams {
    /// The id of the question, a unique beginning of it, or the id of its call.
    pub id: String,
}

/// A question of the model to the user.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(JsonSchema))]
pub struct QuestionShown {
    /// Its id.
    pub id: String,
    /// The id of the call, for `questions.answer`.
    #[cfg_attr(feature = "schema", schemars(with = "String"))]
    pub call: CallId,
    /// The key of the session, agent:AGENT:NAME.
    pub session: String,
    /// The id of the run.
    #[cfg_attr(feature = "schema", schemars(with = "String"))]
    pub run: RunId,
    /// The question.
    pub question: String,
    /// What it takes as the answer: `text`, `choice` or `json`.
    #[cfg_attr(feature = "schema", schemars(with = "String"))]
    pub takes: AnswerForm,
    /// Answers to choose from; may be empty.
    pub choices: Vec<String>,
    /// Whether several of them may be taken.
    pub several: bool,
    /// The JSON schema that the answer must fit; none = it takes no JSON value.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub schema: Option<Value>,
    /// The fingerprint of the call, for `questions.answer`.
    #[cfg_attr(feature = "schema", schemars(with = "Option<String>"))]
    pub fingerprint: Option<Hash>,
    /// When it was asked, milliseconds since 1970 UTC.
    #[cfg_attr(feature = "schema", schemars(with = "i64"))]
    pub asked_at: Timestamp,
    /// Until when it waits, milliseconds since 1970 UTC; null = for ever.
    #[cfg_attr(feature = "schema", schemars(with = "Option<i64>"))]
    pub expires_at: Option<Timestamp>,
    /// Whether it was answered, if it is closed.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub answered: Option<bool>,
    /// Who answered or skipped it, if somebody did.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub by: Option<String>,
    /// When it was closed, milliseconds since 1970 UTC.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[cfg_attr(feature = "schema", schemars(with = "Option<i64>"))]
    pub closed_at: Option<Timestamp>,
}

/// Parameters of `questions.answer`: one of `choices`, `text`, `value` and `skip`. The first answer counts.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(JsonSchema))]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct QuestionAnswerParams {
    /// The id of the call that is the question.
    #[cfg_attr(feature = "schema", schemars(with = "String"))]
    pub call: CallId,
    /// The fingerprint of the call, as in the question.
    #[cfg_attr(feature = "schema", schemars(with = "String"))]
    pub fingerprint: Hash,
    /// The choices that are taken, by their text.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub choices: Vec<String>,
    /// Other words.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub text: Option<String>,
    /// A JSON value that fits the schema.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub value: Option<Value>,
    /// Whether it is skipped instead.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub skip: bool,
    /// Why it is skipped, for the model.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub reason: Option<String>,
}

impl QuestionAnswerParams {
    /// Nothing yet: fill in what the answer is.
    pub fn of(call: CallId, fingerprint: Hash) -> Self {
        Self { call, fingerprint, choices: vec![], text: None, value: None, skip: false, reason: None }
    }
}
