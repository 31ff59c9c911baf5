package artifact

import (
	"context"
	"encoding/json"
	"io/fs"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"testing"

	"github.com/hashicorp/go-hclog"
	"go.uber.org/goleak"
	"golang.org/x/sys/unix"

	"berth/client/drivers/cgroups"
	"berth/client/drivers/driver"
	"berth/client/drivers/executor"
	"berth/client/hooks"
	"berth/client/hooks/artifact/download"
	"berth/structs"
	"berth/test/kit"
)

// hostile selects a process of a download that misbehaves, in the place of executor.Main.
const hostile = "hostile"

// The test binary is also the agent's executable: as `<test binary> executor` it downloads, as `<test binary>
// hostile` it is a process that was taken over, and as `<test binary> agent` an agent that downloads and is
// then killed.
func TestMain(m *testing.M) {
	if len(os.Args) > 1 {
		switch args := os.Args[2:]; os.Args[1] {
		case "executor":
			os.Exit(executor.Main(args, executor.Other{Arg: download.Arg, Main: download.Main}))
		case hostile:
			if args[0] == executor.InitArg {
				os.Exit(executor.Main(args))
			}
			hostileMain()
			os.Exit(0)
		case "agent":
			agentMain(args[0], args[1])
			os.Exit(0)
		}
	}
	os.Setenv("GORACE", "atexit_sleep_ms=0")
	goleak.VerifyTestMain(m, goleak.Cleanup(kit.ExitPlain))
}

// hostileMain does as a header of the request says, and reports success.
func hostileMain() {
	req := &download.Request{}
	if err := json.NewDecoder(os.Stdout).Decode(req); err != nil {
		panic(err)
	}
	reply := &download.Reply{}
	if err := misbehave(req.Headers["Do"], req.Headers["With"]); err != nil {
		reply.Error = err.Error()
	}
	if err := json.NewEncoder(os.Stdout).Encode(reply); err != nil {
		panic(err)
	}
	select {} // and it does not end
}

func misbehave(do, with string) error {
	out := filepath.Join(download.Dir, download.Out)
	if err := os.Mkdir(out, 0o755); err != nil {
		return err
	}
	size, _ := strconv.Atoi(with)
	filled := make([]byte, size)
	inside := filepath.Join(out, "x")
	switch do {
	case "read":
		_, err := os.ReadFile(with)
		return err
	case "write":
		return os.WriteFile(with, nil, 0o600)
	case "link":
		return os.Symlink(with, inside)
	case "pipe":
		return unix.Mkfifo(inside, 0o600)
	case "mount":
		return unix.Mount("none", out, "tmpfs", 0, "")
	case "become root":
		return unix.Setuid(0)
	case "set-uid":
		err := os.WriteFile(inside, nil, 0o600)
		if err != nil {
			return err
		}
		return os.Chmod(inside, 0o777|fs.ModeSetuid|fs.ModeSetgid)
	case "nest":
		return os.MkdirAll(filepath.Join(out, strings.Repeat("d/", maxDepth+1)), 0o755)
	case "fork":
		for range 2 * groupPIDs {
			if err := exec.Command("sleep", "1000").Start(); err != nil {
				return err
			}
		}
	case "fill memory":
		for n := range size {
			filled[n] = 1
		}
	case "list":
		entries, err := os.ReadDir(with)
		for _, e := range entries {
			_ = os.WriteFile(filepath.Join(out, e.Name()), nil, 0o600)
		}
		return err
	}
	return nil
}

// fixture is a task with its directories, and a server.
type fixture struct {
	t      *testing.T
	cfg    Config
	env    *hooks.TaskEnv
	server *httptest.Server
	mux    *http.ServeMux

	mu       sync.Mutex
	events   []*structs.TaskEvent
	progress []string
	requests []*http.Request
}

// localSettings allow the servers of the tests.
func localSettings() Settings {
	s := DefaultSettings()
	s.AllowNetworks = []string{"127.0.0.0/8"}
	return s
}

