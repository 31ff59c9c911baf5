package docker

import (
	"context"
	"encoding/json"
	"errors"
	"net/http"
	"os"
	"path/filepath"
	"sync"
	"testing"
	"time"

	"berth/client/drivers/docker/dockertest"
	"berth/structs"
)

// TestFingerprint_SaysWhetherContainersJoinNetworks: only containers with the users of the node can.
func TestFingerprint_SaysWhetherContainersJoinNetworks(t *testing.T) {
	program := staticProgram(t)
	for name, c := range map[string]struct {
		program string
		options []string
		want    string
	}{
		"plain":             {program, []string{"name=seccomp,profile=default"}, "1"},
		"users are mapped":  {program, []string{"name=seccomp", "name=userns"}, ""},
		"without root":      {program, []string{"name=rootless"}, ""},
		"a dynamic program": {"/bin/sh", nil, ""},
		"no program":        {"/none", nil, ""},
	} {
		t.Run(name, func(t *testing.T) {
			f := newFixture(t)
			f.Handle("GET /info", func(w http.ResponseWriter, _ *http.Request) {
				_ = json.NewEncoder(w).Encode(map[string]any{
					"OSType":          "linux",
					"SecurityOptions": c.options,
				})
			})
			d := f.agent(f.config())
			d.options.Pause = []string{c.program}
			info := d.Fingerprint(t.Context())
			if got := info.Attributes[structs.AttrNetworkNamespace(Name)]; got != c.want || !info.Healthy {
				t.Errorf("got %q, want %q, of %+v", got, c.want, info)
			}
		})
	}
}

// staticProgram makes a static program for pause containers.
func staticProgram(t *testing.T) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), "pause")
	err := os.WriteFile(path, dockertest.Program(t), 0o755)
	if err != nil {
		t.Fatal(err)
	}
	return path
}

// A task that is stopped does not wait for the calls that other tasks make to a daemon that hangs.
func TestPauseImage_IsAwaitedUntilTheTaskStops(t *testing.T) {
	f := newFixture(t)
	call := "GET /images/" + pauseImage + "/json"
	f.Hang(call)
	d := f.agent(f.config())
	other, end := context.WithCancel(t.Context())
	var calls sync.WaitGroup
	defer calls.Wait()
	defer end()
	calls.Go(func() { _, _ = d.pauses.ensureImage(other) })
	for len(f.Calls(call)) == 0 {
		time.Sleep(time.Millisecond)
	}
	stopped, stop := context.WithCancel(t.Context())
	stop()
	done := make(chan error, 1)
	calls.Go(func() {
		_, err := d.pauses.ensureImage(stopped)
		done <- err
	})
	select {
	case err := <-done:
		if !errors.Is(err, context.Canceled) {
			t.Errorf("got %v", err)
		}
	case <-time.After(2 * time.Minute):
		t.Error("a stopped task waits for the call of another one")
	}
}
