package docker

import (
	"fmt"
	"net/http"
	"slices"
	"testing"
)

// withDefaultRuntime sets the daemon's default runtime.
func (f *fixture) withDefaultRuntime(name string) {
	f.Handle("GET /info", func(w http.ResponseWriter, _ *http.Request) {
		fmt.Fprintf(w, `{"OSType":"linux","DefaultRuntime":%q}`, name)
	})
}

// TestStart_NamesTheDefaultRuntimeThatItChecked: a start does not ask the daemon for it again.
func TestStart_NamesTheDefaultRuntimeThatItChecked(t *testing.T) {
	f := newFixture(t)
	d := f.agent(f.config())
	look := func() { d.Fingerprint(t.Context()) }
	for i, step := range []struct {
		before func()
		asked  int // how often until now
		want   string
	}{
		{func() { f.withDefaultRuntime("runc") }, 1, "runc"}, // before the first look
		{func() {}, 1, "runc"},
		{look, 2, "runc"},
		{func() { f.withDefaultRuntime("nvidia") }, 2, "runc"}, // which gives no GPUs
		{look, 3, "nvidia"},
		{func() {
			f.withDefaultRuntime("runc")
			f.failStart(d)
		}, 4, "runc"},
		{func() {
			f.Stop()
			look()
			f.withDefaultRuntime("nvidia")
			f.Serve()
		}, 5, "nvidia"},
	} {
		step.before()
		cfg := f.task(fmt.Sprint("a", i))
		f.start(d, cfg)
		r := f.container(cfg).Request
		if r.HostConfig.Runtime != step.want {
			t.Errorf("step %d: the runtime is %q, want %q", i, r.HostConfig.Runtime, step.want)
		}
		bounded := slices.Contains(r.Env, gpuVariable+"="+noGPUs)
		if bounded != (step.want == "nvidia") {
			t.Errorf("step %d: %s is bounded: %t", i, step.want, bounded)
		}
		if got := len(f.Calls("GET /info")); got != step.asked {
			t.Errorf("step %d: the daemon was asked %d times, want %d", i, got, step.asked)
		}
	}
}

// failStart lets a start fail, for example because the daemon has the runtime no more.
func (f *fixture) failStart(d *Driver) {
	f.t.Helper()
	f.Handle("POST /containers/create", func(w http.ResponseWriter, _ *http.Request) {
		w.WriteHeader(http.StatusBadRequest)
		fmt.Fprint(w, `{"message":"unknown or invalid runtime name"}`)
	})
	_, err := d.Start(f.t.Context(), f.task("failed"))
	if err == nil {
		f.t.Error("the start does not fail")
	}
	f.Handle("POST /containers/create", nil)
}
