//! What a person with a Chinese locale sees. Whatever is for programs stays as it is.

use crate::support::Home;

fn home() -> Home {
    Home::new().with("LANG", "zh_CN.UTF-8")
}

#[test]
pub(crate) fn r61_the_help_the_errors_and_the_notes_are_in_the_language_of_the_locale() {
    let home = home();
    let help = home.run(&["--help"]).expect_code(0).out;
    assert!(help.contains("用法：limulus") && help.contains("\n工作：\n") && help.contains("显示帮助"), "{help}");
    assert_eq!(home.run(&["help", "undo"]).expect_code(0).out, home.run(&["undo", "--help"]).expect_code(0).out);
    home.run(&["sttaus"])
        .expect_code(2)
        .expect_err("错误：没有子命令“sttaus”")
        .expect_err("提示：")
        .expect_err("'status'");
    home.run(&["agent", "--timeout", "soon", "x y"]).expect_code(2).expect_err("它需要从 1 起的整数");
    let first = home.run(&["agent", "-m", "Run `touch made`"]).expect_code(3);
    first
        .expect_err("由内置的离线模型回答")
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
    let english = home().with("LC_ALL", "C").run(&["--help"]).expect_code(0).out;
    assert!(english.contains("Usage: limulus"), "{english}");
}
