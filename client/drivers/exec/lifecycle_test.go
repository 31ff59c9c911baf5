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

	"berth/client/cgroups"
	"berth/client/driver"
	"berth/internal/testskip"
	"berth/structs"
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
				t.Fatalf("ended with %+v, want %+v", res, c.want)
			}
			if res := r.wait(cfg); res != c.want {
				t.Fatalf("asked again: %+v", res)
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
		{"handled", `trap 'exit 5' TERM; echo up; while :; do sleep 0.01; done`, "", patience,
			driver.ExitResult{ExitCode: 5}},
		{"no handler", `echo up; exec sleep 1000`, "", patience, driver.ExitResult{Signal: 15}},
		{"other signal", `trap 'exit 6' HUP; echo up; while :; do sleep 0.01; done`, "SIGHUP", patience,
			driver.ExitResult{ExitCode: 6}},
		{"ignored", `trap '' TERM; echo up; while :; do sleep 1; done`, "SIGTERM", 50 * time.Millisecond,
			driver.ExitResult{Signal: 9}},
		{"at once", `trap '' TERM; echo up; while :; do sleep 1; done`, "SIGTERM", 0, driver.ExitResult{Signal: 9}},
	} {
		t.Run(c.name, func(t *testing.T) {
			r := *r
			r.t = t
			cfg := r.task(strings.ReplaceAll(c.name, " ", "-"), c.script)
			r.start(cfg)
			r.said(cfg, "up")
			for range 2 { // idempotent
				if err := r.Stop(r.ctx(), cfg.ID, c.signal, c.timeout); err != nil {
					t.Fatal(err)
				}
			}
			if res := r.wait(cfg); res != c.want {
				t.Fatalf("ended with %+v, want %+v", res, c.want)
			}
		})
	}
}

// A begun Stop continues after its caller has left.
func TestStop_OutlivesItsCaller(t *testing.T) {
	r := newFixture(t)
	cfg := r.task("t", `trap 'echo asked' TERM; echo up; while :; do sleep 0.01; done`)
	r.start(cfg)
	r.said(cfg, "up")
	ctx, cancel := context.WithCancel(r.ctx())
	defer cancel()
	stopped := make(chan error, 1)
	go func() { stopped <- r.Stop(ctx, cfg.ID, "", 2*time.Second) }()
	r.said(cfg, "asked")
	cancel()
	if err := <-stopped; err == nil {
		t.Fatal("the task ended within its kill timeout")
	}
	if res := r.wait(cfg); res != (driver.ExitResult{Signal: 9}) {
		t.Fatalf("ended with %+v", res)
	}
}

func TestSignal_ReachesTheTask(t *testing.T) {
	r := newFixture(t)
	cfg := r.task("t", `trap 'echo got it' USR1; trap 'exit 9' USR2; echo up; while :; do sleep 0.01; done`)
	r.start(cfg)
	r.said(cfg, "up")
	if err := r.Signal(r.ctx(), cfg.ID, "SIGUSR1"); err != nil {
		t.Fatal(err)
	}
	r.said(cfg, "got it")
	if err := r.Signal(r.ctx(), cfg.ID, "SIGNONE"); !structs.IsKind(err, structs.KindInvalid) {
		t.Fatalf("an unknown signal: %v", err)
	}
	if err := r.Signal(r.ctx(), cfg.ID, "SIGUSR2"); err != nil {
		t.Fatal(err)
	}
	if res := r.wait(cfg); res.ExitCode != 9 {
		t.Fatalf("ended with %+v", res)
	}
	if err := r.Signal(r.ctx(), cfg.ID, "SIGUSR1"); !structs.IsKind(err, structs.KindPrecondition) {
		t.Fatalf("signalling an ended task: %v", err)
	}
}

