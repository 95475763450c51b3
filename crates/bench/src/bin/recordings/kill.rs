//! A run whose process is killed in the middle of a command, and resumed by another one. The built-in offline model answers.

use std::fs;
use std::path::Path;

use super::Problem;
use super::scene::{ENDED, USER};
use super::screen::Screen;
use super::tmux::{SCRIPT, Terminal};

/// What is asked.
const MESSAGE: &str = "run `for i in 1 2 3 4 5; do echo $i >> out.txt; sleep 1; done`";

/// Does it in a new folder and returns what is on the screen.
pub(super) fn record(binary: &Path, columns: u16) -> Result<Screen, Problem> {
    let folder = tempfile::Builder::new().prefix("rec-").tempdir()?;
    prepare(folder.path(), binary)?;
    let terminal = Terminal::run(folder.path(), columns)?;
    let text = terminal.until(ENDED)?;
    if !text.contains("1 2 3 4 5") {
        return Err(format!("the command did not run once from its beginning to its end:\n{text}").into());
    }
    let screen = Screen::parse(&terminal.coloured_screen()?)?;
    Ok(screen.with(&folder.path().display().to_string(), USER).before(ENDED))
}

/// Makes the project and the script of the terminal: it shows each command and runs it.
fn prepare(folder: &Path, binary: &Path) -> Result<(), Problem> {
    let project = folder.join("pond");
    fs::create_dir_all(project.join(".git"))?;
    let (home, user) = (folder.join("home"), folder.display());
    let path = std::env::var("PATH")?;
    let limulus = format!(
        "env -i TERM=screen-256color LANG=C.UTF-8 'HOME={user}' 'PATH={path}' 'LIMULUS_HOME={}' '{}'",
        home.display(),
        binary.display()
    );
    let script = format!(
        "cd '{}'; clear\n\
         echo \"$ limulus agent --yes -m '$MESSAGE' &\"\n\
         {limulus} agent --yes -m \"$MESSAGE\" &\n\
         until [ \"$(cat out.txt 2>/dev/null | wc -l)\" -ge 3 ]; do sleep 0.05; done\n\
         printf '\\n$ kill -9 $!\\n'; kill -9 $!; wait $! 2>/dev/null\n\
         echo '$ limulus resume'; {limulus} resume\n\
         printf '%s\\n' '$ cat out.txt | tr \"\\n\" \" \"'; tr '\\n' ' ' < out.txt\n\
         printf '\\n{ENDED}\\n'; cat\n",
        project.display()
    );
    Ok(fs::write(folder.join(SCRIPT), format!("MESSAGE='{MESSAGE}'\n{script}"))?)
}
