//! Tests of the layers and the settings of a run.

use std::fs;

use engine::{Limits, Overrides, Policy, ResumeMode, Settings, Thinking};
use models::Api;

use super::resolve::Resolved;
use super::*;

mod candidates;
mod mistakes;

const ACME: &str = r#"
[agents.main]
model = "acme/some-model"
fallbacks = ["acme/other-model", "acme/some-model", "offline/offline"]
workspace = "~/limulus"
[providers.acme]
api = "openai-chat"
base_url = "http://127.0.0.1:9911/v1"
[[providers.acme.profiles]]
name = "first"
key = "env:ACME_KEY"
[[providers.acme.profiles]]
name = "second"
key = "sk-literal-key"
[models."acme/some-model"]
context_window = 200000
max_output = 4096
"#;

/// The configuration of a home with this file and these variables.
pub(super) fn load(file: &str, variables: &[(&str, &str)]) -> Result<Config, ConfigError> {
    let home = tempfile::tempdir().unwrap();
    if !file.is_empty() {
        fs::write(home.path().join(FILE), file).unwrap();
    }
    Config::load(home.path(), &Environment::of(variables, "/now"), FlagValues::default())
}

fn resolve(config: &Config, overrides: &Overrides) -> Result<Resolved, ConfigError> {
    config.resolve(Subject {
        agent: "main",
        overrides,
        session: runtime::SessionContext::default(),
        date: "2026-11-21",
    })
}

pub(super) fn settings(file: &str, variables: &[(&str, &str)]) -> Settings {
    resolve(&load(file, variables).unwrap(), &Overrides::default()).unwrap().settings
}

/// The error and its hint; the folder of the file is shown as HOME.
fn wrong(file: &str, variables: &[(&str, &str)]) -> (String, String) {
    let home = tempfile::tempdir().unwrap();
    fs::write(home.path().join(FILE), file).unwrap();
    let error = Config::load(home.path(), &Environment::of(variables, "/now"), FlagValues::default()).unwrap_err();
    (error.to_string().replace(home.path().to_str().unwrap(), "HOME"), error.hint())
}

#[test]
fn without_any_configuration_the_offline_model_works_in_the_current_folder() {
    let resolved = resolve(&load("", &[]).unwrap(), &Overrides::default()).unwrap();
    let settings = resolved.settings;
    assert_eq!((settings.workspace.as_str(), settings.agent.as_str()), ("/now", "main"));
    assert_eq!(settings.candidates.len(), 1);
    let candidate = &settings.candidates[0];
    assert_eq!((candidate.provider.as_str(), candidate.model.as_str()), ("offline", "offline"));
    assert_eq!(candidate.profile, None);
    assert_eq!((settings.exec, settings.outside), (Policy::Ask, Policy::Ask));
    assert_eq!((settings.limits, settings.resume), (Limits::default(), ResumeMode::Restart));
    assert_eq!(settings.tools, tools::specs());
    let note = resolved.notes.concat();
    assert!(
        note.contains("offline model") && note.contains("no key of a provider is set (`limulus setup` chooses one)"),
        "{note}"
    );
}

/// R24: the table of defaults is what a run without any configuration has.
#[test]
fn r24_without_any_configuration_the_table_of_defaults_decides() {
    let settings = settings("", &[]);
    for row in engine::tables::policy::DEFAULTS {
        assert_eq!(row.class.default_in(&settings), row.decision, "{:?}", row.class);
    }
}

#[test]
fn a_later_layer_wins() {
    let file = "[runs]\ndeadline_s = 60\nresume = \"continue\"\n[tools.exec]\npolicy = \"allow\"\n";
    let variables = &[("LIMULUS_RUNS__DEADLINE_S", "30"), ("LIMULUS_REQUESTS__RETRIES", "0"), ("LIMULUS_HOME", "/h")];
    let settings_by_file = settings(file, &[]);
    assert_eq!(settings_by_file.limits.deadline_ms, Some(60_000));
    assert_eq!(settings_by_file.resume, ResumeMode::Continue);
    assert_eq!((settings_by_file.exec, settings_by_file.outside), (Policy::Allow, Policy::Allow));
    let by_variable = settings(file, variables);
    assert_eq!((by_variable.limits.deadline_ms, by_variable.limits.retries), (Some(30_000), 0));
    assert_eq!(by_variable.limits.idle_timeout_ms, 60_000, "an unset value keeps its default");
    let overrides = Overrides { deadline_ms: Some(5), ..Overrides::default() };
    let by_flag = resolve(&load(file, variables).unwrap(), &overrides).unwrap().settings;
    assert_eq!(by_flag.limits.deadline_ms, Some(5));
}

