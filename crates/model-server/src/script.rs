//! The scripts, with which a user message says how the server answers it, as data, and their parser.

use super::fault::{Fault, Odd, RetryAfter, WORDINGS};

/// How to answer a message, step by step.
///
/// Each directive has its own line, but words of the form `key=value` may share one:
///
/// | directive | meaning | default |
/// |---|---|---|
/// | `call:TOOL JSON` | a step that makes this call | |
/// | `exec:COMMAND` | the same for `exec` | |
/// | `rounds=N tool=NAME` | N steps that call NAME with empty arguments, before the others | 0, `ls` |
/// | `write=BYTES` | a step that writes a file of this many bytes | |
/// | `reads=N` | steps that read `step-1.txt` to `step-N.txt` in order, also after a summary; a request without tools gets a summary | |
/// | `tokens=N` | words of the final answer | 8 |
/// | `prose=BYTES` | the final answer is this much prose, in pieces of about 80 bytes; it depends on the message | |
/// | `markdown=N` | the final answer is so many tokens of Markdown; it depends on the message | |
/// | `preamble=N` | words of text before the calls of each step | 0 |
/// | `delay_ms=N` | milliseconds before each piece of an answer | 0 |
/// | `rate=N` | the pieces of an answer come at this rate, pieces a second | as fast as they are read |
/// | `first_byte_timeout_ms=N` | milliseconds before the head of an answer | 0 |
/// | `fail=STATUSxTIMES` | this many requests are refused with this status | |
/// | `wording=NAME` | the refusals have the real body of this name | |
/// | `retry_after=VALUE` | the refusals have this header; `date+1` is the date one second from now | |
/// | `retry_after_ms=VALUE` | the refusals have this header, in milliseconds | |
/// | `hang=TIMES` | this many requests never get a byte | |
/// | `cut=WORDSxTIMES` | this many answers are interrupted after this many words | |
/// | `stall=WORDSxTIMES` | this many answers stop after this many words, and the connection stays open | |
/// | `odd=NAMExTIMES` | this many answers are abnormal in one of the ways of [`Odd`] | |
/// | `after=RESULTS` | only requests with at least this many results of calls have the fault | 0 |
/// | `fault_ms=N` | milliseconds before the first byte of a faulty answer | 0 |
/// | `say:TEXT` | the final answer is this text; several lines are one text | |
/// | `say_again:TEXT` | the same for an answer after that one | `say:` |
/// | `title=WORDS` | the answer to a request without tools, with `_` for a blank | |
/// | `title_ms=N` | milliseconds before the head of that answer | 0 |
/// | `vowel=C` | the vowel of the words, such as `word0` | o |
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Script {
    /// The calls, one a step.
    pub steps: Vec<Call>,
    /// The number of files to read after these steps, one a step.
    pub reads: u32,
    /// Bytes of prose that replace the words of the final answer.
    pub prose: Option<usize>,
    /// A text that replaces the words of the final answer.
    pub say: Option<String>,
    /// A text that replaces it in later answers to the same message.
    pub say_again: Option<String>,
    /// Tokens of Markdown that replace the words of the final answer.
    pub markdown: Option<u32>,
    /// The number of words before each call.
    pub preamble: u32,
    /// The number of words in the final answer.
    pub tokens: u32,
    /// Milliseconds before each piece of an answer.
    pub delay_ms: u64,
    /// Pieces of an answer a second; none = as fast as they are read.
    pub rate: Option<u32>,
    /// Milliseconds before the head of an answer.
    pub first_byte_timeout_ms: u64,
    /// The fault of the first requests.
    pub fault: Option<Fault>,
    /// The header of a refusal that says when to retry.
    pub retry_after: Option<RetryAfter>,
    /// The body of a refusal; none = an error that names the script as its cause.
    pub wording: Option<&'static str>,
    /// How many results of calls a request must have for the fault to occur.
    pub after: usize,
    /// Milliseconds before the first byte of a faulty answer.
    pub fault_ms: u64,
    /// The answer to a request without tools.
    pub title: Option<String>,
    /// Milliseconds before the head of that answer.
    pub title_ms: u64,
    /// The vowel of the words, which replaces `o`.
    pub vowel: char,
}

/// A call that a script makes.
#[allow(missing_docs, reason = "the fields say it themselves")]
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Call {
    pub tool: String,
    /// A JSON object as text, or invalid JSON if the script says so.
    pub arguments: String,
}

