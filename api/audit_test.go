package api_test

import (
	"context"
	"net/http"
	"os"
	"strings"
	"testing"

	"github.com/hashicorp/go-hclog"

	"berth/api"
	"berth/internal/auditlog"
	"berth/rpc"
	"berth/structs"
)

// TestHandler_HasAnAuditLog denies a secret, runs the garbage collection of a node and reads.
func TestHandler_HasAnAuditLog(t *testing.T) {
	c := auditlog.Config{Enabled: true}
	c.Finish(t.TempDir())
	log, err := auditlog.Open(c, auditlog.Deps{Logger: hclog.NewNullLogger()})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(log.Close)
	path := c.Sinks[0].Path
	s := newServer(t, func(cfg *api.Config) {
		cfg.CheckSecrets = func(*http.Request) error { return structs.Deniedf("no secrets") }
		cfg.Name = "a1"
		cfg.Audit = log
	})
	for _, c := range []struct {
		method, path string
		lines        int
		want         string
	}{
		{"GET", "/v1/var/a", 1, `"kind":"denied"`},
		{"GET", "/v1/jobs", 0, ""},
		{"GET", "/v1/agent/health", 0, ""},
		{"PUT", "/v1/agent/reload", 2, `"kind":"change"`},
		{"PUT", "/v1/client/allocation/a1/gc", 2, `"objects":[{"type":"allocation","id":"a1"}]`},
	} {
		if err := os.Truncate(path, 0); err != nil {
			t.Fatal(err)
		}
		resp, _ := s.do(t, c.method, c.path, "")
		b, err := os.ReadFile(path)
		if err != nil {
			t.Fatal(err)
		}
		text := string(b)
		id := resp.Header.Get(api.HeaderRequestID)
		isThere := strings.Contains(text, c.want) && strings.Contains(text, `"endpoint":"`+c.path+`"`) &&
			strings.Contains(text, `"request_id":"`+id+`"`) && strings.Contains(text, `"taken_by":"a1"`)
		if strings.Count(text, "\n") != c.lines || c.lines > 0 && !isThere || len(id) != 36 {
			t.Errorf("%s %s: ID %q, got %s", c.method, c.path, id, text)
		}
	}
}

// callerFunc is a caller that is a function.
type callerFunc func(ctx context.Context, req any) error

func (f callerFunc) Call(ctx context.Context, _ string, req, _ any) error { return f(ctx, req) }

// TestHandler_CallsMethodsWithTheOrigin stops a job. The context of the call has the origin of the request.
func TestHandler_CallsMethodsWithTheOrigin(t *testing.T) {
	var got *structs.Origin
	var caller rpc.Caller = callerFunc(func(ctx context.Context, _ any) error {
		got = auditlog.OriginFrom(ctx)
		return structs.NotFoundf("no job")
	})
	s := newServer(t, func(cfg *api.Config) { cfg.Caller = caller })
	resp, _ := s.do(t, "DELETE", "/v1/job/j?namespace=n", "")
	if got == nil || got.RequestID != resp.Header.Get(api.HeaderRequestID) || got.Endpoint != "/v1/job/j" ||
		got.Operation != "DELETE" || got.Remote == "" {
		t.Errorf("got %+v", got)
	}
}
