//! Approval requests and questions of models, as its clients know them.

use engine::CallId;
use protocol::method::{
    AlwaysParams, AlwaysScope, AnswerParams, ApprovalParams, ApprovalShown, ApprovalsList, ApprovalsListParams,
    ApprovalsResolve, ApprovalsShow, QuestionAnswerParams, QuestionParams, QuestionShown, QuestionsAnswer,
    QuestionsList, QuestionsListParams, QuestionsShow,
};
use protocol::notice::{Answered, Asked};
use serde_json::{Value, json};

use super::trouble::Trouble;
use super::{Operator, sessions};

/// How long a client shows a request that waits for ever, milliseconds: a longer time than a browser's timers know is none.
const FOR_EVER_MS: i64 = 20 * 24 * 3_600_000;
/// Choices that a question may have there, and the name of its answer.
const CHOICES: usize = 4;
const ANSWER: &str = "answer";

/// How a client sees approval requests.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Kind {
    Command,
    Plugin,
}

impl Kind {
    pub(super) fn of(operator: &Operator) -> Self {
        if operator.of.takes_plugin_approvals { Self::Plugin } else { Self::Command }
    }

    fn event(self, what: &str) -> String {
        match self {
            Self::Command => format!("exec.approval.{what}"),
            Self::Plugin => format!("plugin.approval.{what}"),
        }
    }

    fn record(self, shown: &ApprovalShown) -> Value {
        let agent = sessions::agent_of(&shown.session);
        let request = match self {
            Self::Command => {
                let command = shown.arguments["command"].as_str().unwrap_or(&shown.what);
                json!({
                    "command": command, "cwd": null, "host": "gateway", "security": "allowlist", "ask": "on-miss",
                    "agentId": agent, "sessionKey": shown.session, "toolName": shown.tool,
                })
            }
            Self::Plugin => {
                let decisions: &[&str] = if shown.always.is_some() {
                    &["allow-once", "allow-always", "deny"]
                } else {
                    &["allow-once", "deny"]
                };
                json!({
                    "title": format!("{} needs approval", shown.tool), "description": shown.what,
                    "pluginId": "limulus", "severity": "warning", "toolName": shown.tool,
                    "allowedDecisions": decisions, "agentId": agent, "sessionKey": shown.session,
                })
            }
        };
        let (from, until) = times(shown.asked_at.0, shown.expires_at.map(|at| at.0));
        json!({ "id": shown.id, "request": request, "createdAtMs": from, "expiresAtMs": until })
    }
}

fn times(asked_at: i64, expires_at: Option<i64>) -> (i64, i64) {
    (asked_at, expires_at.unwrap_or_else(|| asked_at.saturating_add(FOR_EVER_MS)))
}

/// Shows the client a request that is open.
pub(super) async fn asked(operator: &Operator, asked: &Asked) {
    let id = asked.call.to_string();
    if asked.takes.is_some() {
        if let Ok(question) = operator.client.call::<QuestionsShow>(QuestionParams { id }).await {
            operator.event("question.requested", question_record(&question)).await;
        }
    } else if let Ok(shown) = operator.client.call::<ApprovalsShow>(ApprovalParams { id }).await {
        let kind = Kind::of(operator);
        operator.event(&kind.event("requested"), kind.record(&shown)).await;
    }
}

/// Shows the client that a request is closed.
pub(super) async fn answered(operator: &Operator, call: CallId, answered: &Answered) {
    let id = call.to_string();
    if let Ok(shown) = operator.client.call::<ApprovalsShow>(ApprovalParams { id: id.clone() }).await {
        let decision = if answered.allow == Some(true) { "allow-once" } else { "deny" };
        let payload = json!({ "id": shown.id, "decision": decision, "resolvedBy": answered.by, "ts": operator.now() });
        operator.event(&Kind::of(operator).event("resolved"), payload).await;
    } else if let Ok(question) = operator.client.call::<QuestionsShow>(QuestionParams { id }).await {
        let payload = match answered.allow {
            Some(true) => json!({ "id": question.id, "status": "answered", "answers": { "answers": {} } }),
            _ => json!({ "id": question.id, "status": "cancelled" }),
        };
        operator.event("question.resolved", payload).await;
    }
}

pub(super) async fn list(operator: &Operator, kind: Kind) -> Result<Value, Trouble> {
    let listed = operator.client.call::<ApprovalsList>(ApprovalsListParams::default()).await?;
    let mut records = vec![];
    for row in listed.approvals {
        // A list has not the patterns that decide whether it can be approved for good.
        let whole = operator.client.call::<ApprovalsShow>(ApprovalParams { id: row.id.clone() }).await.unwrap_or(row);
        records.push(kind.record(&whole));
    }
    Ok(records.into())
}

