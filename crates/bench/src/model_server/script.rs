//! The scripts: what a user message asks the server to answer. Data, and its parser.

use super::odd_calls::OddCalls;

/// What to answer to a message, step by step.
///
/// One directive a line; words of the form `key=value` may share one:
///
/// | directive | meaning | default |
/// |---|---|---|
/// | `call:TOOL JSON` | a step that asks for this call | |
/// | `exec:COMMAND` | the same for `exec` | |
/// | `rounds=N tool=NAME` | N steps that call NAME with empty arguments, before the others | 0, `ls` |
/// | `write=BYTES` | a step that writes a file of so many bytes | |
/// | `reads=N` | steps that read `step-1.txt` to `step-N.txt`, one after the other, also behind a summary; who asks for a summary gets one | |
/// | `tokens=N` | words of the final answer | 8 |
/// | `prose=BYTES` | the final answer is so much prose, in pieces of about 80 bytes; another message, another text | |
/// | `preamble=N` | words of text before the calls of each step | 0 |
/// | `delay_ms=N` | before each piece of an answer | 0 |
/// | `first_byte_ms=N` | before the head of an answer | 0 |
/// | `fail=STATUSxTIMES` | so many requests are refused with this status | |
/// | `retry_after=S` | the header that goes with them | |
/// | `hang=TIMES` | so many requests never get a byte | |
/// | `cut=WORDSxTIMES` | so many answers break off after this many words | |
/// | `stall=WORDSxTIMES` | so many answers say nothing more after this many words | |
/// | `odd=NAMExTIMES` | so many answers are no answers in order: one of [`Odd`] | |
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Script {
    /// The calls that are asked for, one a step.
    pub steps: Vec<Call>,
    /// Files that are read after these steps, one a step.
    pub reads: u32,
    /// Bytes of prose in place of words.
    pub prose: Option<usize>,
    /// Words of text before each call.
    pub preamble: u32,
    /// Words of the final answer.
    pub tokens: u32,
    /// Milliseconds before each piece.
    pub delay_ms: u64,
    /// Milliseconds before the head.
    pub first_byte_ms: u64,
    /// What goes wrong first.
    pub fault: Option<Fault>,
    /// Seconds in the header `retry-after` of a refusal.
    pub retry_after: Option<u32>,
}

/// A call that a script asks for.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Call {
    /// The tool's name.
    pub tool: String,
    /// The arguments, JSON.
    pub arguments: String,
}

/// What goes wrong with the first requests of a script.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Fault {
    /// They are refused.
    Status {
        /// With this status.
        status: u16,
        /// So many of them.
        times: u32,
    },
    /// They never get a byte.
    Hang {
        /// So many of them.
        times: u32,
    },
    /// Their answers break off.
    Cut {
        /// After this many words.
        words: u32,
        /// So many of them.
        times: u32,
    },
    /// Their answers never come to an end.
    Stall {
        /// After this many words.
        words: u32,
        /// So many of them.
        times: u32,
    },
    /// They are answered with status 200, and not in order.
    Odd {
        /// In this way.
        odd: Odd,
        /// So many of them.
        times: u32,
    },
}

/// What comes in place of an answer in order, or around one.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Odd {
    /// The page of a captive portal.
    Html,
    /// JSON that is no stream.
    Json,
    /// The head, then the end of the connection.
    Headers,
    /// An error inside the stream, after a piece of text.
    ErrorEvent,
    /// A frame that is no JSON, after a piece of text.
    BrokenFrame,
    /// Text that is not UTF-8, after a piece of text.
    BadUtf8,
    /// The whole text, and no end mark.
    NoEnd,
    /// The whole answer with a byte order mark, comments, CR LF, events nobody knows, and more after its end.
    Noise,
    /// An answer that asks for calls in a way that is none.
    Calls(OddCalls),
}

impl Odd {
    /// All of them, by name.
    pub const ALL: [(&'static str, Self); 19] = [
        ("html", Self::Html),
        ("json", Self::Json),
        ("headers", Self::Headers),
        ("error_event", Self::ErrorEvent),
        ("broken_frame", Self::BrokenFrame),
        ("bad_utf8", Self::BadUtf8),
        ("no_end", Self::NoEnd),
        ("noise", Self::Noise),
        ("call_broken", Self::Calls(OddCalls::Broken)),
        ("call_no_object", Self::Calls(OddCalls::NoObject)),
        ("call_schema", Self::Calls(OddCalls::Schema)),
        ("call_unknown", Self::Calls(OddCalls::Unknown)),
        ("call_no_id", Self::Calls(OddCalls::NoId)),
        ("call_same_id", Self::Calls(OddCalls::SameId)),
        ("call_same_index", Self::Calls(OddCalls::SameIndex)),
        ("call_interleaved", Self::Calls(OddCalls::Interleaved)),
        ("call_nameless", Self::Calls(OddCalls::Nameless)),
        ("call_none", Self::Calls(OddCalls::NoCall)),
        ("call_too_many", Self::Calls(OddCalls::TooMany)),
    ];
}

impl Fault {
    /// How many requests it strikes.
    pub fn times(self) -> u32 {
        match self {
            Self::Status { times, .. }
            | Self::Hang { times }
            | Self::Cut { times, .. }
            | Self::Stall { times, .. }
            | Self::Odd { times, .. } => times,
        }
    }
}

impl Default for Script {
    fn default() -> Self {
        Self {
            steps: vec![],
            reads: 0,
            preamble: 0,
            tokens: 8,
            prose: None,
            delay_ms: 0,
            first_byte_ms: 0,
            fault: None,
            retry_after: None,
        }
    }
}

impl Script {
    /// Reads the directives of a message; none if it has none.
    pub fn parse(text: &str) -> Option<Self> {
        let mut script = Self::default();
        let (mut rounds, mut tool, mut found) = (0, "ls", 0_u32);
        for line in text.lines() {
            if let Some(call) = call(line) {
                script.steps.push(call);
                found += 1;
                continue;
            }
            for (key, value) in line.split_whitespace().filter_map(|word| word.split_once('=')) {
                match key {
                    "rounds" => rounds = value.parse().ok()?,
                    "tool" => tool = value,
                    "write" => script.steps.push(write(value.parse().ok()?)),
                    _ => script.set(key, value)?,
                }
                found += 1;
            }
        }
        let round = Call { tool: tool.to_owned(), arguments: "{}".to_owned() };
        script.steps.splice(0..0, std::iter::repeat_n(round, rounds));
        (found > 0).then_some(script)
    }

