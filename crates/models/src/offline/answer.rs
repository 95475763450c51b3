//! Writes the answers in both languages from the actual results of the tools.

use super::grammar::Act;
use super::turn::{Language, Output};

/// Names of a listing, lines of a file or of an output, matches: how many an answer shows.
const NAMES: usize = 12;
const LINES: usize = 8;
const LINE_CHARS: usize = 160;

impl Language {
    fn pick<'a>(self, english: &'a str, chinese: &'a str) -> &'a str {
        match self {
            Self::English => english,
            Self::Chinese => chinese,
        }
    }
}

const INTRODUCTION: &str = "I am Limulus' built-in offline model: no AI, but a small program that works the tools from plain \
                            requests, without a network and without a key.";
const INTRODUCTION_ZH: &str =
    "我是 Limulus 内置的离线模型：不是人工智能，只是一个按简单请求使用工具的小程序，不需要网络和密钥。";
const EXAMPLES: &str = "- What is in this folder?\n- read README.md and search for TODO in src\n\
                        - run `wc -l *.md`, then write \"hello\" to notes.txt";
const EXAMPLES_ZH: &str =
    "- 这个文件夹里有什么？\n- 读取 README.md，然后在 src 里搜索 TODO\n- 运行 `wc -l *.md`，再把“你好”写入 notes.txt";

pub(super) fn not_understood(language: Language) -> String {
    match language {
        Language::English => {
            format!(
                "I am Limulus' built-in offline model, no AI, and I did not understand that. Try for example:\n{EXAMPLES}\n\
                 For anything else, connect a model: `limulus setup`."
            )
        }
        Language::Chinese => {
            format!(
                "我是 Limulus 内置的离线模型，不是人工智能，没有看懂这句话。可以试试：\n{EXAMPLES_ZH}\n其他请求需要连接模型：`limulus setup`。"
            )
        }
    }
}

pub(super) fn nothing_more(language: Language) -> String {
    language.pick("There is nothing more to say.", "没有更多内容了。").to_owned()
}

/// Lists what was done before the run had to stop.
pub(super) fn so_far(mut sections: Vec<String>, language: Language) -> String {
    let stopped = language.pick("I stopped here: nothing more may be spent.", "做到这里为止：已没有可用的额度。");
    sections.push(stopped.to_owned());
    sections.join("\n\n")
}

/// Describes the result of an act.
pub(super) fn section(act: &Act, outputs: &[&Output], language: Language) -> String {
    if let Some(failed) = outputs.first().filter(|output| output.is_error) {
        return failure(act, &failed.text, language);
    }
    let text = outputs.first().map_or("", |output| &*output.text);
    match act {
        Act::Introduce => language
            .pick(
                &format!("{INTRODUCTION} Try for example:\n{EXAMPLES}"),
                &format!("{INTRODUCTION_ZH}可以试试：\n{EXAMPLES_ZH}"),
            )
            .to_owned(),
        Act::List { path } => listing(path.as_deref(), text, language),
        Act::Look { path } => {
            let mut section = listing(path.as_deref(), text, language);
            if let Some(readme) = outputs.get(1).filter(|readme| !readme.is_error) {
                section += &about(&readme.text, language);
            }
            section
        }
        Act::Read { path, .. } => file(path, text, language),
        Act::Search { text: wanted, .. } => matches(wanted, text, language),
        Act::Run { command } => {
            let head = language.pick("gave", "的输出");
            format!("`{command}` {head}:\n{}", lines(text, language))
        }
        Act::Find { pattern, .. } => {
            let head = language.pick("is the name of", "匹配");
            format!("{pattern} {head}:\n{}", lines(text, language))
        }
        Act::Fetch { url } => {
            let head = language.pick("says", "的内容");
            format!("{url} {head}:\n{}", lines(text, language))
        }
        Act::Write { .. } | Act::Edit { .. } => {
            let done = language.pick("Done: ", "完成：");
            format!("{done}{}", clip(text.trim()))
        }
    }
}

fn failure(act: &Act, text: &str, language: Language) -> String {
    let what = match act {
        Act::List { path } | Act::Look { path } => format!("ls {}", path.as_deref().unwrap_or(".")),
        Act::Read { path, .. } => format!("read {path}"),
        Act::Search { text, .. } => format!("grep {text}"),
        Act::Run { command } => format!("`{command}`"),
        Act::Write { path, .. } => format!("write {path}"),
        Act::Edit { path, .. } => format!("edit {path}"),
        Act::Find { pattern, .. } => format!("find {pattern}"),
        Act::Fetch { url } => format!("fetch {url}"),
        Act::Introduce => String::new(),
    };
    let head = language.pick("did not work", "没有成功");
    format!("{what} {head}:\n{}", lines(text, language))
}

/// Entries of a listing without its notes.
fn entries(listing: &str) -> impl Iterator<Item = &str> {
    listing.lines().filter(|line| !line.is_empty() && !line.starts_with('['))
}

