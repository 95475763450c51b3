//! Every message about a wrong configuration, and what none of them may show.

use super::*;

#[test]
fn every_error_has_its_place_and_a_hint() {
    let check = |file: &str, what: &str, hint: &str| assert_eq!(wrong(file, &[]), (what.to_owned(), hint.to_owned()));
    check(
        "[runs]\n\ndeadline = 5",
        "HOME/config.toml:3:1: unknown key `runs.deadline`",
        "the nearest known key is `runs.deadline_s`",
    );
    check("[tool.exec]\n", "HOME/config.toml:1:2: unknown key `tool`", "the nearest known key is `tools`");
    check(
        "[agents.main]\nmodle = \"a/b\"",
        "HOME/config.toml:2:1: unknown key `agents.main.modle`",
        "the nearest known key is `agents.main.model`",
    );
    check(
        "[models.\"acme/x.y\"]\nwindow = 3",
        "HOME/config.toml:2:1: unknown key `models.\"acme/x.y\".window`",
        "the nearest known key is `models.\"acme/x.y\".context_window`",
    );
    check(
        "[runs]\ndeadline_s = \"ten\"",
        "HOME/config.toml:2:1: `runs.deadline_s` cannot be \"ten\"",
        "it takes a whole number from 1 to 31622400, or \"off\"",
    );
    check(
        "[runs]\ndeadline_s = 0",
        "HOME/config.toml:2:1: `runs.deadline_s` cannot be 0",
        "it takes a whole number from 1 to 31622400, or \"off\"",
    );
    check(
        "[tools.exec]\npolicy = \"maybe\"",
        "HOME/config.toml:2:1: `tools.exec.policy` cannot be \"maybe\"",
        "it takes one of allow, sandbox, ask, deny",
    );
    check(
        "[agents.main]\nmodel = \"gpt\"",
        "HOME/config.toml:2:1: `agents.main.model` cannot be \"gpt\"",
        "it takes PROVIDER/MODEL, such as \"acme/some-model\"",
    );
    check("runs = 3", "HOME/config.toml:1:1: `runs` cannot be 3", "it takes a table");
    check(
        "[providers.acme]\nprofiles = \"x\"",
        "HOME/config.toml:2:1: `providers.acme.profiles` cannot be text",
        "it takes tables, each as [[providers.acme.profiles]]",
    );
    check(
        "[[providers.acme.profiles]]\nname = \"a\"\n[[providers.acme.profiles]]\nkye = \"sk-1\"",
        "HOME/config.toml:4:1: unknown key `providers.acme.profiles.1.kye`",
        "the nearest known key is `providers.acme.profiles.1.key`",
    );
    check(
        "[providers.acme]\napi = \"openai-chat\"",
        "`providers.acme.base_url` is missing",
        "add it to config.toml: it takes the address of the API, such as \"http://127.0.0.1:9911/v1\"",
    );
    check(
        "[providers.acme]\napi = \"openai\"",
        "HOME/config.toml:2:1: `providers.acme.api` cannot be \"openai\"",
        "it takes one of anthropic, openai-chat, openai-responses, gemini, ollama",
    );
}

#[test]
fn invalid_toml_is_reported_with_its_line_and_never_quoted() {
    let (what, hint) = wrong("[providers.acme]\napi = \"openai-chat\"\nkey = sk-secret-key\n", &[]);
    assert!(what.starts_with("HOME/config.toml:3:7 is not valid TOML: "), "{what}");
    assert!(!what.contains("sk-secret"), "{what}");
    assert!(hint.starts_with("fix that line"), "{hint}");
    let (what, _) = wrong("[[providers.acme.profiles]]\nkey = [\"sk-secret-key\"]", &[]);
    assert_eq!(what, "HOME/config.toml:2:1: `providers.acme.profiles.0.key` cannot be what it holds");
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
        let subject =
            Subject { agent, overrides: &overrides, session: runtime::SessionContext::default(), date: "2026-11-21" };
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
