package e2e

import (
	"fmt"
	"math/rand/v2"
	"os"
	"slices"
	"strings"
	"testing"
	"time"

	"berth/structs"
)

// tasks are the processes that run the tasks of the agent's node.
func (a *agent) tasks() []int { return processesOf(a.data("drivers")) }

func TestStoppingTheAgentStopsNothing(t *testing.T) {
	t.Parallel()
	a := dayOne(t)
	a.must("job", "run", example(t, "counter.hcl"))
	alloc := a.running("counter", 1)[0].ID
	a.goesOn(alloc)
	tasks, mounts := a.tasks(), stagedBelow(a.dir)

	a.stop()
	if now := a.tasks(); !slices.Equal(now, tasks) {
		t.Errorf("without the agent the processes are %v, were %v", now, tasks)
	}
	if now := stagedBelow(a.dir); !slices.Equal(now, mounts) {
		t.Errorf("without the agent the mounts are %v, were %v", now, mounts)
	}
	a.start()
	a.healthyNodes("hostpath", 1)
	if again := a.running("counter", 1)[0]; again.ID != alloc || again.TaskStates["counter"].Restarts != 0 {
		t.Errorf("allocation %s with %d restarts; was %s", again.ID, again.TaskStates["counter"].Restarts, alloc)
	}
	if now := a.tasks(); !slices.Equal(now, tasks) {
		t.Errorf("processes are %v, were %v", now, tasks)
	}
	a.goesOn(alloc)
	end(a, "counter")
}

// settled says what of a job with one allocation on the volume "counter" is not as it is to be: running
// once, with one stage, one publication and one claim, all of the same allocation, or gone with all.
func settled(a *agent, wantRunning bool) error {
	allocs, err := get[[]*structs.AllocListStub](a, "/v1/job/counter/allocations")
	if err != nil && !strings.Contains(err.Error(), "404") {
		return err
	}
	claims, err := a.claims("counter")
	if err != nil {
		return err
	}
	var live []string
	for _, s := range allocs {
		switch {
		case s.DesiredStatus == structs.AllocDesiredRun && s.ClientStatus == structs.AllocRunning:
			live = append(live, s.ID)
		case s.ClientStatus == structs.AllocPending || s.ClientStatus == structs.AllocRunning:
			return fmt.Errorf("allocation %.8s is %s/%s%s", s.ID, s.DesiredStatus, s.ClientStatus, events(s))
		}
	}
	want := 0
	if wantRunning {
		want = 1
	}
	switch {
	case len(live) != want:
		return fmt.Errorf("running: %v", live)
	case len(claims) != want:
		return fmt.Errorf("%d claims", len(claims))
	case want == 1 && claims[0].AllocID != live[0]:
		return fmt.Errorf("the claim is of %.8s, running is %.8s", claims[0].AllocID, live[0])
	case stages(a) != want || publications(a) != want || len(a.loops()) != want:
		return fmt.Errorf("mounts %v, loop devices %v", stagedBelow(a.dir), a.loops())
	}
	return nil
}

// twice says whether more is mounted for the volume than one user can need.
func twice(a *agent) error {
	if stages(a) > 1 || publications(a) > 1 {
		return fmt.Errorf("mounted twice: %v", stagedBelow(a.dir))
	}
	return nil
}

// killWhile starts something, kills the agent at some moment of it and starts the agent again.
func (a *agent) killWhile(rnd *rand.Rand, args ...string) {
	a.t.Helper()
	_, _ = a.run(args...) // detached: it returns as soon as the wish is stored
	after := time.Duration(rnd.IntN(250)) * time.Millisecond
	time.Sleep(after)
	a.kill()
	a.t.Logf("killed %s after %s", after, strings.Join(args, " "))
	if err := twice(a); err != nil {
		a.t.Error(err)
	}
	a.start()
}

func TestKillingTheAgentAtAnyMomentOfAVolumesLife(t *testing.T) {
	t.Parallel()
	seed := uint64(time.Now().UnixNano())
	t.Logf("seed %d", seed)
	rnd := rand.New(rand.NewPCG(seed, 0))
	a := newAgent(t, "one", "-server", "-client")
	a.start()
	a.must("job", "run", quickPlugin(t, a, "64"))
	a.healthyNodes("hostpath", 1)
	a.volume(volumeFile{id: "counter", image: true})
	for range 4 {
		a.killWhile(rnd, "job", "run", "-detach", example(t, "counter.hcl"))
		eventually(t, "it runs once", func() error {
			if err := twice(a); err != nil {
				t.Error(err)
			}
			return settled(a, true)
		})
		a.goesOn(a.running("counter", 1)[0].ID)
		a.killWhile(rnd, "job", "stop", "-purge", "-detach", "counter")
		eventually(t, "it is gone", func() error { return settled(a, false) })
	}
	end(a)
}

func TestAnAgentWithoutItsDataDirectory(t *testing.T) {
	t.Parallel()
	a := newAgent(t, "one", "-server", "-client")
	if err := os.WriteFile(a.data(), nil, 0o600); err != nil {
		t.Fatal(err)
	}
	_, err := a.run(a.args...)
	if exit(err) == 0 || !strings.Contains(err.Error(), a.data()) {
		t.Errorf("a data directory that is a file: %v", err)
	}
}
