//! Approvals: how a call that needs one is answered, and what becomes of a question that nobody answers.

use serde::{Deserialize, Serialize};

use crate::body::Content;
use crate::ids::{CallId, SessionId, Timestamp};
use crate::policy::PolicyRule;

/// What a run does with the questions of its calls. It never depends on who is connected at that moment.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct Approvals {
    /// Whether a question waits for an answer.
    #[serde(skip_serializing_if = "Unattended::waits")]
    pub unattended: Unattended,
    /// How long a question waits, milliseconds; none = for ever.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub expires_ms: Option<u64>,
    /// What happens to a question after that time.
    #[serde(skip_serializing_if = "OnExpiry::denies")]
    pub on_expiry: OnExpiry,
}

impl Approvals {
    /// Whether they are as if nobody had set anything.
    pub(crate) fn are_default(&self) -> bool {
        *self == Self::default()
    }
}

/// How the answer begins to an approval request of a run that nobody attends.
pub const NOBODY_TO_ASK: &str = "it needs approval and there is no terminal to ask on";

/// What happens to a call that needs approval.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Unattended {
    /// It waits for an answer.
    #[default]
    Wait,
    /// It is denied.
    Deny,
}

impl Unattended {
    #[expect(clippy::trivially_copy_pass_by_ref, reason = "serde's signature")]
    fn waits(&self) -> bool {
        *self == Self::Wait
    }
}

/// What happens to a question that has waited for too long.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum OnExpiry {
    /// Its call is denied.
    #[default]
    Deny,
    /// It stays open, and is shown as overdue.
    Keep,
}

impl OnExpiry {
    #[expect(clippy::trivially_copy_pass_by_ref, reason = "serde's signature")]
    fn denies(&self) -> bool {
        *self == Self::Deny
    }
}

/// What the model takes as the answer to a question of its own.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum AnswerForm {
    /// Any text.
    Text,
    /// One of its choices, or several.
    Choice,
    /// A JSON value that fits a schema.
    Json,
}

/// A question of the model to the user, which is a call of a tool.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct UserQuestion {
    /// The question.
    pub text: String,
    /// What it takes as the answer.
    pub takes: AnswerForm,
}

/// The answer to an approval request or to a question.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Decision {
    /// The call may run.
    Once {
        /// What to run it with instead of its own arguments.
        edited: Option<EditedCall>,
    },
    /// The call may run, and so may those that a grant allows.
    Always {
        /// The id of that grant, which is recorded already.
        grant: CallId,
    },
    /// The call may not run, or the question is skipped.
    Deny {
        /// Why, for the model.
        reason: Option<String>,
    },
    /// The question of the model is answered with this.
    Answered {
        /// A text that the model receives as the result of its call.
        text: Content,
    },
}

/// Arguments that somebody gives a call instead of its own.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct EditedCall {
    /// They, JSON.
    pub arguments: Content,
    /// The same for the model, without secrets.
    pub shown: String,
}

impl Decision {
    /// The call may run, this once.
    pub const ONCE: Self = Self::Once { edited: None };
    /// The call may not run.
    pub const DENY: Self = Self::Deny { reason: None };
}

/// What a user has allowed once and for all, in answer to a question: for the calls of a session, of an agent, or of all.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct ApprovalGrant {
    /// Its id: the call whose question it answers.
    pub id: CallId,
    /// The session for whose calls it is; none = not for those of one session.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub session: Option<SessionId>,
    /// The key of that session.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub key: Option<String>,
    /// The agent for whose calls it is; none = not for those of one agent.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub agent: Option<String>,
    /// What it allows.
    pub rule: PolicyRule,
    /// Who gave it.
    pub by: String,
    /// When it was given.
    pub at: Timestamp,
}

impl ApprovalGrant {
    /// Whether it is for the calls of this session of this agent.
    pub fn holds(&self, session: SessionId, agent: &str) -> bool {
        self.session.is_none_or(|of| of == session) && self.agent.as_ref().is_none_or(|of| of == agent)
    }
}
