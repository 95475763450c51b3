//! That the catalogue is whole: each text that a person may see has a translation, or stands here with the reason why it has none.

use std::path::Path;

use clap::CommandFactory as _;
use engine::tables::lifecycle::LifecycleKind;
use engine::tables::transitions::RunState;
use engine::{Outcome, QueueState, Resource, Scope};
use fluent_syntax::ast::Entry;

use super::CHINESE;
use super::catalogue::{Catalogue, english_texts};
use super::sources::{Literal, literals, without_values};

/// The crates whose texts a person may see.
const CRATES: [&str; 12] = [
    "cli",
    "client",
    "config",
    "engine",
    "gateway",
    "journal",
    "models",
    "protocol",
    "runtime",
    "telemetry",
    "tools",
    "views",
];

/// Files, or folders, whose texts stay English, and why.
const ENGLISH: &[(&str, &str)] = &[
    ("cli/src/args/help.rs", "examples of commands; another test reads the rest of the help"),
    ("cli/src/commands/serve/unit.rs", "a file for systemd"),
    ("cli/src/commands/sessions/export.rs", "a document that is written for any reader"),
    ("cli/src/render/markdown", "words of programming languages"),
    ("cli/src/show/arrows.rs", "drawings, which are compared with docs/states.md"),
    ("cli/src/show/dot.rs", "drawings"),
    ("cli/src/show/graph.rs", "drawings"),
    ("cli/src/show/layout.rs", "drawings"),
    ("cli/src/show/mermaid.rs", "drawings"),
    ("cli/src/show/nodes.rs", "drawings"),
    ("cli/src/show/svg.rs", "drawings"),
    ("cli/src/show/xstate.rs", "drawings"),
    ("cli/src/commands/setup/page.rs", "a page of the documentation"),
    ("cli/src/language", "the catalogue's own tests"),
    ("config/src/declared.rs", "the reference of the configuration, its schema and its file"),
    ("config/src/reference.rs", "the reference of the configuration, its schema and its file"),
    ("config/src/schema.rs", "the reference of the configuration, its schema and its file"),
    ("engine/src/body.rs", "a debug text"),
    ("engine/src/budget_pool.rs", "assertions"),
    ("engine/src/derived.rs", "assertions"),
    ("engine/src/ids.rs", "errors of a program that sends no ids"),
    ("engine/src/invariants.rs", "reports of bugs"),
    ("engine/src/lanes.rs", "assertions"),
    ("engine/src/machine/model_notices.rs", "the model receives them"),
    ("engine/src/pump.rs", "assertions"),
    ("engine/src/tables/failover.rs", "the table of `limulus failover`, in the words of the engine"),
    ("engine/src/tables/limits.rs", "assertions"),
    ("engine/src/tables/transitions.rs", "notes of the drawings"),
    ("gateway/src/http/api.rs", "programs receive them"),
    ("gateway/src/http/events.rs", "programs receive them"),
    ("gateway/src/http/gate.rs", "programs receive them"),
    ("gateway/src/http/openai", "programs receive them"),
    ("gateway/src/http/openclaw", "programs receive them"),
    ("gateway/src/http/openapi.rs", "the description of the API"),
    ("gateway/src/http/problem.rs", "programs receive them"),
    ("gateway/src/http/tls.rs", "programs receive them"),
    ("gateway/src/http/webhooks.rs", "programs receive them"),
    ("gateway/src/http/websocket.rs", "programs receive them"),
    ("journal/src/memory", "tests use it"),
    ("journal/src/suite", "tests use it"),
    ("models/src/anthropic/body.rs", "the model receives them"),
    ("models/src/classify", "words of providers that are recognised"),
    ("models/src/files.rs", "the model receives them"),
    ("models/src/left_out_files.rs", "the model receives them"),
    ("models/src/normalize.rs", "the model receives them"),
    ("models/src/offline", "the offline model answers in the language of the message"),
    ("models/src/openai_chat/body.rs", "the model receives them"),
    ("models/src/openai_responses/body.rs", "the model receives them"),
    ("models/src/presets/table.rs", "names of providers"),
    ("models/src/wait.rs", "words of providers that are recognised"),
    ("protocol/src/limits.rs", "assertions"),
    ("protocol/src/notice.rs", "the page of the protocol"),
    ("protocol/src/part.rs", "programs receive them"),
    ("protocol/src/schema.rs", "the page of the protocol"),
    ("runtime/src/conversation.rs", "the model receives them"),
    ("runtime/src/prompt.rs", "the model receives them"),
    ("runtime/src/repair.rs", "the model receives them"),
    ("runtime/src/summary", "the model receives them"),
    ("telemetry/src/log/story.rs", "programs read them"),
    ("telemetry/src/log/queue.rs", "programs read them"),
    ("telemetry/src/metrics", "programs read them"),
    ("telemetry/src/traces/export.rs", "programs read them"),
    ("telemetry/src/traces/mod.rs", "names of the standard"),
    ("telemetry/src/traces/otlp.rs", "names of the standard"),
    ("tools/src/apply_patch.rs", "the model receives them"),
    ("tools/src/ask_user.rs", "the model receives them"),
    ("tools/src/message.rs", "the model receives them"),
    ("tools/src/plan.rs", "the model receives them"),
    ("tools/src/background.rs", "the model receives them"),
    ("tools/src/call.rs", "the model receives them"),
    ("tools/src/change.rs", "the model receives them"),
    ("tools/src/edit.rs", "the model receives them"),
    ("tools/src/error.rs", "the model receives them"),
    ("tools/src/exec.rs", "the model receives them"),
    ("tools/src/fetch.rs", "the model receives them"),
    ("tools/src/find.rs", "the model receives them"),
    ("tools/src/folder.rs", "the model receives them"),
    ("tools/src/grep.rs", "the model receives them"),
    ("tools/src/guard.rs", "the model receives them"),
    ("tools/src/html.rs", "the model receives them"),
    ("tools/src/hunk.rs", "the model receives them"),
    ("tools/src/images.rs", "the model receives them"),
    ("tools/src/kinds.rs", "the model receives them"),
    ("tools/src/limits.rs", "assertions"),
    ("tools/src/ls.rs", "the model receives them"),
    ("tools/src/masking.rs", "a debug text"),
    ("tools/src/memory", "the model receives them"),
    ("tools/src/openat.rs", "the model receives them"),
    ("tools/src/output.rs", "the model receives them"),
    ("tools/src/patch.rs", "the model receives them"),
    ("tools/src/paths.rs", "the model receives them"),
    ("tools/src/preview.rs", "the model receives them"),
    ("tools/src/process.rs", "the model receives them"),
    ("tools/src/read.rs", "the model receives them"),
    ("tools/src/search", "the model receives them"),
    ("tools/src/skills/call.rs", "the model receives them"),
    ("tools/src/skills/list.rs", "the model receives them"),
    ("tools/src/supervise", "they are records of a call"),
    ("tools/src/text.rs", "the model receives them"),
    ("tools/src/tool_result.rs", "the model receives them"),
    ("tools/src/tool_set.rs", "the model receives them"),
    ("tools/src/walk.rs", "the model receives them"),
    ("tools/src/window.rs", "the model receives them"),
    ("tools/src/write.rs", "the model receives them"),
    ("views/src/scene.rs", "tests use it"),
];

