package cli

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/hashicorp/go-hclog"

	"berth/api"
	"berth/structs"
)

// untilText is an output that tells when it has a text.
type untilText struct {
	text string
	has  chan struct{}

	mu  sync.Mutex
	out bytes.Buffer
}

func (u *untilText) Write(p []byte) (int, error) {
	u.mu.Lock()
	defer u.mu.Unlock()
	before := strings.Contains(u.out.String(), u.text)
	n, err := u.out.Write(p)
	if !before && strings.Contains(u.out.String(), u.text) {
		close(u.has)
	}
	return n, err
}

func (u *untilText) String() string {
	u.mu.Lock()
	defer u.mu.Unlock()
	return u.out.String()
}

// TestRequests_SayWhatTheyWaitFor checks that commands whose request takes long say what they wait for: the
// agent answers only when they have.
func TestRequests_SayWhatTheyWaitFor(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	volume := filepath.Join(dir, "data.hcl")
	archive := filepath.Join(dir, "good.snap")
	writeFile(t, volume, []byte(registeredVolume))
	writeFile(t, archive, newFakeCluster(dir).agent.Snapshot)
	for line, want := range map[string]string{
		"volume register " + volume: `waits for plugin "hostpath", which confirms the volume`,
		"volume detach data one": `Volume "data" on node 11111111: the claim of allocation a1a1a1a1: ` +
			"its node has not released it yet, Unavailable: the device is busy",
		"alloc restart a1a1a1a1":                        "waits for the answer of the node of allocation a1a1a1a1",
		"alloc signal a1a1a1a1":                         "waits for the answer of the node of allocation a1a1a1a1",
		"alloc gc a1a1a1a1":                             "waits for the answer of the node of allocation a1a1a1a1",
		"node gc one":                                   "waits for the answer of node 11111111",
		"server join 10.0.0.2":                          "waits for the answers of the servers: 10.0.0.2",
		"server leave":                                  "waits for the end of its leadership and of its vote",
		"server force-leave s2.global":                  "waits for the leader, which takes the vote of the server",
		"system gc":                                     "waits for the servers, which delete the rows",
		"operator raft remove-peer -peer-id s2":         "waits for the leader, which takes the vote of the server",
		"operator raft transfer-leadership -peer-id s2": "waits for server s2, which is to lead",
		"operator snapshot save " + archive + ".new":    "waits for the servers, which send the state",
		"operator snapshot restore " + archive:          "waits for the servers, which replace their state",
	} {
		t.Run(line, func(t *testing.T) {
			t.Parallel()
			ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
			defer cancel()
			w := newFakeCluster(t.TempDir())
			out := &untilText{text: want, has: make(chan struct{})}
			h := api.NewHandler(api.Config{Caller: w.caller, Agent: w.agent, Logger: hclog.NewNullLogger()})
			agent := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
				if r.Method != http.MethodGet || strings.HasSuffix(r.URL.Path, "/snapshot") {
					select {
					case <-out.has:
					case <-ctx.Done():
					}
				}
				h.ServeHTTP(w, r)
			}))
			defer agent.Close()
			var errs bytes.Buffer
			args := append(strings.Fields(line), "-address", agent.URL)
			code := Run(ctx, args, Stdio{In: strings.NewReader(""), Out: out, Err: &errs})
			if code != 0 {
				t.Errorf("exit code %d, %s; want %q in\n%s", code, errs.String(), want, out)
			}
		})
	}
}

