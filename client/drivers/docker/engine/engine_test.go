package engine_test

import (
	"context"
	"fmt"
	"io"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/moby/moby/api/types/container"
	"github.com/moby/moby/client"
	"go.uber.org/goleak"

	"berth/client/drivers/docker/dockertest"
	"berth/client/drivers/docker/engine"
	"berth/structs"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// call is a call of the daemon that a test makes fail.
type call struct {
	name string
	run  func(context.Context, *engine.Engine) error
}

var calls = []call{
	{"GET /info", func(ctx context.Context, e *engine.Engine) error { _, err := e.Info(ctx); return err }},
	{"GET /containers/json", func(ctx context.Context, e *engine.Engine) error {
		_, err := e.List(ctx, "a=b")
		return err
	}},
	{"POST /containers/create", func(ctx context.Context, e *engine.Engine) error {
		_, err := e.Create(ctx, client.ContainerCreateOptions{
			Name:   "n",
			Config: &container.Config{Image: "a:1"},
		})
		return err
	}},
	{"GET /containers/{id}/json", func(ctx context.Context, e *engine.Engine) error {
		_, err := e.Inspect(ctx, "c1")
		return err
	}},
	{"POST /containers/{id}/start", func(ctx context.Context, e *engine.Engine) error {
		return e.StartContainer(ctx, "c1")
	}},
	{"POST /containers/{id}/wait", func(ctx context.Context, e *engine.Engine) error {
		return e.AwaitEnd(ctx, "c1")
	}},
	{"POST /containers/{id}/kill", func(ctx context.Context, e *engine.Engine) error {
		return e.Kill(ctx, "c1", "SIGTERM")
	}},
	{"GET /containers/{id}/stats", func(ctx context.Context, e *engine.Engine) error {
		_, err := e.Stats(ctx, "c1")
		return err
	}},
	{"GET /containers/{id}/archive", func(ctx context.Context, e *engine.Engine) error {
		_, err := e.Users(ctx, "c1")
		return err
	}},
	{"DELETE /containers/{id}", func(ctx context.Context, e *engine.Engine) error {
		return e.Remove(ctx, "c1")
	}},
	{"GET /images/a:1/json", func(ctx context.Context, e *engine.Engine) error {
		_, err := e.Image(ctx, "a:1")
		return err
	}},
	{"DELETE /images/a:1", func(ctx context.Context, e *engine.Engine) error {
		return e.RemoveImage(ctx, "a:1")
	}},
	{"POST /images/create", func(ctx context.Context, e *engine.Engine) error {
		return e.Pull(ctx, "a:1", engine.Auth{}, func(*engine.Message) {})
	}},
	{"POST /images/load", func(ctx context.Context, e *engine.Engine) error {
		return e.Load(ctx, strings.NewReader("x"), func(*engine.Message) {})
	}},
}

func TestCalls_EndWithTheirContext(t *testing.T) {
	f := dockertest.NewFake(t)
	e := engine.New(f.Endpoint())
	for _, c := range calls {
		f.Hang(c.name)
		ctx, cancel := context.WithTimeout(t.Context(), 50*time.Millisecond)
		err := c.run(ctx, e)
		cancel()
		if !structs.IsKind(err, structs.KindTimeout) || !strings.Contains(err.Error(), "does not answer") {
			t.Errorf("%s: got %v (%s), want a timeout", c.name, err, structs.KindOf(err))
		}
		if len(f.Calls(c.name)) == 0 {
			t.Errorf("%s was not called", c.name)
		}
	}
}

func TestCalls_ReportADaemonThatGoesAway(t *testing.T) {
	f := dockertest.NewFake(t)
	e := engine.New(f.Endpoint())
	for _, c := range calls {
		f.Handle(c.name, func(http.ResponseWriter, *http.Request) { panic(http.ErrAbortHandler) })
		err := c.run(t.Context(), e)
		if !structs.IsKind(err, structs.KindUnavailable) {
			t.Errorf("%s: got %v (%s), want unavailable", c.name, err, structs.KindOf(err))
		}
	}
	f.Stop()
	for _, c := range calls {
		err := c.run(t.Context(), e)
		if !structs.IsKind(err, structs.KindUnavailable) || !strings.Contains(err.Error(), f.Endpoint()) {
			t.Errorf("%s: got %v (%s), want unavailable and the endpoint", c.name, err, structs.KindOf(err))
		}
	}
}

func TestCalls_ReportGarbage(t *testing.T) {
	f := dockertest.NewFake(t)
	e := engine.New(f.Endpoint())
	garbage := func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Type", "application/json")
		_, _ = io.WriteString(w, "\x00garbage")
	}
	for _, c := range calls {
		switch c.name {
		case "POST /containers/{id}/start", "POST /containers/{id}/kill", "DELETE /containers/{id}":
			continue // the answer has no content
		}
		f.Handle(c.name, garbage)
		if err := c.run(t.Context(), e); err == nil {
			t.Errorf("%s: no error", c.name)
		}
	}
}

