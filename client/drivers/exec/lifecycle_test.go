package exec_test

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"golang.org/x/sync/errgroup"

	"berth/client/drivers/cgroups"
	"berth/client/drivers/driver"
	"berth/structs"
	"berth/test/kit"
)

func TestWait_ReportsTheEndOfATask(t *testing.T) {
	r := newFixture(t)
	for _, c := range []struct {
		name, script string
		want         driver.ExitResult
	}{
		{"success", `exit 0`, driver.ExitResult{}},
		{"code", `exit 7`, driver.ExitResult{ExitCode: 7}},
		{"highest", `exit 255`, driver.ExitResult{ExitCode: 255}},
		{"signal", `kill -KILL $$`, driver.ExitResult{Signal: 9}},
		{"abort", `kill -ABRT $$`, driver.ExitResult{Signal: 6}},
		{"orphans", `sleep 1000 & setsid sleep 1000 & exit 3`, driver.ExitResult{ExitCode: 3}},
		{"zombies", `for i in 1 2 3 4 5; do (true & ) ; done; exit 4`, driver.ExitResult{ExitCode: 4}},
	} {
		t.Run(c.name, func(t *testing.T) {
			r := *r
			r.t = t
			cfg := r.task(c.name, c.script)
			r.start(cfg)
			if res := r.wait(cfg); res != c.want {
				t.Fatalf("got the end %+v, want %+v", res, c.want)
			}
			if res := r.wait(cfg); res != c.want {
				t.Fatalf("a second wait: got %+v, want %+v", res, c.want)
			}
			r.destroy(cfg)
			r.destroy(cfg) // idempotent
		})
	}
}

func TestStop_KillsAfterTheTimeout(t *testing.T) {
	r := newFixture(t)
	for _, c := range []struct {
		name, script, signal string
		timeout              time.Duration
		want                 driver.ExitResult
	}{
		{
			name:    "handled",
			script:  `trap 'exit 5' INT; trap 'exit 15' TERM; echo up; while :; do sleep 0.01; done`,
			timeout: patience,
			want:    driver.ExitResult{ExitCode: 5},
		},
		{
			name:    "no handler",
			script:  `echo up; exec sleep 1000`,
			timeout: patience,
			want:    driver.ExitResult{Signal: 2},
		},
		{
			name:    "other signal",
			script:  `trap 'exit 6' HUP; echo up; while :; do sleep 0.01; done`,
			signal:  "SIGHUP",
			timeout: patience,
			want:    driver.ExitResult{ExitCode: 6},
		},
		{
			name:    "ignored",
			script:  `trap '' TERM; echo up; while :; do sleep 1; done`,
			signal:  "SIGTERM",
			timeout: 50 * time.Millisecond,
			want:    driver.ExitResult{Signal: 9},
		},
		{
			name:   "at once",
			script: `trap '' TERM; echo up; while :; do sleep 1; done`,
			signal: "SIGTERM",
			want:   driver.ExitResult{Signal: 9},
		},
	} {
		t.Run(c.name, func(t *testing.T) {
			r := *r
			r.t = t
			cfg := r.task(strings.ReplaceAll(c.name, " ", "-"), c.script)
			r.start(cfg)
			r.awaitOutput(cfg, "up")
			for range 2 { // idempotent
				if err := r.Stop(r.ctx(), cfg.ID, c.signal, c.timeout); err != nil {
					t.Fatal(err)
				}
			}
			if res := r.wait(cfg); res != c.want {
				t.Fatalf("got the end %+v, want %+v", res, c.want)
			}
		})
	}
}

