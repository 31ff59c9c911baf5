package template

import (
	"context"
	"errors"
	"os"
	"slices"
	"strings"
	"syscall"
	"testing"
	"testing/synctest"
	"time"

	"github.com/hashicorp/go-hclog"

	"berth/client/hooks"
	"berth/structs"
	"berth/test/kit"
)

func TestNew_IsNilWithoutTemplates(t *testing.T) {
	if New(Config{}, &hooks.AllocEnv{}, &structs.Task{}) != nil {
		t.Error("a task without templates has a hook for them")
	}
}

func TestUp_RendersAllTemplates(t *testing.T) {
	fx := newFixture(t,
		&structs.Template{EmbeddedTmpl: `port {{ env "PORT" }}`, DestPath: "local/a", Perms: "600"},
		&structs.Template{EmbeddedTmpl: `{{ file "local/a" }}!`, DestPath: "secrets/b"},
		&structs.Template{SourcePath: "${NOMAD_TASK_DIR}/b.tpl", DestPath: "${NOMAD_TASK_DIR}/c"},
		&structs.Template{EmbeddedTmpl: `# x
export A = "1 2"
B={{ env "meta.rack" }}`, DestPath: "alloc/env", Envvars: true},
	)
	fx.MustWrite("web/local/b.tpl", `{{ env "attr.kernel.name" }}`)
	_, env := fx.mustUp()
	fx.CheckFile("web/local/a", "port 80")
	fx.CheckFile("web/secrets/b", "port 80!")
	fx.CheckFile("web/local/c", "linux")
	if env.Config.Env["A"] != "1 2" || env.Config.Env["B"] != "r1" {
		t.Errorf("got %q", env.Config.Env)
	}
	info, err := os.Stat(fx.Path("web/local/a"))
	if err != nil || info.Mode() != 0o600 {
		t.Errorf("got %v, %v", info, err)
	}
}

func TestUp_FailsForGood(t *testing.T) {
	for want, x := range map[string]*structs.Template{
		"is outside of the directories": {SourcePath: "/etc/passwd", DestPath: "local/x"},
		"leads out of the directories":  {EmbeddedTmpl: `{{ file "local/link" }}`, DestPath: "local/x"},
		"error calling mustEnv":         {EmbeddedTmpl: `{{ mustEnv "NONE" }}`, DestPath: "local/x"},
		"one NAME=value a line":         {EmbeddedTmpl: "a b", DestPath: "local/x", Envvars: true},
		"not text in UTF-8":             {EmbeddedTmpl: "A=\xff", DestPath: "local/x", Envvars: true},
		"holds NUL":                     {EmbeddedTmpl: `A="\u0000"`, DestPath: "local/x", Envvars: true},
	} {
		fx := newFixture(t, x)
		fx.MustLink("/etc/passwd", "web/local/link")
		_, _, err := fx.up()
		final := structs.IsKind(err, structs.KindInvalid) || structs.IsKind(err, structs.KindDenied)
		if !final || !strings.Contains(err.Error(), want) || !strings.HasPrefix(err.Error(), "template local/x: ") {
			t.Errorf("want %q, got %v", want, err)
		}
		if exists(fx.Path("web/local/x")) != x.Envvars {
			t.Errorf("%s: the file is there, or missing", want)
		}
	}
}

// An artifact may be late, or its download may work at the next start.
func TestUp_FailsWithoutItsSource(t *testing.T) {
	fx := newFixture(t, &structs.Template{SourcePath: "local/none", DestPath: "local/x"})
	_, _, err := fx.up()
	if !structs.IsKind(err, structs.KindPrecondition) || !strings.Contains(err.Error(), `no file "local/none"`) {
		t.Errorf("got %v", err)
	}
}

func exists(path string) bool {
	_, err := os.Lstat(path)
	return err == nil
}

