//! The terminal: its type, size, characters and colours.

use config::Environment;

use super::{Level, Section};
use crate::output::Output;

/// Columns below which tables and questions are hard to read.
const NARROW: usize = 60;

pub(super) fn look(environment: &Environment) -> Section {
    let mut section = Section::new("terminal");
    utf8(&mut section, environment);
    if !Output::Stdout.is_terminal() {
        section.add("terminal", Level::Note, "stdout is no terminal: output is plain, and nothing is asked");
        return section;
    }
    let kind = environment.get("TERM").unwrap_or_default();
    if Output::Stdout.can_redraw() {
        section.add("terminal", Level::Ok, format!("{kind}{}", multiplexer(environment)));
    } else {
        let text = if kind.is_empty() { "TERM is not set".to_owned() } else { format!("TERM is {kind}") };
        let hint = "set TERM to the type of your terminal, such as xterm-256color";
        section.hint("terminal", Level::Warning, format!("{text}: nothing is drawn, output is lines"), hint);
    }
    let (width, height) = (Output::Stdout.width(), Output::Stdout.height());
    if width < NARROW {
        let hint = format!("{NARROW} columns or more are easier to read");
        section.hint("size", Level::Warning, format!("{width} columns and {height} rows"), hint);
    } else {
        section.add("size", Level::Ok, format!("{width} columns and {height} rows"));
    }
    let colours = match environment.get("COLORTERM") {
        _ if !Output::Stdout.has_colors() => "no colours (NO_COLOR, CLICOLOR, TERM or --color says so)",
        Some("truecolor" | "24bit") => "16 million colours",
        _ if kind.ends_with("256color") => "256 colours",
        _ => "colours",
    };
    section.add("colours", Level::Ok, colours);
    section
}

/// Whether the locale says that the terminal shows UTF-8.
fn utf8(section: &mut Section, environment: &Environment) {
    let set = ["LC_ALL", "LC_CTYPE", "LANG"].into_iter().find_map(|name| Some((name, environment.get(name)?)));
    let is_utf8 =
        |value: &str| matches!(value.to_lowercase(), lower if lower.ends_with("utf-8") || lower.ends_with("utf8"));
    match set {
        Some((_, value)) if is_utf8(value) => section.add("characters", Level::Ok, "UTF-8"),
        set => {
            let says = set.map_or("no locale is set".to_owned(), |(name, value)| format!("{name} is {value}"));
            let text = format!("{says}: a terminal without UTF-8 shows some characters wrong");
            section.hint("characters", Level::Note, text, "set LANG to a locale with UTF-8, such as C.UTF-8");
        }
    }
}

fn multiplexer(environment: &Environment) -> &'static str {
    match (environment.get("TMUX"), environment.get("STY")) {
        (Some(_), _) => " in tmux",
        (None, Some(_)) => " in screen",
        (None, None) => "",
    }
}
