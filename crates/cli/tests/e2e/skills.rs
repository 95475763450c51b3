//! Skills: what the model has of them in its prompt, reads on demand and runs; `/NAME`; `limulus skills`.

use std::fs;
use std::os::unix::fs::PermissionsExt as _;
use std::path::Path;

use serde_json::{Value, json};

use super::sandbox::confined;
use crate::support::{Does, Home, Planned, STREAM, whole};

const GREET: &str = "---\nname: greet\ndescription: Greets people. Use it when somebody is to be greeted.\n---\n# Greet\nRun `sh scripts/greet.sh NAME` and give its output.\n";

/// Writes a skill with a script.
fn put_skill(folder: &Path) {
    fs::create_dir_all(folder.join("scripts")).expect("the folder can be made");
    fs::write(folder.join("SKILL.md"), GREET).expect("it can be written");
    fs::write(folder.join("scripts/greet.sh"), "echo \"good day, $1\"\n").expect("it can be written");
}

/// An answer that makes one call.
fn calls(tool: &str, arguments: &Value) -> String {
    let call = json!({ "index": 0, "id": "c", "type": "function",
        "function": { "name": tool, "arguments": arguments.to_string() } });
    let frame = json!({ "choices": [{ "index": 0, "delta": { "role": "assistant", "tool_calls": [call] } }] });
    let end = json!({ "choices": [{ "index": 0, "delta": {}, "finish_reason": "tool_calls" }] });
    format!("{STREAM}data: {frame}\n\ndata: {end}\n\ndata: [DONE]\n\n")
}

/// The texts of the messages of a role in the last request.
fn texts(server: &Planned, role: &str) -> Vec<String> {
    let seen = server.seen();
    let messages = seen.last().expect("a request").body["messages"].as_array().expect("messages").clone();
    let of_role = messages.into_iter().filter(|message| message["role"] == role);
    of_role.map(|message| message["content"].as_str().unwrap_or_default().to_owned()).collect()
}

fn tools(server: &Planned) -> Vec<String> {
    let seen = server.seen();
    let tools = seen.last().expect("a request").body["tools"].as_array().expect("tools").clone();
    tools.iter().map(|tool| tool["function"]["name"].as_str().expect("a name").to_owned()).collect()
}

/// R41, R67: the model has a line for each skill, reads the skill with a tool, and its script runs in the sandbox without a question.
#[test]
fn r41_r67_a_skill_is_listed_then_read_and_its_script_runs_in_the_sandbox() {
    let Some(home) = confined() else { return };
    let server = Planned::start(|at, _| {
        Does::Answer(match at {
            0 => calls("skill", &json!({ "name": "greet" })),
            1 => calls("exec", &json!({ "command": "cd .agents/skills/greet && sh scripts/greet.sh Ada" })),
            2 => calls("skill", &json!({ "name": "greet", "file": "scripts/greet.sh" })),
            3 => calls("skill", &json!({ "name": "gone" })),
            _ => whole(&["good day"]),
        })
    });
    let home = home.served_at(&server.base_url);
    put_skill(&home.file(".agents/skills/greet"));
    home.run(&["agent", "-m", "greet Ada"]).expect_code(0);
    let results = texts(&server, "tool");
    let folder = home.file(".agents/skills/greet").canonicalize().unwrap().display().to_string();
    assert!(results[0].starts_with(&format!("Skill greet in {folder}")), "{results:?}");
    assert!(results[0].contains("Its files: scripts/greet.sh\n") && results[0].ends_with("and give its output.\n"));
    assert!(results[1].contains("good day, Ada"), "{results:?}");
    assert!(results[2].starts_with("echo \"good day"), "{results:?}");
    assert!(results[3].contains("there is no skill `gone`; there are: greet"), "{results:?}");
    let runs = home.json(&["approvals", "list", "--closed"]);
    assert_eq!(runs, json!([]), "nothing was asked");
}

