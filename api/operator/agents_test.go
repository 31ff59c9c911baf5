package operator_test

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/hashicorp/go-hclog"
	"go.uber.org/goleak"

	"berth/api"
	"berth/api/apitest"
	"berth/api/operator"
	"berth/structs"
	"berth/structs/access"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// serve serves an agent. With access control each token is a good one.
func serve(t *testing.T, agent *apitest.Agent, acl bool) (*httptest.Server, *api.Client) {
	t.Helper()
	caller := &apitest.Caller{}
	if acl {
		apitest.Answer(caller, access.Check, access.CheckResponse{})
	}
	srv := httptest.NewServer(api.NewHandler(api.Config{
		Routes: operator.Routes(),
		Caller: caller,
		Agent:  agent,
		Logger: hclog.NewNullLogger(),
	}))
	t.Cleanup(srv.Close)
	c := api.NewClient(api.ClientConfig{Address: srv.URL})
	t.Cleanup(c.Close)
	return srv, c
}

func newLogger() hclog.Logger {
	return hclog.NewInterceptLogger(&hclog.LoggerOptions{Name: "berth", Output: io.Discard, Level: hclog.Error})
}

func TestMonitor_SendsLinesOfItsLevel(t *testing.T) {
	agent := &apitest.Agent{Node: "n1", Logger: newLogger()}
	_, c := serve(t, agent, false)
	target := operator.Target{NodeID: "n1"}
	lines, err := operator.Monitor(t.Context(), c, target, operator.MonitorOptions{Level: "debug"})
	if err != nil {
		t.Fatal(err)
	}
	defer lines.Close()
	agent.Logger.Trace("too fine")
	agent.Logger.Named("node").Debug("staging a volume", "volume", "v1")
	got, err := bufio.NewReader(lines).ReadString('\n')
	if err != nil || !strings.Contains(got, "[DEBUG] berth.node: staging a volume: volume=v1") {
		t.Errorf("got %q, %v", got, err)
	}
}

// The clients of the dialect read frames.
func TestMonitor_SendsFrames(t *testing.T) {
	agent := &apitest.Agent{Logger: newLogger()}
	srv, _ := serve(t, agent, false)
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	req, err := http.NewRequestWithContext(ctx, "GET", srv.URL+"/v1/agent/monitor?log_json=true", nil)
	if err != nil {
		t.Fatal(err)
	}
	resp, err := http.DefaultClient.Do(req)
	if err != nil {
		t.Fatal(err)
	}
	defer resp.Body.Close()
	frames := json.NewDecoder(resp.Body)
	var first, second struct{ Data []byte }
	if err := frames.Decode(&first); err != nil || first.Data != nil {
		t.Fatalf("the first frame is %q, %v; want an empty one", first.Data, err)
	}
	agent.Logger.Info("ready")
	var line struct {
		Message string `json:"@message"`
	}
	err = frames.Decode(&second)
	if err == nil {
		err = json.Unmarshal(second.Data, &line)
	}
	if err != nil || line.Message != "ready" {
		t.Errorf("the second frame is %q, %v", second.Data, err)
	}
}

func TestExport_SendsTheLogFilesInTheirOrder(t *testing.T) {
	dir := t.TempDir()
	var paths []string
	for i, text := range []string{"first\n", "second\n"} {
		path := filepath.Join(dir, fmt.Sprint(i))
		if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		paths = append(paths, path)
	}
	paths = append(paths, filepath.Join(dir, "deleted meanwhile"))
	_, c := serve(t, &apitest.Agent{OwnLogs: paths}, false)
	lines, err := operator.Export(t.Context(), c, operator.Target{}, time.Hour)
	if err != nil {
		t.Fatal(err)
	}
	defer lines.Close()
	got, err := io.ReadAll(lines)
	if err != nil || string(got) != "first\nsecond\n" {
		t.Errorf("got %q, %v", got, err)
	}
}