/// R60: what a message asks of its models counts for all of them, and a limited answer is not continued.
#[test]
fn r60_a_message_says_how_its_models_answer() {
    let file = "[agents.main]\nmodel = \"acme/one\"\nfallbacks = [\"acme/two\"]\n[providers.acme]\napi = \"openai-chat\"\n\
                base_url = \"http://127.0.0.1:1/v1\"\n[models.\"acme/one\"]\nmax_output = 50\n\
                [models.\"acme/two\"]\nmax_output = 5000\n";
    let usual = settings(file, &[]);
    let sampling = engine::Sampling { temperature: Some(700), top_p: None };
    let overrides = Overrides {
        max_output: std::num::NonZeroU32::new(100),
        sampling: Some(Box::new(sampling)),
        ..Overrides::default()
    };
    let asked = resolve(&load(file, &[]).unwrap(), &overrides).unwrap().settings;
    let most = |settings: &Settings| settings.candidates.iter().map(|one| one.max_output).collect::<Vec<_>>();
    assert_eq!((most(&usual), most(&asked)), (vec![50, 5_000], vec![50, 100]));
    assert!(asked.candidates.iter().all(|one| one.sampling == sampling));
    assert_eq!((usual.limits.continuations, asked.limits.continuations), (2, 0));
}

#[test]
fn r49_by_default_a_run_has_a_stall_limit_and_no_deadline_and_a_command_is_told_its_limit() {
    let of = |file: &str| {
        let settings = settings(file, &[]);
        let Limits { deadline_ms, stall_ms, tool_timeout_ms, .. } = settings.limits;
        let exec = settings.tool("exec").unwrap().schema["properties"]["timeout_s"].clone();
        (
            deadline_ms,
            stall_ms,
            tool_timeout_ms,
            exec["description"].as_str().unwrap().to_owned(),
            exec["maximum"].clone(),
        )
    };
    let (deadline, stall, tool, description, maximum) = of("");
    assert_eq!((deadline, stall, tool), (None, Some(1_800_000), 600_000));
    assert!(description.contains("600 if left out, at most 3600") && maximum == 3_600, "{description}");
    let (deadline, stall, tool, description, maximum) =
        of("[runs]\ndeadline_s = 60\nstall_s = \"off\"\n[tools]\ncall_s = 7\n");
    assert_eq!((deadline, stall, tool), (Some(60_000), None, 7_000), "the old name of a key still counts");
    assert!(description.contains("7 if left out, at most 3600") && maximum == 3_600, "{description}");
    // What an older version stored is read as it was meant.
    let mut old = serde_json::to_value(Limits::default()).unwrap();
    old["deadline_ms"] = 600_000.into();
    old.as_object_mut().unwrap().remove("stall_ms");
    let old: Limits = serde_json::from_value(old).unwrap();
    assert_eq!((old.deadline_ms, old.stall_ms), (Some(600_000), None));
}

#[test]
fn a_workspace_is_from_the_flag_else_the_file_else_here() {
    let check = |file: &str, flag: Option<&str>, expected: &str| {
        let home = tempfile::tempdir().unwrap();
        fs::write(home.path().join(FILE), file).unwrap();
        let environment = Environment::of(&[("HOME", "/u")], "/now");
        let flags = FlagValues { workspace: flag.map(str::to_owned), ..FlagValues::default() };
        let config = Config::load(home.path(), &environment, flags).unwrap();
        assert_eq!(resolve(&config, &Overrides::default()).unwrap().settings.workspace, expected);
    };
    let file = "[agents.main]\nworkspace = \"~/limulus\"\n";
    check("", None, "/now");
    check(file, None, "/u/limulus");
    check(file, Some("there"), "/now/there");
}

