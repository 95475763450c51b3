//! The mistakes of a first day: what is typed, what is printed, what it hints, and the exit code. docs/mistakes.md is this
//! table with the real output; `UPDATE=1` writes it.

mod table;

use std::fs;
use std::path::Path;
use std::thread;

use serde_json::json;

use self::table::Given::*;
use self::table::{Mistake, SECTIONS};
use crate::support::{CLOSED, Home, refused, serve_whole, with_names};

/// The configuration of someone who has a provider.
fn acme(home: &Home, address: &str) {
    let text = format!(
        "[agents.main]\nmodel = \"acme/large\"\n\n[providers.acme]\napi = \"openai-chat\"\nbase_url = \"{address}\"\n\n\
         [[providers.acme.profiles]]\nkey = \"env:ACME_API_KEY\"\n"
    );
    write_config(home, text.as_bytes());
}

/// What is printed, with names for what differs each time, and the exit code.
fn make(mistake: &Mistake) -> (String, Option<i32>) {
    let mut home = Home::new();
    let (mut owner, mut piped, mut addresses) = (None, None, vec![CLOSED.to_owned()]);
    for given in mistake.given {
        match given {
            Variable(name, value) => home = home.with(name, value),
            File(name, content) => home.put(name, content),
            Config(text) => write_config(&home, text.as_bytes()),
            NoText => write_config(&home, b"# \xff\xfe\n"),
            FolderAsConfig => fs::create_dir_all(home.path().join("config.toml")).expect("a folder"),
            FileAsHome => fs::write(home.path(), "").expect("a file"),
            Answers(status, text) => {
                let answer = refused(*status, &json!({ "error": { "message": text } }));
                let (address, _bodies) = serve_whole(vec![answer; 20]);
                addresses.push(host_of(&address));
                acme(&home, &address);
            }
            Page => {
                let page = "<!doctype html><title>Welcome</title>";
                let head = format!("HTTP/1.1 200 OK\r\ncontent-type: text/html\r\ncontent-length: {}", page.len());
                let (address, _bodies) = serve_whole(vec![format!("{head}\r\nconnection: close\r\n\r\n{page}"); 20]);
                addresses.push(host_of(&address));
                acme(&home, &address);
            }
            Nobody => acme(&home, &format!("http://{CLOSED}/v1")),
            Ran(words) => drop(home.run(words).expect_code(0)),
            Served => {
                let started = home.start(&["serve"]);
                started.until_err("serving");
                owner = Some(started);
            }
            Piped(bytes) => piped = Some(bytes()),
        }
    }
    let ended = match piped {
        Some(bytes) => home.feed(mistake.typed, &bytes),
        None => home.run(mistake.typed),
    };
    let mut printed = without_times(&with_names(&format!("{}{}", ended.out, ended.err)));
    let (home_folder, user) = (home.path().display().to_string(), home.user().display().to_string());
    let project = home.file("").display().to_string();
    let pid = owner.as_ref().map(|owner| owner.pid().to_string());
    printed = printed.replace(&home_folder, "~/.limulus").replace(project.trim_end_matches('/'), "~/project");
    printed = printed.replace(&user, "~");
    for address in &addresses {
        printed = printed.replace(address, "127.0.0.1:PORT");
    }
    if let Some(pid) = pid {
        printed = printed.replace(&pid, "PID");
    }
    (printed, ended.code)
}

/// With `TIME` for each time of day, with or without its seconds.
fn without_times(text: &str) -> String {
    let is_pair = |part: &str| part.len() == 2 && part.bytes().all(|c| c.is_ascii_digit());
    let named = |word: &str| {
        [8, 5].into_iter().find_map(|length| {
            let (time, rest) = word.split_at_checked(length)?;
            time.split(':').all(is_pair).then(|| format!("TIME{rest}"))
        })
    };
    let words = text.split_inclusive([' ', '\n']).map(|word| named(word).unwrap_or_else(|| word.to_owned()));
    words.collect::<String>().replace("TIMEZ", "TIME")
}

fn host_of(address: &str) -> String {
    address.trim_start_matches("http://").trim_end_matches("/v1").to_owned()
}

fn write_config(home: &Home, text: &[u8]) {
    fs::create_dir_all(home.path()).expect("a home");
    fs::write(home.path().join("config.toml"), text).expect("a configuration");
}

