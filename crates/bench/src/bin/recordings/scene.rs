//! The task, the folder in which it is done, and the script of the terminal.

use std::fs;
use std::os::unix::fs::PermissionsExt as _;
use std::path::Path;

use super::Problem;
use super::screen::Screen;
use super::server::{Answer, Server};
use super::tmux::Terminal;

/// The user's folder in the pictures.
pub(super) const USER: &str = "/home/you";
/// What is typed while the task goes on.
const TYPED: &str = "is the empty list tested too?";
/// What is asked.
const MESSAGE: &str = "The test fails. Fix it.";
/// What the terminal shows below the last row.
pub(super) const ENDED: &str = "exit=";

const CODE: &str = "\
def average(numbers):
    \"\"\"The mean of some numbers.\"\"\"
    return sum(numbers) / 2
";
/// What is edited.
const OLD: &str = "    return sum(numbers) / 2\n";
const NEW: &str = "    if not numbers:\n        return 0\n    return sum(numbers) / len(numbers)\n";
const TEST: &str = "\
import unittest
from calc import average


class TestAverage(unittest.TestCase):
    def test_three(self):
        self.assertEqual(average([1, 2, 3]), 2)

    def test_none(self):
        self.assertEqual(average([]), 0)
";
/// The command of the second test: it takes long enough to be watched.
const TESTS: &str = "for i in 1 2 3 4 5 6; do echo \"test $i of 6\"; sleep 0.5; done; python3 -m unittest -q";
/// In place of the system's `sleep`: after the fourth test it waits for as long as the file `hold` is there, so that the
/// middle of the task always looks the same.
const SLEEP: &str = "#!/bin/sh
echo x >> \"$HOME/slept\"
while [ -e \"$HOME/hold\" ] && [ \"$(wc -l < \"$HOME/slept\")\" -ge 4 ]; do /bin/sleep 0.05; done
exec /bin/sleep \"$@\"
";
const FIXED: &str = "\
## Fixed

`average` divided by **2**, whatever the list held. It divides by the number of values now, and an empty list has the average 0:

```python
if not numbers:
    return 0
return sum(numbers) / len(numbers)  # was: / 2
```

| list | before | now |
|---|---|---|
| `[1, 2, 3]` | 3.0 | 2.0 |
| `[]` | 0.0 | 0 |

- all tests pass
- nothing else was changed
";

/// A recording.
#[derive(Debug, Clone, Copy)]
pub(super) struct Scene<'a> {
    pub(super) binary: &'a Path,
    pub(super) columns: u16,
    pub(super) colours: Colours,
    pub(super) moment: Moment,
}

/// Whether the program may use colours.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Colours {
    Some,
    None,
}

/// When the screen is taken.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Moment {
    /// After the end of the run.
    End,
    /// After the fourth of six tests, with something half typed.
    During,
}

impl Scene<'_> {
    /// Does the task in a new folder and returns what is on the screen.
    pub(super) fn record(&self) -> Result<Screen, Problem> {
        // Short, since Python shows it in a row of 80 columns.
        let folder = tempfile::Builder::new().prefix("rec-").tempdir()?;
        let shown = |terminal: &Terminal| {
            let screen = Screen::parse(&terminal.coloured_screen()?)?;
            Ok::<_, Problem>(screen.with(&folder.path().display().to_string(), USER))
        };
        let server = Server::start(answers())?;
        self.prepare(folder.path(), &server.base_url())?;
        let terminal = Terminal::run(folder.path(), self.columns)?;
        if self.moment == Moment::During {
            terminal.until("test 4 of 6")?;
            terminal.type_text(TYPED)?;
            terminal.until(TYPED)?;
            let screen = shown(&terminal)?;
            fs::remove_file(folder.path().join("hold"))?;
            terminal.until(ENDED)?;
            return Ok(screen);
        }
        let text = terminal.until(ENDED)?;
        if !text.contains("exit=0") {
            return Err(format!("the run failed:\n{text}").into());
        }
        let screen = shown(&terminal)?.before(ENDED);
        if !screen.text().starts_with("$ ") {
            return Err(format!("it does not fit on the screen:\n{text}").into());
        }
        Ok(screen)
    }

    /// Makes the project, which lies below the user's folder, and the script of the terminal.
    fn prepare(&self, folder: &Path, base_url: &str) -> Result<(), Problem> {
        let (project, programs) = (folder.join("calc"), folder.join("bin"));
        fs::create_dir_all(project.join(".git"))?;
        fs::create_dir_all(&programs)?;
        fs::write(project.join("calc.py"), CODE)?;
        fs::write(project.join("test_calc.py"), TEST)?;
        fs::write(project.join(".gitignore"), "__pycache__/\n")?;
        std::os::unix::fs::symlink(self.binary, programs.join("limulus"))?;
        fs::write(programs.join("sleep"), SLEEP)?;
        fs::set_permissions(programs.join("sleep"), fs::Permissions::from_mode(0o755))?;
        if self.moment == Moment::During {
            fs::write(folder.join("hold"), "")?;
        }
        let path = std::env::var("PATH")?;
        let own = |name: &str| folder.join(name).display().to_string();
        let variables = [
            ("TERM", "screen-256color".to_owned()),
            ("LANG", "C.UTF-8".to_owned()),
            ("HOME", own("")),
            ("PATH", format!("{}:{path}", programs.display())),
            ("LIMULUS_HOME", own("home")),
            ("LIMULUS_AGENTS__MAIN__MODEL", "acme/large".to_owned()),
            ("LIMULUS_PROVIDERS__ACME__API", "openai-chat".to_owned()),
            ("LIMULUS_PROVIDERS__ACME__BASE_URL", base_url.to_owned()),
            ("LIMULUS_TOOLS__EXEC__POLICY", "allow".to_owned()),
        ];
        let none = (self.colours == Colours::None).then(|| ("NO_COLOR", "1".to_owned()));
        let variables = variables.into_iter().chain(none).map(|(name, value)| format!("'{name}={value}'"));
        let variables = variables.collect::<Vec<_>>().join(" ");
        let shown = if self.colours == Colours::None { "NO_COLOR=1 " } else { "" };
        let script = format!(
            "cd '{}'; clear; echo '$ {shown}limulus agent -m \"{MESSAGE}\"'\n\
             env -i {variables} limulus agent -m '{MESSAGE}'\necho \"{ENDED}$?\"; cat\n",
            project.display()
        );
        Ok(fs::write(folder.join(super::tmux::SCRIPT), script)?)
    }
}

/// What the model says, in order. Arguments are texts, so that their order is that of a model.
fn answers() -> Vec<Answer> {
    let quoted = |text: &str| serde_json::Value::from(text).to_string();
    let command = |command: &str| ("exec", format!("{{\"command\": {}}}", quoted(command)));
    let (old, new) = (quoted(OLD), quoted(NEW));
    let edit = ("edit", format!("{{\"path\": \"calc.py\", \"old_text\": {old}, \"new_text\": {new}}}"));
    let read = ("read", "{\"path\": \"calc.py\"}".to_owned());
    vec![
        Answer {
            text: "The test fails; I look at the code first.",
            calls: vec![command("python3 -m unittest -q"), read],
        },
        Answer { text: "`average` divides by a fixed number.", calls: vec![edit] },
        Answer { text: "", calls: vec![command(TESTS)] },
        Answer { text: FIXED, calls: vec![] },
    ]
}
