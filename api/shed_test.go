package api_test

import (
	"bufio"
	"bytes"
	"context"
	"io"
	"net/http"
	"net/http/httptest"
	"testing"
	"time"

	"github.com/hashicorp/go-hclog"

	"berth/api"
	"berth/api/apitest"
	"berth/structs"
)

func TestSheds(t *testing.T) {
	for target, want := range map[string]struct{ sheds, stale bool }{
		"/v1/volumes":                              {true, false},
		"/v1/volumes?type=csi&per_page=5":          {true, false},
		"/v1/volume/csi/v?namespace=default":       {true, false},
		"/v1/volume/csi/v?stale":                   {true, true},
		"/v1/volume/csi/v?a=b&stale=true":          {true, true},
		"/v1/volume/csi/v?stale=false":             {true, false},
		"/v1/volume/csi/v?stale=false&stale=true":  {true, false},
		"/v1/volumes?filter=ID+contains+%22vol%22": {true, false},
		"/v1/job/j/allocations":                    {true, false},
		"/v1/jobs?index=1&wait=1s":                 {},
		"/v1/jobs?a=b&index=1":                     {},
		"/v1/jobs?index":                           {},
		"/v1/jobs?%69ndex=1":                       {},
		"/v1/jobs?a=b;index=1":                     {},
		"/v1/jobs/":                                {},
		"//v1/jobs":                                {},
		"/v1/../v1/jobs":                           {},
		"/v1/jobs/parse":                           {},
		"/v1/job/":                                 {},
		"/v1/job/..":                               {},
		"/v1/job/a%2Fb":                            {}, // rare, and refused by the procedure
		"/v1/volume/csi/a/b":                       {},
		"/v1/volume/csi/v/claims":                  {},
		"/v1/volumes/external?plugin_id=p":         {},
		"/v1/client/fs/logs/x?task=t":              {},
		"/v1/agent/health":                         {},
		"/v1/status/leader":                        {},
		"/v1/operator/raft/configuration":          {},
		"/v1/nothing":                              {},
		"/":                                        {},
		"":                                         {},
		"*":                                        {},
		"http://x/v1/jobs":                         {},
		"v1/jobs":                                  {},
		"?/v1/jobs":                                {},
	} {
		if sheds, stale := api.Sheds([]byte(target)); sheds != want.sheds || stale != want.stale {
			t.Errorf("%q: sheds %v, stale %v; want %v", target, sheds, stale, want)
		}
	}
}

// FuzzShedsIsWhatIsAsked: what may be refused at the connection is, for the handler, a read that does not
// wait.
func FuzzShedsIsWhatIsAsked(f *testing.F) {
	for _, target := range []string{"/v1/volumes?stale&per_page=3", "/v1/job/x/versions?index=",
		"/v1/node/a.b~c?stale=true&index=0", "/v1/jobs?inde%78=4&stale=1"} {
		f.Add(target)
	}
	var caller apitest.Caller
	h := api.NewHandler(api.Config{Caller: &caller, Agent: newAgent(), Logger: hclog.NewNullLogger()})
	f.Fuzz(func(t *testing.T, target string) {
		sheds, stale := api.Sheds([]byte(target))
		if !sheds {
			return
		}
		head := "GET " + target + " HTTP/1.1\r\nHost: localhost\r\n\r\n"
		r, err := http.ReadRequest(bufio.NewReader(bytes.NewBufferString(head)))
		if err != nil {
			return // internal/httpshed has none of those
		}
		w := httptest.NewRecorder()
		h.ServeHTTP(w, r)
		calls := caller.Take()
		if len(calls) == 0 {
			if w.Code != http.StatusBadRequest && w.Code != http.StatusOK {
				t.Fatalf("%q is answered %d", target, w.Code)
			}
			return
		}
		q := calls[0].Request.(interface{ Query() *structs.QueryOptions }).Query()
		if q.MinIndex > 0 || stale && !q.AllowStale {
			t.Fatalf("%q, stale %v, asks %s for %+v", target, stale, calls[0].Method, q)
		}
	})
}

// TestAnAnswerWithoutNetHTTPIsTheSame as that of the handler.
func TestAnAnswerWithoutNetHTTPIsTheSame(t *testing.T) {
	for _, again := range []time.Duration{time.Millisecond, 250 * time.Millisecond, time.Second,
		1001 * time.Millisecond} {
		s := newServer(t)
		apitest.On(s.caller, structs.NodeList, func(context.Context,
			*structs.QueryRequest) (*structs.NodeListResponse, error) {
			return nil, structs.Busy(again, "too much")
		})
		want, text := s.do(t, "GET", "/v1/nodes", "")
		for _, closes := range []bool{false, true} {
			got, err := http.ReadResponse(bufio.NewReader(bytes.NewReader(api.AppendUnavailable(nil, "too much", again,
				closes))), nil)
			if err != nil {
				t.Fatal(err)
			}
			b, err := io.ReadAll(got.Body)
			if err != nil || string(b) != text || got.Status != want.Status || got.Close != closes {
				t.Errorf("%s, closes %v, %q, %v; want %s %q", got.Status, got.Close, b, err, want.Status, text)
			}
			for name := range want.Header {
				g, w := got.Header.Get(name), want.Header.Get(name)
				if name == "X-Berth-Retry-After" { // a duration, however it is written
					d, err := time.ParseDuration(g)
					if err != nil || d != again {
						t.Errorf("%s is %q, want %q", name, g, w)
					}
				} else if name != "Date" && g != w { // of an error there need be none
					t.Errorf("%s is %q, want %q", name, g, w)
				}
			}
		}
	}
}
