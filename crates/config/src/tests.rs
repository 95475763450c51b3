//! Tests of the layers, the settings of a run, and every message about a wrong configuration.

use std::fs;

use engine::{Limits, Overrides, Policy, ResumeMode, Settings, Thinking};
use models::Api;

use super::resolve::Resolved;
use super::*;

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
        preferences: runtime::ModelPreferences::default(),
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

#[test]
fn r61_the_key_of_a_known_provider_is_enough_to_use_it() {
    let table = [
        ("openai", "OPENAI_API_KEY", "openai-chat", "https://api.openai.com/v1"),
        ("anthropic", "ANTHROPIC_API_KEY", "anthropic", "https://api.anthropic.com/v1"),
        ("gemini", "GEMINI_API_KEY", "gemini", "https://generativelanguage.googleapis.com/v1beta"),
        ("openrouter", "OPENROUTER_API_KEY", "openai-chat", "https://openrouter.ai/api/v1"),
        ("deepseek", "DEEPSEEK_API_KEY", "openai-chat", "https://api.deepseek.com"),
        ("groq", "GROQ_API_KEY", "openai-chat", "https://api.groq.com/openai/v1"),
        ("mistral", "MISTRAL_API_KEY", "openai-chat", "https://api.mistral.ai/v1"),
        ("xai", "XAI_API_KEY", "openai-chat", "https://api.x.ai/v1"),
        ("together", "TOGETHER_API_KEY", "openai-chat", "https://api.together.ai/v1"),
        ("fireworks", "FIREWORKS_API_KEY", "openai-chat", "https://api.fireworks.ai/inference/v1"),
        ("moonshot", "MOONSHOT_API_KEY", "openai-chat", "https://api.moonshot.ai/v1"),
        ("qwen", "DASHSCOPE_API_KEY", "openai-chat", "https://dashscope-intl.aliyuncs.com/compatible-mode/v1"),
        ("zhipu", "ZAI_API_KEY", "openai-chat", "https://api.z.ai/api/paas/v4"),
        ("minimax", "MINIMAX_API_KEY", "openai-chat", "https://api.minimax.io/v1"),
    ];
    for (provider, key, api, base_url) in table {
        let config = load("", &[(key, "sk-very-own-key")]).unwrap();
        let resolved = resolve(&config, &Overrides::default()).unwrap();
        let candidate = &resolved.settings.candidates[0];
        let expected = (provider, models::default_model(provider));
        assert_eq!((candidate.provider.as_str(), Some(candidate.model.as_str())), expected);
        assert!(resolved.notes.concat().contains(&format!("{key} is set")));
        let endpoint = config.endpoint(provider, candidate.profile.as_deref()).unwrap();
        assert_eq!((endpoint.api.name(), endpoint.base_url.as_str()), (api, base_url));
        let another = config.candidate_of(&format!("{provider}/some/model")).unwrap();
        assert_eq!((another.provider.as_str(), another.model.as_str()), (provider, "some/model"));
        assert_eq!(endpoint.key.unwrap().reveal(), "sk-very-own-key");
        assert_eq!(config.secrets(), ["sk-very-own-key"]);
    }
}

#[test]
fn r61_a_known_provider_without_an_address_of_its_own_needs_one() {
    let error = load("", &[("AZURE_OPENAI_API_KEY", "sk-azure")]).unwrap().candidate_of("azure/m").unwrap_err();
    assert!(error.to_string().contains("azure"), "{error}");
    let missing = load("[[providers.azure.profiles]]\nkey = \"env:AZURE_OPENAI_API_KEY\"\n", &[]).unwrap_err();
    assert!(missing.to_string().contains("`providers.azure.base_url` is missing"), "{missing}");
    let config = load("[providers.azure]\nbase_url = \"https://r.openai.azure.com/openai/v1\"\n", &[]).unwrap();
    assert_eq!(config.endpoint("azure", None).unwrap().api.name(), "openai-chat");
}