func TestUp_WaitsForFiles(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		fx := newFixture(t, &structs.Template{EmbeddedTmpl: `{{ file "alloc/data/x" }}`, DestPath: "local/x"})
		go func() {
			time.Sleep(5 * PollInterval / 2)
			fx.MustWrite("alloc/data/x", "late")
		}()
		begin := time.Now()
		fx.mustUp()
		fx.CheckFile("web/local/x", "late")
		if took := time.Since(begin); took != 3*PollInterval {
			t.Errorf("it took %s", took)
		}
		want := []string{`Template: local/x: waiting: there is no file "alloc/data/x"`}
		if got := fx.said(); len(got) != 1 || !strings.HasPrefix(got[0], "Template: local/x: waiting: ") {
			t.Errorf("got %q, want %q", got, want)
		}
	})
}

func TestUp_EndsWithItsContext(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		fx := newFixture(t, &structs.Template{EmbeddedTmpl: `{{ file "local/none" }}`, DestPath: "local/x"})
		ctx, cancel := context.WithTimeout(t.Context(), time.Hour)
		defer cancel()
		err := fx.hook().Up(ctx, fx.taskEnv())
		if !errors.Is(err, context.DeadlineExceeded) {
			t.Errorf("got %v", err)
		}
	})
}

// The time of a text is bounded. It begins when the text has its place among the node's texts.
func TestUp_BoundsTheTimeOfATemplate(t *testing.T) {
	for took, want := range map[time.Duration]string{
		maxTime / 2: "",
		maxTime + 1: "the text takes more than 10s",
	} {
		synctest.Test(t, func(t *testing.T) {
			fx := newFixture(t, &structs.Template{
				EmbeddedTmpl: `{{ env "meta.rack" }}{{ range 1 }}{{ end }}`,
				DestPath:     "local/x",
			})
			h := fx.hook()
			if !h.slots.TryAcquire(1) {
				t.Fatal("the slot is not free")
			}
			go func() {
				time.Sleep(2 * maxTime)
				h.slots.Release(1)
			}()
			env := fx.taskEnv()
			env.Node = func() *structs.Node {
				time.Sleep(took)
				return &structs.Node{}
			}
			err := h.Up(t.Context(), env)
			if (err != nil) != (want != "") || err != nil && !strings.Contains(err.Error(), want) {
				t.Errorf("after %s: got %v, want %q", took, err, want)
			}
		})
	}
}

// restart is the next agent: it finds the process running, and returns the acts of its first look.
func (fx *fixture) restart() []string {
	fx.t.Helper()
	env := fx.taskEnv()
	env.Running = true
	h := fx.hook()
	err := h.Up(fx.t.Context(), env)
	if err != nil {
		fx.t.Fatal(err)
	}
	c := newControl(fx)
	h.Started(fx.t.Context(), c)
	synctest.Wait()
	h.Stopped()
	return c.done()
}

func TestRestart_RendersOnlyChangedTexts(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		fx := newFixture(t, &structs.Template{
			EmbeddedTmpl: `{{ env "DEVICE" }} {{ env "meta.rack" }} {{ file "local/in" }} {{ timestamp }}`,
			DestPath:     "local/out",
			Splay:        new(time.Duration(0)),
		})
		fx.MustWrite("web/local/in", "one")
		fx.env["DEVICE"] = "gpu0" // a hook added it, and does not for a process that runs
		_, env := fx.mustUp()
		first := "gpu0 r1 one " + time.Now().UTC().Format(time.RFC3339)
		fx.CheckFile("web/local/out", first)
		delete(fx.env, "DEVICE")

		time.Sleep(time.Hour)
		fx.MustWrite("web/local/out", "the task's own change")
		fx.MustWrite("web/local/in", "one") // written again, with the same text
		if acts := fx.restart(); len(acts) > 0 {
			t.Errorf("nothing has changed, and it did %q", acts)
		}
		fx.CheckFile("web/local/out", "the task's own change")

		fx.MustWrite("web/local/in", "two")
		acts := fx.restart()
		fx.CheckFile("web/local/out", "gpu0 r1 two "+time.Now().UTC().Format(time.RFC3339))
		if !slices.Equal(acts, []string{"restart: the template local/out has another text"}) {
			t.Errorf("got %q", acts)
		}
		if acts := fx.restart(); len(acts) > 0 {
			t.Errorf("the same change again: %q", acts)
		}
		if env.Config.Env["DEVICE"] != "gpu0" {
			t.Error("the environment of the process is not its own")
		}
	})
}

