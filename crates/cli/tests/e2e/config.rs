//! The configuration, completions in a real shell, and manual pages.

use std::fs;
use std::os::unix::fs::PermissionsExt as _;

use crate::support::Home;

#[test]
fn r61_a_file_to_begin_with_is_written_once_and_changes_nothing() {
    let home = Home::new();
    let before = home.json(&["config", "show"])["settings"].clone();
    home.run(&["config", "init"]).expect_code(0);
    let file = home.path().join("config.toml");
    let text = fs::read_to_string(&file).unwrap();
    assert!(text.contains("\n# deadline_s = \"off\" "), "{text}");
    assert_eq!(home.json(&["config", "show"])["settings"], before);
    fs::write(&file, text.replace("# deadline_s = \"off\"", "deadline_s = 60")).unwrap();
    let refused = home.run(&["config", "init"]).expect_code(3).verdict();
    assert!(refused.contains("exists already and was not changed"), "{refused}");
    assert_eq!(home.run(&["config", "init", "--print"]).expect_code(0).out, text);
    let line = text.lines().position(|line| line.starts_with("# deadline_s")).unwrap() + 1;
    let shown = home.run(&["config", "show", "--origin"]).expect_code(0).out;
    let place = format!("# {}:{line}", file.display());
    let row = shown.lines().find(|row| row.starts_with("runs.deadline_s = 60 ")).unwrap_or_else(|| panic!("{shown}"));
    assert!(row.ends_with(&place), "{row}");
    assert_eq!(home.json(&["config", "path"])["file"], file.display().to_string());
}

/// Whatever the umask, the home and what is in it are for its user alone.
#[test]
fn r50_the_home_is_private_whatever_the_umask() {
    for script in ["config init", "agent -m hello", "config init --json"] {
        let home = Home::new();
        home.shell(&format!("umask 000; $LIMULUS {script}")).expect_code(0);
        let mode = |path: &std::path::Path| fs::metadata(path).unwrap().permissions().mode() & 0o777;
        assert_eq!(mode(&home.path()), 0o700, "{script}");
        for entry in fs::read_dir(home.path()).unwrap() {
            let path = entry.unwrap().path();
            assert_eq!(mode(&path) & 0o077, 0, "{script}: {}", path.display());
        }
    }
}

/// A pipe as the file of a key ends the run with a reason, at once.
#[test]
fn r50_a_key_that_is_a_pipe_does_not_hang_a_request() {
    let home =
        Home::new().served_at("http://127.0.0.1:9").with("LIMULUS_PROVIDERS__ACME__PROFILES__0__KEY", "file:key");
    rustix::fs::mkfifoat(rustix::fs::CWD, home.file("key"), rustix::fs::Mode::from_raw_mode(0o600)).unwrap();
    let ended = home.start(&["agent", "-m", "hello"]).finish();
    assert!(ended.code != Some(0) && ended.err.contains("not a regular file"), "{ended:?}");
}

#[test]
fn r24_r50_a_check_reports_everything_and_the_output_contains_no_key() {
    let home = Home::new().with("LIMULUS_RUNS__RESUME", "never");
    fs::create_dir(home.path()).unwrap();
    let file = home.path().join("config.toml");
    fs::write(&file, "[runs]\ndeadline = 3\n[tools]\ntimeout_s = 0\n").unwrap();
    let checked = home.run(&["config", "check"]).expect_code(78);
    assert!(checked.verdict().contains("3 errors"), "{checked:?}");
    for part in ["config.toml:2", "runs.deadline_s", "config.toml:4", "LIMULUS_RUNS__RESUME", "restart, continue"] {
        assert!(checked.out.contains(part), "{part}: {}", checked.out);
    }
    assert_eq!(home.run(&["config", "check", "--json"]).expect_code(78).out.matches("\"what\"").count(), 3);
    let home = home.without("LIMULUS_RUNS__RESUME");
    let acme =
        "[providers.acme]\napi = \"openai-chat\"\nbase_url = \"http://127.0.0.1:1\"\n[[providers.acme.profiles]]\n";
    fs::write(
        &file,
        format!("{acme}key = \"sk-do-not-show\"\n[[providers.acme.profiles]]\nname = \"b\"\nkey = \"env:ACME_KEY\"\n"),
    )
    .unwrap();
    let checked = home.json(&["config", "check"]);
    let warning = checked["warnings"][0]["what"].as_str().unwrap_or_default();
    assert!(warning.contains("ACME_KEY is not set"), "{checked}");
    for words in [&["config", "show"][..], &["config", "show", "--json"], &["config", "check"]] {
        let shown = home.run(words).expect_code(0);
        assert!(!format!("{shown:?}").contains("sk-do-not-show"), "{shown:?}");
    }
    let shown = home.run(&["config", "show"]).expect_code(0).out;
    assert!(shown.contains("providers.acme.profiles.1.key = \"env:ACME_KEY\""), "{shown}");
    toml::from_str::<toml::Table>(&shown).unwrap_or_else(|error| panic!("it is TOML: {error}: {shown}"));
}

