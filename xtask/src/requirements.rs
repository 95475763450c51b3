//! Lists which test proves which requirement, and the command that shows it to a user. A test names its requirements in
//! its own name (`r13_…`, `r10_r12_…`) or in its doc comment (`R13`). An ignored test proves nothing.

use std::fmt::Write as _;
use std::io::{self, Write};
use std::path::Path;

use crate::rust_source::{code_of, words};
use crate::tree::{TextFile, Tree};

/// One line for each requirement: `R01 | what must be true | the command that shows it`.
const LIST: &str = "docs/requirements.txt";

/// The form of the output.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Output {
    Table,
    /// Only errors; the result is false if there are any.
    Check,
    Json,
}

#[derive(Debug)]
struct Requirement<'a> {
    /// Such as `R01`.
    id: &'a str,
    what: &'a str,
    shown_by: &'a str,
}

#[derive(Debug, PartialEq, Eq)]
struct Test {
    path: String,
    /// Counted from 1.
    line: usize,
    name: String,
    /// The ids, such as `R01`.
    requirements: Vec<String>,
}

impl Test {
    fn proves(&self, requirement: &Requirement) -> bool {
        self.requirements.iter().any(|id| id == requirement.id)
    }
}

/// Prints the requirements of the tree at `root`; false if the list cannot be read or, for a check, has gaps.
pub(crate) fn run(root: &Path, output: Output, out: &mut dyn Write) -> io::Result<bool> {
    let tree = Tree::read(root)?;
    let Some(list) = tree.file(LIST) else {
        writeln!(out, "{LIST}: is missing — one line for each requirement: `R01 | what | command`")?;
        return Ok(false);
    };
    let requirements = match parse_list(&list.text) {
        Ok(requirements) => requirements,
        Err((line, what)) => {
            writeln!(out, "{LIST}:{line}: {what} — write `R01 | what | command`, each once")?;
            return Ok(false);
        }
    };
    let tests: Vec<Test> = tree.with_ending(".rs").flat_map(tests_of).collect();
    match output {
        Output::Table => print_table(&requirements, &tests, out).map(|()| true),
        Output::Json => out.write_all(json(&requirements, &tests).as_bytes()).map(|()| true),
        Output::Check => check(&requirements, &tests, out),
    }
}

/// Parses the list. An error is the number of the first wrong line, and the reason.
fn parse_list(text: &str) -> Result<Vec<Requirement<'_>>, (usize, String)> {
    let mut requirements: Vec<Requirement> = vec![];
    for (index, line) in text.lines().enumerate().filter(|(_, line)| !line.is_empty() && !line.starts_with('#')) {
        let parts: Vec<&str> = line.split('|').map(str::trim).collect();
        let &[id, what, shown_by] = parts.as_slice() else {
            return Err((index + 1, format!("{} parts instead of three", parts.len())));
        };
        if !is_id(id, 'R') || what.is_empty() || shown_by.is_empty() {
            return Err((index + 1, format!("`{id}` is no number of a requirement, or a part is empty")));
        }
        if requirements.iter().any(|known| known.id == id) {
            return Err((index + 1, format!("`{id}` is listed twice")));
        }
        requirements.push(Requirement { id, what, shown_by });
    }
    Ok(requirements)
}

fn print_table(requirements: &[Requirement], tests: &[Test], out: &mut dyn Write) -> io::Result<()> {
    for requirement in requirements {
        let Requirement { id, what, shown_by } = requirement;
        writeln!(out, "{id}  {what}\n     shown by: {shown_by}")?;
        let mut has_test = false;
        for test in tests.iter().filter(|test| test.proves(requirement)) {
            writeln!(out, "     {}:{} {}", test.path, test.line, test.name)?;
            has_test = true;
        }
        if !has_test {
            writeln!(out, "     no test yet")?;
        }
    }
    Ok(())
}

fn check(requirements: &[Requirement], tests: &[Test], out: &mut dyn Write) -> io::Result<bool> {
    let unproved: Vec<_> = requirements.iter().filter(|r| !tests.iter().any(|test| test.proves(r))).collect();
    for Requirement { id, what, .. } in &unproved {
        let prefix = id.to_lowercase();
        writeln!(out, "{LIST}: {id} ({what}) has no test — name one `{prefix}_…`, or write {id} in its doc comment")?;
    }
    writeln!(out, "requirements: {} listed, {} without a test", requirements.len(), unproved.len())?;
    Ok(unproved.is_empty())
}

fn json(requirements: &[Requirement], tests: &[Test]) -> String {
    let rows = requirements.iter().map(|requirement| {
        let proofs = tests.iter().filter(|test| test.proves(requirement)).map(|Test { path, line, name, .. }| {
            format!("{{\"path\":{},\"line\":{line},\"name\":{}}}", quoted(path), quoted(name))
        });
        let proofs: Vec<_> = proofs.collect();
        let Requirement { id, what, shown_by } = requirement;
        let (id, what, shown_by) = (quoted(id), quoted(what), quoted(shown_by));
        format!("{{\"id\":{id},\"what\":{what},\"shown_by\":{shown_by},\"tests\":[{}]}}", proofs.join(","))
    });
    format!("[{}]\n", rows.collect::<Vec<_>>().join(",\n"))
}

