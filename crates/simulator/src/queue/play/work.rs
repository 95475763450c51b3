//! Progress of work: a lane is free, a model responds, a call ends.

use std::sync::Arc;

use engine::{
    BodyKind, CallOutcome, Content, Effect, EffectId, Erased, Failure, FailureClass, Found, Hash, Part, Phase, Policy,
    Report, StopReason, ToolResult, Usage,
};

use super::World;
use crate::queue::oracle::Asked;

impl World {
    /// One of the wanted effects makes progress.
    pub(super) fn progress(&mut self) -> Result<(), String> {
        if self.effects.is_empty() {
            return Ok(());
        }
        let at = self.rng.pick(self.effects.len());
        let effect = &self.effects[at];
        let id = effect.id();
        let given = |text: &str| ToolResult::new(CallOutcome::Done, Content::text(BodyKind::Output, text));
        let report = match effect {
            Effect::Lane { .. } => {
                Report::LaneEntered { effect: id, settings: Arc::clone(&self.settings), cooling: vec![] }
            }
            Effect::Prepare { .. } => {
                Report::Prepared { effect: id, prompt: Content::text(BodyKind::Prompt, "You are simulated.") }
            }
            Effect::Reserve { .. } => Report::Reserved { effect: id, near: None },
            Effect::Request { .. } => self.answered(id),
            Effect::CheckCall { .. } => Report::CallChecked {
                effect: id,
                decision: self.rng.of(&[Policy::Allow, Policy::Allow, Policy::Ask, Policy::Deny]),
                fingerprint: Hash::of(id.to_string().as_bytes()),
                evidence: None,
                reason: None,
                timeout_ms: None,
                grant: None,
                question: None,
            },
            Effect::RunCall { .. } | Effect::EndCall { .. } => Report::CallEnded { effect: id, given: given("it ran") },
            Effect::FindCall { .. } => {
                let found = self.rng.of(&[Found::NeverStarted, Found::Running, Found::Ended, Found::Unknown]);
                let ended = (found == Found::Ended).then(|| given("it had run"));
                Report::CallFound { effect: id, found, ended }
            }
            // The other worlds of the simulator test what a summary does to a conversation.
            Effect::Compact { .. } => {
                Report::RequestFailed { effect: id, failure: Failure::new(FailureClass::InvalidRequest, "no summary") }
            }
            Effect::Title { .. } => Report::Titled {
                effect: id,
                title: Err(Failure::new(FailureClass::InvalidRequest, "no title")),
                by: "scripted/script".into(),
                usage: Usage::default(),
            },
            Effect::Report { .. } => Report::Reported { effect: id },
            Effect::Deliver { .. } => Report::Delivered { effect: id },
            Effect::Erase { .. } => Report::Erased { effect: id, result: Ok(Erased::default()) },
            Effect::Undo { .. } => Report::Undone { effect: id, left: vec![] },
            Effect::FreezeCall { .. } | Effect::HoldProcess { .. } | Effect::EndProcess { .. } => return Ok(()),
        };
        let is_mismatch = matches!(report, Report::RequestEnded { schema_mismatch: Some(_), .. });
        self.input(report, if is_mismatch { &Asked::Mismatch } else { &Asked::Other })
    }

    /// The next response of a model.
    fn answered(&mut self, effect: EffectId) -> Report {
        let streams = self
            .machine
            .session()
            .and_then(|session| session.run())
            .is_some_and(|run| matches!(&run.phase, Phase::Streaming(stream) if stream.bytes > 0));
        let call = |index: u32| Part::Call {
            index,
            provider_id: Some(format!("p{index}")),
            name: Some(if index == 0 { "exec" } else { "read" }.into()),
            arguments: "{}".into(),
        };
        match self.rng.pick(12) {
            0 | 1 => Report::RequestOpened { effect },
            2 | 3 => Report::Streamed { effect, part: Part::Text("said ".into()) },
            4..=6 if self.is_calm || self.rng.one_in(2) => {
                let index = self.rng.pick(3) as u32;
                Report::Streamed { effect, part: call(index) }
            }
            7 if self.rng.one_in(3) => {
                let class = if self.rng.one_in(5) { FailureClass::ContextOverflow } else { FailureClass::Network };
                Report::RequestFailed { effect, failure: Failure::new(class, "reset") }
            }
            _ if streams => {
                let stop_reason = self.rng.of(&[None, None, Some(StopReason::Length), Some(StopReason::ContentFilter)]);
                let schema_mismatch = self.rng.one_in(4).then(|| "it is no JSON".to_owned());
                Report::RequestEnded { effect, usage: Usage::default(), stop_reason, schema_mismatch }
            }
            _ => Report::Streamed { effect, part: Part::Text("said ".into()) },
        }
    }
}
