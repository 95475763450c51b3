//! The help of the command line in the language of this process. Its English texts are in the definition of the commands.

use clap::builder::StyledStr;
use clap::{Arg, Command};

use super::catalogue::Catalogue;
use crate::output::Output;
use crate::wrap::{LongWord, rows};

/// Columns before the text of an option, which is below its name.
const INDENT: usize = 10;

/// Columns of help at most, as in English.
const WIDEST: usize = 100;

/// The words that the parser itself prints.
struct Words {
    usage: &'static str,
    arguments: &'static str,
    options: &'static str,
    commands: &'static str,
    help: &'static str,
    version: &'static str,
    help_command: &'static str,
}

const CHINESE: Words = Words {
    usage: "用法：",
    arguments: "参数",
    options: "选项",
    commands: "命令",
    help: "显示帮助",
    version: "显示版本",
    help_command: "显示这个命令或其子命令的帮助",
};

/// The command with its help translated; None if the language is English.
pub(crate) fn translated(command: Command) -> Option<Command> {
    let catalogue = super::catalogue()?;
    let width = Output::Stdout.width().min(WIDEST);
    Some(in_language(command, catalogue, width))
}

fn in_language(mut command: Command, catalogue: &Catalogue, width: usize) -> Command {
    // Makes the arguments that the parser adds.
    command.build();
    command_in_language(command, catalogue, width)
}

fn command_in_language(command: Command, catalogue: &Catalogue, width: usize) -> Command {
    let is_program = command.get_name() == "limulus";
    let of = |text: &StyledStr| catalogue_text(catalogue, &text.to_string());
    let (about, long_about) = (command.get_about().map(of), command.get_long_about().map(of));
    // The parser adds this one to each command that has others.
    let about = if command.get_name() == "help" { Some(CHINESE.help_command.to_owned()) } else { about };
    let (after, after_long) = (command.get_after_help().map(of), command.get_after_long_help().map(of));
    let wrapped = |text: String| wrapped(&text, width);
    let mut command = command
        .mut_args(|arg| argument(arg, catalogue, width))
        .mut_subcommands(|inner| command_in_language(inner, catalogue, width))
        .subcommand_help_heading(CHINESE.commands)
        .next_line_help(true);
    if let Some(text) = about {
        command = command.about(wrapped(text));
    }
    if let Some(text) = long_about {
        command = command.long_about(wrapped(text));
    }
    if let Some(text) = after {
        command = command.after_help(wrapped(text));
    }
    if let Some(text) = after_long {
        command = command.after_long_help(wrapped(text));
    }
    if is_program {
        command = command.override_usage("limulus [选项] [消息]\n      limulus [选项] <命令>");
    }
    let list = if is_program { list(&command, width) } else { "{all-args}".to_owned() };
    command.help_template(format!(
        "{{before-help}}{{about-with-newline}}\n{}{{usage}}\n\n{list}{{after-help}}",
        CHINESE.usage
    ))
}

/// The commands in their groups, with the options of the program.
fn list(program: &Command, width: usize) -> String {
    let mut text = String::new();
    for line in crate::args::GROUPED.lines() {
        let name = line.strip_prefix("  ").and_then(|line| line.split(' ').next()).filter(|name| !name.is_empty());
        match name {
            Some(name) => {
                let about = program.find_subcommand(name).and_then(Command::get_about).map(ToString::to_string);
                let about = about.unwrap_or_default().replace('\n', "");
                let rows = rows(&about, width.saturating_sub(15), width.saturating_sub(15), LongWord::Whole);
                let below = format!("\n{}", " ".repeat(15));
                text.extend([&format!("  {name:<11}  "), &rows.join(&below), "\n"]);
            }
            None if line.starts_with(' ') => {}
            None => {
                text.push_str(&super::text(line));
                text.push('\n');
            }
        }
    }
    format!("{text}\n{}：\n{{options}}", CHINESE.options)
}