    fn set(&mut self, key: &str, value: &str) -> Option<()> {
        match key {
            "reads" => self.reads = value.parse().ok()?,
            "tokens" => self.tokens = value.parse().ok()?,
            "prose" => self.prose = Some(value.parse().ok()?),
            "preamble" => self.preamble = value.parse().ok()?,
            "delay_ms" => self.delay_ms = value.parse().ok()?,
            "first_byte_ms" => self.first_byte_ms = value.parse().ok()?,
            "retry_after" => self.retry_after = Some(value.parse().ok()?),
            "hang" => self.fault = Some(Fault::Hang { times: value.parse().ok()? }),
            "fail" => {
                let (status, times) = value.split_once('x')?;
                self.fault = Some(Fault::Status { status: status.parse().ok()?, times: times.parse().ok()? });
            }
            "cut" => {
                let (words, times) = value.split_once('x')?;
                self.fault = Some(Fault::Cut { words: words.parse().ok()?, times: times.parse().ok()? });
            }
            "stall" => {
                let (words, times) = value.split_once('x')?;
                self.fault = Some(Fault::Stall { words: words.parse().ok()?, times: times.parse().ok()? });
            }
            "odd" => {
                let (name, times) = value.rsplit_once('x')?;
                let (_, odd) = *Odd::ALL.iter().find(|(known, _)| *known == name)?;
                self.fault = Some(Fault::Odd { odd, times: times.parse().ok()? });
            }
            _ => return None,
        }
        Some(())
    }

    /// The text of the final answer.
    pub fn answer(&self) -> String {
        words(self.tokens).concat()
    }
}

fn call(line: &str) -> Option<Call> {
    if let Some(command) = line.strip_prefix("exec:") {
        let arguments = serde_json::json!({ "command": command.trim() }).to_string();
        return Some(Call { tool: "exec".to_owned(), arguments });
    }
    let (tool, arguments) = line.strip_prefix("call:")?.trim().split_once(' ')?;
    Some(Call { tool: tool.to_owned(), arguments: arguments.to_owned() })
}

fn write(bytes: usize) -> Call {
    let content = "fifteen letters\n".chars().cycle().take(bytes).collect::<String>();
    let arguments = serde_json::json!({ "path": "written.txt", "content": content }).to_string();
    Call { tool: "write".to_owned(), arguments }
}

/// The first `count` words that the server says, each a piece of its own.
pub fn words(count: u32) -> Vec<String> {
    (0..count).map(|at| if at == 0 { "word0".to_owned() } else { format!(" word{at}") }).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_script_is_read_from_the_message() {
        let text = "Please do this: rounds=2 tool=read tokens=3 delay_ms=5\nexec: echo hi >> x; true\ncall:write {\"path\": \"a b\"}";
        let script = Script::parse(text).expect("it has directives");
        let tools: Vec<&str> = script.steps.iter().map(|call| call.tool.as_str()).collect();
        assert_eq!(tools, ["read", "read", "exec", "write"]);
        assert_eq!(script.steps[2].arguments, r#"{"command":"echo hi >> x; true"}"#);
        assert_eq!(script.steps[3].arguments, r#"{"path": "a b"}"#);
        assert_eq!((script.tokens, script.delay_ms), (3, 5));
        let written = Script::parse("write=20 tokens=1").expect("it has directives");
        assert_eq!(written.steps[0].arguments, r#"{"content":"fifteen letters\nfift","path":"written.txt"}"#);
        assert_eq!(script.answer(), "word0 word1 word2");
        assert_eq!(Script::parse("reads=1000").map(|script| script.reads), Some(1_000));
    }

    #[test]
    fn faults_are_read_with_how_often_they_strike() {
        let fault = |text| Script::parse(text).and_then(|script| script.fault);
        assert_eq!(fault("fail=429x2 retry_after=0"), Some(Fault::Status { status: 429, times: 2 }));
        assert_eq!(fault("hang=1"), Some(Fault::Hang { times: 1 }));
        assert_eq!(fault("cut=5x1"), Some(Fault::Cut { words: 5, times: 1 }));
        assert_eq!(fault("stall=5x1"), Some(Fault::Stall { words: 5, times: 1 }));
        assert_eq!(fault("odd=no_endx1"), Some(Fault::Odd { odd: Odd::NoEnd, times: 1 }));
    }

    #[test]
    fn text_that_is_no_script_is_none() {
        for text in ["hello", "odd=evenx1", "x=1", "tokens=many", "fail=429"] {
            assert_eq!(Script::parse(text), None, "{text}");
        }
    }
}
