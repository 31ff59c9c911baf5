package e2e

import (
	"bytes"
	"fmt"
	"os"
	"os/exec"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"testing"
)

// followEvents runs a command that follows the jobs of a cluster at an agent, and returns the jobs of its
// events so far. The command ends with the test.
func (a *agent) followEvents() (jobs func() []string) {
	a.t.Helper()
	out, err := os.Create(a.dir + "/events")
	if err != nil {
		a.t.Fatal(err)
	}
	cmd := exec.Command(binary, "events", "-f", "-topic", "Job", "-filter", "Type == JobRegistered",
		"-t", "{{.Index}} {{range .Events}}{{.Type}} {{.Key}}{{end}}")
	cmd.Env = append(os.Environ(), "BERTH_ADDR=http://127.0.0.1:"+strconv.Itoa(a.http))
	var faults bytes.Buffer
	cmd.Stdout = out
	cmd.Stderr = &faults
	err = cmd.Start()
	if err != nil {
		a.t.Fatal(err)
	}
	a.t.Cleanup(func() {
		_ = cmd.Process.Signal(syscall.SIGINT)
		err := cmd.Wait()
		if err != nil {
			a.t.Errorf("berth events ends with %v: %s", err, faults.String())
		}
		_ = out.Close()
	})
	return func() (names []string) {
		text, err := os.ReadFile(out.Name())
		if err != nil {
			a.t.Fatal(err)
		}
		for line := range strings.Lines(string(text)) {
			fields := strings.Fields(line)
			names = append(names, fields[len(fields)-1])
		}
		return names
	}
}

// TestEvents_GoOnWhenTheLeaderIsKilled follows the events at an agent without a server while the leader ends.
// A reader sees the registration of each job once, in their order.
func TestEvents_GoOnWhenTheLeaderIsKilled(t *testing.T) {
	t.Parallel()
	c := newCluster(t)
	leader, followers := c.leader()
	seen := c.node.followEvents()
	var want []string
	register := func(name string) {
		t.Helper()
		followers[0].must("job", "run", "-detach", followers[0].writeJob(jobFile{name: name, script: "sleep 1000"}))
		want = append(want, name)
	}
	for n := range 3 {
		register(fmt.Sprint("before", n))
	}
	eventually(t, "the events before", func() error { return sameJobs(seen(), want) })
	leader.kill()
	for n := range 3 {
		register(fmt.Sprint("after", n))
	}
	eventually(t, "the events after", func() error { return sameJobs(seen(), want) })

	leader.start()
	late := leader.followEvents()
	eventually(t, "the events at a server that was away", func() error { return sameJobs(late(), want) })
	for _, name := range want {
		followers[0].must("job", "stop", "-purge", name)
	}
}

func sameJobs(got, want []string) error {
	if !slices.Equal(got, want) {
		return fmt.Errorf("the jobs of the events are %q, want %q", got, want)
	}
	return nil
}
