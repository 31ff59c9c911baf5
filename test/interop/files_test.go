package interop

import (
	"context"
	"errors"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	public "github.com/hashicorp/nomad/api"

	"berth/api"
	"berth/structs"
)

// fakeFiles returns the directory of the allocation a1.
func fakeFiles(t *testing.T) func(allocID string) (api.Dir, error) {
	t.Helper()
	dir := t.TempDir()
	for path, text := range map[string]string{
		"alloc/data/f":      "one\ntwo\nthree\n",
		"app/secrets/token": "SECRET",
	} {
		path = filepath.Join(dir, path)
		err := os.MkdirAll(filepath.Dir(path), 0o755)
		if err == nil {
			err = os.WriteFile(path, []byte(text), 0o640)
		}
		if err != nil {
			t.Fatal(err)
		}
	}
	return func(allocID string) (api.Dir, error) {
		if allocID != "a1" {
			return api.Dir{}, structs.NotFoundf("allocation %s is not here", allocID)
		}
		return api.Dir{Path: dir}, nil
	}
}

// wantFrame receives the next frame that is no heartbeat.
func wantFrame(t *testing.T, frames <-chan *public.StreamFrame, errs <-chan error) *public.StreamFrame {
	t.Helper()
	select {
	case f, open := <-frames:
		if open {
			return f
		}
		t.Fatal("the frames have ended")
	case err := <-errs:
		t.Fatalf("the frames have ended with %v", err)
	case <-time.After(patience):
		t.Fatal("no frame")
	}
	return nil
}

// wantStatus checks the HTTP status of an error.
func wantStatus(t *testing.T, what string, err error, status int) {
	t.Helper()
	var rejected public.UnexpectedResponseError
	if !errors.As(err, &rejected) || rejected.StatusCode() != status {
		t.Errorf("%s: got %v, want status %d", what, err, status)
	}
}

func TestClient_ReadsFiles(t *testing.T) {
	c, caller := clientOfFakeServers(t)
	setAnswers(caller)
	checkFiles(t, c, &public.Allocation{ID: "a1", NodeID: "n1"}, "alloc/data/f")
}

// checkFiles calls everything on a file with three lines in the allocation. Its task is "app".
func checkFiles(t *testing.T, c *public.Client, alloc *public.Allocation, path string) {
	fs := c.AllocFS()
	root, _, err := fs.List(alloc, "/", nil)
	if checkNoError(t, "list", err) && !slices.ContainsFunc(root, func(f *public.AllocFileInfo) bool {
		return f.Name == "alloc" && f.IsDir && f.FileMode == "drwxr-xr-x" && !f.ModTime.IsZero()
	}) {
		t.Errorf("the allocation has %v", root)
	}
	file, _, err := fs.Stat(alloc, path, nil)
	if checkNoError(t, "stat", err) &&
		(file.Name != filepath.Base(path) || file.IsDir || file.Size != 14 || file.ContentType == "") {
		t.Errorf("the file is %+v", file)
	}
	content, err := fs.Cat(alloc, path, nil)
	if checkNoError(t, "cat", err) && readAll(t, content) != "one\ntwo\nthree\n" {
		t.Error("cat differs")
	}
	for limit, want := range map[int64]string{3: "two", 0: "two\nthree\n", -1: "two\nthree\n"} {
		part, err := fs.ReadAt(alloc, path, 4, limit, nil)
		if checkNoError(t, "readat", err) && readAll(t, part) != want {
			t.Errorf("readat with the limit %d differs", limit)
		}
	}
	ctx, cancel := context.WithCancel(t.Context())
	follow := (&public.QueryOptions{}).WithContext(ctx)
	frames, errs := fs.Stream(alloc, path, public.OriginEnd, 6, make(chan struct{}), follow)
	f := wantFrame(t, frames, errs)
	if string(f.Data) != "three\n" || f.Offset != 14 || f.File != path {
		t.Errorf("the frame is %+v", f)
	}
	cancel()
	once := &public.QueryOptions{Params: map[string]string{"follow": "false"}}
	frames, errs = fs.Stream(alloc, path, public.OriginStart, 4, make(chan struct{}), once)
	reader := public.NewFrameReader(frames, errs, make(chan struct{}))
	text, err := io.ReadAll(reader)
	if string(text) != "two\nthree\n" || err != nil {
		t.Errorf("the frames have %q, %v", text, err)
	}
	_, _, err = fs.Stat(alloc, "none", nil)
	wantStatus(t, "a missing file", err, 404)
	_, _, err = fs.List(alloc, "../..", nil)
	wantStatus(t, "a path out of the allocation", err, 403)
	_, err = fs.Cat(alloc, "app/secrets/token", nil)
	wantStatus(t, "a secret", err, 403)
	_, err = fs.Cat(alloc, "", nil)
	wantStatus(t, "no path", err, 400)
}

// testFiles reads the files of a running allocation of a real agent.
func testFiles(t *testing.T, c *public.Client, alloc *public.Allocation) {
	checkFiles(t, c, alloc, "app/local/lines")
	logs, _, err := c.AllocFS().List(alloc, "alloc/logs", nil)
	if checkNoError(t, "list of the logs", err) && !slices.ContainsFunc(logs, func(f *public.AllocFileInfo) bool {
		return strings.HasPrefix(f.Name, "app.stdout.")
	}) {
		t.Errorf("the logs are %v", logs)
	}
	frames, errs := c.AllocFS().Logs(alloc, false, "app", "stdout", "end", 7, make(chan struct{}), nil)
	if f := wantFrame(t, frames, errs); string(f.Data) != "inside\n" {
		t.Errorf("the end of the log is %+v", f)
	}
	if _, open := <-frames; open {
		t.Error("the log without follow does not end")
	}
}