/// R41: without a skill there is neither the tool nor the part of the prompt; with one both, and what changes is in the trace.
#[test]
pub(crate) fn r41_a_run_has_the_skills_that_are_there_when_it_begins() {
    let server = Planned::start(|_, _| Does::Answer(whole(&["done"])));
    let home = Home::new().served_at(&server.base_url);
    let go = |home: &Home| home.run(&["agent", "-m", "go"]).expect_code(0);
    go(&home);
    assert!(!tools(&server).contains(&"skill".to_owned()) && !texts(&server, "system")[0].contains("<skills>"));
    put_skill(&home.file(".claude/skills/greet"));
    put_skill(&home.user().join(".agents/skills/greet"));
    fs::create_dir_all(home.file(".agents/skills/broken")).unwrap();
    home.put(".agents/skills/broken/SKILL.md", "---\nname: [\n---\n");
    go(&home);
    assert!(tools(&server).contains(&"skill".to_owned()));
    let prompt = texts(&server, "system").remove(0);
    assert_eq!(prompt.matches("- greet: Greets people. Use it when").count(), 1, "{prompt}");
    assert!(!prompt.contains("# Greet"), "only its description: {prompt}");
    assert!(prompt.contains("/.agents/skills/broken: the front matter of SKILL.md is broken"), "{prompt}");
    assert_eq!(prompt.matches("[left out: ").count(), 2, "the broken one, and the second of a name: {prompt}");
    let traced = home.run(&["runs", "trace"]).expect_code(0).out;
    assert!(traced.contains("changed in the prompt: skills, tools; not whole in the prompt: skills"), "{traced}");
    let checked = home.run(&["prompt", "--check"]).expect_code(1).out;
    assert!(checked.contains("broken: the front matter of SKILL.md is broken"), "{checked}");
    let none = Home::new().served_at(&server.base_url).with("LIMULUS_AGENTS__MAIN__PROMPT", "minimal");
    put_skill(&none.file(".claude/skills/greet"));
    go(&none);
    assert!(!tools(&server).contains(&"skill".to_owned()) && !texts(&server, "system")[0].contains("greet"));
}

/// R41: `/NAME` has the model use a skill; another name is an error that names those that there are.
#[test]
pub(crate) fn r41_a_message_that_begins_with_the_name_of_a_skill_has_the_model_use_it() {
    let server = Planned::start(|_, _| Does::Answer(whole(&["done"])));
    let home = Home::new().served_at(&server.base_url);
    put_skill(&home.file(".agents/skills/greet"));
    home.run(&["agent", "-m", "/Greet Ada\nand Bob"]).expect_code(0);
    let asked = texts(&server, "user").pop().unwrap();
    assert_eq!(asked, "Ada\nand Bob\n\nUse the skill `greet`: read it with the tool `skill` first.");
    let title = home.json(&["sessions", "list"])[0]["title"].clone();
    assert!(
        title.as_str().is_some_and(|title| title.starts_with("Ada and Bob ")),
        "the user's words come first: {title}"
    );
    home.run(&["agent", "-m", "/greet"]).expect_code(0);
    assert_eq!(texts(&server, "user").pop().unwrap(), "Use the skill `greet`: read it with the tool `skill` first.");
    let refused = home.run(&["agent", "-m", "/gree Ada"]).expect_code(2);
    assert!(refused.err.contains("there is no command /gree") && refused.err.contains("/help, /greet;"), "{refused:?}");
    for at in 0..22 {
        let folder = home.file(&format!(".agents/skills/dance-{at}"));
        fs::create_dir_all(&folder).unwrap();
        fs::write(folder.join("SKILL.md"), format!("---\nname: dance-{at}\ndescription: Dances.\n---\n")).unwrap();
    }
    let refused = home.run(&["agent", "-m", "/gree Ada"]).expect_code(2);
    let named = "/help, /greet, /dance-0, /dance-1, ";
    assert!(refused.err.contains(named) && refused.err.contains(" and 3 more skills;"), "{refused:?}");
    assert_eq!(server.seen().len(), 2);
}

/// R41, R60: `skills` lists, shows, checks and adds them; what is added is found, and nothing is left of what cannot be.
#[test]
pub(crate) fn r41_skills_are_listed_shown_checked_and_added() {
    let home = Home::new();
    let none = home.run(&["skills", "list"]).expect_code(0).out;
    assert!(none.contains("there are no skills here"), "{none}");
    home.run(&["skills", "check"]).expect_code(0);
    let from = home.file("packages/greet");
    put_skill(&from);
    fs::set_permissions(from.join("scripts/greet.sh"), fs::Permissions::from_mode(0o755)).unwrap();
    let folder = from.display().to_string();
    assert_eq!(home.json(&["skills", "check", &folder]), json!([]));
    let added = home.json(&["skills", "add", &folder]);
    let own = home.user().join(".agents/skills/greet");
    assert_eq!((added["name"].as_str(), added["folder"].as_str()), (Some("greet"), own.to_str()));
    assert_eq!(fs::metadata(own.join("scripts/greet.sh")).unwrap().permissions().mode() & 0o777, 0o755);
    home.run(&["skills", "add", &folder]).expect_code(1).expect_err("is there already");
    let to_project = home.run(&["skills", "add", "--project", &folder]).expect_code(0).out;
    assert!(to_project.contains("the skill greet is in "), "{to_project}");
    assert!(home.file(".agents/skills/greet/SKILL.md").exists());
    let listed = home.json(&["skills", "list"]);
    assert_eq!((&listed["skills"][0]["name"], &listed["skills"][0]["origin"]), (&json!("greet"), &json!("workspace")));
    assert!(listed["leftOut"][0]["problem"].as_str().unwrap().contains("comes before it"), "{listed}");
    let shown = home.run(&["skills", "show", "greet"]).expect_code(0).out;
    assert!(shown.contains("- scripts/greet.sh") && shown.contains("# Greet\nRun `sh"), "{shown}");
    assert_eq!(home.json(&["skills", "show", "greet"])["files"], json!(["scripts/greet.sh"]));
    home.run(&["skills", "show", "gone"]).expect_code(4).expect_err("there is no skill gone");
    let human = home.run(&["skills", "list"]).expect_code(0).out;
    assert!(human.contains("greet  project  Greets people."), "{human}");
    let broken = home.file("packages/broken");
    put_skill(&broken);
    fs::write(broken.join("SKILL.md"), GREET.replace("name: greet", "name: broken")).unwrap();
    std::os::unix::fs::symlink("/etc/passwd", broken.join("z-link")).unwrap();
    home.run(&["skills", "add", &broken.display().to_string()])
        .expect_code(1)
        .expect_err("neither a file nor a folder");
    let left: Vec<_> =
        fs::read_dir(home.user().join(".agents/skills")).unwrap().map(|of| of.unwrap().file_name()).collect();
    assert_eq!(left, ["greet"], "nothing is left of it");
    let checked = home.run(&["skills", "check", &home.file("packages").display().to_string()]).expect_code(1);
    assert!(
        checked.out.contains("cannot read SKILL.md") && checked.err.contains("1 problem found in skills"),
        "{checked:?}"
    );
}