/// Texts that stay English, by what they begin with, and why.
const TEXTS: &[(&str, &str)] = &[
    ("# The configuration of limulus", "the file that is written"),
    ("%Y-%m-%d %H:%M:%S UTC", "the format of a time"),
    ("*** ", "the format of a patch"),
    ("Answer with the word OK.", "the model receives it"),
    ("How many prime numbers", "the model receives it"),
    ("Library/Application Support", "a folder"),
    ("Line {line}: the tide", "the model receives it"),
    ("List the files of this folder", "the model receives it"),
    ("Note from limulus: ", "the model receives it"),
    ("{rest}\n\nUse the skill `", "the model receives it"),
    ("; no git branch is", "the model receives it"),
    ("; the git branch is", "the model receives it"),
    ("today is {}", "the model receives it"),
    ("READY=1", "systemd receives it"),
    ("STATUS=", "systemd receives it"),
    ("Say: ready.", "the model receives it"),
    ("The horseshoe crab", "the file of the demonstration"),
    ("This is a check of the connection", "the model receives it"),
    ("Which colour is this square", "the model receives it"),
    ("You name conversations", "the model receives it"),
    ("[its limit", "it is recognised in an output"),
    ("[more ", "it is recognised in an output"),
    ("[stopped after", "it is recognised in an output"),
    ("[the body {} is damaged]", "it stands in the place of a text"),
    (" files or folders could not be read]", "it is recognised in an output"),
    (" more entries left out;", "it is recognised in an output"),
    ("no matches", "it is recognised in an output"),
    ("ended by signal ", "it is recognised in an output"),
    ("exit status ", "it is recognised in an output"),
    ("<message>", "the model receives it"),
    ("{}\n[{left_out} are left out here]", "the model receives it"),
    ("commands are denied by the configuration", "the model receives it"),
    ("fetching from the web is denied", "the model receives it"),
    ("may not {act}", "the model receives it"),
    ("{shown}… ({rest} bytes more)", "it stands in the place of a text"),
    ("doctor --", "a command"),
    ("for i in $(seq", "a command"),
    ("limulus protocol {PROTOCOL}", "a schema"),
    ("limulus recovery", "an old name of a command"),
    ("limulus [OPTIONS]", "the usage, of which help.rs has the Chinese one"),
    ("read README.txt", "a message of the demonstration"),
    ("| key |", "a page of the documentation"),
    ("SQLite format 3", "the beginning of a file"),
    ("a.seq", "a query"),
    ("e.seq", "a query"),
    ("RELEASE member", "a query"),
    ("ROLLBACK TO member", "a query"),
    ("SAVEPOINT member", "a query"),
    ("DROP TABLE", "a query"),
    ("ALTER TABLE", "a query"),
    ("packed IS NOT NULL", "a query"),
    ("r.packed IS NOT NULL", "a query"),
    ("session = ?1", "a query"),
    ("NOT open AND session", "a query"),
    ("{from} AND r.session", "a query"),
    ("of an unknown method", "a name in the report of a held thread"),
    ("a task without a name", "a name in the report of a held thread"),
    ("a readable journal: {}", "a bug of a test"),
    ("a key is used before it is old", "an assertion"),
    ("the rows are in the order of the enum", "an assertion"),
    ("the head of an object is an object", "an assertion"),
    ("text, a list or an object", "what a wire format expects"),
    ("keep the content of", "a part of an error that the model receives"),
    ("thread '{}' {panic}", "the report of a bug"),
    ("{} {:>+9} ms", "a unit"),
    ("value = {text}", "TOML"),
    ("runs.", "a setting in TOML"),
    ("budget.wrap_up_percent", "a setting in TOML"),
    ("session.idle_timeout_s", "a setting in TOML"),
    ("retention.keep_days", "a setting in TOML"),
    ("serde_json::", "a type"),
];