#[test]
fn r61_bash_completes_what_can_be_typed() {
    let home = Home::new();
    let complete = |words: &str| {
        // The function of the script calls `limulus` by its name.
        let script = format!(
            "source <(\"$LIMULUS\" completions bash)\nCOMP_WORDS=({words})\nCOMP_CWORD=$((${{#COMP_WORDS[@]}} - 1))\n\
             PATH=${{LIMULUS%/*}}:$PATH\n_clap_complete_limulus limulus \"${{COMP_WORDS[COMP_CWORD]}}\" \"${{COMP_WORDS[COMP_CWORD - 1]}}\"\n\
             echo \"${{COMPREPLY[@]}}\""
        );
        let mut bash = home.program("bash", &["-c", &script]);
        let finished = bash.env("LIMULUS", env!("CARGO_BIN_EXE_limulus")).output().expect("bash can be started");
        crate::support::Finished::from(finished).expect_code(0).out.trim().to_owned()
    };
    assert_eq!(complete("limulus se"), "send serve sessions setup");
    assert_eq!(complete("limulus sessions sh"), "show");
    assert_eq!(complete("limulus agent --mes"), "--message");
    assert_eq!(complete("limulus sessions show r"), "", "there is no session yet");
    home.run(&["agent", "--session", "review", "-m", "tokens=2 Who are you?"]).expect_code(0);
    home.run(&["agent", "--session", "notes", "-m", "tokens=2 Who are you?"]).expect_code(0);
    let run = home.json(&["runs", "show", "review"])["run"].as_str().unwrap_or_default().to_owned();
    assert_eq!(complete("limulus sessions show r"), "review");
    assert_eq!(complete("limulus events --session n"), "notes");
    assert_eq!(complete("limulus runs watch r"), "review");
    assert_eq!(complete(&format!("limulus runs show {}", &run[..30])), run);
    let models = complete("limulus models check anthropic/");
    assert!(models.contains("anthropic/claude-") && !models.contains("openai"), "{models}");
    assert_eq!(complete("limulus config get r"), "", "a key of the configuration is no session");
    for shell in ["zsh", "fish", "elvish", "powershell"] {
        let script = home.run(&["completions", shell]).expect_code(0).out;
        assert!(
            script.contains(&format!("limulus completions {shell} -- ")) && !script.contains("ANSWERS"),
            "{script}"
        );
    }
    home.run(&["completions", "abacus"]).expect_code(2);
}

#[test]
fn r61_every_command_has_a_page_with_its_name_and_its_options() {
    let home = Home::new();
    let folder = home.user().join("pages");
    let written = home.json(&["man", "--dir", folder.to_str().unwrap()]);
    let files: Vec<&str> = written["files"].as_array().unwrap().iter().map(|file| file.as_str().unwrap()).collect();
    assert!(files.len() > 20, "{files:?}");
    for file in files {
        let page = fs::read_to_string(file).unwrap().replace('\\', "");
        let name = file.rsplit('/').next().unwrap().trim_end_matches(".1");
        assert!(page.contains(&format!(".SH NAME\n{name}")), "{name}: {page}");
        let words: Vec<&str> = name.split('-').skip(1).chain(["--help"]).collect();
        let help = home.run(&words).expect_code(0).out;
        let options = help.lines().filter_map(|line| line.split_whitespace().find(|word| word.starts_with("--")));
        for option in options.filter(|option| option.len() > 2) {
            assert!(page.contains(option), "{option} of {name}: {page}");
        }
    }
    assert!(home.run(&["man"]).expect_code(0).out.contains(".SH NAME"));
}