/// R41: the folder in which a service was started is nobody's workspace.
#[test]
fn r41_a_service_takes_no_relative_workspace_and_has_one_of_its_own() {
    let check = |file: &str, flag: Option<&str>, sent: Option<&str>, expected: Result<&str, &str>| {
        let home = tempfile::tempdir().unwrap();
        fs::write(home.path().join(FILE), file).unwrap();
        let environment = Environment::of(&[("HOME", "/u")], "/now");
        let flags = FlagValues { workspace: flag.map(str::to_owned), is_service: true, ..FlagValues::default() };
        let config = Config::load(home.path(), &environment, flags).unwrap();
        let overrides = Overrides { workspace: sent.map(str::to_owned), ..Overrides::default() };
        match (resolve(&config, &overrides), expected) {
            (Ok(resolved), Ok(expected)) => assert_eq!(resolved.settings.workspace, expected, "{file}"),
            (Err(error), Err(part)) => {
                assert!(error.to_string().contains(part) && error.hint().contains("absolute"), "{error}");
                assert_eq!(config.check_workspace().is_err(), sent.is_none(), "{file}");
            }
            (resolved, expected) => panic!("{file} {resolved:?} {expected:?}"),
        }
    };
    let (relative, absolute) = ("[agents.main]\nworkspace = \"work\"\n", "[agents.main]\nworkspace = \"~/w\"\n");
    check("", None, None, Ok("/u/limulus/main"));
    check("", None, Some("/sent"), Ok("/sent"));
    check("", None, Some("sent"), Err("`sent`"));
    for relative in ["flag", "./flag", "."] {
        check("", Some(relative), None, Err(&format!("`{relative}`")));
    }
    check("", Some("~/flag"), None, Ok("/u/flag"));
    check("", Some("/flag"), None, Ok("/flag"));
    check("", Some("flag"), Some("/sent"), Ok("/sent"));
    check(absolute, None, None, Ok("/u/w"));
    check(relative, None, None, Err("`work`"));
    check(relative, None, Some("/sent"), Ok("/sent"));
}

#[test]
fn yes_allows_what_would_be_asked_and_nothing_that_is_denied() {
    let check = |file: &str, exec: Policy, outside: Policy| {
        let overrides = Overrides { allow: true, ..Overrides::default() };
        let settings = resolve(&load(file, &[]).unwrap(), &overrides).unwrap().settings;
        assert_eq!((settings.exec, settings.outside), (exec, outside), "{file}");
    };
    check("", Policy::Allow, Policy::Allow);
    check("[tools.exec]\npolicy = \"deny\"", Policy::Deny, Policy::Deny);
    check("[tools.outside_workspace]\npolicy = \"deny\"", Policy::Allow, Policy::Deny);
}

#[test]
fn a_key_is_read_when_it_is_needed_and_shown_to_nobody() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("key");
    fs::write(&path, "sk-from-file\n").unwrap();
    let file = format!("{ACME}[[providers.acme.profiles]]\nname = \"third\"\nkey = \"file:{}\"\n", path.display())
        .replace("[models.", "[models .");
    let variables = &[("ACME_KEY", "sk-from-env"), ("LIMULUS_PROVIDERS__ACME__PROFILES__1__KEY", "sk-by-variable")];
    let config = load(&file, variables).unwrap();
    let key = |profile: &str| config.endpoint("acme", Some(profile)).map(|endpoint| endpoint.key.unwrap());
    assert_eq!(key("first").unwrap().reveal(), "sk-from-env");
    assert_eq!(key("second").unwrap().reveal(), "sk-by-variable");
    assert_eq!(key("third").unwrap().reveal(), "sk-from-file");
    assert_eq!(config.secrets(), ["sk-from-env", "sk-by-variable", "sk-from-file"]);
    assert_eq!(
        config.secret_env(),
        [
            "ACME_KEY",
            "ANTHROPIC_API_KEY",
            "AWS_BEARER_TOKEN_BEDROCK",
            "AZURE_OPENAI_API_KEY",
            "DASHSCOPE_API_KEY",
            "DEEPSEEK_API_KEY",
            "FIREWORKS_API_KEY",
            "GEMINI_API_KEY",
            "GROQ_API_KEY",
            "LIMULUS_PROVIDERS__ACME__PROFILES__1__KEY",
            "MINIMAX_API_KEY",
            "MISTRAL_API_KEY",
            "MOONSHOT_API_KEY",
            "OPENAI_API_KEY",
            "OPENROUTER_API_KEY",
            "TOGETHER_API_KEY",
            "XAI_API_KEY",
            "ZAI_API_KEY"
        ]
    );
    let shown = format!("{config:?}");
    assert!(!shown.contains("sk-"), "{shown}");
    fs::remove_file(&path).unwrap();
    let gone = key("third").unwrap_err().to_string();
    assert!(
        gone.starts_with("the key of `acme` (profile `third`) is unavailable: ") && gone.contains("cannot be read")
    );
    let unset = load(ACME, &[]).unwrap().endpoint("acme", Some("first")).unwrap_err().to_string();
    assert_eq!(unset, "the key of `acme` (profile `first`) is unavailable: the variable ACME_KEY is not set");
    let no_profile = config.endpoint("acme", Some("fourth")).unwrap_err().to_string();
    assert_eq!(no_profile, "the provider `acme` has no profile `fourth`");
    assert_eq!(config.endpoint("offline", None), Ok(models::Endpoint::offline()));
}
