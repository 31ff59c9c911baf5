package e2e

import (
	"bufio"
	"io"
	"os"
	"os/exec"
	"strconv"
	"strings"
	"testing"
	"time"

	"berth/structs"
)

// startGuarded starts an agent with access control and returns it with a task that runs on after its output.
func startGuarded(t *testing.T) (a *agent, alloc string) {
	a = newAgent(t, "dev", "-dev")
	a.args = append(a.args, "-config", a.writeFile("acl.hcl", "acl {\n  enabled = true\n}\n"))
	a.launch()
	policy := a.writeFile("watchers.hcl", watchers)
	eventually(t, "the policy of everybody", func() error {
		_, err := a.runOverSocket("acl", "policy", "apply", "anonymous", policy)
		return err
	})
	a.awaitReady()
	job := a.writeJob(jobFile{name: "plain", script: "echo up; exec sleep 100000"})
	eventually(t, "the job is stored", func() error {
		_, err := a.runOverSocket("job", "run", "-detach", job)
		return err
	})
	alloc = a.awaitRunning("plain", 1)[0].ID
	a.awaitOutput(alloc, "up")
	return a, alloc
}

// tokenFor makes a token with a policy of its own and returns its accessor and its secret.
func (a *agent) tokenFor(name, rules string) (accessor, secret string) {
	a.t.Helper()
	_, err := a.runOverSocket("acl", "policy", "apply", name, a.writeFile(name+".hcl", rules))
	if err != nil {
		a.t.Fatal(err)
	}
	out, err := a.runOverSocket("acl", "token", "create", "-name", name, "-policy", name, "-json")
	if err != nil {
		a.t.Fatal(err)
	}
	token := decode[struct{ AccessorID, SecretID string }](a.t, out)
	return token.AccessorID, token.SecretID
}

// following is a command line that shows the output of a task while it grows.
type following struct {
	cmd    *exec.Cmd
	out    *bufio.Reader
	faults strings.Builder
}

// followLogs runs berth alloc logs -f with a token, and returns after the first line.
func (a *agent) followLogs(secret, alloc, first string) *following {
	a.t.Helper()
	f := &following{cmd: exec.Command(binary, "alloc", "logs", "-f", alloc)}
	f.cmd.Env = append(os.Environ(), "BERTH_ADDR=http://127.0.0.1:"+strconv.Itoa(a.http), "BERTH_TOKEN="+secret)
	f.cmd.Stderr = &f.faults
	out, err := f.cmd.StdoutPipe()
	if err == nil {
		err = f.cmd.Start()
	}
	if err != nil {
		a.t.Fatal(err)
	}
	a.t.Cleanup(func() { _ = f.cmd.Process.Kill() })

	f.out = bufio.NewReader(out)
	line, err := f.out.ReadString('\n')
	if err != nil || strings.TrimSpace(line) != first {
		a.t.Fatalf("the logs begin with %q, %v; want %q: %s", line, err, first, f.faults.String())
	}
	return f
}

// awaitEnd returns the exit code.
func (f *following) awaitEnd() int {
	_, _ = io.Copy(io.Discard, f.out)
	return exitCode(f.cmd.Wait())
}

// A command in a task at a terminal and logs that are followed end when the token of their user is deleted.
// Those of another user go on.
func TestACL_EndsSessionsWithTheirToken(t *testing.T) {
	t.Parallel()
	a, alloc := startGuarded(t)
	const rules = `namespace "default" {
  policy       = "read"
  capabilities = ["read-logs", "alloc-exec"]
}`
	accessor, secret := a.tokenFor("leaves", rules)
	_, other := a.tokenFor("stays", rules)
	leaves := a.atTerminalAs(t, secret, alloc, "sh", "-c", stubborn+a.dir)
	leaves.await("up 2")
	stays := a.atTerminalAs(t, other, alloc, "sh")
	stays.press("echo stays $((1 + 1))\n")
	stays.await("stays 2")
	logs := a.followLogs(secret, alloc, "up")

	_, err := a.runOverSocket("acl", "token", "delete", accessor)
	if err != nil {
		t.Fatal(err)
	}
	deleted := time.Now()
	denied := structs.KindDenied.ExitCode()
	leaves.awaitEnd(denied)
	t.Logf("the command ended %s after the deletion", time.Since(deleted).Round(time.Millisecond))
	got := logs.awaitEnd()
	if got != denied {
		t.Errorf("the logs ended with exit code %d, want %d: %s", got, denied, logs.faults.String())
	}
	t.Logf("the logs ended within %s of the deletion", time.Since(deleted).Round(time.Millisecond))
	awaitNoCommand(t, a.dir)

	stays.press("exit 42\n")
	stays.awaitEnd(42)
}
