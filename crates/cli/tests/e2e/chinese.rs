//! What a person with a Chinese locale sees. Whatever is for programs stays as it is.

use std::fs;

use model_server::ModelServer;
use unicode_width::UnicodeWidthStr as _;

use crate::support::{CLOSED, HOLD, Home, Terminal, pids, until};

fn home() -> Home {
    Home::new().with("LANG", "zh_CN.UTF-8")
}

#[test]
pub(crate) fn r61_the_help_the_errors_and_the_notes_are_in_the_language_of_the_locale() {
    let home = home();
    let help = home.run(&["--help"]).expect_code(0).out;
    assert!(help.contains("用法：limulus") && help.contains("\n工作：\n") && help.contains("显示帮助"), "{help}");
    assert_eq!(home.run(&["help", "undo"]).expect_code(0).out, home.run(&["undo", "--help"]).expect_code(0).out);
    // The help that stands where a command is missing.
    for command in ["runs", "sessions", "config", "models"] {
        let help = home.run(&[command]).expect_code(2).err;
        assert!(help.contains("用法：limulus") && !help.contains("Commands:"), "{help}");
    }
    home.run(&["sttaus"])
        .expect_code(2)
        .expect_err("错误：没有子命令“sttaus”")
        .expect_err("提示：")
        .expect_err("'status'");
    home.run(&["agent", "--timeout", "soon", "x y"]).expect_code(2).expect_err("它需要从 1 起的整数");
    let first = home.run(&["agent", "-m", "Run `touch made`"]).expect_code(3);
    first
        .expect_err("由内置的离线模型回答")
        .expect_err("✗ exec 被拒绝 · ")
        .expect_err("\nlimulus：运行已完成")
        .expect_err("\n  提示：`limulus runs show ");
    home.run(&["sessions", "show", "nix"]).expect_code(4).expect_err("limulus：没有会话 `agent:main:nix`");
}

#[test]
pub(crate) fn r61_what_programs_read_is_in_no_language() {
    let (chinese, english) = (home(), Home::new());
    for words in [&["config", "show"][..], &["--version"], &["config", "schema"], &["completions", "fish"]] {
        assert_eq!(chinese.run(words).expect_code(0).out, english.run(words).expect_code(0).out, "{words:?}");
    }
    let lines = chinese.run(&["agent", "--json", "-m", "Run `touch made`"]).expect_code(3).out;
    assert!(lines.contains("\"result\"") && !lines.chars().any(|c| matches!(c, '\u{4e00}'..='\u{9fff}')), "{lines}");
    let error = chinese.run(&["agent", "--json", "--model", "x", "a b"]).expect_code(78).verdict();
    assert!(error.starts_with("limulus: `x` is not a model\n"), "{error}");
    for (words, code) in [
        (&["runs", "show", "nix", "--json"][..], 4),
        (&["undo", "--json"], 3),
        (&["send", "--json", "/undo", "--key", "k"], 2),
        (&["status", "--json", "--bogus"], 2),
        (&["receipt", "--json"], 2),
        (&["runs", "list", "--json", "--limit", "none"], 2),
        (&["--json", "statsu"], 2),
    ] {
        let failed = chinese.run(words).expect_code(code);
        let error: serde_json::Value = serde_json::from_str(failed.err.trim_end()).expect("one line of JSON");
        let message = error["message"].as_str().expect("a text");
        assert!(error["code"] == code && message.is_ascii() && !message.is_empty(), "{words:?}: {error}");
    }
    let english = home().with("LC_ALL", "C").run(&["--help"]).expect_code(0).out;
    assert!(english.contains("Usage: limulus"), "{english}");
}

