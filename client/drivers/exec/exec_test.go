package exec_test

import (
	"context"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"go.uber.org/goleak"

	"berth/client/driver"
	"berth/client/drivers/exec"
	"berth/client/drivers/executor"
	"berth/structs"
)

// The test binary is also the agent's executable: as `<test binary> executor <dir>` it is a supervisor.
func TestMain(m *testing.M) {
	if len(os.Args) > 1 && os.Args[1] == "executor" {
		os.Exit(executor.Main(os.Args[2:]))
	}
	goleak.VerifyTestMain(m)
}

const wait = 20 * time.Second

// rig is a driver with a scratch directory.
type rig struct {
	*exec.Driver
	t   *testing.T
	dir string
	ex  executor.Config
}

func newRig(t *testing.T) *rig {
	t.Helper()
	if os.Geteuid() != 0 {
		t.Skip("needs root")
	}
	dir, err := os.MkdirTemp("/tmp", "b")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := os.RemoveAll(dir); err != nil {
			t.Error(err)
		}
	})
	r := &rig{t: t, dir: dir, ex: executor.Config{Dir: filepath.Join(dir, "ex"), Command: []string{os.Args[0], "executor"}}}
	r.Driver = exec.New(exec.DefaultConfig(), r.ex)
	return r
}

// task makes the config of a task that runs a shell script.
func (r *rig) task(name, script string) *driver.TaskConfig {
	r.t.Helper()
	base := filepath.Join(r.dir, name)
	cfg := &driver.TaskConfig{
		ID: "alloc/" + name, AllocID: "alloc", Task: name,
		Config: map[string]any{"command": "/bin/sh", "args": []any{"-c", script}},
		Dirs: driver.Dirs{
			Task: base, AllocShared: filepath.Join(r.dir, "shared"), Local: base + "/local",
			Secrets: base + "/secrets", Logs: filepath.Join(r.dir, "logs"),
		},
		Resources: structs.Resources{CPU: 100, MemoryMB: 64},
	}
	for _, d := range []string{cfg.Dirs.AllocShared, cfg.Dirs.Local, cfg.Dirs.Secrets, cfg.Dirs.Logs} {
		if err := os.MkdirAll(d, 0o755); err != nil {
			r.t.Fatal(err)
		}
	}
	r.t.Cleanup(func() {
		ctx, cancel := context.WithTimeout(context.Background(), wait)
		defer cancel()
		if err := r.Destroy(ctx, cfg.ID); err != nil {
			r.t.Error(err)
		}
	})
	return cfg
}

func (r *rig) start(cfg *driver.TaskConfig) *driver.Handle {
	r.t.Helper()
	h, err := r.Start(r.ctx(), cfg)
	if err != nil {
		r.t.Fatal(err)
	}
	return h
}

func (r *rig) ctx() context.Context {
	ctx, cancel := context.WithTimeout(context.Background(), wait)
	r.t.Cleanup(cancel)
	return ctx
}

func (r *rig) wait(cfg *driver.TaskConfig) driver.ExitResult {
	r.t.Helper()
	res, err := r.Wait(r.ctx(), cfg.ID)
	if err != nil {
		r.t.Fatal(err)
	}
	return *res
}

// run runs a task to its end and returns its output.
func (r *rig) run(cfg *driver.TaskConfig) (driver.ExitResult, string) {
	r.t.Helper()
	r.start(cfg)
	res := r.wait(cfg)
	return res, r.log(cfg, "stdout") + r.log(cfg, "stderr")
}

func (r *rig) log(cfg *driver.TaskConfig, kind string) string {
	b, err := os.ReadFile(filepath.Join(cfg.Dirs.Logs, cfg.Task+"."+kind+".0"))
	if err != nil && !os.IsNotExist(err) {
		r.t.Fatal(err)
	}
	return string(b)
}

func TestInside(t *testing.T) {
	r := newRig(t)
	cases := []struct{ name, script, want string }{
		{"pid", `ls /proc | grep -c '^[0-9]'`, "4"},
		{"root", `cd /; echo *`, "alloc bin dev etc home lib lib64 local mnt proc root run sbin secrets srv sys tmp usr var"},
	}
	for _, c := range cases {
		t.Run(c.name, func(t *testing.T) {
			res, out := r.run(r.task(c.name, c.script))
			if !res.Successful() || strings.TrimSpace(out) != c.want {
				t.Fatalf("ended with %+v and said %q, want %q", res, out, c.want)
			}
		})
	}
}
