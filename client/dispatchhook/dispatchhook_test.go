package dispatchhook

import (
	"os"
	"path/filepath"
	"testing"

	"berth/client/driver"
	"berth/client/hook"
	"berth/structs"
)

func prepare(t *testing.T, file string) (hook.Task, *hook.TaskEnv) {
	t.Helper()
	alloc := &hook.AllocEnv{Alloc: &structs.Allocation{Job: &structs.Job{Payload: []byte("data")}}}
	task := &structs.Task{DispatchPayload: &structs.DispatchPayloadConfig{File: file}}
	env := &hook.TaskEnv{AllocEnv: alloc, Task: task, FirstStart: true, Config: &driver.TaskConfig{}}
	env.Config.Dirs.Local = filepath.Join(t.TempDir(), "local")
	if err := os.Mkdir(env.Config.Dirs.Local, 0o755); err != nil {
		t.Fatal(err)
	}
	return New(alloc, task), env
}

func TestHook_WritesThePayloadOnce(t *testing.T) {
	h, env := prepare(t, "in/put.txt")
	path := filepath.Join(env.Config.Dirs.Local, "in/put.txt")
	checkFile := func(want string) {
		t.Helper()
		got, err := os.ReadFile(path)
		if err != nil || string(got) != want {
			t.Errorf("the file has %q (%v), want %q", got, err, want)
		}
	}
	if err := h.Up(t.Context(), env); err != nil {
		t.Fatal(err)
	}
	checkFile("data")
	if err := os.WriteFile(path, []byte("of the task"), 0o644); err != nil {
		t.Fatal(err)
	}
	env.FirstStart = false
	if err := h.Up(t.Context(), env); err != nil {
		t.Fatal(err)
	}
	checkFile("of the task")
	if err := h.Down(t.Context()); err != nil {
		t.Fatal(err)
	}
}

func TestHook_DoesNotLeaveTheDirectory(t *testing.T) {
	h, env := prepare(t, "link/put.txt")
	outside := t.TempDir()
	if err := os.Symlink(outside, filepath.Join(env.Config.Dirs.Local, "link")); err != nil {
		t.Fatal(err)
	}
	if err := h.Up(t.Context(), env); err == nil {
		t.Error("a link leads out of the directory")
	}
	if found, _ := os.ReadDir(outside); len(found) > 0 {
		t.Errorf("%s was written", found[0].Name())
	}
}

func TestNew_NeedsAPayload(t *testing.T) {
	alloc := &hook.AllocEnv{Alloc: &structs.Allocation{Job: &structs.Job{}}}
	if New(alloc, &structs.Task{DispatchPayload: &structs.DispatchPayloadConfig{File: "x"}}) != nil {
		t.Error("there is a hook for no payload")
	}
	alloc.Alloc.Job.Payload = []byte("data")
	if New(alloc, &structs.Task{}) != nil {
		t.Error("there is a hook for a task that wants no payload")
	}
}