/// From the first question of the setup to its result, each keystroke.
#[test]
pub(crate) fn r61_the_setup_asks_in_chinese() {
    if !Terminal::is_there() {
        return;
    }
    let server = ModelServer::start().unwrap();
    let home = home().with("OLLAMA_HOST", CLOSED);
    let terminal = Terminal::run(&home, &["setup"]);
    let screen = terminal.until("选哪一个？ >");
    assert!(
        screen.contains("服务商（输入编号或名字）：") && screen.contains("22. 任何兼容 OpenAI 的地址 (custom)"),
        "{screen}"
    );
    terminal.type_keys(&["m", "Enter"]);
    terminal.until("可能是 mistral, moonshot, minimax。");
    until("the question", || terminal.screen().matches("选哪一个？ >").count() == 2);
    terminal.type_keys(&["custom", "Enter"]);
    terminal.until("它的地址，例如 http://127.0.0.1:8000/v1： >");
    terminal.type_keys(&["here", "Enter"]);
    terminal.until("地址要以 http:// 或 https:// 开头。");
    terminal.type_keys(&[&server.base_url(), "Enter"]);
    terminal.until("它需要密钥吗？ [y/N]");
    terminal.type_keys(&["是", "Enter"]);
    let screen = terminal.until("怎样提供密钥？ [1]");
    assert!(screen.contains("  2. 给出保存它的变量名\n  3. 给出输出它的命令"), "{screen}");
    terminal.type_keys(&["Enter"]);
    terminal.until("请输入密钥（不会显示），然后按 Enter： >");
    terminal.type_keys(&["sk-typed-by-hand-0123456789abcdef"]);
    terminal.type_keys(&["Enter"]);
    terminal.until("它有：");
    terminal.until("哪个模型？ [scripted]");
    terminal.type_keys(&["scripted", "Enter"]);
    let screen = terminal.until("exit=0");
    for part in ["将写入 ", "custom/scripted 有回答（", "已写入 ", "它的密钥在 ", "接下来：先运行 limulus models check"]
    {
        assert!(screen.contains(part), "{part}: {screen}");
    }
    let text = fs::read_to_string(home.path().join("config.toml")).expect("the configuration");
    assert!(text.starts_with("# The configuration of limulus;") && text.contains("custom/scripted"), "{text}");
}

#[test]
pub(crate) fn r61_the_setup_in_chinese_says_what_is_missing() {
    let home = home().with("OLLAMA_HOST", CLOSED);
    home.run(&["setup"]).expect_code(3).expect_err("limulus：没有可以询问的终端\n  提示：`limulus setup --yes` 采用");
    home.run(&["setup", "--provider", "deepsek", "--key-env", "X", "--yes"])
        .expect_code(4)
        .expect_err("没有叫 `deepsek` 的服务商")
        .expect_err("最接近的是 `deepseek`；可用的有 openai");
    home.run(&["setup", "--provider", "custom", "--yes"]).expect_code(2).expect_err("需要 --url ADDRESS（例如 ");
}

/// The cells at which the columns of a line begin. Two blanks and more are between them.
fn columns(line: &str) -> Vec<usize> {
    let mut begins = vec![];
    let mut blanks = 2;
    let mut cells = 0;
    for c in line.chars() {
        if c != ' ' && blanks >= 2 {
            begins.push(cells);
        }
        blanks = if c == ' ' { blanks + 1 } else { 0 };
        cells += c.to_string().width();
    }
    begins
}

/// On a terminal the columns of each table stand under their headings, whatever the cells of their characters.
#[test]
pub(crate) fn r61_tables_in_chinese_stand_under_their_headings() {
    if !Terminal::is_there() {
        return;
    }
    let home = home();
    home.run(&["agent", "-m", "Hello"]).expect_code(0);
    home.run(&["agent", "--session", "审查", "-m", "Run `touch made`"]).expect_code(3);
    for (words, heading, rows) in [
        (&["runs", "list"][..], "运行  ", 2),
        (&["agents", "list"], "代理  ", 1),
        (&["usage", "--by", "session"], "会话  ", 3),
        (&["budget", "show", "main"], "范围  ", 5),
        (&["models", "list", "--search", "offline"], "模型  ", 1),
        (&["sessions", "context", "main"], "TOKEN  ", 1),
    ] {
        let terminal = Terminal::run_at(&home, 200, words);
        let screen = terminal.until("exit=0");
        let mut lines = screen.lines().skip_while(|line| !line.starts_with(heading));
        let head = columns(lines.next().unwrap_or_else(|| panic!("no heading {heading}: {screen}")));
        let rows_of: Vec<&str> =
            lines.take_while(|line| !line.trim().is_empty() && !line.starts_with("exit=")).collect();
        assert!(rows_of.len() >= rows && head.len() >= 4, "{words:?}: {screen}");
        for row in rows_of.into_iter().take(rows) {
            let begins = columns(row);
            assert!(
                begins.len() > 2 && begins.iter().all(|at| head.contains(at)),
                "{words:?} {head:?} {begins:?}: {screen}"
            );
        }
    }
    let terminal = Terminal::run(&home, &["sessions", "list"]);
    let screen = terminal.until("exit=0");
    let lines: Vec<&str> = screen.lines().take_while(|line| !line.starts_with("exit=")).collect();
    assert!(lines[0].starts_with("会话") && lines[0].contains("  状态  时间") && lines.len() == 3, "{screen}");
    let state = |line: &str, word: &str| line.split_once(word).map(|(before, _)| before.width());
    assert!(
        lines[1..].iter().all(|line| state(line, "空闲") == state(lines[0], "状态") && line.width() <= 80),
        "{screen}"
    );
}