// A begun Stop continues after its caller has left.
func TestStop_OutlivesItsCaller(t *testing.T) {
	r := newFixture(t)
	for _, timeout := range []time.Duration{2 * time.Second, 10 * time.Second, time.Minute} {
		cfg := r.task(timeout.String(), `trap 'echo asked' INT; echo up; while :; do sleep 0.01; done`)
		r.start(cfg)
		r.awaitOutput(cfg, "up")
		ctx, cancel := context.WithCancel(r.ctx())
		stopped := make(chan error, 1)
		go func() { stopped <- r.Stop(ctx, cfg.ID, "", timeout) }()
		r.waitUntil("the task is asked or ends", func() bool {
			return contains(r.readLog(cfg, "stdout"), "asked") || len(stopped) > 0
		})
		cancel()
		err := <-stopped
		if res := r.wait(cfg); res != (driver.ExitResult{Signal: 9}) {
			t.Fatalf("got the end %+v", res)
		}
		if err != nil {
			return // the caller has left before
		}
	}
	t.Fatal("the task ended within its kill timeout")
}

func TestSignal_ReachesTheTask(t *testing.T) {
	r := newFixture(t)
	cfg := r.task("t", `trap 'echo got it' USR1; trap 'exit 9' USR2; echo up; while :; do sleep 0.01; done`)
	r.start(cfg)
	r.awaitOutput(cfg, "up")
	if err := r.Signal(r.ctx(), cfg.ID, "SIGUSR1"); err != nil {
		t.Fatal(err)
	}
	r.awaitOutput(cfg, "got it")
	if err := r.Signal(r.ctx(), cfg.ID, "SIGNONE"); !structs.IsKind(err, structs.KindInvalid) {
		t.Fatalf("an unknown signal: got %v, want an invalid request", err)
	}
	if err := r.Signal(r.ctx(), cfg.ID, "SIGUSR2"); err != nil {
		t.Fatal(err)
	}
	if res := r.wait(cfg); res.ExitCode != 9 {
		t.Fatalf("got the end %+v", res)
	}
	if err := r.Signal(r.ctx(), cfg.ID, "SIGUSR1"); !structs.IsKind(err, structs.KindPrecondition) {
		t.Fatalf("a signal to an ended task: got %v, want a precondition", err)
	}
}

func TestDriver_UnknownTaskIsNotFound(t *testing.T) {
	r := newFixture(t)
	ctx := r.ctx()
	_, waitErr := r.Wait(ctx, "x")
	_, statsErr := r.Stats(ctx, "x")
	for name, err := range map[string]error{
		"wait":    waitErr,
		"stats":   statsErr,
		"stop":    r.Stop(ctx, "x", "", 0),
		"signal":  r.Signal(ctx, "x", ""),
		"recover": r.Recover(ctx, &driver.Handle{Driver: "exec", TaskID: "x"}),
	} {
		if !structs.IsKind(err, structs.KindNotFound) {
			t.Errorf("%s: got %v, want not-found", name, err)
		}
	}
	if err := r.Destroy(ctx, "x", nil); err != nil {
		t.Errorf("destroy: %v", err)
	}
}

func TestWait_EndsWithItsContext(t *testing.T) {
	r := newFixture(t)
	cfg := r.task("t", `sleep 1000`)
	r.start(cfg)
	ctx, cancel := context.WithTimeout(context.Background(), 30*time.Millisecond)
	defer cancel()
	if res, err := r.Wait(ctx, cfg.ID); err == nil {
		t.Fatalf("got the end %+v of a task that runs", res)
	}
}

