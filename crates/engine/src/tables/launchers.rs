//! Programs that run others, and the words of theirs that do so. The `*` of a pattern that allows never stands for such a word: who
//! allows `find *` wants to be asked less often about searches, not about whatever `-exec` runs. The list holds what is known and
//! often allowed; it is no border, which is the sandbox.

/// How a program runs others.
#[derive(Debug, Clone, Copy)]
pub(crate) enum Launcher {
    /// By its first word that is no option, with all that follow.
    Command,
    /// By these words: `--long`, also abbreviated or with a value; `-x` alone or among other letters; any other word as it stands, or
    /// what begins so if it ends with `…`.
    Words(&'static [&'static str]),
    /// By the first word that is no option, if that is more than a simple command of `sed`, and by these.
    Script(&'static [&'static str]),
    /// By any of its words.
    All,
    /// By the options before its subcommand, and by what each subcommand does.
    Git,
}

pub(crate) const LAUNCHERS: &[(&[&str], Launcher)] = &[
    (&["ash", "bash", "dash", "fish", "ksh", "mksh", "sh", "zsh"], Launcher::Command),
    (&[".", "builtin", "command", "coproc", "eval", "exec", "source", "trap"], Launcher::Command),
    // Words of bash that evaluate others as arithmetic, in which a substitution is run, or that name what is to run later.
    (&["alias", "bind", "compgen", "complete", "enable", "fc", "getopts", "hash", "let"], Launcher::All),
    (&["mapfile", "read", "readarray", "wait"], Launcher::All),
    (&["printf", "test", "["], Launcher::Words(&["-R", "-v"])),
    (&["busybox", "env", "parallel", "toybox", "watch", "xargs"], Launcher::Command),
    (
        &["chrt", "ionice", "nice", "nohup", "numactl", "setsid", "stdbuf", "taskset", "time", "timeout"],
        Launcher::Command,
    ),
    (
        &["chroot", "doas", "nsenter", "pkexec", "runuser", "setpriv", "su", "sudo", "systemd-run", "unshare"],
        Launcher::Command,
    ),
    (&["entr", "expect", "fakeroot", "flock", "gdb", "ltrace", "script", "strace", "unbuffer"], Launcher::Command),
    (&["awk", "gawk", "mawk", "nawk", "dc", "ed", "ex", "m4", "nvim", "vi", "view", "vim"], Launcher::All),
    (&["find"], Launcher::Words(&["-exec", "-execdir", "-ok", "-okdir"])),
    (&["fd", "fdfind"], Launcher::Words(&["-X", "-x", "--exec", "--exec-batch"])),
    (&["rg"], Launcher::Words(&["--hostname-bin", "--pre"])),
    (&["sed"], Launcher::Script(&["-e", "-f", "--expression", "--file"])),
    (&["sort"], Launcher::Words(&["--compress-program"])),
    (&["split"], Launcher::Words(&["--filter"])),
    (
        &["bsdtar", "gtar", "tar"],
        Launcher::Words(&[
            "-F",
            "-I",
            "--checkpoint-action",
            "--info-script",
            "--new-volume-script",
            "--rmt-command",
            "--rsh-command",
            "--to-command",
            "--use-compress-program",
        ]),
    ),
    (&["man"], Launcher::Words(&["-C", "-H", "-P", "-p", "--config-file", "--html", "--pager", "--preprocessor"])),
    (&["less", "more"], Launcher::Words(&["+…", "-k", "--lesskey-content", "--lesskey-file", "--lesskey-src"])),
    (&["rsync"], Launcher::Words(&["-e", "--rsh", "--rsync-path"])),
    (&["scp", "sftp", "ssh"], Launcher::Words(&["-F", "-S", "-o"])),
    (&["tcpdump"], Launcher::Words(&["-z"])),
    (&["wget"], Launcher::Words(&["-e", "--execute", "--use-askpass"])),
    (&["zip"], Launcher::Words(&["-T", "-TT", "--unzip-command"])),
    (&["git"], Launcher::Git),
];

/// Options of git before its subcommand that run nothing.
pub(crate) const GIT_PLAIN: &[&str] = &["--help", "--no-pager", "--version", "-P", "-h", "-v"];

/// What the subcommands of git run.
pub(crate) const GIT: &[(&str, Launcher)] = &[
    ("archive", Launcher::Words(&["--exec"])),
    ("bisect", Launcher::Words(&["run"])),
    ("clone", Launcher::Words(&["-c", "-u", "--config", "--template", "--upload-pack"])),
    ("config", Launcher::All),
    ("daemon", Launcher::All),
    ("difftool", Launcher::All),
    ("fetch", Launcher::Words(&["--upload-pack"])),
    ("fetch-pack", Launcher::Words(&["--exec", "--upload-pack"])),
    ("filter-branch", Launcher::All),
    ("grep", Launcher::Words(&["-O", "--open-files-in-pager"])),
    ("hook", Launcher::All),
    ("init", Launcher::Words(&["--template"])),
    ("instaweb", Launcher::All),
    ("ls-remote", Launcher::Words(&["--exec", "--upload-pack"])),
    ("mergetool", Launcher::All),
    ("pull", Launcher::Words(&["--upload-pack"])),
    ("push", Launcher::Words(&["--exec", "--receive-pack"])),
    ("rebase", Launcher::Words(&["-x", "--exec"])),
    ("remote-ext", Launcher::All),
    ("send-email", Launcher::All),
    ("send-pack", Launcher::Words(&["--exec", "--receive-pack"])),
    ("submodule", Launcher::Words(&["foreach"])),
];