/// Words of English letters that may stand in a Chinese sentence, and why.
const NAMES: &[(&str, &str)] = &[
    ("KiB", "a unit"),
    ("MiB", "a unit"),
    ("GiB", "a unit"),
    ("min", "a unit"),
    ("token", "a term that has no other word"),
    ("key", "the name of an option"),
    ("exec", "a tool"),
    ("steer", "a mode of the queue, as it is set"),
    ("followup", "a mode of the queue, as it is set"),
    ("SIGKILL", "a signal"),
    ("TEXT", "what stands for a word in a command"),
    ("RUN", "what stands for a word in a command"),
];

/// The English words of a line that are none of those, nor in quotes, nor of a command, an id, a path or a number.
fn english_words(line: &str) -> Vec<&str> {
    let outside = line.split(['`', '"']).step_by(2);
    let words = outside.flat_map(|part| {
        // A command goes on to the end of its item.
        part.split("; ").map(|item| item.split("limulus ").next().unwrap_or_default())
    });
    let words = words.flat_map(|item| item.split(|c: char| !c.is_ascii() || c == ' '));
    let words = words.map(|word| word.trim_matches(|c: char| c.is_ascii_punctuation()));
    let is_word = |word: &&str| {
        let letters = word.chars().filter(char::is_ascii_alphabetic).count();
        letters >= 3 && !word.contains(|c: char| c.is_ascii_digit() || "/.:_".contains(c))
    };
    words.filter(is_word).filter(|word| NAMES.iter().all(|(name, _)| name != word)).collect()
}

#[track_caller]
fn assert_chinese(what: &str, text: &str) {
    let english = text.lines().map(|line| (english_words(line), line)).filter(|(words, _)| !words.is_empty());
    let english: Vec<_> = english.collect();
    assert!(!text.trim().is_empty() && english.is_empty(), "{what}: {english:#?}");
}

/// Sentences that are put together are Chinese as a whole, in each state of a run.
#[test]
pub(crate) fn r61_what_is_put_together_is_chinese_as_a_whole() {
    let home = Home::new().with("LC_ALL", "zh_CN.UTF-8");
    let fresh = home.run(&["doctor"]).expect_code(0).out;
    assert!(fresh.ends_with("\n日志\n  · 还没有：第一条消息会创建它\n"), "{fresh}");
    let look = |state: &str| {
        for words in [&["status"][..], &["runs", "explain"], &["receipt", "k1"], &["receipt", "k2"]] {
            assert_chinese(&format!("{state}: {words:?}"), &home.run(words).expect_code(0).out);
        }
        let data = home.run(&["doctor", "--data"]).expect_code(0).out;
        assert_chinese(&format!("{state}: doctor"), &data);
        let all = home.run(&["doctor"]).expect_code(0).out;
        assert!(all.contains("\n日志\n数据目录"), "{all}");
    };
    let run = home.start(&["agent", "--yes", "--key", "k1", "-m", HOLD]);
    until("a command that holds", || pids(&home.file("pids")).len() == 1);
    home.run(&["send", "--mode", "followup", "--key", "k2", "你是谁？"]).expect_code(0);
    look("executing");
    let paused = home.run(&["runs", "pause"]).expect_code(0);
    assert_chinese("runs pause", &paused.out);
    look("paused");
    home.run(&["runs", "resume"]).expect_code(0);
    run.kill();
    look("killed");
    home.put("go", "");
    home.run(&["resume"]).expect_code(0);
    look("ended");
    if !Terminal::is_there() {
        return;
    }
    let terminal = Terminal::run_at(&home, 200, &["agent", "--session", "s2", "-m", "run `date`"]);
    let explain = &["runs", "explain", "--session", "s2"];
    terminal.until("[y/n/a/?]");
    until("a question", || home.run(explain).out.contains("批准"));
    assert_chinese("awaiting: explain", &home.run(explain).expect_code(0).out);
    assert_chinese("awaiting: status", &home.run(&["status"]).expect_code(0).out);
    terminal.type_keys(&["y", "Enter"]);
    let screen = terminal.until("exit=0");
    let last = screen.lines().rfind(|line| line.starts_with("完成 · ")).unwrap_or_else(|| panic!("{screen}"));
    assert!(last.contains("输入 ") && last.contains("输出 "), "{last}");
    assert_chinese("the last line", last);
}

#[test]
pub(crate) fn r61_the_demonstration_is_chinese_as_a_whole() {
    let home = Home::new().with("LC_ALL", "zh_CN.UTF-8");
    let shown = home.run(&["demo"]).expect_code(0);
    assert_chinese("demo", &shown.out);
}
