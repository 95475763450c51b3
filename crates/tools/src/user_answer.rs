//! Answers of a user to a question of the model: read from a line, and checked against what the question takes.

use engine::AnswerForm;
use serde_json::Value;

use crate::ask_user::AskedQuestion;
use crate::structured::{SchemaChecker, StructuredError};

/// What a user answers.
#[derive(Debug, Clone, PartialEq)]
pub enum UserAnswer {
    /// Some of the choices, by their text.
    Choices(Vec<String>),
    /// Other words.
    Text(String),
    /// A JSON value.
    Json(Value),
}

impl AskedQuestion {
    /// The answer that a line gives: the numbers of choices, from 1, separated by commas or blanks; the text of a choice; a JSON
    /// value; or other words.
    ///
    /// # Errors
    /// Returns what the line should be instead.
    pub fn read(&self, line: &str) -> Result<UserAnswer, String> {
        let line = line.trim();
        if self.schema.is_some() {
            return serde_json::from_str(line).map(UserAnswer::Json).map_err(|error| format!("no JSON value: {error}"));
        }
        if let Some(choice) = self.choices.iter().find(|choice| choice.trim().eq_ignore_ascii_case(line)) {
            return Ok(UserAnswer::Choices(vec![choice.clone()]));
        }
        let words = line.split([',', ' ', '\t']).filter(|word| !word.is_empty());
        let numbers: Option<Vec<usize>> = words.map(|word| word.parse().ok()).collect();
        let is_chosen = |numbers: &Vec<usize>| !numbers.is_empty() && !self.choices.is_empty();
        match numbers.filter(is_chosen) {
            Some(numbers) => {
                let chosen = |number: &usize| number.checked_sub(1).and_then(|at| self.choices.get(at)).cloned();
                let chosen: Option<Vec<String>> = numbers.iter().map(chosen).collect();
                chosen.map(UserAnswer::Choices).ok_or_else(|| format!("there are choices 1 to {}", self.choices.len()))
            }
            None => Ok(UserAnswer::Text(line.to_owned())),
        }
    }

    /// The text of an answer, which the model receives.
    ///
    /// # Errors
    /// Returns why it does not answer the question, in a sentence.
    pub async fn accept(&self, answer: UserAnswer, checker: &SchemaChecker) -> Result<String, String> {
        match answer {
            UserAnswer::Choices(chosen) => self.chosen(&chosen),
            UserAnswer::Text(text) if text.trim().is_empty() => Err("the answer is empty".to_owned()),
            UserAnswer::Text(text) => match self.takes() {
                AnswerForm::Text => Ok(text),
                AnswerForm::Choice => Err(format!("it takes one of its choices: {}", self.choices.join(", "))),
                AnswerForm::Json => Err("it takes a JSON value that fits its schema".to_owned()),
            },
            UserAnswer::Json(value) => match &self.schema {
                None => Err("it takes no JSON value".to_owned()),
                Some(schema) => match checker.structured(schema.clone(), value.to_string()).await {
                    Ok(text) => Ok(text),
                    Err(StructuredError::Mismatch(why)) => Err(format!("the answer does not fit its schema: {why}")),
                    Err(StructuredError::Unchecked(why)) => Err(format!("its schema is of no use: {why}; skip it")),
                },
            },
        }
    }

    fn chosen(&self, chosen: &[String]) -> Result<String, String> {
        if chosen.is_empty() {
            return Err("no choice was taken".to_owned());
        }
        if chosen.len() > 1 && !self.several {
            return Err("it takes one of its choices, not several".to_owned());
        }
        if let Some(unknown) = chosen.iter().find(|choice| !self.choices.contains(choice)) {
            return Err(format!("`{unknown}` is none of its choices: {}", self.choices.join(", ")));
        }
        // In the order of the question, each once.
        let taken: Vec<&str> =
            self.choices.iter().filter(|choice| chosen.contains(choice)).map(String::as_str).collect();
        Ok(taken.join("\n"))
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn asked(arguments: &Value) -> AskedQuestion {
        AskedQuestion::parse(arguments.to_string().as_bytes()).expect("a question")
    }

    /// R60: a line is read as what the question takes.
    #[test]
    fn r60_a_line_answers_by_number_text_or_value() {
        let colours = asked(&json!({ "question": "?", "choices": ["red", "blue", "3"], "several": true }));
        let choices = |names: &[&str]| Ok(UserAnswer::Choices(names.iter().map(|name| (*name).to_owned()).collect()));
        let text = |text: &str| Ok(UserAnswer::Text(text.to_owned()));
        for (line, answer) in [
            ("2", choices(&["blue"])),
            (" 1, 2 ", choices(&["red", "blue"])),
            ("Blue", choices(&["blue"])),
            ("3", choices(&["3"])),
            ("4", Err("there are choices 1 to 3".to_owned())),
            ("0", Err("there are choices 1 to 3".to_owned())),
            ("2 of them", text("2 of them")),
            ("green", text("green")),
        ] {
            assert_eq!(colours.read(line), answer, "{line}");
        }
        assert_eq!(asked(&json!({ "question": "how many?" })).read("2"), text("2"));
        let number = asked(&json!({ "question": "?", "schema": { "type": "integer" } }));
        assert_eq!(number.read("7"), Ok(UserAnswer::Json(json!(7))));
        assert!(number.read("seven").unwrap_err().contains("no JSON"));
    }

    /// R60: an answer is validated against what the question takes.
    #[tokio::test]
    async fn r60_an_answer_must_fit_its_question() {
        let checker = SchemaChecker::of_this_program();
        let one = asked(&json!({ "question": "?", "choices": ["red", "blue"], "free_text": false }));
        let many = asked(&json!({ "question": "?", "choices": ["red", "blue"], "several": true }));
        let choices = |names: &[&str]| UserAnswer::Choices(names.iter().map(|name| (*name).to_owned()).collect());
        let text = |text: &str| UserAnswer::Text(text.to_owned());
        for (question, answer, accepted) in [
            (&one, choices(&["blue"]), Ok("blue")),
            (&one, choices(&["red", "blue"]), Err("not several")),
            (&one, choices(&["green"]), Err("none of its choices")),
            (&one, choices(&[]), Err("no choice")),
            (&one, text("green"), Err("takes one of its choices: red, blue")),
            (&many, choices(&["blue", "red", "blue"]), Ok("red\nblue")),
            (&many, text("green"), Ok("green")),
            (&many, text(" \n"), Err("is empty")),
            (&many, UserAnswer::Json(json!(1)), Err("no JSON value")),
        ] {
            let is = question.accept(answer.clone(), &checker).await;
            match accepted {
                Ok(text) => assert_eq!(is.as_deref(), Ok(text)),
                Err(part) => assert!(is.as_ref().is_err_and(|why| why.contains(part)), "{answer:?}: {is:?}"),
            }
        }
    }
}