fn argument(arg: Arg, catalogue: &Catalogue, width: usize) -> Arg {
    let heading = if arg.is_positional() { CHINESE.arguments } else { CHINESE.options };
    let mut text = match arg.get_id().as_str() {
        "help" => CHINESE.help.to_owned(),
        "version" => CHINESE.version.to_owned(),
        "subcommand" => CHINESE.help_command.to_owned(),
        _ => arg.get_help().map(|text| catalogue_text(catalogue, &text.to_string())).unwrap_or_default(),
    };
    if !arg.is_hide_possible_values_set() && arg.get_action().takes_values() {
        let values = arg.get_possible_values();
        let names: Vec<&str> =
            values.iter().filter(|value| !value.is_hide_set()).map(clap::builder::PossibleValue::get_name).collect();
        if !names.is_empty() {
            text = format!("{text}［可选值：{}］", names.join("、"));
        }
    }
    if !arg.is_hide_default_value_set() && arg.get_action().takes_values() && !arg.get_default_values().is_empty() {
        let values: Vec<_> = arg.get_default_values().iter().map(|value| value.to_string_lossy()).collect();
        text = format!("{text}［默认：{}］", values.join("、"));
    }
    let rows = rows(text.trim(), width.saturating_sub(INDENT), width.saturating_sub(INDENT), LongWord::Whole);
    arg.help(rows.join("\n")).hide_possible_values(true).hide_default_value(true).help_heading(heading)
}

/// The whole text, or each of its paragraphs.
fn catalogue_text(catalogue: &Catalogue, english: &str) -> String {
    let paragraph = |text: &str| catalogue.translated(text).unwrap_or_else(|| catalogue.lines(text));
    catalogue
        .translated(english)
        .unwrap_or_else(|| english.split("\n\n").map(paragraph).collect::<Vec<_>>().join("\n\n"))
}

fn wrapped(text: &str, width: usize) -> String {
    let line = |line: &str| {
        let body = line.trim_start_matches(' ');
        let indent = " ".repeat(line.len() - body.len());
        let cells = width.saturating_sub(indent.len());
        rows(body, cells, cells, LongWord::Whole)
            .iter()
            .map(|row| format!("{indent}{row}"))
            .collect::<Vec<_>>()
            .join("\n")
    };
    text.split('\n').map(line).collect::<Vec<_>>().join("\n")
}

#[cfg(test)]
mod tests {
    use clap::CommandFactory as _;

    use super::*;
    use crate::args::Cli;
    use crate::language;

    /// All English texts of the help that people see, but examples.
    fn texts(command: &Command, into: &mut Vec<String>) {
        let after = command.get_after_help().map(ToString::to_string).unwrap_or_default();
        let about = [command.get_about(), command.get_long_about()].into_iter().flatten().map(ToString::to_string);
        let is_example = |text: &&str| text.starts_with("Example:\n") || text.starts_with("Examples:\n");
        into.extend(about.chain(after.split("\n\n").filter(|text| !is_example(text)).map(str::to_owned)));
        let shown = command.get_arguments().filter(|arg| !arg.is_hide_set());
        let own = |arg: &&Arg| !matches!(arg.get_id().as_str(), "help" | "version");
        for arg in shown.filter(own) {
            into.extend([arg.get_help(), arg.get_long_help()].into_iter().flatten().map(ToString::to_string));
        }
        for inner in command.get_subcommands().filter(|inner| !inner.is_hide_set() && inner.get_name() != "help") {
            texts(inner, into);
        }
    }

    #[test]
    fn r61_every_text_of_the_help_is_translated() {
        let catalogue = Catalogue::parse(language::CHINESE);
        let mut all = vec![];
        texts(&Cli::command(), &mut all);
        let gone: Vec<String> =
            Catalogue::whole_texts_of_help().into_iter().filter(|text| !all.contains(text)).collect();
        let is_missing = |text: &String| !text.is_empty() && catalogue.translated(text).is_none();
        let mut missing: Vec<String> = all.into_iter().filter(is_missing).collect();
        missing.sort_unstable();
        missing.dedup();
        if let Some(path) = std::env::var_os("MISSING") {
            std::fs::write(path, [missing.join("\n%%\n"), gone.join("\n%%\n")].join("\n%% GONE\n"))
                .expect("the file can be written");
        }
        assert!(gone.is_empty(), "no command has these texts any more: {gone:#?}");
        assert!(missing.is_empty(), "locales/zh-CN.ftl has no translation of these: {missing:#?}");
    }

    fn check(command: &mut Command) {
        let help = command.render_long_help().to_string();
        assert!(help.contains("用法：") && !help.contains("Usage:") && !help.contains("Options:"), "{help}");
        assert!(!help.contains("Print this message"), "{help}");
        for inner in command.get_subcommands_mut() {
            check(inner);
        }
    }

    #[test]
    fn r61_the_help_of_each_command_is_in_chinese_and_fits() {
        let catalogue = Catalogue::parse(language::CHINESE);
        let mut program = in_language(Cli::command(), &catalogue, 80);
        check(&mut program);
        let help = program.render_help().to_string();
        let has_list = |name: &str| help.lines().any(|line| line.starts_with(&format!("  {name} ")));
        assert!(has_list("agent") && has_list("undo") && help.contains("\n选项：\n"), "{help}");
    }
}
