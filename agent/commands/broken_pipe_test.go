package commands

import (
	"bufio"
	"context"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"berth/agent"
	"berth/cli"
	"berth/cli/command"
)

// asCommand in the environment makes the test binary a command line of berth.
const asCommand = "BERTH_TEST_COMMAND"

func TestMain(m *testing.M) {
	if os.Getenv(asCommand) == "" {
		os.Exit(m.Run())
	}
	ctx, stop := agent.NotifyContext(context.Background(), syscall.SIGTERM)
	code := cli.Run(ctx, os.Args[1:], command.Stdio{
		In:  os.Stdin,
		Out: os.Stdout,
		Err: os.Stderr,
	}, All()...)
	stop()
	os.Exit(code)
}

// TestAgent_OutlivesTheReaderOfItsLog closes the pipe of the output of an agent, as a supervisor or a program
// such as logger that has ended does.
func TestAgent_OutlivesTheReaderOfItsLog(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	config := filepath.Join(dir, "server.hcl")
	logFile := filepath.Join(dir, "berth.log")
	settings := "bind_addr = \"127.0.0.1\"\ndata_dir = \"" + dir + "\"\nlog_file = \"" + logFile + "\"\n" +
		"ports {\n  http = 0\n  rpc = 0\n  serf = 0\n}\nserver {\n  enabled = true\n}\n"
	if err := os.WriteFile(config, []byte(settings), 0o600); err != nil {
		t.Fatal(err)
	}

	ctx, cancel := context.WithTimeout(t.Context(), 2*time.Minute)
	defer cancel()
	cmd := exec.CommandContext(ctx, os.Args[0], "agent", "-config", config)
	cmd.Env = append(os.Environ(), asCommand+"=1")
	reader, writer, err := os.Pipe()
	if err != nil {
		t.Fatal(err)
	}
	cmd.Stdout = writer
	cmd.Stderr = writer
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	ended := make(chan error, 1)
	go func() { ended <- cmd.Wait() }()
	_ = writer.Close()

	lines := bufio.NewScanner(reader)
	for lines.Scan() && !strings.HasPrefix(lines.Text(), "Data:") {
	}
	_ = reader.Close()

	// The reload writes lines, and the log file gets them.
	if err := cmd.Process.Signal(syscall.SIGHUP); err != nil {
		t.Fatal(err)
	}
	for {
		text, err := os.ReadFile(logFile)
		if err == nil && strings.Contains(string(text), "reload") {
			break
		}
		select {
		case err := <-ended:
			t.Fatalf("the agent ended with its reader: %v\n%s", err, text)
		case <-time.After(10 * time.Millisecond):
		}
	}

	if err := cmd.Process.Signal(syscall.SIGTERM); err != nil {
		t.Fatal(err)
	}
	if err := <-ended; err != nil {
		t.Errorf("the agent ended with %v", err)
	}
}
