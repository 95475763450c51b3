//! Providers, models, thinking levels and profiles: what a run gets of them.

use super::*;

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
fn models_come_in_order_each_once() {
    let config = load(ACME, &[("HOME", "/u")]).unwrap();
    let models = |overrides: &Overrides, session_model: Option<&str>| {
        let session = runtime::SessionContext { model: session_model, ..Default::default() };
        let subject = Subject { agent: "main", overrides, session, date: "2026-11-21" };
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