impl Default for Script {
    fn default() -> Self {
        Self {
            steps: vec![],
            reads: 0,
            preamble: 0,
            tokens: 8,
            prose: None,
            markdown: None,
            say: None,
            say_again: None,
            delay_ms: 0,
            rate: None,
            first_byte_timeout_ms: 0,
            fault: None,
            retry_after: None,
            wording: None,
            after: 0,
            fault_ms: 0,
            title: None,
            title_ms: 0,
            vowel: 'o',
        }
    }
}

impl Script {
    /// Parses the directives of a message; none if it has no directive or an invalid one.
    pub fn parse(text: &str) -> Option<Self> {
        let mut script = Self::default();
        let (mut rounds, mut tool, mut found) = (0, "ls", 0_u32);
        for line in text.lines() {
            if let Some(call) = call(line) {
                script.steps.push(call);
                found += 1;
                continue;
            }
            if let Some(text) = line.strip_prefix("say:") {
                let before = script.say.take().map(|before| before + "\n").unwrap_or_default();
                script.say = Some(before + text);
                found += 1;
                continue;
            }
            if let Some(text) = line.strip_prefix("say_again:") {
                script.say_again = Some(text.to_owned());
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
            "markdown" => self.markdown = Some(value.parse().ok()?),
            "rate" => self.rate = Some(value.parse().ok().filter(|rate| *rate > 0)?),
            "preamble" => self.preamble = value.parse().ok()?,
            "delay_ms" => self.delay_ms = value.parse().ok()?,
            "first_byte_ms" => self.first_byte_timeout_ms = value.parse().ok()?,
            "retry_after" => self.retry_after = Some(RetryAfter::of(value)?),
            "retry_after_ms" => self.retry_after = Some(RetryAfter::Ms(value.to_owned())),
            "wording" => self.wording = Some(WORDINGS.iter().find(|(name, _)| *name == value)?.1),
            "after" => self.after = value.parse().ok()?,
            "fault_ms" => self.fault_ms = value.parse().ok()?,
            "title" => self.title = Some(value.replace('_', " ")),
            "title_ms" => self.title_ms = value.parse().ok()?,
            "vowel" => self.vowel = value.parse().ok()?,
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
        self.words(self.tokens).concat()
    }

    /// The first `count` words with the script's vowel, each as one piece.
    pub fn words(&self, count: u32) -> Vec<String> {
        words(count).into_iter().map(|word| word.replace('o', self.vowel.encode_utf8(&mut [0; 4]))).collect()
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

/// The first `count` words that the server sends, each as one piece.
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
        assert_eq!(Script::parse("vowel=潮 tokens=2").map(|script| script.answer()).as_deref(), Some("w潮rd0 w潮rd1"));
        let says = Script::parse("say:one a=b\nsay:two\nsay_again:three").expect("it has directives");
        assert_eq!((says.say.as_deref(), says.say_again.as_deref()), (Some("one a=b\ntwo"), Some("three")));
        assert_eq!(Script::parse("reads=1000").map(|script| script.reads), Some(1_000));
    }

    #[test]
    fn faults_are_parsed_with_their_count() {
        let fault = |text| Script::parse(text).and_then(|script| script.fault);
        assert_eq!(fault("fail=429x2 retry_after=0"), Some(Fault::Status { status: 429, times: 2 }));
        assert_eq!(fault("hang=1"), Some(Fault::Hang { times: 1 }));
        assert_eq!(fault("cut=5x1"), Some(Fault::Cut { words: 5, times: 1 }));
        assert_eq!(fault("stall=5x1"), Some(Fault::Stall { words: 5, times: 1 }));
        assert_eq!(fault("odd=no_endx1"), Some(Fault::Odd { odd: Odd::NoEnd, times: 1 }));
    }

    #[test]
    fn r51_a_refusal_says_in_each_form_when_to_come_again() {
        let line = |text| Script::parse(text).and_then(|script| script.retry_after).map(|after| after.line());
        assert_eq!(line("retry_after=soon").as_deref(), Some("retry-after: soon\r\n"));
        assert_eq!(line("retry_after=1000000000").as_deref(), Some("retry-after: 1000000000\r\n"));
        assert_eq!(line("retry_after_ms=300").as_deref(), Some("retry-after-ms: 300\r\n"));
        let date = line("retry_after=date-60").unwrap_or_default();
        assert!(date.starts_with("retry-after: ") && date.ends_with(" GMT\r\n"), "{date}");
        assert_eq!(Script::parse("retry_after=date"), None);
    }

    #[test]
    fn text_that_is_no_script_is_none() {
        for text in ["hello", "odd=evenx1", "wording=none", "x=1", "tokens=many", "fail=429", "rate=0"] {
            assert_eq!(Script::parse(text), None, "{text}");
        }
    }
}