/// Quotes and escapes a text as a JSON string.
fn quoted(text: &str) -> String {
    let mut json = String::from('"');
    for c in text.chars() {
        match c {
            '"' | '\\' => json.extend(['\\', c]),
            c if c.is_control() => write!(json, "\\u{:04x}", u32::from(c)).expect("a String takes all"),
            c => json.push(c),
        }
    }
    json + "\""
}

/// The tests of a file that name a requirement.
fn tests_of(file: &TextFile) -> Vec<Test> {
    let code = code_of(&file.text);
    let mut tests = vec![];
    let mut head = TestHead::default();
    for (index, (text, code)) in file.text.lines().zip(code.lines()).enumerate() {
        let (text, code) = (text.trim(), code.trim());
        if code.is_empty() {
            head.read_comment(text);
        } else if code.starts_with("#[") {
            head.read_attribute(code);
        } else if let Some(name) = function_name(code) {
            let head = std::mem::take(&mut head);
            let mut requirements = ids_in_name(name);
            requirements.extend(head.requirements);
            if head.is_test && !head.is_ignored && !requirements.is_empty() {
                tests.push(Test { path: file.path.clone(), line: index + 1, name: name.to_owned(), requirements });
            }
        } else if code.ends_with([';', '{', '}']) {
            head = TestHead::default();
        }
    }
    tests
}

/// The comments and attributes before a function.
#[derive(Default)]
struct TestHead {
    requirements: Vec<String>,
    is_test: bool,
    is_ignored: bool,
}

impl TestHead {
    fn read_comment(&mut self, text: &str) {
        if let Some(doc) = text.strip_prefix("///") {
            self.requirements
                .extend(words(doc).map(|(_, word)| word).filter(|word| is_id(word, 'R')).map(str::to_owned));
        }
    }

    fn read_attribute(&mut self, code: &str) {
        self.is_test |= words(code).take_while(|(_, word)| *word != "cfg").any(|(_, word)| word == "test");
        self.is_ignored |= code.starts_with("#[ignore");
    }
}

fn function_name(code: &str) -> Option<&str> {
    let mut words = words(code).map(|(_, word)| word).skip_while(|word| *word != "fn");
    words.nth(1)
}

/// The requirements at the front of a test's name.
fn ids_in_name(name: &str) -> Vec<String> {
    name.split('_').take_while(|part| is_id(part, 'r')).map(str::to_uppercase).collect()
}

/// Whether a word is this letter with two digits.
fn is_id(word: &str, letter: char) -> bool {
    word.strip_prefix(letter).is_some_and(|digits| digits.len() == 2 && digits.bytes().all(|b| b.is_ascii_digit()))
}

#[cfg(test)]
mod tests {
    use super::{LIST, Output, run};
    use crate::tree::made_up::Folder;

    const TESTS: &str = "//! Doc.\n#[test]\nfn r01_one() {}\n/// Proves R02 and R03.\n#[tokio::test(\n    flavor = \"x\"\n)]\n\
                         async fn two() {}\nfn r04_no_test() {}\n#[test]\n#[ignore = \"slow\"]\nfn r04_ignored() {}\n\
                         #[cfg(test)]\nmod x {}\n#[cfg(test)]\nfn r04_support() {}\n";

    fn printed(list: &str, output: Output) -> (bool, String) {
        let folder = Folder::new(&[(LIST, list), ("a/tests/t.rs", TESTS)]);
        let mut out = vec![];
        let is_good = run(&folder.0, output, &mut out).unwrap();
        (is_good, String::from_utf8(out).unwrap())
    }

    #[test]
    fn a_requirement_is_proved_by_name_or_by_doc_comment() {
        let (is_good, out) = printed("# list\nR01 | one | x\nR02 | two | x\nR03 | three | x\n", Output::Check);
        assert!(is_good, "{out}");
        assert_eq!(out, "requirements: 3 listed, 0 without a test\n");
    }

    #[test]
    fn a_function_that_is_no_running_test_proves_nothing() {
        let (is_good, out) = printed("R01 | one | x\nR04 | four | x\n", Output::Check);
        assert!(!is_good && out.starts_with("docs/requirements.txt: R04 (four) has no test — "), "{out}");
    }

    #[test]
    fn a_malformed_list_is_reported() {
        for (list, line) in
            [("R01 | one\n", 1), ("\nR1 | one | x\n", 2), ("R01 | a | x\nR01 | b | x\n", 2), ("R01 | | x", 1)]
        {
            let (is_good, out) = printed(list, Output::Table);
            assert!(!is_good && out.starts_with(&format!("{LIST}:{line}: ")), "{list}: {out}");
        }
    }

    #[test]
    fn the_table_and_the_json_name_tests_and_commands() {
        let list = "R01 | one | say \"x\"\nR04 | four | limulus y\n";
        let table = "R01  one\n     shown by: say \"x\"\n     a/tests/t.rs:3 r01_one\nR04  four\n     shown by: limulus y\n     no test yet\n";
        assert_eq!(printed(list, Output::Table), (true, table.to_owned()));
        let json = "[{\"id\":\"R01\",\"what\":\"one\",\"shown_by\":\"say \\\"x\\\"\",\"tests\":[{\"path\":\"a/tests/t.rs\",\"line\":3,\
                    \"name\":\"r01_one\"}]},\n{\"id\":\"R04\",\"what\":\"four\",\"shown_by\":\"limulus y\",\"tests\":[]}]\n";
        assert_eq!(printed(list, Output::Json), (true, json.to_owned()));
    }
}
