package e2e

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"net/http"
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

// eventAnswers returns how many requests for events a server has answered itself.
func (a *agent) eventAnswers() (n int) {
	a.t.Helper()
	resp, err := http.Get(fmt.Sprintf("http://127.0.0.1:%d/v1/metrics?format=prometheus", a.http))
	if err != nil {
		a.t.Fatal(err)
	}
	defer func() { _ = resp.Body.Close() }()
	text, err := io.ReadAll(resp.Body)
	if err != nil || resp.StatusCode != http.StatusOK {
		a.t.Fatalf("the metrics: %s, %v", resp.Status, err)
	}
	for line := range strings.Lines(string(text)) {
		name, value, _ := strings.Cut(strings.TrimSpace(line), "} ")
		of := strings.Contains(name, `method="Event.List"`)
		if !of || !strings.HasPrefix(name, "berth_rpc_served_count{") {
			continue
		}
		count, err := strconv.Atoi(value)
		if err != nil {
			a.t.Fatalf("the metric %s: %v", line, err)
		}
		n += count
	}
	return n
}

// readEvents reads the events of a cluster at an agent, and registers jobs at one of the servers.
type readEvents struct {
	*testing.T
	at   *agent
	seen func() []string
	want []string
}

func (r *readEvents) register(name string) {
	r.Helper()
	r.at.must("job", "run", "-detach", r.at.writeJob(jobFile{name: name, script: "sleep 1000"}))
	r.want = append(r.want, name)
}

func (r *readEvents) await(what string, seen func() []string) {
	r.Helper()
	eventually(r, what, func() error { return sameJobs(seen(), r.want) })
}

// fromServer registers jobs until a server answers the reader. Nobody else reads events of the cluster, so
// the next request of the reader waits at that server.
func (r *readEvents) fromServer(s *agent) {
	r.Helper()
	eventually(r, s.name+" answers the reader", func() error {
		before := s.eventAnswers()
		r.register(fmt.Sprint("before", len(r.want)))
		r.await("the events before", r.seen)
		if s.eventAnswers() == before {
			return errors.New("another server answers")
		}
		return nil
	})
}

// TestEvents_GoOnWhenTheLeaderIsKilled follows the events at an agent without a server while the leader ends,
// which serves the reader. A reader sees the registration of each job once, in their order, also of those
// that only the next leader can tell it of: its agent stands still from before them until that one is alone.
func TestEvents_GoOnWhenTheLeaderIsKilled(t *testing.T) {
	t.Parallel()
	c := newCluster(t)
	leader, followers := c.leader()
	r := &readEvents{T: t, at: followers[0], seen: c.node.followEvents()}
	r.fromServer(leader)

	c.node.signal(syscall.SIGSTOP)
	defer c.node.signal(syscall.SIGCONT) // a stopped process cannot end
	// One answer of the leader may be on its way, with the first of these.
	for n := range 4 {
		r.register(fmt.Sprint("unread", n))
	}
	leader.kill()
	for n := range 3 {
		r.register(fmt.Sprint("after", n))
	}
	next, others := c.leader()
	others[0].kill()
	c.node.signal(syscall.SIGCONT)
	r.await("the events at the next leader", r.seen)

	leader.start()
	others[0].start()
	r.await("the events at a server that was away", leader.followEvents())
	r.at = next
	r.register("end")
	r.await("the events after all", r.seen)
	for _, name := range r.want {
		next.must("job", "stop", "-purge", name)
	}
}

func sameJobs(got, want []string) error {
	if !slices.Equal(got, want) {
		return fmt.Errorf("the jobs of the events are %q, want %q", got, want)
	}
	return nil
}
