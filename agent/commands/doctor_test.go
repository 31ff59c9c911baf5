package commands

import (
	"net"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
)

// writeConfig writes the configuration of a server, with a port of its API and further text.
func writeConfig(t *testing.T, port int, more string) string {
	t.Helper()
	dir := t.TempDir()
	path := filepath.Join(dir, "agent.hcl")
	text := "data_dir = \"" + dir + "/data\"\nbind_addr = \"127.0.0.1\"\nserver {\n  enabled = true\n" + more + "}\n" +
		"ports {\n  http = " + strconv.Itoa(port) + "\n  rpc = 0\n  serf = 0\n}\n"
	err := os.WriteFile(path, []byte(text), 0o600)
	if err != nil {
		t.Fatal(err)
	}
	return path
}

func TestDoctor_ChecksTheMachineOfAConfiguration(t *testing.T) {
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = ln.Close() }()
	taken := ln.Addr().(*net.TCPAddr).Port
	fence := "  fencing \"ipmi\" {\n    agent = \"no-such-agent\"\n  }\n"
	for _, c := range []struct {
		path string
		code int
		want string
	}{
		{writeConfig(t, 0, ""), 0, "ok    configuration "},
		{writeConfig(t, 0, "  bad = 1\n"), 1, "agent.hcl:5"},
		{writeConfig(t, 0, fence), 1, `fencing "ipmi": the agent no-such-agent is not installed`},
		{writeConfig(t, taken, ""), 1, "ports.http: another program uses tcp 127.0.0.1:" + strconv.Itoa(taken)},
		{"/none.hcl", 1, "/none.hcl"},
	} {
		code, out, errs := runLine(t, "doctor -config "+c.path)
		if code != c.code || !strings.Contains(out, c.want) || errs != "" {
			t.Errorf("got the exit code %d, want %d with %q: %s%s", code, c.code, c.want, out, errs)
		}
	}
}

func TestDoctor_FindsTheWatchdogOfANode(t *testing.T) {
	dir := t.TempDir()
	path := filepath.Join(dir, "agent.hcl")
	text := "data_dir = \"" + dir + "\"\nbind_addr = \"127.0.0.1\"\n" +
		"client {\n  enabled = true\n  fencing {\n    watchdog = \"/dev/none\"\n  }\n}\n"
	err := os.WriteFile(path, []byte(text), 0o600)
	if err != nil {
		t.Fatal(err)
	}
	code, out, _ := runLine(t, "doctor -config "+path)
	if code != 1 || !strings.Contains(out, "there is no device /dev/none") {
		t.Errorf("got the exit code %d: %s", code, out)
	}
}