pub(super) async fn get(operator: &Operator, kind: Kind, params: &Value) -> Result<Value, Trouble> {
    Ok(kind.record(&shown(operator, params).await?))
}

async fn shown(operator: &Operator, params: &Value) -> Result<ApprovalShown, Trouble> {
    let id = params["id"].as_str().ok_or_else(|| Trouble::invalid("`id` is missing: that of the approval request"))?;
    Ok(operator.client.call::<ApprovalsShow>(ApprovalParams { id: id.to_owned() }).await?)
}

pub(super) async fn resolve(operator: &Operator, params: &Value) -> Result<Value, Trouble> {
    let shown = shown(operator, params).await?;
    let always = || AlwaysParams { scope: AlwaysScope::Session, patterns: vec![] };
    let (allow, always) = match params["decision"].as_str() {
        Some("allow-once") => (true, None),
        Some("allow-always") => (true, Some(always())),
        Some("deny") => (false, None),
        _ => return Err(Trouble::invalid("`decision` is allow-once, allow-always or deny")),
    };
    let closed = || Trouble::invalid("approval is no longer pending");
    let fingerprint = shown.fingerprint.filter(|_| shown.allowed.is_none()).ok_or_else(closed)?;
    let answer = AnswerParams { call: shown.call, fingerprint, allow, reason: None, always, arguments: None };
    operator.client.call::<ApprovalsResolve>(answer).await?;
    Ok(json!({ "ok": true }))
}

fn question_record(question: &QuestionShown) -> Value {
    let fits = question.choices.len() <= CHOICES;
    let options: Vec<_> = question.choices.iter().filter(|_| fits).map(|choice| json!({ "label": choice })).collect();
    let text = if fits {
        question.question.clone()
    } else {
        format!("{}\n- {}", question.question, question.choices.join("\n- "))
    };
    let (from, until) = times(question.asked_at.0, question.expires_at.map(|at| at.0));
    let status = match question.answered {
        None if question.closed_at.is_some() => "expired",
        None => "pending",
        Some(true) => "answered",
        Some(false) => "cancelled",
    };
    json!({
        "id": question.id,
        "questions": [{
            "questionId": ANSWER, "header": "Question", "question": text, "options": options,
            "multiSelect": question.several, "isOther": options.is_empty() || question.schema.is_some(),
        }],
        "agentId": sessions::agent_of(&question.session), "sessionKey": question.session,
        "createdAtMs": from, "expiresAtMs": until, "status": status,
    })
}

pub(super) async fn questions(operator: &Operator) -> Result<Value, Trouble> {
    let listed = operator.client.call::<QuestionsList>(QuestionsListParams::default()).await?;
    Ok(json!({ "questions": listed.questions.iter().map(question_record).collect::<Vec<_>>() }))
}

pub(super) async fn question(operator: &Operator, params: &Value) -> Result<Value, Trouble> {
    Ok(json!({ "question": question_record(&question_shown(operator, params).await?) }))
}

async fn question_shown(operator: &Operator, params: &Value) -> Result<QuestionShown, Trouble> {
    let id = params["id"].as_str().ok_or_else(|| Trouble::invalid("`id` is missing: that of the question"))?;
    Ok(operator.client.call::<QuestionsShow>(QuestionParams { id: id.to_owned() }).await?)
}

/// Answers a question: with its choices if all of them are such, with JSON if it takes that, else with the text.
pub(super) async fn answer_question(operator: &Operator, params: &Value) -> Result<Value, Trouble> {
    let shown = question_shown(operator, params).await?;
    let fingerprint = shown.fingerprint.ok_or_else(|| Trouble::invalid("question is no longer pending"))?;
    let mut answer = QuestionAnswerParams::of(shown.call, fingerprint);
    if params["cancel"] == true {
        operator.client.call::<QuestionsAnswer>(QuestionAnswerParams { skip: true, ..answer }).await?;
        return Ok(json!({ "status": "cancelled" }));
    }
    let given = params["answers"]["answers"][ANSWER].as_array();
    let given: Vec<String> = given.into_iter().flatten().filter_map(Value::as_str).map(str::to_owned).collect();
    if given.is_empty() {
        return Err(Trouble::invalid(format!("`answers.answers.{ANSWER}` is missing: a list of texts")));
    }
    let text = given.join("\n");
    if given.iter().all(|text| shown.choices.contains(text)) {
        answer.choices = given;
    } else if shown.schema.is_some() {
        let value = serde_json::from_str(&text);
        answer.value = Some(value.map_err(|error| Trouble::invalid(format!("the answer is no JSON: {error}")))?);
    } else {
        answer.text = Some(text);
    }
    operator.client.call::<QuestionsAnswer>(answer).await?;
    Ok(json!({ "status": "answered", "answers": params["answers"] }))
}
