//! Escapes by files outside of the workspace.

use confine::{Tier, WorkspaceAccess};

use crate::support::{BOTH, ONLY_A, each, refused, refused_without_control};

#[test]
fn escape_1_writing_outside() {
    refused(1, &BOTH, r#"echo x >"$WORK/../outside/new""#);
    refused(1, &BOTH, r#"mkdir "$OUT/new""#);
    refused(1, &BOTH, r#"rm "$OUT/file""#);
    refused(1, &BOTH, r#"echo x >>"$OUT/file""#);
}

#[test]
fn escape_2_a_symbolic_link_leads_outside() {
    refused(2, &BOTH, r#"ln -sfn "$OUT" link && echo x >link/new"#);
    refused(2, &BOTH, r#"ln -sf "$OUT/file" link2 && echo x >link2"#);
}

#[test]
fn escape_5_a_hard_link_to_a_file_outside() {
    refused(5, &BOTH, r#"ln "$OUT/file" hard && echo x >hard"#);
    refused(5, &BOTH, r#"mv "$OUT/file" stolen"#);
}

#[test]
fn escape_18_start_files_of_the_shell_outside() {
    refused(18, &BOTH, r#"echo 'evil' >"$OUT/.bashrc""#);
}

/// Landlock does not know these; the mounts do.
#[test]
fn escape_24_rights_and_times_of_a_file_outside() {
    refused(24, &ONLY_A, r#"chmod 640 "$OUT/file""#);
    refused(24, &ONLY_A, r#"touch -d 2001-01-01 "$OUT/file""#);
    // Those of devices and of the kernel's files belong to root; these are the ones that they have.
    refused_without_control(24, &ONLY_A, "chmod 666 /dev/full");
    refused_without_control(24, &ONLY_A, "chmod 444 /proc/meminfo");
    refused(24, &ONLY_A, r#"perl -e 'utime(1, 1, "$ENV{OUT}/file") or die'"#);
}

#[test]
fn escape_25_truncating_a_file_outside() {
    refused(25, &BOTH, r#": >"$OUT/file""#);
    refused(25, &BOTH, r#"perl -e 'truncate("$ENV{OUT}/file", 0) or die'"#);
}

#[test]
fn escape_26_device_nodes() {
    refused_without_control(26, &BOTH, "mknod device c 1 3");
    refused_without_control(26, &BOTH, "mknod device b 7 0");
    each(&BOTH, |world| {
        world.succeed("mkfifo pipe");
    });
}

/// In tier A the folder is its own; in tier B that of the host cannot be written.
#[test]
fn escape_27_shared_memory_of_the_host() {
    let name = format!("/dev/shm/limulus-test-{}", std::process::id());
    each(&BOTH, |world| {
        let output = world.run(&format!("echo x >{name} && cat {name}"));
        assert_eq!(output.status.success(), world.tier == Tier::A, "{}{output:?}", world.name());
        assert!(!std::path::Path::new(&name).exists());
    });
}

#[test]
fn escape_28_settings_of_the_kernel() {
    refused_without_control(28, &BOTH, "echo 5 >/proc/sys/kernel/printk_ratelimit");
    refused_without_control(28, &BOTH, "echo 1 >/sys/kernel/mm/ksm/run || echo 1 >/sys/kernel/uevent_helper");
    refused_without_control(28, &BOTH, "echo h >/proc/sysrq-trigger");
    // The file belongs to root, who needs no capability to write it.
    each(&BOTH, |world| {
        if world.user.is_root() {
            world.control(28, "f=/proc/sys/kernel/printk_ratelimit; v=$(cat $f) && echo $v >$f");
        }
    });
}

#[test]
fn escape_54_the_release_agent_of_a_cgroup() {
    let script =
        r"f=$(find /sys/fs/cgroup -name release_agent -o -name cgroup.procs | head -1); test -n $f && echo 0 >$f";
    refused_without_control(54, &BOTH, script);
}

/// The loader of programs needs to read them, and what is hidden cannot be read.
#[test]
fn escape_57_the_loader_runs_nothing_that_is_hidden() {
    each(&BOTH, |world| {
        let copy = format!("cp $(ls /bin/true /usr/bin/true | head -n 1) {}", world.at("secret/program").display());
        world.control(57, &copy);
        let run = r#"loader=$(ls /lib64/ld-linux* /lib/ld-linux* /lib/ld-musl* 2>/dev/null | head -n 1); "$loader" "$SECRET/program""#;
        world.refuse(57, run);
        world.control(57, run);
    });
}

/// Jobs for later, which would run without a sandbox.
#[test]
fn escape_61_jobs_for_later() {
    let units = r#"mkdir -p "$OUT/.config/systemd/user" && echo x >"$OUT/.config/systemd/user/evil.service""#;
    refused(61, &BOTH, units);
    let spools = [
        "/etc/cron.d",
        "/etc/cron.daily",
        "/var/spool/cron",
        "/var/spool/cron/crontabs",
        "/var/spool/at",
        "/var/spool/anacron",
        "/etc/systemd/system",
        "/run/systemd/system",
        "/etc/init.d",
        "/etc/profile.d",
        "/etc/xdg/autostart",
    ];
    for folder in spools.iter().filter(|folder| std::path::Path::new(folder).is_dir()) {
        refused_without_control(61, &BOTH, &format!("echo x >{folder}/limulus-test-evil"));
        assert!(!std::path::Path::new(folder).join("limulus-test-evil").exists(), "{folder}");
    }
}

#[test]
fn secrets_cannot_be_read() {
    refused(0, &BOTH, r#"grep -q precious "$SECRET/key""#);
    refused(0, &BOTH, r#"grep -qr precious "$SECRET""#);
    refused(0, &BOTH, r#"ln -sfn "$SECRET" here && grep -q precious here/key"#);
    each(&BOTH, |world| {
        let file = confine::Profile { hidden: vec![world.at("outside/file")], ..world.profile() };
        let output = world.command(&file, &["sh", "-c", r#"cat "$OUT/file"; cat "$SECRET/key""#]).output().unwrap();
        assert_eq!(
            String::from_utf8_lossy(&output.stdout),
            "precious\n",
            "only the folder: {}{output:?}",
            world.name()
        );
    });
}

#[test]
fn what_is_hidden_wins_over_a_workspace_around_it() {
    each(&BOTH, |world| {
        world.create_folder("work/.limulus-home");
        world.write("work/.limulus-home/key", "precious\n");
        world.create_folder("work/sub");
        let hidden = vec![world.work(".limulus-home")];
        let profile = confine::Profile { hidden, ..world.profile() };
        let script = "cat .limulus-home/key; echo x >.limulus-home/new; echo y >sub/new && cat sub/new";
        let output = world.command(&profile, &["sh", "-c", script]).output().unwrap();
        assert_eq!(String::from_utf8_lossy(&output.stdout), "y\n", "{}{output:?}", world.name());
        assert!(!world.work(".limulus-home/new").exists());
    });
}

/// The whole file system as the workspace: the kernel's settings and what is hidden stay out of reach.
#[test]
fn the_root_as_a_workspace() {
    each(&ONLY_A, |world| {
        let hidden = vec![world.at("secret"), world.at("reports")];
        let profile = confine::Profile { workspace: "/".into(), hidden, read_only: vec![], ..world.profile() };
        let script = r#"echo x >"$OUT/new" && cat "$OUT/new"; cat "$SECRET/key"; chmod 755 /sys; echo x >/proc/sys/x"#;
        let output = world.command(&profile, &["sh", "-c", script]).output().unwrap();
        assert_eq!(String::from_utf8_lossy(&output.stdout), "x\n", "{}{output:?}", world.name());
        assert_eq!(String::from_utf8_lossy(&output.stderr).lines().count(), 3, "{output:?}");
    });
}

#[test]
fn a_workspace_in_a_hidden_folder_is_usable() {
    each(&BOTH, |world| {
        let hidden = vec![world.at("")];
        let profile = confine::Profile { hidden, ..world.profile() };
        let script = r#"echo x >new && cat new; echo y >$TMPDIR/y && cat $TMPDIR/y; cat "$OUT/file""#;
        let output = world.command(&profile, &["sh", "-c", script]).output().unwrap();
        assert_eq!(String::from_utf8_lossy(&output.stdout), "x\ny\n", "{}{output:?}", world.name());
        assert_eq!(world.read("work/new"), "x\n");
    });
}

#[test]
fn a_read_only_workspace_has_a_writable_temporary_folder() {
    each(&BOTH, |world| {
        world.write("work/file", "kept\n");
        let profile = confine::Profile { access: WorkspaceAccess::ReadOnly, ..world.profile() };
        let script = r#"cat file; echo x >file; echo x >new; mktemp >/dev/null && echo made; cat "$OUT/file""#;
        let output = world.command(&profile, &["sh", "-c", script]).output().unwrap();
        let text = String::from_utf8_lossy(&output.stdout).into_owned();
        assert_eq!(text, "kept\nmade\nprecious\n", "{}{output:?}", world.name());
        assert_eq!(std::fs::read_dir(world.at("work")).unwrap().count(), 1);
    });
}

#[test]
fn further_folders_can_be_writable() {
    each(&BOTH, |world| {
        let writable = vec![world.at("outside"), world.at("absent")];
        let profile = confine::Profile { writable, ..world.profile() };
        let output = world.command(&profile, &["sh", "-c", r#"echo x >"$OUT/new""#]).output().unwrap();
        assert!(output.status.success(), "{}{output:?}", world.name());
    });
}

/// Every mount that is not one of the writable roots is read-only.
#[test]
fn no_other_mount_is_writable() {
    each(&ONLY_A, |world| {
        let mounts = world.succeed("cat /proc/self/mountinfo");
        let work = world.at("work");
        let is_expected = |path: &str| {
            let device =
                ["/dev", "/dev/shm", "/dev/pts", "/dev/null", "/dev/zero", "/dev/full", "/dev/random", "/dev/urandom"];
            let of_proc = path == "/proc" || (path.starts_with("/proc/") && !path.starts_with("/proc/sys"));
            device.contains(&path)
                || path == "/dev/tty"
                || of_proc
                || path == world.at("temporary").to_str().unwrap()
                || std::path::Path::new(path) == work
        };
        for line in mounts.lines() {
            let fields: Vec<_> = line.split(' ').collect();
            let is_writable = fields[5].split(',').any(|option| option == "rw");
            // One that is mounted over cannot be reached.
            let is_top = mounts.lines().rfind(|other| other.split(' ').nth(4) == Some(fields[4])) == Some(line);
            let is_covered =
                fields[4].starts_with("/dev/") && fields[8..].contains(&"tmpfs") && !fields[8..].contains(&"none");
            assert!(!is_writable || !is_top || is_covered || is_expected(fields[4]), "{line}\n{mounts}");
        }
    });
}