/// R24, R41: a skill of the user's own brings variables for commands, and rules that count for runs that begin with its name. One of
/// the project with the same name brings neither.
#[test]
pub(crate) fn r24_r41_a_skill_of_the_user_brings_variables_and_rules() {
    let command = json!({ "command": "echo \"harbour: $HARBOUR\"" });
    let server =
        Planned::start(move |at, _| Does::Answer(if at % 2 == 0 { calls("exec", &command) } else { whole(&["done"]) }));
    let home = Home::new().served_at(&server.base_url).with("HARBOUR", "Kiel");
    fs::create_dir_all(home.path()).unwrap();
    let settings = "[tools.exec]\npolicy = \"ask\"\n[skills.greet]\nenv = [\"HARBOUR\"]\n";
    let rule = "[[policy]]\ndecision = \"allow\"\ncommand = \"echo *\"\nskill = \"greet\"\n";
    fs::write(home.path().join("config.toml"), format!("{settings}{rule}")).unwrap();
    let result = |words: &[&str]| {
        home.run(&[&["agent"], words].concat());
        let result = texts(&server, "tool").pop().expect("a result");
        result.lines().next().expect("a line").to_owned()
    };
    assert_eq!(result(&["--yes", "-m", "go"]), "harbour: ", "without the skill there is no variable");
    put_skill(&home.user().join(".agents/skills/greet"));
    assert_eq!(result(&["--yes", "-m", "go"]), "harbour: Kiel");
    assert_eq!(result(&["-m", "/greet Ada"]), "harbour: Kiel", "the rule allows it");
    let asked = result(&["-m", "go"]);
    assert!(asked.contains("approv"), "the rule counts for runs that begin with the name alone: {asked}");
    let decided = |words: &[&str]| {
        let explain = ["policy", "explain", "exec", "echo x"];
        home.json(&[&explain, words].concat())["decision"].clone()
    };
    assert_eq!((decided(&[]), decided(&["--skill", "greet"])), (json!("ask"), json!("allow")));
    put_skill(&home.file(".claude/skills/greet"));
    assert_eq!(result(&["--yes", "-m", "go"]), "harbour: ", "the skill of the project comes before it");
    let asked = result(&["-m", "/greet Ada"]);
    assert!(asked.contains("approv"), "{asked}");
    // A project says of no skill what it receives.
    fs::create_dir(home.file(".limulus")).unwrap();
    home.put(".limulus/config.toml", "[skills.greet]\nenv = [\"HARBOUR\"]\n");
    let refused = home.run(&["agent", "-m", "go"]).expect_code(78).err;
    assert!(refused.contains("skills.greet.env"), "{refused}");
}