func newFixture(t *testing.T) *fixture {
	t.Helper()
	if os.Geteuid() != 0 {
		kit.SkipLacking(t, "root: a download has namespaces of its own")
	}
	dir, err := os.MkdirTemp("/tmp", "b")
	if err != nil {
		t.Fatal(err)
	}
	f := &fixture{t: t, mux: http.NewServeMux()}
	t.Cleanup(func() {
		if err := os.RemoveAll(dir); err != nil {
			t.Error(err)
		}
	})
	f.server = httptest.NewServer(http.HandlerFunc(f.serve))
	t.Cleanup(f.server.Close)
	f.cfg = Config{
		Settings: localSettings(),
		Dir:      filepath.Join(dir, "root"),
		Command:  []string{kit.PlainProgram(), "executor"},
		Slots:    NewSlots(1),
		MinFree:  func() int64 { return 0 },
		Groups:   &Groups{Machine: cgroups.Detect(), Logger: hclog.NewNullLogger()},
		Progress: func(_, reason string) {
			f.mu.Lock()
			defer f.mu.Unlock()
			f.progress = append(f.progress, reason)
		},
	}
	f.env = newEnv(filepath.Join(dir, "alloc"), f.server.URL)
	f.env.Emit = func(e *structs.TaskEvent) { f.events = append(f.events, e) }
	return f
}

// newEnv makes the directories of an allocation with one task.
func newEnv(dir, url string) *hooks.TaskEnv {
	for _, sub := range []string{"web/local", "web/secrets", "alloc/data"} {
		if err := os.MkdirAll(filepath.Join(dir, sub), 0o755); err != nil {
			panic(err)
		}
	}
	return &hooks.TaskEnv{
		AllocEnv:   &hooks.AllocEnv{Alloc: &structs.Allocation{ID: "a"}, Dir: dir},
		Task:       &structs.Task{Name: "web"},
		Config:     &driver.TaskConfig{Task: "web"},
		FirstStart: true,
		Seen:       driver.Inside,
		Expand: strings.NewReplacer(
			"${URL}", url,
			"${NOMAD_ALLOC_DIR}", driver.Inside.AllocShared,
			"${UP}", "../..",
			"${DASH}", "-",
		).Replace,
		Emit: func(*structs.TaskEvent) {},
	}
}

func (f *fixture) serve(w http.ResponseWriter, r *http.Request) {
	f.mu.Lock()
	f.requests = append(f.requests, r)
	f.mu.Unlock()
	f.mux.ServeHTTP(w, r)
}

// file makes the server answer with a file.
func (f *fixture) file(name string, content []byte) {
	f.mux.HandleFunc("/"+name, func(w http.ResponseWriter, _ *http.Request) { _, _ = w.Write(content) })
}

// mountSecrets mounts a small file system on the directory of the task's secrets, as the agent does.
func (f *fixture) mountSecrets() (dir string) {
	f.t.Helper()
	dir = filepath.Join(f.env.Dir, "web/secrets")
	if err := unix.Mount("none", dir, "tmpfs", 0, "size=1m"); err != nil {
		f.t.Fatal(err)
	}
	f.t.Cleanup(func() {
		if err := unix.Unmount(dir, 0); err != nil {
			f.t.Error(err)
		}
	})
	return dir
}

// artifact is an artifact of the server in its canonical form.
func artifact(source string, edit ...func(*structs.TaskArtifact)) *structs.TaskArtifact {
	a := &structs.TaskArtifact{GetterSource: source, GetterMode: "any", RelativeDest: "local/"}
	for _, e := range edit {
		e(a)
	}
	return a
}

func (f *fixture) up(ctx context.Context, list ...*structs.TaskArtifact) error {
	f.env.Task.Artifacts = list
	return New(f.cfg, f.env.AllocEnv, f.env.Task).Up(ctx, f.env)
}

// mustUp downloads and fails the test at an error.
func (f *fixture) mustUp(list ...*structs.TaskArtifact) {
	f.t.Helper()
	if err := f.up(f.t.Context(), list...); err != nil {
		f.t.Fatal(err)
	}
}

// tree returns the files of the allocation with their contents. A directory without entries has a slash.
func (f *fixture) tree() map[string]string {
	f.t.Helper()
	found := map[string]string{}
	root := os.DirFS(f.env.Dir)
	err := fs.WalkDir(root, ".", func(name string, d fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		switch {
		case d.IsDir():
			entries, err := fs.ReadDir(root, name)
			if err == nil && len(entries) == 0 {
				found[name+"/"] = ""
			}
			return err
		case d.Type()&fs.ModeSymlink != 0:
			found[name], err = os.Readlink(filepath.Join(f.env.Dir, name))
			return err
		}
		b, err := fs.ReadFile(root, name)
		found[name] = string(b)
		return err
	})
	if err != nil {
		f.t.Fatal(err)
	}
	return found
}

// checkUntouched checks that the allocation has its empty directories and nothing else.
func (f *fixture) checkUntouched() {
	f.t.Helper()
	want := map[string]bool{"web/local/": true, "web/secrets/": true, "alloc/data/": true}
	for name := range f.tree() {
		if !want[name] {
			f.t.Errorf("%s is there after a download that failed", name)
		}
	}
}
