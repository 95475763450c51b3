//! `limulus answer`: the questions of models to the user, and their answers.

use clap::Args;
use config::Globals;
use protocol::method::{
    QuestionAnswerParams, QuestionParams, QuestionShown, QuestionsAnswer, QuestionsList, QuestionsListParams,
    QuestionsListed, QuestionsShow,
};
use tools::UserAnswer;
use views::questions::reader;

use super::change::change_and_owner;
use crate::args::{PageArgs, WriterArgs};
use crate::error::{CliError, Exit};
use crate::language::word;
use crate::output::say_text;
use crate::reading::ask;
use crate::show::human::{Page, Zone, columns, duration, excerpt, heading, now, printable_line, session_name};
use crate::show::{json, json_line, print, worded};
use crate::{prompt, wait_for};

/// List the questions of models to you, and answer them.
#[derive(Debug, Args)]
#[allow(clippy::struct_excessive_bools, reason = "they are flags")]
pub(crate) struct AnswerArgs {
    /// The id of the question, or a unique beginning of it; without it, the open questions are listed
    id: Option<String>,
    /// The answer: numbers or the text of choices, other words, or a JSON value; without it, a terminal asks
    #[arg(requires = "id")]
    answer: Vec<String>,
    /// Do not answer it; the model decides
    #[arg(long, requires = "id", conflicts_with = "answer")]
    skip: bool,
    /// Why it is skipped, for the model
    #[arg(long, value_name = "TEXT", requires = "skip")]
    reason: Option<String>,
    #[command(flatten)]
    page: PageArgs,
    #[command(flatten)]
    writer: WriterArgs,
}

pub(crate) fn run(args: &AnswerArgs, globals: &Globals) -> Result<(), CliError> {
    let Some(id) = &args.id else { return list(args, globals) };
    let asked = ask::<QuestionsShow>(globals, QuestionParams { id: id.clone() })?;
    let line = args.answer.join(" ");
    if !args.answer.is_empty() && line.trim().is_empty() {
        return Err(CliError::Usage {
            what: "the answer is empty".into(),
            hint: "leave it out to see the question".into(),
        });
    }
    if args.skip || !line.trim().is_empty() {
        let params = params(&asked, args, &line)?;
        return wait_for(send(globals, &args.writer, asked, params));
    }
    if args.writer.json {
        return print(&json(&asked));
    }
    let shown = worded_page(&asked, &Zone::local());
    if asked.answered.is_some() || !prompt::is_possible() {
        return print(&shown);
    }
    say_text(&shown);
    let Some(line) = prompt::ask("answer", prompt::OPEN).filter(|line| !line.trim().is_empty()) else {
        return Err(CliError::Usage {
            what: "nothing was answered".into(),
            hint: format!("`limulus answer {} --skip` lets the model decide", asked.id),
        });
    };
    let params = params(&asked, args, &line)?;
    wait_for(send(globals, &args.writer, asked, params))
}

fn list(args: &AnswerArgs, globals: &Globals) -> Result<(), CliError> {
    let params = QuestionsListParams { session: None, limit: args.page.limit(), after: args.page.after.clone() };
    let listed = match ask::<QuestionsList>(globals, params) {
        // A home without a journal has no questions.
        Err(error) if error.exit() == Exit::NotFound => QuestionsListed::default(),
        listed => listed?,
    };
    let as_json = args.writer.json;
    let list = if as_json { json(&listed.questions) } else { lay_out(&listed.questions, &Zone::local()) };
    print(&args.page.with_next(list, "answer", listed.next, as_json))
}

/// What is sent as the answer of a line.
pub(super) fn given(asked: &QuestionShown, line: &str) -> Result<QuestionAnswerParams, String> {
    let closed = || "it is no longer open".to_owned();
    let params = QuestionAnswerParams::of(asked.call, asked.fingerprint.ok_or_else(closed)?);
    Ok(match reader(asked).read(line)? {
        UserAnswer::Choices(choices) => QuestionAnswerParams { choices, ..params },
        UserAnswer::Text(text) => QuestionAnswerParams { text: Some(text), ..params },
        UserAnswer::Json(value) => QuestionAnswerParams { value: Some(value), ..params },
    })
}