func TestRoutes_RejectWrongParameters(t *testing.T) {
	srv, _ := serve(t, &apitest.Agent{Logger: newLogger(), IsDebug: true}, false)
	for path, want := range map[string]string{
		"/v1/agent/monitor?log_level=loud":          `log_level is "loud"`,
		"/v1/agent/monitor?log_level=off":           `log_level is "off"`,
		"/v1/agent/monitor?log_json=perhaps":        "log_json",
		"/v1/agent/monitor?plain=perhaps":           "plain",
		"/v1/agent/monitor?server_id=s9":            `server "s9" is unknown`,
		"/v1/agent/monitor/export?logs_since=x":     "logs_since",
		"/v1/agent/monitor/export?service_name=x":   "journalctl",
		"/v1/agent/pprof/profile?seconds=-1":        "seconds",
		"/v1/agent/pprof/profile?seconds=121":       "at most 120",
		"/v1/agent/pprof/heap?debug=x":              "debug",
		"/v1/agent/pprof/heap?gc=x":                 "gc",
		"/v1/agent/pprof/nothing":                   `no profile "nothing", only cmdline, profile, trace, `,
		"/v1/agent/host?server_id=s9":               `server "s9" is unknown`,
		"/v1/agent/pprof/heap?server_id=s9&debug=1": `server "s9" is unknown`,
	} {
		resp, err := srv.Client().Get(srv.URL + path)
		if err != nil {
			t.Fatal(err)
		}
		body, _ := io.ReadAll(resp.Body)
		_ = resp.Body.Close()
		if resp.StatusCode/100 != 4 || !strings.Contains(string(body), want) {
			t.Errorf("%s: got %s %q, want %q", path, resp.Status, body, want)
		}
	}
}

func TestProfile_SendsProfiles(t *testing.T) {
	_, c := serve(t, &apitest.Agent{IsDebug: true}, false)
	for name, begin := range map[string]string{"profile": "\x1f\x8b", "trace": "go 1.", "heap": "\x1f\x8b"} {
		var profile bytes.Buffer
		err := operator.Profile(t.Context(), c, operator.ProfileOptions{Name: name, Seconds: 1}, &profile)
		if err != nil || !strings.HasPrefix(profile.String(), begin) {
			t.Errorf("%s: got %.20q, %v", name, profile.String(), err)
		}
	}
}

// Without access control nobody has shown a right, so the agent's configuration decides.
func TestDebug_IsClosedWithoutAccessControl(t *testing.T) {
	ask := func(debug, acl bool) (host, profile error) {
		_, c := serve(t, &apitest.Agent{IsDebug: debug}, acl)
		_, host = operator.Host(t.Context(), c, operator.Target{})
		return host, operator.Profile(t.Context(), c, operator.ProfileOptions{Name: "cmdline"}, io.Discard)
	}
	host, profile := ask(false, false)
	for _, err := range []error{host, profile} {
		if !structs.IsKind(err, structs.KindDenied) || !strings.Contains(err.Error(), "enable_debug = true") {
			t.Errorf("without access control: got %v, want a denial that names the setting", err)
		}
	}
	for _, on := range [][2]bool{{true, false}, {false, true}} {
		host, profile := ask(on[0], on[1])
		if host != nil || profile != nil {
			t.Errorf("debug %t, access control %t: got %v and %v", on[0], on[1], host, profile)
		}
	}
}