#[test]
fn r45_a_provider_has_headers_and_a_proxy_and_a_model_its_thinking_level() {
    let file = "[agents.main]\nmodel = \"acme/m\"\nthinking = \"high\"\nfallbacks = [\"acme/small\"]\n\
                [models.\"acme/small\"]\nthinking = \"off\"\n\
                [providers.acme]\napi = \"anthropic\"\nbase_url = \"http://127.0.0.1:1/v1\"\nproxy = \"http://127.0.0.1:2\"\n\
                headers.x-team = \"env:TEAM\"\nheaders.x-beta = \"one\"\n";
    let config = load(file, &[("TEAM", "very-secret-team")]).unwrap();
    let resolved = resolve(&config, &Overrides::default()).unwrap();
    let thinking: Vec<_> = resolved.settings.candidates.iter().map(|candidate| candidate.thinking).collect();
    assert_eq!(thinking, [Some(Thinking::High), Some(Thinking::Off)]);
    let endpoint = config.endpoint("acme", None).unwrap();
    let headers: Vec<_> = endpoint.headers.iter().map(|(name, value)| (name.as_str(), value.reveal())).collect();
    assert_eq!(headers, [("x-beta", "one"), ("x-team", "very-secret-team")]);
    assert_eq!(endpoint.proxy.as_deref(), Some("http://127.0.0.1:2"));
    assert_eq!(config.secrets(), ["very-secret-team"], "a short value is no secret");
    assert_eq!(config.secret_env().iter().filter(|name| *name == "TEAM").count(), 1);
    assert!(!format!("{config:?}").contains("very-secret-team"));

    let config = load(file, &[]).unwrap();
    let error = config.endpoint("acme", None).unwrap_err();
    assert_eq!(error.to_string(), "the header `x-team` of `acme` is unavailable: the variable TEAM is not set");
}

#[test]
fn r53_a_model_gets_a_level_that_it_has_and_the_user_a_note() {
    let check = |model: &str, request: &str, more: &str, expected: Option<Thinking>, says: &str| {
        let file = format!("[agents.main]\nmodel = \"{model}\"\nthinking = \"{request}\"\n{more}");
        let config = load(&file, &[("OPENAI_API_KEY", "sk-openai-key"), ("GEMINI_API_KEY", "gemini-key")]).unwrap();
        let Resolved { settings, notes } = resolve(&config, &Overrides::default()).unwrap();
        assert_eq!(settings.candidates[0].thinking, expected, "{model} {request}");
        assert!(if says.is_empty() { notes.is_empty() } else { notes.concat().contains(says) }, "{notes:?}");
    };
    check("gemini/gemini-3.5-flash", "high", "", Some(Thinking::High), "");
    check("gemini/gemini-3.5-flash", "xhigh", "", Some(Thinking::High), "so high is requested");
    check("openai-responses/gpt-5.4", "minimal", "", Some(Thinking::Low), "so low is requested");
    check("openai-responses/gpt-4.1", "low", "", None, "does not think");
    check("openai-responses/gpt-4.1", "off", "", None, "");
    check("openai-responses/gpt-of-tomorrow", "xhigh", "", Some(Thinking::Xhigh), "");
    check("openai/gpt-5.4", "low", "", None, "take none beside tools");
    check("openai/gpt-5-mini", "low", "", Some(Thinking::Low), "");
    check("openai/gpt-of-tomorrow", "low", "", None, "set `thinking_levels`");
    let more = "[models.\"openai/gpt-of-tomorrow\"]\nthinking_levels = [\"off\", \"high\"]\n";
    check("openai/gpt-of-tomorrow", "low", more, Some(Thinking::High), "so high is requested");
    let more = "[models.\"gemini/gemini-3.5-flash\"]\nthinking_levels = []\n";
    check("gemini/gemini-3.5-flash", "low", more, None, "does not think");
}