func TestDriver_UnknownTaskIsNotFound(t *testing.T) {
	r := newFixture(t)
	ctx := r.ctx()
	_, werr := r.Wait(ctx, "x")
	_, serr := r.Stats(ctx, "x")
	for name, err := range map[string]error{
		"wait": werr, "stats": serr, "stop": r.Stop(ctx, "x", "", 0), "signal": r.Signal(ctx, "x", ""),
		"recover": r.Recover(ctx, &driver.Handle{Driver: "exec", TaskID: "x"}),
	} {
		if !structs.IsKind(err, structs.KindNotFound) {
			t.Errorf("%s: %v", name, err)
		}
	}
	if err := r.Destroy(ctx, "x"); err != nil {
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
		t.Fatalf("Wait returned %+v", res)
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
		{"not found", command("no-such"), structs.KindInvalid,
			`exec: command "no-such" not found in the task's root (PATH=` + "/usr/local/sbin:"},
		{"no such path", command("/usr/bin/no-such"), structs.KindInvalid,
			`exec: command "/usr/bin/no-such" not found in the task's root`},
		{"directory", command("/usr"), structs.KindInvalid, "is not an executable file"},
		{"not executable", command("/etc/passwd"), structs.KindInvalid, "is not an executable file"},
		{"no program", command("/local/garbage"), structs.KindInvalid, "exec format error"},
		{"no interpreter", command("/local/script"), structs.KindInvalid, "is the interpreter it names"},
		{"work_dir", func(c *driver.TaskConfig) { c.Config["work_dir"] = "/no-such" }, structs.KindInvalid,
			`work_dir "/no-such" is not a directory`},
		{"mount source", mounts(driver.Mount{HostPath: "/no-such", TaskPath: "/m"}), structs.KindPrecondition,
			"mount /m"},
		{"mount point", mounts(driver.Mount{HostPath: "/tmp", TaskPath: "/usr/no-such"}), structs.KindPrecondition,
			"read-only"},
		{"mount the root", mounts(driver.Mount{HostPath: "/tmp", TaskPath: "/"}), structs.KindInvalid,
			"absolute path"},
		{"propagation", mounts(driver.Mount{HostPath: "/tmp", TaskPath: "/m", Propagation: "x"}),
			structs.KindInvalid, "bidirectional"},
		{"not a device", mounts(driver.Mount{HostPath: "/etc/passwd", TaskPath: "/m", Device: true}),
			structs.KindPrecondition, "not a device"},
		{"not shared", func(c *driver.TaskConfig) {
			mounts(driver.Mount{HostPath: c.Dirs.AllocShared, TaskPath: "/m", Propagation: "bidirectional"})(c)
		}, structs.KindPrecondition, "not on a shared mount"},
		{"no directory", func(c *driver.TaskConfig) { c.Dirs.Local = "/no-such" }, structs.KindPrecondition,
			"/no-such"},
		{"no log directory", func(c *driver.TaskConfig) { c.Dirs.Logs = "/no-such" }, structs.KindInternal, "logs"},
		{"unknown field", func(c *driver.TaskConfig) { c.Config["comand"] = "x" }, structs.KindInvalid,
			"config.comand: unknown field; expected command, args, work_dir"},
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
				t.Fatalf("%s: %v; want %s: ...%s...", structs.KindOf(err), err, c.kind, c.want)
			}
			r.clean(cfg)
			if _, err := r.Wait(r.ctx(), cfg.ID); !structs.IsKind(err, structs.KindNotFound) {
				t.Fatalf("the task is known: %v", err)
			}
		})
	}
}

func command(path string) func(*driver.TaskConfig) {
	return func(c *driver.TaskConfig) { c.Config = map[string]any{"command": path} }
}

func mounts(m ...driver.Mount) func(*driver.TaskConfig) {
	return func(c *driver.TaskConfig) { c.Mounts = m }
}

func TestStart_IsCutShort(t *testing.T) {
	r := newFixture(t)
	cfg := r.task("t", "sleep 1000")
	ctx, cancel := context.WithCancel(context.Background())
	cancel()
	if _, err := r.Start(ctx, cfg); err == nil {
		t.Fatal("a start whose context has ended went through")
	}
	r.clean(cfg)
}

func TestStart_TwiceIsAConflict(t *testing.T) {
	r := newFixture(t)
	cfg := r.task("t", `sleep 1000`)
	r.start(cfg)
	if _, err := r.Start(r.ctx(), cfg); !structs.IsKind(err, structs.KindConflict) {
		t.Fatalf("a second start: %v", err)
	}
	if err := r.Stop(r.ctx(), cfg.ID, "SIGKILL", 0); err != nil {
		t.Fatal(err)
	}
	r.start(cfg) // an ended task frees capacity
}

// Destroy also ends a running task. A waiter for its end learns that it has ended.
func TestDestroy_EndsAWait(t *testing.T) {
	r := newFixture(t)
	cfg := r.task("t", `echo up; exec sleep 1000`)
	r.start(cfg)
	r.said(cfg, "up")
	waited := make(chan error, 1)
	ctx := r.ctx()
	go func() {
		res, err := r.Wait(ctx, cfg.ID)
		if err == nil && res.Err == "" {
			err = fmt.Errorf("the task ended with %+v", res)
		}
		waited <- err
	}()
	r.destroy(cfg)
	if err := <-waited; err != nil && !structs.IsKind(err, structs.KindNotFound) {
		t.Fatal(err)
	}
}

