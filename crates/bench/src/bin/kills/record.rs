//! What a client received, read from its record.

use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;

use serde_json::Value;

/// How a recorded process ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Exit {
    /// It exited with this code.
    Code(i64),
    /// This signal ended it.
    Signal(i64),
    /// The client's deadline passed.
    Late,
}

/// The end of a run as it was published.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct End {
    pub(super) run: String,
    pub(super) outcome: String,
    pub(super) text: String,
}

/// Everything that one client received.
#[derive(Debug, Clone)]
pub(super) struct Record {
    /// Pieces of text by request, in the order in which they came.
    pub(super) texts: BTreeMap<String, Vec<(u64, String)>>,
    /// Requests whose text was retracted.
    pub(super) retracted: BTreeSet<String>,
    /// Runs of acknowledged messages.
    pub(super) accepted: Vec<String>,
    pub(super) ends: Vec<End>,
    pub(super) exit: Exit,
}

impl Record {
    /// Reads a record. An unexpected line is an error.
    pub(super) fn read(path: &Path) -> Result<Self, String> {
        let text = std::fs::read_to_string(path).map_err(|e| format!("no record at {}: {e}", path.display()))?;
        Self::parse(&text)
    }

    fn parse(text: &str) -> Result<Self, String> {
        let mut record = Self {
            texts: BTreeMap::new(),
            retracted: BTreeSet::new(),
            accepted: vec![],
            ends: vec![],
            exit: Exit::Late,
        };
        for line in text.lines() {
            let value: Value = serde_json::from_str(line).map_err(|e| format!("not a JSON line ({e}): {line}"))?;
            record.take(&value);
        }
        Ok(record)
    }

    fn take(&mut self, line: &Value) {
        let text = |field: &str| line[field].as_str().unwrap_or_default().to_owned();
        match (line["stream"].as_str(), line["type"].as_str()) {
            (Some("assistant"), Some("delta")) => {
                let offset = line["offset"].as_u64().unwrap_or(u64::MAX);
                self.texts.entry(text("effect")).or_default().push((offset, text("text")));
            }
            (Some("assistant"), Some("struck")) => {
                self.retracted.insert(text("effect"));
            }
            (_, Some("accepted")) => self.accepted.push(text("run")),
            (Some("lifecycle"), Some("end" | "error")) => {
                self.ends.push(End { run: text("run"), outcome: text("outcome"), text: text("text") });
            }
            _ if line["client"] == "exited" => {
                self.exit = match (line["code"].as_i64(), line["signal"].as_i64()) {
                    (Some(code), _) => Exit::Code(code),
                    (None, signal) => Exit::Signal(signal.unwrap_or(0)),
                };
            }
            _ => {}
        }
    }

    /// The text that was received for each request; an error if a byte came twice, out of order, or not at all.
    pub(super) fn received(&self) -> Result<BTreeMap<&str, String>, String> {
        let whole = |(effect, pieces): (&'_ String, &Vec<(u64, String)>)| {
            let mut received = String::new();
            for (offset, text) in pieces {
                if *offset != received.len() as u64 {
                    return Err(format!("{effect}: {} bytes were received, then came offset {offset}", received.len()));
                }
                received.push_str(text);
            }
            Ok(received)
        };
        self.texts.iter().map(|(effect, pieces)| Ok((effect.as_str(), whole((effect, pieces))?))).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_record_is_read_back() {
        let lines = [
            r#"{"client":"started","pid":7}"#,
            r#"{"stream":"queue","type":"accepted","run":"r","message":"r"}"#,
            r#"{"stream":"assistant","type":"delta","effect":"e","offset":0,"text":"ab"}"#,
            r#"{"stream":"assistant","type":"delta","effect":"e","offset":2,"text":"c"}"#,
            r#"{"stream":"assistant","type":"struck","effect":"e"}"#,
            r#"{"stream":"lifecycle","type":"end","run":"r","outcome":"completed","text":"x"}"#,
            r#"{"client":"exited","code":null,"signal":9}"#,
        ];
        let record = Record::parse(&lines.join("\n")).unwrap();
        assert_eq!(record.received().unwrap()["e"], "abc");
        assert!(record.retracted.contains("e") && record.accepted == ["r"]);
        assert_eq!(record.ends, [End { run: "r".into(), outcome: "completed".into(), text: "x".into() }]);
        assert_eq!(record.exit, Exit::Signal(9));
    }

    #[test]
    fn r12_repeated_text_and_gaps_are_found() {
        for second in [0, 1, 3] {
            let line = |offset, text| {
                format!(r#"{{"stream":"assistant","type":"delta","effect":"e","offset":{offset},"text":"{text}"}}"#)
            };
            let record = Record::parse(&[line(0, "ab"), line(second, "c")].join("\n")).unwrap();
            assert!(record.received().is_err(), "offset {second} after two bytes");
        }
    }

    #[test]
    fn a_line_that_is_not_json_is_an_error() {
        assert!(Record::parse("thread 'main' panicked").is_err());
    }
}