#[test]
fn r53_a_refused_level_is_lowered_to_one_with_words_of_its_own() {
    use Thinking::{High, Low, Minimal, Off, Xhigh};
    let check = |model: &str, more: &str, expected: &[Thinking]| {
        let file = format!("[agents.main]\nmodel = \"{model}\"\nthinking = \"high\"\n{more}");
        let variables = [("OPENAI_API_KEY", "sk-openai-key"), ("ANTHROPIC_API_KEY", "sk-ant-key")];
        let Resolved { settings, .. } = resolve(&load(&file, &variables).unwrap(), &Overrides::default()).unwrap();
        assert_eq!(settings.candidates[0].levels, expected, "{model}");
    };
    // It writes `minimal` as `low`.
    check("openai-responses/gpt-of-tomorrow", "", &[Xhigh, High, Thinking::Medium, Low, Off]);
    check("ollama/qwen-of-tomorrow", "", &[Xhigh, Off]);
    check("ollama/gpt-oss:20b", "", &[Xhigh, Thinking::Medium, Low]);
    let more = "[models.\"openai-responses/m\"]\nthinking_levels = [\"off\", \"low\", \"high\"]\n";
    check("openai-responses/m", more, &[High, Low, Off]);
    // A budget is at most half of the answer.
    let more = "[models.\"anthropic/of-before\"]\nmax_output = 8192\n";
    check("anthropic/of-before", more, &[Xhigh, Minimal, Off]);
}

#[test]
fn figures_of_the_catalogue_can_be_overridden() {
    let file = "[models.\"acme/m\"]\nimages = true\nthinking_levels = [\"low\"]\nprice = { input = 1, output = 2.5 }\n\
                [models.\"openai/gpt-5.4\"]\nmax_output = 1000\nprice.cached = 0\n";
    let config = load(file, &[("LIMULUS_MODELS__ACME/M__PRICE__CACHED", "0.5")]).unwrap();
    let figures = config.figures("acme", "m");
    assert_eq!(figures.configured, ["thinking_levels", "images", "price"]);
    let price = figures.info.price.unwrap();
    assert_eq!(
        (price.input, price.cached, price.cache_written, price.output),
        (1_000_000, 500_000, 1_000_000, 2_500_000)
    );
    assert!(figures.info.images && figures.info.thinking == Some(models::Levels::of(&[Thinking::Low])));
    let (known, figures) = (models::lookup("openai", "gpt-5.4"), config.figures("openai", "gpt-5.4").info);
    assert_eq!((figures.max_output, figures.context_window), (1_000, known.context_window));
    assert_eq!(figures.price.map(|price| (price.cached, price.input)), known.price.map(|price| (0, price.input)));

    // Another server under a known name is not known to take a schema; who knows better says so.
    for (file, takes) in [
        ("", true),
        ("[providers.openai]\nbase_url = \"https://api.openai.com/v1\"\n", true),
        ("[providers.openai]\nbase_url = \"http://127.0.0.1:1/v1\"\n", false),
        ("[providers.openai]\napi = \"openai-responses\"\n", false),
        (
            "[providers.openai]\nbase_url = \"http://127.0.0.1:1/v1\"\n[models.\"openai/gpt-5.4\"]\nstructured_output = true\n",
            true,
        ),
        ("[models.\"openai/gpt-5.4\"]\nstructured_output = false\n", false),
    ] {
        assert_eq!(load(file, &[]).unwrap().figures("openai", "gpt-5.4").info.structured_output, takes, "{file}");
    }

    let (what, hint) = wrong("[models.\"acme/m\"]\nprice.input = 1.0\n", &[]);
    assert_eq!(what, "`models.\"acme/m\".price.output` is missing");
    assert!(hint.contains("US dollars"), "{hint}");
    let (what, hint) = wrong("[models.\"acme/m\"]\nthinking_levels = [\"much\"]\n", &[]);
    assert!(what.contains("thinking_levels") && hint.contains("off, minimal"), "{what}: {hint}");
    assert!(wrong("[models.\"acme/m\"]\nprice.input = -1\n", &[]).1.contains("US dollars"));
}

#[test]
fn ollama_needs_no_key_and_no_configuration() {
    let config = load("[agents.main]\nmodel = \"ollama/qwen3:8b\"", &[]).unwrap();
    let settings = resolve(&config, &Overrides::default()).unwrap().settings;
    let candidate = &settings.candidates[0];
    assert_eq!((candidate.model.as_str(), candidate.profile.as_deref()), ("qwen3:8b", None));
    let endpoint = config.endpoint("ollama", None).unwrap();
    let expected = ("ollama", "http://127.0.0.1:11434", None);
    assert_eq!((endpoint.api.name(), endpoint.base_url.as_str(), endpoint.key), expected);
}