func TestCalls_ClassifyTheAnswer(t *testing.T) {
	f := dockertest.NewFake(t)
	e := engine.New(f.Endpoint())
	for code, want := range map[int]structs.Kind{
		400: structs.KindInvalid,
		404: structs.KindNotFound,
		409: structs.KindConflict,
		401: structs.KindPrecondition,
		403: structs.KindPrecondition,
		500: structs.KindPrecondition,
		503: structs.KindPrecondition,
	} {
		f.Handle("GET /containers/{id}/json", func(w http.ResponseWriter, _ *http.Request) {
			w.Header().Set("Content-Type", "application/json")
			w.WriteHeader(code)
			_, _ = io.WriteString(w, `{"message":"the daemon's reason"}`)
		})
		_, err := e.Inspect(t.Context(), "c1")
		if !structs.IsKind(err, want) || !strings.Contains(err.Error(), "the daemon's reason") {
			t.Errorf("status %d: got %v (%s), want %s", code, err, structs.KindOf(err), want)
		}
	}
}

func TestCalls_BoundTheAnswer(t *testing.T) {
	engine.LowerMaxAnswer(t, 1<<20) // to read more takes long on a busy machine
	f := dockertest.NewFake(t)
	e := engine.New(f.Endpoint())
	f.Handle("GET /containers/json", func(w http.ResponseWriter, _ *http.Request) {
		_, _ = io.WriteString(w, `[{"Id":"`)
		block := strings.Repeat("x", 1<<18)
		for range 5 {
			_, err := io.WriteString(w, block)
			if err != nil {
				return
			}
		}
	})
	_, err := e.List(t.Context(), "a=b")
	if err == nil || !strings.Contains(err.Error(), "has more than") {
		t.Errorf("got %v", err)
	}
	f.Handle("POST /images/create", func(w http.ResponseWriter, _ *http.Request) {
		_, _ = io.WriteString(w, `{"status":"`+strings.Repeat("x", 2<<20)+`"}`)
	})
	err = e.Pull(t.Context(), "a:1", engine.Auth{}, func(*engine.Message) {})
	if err == nil || !strings.Contains(err.Error(), "has more than") {
		t.Errorf("got %v", err)
	}
}

// A daemon that is replaced by one of another version is asked for its version again.
func TestEngine_NegotiatesWithEachDaemon(t *testing.T) {
	f := dockertest.NewFake(t)
	e := engine.New(f.Endpoint())
	for range 2 {
		info, err := e.Info(t.Context())
		if err != nil || info.APIVersion != "1.41" {
			t.Fatalf("got %+v, %v", info, err)
		}
		before := len(f.Calls("HEAD /_ping"))
		_, _ = e.Info(t.Context())
		if after := len(f.Calls("HEAD /_ping")); after != before {
			t.Errorf("a second call negotiated: %d, then %d", before, after)
		}
		f.Stop()
		_, err = e.Info(t.Context())
		if !structs.IsKind(err, structs.KindUnavailable) {
			t.Errorf("got %v", err)
		}
		f.Serve()
	}
	if n := len(f.Calls("HEAD /_ping")); n != 2 {
		t.Errorf("negotiated %d times, want 2", n)
	}
}

func TestEngine_RejectsAnOldDaemon(t *testing.T) {
	f := dockertest.NewFake(t)
	f.Handle("HEAD /_ping", func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Api-Version", "1.12")
	})
	_, err := engine.New(f.Endpoint()).Info(t.Context())
	if err == nil || !strings.Contains(err.Error(), "1.12") {
		t.Errorf("got %v", err)
	}
}

func TestPull_ReportsTheRegistrysError(t *testing.T) {
	f := dockertest.NewFake(t)
	var header string
	f.Handle("POST /images/create", func(w http.ResponseWriter, r *http.Request) {
		header = r.Header.Get("X-Registry-Auth")
		fmt.Fprintln(w, `{"status":"Pulling","id":"l1"}`)
		fmt.Fprintln(w, `{"errorDetail":{"message":"no space left on device"},"error":"no space left on device"}`)
	})
	var seen []string
	err := engine.New(f.Endpoint()).Pull(t.Context(), "a:1", engine.Auth{Username: "u", Password: "p"},
		func(m *engine.Message) { seen = append(seen, m.ID+" "+m.Status) })
	if !structs.IsKind(err, structs.KindPrecondition) || !strings.Contains(err.Error(), "no space left") {
		t.Errorf("got %v", err)
	}
	if len(seen) != 1 || seen[0] != "l1 Pulling" {
		t.Errorf("got the messages %q", seen)
	}
	if want := "eyJ1c2VybmFtZSI6InUiLCJwYXNzd29yZCI6InAifQ=="; header != want {
		t.Errorf("the credentials are %s, want %s", header, want)
	}
}
