package agent

import (
	"berth/api/operator"
	"encoding/json"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"berth/internal/auditlog"
)

// auditLines returns the events of the audit log of an agent.
func auditLines(t *testing.T, path string) (all []auditlog.Event) {
	t.Helper()
	b, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	for line := range strings.Lines(string(b)) {
		var e auditlog.Event
		err := json.Unmarshal([]byte(line), &e)
		if err != nil {
			t.Fatal(err)
		}
		all = append(all, e)
	}
	return all
}

// TestAgent_WritesAnAuditLog changes something over the port and over the operator socket. A reload opens the
// file again.
func TestAgent_WritesAnAuditLog(t *testing.T) {
	dir := shortDir(t)
	path := filepath.Join(dir, "audit", "audit.log")
	const text = "name = \"a1\"\naudit {\n  enabled = true\n}\n"
	f := newConfigFile(t, text)
	addr, log, stop := startServer(t, "-data-dir", dir, "-config", f.path)
	status, answer := putJob(t, addr, `{"Job":{"ID":"j"}}`) // it is invalid
	if err := operator.GC(t.Context(), overSocket(t, dir)); err != nil {
		t.Fatal(err)
	}
	all := auditLines(t, path)
	if len(all) != 4 {
		t.Fatalf("status %d (%s): got %+v", status, answer, all)
	}
	for i, want := range []struct {
		method, stage string
		socket        bool
	}{
		{"Job.Register", auditlog.Received, false},
		{"Job.Register", auditlog.Complete, false},
		{"System.GarbageCollect", auditlog.Received, true},
		{"System.GarbageCollect", auditlog.Complete, true},
	} {
		e := all[i]
		if e.Method != want.method || e.Stage != want.stage || e.Caller.Socket != want.socket || e.Agent != "a1" ||
			e.TakenBy != "a1" || e.HandedOnBy != "" || e.RequestID == "" || e.Operation != "PUT" {
			t.Errorf("got %+v, want %+v", e, want)
		}
	}
	if all[1].Result != "invalid" || all[3].Result != "ok" {
		t.Errorf("got the results %q and %q", all[1].Result, all[3].Result)
	}

	must := func(err error) {
		t.Helper()
		if err != nil {
			t.Fatal(err)
		}
	}
	must(os.Rename(path, path+".old"))
	f.reload(text)
	log.await(t, "configuration reloaded")
	must(operator.GC(t.Context(), overSocket(t, dir)))
	if got := auditLines(t, path); len(got) != 2 {
		t.Errorf("the new file has %+v", got)
	}
	if code := stop(); code != 0 {
		t.Errorf("the agent ended with %d", code)
	}
}

// TestAgent_NeedsItsAuditLog has a file in the place of the directory.
func TestAgent_NeedsItsAuditLog(t *testing.T) {
	dir := shortDir(t)
	if err := os.WriteFile(filepath.Join(dir, "audit"), nil, 0o600); err != nil {
		t.Fatal(err)
	}
	f := newConfigFile(t, "audit {\n  enabled = true\n}\n")
	log := newLogBuffer()
	args := append(append([]string{}, onLoopback...), "-http-port", "0", "-data-dir", dir, "-config", f.path)
	code := runCommandLine(t.Context(), newLogBuffer(), log, args...)
	if code == 0 {
		t.Error("the agent has run")
	}
	log.await(t, `audit: sink "audit"`)
}
