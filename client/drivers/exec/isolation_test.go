package exec_test

import (
	"encoding/json"
	"fmt"
	"os"
	"slices"
	"strings"
	"testing"

	"berth/client/drivers/driver"
	"berth/test/kit"
)

func contains(s, sub string) bool { return strings.Contains(s, sub) }

func hostname(t *testing.T) string {
	t.Helper()
	name, err := os.Hostname()
	if err != nil {
		t.Fatal(err)
	}
	return name
}

func TestSandbox_ShowsItsOwnRoot(t *testing.T) {
	r := newFixture(t)
	host := hostname(t)
	const sentinel = "/tmp/of-the-host"
	if err := os.WriteFile(sentinel, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { os.Remove(sentinel) })
	cases := []struct{ name, script, want string }{
		{"the supervisor is pid 1", `cat /proc/1/comm`, "berth-executor"},
		{"only its own processes", `set -- /proc/[0-9]*; echo $#`, "2"},
		{"its own root", `echo /*`,
			"/alloc /bin /dev /etc /home /lib /lib64 /local /mnt /proc /root /run /sbin /secrets /srv /sys /tmp /usr /var"},
		{"no host files", `test -e ` + sentinel + ` || echo none; ls ` + r.dir +
			` 2>&1 >/dev/null | grep -c 'No such'`, "none\n1"},
		{"read-only root", `touch /x /usr/x /etc/x /sys/x 2>&1 | grep -c 'Read-only file system'`, "4"},
		{"the agent's executable is safe", `echo x 2>/dev/null >> /run/berth/bin/berth; echo $?`, "2"},
		{"writable directories",
			`touch /local/x /secrets/x /alloc/x /tmp/x /run/x /dev/shm/x /var/tmp/y && echo ok`, "ok"},
		{"the host's name", `hostname`, host},
		{"no new privileges", `grep NoNewPrivs /proc/self/status | cut -f2`, "1"},
		{"few capabilities", `grep -E 'Cap(Prm|Bnd)' /proc/self/status | cut -f2 | sort -u`, "00000000a00405fb"},
		{"cannot mount", `mount -t tmpfs x /mnt 2>/dev/null; echo $?`, "32"},
		{"cannot make devices", `mknod /tmp/sda b 8 0 2>/dev/null; echo $?`, "1"},
		{"cannot open host devices", `ls /dev | tr '\n' ' '`,
			"fd full null ptmx pts random shm stderr stdin stdout tty urandom zero "},
		{"working devices", `head -c 4 /dev/zero | wc -c; echo gone > /dev/null && head -c 4 /dev/urandom | wc -c`,
			"4\n4"},
		{"kernel settings are read-only", `echo x 2>/dev/null > /proc/sys/kernel/hostname; echo $?`, "2"},
		{"no way to the host's files", `
			for f in /proc/1/root /proc/1/cwd /proc/1/fd/* /proc/1/ns/* /proc/1/task/*/root /proc/1/task/*/cwd; do
				readlink $f; ls $f/
			done 2>/dev/null; echo tried`, "tried"},
		{"no way to the agent's executable", `readlink /proc/1/exe; echo $?`, "1"},
		{"signals do not end pid 1", `i=1; while test $i -lt 65; do
				test $i = 2 || test $i = 15 || kill -$i 1; i=$((i+1))
			done; echo alive`, "alive"},
		{"no inherited files", `ls /proc/self/fd | tr '\n' ' '`, "0 1 2 3 "}, // 3 is the listing's own
		{"its own session", `test "$(ps -o sid= -p $$ | tr -d ' ')" = $$ && echo ok`, "ok"},
		{"its own ipc", `wc -l < /proc/sysvipc/shm`, "1"},
		{"the agent's executable last in PATH", `echo ${PATH##*:}; command -v berth`,
			"/run/berth/bin\n/run/berth/bin/berth"},
		{"its directories", `echo $BERTH_ALLOC_DIR $NOMAD_TASK_DIR $BERTH_SECRETS_DIR $HOME`,
			"/alloc /local /secrets /local"},
		{"the root as working directory", `pwd`, "/"},
		{"a limit on files", `test $(ulimit -n) -ge 4096 && echo ok`, "ok"},
	}
	for i, c := range cases {
		t.Run(c.name, func(t *testing.T) {
			r := *r
			r.t = t
			cfg := r.task(fmt.Sprintf("t%d", i), c.script)
			res, out := r.run(cfg)
			if got := strings.TrimSuffix(out, "\n"); got != c.want {
				t.Fatalf("got the output %q, want %q (end %+v)", got, c.want, res)
			}
		})
	}
}