/// R41: a message may bring a prompt of its own, or add to it; the profile `none` leaves only who the agent is.
#[test]
pub(crate) fn r41_a_message_may_bring_its_own_prompt() {
    let server = Planned::start(|_, _| Does::Answer(whole(&["done"])));
    let home = Home::new().served_at(&server.base_url);
    home.put("AGENTS.md", "use tabs");
    home.put("reviewer.md", "You are a reviewer.\nFind what is wrong.\n");
    let file = home.file("reviewer.md").display().to_string();
    home.run(&["agent", "--system", &file, "--append-system", "Be brief.", "-m", "go"]).expect_code(0);
    let prompt = texts(&server, "system").remove(0);
    assert!(prompt.starts_with("You are a reviewer.\nFind what is wrong.\n\n<tools>\n"), "{prompt}");
    assert!(prompt.contains("use tabs") && prompt.contains("<appended>\nBe brief.\n</appended>\n"), "{prompt}");
    home.run(&["agent", "-m", "go"]).expect_code(0);
    let prompt = texts(&server, "system").remove(0);
    assert!(prompt.starts_with("You are main,") && !prompt.contains("Be brief."), "for that run alone: {prompt}");
    // R61: a key in it reaches neither the model nor the journal.
    let keyed = home
        .with("ACME_API_KEY", "acme-key-0123456789abcdef")
        .with("LIMULUS_PROVIDERS__ACME__PROFILES__0__KEY", "env:ACME_API_KEY");
    keyed.put("keyed.md", "You are acme-key-0123456789abcdef.");
    let file = keyed.file("keyed.md").display().to_string();
    let words = ["agent", "--system", &file, "--append-system", "Use acme-key-0123456789abcdef.", "-m", "go"];
    keyed.run(&words).expect_code(0);
    let prompt = texts(&server, "system").remove(0);
    assert!(prompt.contains("<appended>\nUse ") && !prompt.contains("0123456789abcdef"), "{prompt}");
    let export = keyed.run(&["audit", "main", "--json"]).expect_code(0).out;
    assert!(!export.contains("0123456789abcdef"), "{export}");
    let home = keyed.with("LIMULUS_AGENTS__MAIN__PROMPT", "none");
    home.run(&["agent", "-m", "go"]).expect_code(0);
    assert_eq!(
        texts(&server, "system"),
        ["You are main, an agent of Limulus, a durable agent runtime. You work for one user.\n\n"]
    );
    home.put("large.md", "x".repeat(70_000));
    home.put("binary.md", "\0");
    for (words, part) in [
        (["--system", "gone.md"], "gone.md cannot be read"),
        (["--system", "large.md"], "has more than 64 KiB"),
        (["--system", "binary.md"], "it is no text"),
        (["--append-system", " "], "it is empty"),
    ] {
        home.run(&["agent", words[0], words[1], "-m", "go"]).expect_code(2).expect_err(part);
    }
}

/// The blocks of this kind in a page.
fn blocks<'a>(page: &'a str, kind: &str) -> Vec<&'a str> {
    let begin = format!("```{kind}\n");
    page.split(&begin).skip(1).filter_map(|rest| rest.split("```").next()).collect()
}

/// R41: what the pages about the prompt and about skills show is what is shown.
#[test]
pub(crate) fn r41_the_examples_of_the_pages_are_what_is_shown() {
    let home = Home::new();
    let page = include_str!("../../../../docs/skills.md");
    let greet = home.file(".agents/skills/greet");
    put_skill(&greet);
    fs::write(greet.join("SKILL.md"), blocks(page, "text")[0]).unwrap();
    let listed = blocks(page, "console")[0].strip_prefix("$ limulus skills list\n").expect("the command");
    assert_eq!(home.run(&["skills", "list"]).expect_code(0).out, listed);
    home.run(&["skills", "check"]).expect_code(0);
    fs::create_dir_all(home.path()).unwrap();
    fs::write(home.path().join("config.toml"), blocks(page, "toml")[0]).unwrap();
    let explain = ["policy", "explain", "exec", "sh scripts/deploy.sh now", "--skill", "deploy"];
    assert_eq!(home.json(&explain)["decision"], "allow");

    let page = include_str!("../../../../docs/prompt.md");
    home.put("AGENTS.md", blocks(page, "text").last().expect("a file with an include"));
    fs::create_dir(home.file("docs")).unwrap();
    home.put("docs/style.md", "Short names.\n");
    let shown = home.run(&["prompt"]).expect_code(0).out;
    assert!(shown.contains("# Rules of this project\nShort names.\n"), "{shown}");
    home.put("AGENTS.md", "# Rules of this project\n- Run `make check` before you say that you are done.\n");
    let shown = home.run(&["prompt"]).expect_code(0).out;
    let example = blocks(page, "console")[0].strip_prefix("$ limulus prompt\n").expect("the command");
    // Numbers, places and the date are others.
    let word = |line: &str| line.split([' ', ',']).take(2).collect::<Vec<_>>().join(" ");
    let lines = example.lines().filter(|line| !line.is_empty() && *line != "…");
    for line in lines.take_while(|line| !line.starts_with("Note from limulus")) {
        let wanted = if line.starts_with("## ") { word(line) } else { line.to_owned() };
        assert!(shown.lines().any(|shown| shown.starts_with(&wanted)), "{wanted}\n--- is not in\n{shown}");
    }
    assert!(
        shown.contains("\nNote from limulus: today is ") && shown.contains(" of the schemas of tools beside them\n")
    );
}