// An agent that ends before it has acted leaves the act to the next one.
func TestRestart_ActsOnAChangeOfTheLastAgent(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		fx := newFixture(t, &structs.Template{
			EmbeddedTmpl: `{{ env "meta.rack" }}`,
			DestPath:     "local/out",
			Splay:        new(time.Nanosecond),
		})
		h, _ := fx.mustUp()
		h.task.Templates[0].Splay = new(time.Duration(1 << 62))
		c := newControl(fx)
		h.Started(t.Context(), c)
		synctest.Wait()
		fx.mu.Lock()
		fx.meta = map[string]string{"rack": "r2"}
		fx.mu.Unlock()
		time.Sleep(PollInterval)
		synctest.Wait()
		h.Stopped()
		fx.CheckFile("web/local/out", "r2")
		if acts := c.done(); len(acts) > 0 {
			t.Errorf("it acted at once: %q", acts)
		}
		h.task.Templates[0].Splay = new(time.Nanosecond)
		if acts := fx.restart(); len(acts) != 1 {
			t.Errorf("got %q", acts)
		}
	})
}

// The store of the node is lost: the file tells whether the text has changed.
func TestRestart_WithoutARecordComparesTheFile(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		fx := newFixture(t, &structs.Template{
			EmbeddedTmpl: `x`,
			DestPath:     "local/out",
			Splay:        new(time.Duration(0)),
		})
		h, _ := fx.mustUp()
		for range 2 {
			err := h.Down(t.Context())
			if err != nil {
				t.Fatal(err)
			}
		}
		if acts := fx.restart(); len(acts) > 0 {
			t.Errorf("got %q", acts)
		}
		err := h.Down(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		fx.MustWrite("web/local/out", "y")
		if acts := fx.restart(); len(acts) != 1 {
			t.Errorf("got %q", acts)
		}
		fx.CheckFile("web/local/out", "x")
	})
}

func TestDown_RemovesTheRecord(t *testing.T) {
	fx := newFixture(t, &structs.Template{EmbeddedTmpl: `x`, DestPath: "local/out"})
	h, _ := fx.mustUp()
	err := h.Down(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	left, err := records.All(fx.db, "")
	if err != nil || len(left) > 0 {
		t.Errorf("got %v, %v", left, err)
	}
	alloc := &hooks.AllocEnv{Alloc: &structs.Allocation{ID: "b"}, Dir: fx.Path("b")}
	cfg := Config{DB: fx.db, Logger: hclog.NewNullLogger(), Lookups: fx.pool}
	err = New(cfg, alloc, fx.task).Down(t.Context()) // without an Up
	if err != nil {
		t.Error(err)
	}
}

// The file on the disk has the owner of the template, or the agent's without one.
func TestUp_GivesTheFileToItsOwner(t *testing.T) {
	if os.Geteuid() != 0 {
		kit.SkipLacking(t, "root: a file gets another owner")
	}
	agent := [2]uint32{uint32(os.Geteuid()), uint32(os.Getegid())}
	for name, c := range map[string]struct {
		uid, gid *int
		want     [2]uint32
	}{
		"both":    {new(1234), new(5678), [2]uint32{1234, 5678}},
		"user":    {new(1234), nil, [2]uint32{1234, agent[1]}},
		"group":   {nil, new(5678), [2]uint32{agent[0], 5678}},
		"root":    {new(0), new(0), [2]uint32{}},
		"neither": {nil, nil, agent},
		"agent":   {new(-1), new(-1), agent},
	} {
		t.Run(name, func(t *testing.T) {
			fx := newFixture(t, &structs.Template{
				EmbeddedTmpl: "x",
				DestPath:     "secrets/x",
				Perms:        "0440",
				Uid:          c.uid,
				Gid:          c.gid,
			})
			fx.mustUp()
			info, err := os.Stat(fx.Path("web/secrets/x"))
			if err != nil {
				t.Fatal(err)
			}
			stat := info.Sys().(*syscall.Stat_t)
			got := [2]uint32{stat.Uid, stat.Gid}
			if got != c.want || info.Mode() != 0o440 {
				t.Errorf("got the owner %v and the mode %v, want %v", got, info.Mode(), c.want)
			}
		})
	}
}