// The host mounts file systems below /sys that show the memory of the machine. Of these, only a privileged
// task has more than the cgroups.
func TestSandbox_HidesTheFileSystemsBelowSys(t *testing.T) {
	r := newFixture(t)
	hidden := []string{"/sys/kernel/debug", "/sys/kernel/tracing", "/sys/fs/pstore", "/sys/fs/bpf"}
	hidden = slices.DeleteFunc(hidden, func(dir string) bool { return !exists(dir) })
	if len(hidden) == 0 {
		kit.SkipLacking(t, "a kernel with directories for file systems below /sys")
	}
	for privileged, want := range map[bool]int{false: 0, true: len(hidden)} {
		cfg := r.task(fmt.Sprint(privileged), `ls /sys/fs/cgroup > /local/groups
			echo $(find `+strings.Join(hidden, " ")+` -name of-the-host | wc -l); exec sleep 1000`)
		cfg.Privileged = privileged
		cmd, out := r.runAgent(agentOrder{Dir: r.dir, Task: cfg, Cover: hidden})
		if err := json.NewDecoder(out).Decode(&driver.Handle{}); err != nil {
			t.Fatalf("the agent did not start the task: %v", err)
		}
		r.awaitOutput(cfg, "\n")
		r.killAgent(cmd)
		if got := r.readLog(cfg, "stdout"); got != fmt.Sprintln(want) {
			t.Errorf("privileged %t: the task sees %q of the file systems, want %d", privileged, got, want)
		}
		if groups, err := os.ReadFile(cfg.Dirs.Local + "/groups"); err != nil || len(groups) == 0 {
			t.Errorf("privileged %t: the task does not see the cgroups: %v", privileged, err)
		}
	}
}

func TestSandbox_HasAPrivateHostName(t *testing.T) {
	r := newFixture(t)
	before := hostname(t)
	cfg := r.task("t", `hostname of-the-task && hostname`)
	cfg.Privileged = true
	if res, out := r.run(cfg); out != "of-the-task\n" {
		t.Fatalf("got the end %+v and the output %q", res, out)
	}
	if after := hostname(t); after != before {
		t.Fatalf("got the name %q of the host, want %q", after, before)
	}
}

func TestDuty_A17_PrivilegedKeepsCapabilities(t *testing.T) {
	r := newFixture(t)
	cfg := r.task("t", `
		mount -t tmpfs x /mnt && echo mounted
		test -c /dev/kmsg && echo devices
		test -w /sys/kernel && echo sys
		grep NoNewPrivs /proc/self/status | cut -f2`)
	cfg.Privileged = true
	if res, out := r.run(cfg); out != "mounted\ndevices\nsys\n0\n" {
		t.Fatalf("got the end %+v and the output %q", res, out)
	}
}