/// The name of an entry; two blanks separate it from the size of a file.
fn name(entry: &str) -> &str {
    entry.split("  ").next().unwrap_or(entry).trim()
}

/// The name of the README in a listing.
pub(super) fn readme(listing: &str) -> Option<&str> {
    let names = || entries(listing).map(name);
    let is_readme = |name: &&str| name.to_lowercase().starts_with("readme") && !name.ends_with('/');
    names().find(|name| name.eq_ignore_ascii_case("README.md")).or_else(|| names().find(is_readme))
}

fn listing(path: Option<&str>, text: &str, language: Language) -> String {
    let place = path.map_or(language.pick("This folder", "这个文件夹").to_owned(), |path| format!("`{path}`"));
    if text.trim_end().ends_with("is empty") && text.lines().count() == 1 {
        return format!("{place} {}", language.pick("is empty.", "是空的。"));
    }
    let names: Vec<&str> = entries(text).map(name).collect();
    let folders = names.iter().filter(|name| name.ends_with('/')).count();
    let files = names.len() - folders;
    let shown = names[..names.len().min(NAMES)].join(", ");
    let rest = if names.len() > NAMES { ", …" } else { "" };
    match language {
        Language::English => format!(
            "{place} has {}: {} and {}.\n{shown}{rest}",
            plural(names.len(), "entry", "entries"),
            plural(folders, "folder", "folders"),
            plural(files, "file", "files")
        ),
        Language::Chinese => {
            format!("{place}里有 {} 项：{folders} 个文件夹，{files} 个文件。\n{shown}{rest}", names.len())
        }
    }
}

fn plural(count: usize, one: &str, more: &str) -> String {
    format!("{count} {}", if count == 1 { one } else { more })
}

/// The title and the first paragraph of a README.
fn about(readme: &str, language: Language) -> String {
    let plain = |line: &&str| !line.is_empty() && !line.starts_with(['#', '[', '!', '<', '`', '=', '-', '|']);
    let title = readme.lines().find_map(|line| line.strip_prefix("# ")).map(clip);
    let paragraph: Vec<&str> =
        readme.lines().map(str::trim).skip_while(|line| !plain(line)).take_while(plain).take(3).collect();
    let paragraph = clip(&paragraph.join(" "));
    match (title, language) {
        (None, _) if paragraph.is_empty() => String::new(),
        (None, Language::English) => format!("\n\nIts README begins: {paragraph}"),
        (None, Language::Chinese) => format!("\n\n它的 README 开头是：{paragraph}"),
        (Some(title), Language::English) => {
            format!("\n\nIts README is titled \"{title}\". {paragraph}").trim_end().to_owned()
        }
        (Some(title), Language::Chinese) => format!("\n\n它的 README 标题是“{title}”。{paragraph}"),
    }
}

fn file(path: &str, text: &str, language: Language) -> String {
    if text.trim().is_empty() {
        return format!("{path} {}", language.pick("is empty.", "是空的。"));
    }
    let count = text.lines().filter(|line| !line.starts_with("[more lines follow")).count();
    match language {
        Language::English => {
            format!("{path} ({} read) begins:\n{}", plural(count, "line", "lines"), lines(text, language))
        }
        Language::Chinese => format!("{path}（读了 {count} 行）开头是：\n{}", lines(text, language)),
    }
}

fn matches(wanted: &str, text: &str, language: Language) -> String {
    if text.trim_start().starts_with("no matches") {
        return format!("{} \"{wanted}\".", language.pick("There is no match for", "没有找到"));
    }
    let found: Vec<&str> = entries(text).collect();
    let mut files: Vec<&str> = found.iter().filter_map(|line| line.split(':').next()).collect();
    files.dedup();
    match language {
        Language::English => format!(
            "\"{wanted}\" has {} in {}:\n{}",
            plural(found.len(), "match", "matches"),
            plural(files.len(), "file", "files"),
            lines(text, language)
        ),
        Language::Chinese => {
            format!("“{wanted}”在 {} 个文件里有 {} 处：\n{}", files.len(), found.len(), lines(text, language))
        }
    }
}

/// The first lines, and how many more there are.
fn lines(text: &str, language: Language) -> String {
    let all: Vec<&str> = text.lines().map(str::trim_end).filter(|line| !line.is_empty()).collect();
    let mut shown: Vec<String> = all.iter().take(LINES).map(|line| format!("  {}", clip(line))).collect();
    if all.len() > LINES {
        let rest = all.len() - LINES;
        shown.push(match language {
            Language::English => format!("  … and {}", plural(rest, "more line", "more lines")),
            Language::Chinese => format!("  …… 还有 {rest} 行"),
        });
    }
    shown.join("\n")
}

fn clip(text: &str) -> String {
    match text.char_indices().nth(LINE_CHARS) {
        Some((end, _)) => format!("{}…", &text[..end]),
        None => text.to_owned(),
    }
}