// TestRequests_NameTheNextStepOfAFault checks the end of commands whose request is refused.
func TestRequests_NameTheNextStepOfAFault(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	volume := filepath.Join(dir, "old.hcl")
	archive := filepath.Join(dir, "good.snap")
	writeFile(t, volume, []byte(registeredVolume))
	writeFile(t, archive, newFakeCluster(dir).agent.Snapshot)
	for line, want := range map[string]string{
		"volume create " + volume:                       "to see the plugins: berth plugin status",
		"volume register " + volume:                     "to see the plugins: berth plugin status",
		"volume delete data":                            "to see why: berth volume why data",
		"volume deregister data":                        "to see why: berth volume why data",
		"volume retry data":                             "to see why: berth volume why data",
		"volume detach data one":                        "to see why: berth volume why data",
		"alloc restart a1a1a1a1":                        "to see its state: berth alloc status a1a1a1a1",
		"alloc signal a1a1a1a1":                         "to see its state: berth alloc status a1a1a1a1",
		"alloc gc a1a1a1a1":                             "to see its state: berth alloc status a1a1a1a1",
		"node gc one":                                   "to see its state: berth node status 11111111",
		"server join 10.0.0.2":                          "to see the servers: berth server members",
		"server leave":                                  "to see the servers: berth server members",
		"server force-leave s2.global":                  "to see the servers: berth server members",
		"system gc":                                     "to see the servers: berth server members",
		"operator snapshot save " + archive:             "to see the servers: berth server members",
		"operator raft remove-peer -peer-id s2":         "to see the servers: berth operator raft list-peers",
		"operator raft transfer-leadership -peer-id s2": "to see the servers: berth operator raft list-peers",
		"operator snapshot restore " + archive:          "to see the servers: berth server members",
	} {
		for kind, status := range map[structs.Kind]int{
			structs.KindPrecondition: http.StatusPreconditionFailed,
			structs.KindTimeout:      http.StatusGatewayTimeout,
		} {
			t.Run(fmt.Sprint(line, " ", status), func(t *testing.T) {
				t.Parallel()
				c := newFakeCluster(t.TempDir())
				h := api.NewHandler(api.Config{
					Caller: c.caller,
					Agent:  c.agent,
					Logger: hclog.NewNullLogger(),
				})
				agent := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
					if r.Method != http.MethodGet || strings.HasSuffix(r.URL.Path, "/snapshot") {
						w.Header().Set("X-Berth-Error-Kind", string(kind))
						http.Error(w, "not now", status)
						return
					}
					h.ServeHTTP(w, r)
				}))
				defer agent.Close()
				args := append(strings.Fields(line), "-address", agent.URL)
				code, _, errs := runArgs(t, args)
				if code == 0 || !strings.HasSuffix(strings.TrimSpace(errs), "not now; "+want) {
					t.Errorf("exit code %d, %q; want %q at its end", code, errs, want)
				}
			})
		}
	}
}

// TestRequests_EndWhileAReportIsSlow checks that a request whose answer has come does not wait for the
// explanation of its delay.
func TestRequests_EndWhileAReportIsSlow(t *testing.T) {
	t.Parallel()
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	w := newWatch(&Call{Stdio: Stdio{Out: io.Discard}, cmd: &Command{}})
	reports := make(chan struct{})
	var cause error
	err := w.request(ctx, func(report context.Context) {
		close(reports)
		<-report.Done()
		cause = report.Err()
	}, func() error {
		<-reports
		return nil
	})
	if err != nil || !errors.Is(cause, context.Canceled) {
		t.Errorf("the request ends with %v, and its report with %v", err, cause)
	}
}

// TestRequests_BoundAReport checks that a report that lasts does not hold the next one up.
func TestRequests_BoundAReport(t *testing.T) {
	t.Parallel()
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	w := newWatch(&Call{Stdio: Stdio{Out: io.Discard}, cmd: &Command{}})
	ended := make(chan error, 1)
	err := w.request(ctx, func(report context.Context) {
		<-report.Done()
		ended <- report.Err()
	}, func() error { return <-ended })
	if !errors.Is(err, context.DeadlineExceeded) || ctx.Err() != nil {
		t.Errorf("the report ends with %v", err)
	}
}

// TestVolumeCreate_ShowsTheRemedy checks that a command which waits for a volume writes what helps once, as
// the number of failures grows.
func TestVolumeCreate_ShowsTheRemedy(t *testing.T) {
	t.Parallel()
	attempts := 0
	var out strings.Builder
	w := watchOf(t, &out, map[string]func() any{
		"/v1/volume/csi/data": func() any {
			attempts++
			d := &structs.CSIVolumeDetail{}
			d.ID = "data"
			d.State = structs.VolumeCreating
			d.LastError = &structs.OperationError{Code: "Unavailable", Message: "no answer", Attempts: attempts}
			return d
		},
		"/v1/volume/csi/data/why": func() any {
			return &structs.WhyResponse{Waits: true, Reasons: []*structs.Reason{
				{Text: "volume data is being created", Remedy: "to try now: berth volume retry data"},
			}}
		},
	})
	for range 3 {
		w.reportProgress(t.Context(), "", "data")
	}
	checkLines(t, out.String(), `Volume "data" is creating: Unavailable: no answer (2 attempts`)
	if got := strings.Count(out.String(), "-> to try now: berth volume retry data"); got != 1 {
		t.Errorf("the remedy is written %d times, want once:\n%s", got, out.String())
	}
}

// registeredVolume is the file of a volume that its plugin has.
const registeredVolume = `
id          = "old"
name        = "old"
type        = "csi"
plugin_id   = "hostpath"
external_id = "vol-old"
capability {
  access_mode     = "single-node-writer"
  attachment_mode = "file-system"
}
`

func writeFile(t *testing.T, name string, text []byte) {
	t.Helper()
	if err := os.WriteFile(name, text, 0o600); err != nil {
		t.Fatal(err)
	}
}