fn params(asked: &QuestionShown, args: &AnswerArgs, line: &str) -> Result<QuestionAnswerParams, CliError> {
    // A closed question is refused by the owner, with who answered.
    let fingerprint = asked.fingerprint.ok_or_else(|| CliError::Refused {
        exit: Exit::Refused,
        what: format!("the question {} is no longer open", asked.id),
        hint: "`limulus answer` lists the open ones".to_owned(),
    })?;
    if args.skip {
        let params = QuestionAnswerParams::of(asked.call, fingerprint);
        return Ok(QuestionAnswerParams { skip: true, reason: args.reason.clone(), ..params });
    }
    given(asked, line).map_err(|what| CliError::Usage {
        what: format!("that is no answer to it: {what}"),
        hint: format!("`limulus answer {}` shows what it takes", asked.id),
    })
}

async fn send(
    globals: &Globals,
    writer: &WriterArgs,
    asked: QuestionShown,
    params: QuestionAnswerParams,
) -> Result<(), CliError> {
    let skipped = params.skip;
    let answering =
        change_and_owner(globals, writer, async |client| client.call::<QuestionsAnswer>(params.clone()).await);
    let (_, is_owner) = answering.await?;
    if writer.json {
        let (globals, id) = (globals.clone(), asked.call.to_string());
        let asking = tokio::task::spawn_blocking(move || ask::<QuestionsShow>(&globals, QuestionParams { id }));
        let closed = asking.await.map_err(|error| CliError::bug(&error.to_string()))??;
        return print(&json_line(&closed));
    }
    let (what, session) = (excerpt(&asked.question, WHAT), session_name(&asked.session));
    let mut page = Page::default();
    page.line(if skipped { format!("skipped: {what} ({session})") } else { format!("answered: {what} ({session})") });
    if is_owner {
        page.line(format!("no process runs it now: `limulus resume {}` does, or `limulus serve`", asked.session));
    }
    print(&page.text())
}

/// Characters of a question in a list.
const WHAT: usize = 100;

fn lay_out(questions: &[QuestionShown], zone: &Zone) -> String {
    if questions.is_empty() {
        return worded("no model asks anything\n");
    }
    let now = now();
    let mut rows = vec![heading(["ID", "SESSION", "SINCE", "UNTIL", "QUESTION"])];
    rows.extend(questions.iter().map(|asked| {
        let until = match asked.expires_at {
            Some(at) if at <= now => word("overdue"),
            Some(at) => zone.short(at, now),
            None => String::new(),
        };
        let session = printable_line(session_name(&asked.session)).into_owned();
        let what = printable_line(&excerpt(&asked.question, WHAT)).into_owned();
        [asked.id.clone(), session, duration(now.since(asked.asked_at)), until, what]
    }));
    columns(&rows) + &worded("`limulus answer ID` shows one and what it takes; `limulus answer ID TEXT` answers it\n")
}

fn worded_page(asked: &QuestionShown, zone: &Zone) -> String {
    let mut page = Page::default();
    page.line(format!("question {} of {}", asked.id, asked.session));
    page.line(format!("  asked {}", zone.time(asked.asked_at)));
    match (asked.answered, &asked.by, asked.closed_at) {
        (Some(answered), by, at) => {
            let how = if answered { "answered" } else { "not answered" };
            let by = by.as_ref().map(|by| format!(" by {by}")).unwrap_or_default();
            let at = at.map(|at| format!(", {}", zone.time(at))).unwrap_or_default();
            page.line(format!("  {how}{by}{at}"));
        }
        (None, ..) => match asked.expires_at {
            Some(at) if at <= now() => page.line(format!("  overdue since {}", zone.time(at))),
            Some(at) => page.line(format!("  waits until {}", zone.time(at))),
            None => page.line("  waits for an answer"),
        },
    }
    page.indented("  ", &asked.question);
    for (choice, number) in asked.choices.iter().zip(1..) {
        page.indented("    ", &format!("{number}) {choice}"));
    }
    if asked.answered.is_none() {
        page.line(format!("  takes {}", takes(asked)));
        if let Some(schema) = &asked.schema {
            page.indented("    ", &serde_json::to_string_pretty(schema).unwrap_or_default());
        }
    }
    page.text()
}

/// What a question takes, in words.
pub(super) fn takes(asked: &QuestionShown) -> &'static str {
    use engine::AnswerForm::{Choice, Json, Text};
    match (asked.takes, asked.choices.is_empty(), asked.several) {
        (Json, ..) => "a JSON value that fits this schema",
        (Choice, _, true) => "numbers of its choices",
        (Choice, _, false) => "the number of a choice",
        (Text, false, true) => "numbers of its choices, or other words",
        (Text, false, false) => "the number of a choice, or other words",
        (Text, true, _) => "a text",
    }
}
