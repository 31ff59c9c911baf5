package exec_test

import (
	"bytes"
	"context"
	"os"
	osexec "os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"berth/client/drivers/exec"
	"berth/test/kit"
)

// fingerprintMain writes the health of the driver of a new agent.
func fingerprintMain(dir string) {
	info := exec.New(exec.DefaultConfig(), executorConfig(dir)).Fingerprint(context.Background())
	if info.Healthy {
		os.Stdout.WriteString("healthy: ")
	}
	os.Stdout.WriteString(info.HealthDescription)
	os.Exit(0)
}

// An agent that may do some of the steps to a sandbox says which one fails, before any task fails there.
func TestFingerprint_NamesTheStepThatFails(t *testing.T) {
	r := newFixture(t)
	if err := os.Chmod(r.dir, 0o755); err != nil {
		t.Fatal(err)
	}
	scratch := t.TempDir()
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	setpriv, err := osexec.LookPath("setpriv")
	if err != nil {
		kit.SkipLacking(t, "setpriv of util-linux")
	}

	all := []syscall.SysProcIDMap{{ContainerID: 0, HostID: 0, Size: 65536}}
	for name, c := range map[string]struct {
		args []string
		attr *syscall.SysProcAttr
		want []string
	}{
		"all rights": {[]string{self}, nil, []string{"healthy: "}},
		"without CAP_MKNOD": {[]string{setpriv, "--bounding-set", "-mknod", self}, nil,
			[]string{"tasks cannot be isolated", "making /dev/null: operation not permitted"}},
		"a user namespace": {[]string{self}, &syscall.SysProcAttr{
			Cloneflags: syscall.CLONE_NEWUSER, UidMappings: all, GidMappings: all, GidMappingsEnableSetgroups: true,
		}, []string{"tasks cannot be isolated", "the agent is in a user namespace"}},
	} {
		cmd := osexec.Command(c.args[0], append(c.args[1:len(c.args):len(c.args)], "fingerprint", r.dir)...)
		cmd.SysProcAttr = c.attr
		cmd.Env = append(os.Environ(), "TMPDIR="+scratch)
		var errs bytes.Buffer
		cmd.Stderr = &errs
		out, err := cmd.Output()
		if err != nil {
			t.Errorf("%s: %v: %s", name, err, errs.String())
			continue
		}
		for _, want := range c.want {
			if !strings.Contains(string(out), want) {
				t.Errorf("%s: the driver says %q, want %q", name, out, want)
			}
		}
		if strings.HasPrefix(string(out), "healthy") != (name == "all rights") {
			t.Errorf("%s: the driver says %q", name, out)
		}
	}
	// With the race detector, a process that runs the driver has another program of its own there.
	left, err := filepath.Glob(filepath.Join(scratch, "berth-sandbox-*"))
	if err != nil || len(left) > 0 {
		t.Errorf("the trials left %v, %v", left, err)
	}
}