/// The command as it is typed in a shell.
fn typed(mistake: &Mistake) -> String {
    let mut line = String::new();
    let words = mistake.typed.iter().map(|word| {
        let is_plain = !word.is_empty() && word.bytes().all(|c| c.is_ascii_alphanumeric() || b"-_./".contains(&c));
        if is_plain { (*word).to_owned() } else { format!("'{word}'") }
    });
    line.push_str("limulus");
    words.for_each(|word| line = format!("{line} {word}"));
    line
}

/// What is there before, in words.
fn given(mistake: &Mistake) -> String {
    let mut lines = vec![];
    for given in mistake.given {
        let line = match given {
            // Everyone who gets this far has one.
            Variable(_, "sk-of-a-first-day-4711") => continue,
            Variable(name, value) => format!("`{name}={}`", value.replace('\n', "\\n")),
            File(name, _) => format!("`{name}` is a file."),
            Config(text) => format!("`config.toml`:\n\n```text\n{text}```"),
            NoText => "`config.toml` holds bytes that are not UTF-8.".to_owned(),
            FolderAsConfig => "`config.toml` is a folder.".to_owned(),
            FileAsHome => "`LIMULUS_HOME` is a file.".to_owned(),
            Answers(status, text) => format!("The provider answers HTTP {status}: “{text}”."),
            Page => "The address of the provider is that of a web page.".to_owned(),
            Nobody => "Nothing listens at the address of the provider.".to_owned(),
            Ran(words) => format!("Before: `limulus {}`.", words.join(" ")),
            Served => "`limulus serve` runs.".to_owned(),
            Piped(bytes) => format!("{} bytes are piped.", bytes().len()),
        };
        lines.push(format!("{line}\n\n"));
    }
    lines.concat()
}

const HEAD: &str = "# Mistakes of a first day\n\n\
    What is typed, what Limulus prints, and the exit code ([exit-codes.md](exit-codes.md)). A test makes each of these mistakes and \
    compares the output.\n";

#[test]
fn r24_each_mistake_of_a_first_day_says_what_to_do() {
    let rows: Vec<&Mistake> = SECTIONS.iter().flat_map(|(_, rows)| *rows).collect();
    assert!(rows.len() >= 45, "{}", rows.len());
    // Two at a time: some wait for a provider that does not answer.
    let printed: Vec<(String, Option<i32>)> = thread::scope(|scope| {
        let halves: Vec<_> = rows.chunks(rows.len().div_ceil(2)).collect();
        let made: Vec<_> =
            halves.iter().map(|half| scope.spawn(|| half.iter().map(|row| make(row)).collect::<Vec<_>>())).collect();
        made.into_iter().flat_map(|half| half.join().expect("no mistake panics")).collect()
    });
    let mut page = vec![HEAD.to_owned()];
    let mut wrong = vec![];
    let mut outputs = printed.iter();
    for (title, rows) in SECTIONS {
        page.push(format!("\n## {title}\n"));
        for mistake in *rows {
            let (text, code) = outputs.next().expect("one for each");
            let missing: Vec<_> = mistake.says.iter().filter(|part| !text.contains(**part)).collect();
            if *code != Some(mistake.code) || !missing.is_empty() {
                wrong.push(format!(
                    "{}: exit {code:?}, not {}; not in it: {missing:?}\n{text}",
                    mistake.what, mistake.code
                ));
            }
            let shown = code.map_or("a signal".to_owned(), |code| code.to_string());
            let what = mistake.what;
            page.push(format!(
                "\n### {what}\n\n{}```console\n$ {}\n{}```\n\nExit code {shown}.\n",
                given(mistake),
                typed(mistake),
                text
            ));
        }
    }
    let page = page.concat();
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs/mistakes.md");
    if std::env::var_os("UPDATE").is_some() {
        fs::write(&path, &page).expect("docs/ can be written");
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n\n"));
    let stored = fs::read_to_string(&path).unwrap_or_default();
    let other = stored.lines().zip(page.lines()).find(|(stored, made)| stored != made);
    assert!(stored == page, "UPDATE=1 writes docs/mistakes.md; the first other line: {other:?}");
}