/// What may stand alone beside a number.
const UNITS: [&str; 9] = ["KB", "MB", "KiB", "MiB", "GiB", "ms", "min", "pid", "limulus"];

/// What may stand before a text on its line.
const BEFORE: [&str; 15] =
    ["✗ ", "✓ ", "! ", "· ", "… ", "■ ", "↻ ", "? ", "* ", "→ ", "● ", "↪ ", "limulus: ", "hint: ", "error: "];

fn crates() -> std::path::PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("..")
}

/// Whether a text is a command of the program.
fn is_command(text: &str) -> bool {
    let name = text.strip_prefix("limulus ").and_then(|words| words.split(' ').next());
    name.is_some_and(|name| crate::args::Cli::command().find_subcommand(name).is_some())
}

/// Whether the words of a text, around its values, are all in English texts of the catalogue.
fn is_covered(text: &str, english: &str) -> bool {
    let forms = [text.to_owned(), commands_as_values(text), text.replace(": ", "\n")];
    forms.iter().any(|form| form.split('\n').flat_map(own_words).all(|words| english.contains(&words)))
}

/// What a line says between its values.
fn own_words(line: &str) -> Vec<String> {
    let mut line = line.trim();
    while let Some(rest) = BEFORE.iter().find_map(|before| line.strip_prefix(before)) {
        line = rest.trim_start();
    }
    let without = without_values(line, "\u{1}");
    let parts = without.split('\u{1}').map(str::trim);
    let says = |part: &&str| part.split(|c: char| !c.is_ascii_alphabetic()).any(|word| word.len() > 1);
    parts.filter(says).filter(|part| !UNITS.contains(part)).map(str::to_owned).collect()
}

/// With a value in the place of each command in backquotes.
fn commands_as_values(text: &str) -> String {
    let parts: Vec<&str> = text.split('`').collect();
    parts.iter().enumerate().map(|(at, part)| if at % 2 == 0 { part } else { "{}" }).collect::<Vec<_>>().join("`")
}

#[test]
fn r61_each_text_of_the_program_is_translated_or_listed_with_a_reason() {
    let english = english_texts(CHINESE).join("\n");
    let all = literals(&crates(), &CRATES);
    assert!(all.len() > 5_000, "{}", all.len());
    let is_english = |literal: &&Literal| {
        is_command(&literal.text)
            || ENGLISH.iter().any(|(path, _)| literal.file.starts_with(path))
            || TEXTS.iter().any(|(beginning, _)| literal.text.trim_start().starts_with(beginning.trim_start()))
    };
    let texts = all.iter().filter(|literal| literal.is_seen() && literal.is_prose() && !is_english(literal));
    let missing: Vec<String> = texts
        .filter(|literal| !is_covered(&literal.text, &english))
        .map(|literal| format!("{}: {:?}", literal.file, literal.text))
        .collect();
    if let Some(path) = std::env::var_os("MISSING_TEXTS") {
        std::fs::write(path, missing.join("\n")).expect("the file can be written");
    }
    assert!(missing.is_empty(), "locales/zh-CN.ftl has no translation of {}: {missing:#?}", missing.len());
    for (path, _) in ENGLISH {
        assert!(all.iter().any(|literal| literal.file.starts_with(path)), "no file is {path}");
    }
    for (beginning, _) in TEXTS {
        assert!(
            all.iter().any(|of| of.text.trim_start().starts_with(beginning.trim_start())),
            "no text is {beginning:?}"
        );
    }
}

