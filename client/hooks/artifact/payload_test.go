package artifact

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"golang.org/x/sys/unix"

	"berth/client/drivers/driver"
	"berth/client/hooks"
	"berth/structs"
	"berth/test/kit"
)

func prepare(t *testing.T, file string) (hooks.Task, *hooks.TaskEnv) {
	t.Helper()
	alloc := &hooks.AllocEnv{Alloc: &structs.Allocation{Job: &structs.Job{Payload: []byte("data")}}}
	task := &structs.Task{DispatchPayload: &structs.DispatchPayloadConfig{File: file}}
	env := &hooks.TaskEnv{AllocEnv: alloc, Task: task, FirstStart: true, Config: &driver.TaskConfig{}}
	env.Config.Dirs.Task = t.TempDir()
	env.Config.Dirs.Local = filepath.Join(env.Config.Dirs.Task, "local")
	if err := os.Mkdir(env.Config.Dirs.Local, 0o755); err != nil {
		t.Fatal(err)
	}
	return NewPayload(alloc, task), env
}

func TestPayload_WritesThePayloadOnce(t *testing.T) {
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

func TestPayload_WritesToAFileWithTheLongestName(t *testing.T) {
	name := strings.Repeat("n", 255)
	h, env := prepare(t, name)
	if err := h.Up(t.Context(), env); err != nil {
		t.Fatal(err)
	}
	got, err := os.ReadFile(filepath.Join(env.Config.Dirs.Local, name))
	if err != nil || string(got) != "data" {
		t.Errorf("the file has %q, %v", got, err)
	}
}

func TestPayload_DoesNotLeaveTheDirectory(t *testing.T) {
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

// A task whose container sees the directory above can replace the directory itself.
func TestPayload_DoesNotFollowALinkInThePlaceOfTheDirectory(t *testing.T) {
	h, env := prepare(t, "put.txt")
	outside := t.TempDir()
	for _, err := range []error{
		os.Remove(env.Config.Dirs.Local),
		os.Symlink(outside, env.Config.Dirs.Local),
	} {
		if err != nil {
			t.Fatal(err)
		}
	}
	if err := h.Up(t.Context(), env); err == nil {
		t.Error("the payload was written through a link")
	}
	if found, _ := os.ReadDir(outside); len(found) > 0 {
		t.Errorf("%s was written", found[0].Name())
	}
}

// An allocation may take over the files of an earlier one.
func TestPayload_WritesToNoFileThatIsThere(t *testing.T) {
	outside := filepath.Join(t.TempDir(), "outside")
	for name, place := range map[string]func(t *testing.T, path string) error{
		"a further link to a file": func(_ *testing.T, p string) error { return os.Link(outside, p) },
		"a symbolic link":          func(_ *testing.T, p string) error { return os.Symlink(outside, p) },
		"a device":                 makeNull,
		"a pipe with a reader":     func(_ *testing.T, p string) error { return unix.Mkfifo(p, 0o600) },
	} {
		t.Run(name, func(t *testing.T) {
			h, env := prepare(t, "put.txt")
			path := filepath.Join(env.Config.Dirs.Local, "put.txt")
			for _, err := range []error{
				os.WriteFile(outside, []byte("of the host"), 0o600),
				place(t, path),
			} {
				if err != nil {
					t.Fatal(err)
				}
			}
			if reader, err := os.OpenFile(path, unix.O_RDONLY|unix.O_NONBLOCK, 0); err == nil {
				t.Cleanup(func() { _ = reader.Close() })
			}
			if err := h.Up(t.Context(), env); err != nil {
				t.Fatal(err)
			}
			info, err := os.Lstat(path)
			if err != nil || info.Mode() != 0o644 || info.Size() != int64(len("data")) {
				t.Errorf("the file is %v, %v", info, err)
			}
			kept, err := os.ReadFile(outside)
			if err != nil || string(kept) != "of the host" {
				t.Errorf("the other file has %q, %v", kept, err)
			}
		})
	}
}

// makeNull makes a device like /dev/null.
func makeNull(t *testing.T, path string) error {
	kit.MakeDevice(t, path, unix.S_IFCHR|0o600, unix.Mkdev(1, 3))
	return nil
}

func TestPayload_NeedsAPayload(t *testing.T) {
	alloc := &hooks.AllocEnv{Alloc: &structs.Allocation{Job: &structs.Job{}}}
	if NewPayload(alloc, &structs.Task{DispatchPayload: &structs.DispatchPayloadConfig{File: "x"}}) != nil {
		t.Error("there is a hook for no payload")
	}
	alloc.Alloc.Job.Payload = []byte("data")
	if NewPayload(alloc, &structs.Task{}) != nil {
		t.Error("there is a hook for a task that wants no payload")
	}
}