// More than fits into a pipe at once.
func TestStart_WithABigEnvironment(t *testing.T) {
	r := newFixture(t)
	cfg := r.task("t", `echo $V99`)
	cfg.Env = map[string]string{}
	for i := range 100 {
		cfg.Env[fmt.Sprintf("V%d", i)] = strings.Repeat("x", 2000)
	}
	if res, out := r.run(cfg); out != cfg.Env["V99"]+"\n" {
		t.Fatalf("ended with %+v and said %q", res, out)
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
				err = fmt.Errorf("task %d ended with %+v", i, res)
			}
			return errors.Join(err, r.Destroy(r.ctx(), cfg.ID))
		})
	}
	if err := all.Wait(); err != nil {
		t.Fatal(err)
	}
}

func TestLimits_KillATaskOutOfMemory(t *testing.T) {
	r := newFixture(t)
	if _, err := os.Stat("/sys/fs/cgroup/memory/memory.limit_in_bytes"); err != nil && !hasUnified("memory") {
		testskip.Lacking(t, "no memory controller")
	}
	cfg := r.task("t", `exec tail /dev/zero`)
	cfg.Resources.MemoryMB = 16
	r.start(cfg)
	if res := r.wait(cfg); !res.OOMKilled || res.Signal != 9 || res.Successful() {
		t.Fatalf("ended with %+v", res)
	}
	cfg = r.task("child", `tail /dev/zero; exit 3`)
	cfg.Resources.MemoryMB, cfg.Resources.MemoryMaxMB = 8, 16
	r.start(cfg)
	if res := r.wait(cfg); !res.OOMKilled || res.ExitCode != 3 {
		t.Fatalf("a child of the task: ended with %+v", res)
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
	r.said(cfg, "up")
	s, err := r.Stats(r.ctx(), cfg.ID)
	if err != nil {
		t.Fatal(err)
	}
	if s.PIDs != 2 || s.CPUTotal == 0 || s.MemoryRSS == 0 || s.MemoryMax < s.MemoryRSS || s.MemoryMax > 32<<20 ||
		s.CollectedAt == 0 {
		t.Fatalf("stats are %+v", s)
	}
	g := cgroups.Detect().Path("berth", filepath.Base(r.DirOf(cfg.ID)))
	want := map[bool]string{true: "500", false: "19"}[g.V1[cgroups.CPU] != ""] // cpu.weight is 1 to 10000
	if got := readLimit(g, cgroups.CPU, "cpu.shares", "cpu.weight"); got != want {
		t.Fatalf("the task's share of the processors is %q, want %s", got, want)
	}
}

func TestLogs_AreRotated(t *testing.T) {
	r := newFixture(t)
	cfg := r.task("t", `yes 0123456789abcde | head -c 5242880; echo end >&2`)
	cfg.LogConfig = structs.LogConfig{MaxFiles: 2, MaxFileSizeMB: 1}
	r.start(cfg)
	r.wait(cfg)
	names, err := filepath.Glob(cfg.Dirs.Logs + "/t.stdout.*")
	if err != nil || len(names) != 2 {
		t.Fatalf("there are %v, %v", names, err)
	}
	for _, n := range names {
		if info, err := os.Stat(n); err != nil || info.Size() != 1<<20 {
			t.Fatalf("%s: %v, %v", n, info, err)
		}
	}
	if got := r.log(cfg, "stderr"); got != "end\n" {
		t.Fatalf("stderr is %q", got)
	}
}

func TestValidate_Config(t *testing.T) {
	r := newFixture(t)
	for want, config := range map[string]map[string]any{
		"config.command: missing":                    {},
		"config.command: empty":                      {"command": ""},
		"config.command: expected a string":          {"command": []any{"x"}},
		"config.args: expected a list":               {"command": "x", "args": "y"},
		"config.args[1]: expected a string":          {"command": "x", "args": []any{"y", map[string]any{}}},
		"config.argv: unknown field":                 {"command": "x", "argv": []any{}},
		"config.work_dir: \"x\": expected an absolu": {"command": "x", "work_dir": "x"},
	} {
		if err := r.Validate(config); !structs.IsKind(err, structs.KindInvalid) || !contains(err.Error(), want) {
			t.Errorf("%v: %v; want %s", config, err, want)
		}
	}
	if err := r.Validate(map[string]any{"command": "x", "args": []any{"a", 8080, true, 1.5},
		"work_dir": "/x"}); err != nil {
		t.Error(err)
	}
}

func TestFingerprint_ReportsTheDriver(t *testing.T) {
	info := newFixture(t).Fingerprint(context.Background())
	if !info.Detected || !info.Healthy || info.Attributes["driver.exec"] != "1" || info.HealthDescription == "" {
		t.Fatalf("the fingerprint is %+v", info)
	}
}