func TestStart_Failures(t *testing.T) {
	r := newFixture(t)
	cases := []struct {
		name   string
		change func(*driver.TaskConfig)
		kind   structs.Kind
		want   string
	}{
		{"not found", withCommand("no-such"), structs.KindInvalid,
			`exec: command "no-such" not found in the task's root (PATH=` + "/usr/local/sbin:"},
		{"no such path", withCommand("/usr/bin/no-such"), structs.KindInvalid,
			`exec: command "/usr/bin/no-such" not found in the task's root`},
		{"directory", withCommand("/usr"), structs.KindInvalid, "is not an executable file"},
		{"not executable", withCommand("/etc/passwd"), structs.KindInvalid, "is not an executable file"},
		{"no program", withCommand("/local/garbage"), structs.KindInvalid, "exec format error"},
		{"no interpreter", withCommand("/local/script"), structs.KindInvalid, "is the interpreter it names"},
		{"work_dir", func(c *driver.TaskConfig) { c.Config["work_dir"] = "/no-such" }, structs.KindInvalid,
			`work_dir "/no-such" is not a directory`},
		{"mount source", withMounts(driver.Mount{HostPath: "/no-such", TaskPath: "/m"}), structs.KindPrecondition,
			"mount /m"},
		{"mount point", withMounts(driver.Mount{HostPath: "/tmp", TaskPath: "/usr/no-such"}),
			structs.KindPrecondition, "read-only"},
		{"mount the root", withMounts(driver.Mount{HostPath: "/tmp", TaskPath: "/"}), structs.KindInvalid,
			"absolute path"},
		{"propagation", withMounts(driver.Mount{HostPath: "/tmp", TaskPath: "/m", Propagation: "x"}),
			structs.KindInvalid, "bidirectional"},
		{"not a device", withMounts(driver.Mount{HostPath: "/etc/passwd", TaskPath: "/m", Device: true}),
			structs.KindPrecondition, "not a device"},
		{"not shared", func(c *driver.TaskConfig) {
			withMounts(driver.Mount{HostPath: c.Dirs.AllocShared, TaskPath: "/m", Propagation: "bidirectional"})(c)
		}, structs.KindPrecondition, "not on a shared mount"},
		{"no directory", func(c *driver.TaskConfig) { c.Dirs.Local = "/no-such" }, structs.KindPrecondition,
			"/no-such"},
		{"no log directory", func(c *driver.TaskConfig) { c.Dirs.Logs = "/no-such/logs" }, structs.KindInternal, "logs"},
		{"unknown field", func(c *driver.TaskConfig) { c.Config["comand"] = "x" }, structs.KindInvalid,
			`config.comand: unknown field; did you mean "command"?`},
	}
	for _, c := range cases {
		t.Run(c.name, func(t *testing.T) {
			r := *r
			r.t = t
			cfg := r.task(strings.ReplaceAll(c.name, " ", "-"), "true")
			for name, text := range map[string]string{"garbage": "\x00garbage", "script": "#!/no/such\n"} {
				if err := os.WriteFile(filepath.Join(cfg.Dirs.Local, name), []byte(text), 0o755); err != nil {
					t.Fatal(err)
				}
			}
			c.change(cfg)
			_, err := r.Start(r.ctx(), cfg)
			if !structs.IsKind(err, c.kind) || !contains(err.Error(), c.want) {
				t.Fatalf("got the %s error %v, want the kind %s and the text %s",
					structs.KindOf(err), err, c.kind, c.want)
			}
			r.checkClean(cfg)
			if _, err := r.Wait(r.ctx(), cfg.ID); !structs.IsKind(err, structs.KindNotFound) {
				t.Fatalf("wait: got %v, want not-found", err)
			}
		})
	}
}

func withCommand(path string) func(*driver.TaskConfig) {
	return func(c *driver.TaskConfig) { c.Config = map[string]any{"command": path} }
}

func withMounts(m ...driver.Mount) func(*driver.TaskConfig) {
	return func(c *driver.TaskConfig) { c.Mounts = m }
}

func TestStart_IsCutShort(t *testing.T) {
	r := newFixture(t)
	cfg := r.task("t", "sleep 1000")
	ctx, cancel := context.WithCancel(context.Background())
	cancel()
	if _, err := r.Start(ctx, cfg); err == nil {
		t.Fatal("a start with an ended context succeeded")
	}
	r.checkClean(cfg)
}

