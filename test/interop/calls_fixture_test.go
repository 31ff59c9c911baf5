package interop

import (
	"errors"
	"fmt"
	"os"
	"slices"
	"strings"
	"testing"
	"time"

	public "github.com/hashicorp/nomad/api"
)

// callRows has the calls of the public client that are to succeed, by groups. The calls of a later row may
// need what an earlier one has made.
var callRows = [][]callRow{
	readCalls,
	jobCalls,
	childCalls,
	deploymentCalls,
	allocCalls,
	fileCalls,
	volumeCalls,
	definitionCalls,
	variableCalls,
	aclCalls,
	loginCalls,
	quotaCalls,
	operatorCalls,
	serverCalls,
	nodeCalls,
	lastCalls,
}

// callFixture is what the calls are about: an agent with a job that runs, a healthy plugin, and a volume.
type callFixture struct {
	t      *testing.T
	c      *public.Client
	nodeID string
	job    string             // runs and is not changed
	alloc  *public.Allocation // of the job
	plugin string
	// the ID of a dynamic host volume
	hostVolume string
	volume     string

	moving  string           // a job whose versions make deployments
	changes int              // versions of moving
	servers []*serverOfCalls // of another region
	saved   []byte           // a snapshot
	lock    string           // the ID of the lock of a variable
}

func newCallFixture(t *testing.T, c *public.Client) *callFixture {
	t.Helper()
	f := &callFixture{
		t:      t,
		c:      c,
		nodeID: awaitReadyNode(t, c).ID,
		job:    "calls",
	}
	plugin, id := examplePlugin(t, c)
	f.plugin = id
	// The client lists the volumes of a plugin by a prefix of their IDs.
	f.volume = fmt.Sprint(f.plugin, "-calls-", os.Getpid())
	runJob(t, c, plugin)
	job := quickJob(f.job, `printf 'one\ntwo\n' > /local/lines; echo hello; sleep 600`)
	job.TaskGroups[0].Services = []*public.Service{serviceOfCalls}
	f.alloc = runJob(t, c, job)
	f.await("a service whose check passes", func() (bool, error) {
		checks, err := c.Allocations().Checks(f.alloc.ID, nil)
		for _, check := range checks {
			return check.Status == "success", err
		}
		return false, err
	})
	// The node answers about the check, and tells the servers of the instance after it.
	f.await("an instance of the service", func() (bool, error) {
		services, _, err := c.Services().Get("calls", nil)
		return len(services) > 0, err
	})
	f.await("a healthy plugin", func() (bool, error) {
		p, _, err := c.CSIPlugins().Info(f.plugin, nil)
		return err == nil && p.NodesHealthy == 1 && p.ControllersHealthy == 1, err
	})
	return f
}

// serviceOfCalls is a service as a client sends it, with the values that mean nothing.
var serviceOfCalls = &public.Service{
	Name:      "calls",
	PortLabel: "8080",
	Provider:  "nomad",
	Cluster:   "default",
	Tags:      []string{"b", "a"},
	Checks: []public.ServiceCheck{{
		Name:     "true",
		Type:     "script",
		Command:  "/bin/echo",
		Args:     []string{"fine"},
		TaskName: "app",
		Interval: time.Second,
		Timeout:  10 * time.Second,
	}},
}

// checkInstances returns the error of a call, or one for an answer other than the instance of serviceOfCalls.
func (f *callFixture) checkInstances(list []*public.ServiceRegistration, err error) error {
	return check(err, func() bool {
		return len(list) == 1 && list[0].ServiceName == "calls" && list[0].AllocID == f.alloc.ID &&
			list[0].JobID == f.job && list[0].NodeID == f.nodeID && list[0].Port == 8080 &&
			list[0].Address != "" && slices.Equal(list[0].Tags, []string{"b", "a"}) &&
			list[0].CreateIndex > 0 && list[0].ModifyIndex >= list[0].CreateIndex
	}, list)
}

// quickJob returns a job of one line of shell whose allocations are healthy as soon as they run.
func quickJob(id, line string) *public.Job {
	job := shellJob(id, line)
	job.Update = &public.UpdateStrategy{
		HealthCheck:    new("task_states"),
		MinHealthyTime: new(time.Duration(0)),
	}
	return job
}

// await asks until done is true.
func (f *callFixture) await(what string, ask func() (done bool, err error)) {
	f.t.Helper()
	deadline := time.Now().Add(patience)
	for {
		done, err := ask()
		if done {
			return
		}
		if time.Now().After(deadline) {
			f.t.Fatalf("%s: not within %s: %v", what, patience, err)
		}
		time.Sleep(50 * time.Millisecond) // the interval of a poll
	}
}

// check returns the error of a call, or one that shows an answer for which good is false.
func check(err error, good func() bool, answer any) error {
	if err != nil || good() {
		return err
	}
	return fmt.Errorf("it answers %+v", answer)
}

// checkRejected returns an error unless a call has failed with a text.
func checkRejected(err error, text string) error {
	if err == nil || !strings.Contains(err.Error(), text) {
		return fmt.Errorf("not rejected with %q: %w", text, err)
	}
	return nil
}

// checkIndex returns the error of a write, or one for an answer without an index.
func checkIndex(meta *public.WriteMeta, err error) error {
	if err == nil && (meta == nil || meta.LastIndex == 0) {
		err = errors.New("the answer has no index")
	}
	return err
}

// awaitEnd stops a job and waits until none of its allocations runs.
func (f *callFixture) awaitEnd(job string) {
	f.t.Helper()
	f.await(job+" ended", func() (bool, error) {
		allocs, _, err := f.c.Jobs().Allocations(job, true, nil)
		for _, a := range allocs {
			if a.ClientStatus == "running" || a.ClientStatus == "pending" {
				return false, err
			}
		}
		return err == nil, err
	})
}