func TestSandbox_RunsAsTheTasksUser(t *testing.T) {
	r := newFixture(t)
	for name, want := range map[string]string{
		"":          "0:0:0:0000000000000000",
		"root":      "0:0:0:0000000000000000",
		"nobody":    "65534:65534:65534:0000000000000000",
		"4321":      "4321:4321:4321:0000000000000000",
		"4321:1234": "4321:1234:1234:0000000000000000",
		"daemon":    "1:1:1:0000000000000000",
	} {
		t.Run(name, func(t *testing.T) {
			r := *r
			r.t = t
			cfg := r.task("u"+strings.ReplaceAll(name, ":", "-"),
				`echo $(id -u):$(id -g):$(id -G):$(grep CapAmb /proc/self/status | cut -f2); touch /local/x /secrets/x`)
			cfg.User = name
			if res, out := r.run(cfg); out != want+"\n" {
				t.Fatalf("got the end %+v and the output %q, want %q", res, out, want)
			}
		})
	}
	cfg := r.task("t", "true")
	cfg.User = "nobody-of-this-name"
	if _, err := r.Start(r.ctx(), cfg); err == nil || !contains(err.Error(), `"nobody-of-this-name"`) {
		t.Fatalf("an unknown user: got %v, want an error with the name", err)
	}
	r.checkClean(cfg)
}

func TestSandbox_UsersHaveNoCapabilities(t *testing.T) {
	r := newFixture(t)
	for _, privileged := range []bool{false, true} {
		cfg := r.task(fmt.Sprint(privileged), `grep CapEff /proc/self/status | cut -f2`)
		cfg.User = "nobody"
		cfg.Privileged = privileged
		if res, out := r.run(cfg); out != "0000000000000000\n" {
			t.Fatalf("privileged %v: got the end %+v and the output %q", privileged, res, out)
		}
	}
}

func TestEnvironment_IsTheTasks(t *testing.T) {
	r := newFixture(t)
	t.Setenv("OF_THE_AGENT", "secret")
	cfg := r.task("t", `env | grep -v '^PWD=' | sort`)
	cfg.Env = map[string]string{
		"A":               "b c",
		"PATH":            "/usr/bin:/bin",
		"HOME":            "/alloc",
		"NOMAD_ALLOC_DIR": "wrong",
	}
	want := strings.Join([]string{
		"A=b c",
		"BERTH_ALLOC_DIR=/alloc",
		"BERTH_SECRETS_DIR=/secrets",
		"BERTH_TASK_DIR=/local",
		"HOME=/alloc",
		"NOMAD_ALLOC_DIR=/alloc",
		"NOMAD_SECRETS_DIR=/secrets",
		"NOMAD_TASK_DIR=/local",
		"PATH=/usr/bin:/bin:/run/berth/bin",
		"TMPDIR=/tmp",
		"",
	}, "\n")
	if _, out := r.run(cfg); out != want {
		t.Fatalf("got the output %q, want %q", out, want)
	}
}

// A task's environment may hold secrets: no file on the host shows it.
func TestSecrets_StayOffTheDisk(t *testing.T) {
	r := newFixture(t)
	cfg := r.task("t", `echo up; exec sleep 60`)
	cfg.Env = map[string]string{"TOKEN": "7f3a-do-not-store"}
	r.start(cfg)
	r.awaitOutput(cfg, "up")
	entries, err := os.ReadDir(r.DirOf(cfg.ID))
	if err != nil || len(entries) < 4 {
		t.Fatalf("the task's directory has %v, %v, want at least 4 files", entries, err)
	}
	for _, e := range entries {
		if !e.Type().IsRegular() {
			continue
		}
		b, err := os.ReadFile(r.DirOf(cfg.ID) + "/" + e.Name())
		if err != nil || contains(string(b), cfg.Env["TOKEN"]) {
			t.Errorf("the file %s has the secret (%v)", e.Name(), err)
		}
	}
}

func TestLogs_CanBeDisabled(t *testing.T) {
	r := newFixture(t)
	cfg := r.task("t", `echo lost`)
	cfg.LogConfig.Disabled = true
	if res, out := r.run(cfg); !res.Successful() || out != "" {
		t.Fatalf("got the end %+v and the output %q", res, out)
	}
	if files, err := os.ReadDir(cfg.Dirs.Logs); err != nil || len(files) > 0 {
		t.Fatalf("got the logs %v, %v, want none", files, err)
	}
}

var _ driver.Driver = (*fixture)(nil)