func TestStart_TwiceIsAConflict(t *testing.T) {
	r := newFixture(t)
	cfg := r.task("t", `sleep 1000`)
	r.start(cfg)
	if _, err := r.Start(r.ctx(), cfg); !structs.IsKind(err, structs.KindConflict) {
		t.Fatalf("a second start: got %v, want a conflict", err)
	}
	if err := r.Stop(r.ctx(), cfg.ID, "SIGKILL", 0); err != nil {
		t.Fatal(err)
	}
	r.start(cfg) // an ended task can be started again
}

// Destroy also ends a running task. A waiter for its end learns that it has ended.
func TestDestroy_EndsAWait(t *testing.T) {
	r := newFixture(t)
	cfg := r.task("t", `echo up; exec sleep 1000`)
	r.start(cfg)
	r.awaitOutput(cfg, "up")
	waited := make(chan error, 1)
	ctx := r.ctx()
	go func() {
		res, err := r.Wait(ctx, cfg.ID)
		if err == nil && res.Err == "" {
			err = fmt.Errorf("the task got the end %+v", res)
		}
		waited <- err
	}()
	r.destroy(cfg)
	if err := <-waited; err != nil && !structs.IsKind(err, structs.KindNotFound) {
		t.Fatal(err)
	}
}

// The environment is larger than the buffer of a pipe.
func TestStart_WithABigEnvironment(t *testing.T) {
	r := newFixture(t)
	cfg := r.task("t", `echo $V99`)
	cfg.Env = map[string]string{}
	for i := range 100 {
		cfg.Env[fmt.Sprintf("V%d", i)] = strings.Repeat("x", 2000)
	}
	if res, out := r.run(cfg); out != cfg.Env["V99"]+"\n" {
		t.Fatalf("got the end %+v and the output %q", res, out)
	}
}

func TestStart_ManyAtOnce(t *testing.T) {
	r := newFixture(t)
	var all errgroup.Group
	for i := range 8 {
		cfg := r.task(fmt.Sprintf("t%d", i), fmt.Sprintf("exit %d", i))
		all.Go(func() error {
			if _, err := r.Start(r.ctx(), cfg); err != nil {
				return err
			}
			res, err := r.Wait(r.ctx(), cfg.ID)
			if err == nil && res.ExitCode != i {
				err = fmt.Errorf("task %d got the end %+v", i, res)
			}
			return errors.Join(err, r.Destroy(r.ctx(), cfg.ID, nil))
		})
	}
	if err := all.Wait(); err != nil {
		t.Fatal(err)
	}
}

func TestLimits_KillATaskOutOfMemory(t *testing.T) {
	r := newFixture(t)
	_, err := os.Stat("/sys/fs/cgroup/memory/memory.limit_in_bytes")
	if err != nil && !hasUnified("memory") {
		kit.SkipLacking(t, "no memory controller")
	}
	cfg := r.task("t", `exec tail /dev/zero`)
	cfg.Resources.MemoryMB = 16
	r.start(cfg)
	if res := r.wait(cfg); !res.OOMKilled || res.Signal != 9 || res.Successful() {
		t.Fatalf("got the end %+v", res)
	}
	cfg = r.task("child", `tail /dev/zero; exit 3`)
	cfg.Resources.MemoryMB = 8
	cfg.Resources.MemoryMaxMB = 16
	r.start(cfg)
	if res := r.wait(cfg); !res.OOMKilled || res.ExitCode != 3 {
		t.Fatalf("a child of the task: got the end %+v", res)
	}
}

func hasUnified(controller string) bool {
	b, err := os.ReadFile("/sys/fs/cgroup/cgroup.controllers")
	return err == nil && contains(string(b), controller)
}