// TestTarget_IsAnotherServer passes requests on once.
func TestTarget_IsAnotherServer(t *testing.T) {
	far, _ := serve(t, &apitest.Agent{Node: "n2", IsDebug: true}, false)
	addr := strings.TrimPrefix(far.URL, "http://")
	agent := &apitest.Agent{Node: "n1", IsDebug: true, Servers: map[string]api.AgentPlace{
		"s2":   {Server: "s2", HTTPAddr: addr},
		"gone": {Server: "gone", HTTPAddr: "127.0.0.1:1"},
		"none": {Server: "none"},
	}}
	srv, c := serve(t, agent, false)
	// The other agent knows no server with this name, so it was asked for it.
	_, err := operator.Host(t.Context(), c, operator.Target{ServerID: "s2"})
	if err == nil || !strings.Contains(err.Error(), `server "s2" is unknown`) {
		t.Errorf("the other agent was not asked: %v", err)
	}
	_, err = operator.Host(t.Context(), c, operator.Target{ServerID: "gone"})
	away := structs.IsKind(err, structs.KindUnavailable)
	if !away || !strings.Contains(err.Error(), "server gone: its agent") {
		t.Errorf("a server that is away: %v", err)
	}
	_, err = operator.Host(t.Context(), c, operator.Target{ServerID: "none"})
	if !structs.IsKind(err, structs.KindNotFound) {
		t.Errorf("a server without an address: %v", err)
	}

	agent.Servers["self"] = api.AgentPlace{Server: "self", HTTPAddr: strings.TrimPrefix(srv.URL, "http://")}
	_, err = operator.Host(t.Context(), c, operator.Target{ServerID: "self"})
	if !structs.IsKind(err, structs.KindNotFound) {
		t.Errorf("an agent that takes itself for another one: %v, want one hop", err)
	}
}

// serveFrom serves an agent to callers with an address.
func serveFrom(t *testing.T, agent *apitest.Agent, acl bool, remote string) *api.Client {
	t.Helper()
	caller := &apitest.Caller{}
	if acl {
		apitest.Answer(caller, access.Check, access.CheckResponse{})
	}
	handler := api.NewHandler(api.Config{
		Routes: operator.Routes(),
		Caller: caller,
		Agent:  agent,
		Logger: hclog.NewNullLogger(),
	})
	srv := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		r.RemoteAddr = remote
		handler.ServeHTTP(w, r)
	}))
	t.Cleanup(srv.Close)
	c := api.NewClient(api.ClientConfig{Address: srv.URL})
	t.Cleanup(c.Close)
	return c
}

func TestLog_IsOpenToOthersAtInfoAlone(t *testing.T) {
	const near, far = "127.0.0.1:7", "192.0.2.1:7"
	for _, test := range []struct {
		title, remote, level string
		debug, acl           bool
		files, denied        bool
	}{
		{title: "info from afar", remote: far, level: "info"},
		{title: "warnings from afar", remote: far, level: "warn"},
		{title: "debug from afar", remote: far, level: "debug", denied: true},
		{title: "trace from afar", remote: far, level: "trace", denied: true},
		{title: "files from afar", remote: far, files: true, denied: true},
		{title: "debug on the machine", remote: near, level: "debug"},
		{title: "debug on the machine by IPv6", remote: "[::1]:7", level: "debug"},
		{title: "files on the machine", remote: near, files: true},
		{title: "debug with enable_debug", remote: far, level: "debug", debug: true},
		{title: "files with enable_debug", remote: far, files: true, debug: true},
		{title: "debug with access control", remote: far, level: "debug", acl: true},
		{title: "files with access control", remote: far, files: true, acl: true},
	} {
		t.Run(test.title, func(t *testing.T) {
			file := filepath.Join(t.TempDir(), "berth.log")
			err := os.WriteFile(file, []byte("a line"), 0o600)
			if err != nil {
				t.Fatal(err)
			}
			agent := &apitest.Agent{Logger: newLogger(), IsDebug: test.debug, OwnLogs: []string{file}}
			c := serveFrom(t, agent, test.acl, test.remote)
			var lines io.ReadCloser
			if test.files {
				lines, err = operator.Export(t.Context(), c, operator.Target{}, time.Hour)
			} else {
				o := operator.MonitorOptions{Level: test.level}
				lines, err = operator.Monitor(t.Context(), c, operator.Target{}, o)
			}
			if err == nil {
				_ = lines.Close()
			}
			if denied := structs.IsKind(err, structs.KindDenied); denied != test.denied || !denied && err != nil {
				t.Errorf("got %v", err)
			}
		})
	}
}