#[test]
fn every_format_that_may_be_configured_is_spoken() {
    let api = ["providers", "acme", "api"].map(str::to_owned);
    let settings::Entry::Key(kind::Kind::Word(words)) = settings::at(&api) else { panic!("it takes a word") };
    assert_eq!(words.iter().find(|word| Api::from_name(word).is_none()), None);
}

#[test]
fn the_responses_of_openai_are_a_provider_with_its_key_and_its_models() {
    let config = load("", &[("OPENAI_API_KEY", "sk-openai-key")]).unwrap();
    let overrides = Overrides { model: Some("openai-responses/gpt-5.4".to_owned()), ..Overrides::default() };
    let candidate = resolve(&config, &overrides).unwrap().settings.candidates.remove(0);
    assert_eq!(candidate.max_output, models::lookup("openai", "gpt-5.4").max_output);
    let endpoint = config.endpoint("openai-responses", candidate.profile.as_deref()).unwrap();
    assert_eq!((endpoint.api.name(), endpoint.base_url.as_str()), ("openai-responses", "https://api.openai.com/v1"));
    assert_eq!(endpoint.key.unwrap().reveal(), "sk-openai-key");
    let switched = load("[providers.openai]\napi = \"openai-responses\"", &[]).unwrap();
    assert_eq!(switched.endpoint("openai", None).unwrap().api.name(), "openai-responses");
}