const OUTCOMES: [Outcome; 6] =
    [Outcome::Completed, Outcome::Failed, Outcome::Aborted, Outcome::Interrupted, Outcome::TimedOut, Outcome::Stalled];
const SCOPES: [Scope; 6] = [Scope::Run, Scope::Session, Scope::Agent, Scope::Day, Scope::Home, Scope::Process];
const RESOURCES: [Resource; 6] =
    [Resource::Tokens, Resource::Cost, Resource::Calls, Resource::Wall, Resource::Bytes, Resource::Memory];

#[test]
fn r61_each_heading_and_each_word_of_a_table_is_translated() {
    let catalogue = Catalogue::parse(CHINESE);
    let words: Vec<Literal> = literals(&crates(), &["cli"])
        .into_iter()
        .filter(|literal| literal.is_word() && !literal.text.contains('{'))
        .collect();
    assert!(words.len() > 60, "{}", words.len());
    let names = (RunState::ALL.iter().map(|state| state.name()))
        .chain(LifecycleKind::ALL.iter().map(|state| state.name()))
        .chain(QueueState::ALL.iter().map(|state| state.name()))
        .chain(OUTCOMES.map(Outcome::name))
        .chain(SCOPES.map(Scope::name))
        .chain(RESOURCES.map(Resource::name));
    let all = words.iter().map(|literal| literal.text.trim()).chain(names);
    let missing: Vec<&str> = all.filter(|word| !word.is_empty() && catalogue.translated(word).is_none()).collect();
    assert!(missing.is_empty(), "{missing:?}");
}

/// Lines of docs/mistakes.md that stay English here: they are of a model or of the parser, or their words are translated where the
/// line is made.
const ENGLISH_LINES: [&str; 5] = [
    "✗ exec denied",
    "limulus [OPTIONS]",
    "`touch made` did not work:",
    "Not run: not allowed",
    "│ Not run: not allowed",
];

#[test]
fn r61_each_mistake_of_a_first_day_is_answered_in_chinese() {
    let catalogue = Catalogue::parse(CHINESE);
    let page = std::fs::read_to_string(crates().join("../docs/mistakes.md")).expect("the page");
    let outputs: Vec<&str> = page.split("```console\n").skip(1).filter_map(|block| block.split("```").next()).collect();
    assert!(outputs.len() >= 45, "{}", outputs.len());
    let lines = outputs.iter().flat_map(|output| output.lines().filter(|line| !line.starts_with("$ ")));
    let is_english = |line: &&str| ENGLISH_LINES.iter().any(|beginning| line.trim_start().starts_with(beginning));
    let is_chinese = |line: &str| catalogue.lines(line).chars().any(|c| matches!(c, '\u{4e00}'..='\u{9fff}'));
    let missing: Vec<&str> =
        lines.filter(|line| !line.trim().is_empty() && !is_english(line) && !is_chinese(line)).collect();
    assert!(missing.is_empty(), "{missing:#?}");
    for beginning in ENGLISH_LINES {
        assert!(page.contains(beginning), "no output has {beginning:?}");
    }
}

/// What people, files and commands say stays as it is, also where the program says the same.
#[test]
fn r61_the_words_of_others_are_not_translated() {
    let catalogue = Catalogue::parse(CHINESE);
    for words in ["nothing is unfinished", "completed", "error: there is no session", "cannot read a: it is a folder"] {
        let steered = catalogue.lines(&format!("› you, from another terminal: {words}"));
        assert_eq!(steered, format!("› 你（另一个终端）：{words}"));
        for line in [format!("  │ {words}"), format!("› {words}")] {
            assert_eq!(catalogue.lines(&line), line);
        }
    }
}

#[test]
fn no_message_of_the_catalogue_hides_another_one() {
    let catalogue = Catalogue::parse(CHINESE);
    let resource = fluent_syntax::parser::parse(CHINESE).expect("another test reads it");
    let mut hidden = vec![];
    for entry in &resource.body {
        let Entry::Message(message) = entry else { continue };
        let (english, translated) = Catalogue::sample(message);
        let found = catalogue.translated(&english);
        if found.as_deref() != Some(&*translated) {
            hidden.push(format!("{}: {english:?} gives {found:?}", message.id.name));
        }
    }
    assert!(hidden.is_empty(), "{hidden:#?}");
}