func TestLimits_ShowInStats(t *testing.T) {
	r := newFixture(t)
	cfg := r.task("t", `dd if=/dev/zero of=/dev/null bs=1M count=500 2>/dev/null; sleep 1000 & echo up; wait`)
	cfg.Resources = structs.Resources{CPU: 500, MemoryMB: 32}
	r.start(cfg)
	r.awaitOutput(cfg, "up")
	s, err := r.Stats(r.ctx(), cfg.ID)
	if err != nil {
		t.Fatal(err)
	}
	memory := s.MemoryRSS > 0 && s.MemoryUsage > 0 && s.MemoryMax >= s.MemoryRSS && s.MemoryMax <= 32<<20
	if !memory || s.PIDs != 2 || s.CPUTotal == 0 || s.CollectedAt == 0 {
		t.Fatalf("got the stats %+v, want 2 processes and at most 32 MiB", s)
	}
	g := cgroups.Detect().Path("berth", filepath.Base(r.DirOf(cfg.ID)))
	want := "19" // cpu.weight is 1 to 10000
	if g.V1[cgroups.CPU] != "" {
		want = "500"
	}
	got := readLimit(g, cgroups.CPU, "cpu.shares", "cpu.weight")
	if got != want {
		t.Fatalf("got the CPU share %q, want %s", got, want)
	}
}

func TestDuty_A15_LogsAreRotated(t *testing.T) {
	r := newFixture(t)
	cfg := r.task("t", `yes 0123456789abcde | head -c 5242880; echo end >&2`)
	cfg.LogConfig = structs.LogConfig{MaxFiles: 2, MaxFileSizeMB: 1}
	r.start(cfg)
	r.wait(cfg)
	names, err := filepath.Glob(cfg.Dirs.Logs + "/t.stdout.*")
	if err != nil || len(names) != 2 {
		t.Fatalf("got the files %v, %v, want 2", names, err)
	}
	for _, n := range names {
		info, err := os.Stat(n)
		if err != nil || info.Size() != 1<<20 {
			t.Fatalf("%s: got %v, %v, want 1 MiB", n, info, err)
		}
	}
	if got := r.readLog(cfg, "stderr"); got != "end\n" {
		t.Fatalf("got the stderr %q, want end", got)
	}
}

func TestValidate_Config(t *testing.T) {
	r := newFixture(t)
	for want, config := range map[string]map[string]any{
		"config.command: missing":                                       {},
		"config.command: empty":                                         {"command": ""},
		"config.command: expected a string, found a list":               {"command": []any{"x"}},
		"config.args: expected a list of strings, found a number":       {"command": "x", "args": 5},
		"config.args[1]: expected a string, found a map":                {"command": "x", "args": []any{"y", map[string]any{}}},
		"config.argv: unknown field; did you mean \"args\"?":            {"command": "x", "argv": []any{}},
		"config.image: unknown field; expected command, args, work_dir": {"command": "x", "image": "y"},
		"config.work_dir: \"x\": expected an absolu":                    {"command": "x", "work_dir": "x"},
	} {
		err := r.Validate(config)
		if !structs.IsKind(err, structs.KindInvalid) || !contains(err.Error(), want) {
			t.Errorf("%v: got %v, want %s", config, err, want)
		}
	}
	err := r.Validate(map[string]any{
		"command":  "x",
		"args":     []any{"a", 8080, true, 1.5},
		"work_dir": "/x",
	})
	if err != nil {
		t.Error(err)
	}
	err = r.Validate(map[string]any{"command": "${meta.x}", "work_dir": "${NOMAD_TASK_DIR}/x"})
	if err != nil {
		t.Errorf("values with references: %v", err)
	}
	err = r.Validate(map[string]any{"comand": "${meta.x}", "command": "x"})
	if err == nil || !contains(err.Error(), "config.comand: unknown field") {
		t.Errorf("a wrong key: %v", err)
	}
}

func TestFingerprint_ReportsTheDriver(t *testing.T) {
	info := newFixture(t).Fingerprint(context.Background())
	if !info.Detected || !info.Healthy || info.HealthDescription == "" ||
		info.Attributes["driver.exec"] != "1" {
		t.Fatalf("got the fingerprint %+v, want a healthy driver", info)
	}
}
