package e2e

import (
	"errors"
	"fmt"
	"os"
	"strconv"
	"strings"
	"sync/atomic"
	"syscall"
	"testing"
	"time"
)

// releaseRunsVar is the environment variable with the number of runs.
const releaseRunsVar = "LEASE_RELEASE_RUNS"

// releasedLine is in the log of the server that leads just before it releases the claims of a lost node.
const releasedLine = "the lease of a lost node has ended, and its guarded claims are released"

// The agent stops in the middle of its work, and the servers release its volume by the time alone. By then
// the node has recorded that no process of the allocation is left and that its volume is unmounted. Each run
// has a cluster of its own.
func TestLease_RecordsTheEndBeforeTheRelease(t *testing.T) {
	t.Parallel()
	runs := 1
	if text := os.Getenv(releaseRunsVar); text != "" {
		n, err := strconv.Atoi(text)
		if err != nil || n < 1 {
			t.Fatalf("%s: %q: expected a number of runs", releaseRunsVar, text)
		}
		runs = n
	}
	var right atomic.Int64
	t.Run("run", func(t *testing.T) {
		for i := range runs {
			t.Run(strconv.Itoa(i), func(t *testing.T) {
				t.Parallel()
				checkRelease(t)
				if !t.Failed() {
					right.Add(1)
				}
			})
		}
	})
	fmt.Printf("%d of %d\n", right.Load(), runs)
}

// checkRelease is one run.
func checkRelease(t *testing.T) {
	s := newAgent(t, "s0", "-server")
	s.args = append(s.args, "-config", s.writeFile("lease.hcl",
		"server {\n  heartbeat_ttl = \"5s\"\n  heartbeat_grace = \"10s\"\n}\n"))
	s.ready = (*agent).hasLeader
	s.start()
	n := newAgent(t, "n0", "-client", "-servers", fmt.Sprintf("127.0.0.1:%d", s.rpc))
	n.start()
	s.must("job", "run", "-detach", example(t, "hostpath.hcl"))
	s.healthyNodes("hostpath", 1)
	s.leaseVolume("lease")
	s.must("job", "run", "-detach", s.writeJob(writerJob("lease", "lease")))
	alloc := s.awaitRunning("lease", 1)[0].ID
	s.awaitOutput(alloc, "line 3")

	n.signal(syscall.SIGSTOP)
	var released time.Time
	eventually(t, "the leader releases the claim", func() (err error) {
		released, err = s.logged(releasedLine)
		return err
	})
	checkRecorded(t, n, alloc, released)

	n.signal(syscall.SIGCONT)
	s.must("job", "stop", "-purge", "lease")
	s.awaitFree("lease")
	s.must("job", "stop", "-purge", "hostpath")
}

// checkRecorded checks that the end of an allocation was on the disk of its node before a time.
func checkRecorded(t *testing.T, n *agent, alloc string, before time.Time) {
	t.Helper()
	e, err := n.endOf(alloc)
	if err != nil || e == nil || e.Empty.IsZero() || !e.Unmounted {
		t.Errorf("at the release, the record of the node is %+v, %v", e, err)
		return
	}
	info, err := os.Stat(n.data("guard", alloc+".ended"))
	if err != nil {
		t.Fatal(err)
	}
	changed := info.Sys().(*syscall.Stat_t).Ctim
	recorded := time.Unix(changed.Unix()) // of the last record, which has the unmounts
	if !recorded.Before(before) {
		t.Errorf("the record is of %s, the release of %s", recorded, before)
	}
	t.Logf("recorded %s before the release", before.Sub(recorded))
}

// logged returns the time of the first line with a text in the log of an agent.
func (a *agent) logged(text string) (time.Time, error) {
	b, err := os.ReadFile(a.log.Name())
	if err != nil {
		return time.Time{}, err
	}
	for line := range strings.Lines(string(b)) {
		if strings.Contains(line, text) {
			at, _, _ := strings.Cut(line, " ")
			return time.Parse("2006-01-02T15:04:05.000Z0700", at)
		}
	}
	return time.Time{}, errors.New("its log does not say so")
}
