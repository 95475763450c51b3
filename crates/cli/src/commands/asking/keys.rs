//! What one key answers to a request or a question of a model on the terminal.

use engine::AnswerForm;
use protocol::method::{AlwaysScope, QuestionShown};

/// A key, or keys that came at once.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Pressed {
    /// This character alone, or with Enter behind it.
    Key(char),
    /// Enter alone.
    Enter,
    /// Anything else: an arrow, a word that was typed at once, a paste.
    Other,
}

/// What was answered to a request by one key. None of them is Enter.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum KeyReply {
    Once,
    Deny,
    /// It is denied once a reason is typed.
    DenyWhy,
    Always,
    Edit,
    Help,
}

/// What was answered to the patterns of an approval for good.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum ScopeReply {
    Grant(AlwaysScope),
    /// The patterns are typed anew first.
    Edit,
    Leave,
    Help,
}

/// What was answered to a question of a model.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum ChoiceReply {
    /// The number of a choice.
    Choice(char),
    Skip,
    Help,
}

/// What these bytes of a terminal are. What follows Enter was typed ahead, and is nothing.
pub(super) fn pressed(bytes: &[u8]) -> Pressed {
    let text = String::from_utf8_lossy(bytes);
    let mut chars = text.chars();
    let Some(first) = chars.next() else { return Pressed::Other };
    match (first, chars.next()) {
        ('\r' | '\n', _) => Pressed::Enter,
        (key, None | Some('\r' | '\n')) if !key.is_control() => Pressed::Key(key),
        _ => Pressed::Other,
    }
}

/// What a key answers to a request.
pub(super) fn reply(pressed: Pressed) -> KeyReply {
    let Pressed::Key(key) = pressed else { return KeyReply::Help };
    match key {
        'y' | 'Y' | '是' | '好' => KeyReply::Once,
        'n' | '否' | '不' => KeyReply::Deny,
        'N' | 'r' | 'R' => KeyReply::DenyWhy,
        'a' | 'A' => KeyReply::Always,
        'e' | 'E' => KeyReply::Edit,
        _ => KeyReply::Help,
    }
}

/// What a key answers to the patterns of an approval for good.
pub(super) fn scope(pressed: Pressed) -> ScopeReply {
    let Pressed::Key(key) = pressed else { return ScopeReply::Help };
    match key.to_ascii_lowercase() {
        's' => ScopeReply::Grant(AlwaysScope::Session),
        'a' => ScopeReply::Grant(AlwaysScope::Agent),
        'h' => ScopeReply::Grant(AlwaysScope::Home),
        'e' => ScopeReply::Edit,
        'n' => ScopeReply::Leave,
        _ => ScopeReply::Help,
    }
}

/// Whether one key can answer this question: one of a few choices, and no other words.
pub(super) fn has_keys(question: &QuestionShown) -> bool {
    question.takes == AnswerForm::Choice && !question.several && (1..=9).contains(&question.choices.len())
}

/// What a key answers to such a question.
pub(super) fn choice(pressed: Pressed, question: &QuestionShown) -> ChoiceReply {
    match pressed {
        Pressed::Key('s' | 'S') => ChoiceReply::Skip,
        Pressed::Key(key)
            if key.to_digit(10).is_some_and(|no| (1..=question.choices.len()).contains(&(no as usize))) =>
        {
            ChoiceReply::Choice(key)
        }
        Pressed::Key(_) | Pressed::Enter | Pressed::Other => ChoiceReply::Help,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn r60_one_key_answers_and_nothing_else_does() {
        for (bytes, expected) in [
            ("y", KeyReply::Once),
            ("y\r", KeyReply::Once),
            ("y\ry\r", KeyReply::Once),
            ("是", KeyReply::Once),
            ("n", KeyReply::Deny),
            ("不\r", KeyReply::Deny),
            ("r", KeyReply::DenyWhy),
            ("N", KeyReply::DenyWhy),
            ("a", KeyReply::Always),
            ("e", KeyReply::Edit),
            ("?", KeyReply::Help),
            ("x", KeyReply::Help),
            ("\r", KeyReply::Help),
            ("\n\n", KeyReply::Help),
            ("\ry", KeyReply::Help),
            ("", KeyReply::Help),
            // A word, a paste, an arrow, Escape, a control key.
            ("yes", KeyReply::Help),
            ("yy", KeyReply::Help),
            ("\u{1b}[200~y\u{1b}[201~", KeyReply::Help),
            ("\u{1b}[A", KeyReply::Help),
            ("\u{1b}", KeyReply::Help),
            ("\u{4}", KeyReply::Help),
        ] {
            assert_eq!(reply(pressed(bytes.as_bytes())), expected, "{bytes:?}");
        }
        assert_eq!(pressed(b"\xff\xfe"), Pressed::Other);
    }

    #[test]
    fn r60_a_scope_is_one_key() {
        for (bytes, expected) in [
            ("s", ScopeReply::Grant(AlwaysScope::Session)),
            ("a\r", ScopeReply::Grant(AlwaysScope::Agent)),
            ("H", ScopeReply::Grant(AlwaysScope::Home)),
            ("e", ScopeReply::Edit),
            ("n", ScopeReply::Leave),
            ("y", ScopeReply::Help),
            ("\r", ScopeReply::Help),
        ] {
            assert_eq!(scope(pressed(bytes.as_bytes())), expected, "{bytes:?}");
        }
    }
}
