package e2e

import (
	"bytes"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"
)

// runVictim runs a test that ends badly, in a process of its own: the test binary, if its first argument is
// "victim". The second one says how it ends.
func runVictim(end string) int {
	binary = os.Getenv(binaryVar)
	os.Args = os.Args[:1] // the rest are no flags of package testing
	victim := func(t *testing.T) { beVictim(t, end) }
	always := func(string, string) (bool, error) { return true, nil }
	testing.Main(always, []testing.InternalTest{{Name: "victim", F: victim}}, nil, nil)
	return 0 // not reached
}

// hiddenScript leaves a process that does not end with the task, and has neither its environment nor its
// session. The task itself does not end on request.
const hiddenScript = `trap '' INT
(env -i setsid sleep 86400.%d &)
echo up
while :; do sleep 0.1; done`

// beVictim starts what a test can start, writes what it has started, and ends.
func beVictim(t *testing.T, end string) {
	a := newAgent(t, "victim", "-server", "-client").allowRaw()
	a.start()
	a.must("job", "run", example(t, "hostpath.hcl"))
	a.healthyNodes("hostpath", 1)
	a.createVolume(volumeFile{id: "v", image: true})
	for _, driver := range []string{"exec", "raw_exec"} {
		job := jobFile{
			name:   strings.ReplaceAll(driver, "_", "-"),
			driver: driver,
			script: fmt.Sprintf(hiddenScript, a.http),
		}
		if driver == "exec" {
			job.uses = []volumeUse{{source: "v", at: "/data"}}
		}
		a.must("job", "run", "-detach", a.writeJob(job))
		a.awaitOutput(a.awaitRunning(job.name, 1)[0].ID, "up")
	}
	alloc := a.awaitRunning("exec", 1)[0].ID
	a.startCommand("alloc", "logs", "-f", alloc)
	started := map[string][]string{
		"path":    append(a.cgroups(), a.dir),
		"mount":   mountsBelow(a.dir),
		"program": {fmt.Sprint("86400.", a.http), a.dir, alloc},
	}
	if len(a.loopDevices()) > 0 {
		started["node with a loop device"] = []string{a.mark}
	}
	for what, all := range started {
		for _, one := range all {
			fmt.Printf("started: %s: %s\n", what, one)
		}
	}
	switch end {
	case "fails":
		a.kill()
		for _, pid := range processesOf(a.data("drivers", "raw_exec")) {
			_ = syscall.Kill(pid, syscall.SIGKILL) // now only its cgroup tells whose process the hidden one is
		}
		t.Fatal("on purpose")
	case "panics":
		go panic("on purpose")
	case "is killed":
		_ = syscall.Kill(os.Getpid(), syscall.SIGKILL)
	}
	select {}
}

// victimCommand is a command that runs a victim. The victim cannot remove its own t.TempDir if it is killed.
func victimCommand(t *testing.T, end string) *exec.Cmd {
	t.Helper()
	cmd := exec.Command(os.Args[0], "victim", end)
	cmd.Env = append(os.Environ(), binaryVar+"="+binary, "TMPDIR="+t.TempDir())
	return cmd
}

// A test that fails, a panic beside a test and the sudden end of all tests leave nothing behind.
func TestHarness_EndsAllThatATestStarted(t *testing.T) {
	t.Parallel()
	for _, end := range []string{"fails", "panics", "is killed"} {
		t.Run(end, func(t *testing.T) {
			t.Parallel()
			cmd := victimCommand(t, end)
			out, err := cmd.CombinedOutput() // until the guard has ended, too
			if err == nil {
				t.Errorf("the victim has succeeded:\n%s", out)
			}
			kinds := checkNothingLeft(t, string(out))
			for _, kind := range []string{"path", "mount", "program", "node with a loop device"} {
				if kinds[kind] == 0 {
					t.Errorf("the victim has started no %s:\n%s", kind, out)
				}
			}
			if guardActs := bytes.Contains(out, []byte("ended without emptying")); guardActs != (end != "fails") {
				t.Errorf("the guard acts: %t\n%s", guardActs, out)
			}
		})
	}
}

// A guard ends what is left also if nobody reads its messages, because the reader has ended with the tests.
func TestHarness_GuardNeedsNoReader(t *testing.T) {
	t.Parallel()
	reader, writer, err := os.Pipe()
	if err != nil {
		t.Fatal(err)
	}
	_ = reader.Close()
	cmd := victimCommand(t, "is killed")
	cmd.Stderr = writer
	out, err := cmd.Output()
	_ = writer.Close()
	_, dir, found := strings.Cut(string(out), "started: path: /tmp/")
	if err == nil || !found {
		t.Fatalf("the victim: %v\n%s", err, out)
	}
	dir, _, _ = strings.Cut("/tmp/"+dir, "\n")
	eventually(t, "the guard has ended all", func() error { // it removes the directory at last
		if _, err := os.Stat(dir); !os.IsNotExist(err) {
			return fmt.Errorf("%s is there: %v", dir, err)
		}
		return nil
	})
	checkNothingLeft(t, string(out))
}

// checkNothingLeft checks that nothing is there that a victim has started, by its output. It counts what it
// has started.
func checkNothingLeft(t *testing.T, output string) map[string]int {
	t.Helper()
	counts := map[string]int{}
	for line := range strings.Lines(output) {
		words := strings.Split(strings.TrimSpace(line), ": ")
		if len(words) != 3 || words[0] != "started" {
			continue
		}
		kind, name := words[1], words[2]
		counts[kind]++
		var left []string
		switch kind {
		case "path":
			left, _ = filepath.Glob(name)
		case "mount":
			left = mountsBelow(name)
		case "node with a loop device":
			l := leftovers{dir: "/none", mark: name}
			left = l.loopDevices()
		case "program":
			for _, pid := range processesOf(name) {
				left = append(left, strconv.Itoa(pid))
			}
		}
		if len(left) > 0 {
			t.Errorf("%s %s: left are %v", kind, name, left)
		}
	}
	return counts
}
