package e2e

import (
	"fmt"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"berth/structs"
)

// encodeJob is started by dispatches: its task reads the payload and the meta.
const encodeJob = `
job "encode" {
  type = "batch"
  parameterized {
    payload       = "required"
    meta_required = ["format"]
    meta_optional = ["quality"]
  }
  meta {
    quality = "low"
  }
  group "g" {
    task "t" {
      driver = "exec"
      user   = "nobody"
      config {
        command = "/bin/sh"
        args    = ["-c", "echo $NOMAD_META_format $NOMAD_META_quality; cat /local/in/data"]
      }
      dispatch_payload {
        file = "in/data"
      }
      resources {
        cpu    = 20
        memory = 16
      }
    }
  }
}
`

// dispatchInput dispatches a job with a payload from the standard input, and waits for its end.
func (a *agent) dispatchInput(payload string, args ...string) (string, error) {
	cmd := exec.Command(binary, append([]string{"job", "dispatch"}, append(args, "-")...)...)
	cmd.Env = append(os.Environ(), "BERTH_ADDR=http://127.0.0.1:"+strconv.Itoa(a.http))
	cmd.Stdin = strings.NewReader(payload)
	out, err := cmd.CombinedOutput()
	return string(out), err
}

// children lists the jobs that a job has started.
func (a *agent) children(job string) ([]*structs.JobListStub, error) {
	jobs, err := get[[]*structs.JobListStub](a, "/v1/jobs?prefix="+job+"/")
	slices.SortFunc(jobs, func(x, y *structs.JobListStub) int { return strings.Compare(x.ID, y.ID) })
	return jobs, err
}

// Each dispatch runs with its own payload, from a file or the standard input.
func TestDispatch_GivesTheTaskItsPayload(t *testing.T) {
	t.Parallel()
	a := newAgent(t, "one", "-server", "-client")
	a.start()
	a.must("job", "run", a.writeFile("encode.hcl", encodeJob))
	if jobs, err := a.children("encode"); err != nil || len(jobs) > 0 {
		t.Fatalf("the registration alone has started %v, %v", jobs, err)
	}
	large := strings.Repeat("line of a payload\n", 900) // close to the limit
	a.must("job", "dispatch", "-meta", "format=mp4", "encode", a.writeFile("payload", "from a file\n"))
	out, err := a.dispatchInput(large, "-meta", "format=ogg", "-meta", "quality=high", "encode")
	if err != nil {
		t.Fatalf("%v: %s", err, out)
	}
	jobs, err := a.children("encode")
	if err != nil || len(jobs) != 2 {
		t.Fatalf("the dispatches have started %v, %v", jobs, err)
	}
	want := map[string]bool{"mp4 low\nfrom a file\n": true, "ogg high\n" + large: true}
	for _, j := range jobs {
		out := a.logs(a.awaitComplete(j.ID))
		if !want[out] {
			t.Errorf("job %s says %.100q", j.ID, out)
		}
		delete(want, out)
	}
	for _, c := range []struct{ payload, key, says string }{
		{strings.Repeat("x", 16<<10+1), "format", "at most 16384"},
		{"x", "quality", `requires a value for "format"`},
		{"", "format", "payload"},
	} {
		out, err := a.dispatchInput(c.payload, "-meta", c.key+"=x", "encode")
		if exitCode(err) != 2 || !strings.Contains(out, c.says) {
			t.Errorf("%d bytes with a value for %s: %v, %s", len(c.payload), c.key, err, out)
		}
	}
	if jobs, err := a.children("encode"); err != nil || len(jobs) != 2 {
		t.Errorf("rejected dispatches have left %v, %v", jobs, err)
	}
}

// awaitComplete waits until the only allocation of a job is complete, and returns its ID.
func (a *agent) awaitComplete(job string) (alloc string) {
	a.t.Helper()
	eventually(a.t, "job "+job+" is complete", func() error {
		allocs, err := get[[]*structs.AllocListStub](a, "/v1/job/"+url.PathEscape(job)+"/allocations")
		if err != nil {
			return err
		}
		if len(allocs) != 1 || allocs[0].ClientStatus != structs.AllocComplete {
			return fmt.Errorf("it has %d allocations: %+v", len(allocs), allocs)
		}
		alloc = allocs[0].ID
		return nil
	})
	return alloc
}

// periodicJob starts a child every second, which writes its name to a file of the host.
const periodicJob = `
job "clock" {
  type = "batch"
  periodic {
    crons     = ["* * * * * * *"]
    time_zone = "Europe/Berlin"
  }
  group "g" {
    task "t" {
      driver = "raw_exec"
      config {
        command = "/bin/sh"
        args    = ["-c", "echo $NOMAD_JOB_ID >> %s"]
      }
      resources {
        cpu    = 5
        memory = 10
      }
    }
  }
}
`

// awaitChildren waits until a job has started n children, and returns the seconds of all.
func (a *agent) awaitChildren(job string, n int) (seconds []int64) {
	a.t.Helper()
	eventually(a.t, fmt.Sprintf("job %s has started %d children", job, n), func() error {
		jobs, err := a.children(job)
		if err != nil {
			return err
		}
		seconds = nil
		for _, j := range jobs {
			_, text, _ := strings.Cut(j.ID, "/periodic-")
			at, err := strconv.ParseInt(text, 10, 64)
			if err != nil {
				return err
			}
			seconds = append(seconds, at)
		}
		if len(jobs) < n {
			return fmt.Errorf("%d children", len(jobs))
		}
		return nil
	})
	return seconds
}

// The leader of a cluster with a periodic job is killed. The next one starts the children of the times
// between, and each child runs once.
func TestPeriodic_LosesAndDoublesNothingOverALeaderChange(t *testing.T) {
	t.Parallel()
	c := newServers(t)
	c.addNode().allowRaw().start()
	leader, followers := c.leader()
	s := followers[0]
	ran := filepath.Join(s.dir, "ran")
	s.mustEventually("job", "run", s.writeFile("clock.hcl", fmt.Sprintf(periodicJob, ran)))
	before := s.awaitChildren("clock", 2)
	leader.kill()
	seconds := s.awaitChildren("clock", len(before)+6)
	s.mustEventually("job", "stop", "clock") // no child follows
	seconds = s.awaitChildren("clock", len(seconds))
	for i := range len(seconds) - 1 {
		gap := time.Duration(seconds[i+1]-seconds[i]) * time.Second
		if gap != time.Second && gap <= 10*time.Second { // one launch makes up for those that are later
			t.Errorf("the children are %v: after %d the next one comes after %s", seconds, seconds[i], gap)
		}
	}
	eventually(t, "each child has run", func() error {
		text, err := os.ReadFile(ran)
		if err != nil {
			return err
		}
		lines := strings.Fields(string(text))
		for _, at := range seconds {
			id := fmt.Sprintf("clock/periodic-%d", at)
			n := 0
			for _, line := range lines {
				if line == id {
					n++
				}
			}
			if n > 1 {
				t.Errorf("%s has run %d times", id, n)
			}
			if n == 0 {
				return fmt.Errorf("%s has not run, but %v", id, lines)
			}
		}
		if len(lines) != len(seconds) {
			return fmt.Errorf("%d runs of %d children", len(lines), len(seconds))
		}
		return nil
	})
}
