package ui

import (
	"bufio"
	"bytes"
	"context"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"
)

// patience bounds the wait for one condition. It is long for slow machines.
const patience = 90 * time.Second

// examples has the job files that the tests run.
const examples = "../../examples/"

// berth runs the command line against an agent, and fails the test if the command fails. run returns the
// standard output.
type berth struct {
	t     *testing.T
	bin   string
	addr  string // http://host:port
	token string // "" for none
}

func (b berth) run(args ...string) string {
	b.t.Helper()
	ctx, cancel := context.WithTimeout(b.t.Context(), patience)
	defer cancel()
	cmd := exec.CommandContext(ctx, b.bin, args...)
	cmd.Env = append(os.Environ(), "BERTH_ADDR="+b.addr, "BERTH_TOKEN="+b.token)
	var said strings.Builder
	cmd.Stderr = &said
	out, err := cmd.Output()
	if err != nil {
		b.t.Fatalf("berth %s: %v\n%s%s", strings.Join(args, " "), err, out, said.String())
	}
	return string(out)
}

// startAgent runs an agent with -dev and some settings until the test ends. It skips the test without a
// binary (BERTH_BIN).
func startAgent(t *testing.T, settings ...string) berth {
	t.Helper()
	bin := os.Getenv("BERTH_BIN")
	if bin == "" {
		t.Skip("needs a berth binary (BERTH_BIN)")
	}
	dir, err := os.MkdirTemp("/tmp", "b") // short: sockets are below it
	if err != nil {
		t.Fatal(err)
	}
	config := filepath.Join(dir, "agent.hcl")
	// The Consul of the machine is no part of the test.
	all := append(settings, "consul {\n  address = \"\"\n}\n")
	err = os.WriteFile(config, []byte(strings.Join(all, "")), 0o600)
	if err != nil {
		t.Fatal(err)
	}

	var log bytes.Buffer
	cmd := exec.Command(bin, "agent", "-dev", "-config", config, "-data-dir", dir, "-http-port", "0",
		"-rpc-port", "0", "-serf-port", "0")
	cmd.Stderr = &log
	out, err := cmd.StdoutPipe()
	if err == nil {
		err = cmd.Start()
	}
	if err != nil {
		t.Fatalf("starting %s: %v", bin, err)
	}
	found := make(chan string, 1)
	ended := make(chan error, 1)
	go func() {
		lines := bufio.NewScanner(out)
		for lines.Scan() {
			addr, ok := strings.CutPrefix(lines.Text(), "HTTP API:")
			if ok {
				found <- strings.TrimSpace(addr)
			}
		}
		close(found)
		ended <- cmd.Wait()
	}()
	t.Cleanup(func() {
		_ = cmd.Process.Signal(syscall.SIGTERM)
		err := <-ended
		if err != nil || t.Failed() {
			t.Errorf("the agent ended with %v and wrote\n%s", err, log.String())
		}
		err = os.RemoveAll(dir)
		if err != nil {
			t.Errorf("something of the agent is still there: %v", err)
		}
	})

	addr, ok := <-found
	if !ok {
		t.Fatal("the agent ended without saying where it serves HTTP")
	}
	return berth{t: t, bin: bin, addr: addr}
}