#[test]
fn a_known_provider_needs_no_more_than_a_profile() {
    let file = "[[providers.anthropic.profiles]]\nname = \"work\"\nkey = \"sk-work\"";
    let config = load(file, &[]).unwrap();
    let endpoint = config.endpoint("anthropic", Some("work")).unwrap();
    assert_eq!((endpoint.api.name(), endpoint.base_url.as_str()), ("anthropic", "https://api.anthropic.com/v1"));
    let elsewhere = format!("[providers.anthropic]\nbase_url = \"http://127.0.0.1:9911/v1\"\n{file}");
    assert_eq!(
        load(&elsewhere, &[]).unwrap().endpoint("anthropic", None).unwrap().base_url,
        "http://127.0.0.1:9911/v1"
    );
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
        let flags = FlagValues { workspace: flag.map(str::to_owned), is_service: true };
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
fn models_come_in_order_each_once() {
    let config = load(ACME, &[("HOME", "/u")]).unwrap();
    let models = |overrides: &Overrides, session_model: Option<&str>| {
        let preferences = runtime::ModelPreferences { model: session_model, thinking: None };
        let subject = Subject { agent: "main", overrides, preferences, date: "2026-11-21" };
        let candidates = config.resolve(subject).unwrap().settings.candidates;
        let mut models: Vec<String> = candidates.iter().map(|c| format!("{}/{}", c.provider, c.model)).collect();
        // Each stands with every profile.
        models.dedup();
        models
    };
    let none = Overrides::default();
    let one = Overrides { model: Some("acme/a/b".to_owned()), ..Overrides::default() };
    assert_eq!(models(&none, None), ["acme/some-model", "acme/other-model", "offline/offline"]);
    assert_eq!(models(&none, Some("acme/other-model")), ["acme/other-model", "acme/some-model", "offline/offline"]);
    let behind = ["acme/a/b", "acme/other-model", "acme/some-model", "offline/offline"];
    assert_eq!(models(&one, Some("acme/other-model")), behind, "the fallbacks stay");
    let candidate = &resolve(&config, &none).unwrap().settings.candidates[0];
    assert_eq!((candidate.context_window, candidate.max_output), (200_000, 4_096));
    assert_eq!(candidate.profile.as_deref(), Some("first"));
}

/// Each model stands with every key of its provider before the next model does.
#[test]
fn r50_r51_each_profile_is_a_candidate() {
    let file = "[agents.main]\nmodel = \"acme/a\"\nfallbacks = [\"acme/b\"]\n[providers.acme]\napi = \"openai-chat\"\n\
                base_url = \"http://h\"\n[[providers.acme.profiles]]\nname = \"work\"\nkey = \"k\"\n\
                [[providers.acme.profiles]]\nname = \"home\"\nkey = \"l\"\n";
    let config = load(file, &[("HOME", "/u")]).unwrap();
    let candidates = resolve(&config, &Overrides::default()).unwrap().settings.candidates;
    let names: Vec<String> = candidates.iter().map(ToString::to_string).collect();
    assert_eq!(names, ["acme/a (work)", "acme/a (home)", "acme/b (work)", "acme/b (home)"]);
}

#[test]
fn r42_a_model_with_a_small_window_is_reported() {
    for (window, is_named) in [(15_999, false), (16_000, true), (31_999, true), (32_000, false)] {
        let file = format!("{ACME}\n[models.\"acme/small\"]\ncontext_window = {window}\nmax_output = 1000\n");
        let config = load(&file, &[("HOME", "/u")]).unwrap();
        let small = Overrides { model: Some("acme/small".to_owned()), ..Overrides::default() };
        let notes = resolve(&config, &small).unwrap().notes.concat();
        // A model that is too small is refused only when a request is due.
        assert_eq!(notes.contains(&format!("of only {window} tokens")), is_named, "{notes}");
        // A fallback is reported as well, and so before any run.
        let file = file.replacen("acme/other-model", "acme/small", 1);
        let config = load(&file, &[("HOME", "/u")]).unwrap();
        let notes = resolve(&config, &Overrides::default()).unwrap().notes.concat();
        assert_eq!(notes.contains(&format!("of only {window} tokens")), is_named, "{notes}");
        let home = tempfile::tempdir().unwrap();
        fs::write(home.path().join(FILE), &file).unwrap();
        let review = Config::review(
            home.path(),
            &Environment::of(&[("HOME", "/u"), ("ACME_KEY", "k")], "/now"),
            FlagValues::default(),
        );
        let said = review.warnings.iter().any(|warning| warning.what.contains(&format!("window of {window} tokens")));
        assert_eq!(said, window < 32_000, "{:?}", review.warnings);
    }
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

#[test]
fn every_error_has_its_place_and_a_hint() {
    let check = |file: &str, what: &str, hint: &str| assert_eq!(wrong(file, &[]), (what.to_owned(), hint.to_owned()));
    check(
        "[runs]\n\ndeadline = 5",
        "HOME/config.toml:3: unknown key `runs.deadline`",
        "the nearest known key is `runs.deadline_s`",
    );
    check("[tool.exec]\n", "HOME/config.toml:1: unknown key `tool`", "the nearest known key is `tools`");
    check(
        "[agents.main]\nmodle = \"a/b\"",
        "HOME/config.toml:2: unknown key `agents.main.modle`",
        "the nearest known key is `agents.main.model`",
    );
    check(
        "[models.\"acme/x.y\"]\nwindow = 3",
        "HOME/config.toml:2: unknown key `models.\"acme/x.y\".window`",
        "the nearest known key is `models.\"acme/x.y\".context_window`",
    );
    check(
        "[runs]\ndeadline_s = \"ten\"",
        "HOME/config.toml:2: `runs.deadline_s` cannot be \"ten\"",
        "it takes a whole number from 1 to 31622400, or \"off\"",
    );
    check(
        "[runs]\ndeadline_s = 0",
        "HOME/config.toml:2: `runs.deadline_s` cannot be 0",
        "it takes a whole number from 1 to 31622400, or \"off\"",
    );
    check(
        "[tools.exec]\npolicy = \"maybe\"",
        "HOME/config.toml:2: `tools.exec.policy` cannot be \"maybe\"",
        "it takes one of allow, ask, deny",
    );
    check(
        "[agents.main]\nmodel = \"gpt\"",
        "HOME/config.toml:2: `agents.main.model` cannot be \"gpt\"",
        "it takes PROVIDER/MODEL, such as \"acme/some-model\"",
    );
    check("runs = 3", "HOME/config.toml:1: `runs` cannot be 3", "it takes a table");
    check(
        "[providers.acme]\nprofiles = \"x\"",
        "HOME/config.toml:2: `providers.acme.profiles` cannot be text",
        "it takes tables, each as [[providers.acme.profiles]]",
    );
    check(
        "[[providers.acme.profiles]]\nname = \"a\"\n[[providers.acme.profiles]]\nkye = \"sk-1\"",
        "HOME/config.toml:4: unknown key `providers.acme.profiles.1.kye`",
        "the nearest known key is `providers.acme.profiles.1.key`",
    );
    check(
        "[providers.acme]\napi = \"openai-chat\"",
        "`providers.acme.base_url` is missing",
        "add it to config.toml: it takes the address of the API, such as \"http://127.0.0.1:9911/v1\"",
    );
    check(
        "[providers.acme]\napi = \"openai\"",
        "HOME/config.toml:2: `providers.acme.api` cannot be \"openai\"",
        "it takes one of anthropic, openai-chat, openai-responses, gemini, ollama",
    );
}

#[test]
fn invalid_toml_is_reported_with_its_line_and_never_quoted() {
    let (what, hint) = wrong("[providers.acme]\napi = \"openai-chat\"\nkey = sk-secret-key\n", &[]);
    assert!(what.starts_with("HOME/config.toml:3 is not valid TOML: "), "{what}");
    assert!(!what.contains("sk-secret"), "{what}");
    assert!(hint.starts_with("fix that line"), "{hint}");
    let (what, _) = wrong("[[providers.acme.profiles]]\nkey = [\"sk-secret-key\"]", &[]);
    assert_eq!(what, "HOME/config.toml:2: `providers.acme.profiles.0.key` cannot be what it holds");
}

#[test]
fn r50_a_key_in_the_wrong_place_is_an_error_that_does_not_show_it() {
    let acme = "[providers.acme]\napi = \"openai-chat\"\nbase_url = \"http://h\"\n";
    let profile = "[[providers.acme.profiles]]\n";
    for key in ["sk-literal-0123456789", "AIzaSyB0123456789abcdef", "0123456789abcdef0123456789abcdef", "hunter2-tide"]
    {
        for file in [
            format!("{acme}profiles = \"{key}\""),
            format!("{acme}profiles = [\"{key}\"]"),
            format!("{acme}headers = \"Bearer {key}\""),
            format!("{acme}headers = [\"{key}\"]"),
            format!("{acme}{profile}kind = \"{key}\""),
            format!("{acme}{profile}key = [\"{key}\"]"),
            format!("{acme}{profile}key = \"file:\"\nrefresh = \"{key}\""),
            format!("[providers.acme]\napi = \"{key}\"\nbase_url = \"http://h\""),
            format!("[providers.acme]\napi = \"gemini\"\nbase_url = \"{key}\""),
            format!("[providers.acme]\napi = \"gemini\"\nbase_url = \"ftp://me:{key}@h/?k={key}\""),
            format!("{acme}proxy = \"{key}\""),
            format!("providers = \"{key}\""),
            format!("[providers]\nacme = \"{key}\""),
            format!("[tools.exec]\npolicy = \"{key}\""),
            format!("[runs]\nresume = \"{key}\""),
        ] {
            let (what, hint) = wrong(&file, &[]);
            assert!(!what.contains(key) && !hint.contains(key), "{file}: {what} ({hint})");
        }
    }
    // In the place of a name, of a model or after `env:`, only what is known as a key is refused.
    for key in ["sk-literal-0123456789", "AIzaSyB0123456789abcdef", "ghp_0123456789abcdef"] {
        for file in [
            format!("{acme}{profile}name = \"{key}\"\nkey = \"env:K\""),
            format!("{acme}{profile}key = \"env:{key}\""),
            format!("{acme}{profile}key = \"file:{key}\""),
            format!("{acme}headers.x-team = \"env:{key}\""),
            format!("{acme}headers.{key} = \"x\""),
            format!("{acme}{key} = \"x\""),
            format!("{acme}{profile}{key} = \"x\""),
            format!("[providers.{key}]\napi = \"gemini\"\nbase_url = \"http://h\""),
            format!("[agents.main]\nmodel = \"acme/{key}\""),
            format!("[agents.main]\nfallbacks = [\"{key}\"]"),
            format!("[agents.{key}]\nmodel = \"acme/m\""),
            format!("[queue]\nsteer_prefix = \"{key}\""),
        ] {
            let (what, hint) = wrong(&file, &[]);
            assert!(!what.contains(key) && !hint.contains(key), "{file}: {what} ({hint})");
        }
        let variable = ("LIMULUS_AGENTS__MAIN__MODEL", key);
        let (what, hint) = wrong("", &[variable]);
        assert!(!what.contains(key) && !hint.contains(key), "{what} ({hint})");
    }
}

#[test]
fn r50_the_secrets_of_headers_and_addresses_are_masked_alone() {
    let file = "[providers.acme]\napi = \"openai-chat\"\nbase_url = \"http://me:hunter2@h/v1?api_key=query-key\"\n\
                proxy = \"http://me:proxy-pass@p\"\nheaders.authorization = \"Bearer tok-12345\"\n\
                headers.accept = \"application/json\"\nheaders.User-Agent = \"env:AGENT\"\n\
                [[providers.acme.profiles]]\nkey = \"Bearer tok-67890\"\n";
    let config = load(
        file,
        &[
            ("HTTPS_PROXY", "http://me:env-proxy@p"),
            ("http_proxy", "http://me:small-proxy@p"),
            ("AGENT", "agent-of-a-variable"),
        ],
    )
    .unwrap();
    let secrets = config.secrets();
    for secret in [
        "hunter2",
        "query-key",
        "proxy-pass",
        "tok-12345",
        "tok-67890",
        "env-proxy",
        "small-proxy",
        "agent-of-a-variable",
    ] {
        assert!(secrets.iter().any(|known| known == secret), "{secret}: {secrets:?}");
    }
    assert!(
        !secrets.iter().any(|known| ["Bearer", "me", "h", "p", "application/json"].contains(&known.as_str())),
        "{secrets:?}"
    );
}

#[test]
fn an_unknown_variable_is_reported_with_the_nearest_one() {
    let check = |name: &str, text: &str, what: &str, hint: &str| {
        assert_eq!(wrong("", &[(name, text)]), (what.to_owned(), hint.to_owned()));
    };
    check(
        "LIMULUS_TOOL__EXEC__POLICY",
        "allow",
        "unknown variable LIMULUS_TOOL__EXEC__POLICY",
        "the nearest known one is LIMULUS_TOOLS__EXEC__POLICY",
    );
    check(
        "LIMULUS_TOOLS_EXEC_POLICY",
        "allow",
        "unknown variable LIMULUS_TOOLS_EXEC_POLICY",
        "the nearest known one is LIMULUS_TOOLS__EXEC__POLICY",
    );
    check("LIMULUS_RUNS", "1", "unknown variable LIMULUS_RUNS", "the nearest known one is LIMULUS_RUNS__RESUME");
    check(
        "LIMULUS_RUNS__DEADLINE_S",
        "ten",
        "the variable LIMULUS_RUNS__DEADLINE_S: `runs.deadline_s` cannot be \"ten\"",
        "it takes a whole number from 1 to 31622400, or \"off\"",
    );
    check(
        "LIMULUS_AGENTS__MAIN__FALLBACKS",
        "a/b, c",
        "the variable LIMULUS_AGENTS__MAIN__FALLBACKS: `agents.main.fallbacks` cannot be [\"a/b\", \"c\"]",
        "it takes a list of PROVIDER/MODEL, such as [\"acme/some-model\"]",
    );
    load("", &[("LIMULUS_LOG", "debug"), ("LIMULUS_CRASHPOINT", "x:1"), ("LIMULUS_MUTANT", "y"), ("LIMULUSX", "1")])
        .unwrap();
}

#[test]
fn an_unusable_agent_or_model_is_reported_before_a_run_starts() {
    let check = |file: &str, agent: &str, model: Option<&str>, what: &str, hint: &str| {
        let overrides = Overrides { model: model.map(str::to_owned), ..Overrides::default() };
        let subject = Subject {
            agent,
            overrides: &overrides,
            preferences: runtime::ModelPreferences::default(),
            date: "2026-11-21",
        };
        let error = load(file, &[("HOME", "/u")]).unwrap().resolve(subject).unwrap_err();
        assert_eq!((error.to_string().as_str(), error.hint().as_str()), (what, hint));
    };
    check("", "helper", None, "there is no agent `helper`", "add [agents.helper] to config.toml; there are: main");
    check(
        "",
        "main",
        Some("nonsense"),
        "`nonsense` is not a model",
        "write PROVIDER/MODEL, such as offline/offline; `limulus models list --search TEXT` finds some",
    );
    check(
        ACME,
        "main",
        Some("acne/x"),
        "the model `acne/x` names the provider `acne`, which is not configured",
        "the nearest known provider is `acme`",
    );
    check(
        ACME,
        "main",
        Some("elsewhere/x"),
        "the model `elsewhere/x` names the provider `elsewhere`, which is not configured",
        "add [providers.elsewhere] with api and base_url to config.toml; there are: acme, offline, ollama, vllm, \
         lmstudio, llamacpp",
    );
    check(
        "",
        "main",
        Some("openai/x"),
        "the model `openai/x` names the provider `openai`, which is not configured",
        "set OPENAI_API_KEY, or let `limulus setup --provider openai` ask for a key",
    );
}

#[test]
fn an_unreadable_file_is_an_error() {
    let home = tempfile::tempdir().unwrap();
    fs::create_dir(home.path().join(FILE)).unwrap();
    let error = Config::load(home.path(), &Environment::default(), FlagValues::default()).unwrap_err();
    assert!(matches!(error, ConfigError::Unreadable { .. }), "{error}");
}

/// Pieces of configurations: each may stand where any other does.
const PIECES: &[&str] = &[
    "[agents.main]\n",
    "[providers.acme]\n",
    "[[providers.acme.profiles]]\n",
    "[models.\"acme/some-model\"]\n",
    "[tools.exec]\n",
    "[budget.run]\n",
    "model",
    "fallbacks",
    "workspace",
    "api",
    "base_url",
    "proxy",
    "name",
    "key",
    "headers",
    "policy",
    "tokens",
    " = ",
    ".",
    "\n",
    "\"acme/some-model\"",
    "\"openai-chat\"",
    "\"http://127.0.0.1:9/v1\"",
    "[\"offline/offline\"]",
    "{ a = 1 }",
    "\"env:ACME_KEY\"",
    "\"file:key\"",
    "\"allow\"",
    "12",
    "-1",
    "1e400",
    "true",
    "1979-05-27",
    "[",
    "]",
    "{",
    "}",
    "\"",
    "\"\"\"",
    "'",
    "#",
    ",",
    "\\u0000",
    "\u{202e}",
    "agents",
    "providers",
    "acme",
];

/// Whatever a configuration says: it is read or refused, in bounded words, and what certainly is a key is neither in the error
/// nor in the settings of a run.
#[test]
fn fuzz_r24_r50_a_configuration() {
    const KEY: &str = "sk-Fuzz0123456789abcdefABCDEF0123456789";
    let home = tempfile::tempdir().unwrap();
    let time = std::time::Duration::from_secs(1);
    bolero::check!().with_test_time(time).with_type::<Vec<u8>>().for_each(|bytes| {
        let mut text = if bytes.first().is_some_and(|first| first % 2 == 0) { ACME.to_owned() } else { String::new() };
        for byte in bytes {
            match usize::from(*byte) {
                at if at < PIECES.len() => text.push_str(PIECES[at]),
                200.. => text.extend(["\"", KEY, "\""]),
                at if at % 3 == 0 && !text.is_empty() => {
                    let cut = text.floor_char_boundary(at % text.len());
                    text.truncate(cut);
                }
                _ => text.push(char::from(*byte)),
            }
        }
        fs::write(home.path().join(FILE), &text).unwrap();
        match Config::load(home.path(), &Environment::of(&[("ACME_KEY", KEY)], "/now"), FlagValues::default()) {
            Ok(config) => {
                if let Ok(Resolved { settings, .. }) = resolve(&config, &Overrides::default()) {
                    assert!(!serde_json::to_string(&settings).unwrap().contains(KEY), "{text}");
                }
            }
            Err(error) => {
                let said = format!("{error} {} {error:?}", error.hint());
                assert!(!error.to_string().contains(KEY) && !error.hint().contains(KEY), "{said}: {text}");
                assert!(error.to_string().len() < 16 << 10, "{}: {text}", error.to_string().len());
            }
        }
    });
}
