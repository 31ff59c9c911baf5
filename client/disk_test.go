package client

import (
	"context"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/hashicorp/go-hclog"

	"berth/client/drivers/driver"
	"berth/client/hooks"
	"berth/client/hooks/disk"
	"berth/structs"
	"berth/structs/nodecalls"
)

// gate is a hook that waits.
type gate chan struct{}

func (gate) Name() string { return "gate" }
func (g gate) Up(ctx context.Context, _ *hooks.AllocEnv) error {
	select {
	case <-g:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}
func (gate) Down(context.Context) error { return nil }

func stickyAlloc(id, previous string) *structs.Allocation {
	a := testAlloc(id)
	a.Job.Type = structs.JobBatch
	a.PreviousAllocation = previous
	a.Job.TaskGroups[0].EphemeralDisk = &structs.EphemeralDisk{SizeMB: 1, Sticky: true}
	return a
}

// The node keeps the directory of an ended allocation until its successor has taken over the data.
func TestCollectEnded_KeepsDataForTheSuccessor(t *testing.T) {
	inVirtualTime(t, func(t *testing.T) {
		r := newFixture(t)
		r.edit = func(c *Config) { c.GCMaxAllocs = 0 }
		r.prepare(false)
		wait := gate(make(chan struct{}))
		r.parts.hooks = func(env *hooks.AllocEnv) []hooks.Alloc {
			h := disk.New(env, disk.Config{
				Logger:   hclog.NewNullLogger(),
				Complete: r.client.contacted,
				Local:    r.client.work.allocs.local,
				Progress: r.client.work.allocs.setProgress,
				Report:   r.client.work.allocs.report,
			})
			if h == nil {
				return nil
			}
			return []hooks.Alloc{wait, h}
		}
		r.run()
		defer r.stop()
		r.servers.place(stickyAlloc("a", ""))
		r.pass(time.Second)
		dir := func(id string) string { return filepath.Join(r.dir, "alloc", id) }
		if err := os.WriteFile(filepath.Join(dir("a"), "alloc/data/x"), []byte("kept"), 0o600); err != nil {
			t.Fatal(err)
		}
		r.servers.place(stickyAlloc("b", "a"), stickyAlloc("other", ""))
		r.pass(time.Second)
		r.machine.Exit("other/web", driver.ExitResult{})
		r.machine.Exit("a/web", driver.ExitResult{})
		r.pass(10 * time.Second)
		if isDir(dir("other")) || !isDir(dir("a")) {
			t.Fatalf("before the successor: other is there %v, a is there %v", isDir(dir("other")), isDir(dir("a")))
		}
		if err := r.client.CollectAlloc(t.Context(), "a"); !structs.IsKind(err, structs.KindConflict) {
			t.Errorf("a user removed the data: %v", err)
		}
		close(wait)
		r.pass(time.Second)
		text, err := os.ReadFile(filepath.Join(dir("b"), "alloc/data/x"))
		if string(text) != "kept" || err != nil {
			t.Fatalf("the successor has %q, %v", text, err)
		}
		r.pass(10 * time.Second)
		if isDir(dir("a")) {
			t.Error("the directory is kept after the successor has its data")
		}
	})
}

func TestReport_IsAnEventOfEachTask(t *testing.T) {
	inVirtualTime(t, func(t *testing.T) {
		r := newFixture(t)
		r.start(false)
		defer r.stop()
		r.servers.place(testAlloc("a"))
		r.pass(time.Second)
		r.client.work.allocs.report("a", "100% of it")
		r.client.work.allocs.report("missing", "x")
		events := r.client.Allocs()["a"].TaskStates["web"].Events
		last := events[len(events)-1]
		if last.Type != structs.TaskEventHookMessage || !strings.Contains(last.Message, "100% of it") {
			t.Errorf("the last event is %+v", last)
		}
	})
}

// Data for another node is kept as long as the servers say so or do not answer, however far the clock of the
// node is ahead. They know the node's bound.
func TestCollectEnded_KeepsDataForAnotherNode(t *testing.T) {
	const keep = time.Hour
	dirs := func(r *fixture) (ids string) {
		for _, id := range []string{"a", "plain"} {
			if isDir(filepath.Join(r.dir, "alloc", id)) {
				ids += id + " "
			}
		}
		return ids
	}
	// next ends an allocation, after which the node collects others.
	next := func(r *fixture, id string) {
		a := testAlloc(id)
		a.Job.Type = structs.JobBatch
		r.servers.place(a)
		r.pass(time.Second)
		r.machine.Exit(id+"/web", driver.ExitResult{})
		r.pass(10 * time.Second)
	}
	for name, c := range map[string]struct {
		waits    map[string]string
		fails    bool
		conflict string
	}{
		"until the replacement has it": {
			map[string]string{"a": "b"}, false,
			"allocation b, on another node, has still to take over the data of allocation a; this node keeps it " +
				"for 1h0m0s after its end",
		},
		"until the replacement has a place": {
			map[string]string{"a": ""}, false,
			"its replacement, which has no place yet, has still to take over the data of allocation a",
		},
		"while the servers do not answer": {
			nil, true, "asking whether the data of allocation a is needed: ",
		},
	} {
		t.Run(name, func(t *testing.T) {
			inVirtualTime(t, func(t *testing.T) {
				r := newFixture(t)
				r.edit = func(cfg *Config) {
					cfg.GCMaxAllocs = 0
					cfg.MovedData.Keep = keep
				}
				r.start(false)
				defer r.stop()
				r.servers.setWaits(c.waits)
				fails := c.fails
				r.servers.do(func() {
					r.servers.fail = func(_, method string) error {
						if fails && method == nodecalls.AllocDataWaits.Name {
							return structs.Invalidf("there is no such method")
						}
						return nil
					}
				})
				plain := testAlloc("plain")
				plain.Job.Type = structs.JobBatch
				r.servers.place(stickyAlloc("a", ""), plain)
				r.pass(time.Second)
				r.machine.Exit("a/web", driver.ExitResult{})
				r.machine.Exit("plain/web", driver.ExitResult{})
				r.pass(10 * time.Second)
				if got := dirs(r); got != "a " {
					t.Fatalf("it keeps %q", got)
				}
				err := r.client.CollectAlloc(t.Context(), "a")
				if err == nil || !strings.HasPrefix(err.Error(), c.conflict) ||
					!c.fails && !structs.IsKind(err, structs.KindConflict) {
					t.Errorf("a user removed the data: %v", err)
				}
				r.pass(2 * keep) // by the clock of the node
				next(r, "later")
				if got := dirs(r); got != "a " {
					t.Errorf("its clock is ahead, and it keeps %q", got)
				}

				// The replacement has it, or the bound is over for the servers.
				r.servers.setWaits(nil)
				r.servers.do(func() { fails = false })
				next(r, "last")
				if got := dirs(r); got != "" {
					t.Errorf("in the end it keeps %q", got)
				}
				r.servers.do(func() {
					if got := r.servers.keep; got != keep {
						t.Errorf("the servers were told the bound %s", got)
					}
				})
			})
		})
	}
}

// A node with few ended allocations asks the servers nothing.
func TestCollectEnded_AsksOnlyForSurplus(t *testing.T) {
	inVirtualTime(t, func(t *testing.T) {
		r := newFixture(t)
		r.edit = func(cfg *Config) { cfg.GCMaxAllocs = 1 }
		r.start(false)
		defer r.stop()
		r.servers.place(stickyAlloc("a", ""))
		r.pass(time.Second)
		r.machine.Exit("a/web", driver.ExitResult{})
		r.pass(10 * time.Second)
		if n := len(r.servers.called(nodecalls.AllocDataWaits.Name)); n > 0 {
			t.Errorf("%d calls", n)
		}
	})
}

func (p *fakeServers) setWaits(waits map[string]string) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.waits = waits
}

// An agent that has lost its records knows its allocations when the servers have sent all of them. Until then
// it does not tell a successor on another node that the data is gone.
func TestMovedData_IsNotGivenUpBeforeTheServersAnswer(t *testing.T) {
	inVirtualTime(t, func(t *testing.T) {
		r := newFixture(t)
		r.prepare(false)
		r.run()
		defer func() { r.stop() }()
		old := stickyAlloc("a", "")
		old.NodeID = r.client.NodeID()
		r.servers.place(old)
		r.pass(time.Second)

		r.stop()
		if err := os.Remove(filepath.Join(r.dir, "client", "client.db")); err != nil {
			t.Fatal(err)
		}
		failing := true
		r.servers.do(func() {
			r.servers.fail = func(_, method string) error {
				if failing && method == structs.AllocsGet.Name {
					return structs.NotServedf("no leader")
				}
				return nil
			}
		})
		r.start(false)
		r.pass(time.Minute)
		p := r.client.parts(t.Context())
		config := disk.Config{
			NodeID:   p.NodeID,
			SecretID: p.SecretID,
			Complete: p.Contacted,
			Local:    p.LocalAlloc,
			Settings: p.MovedData,
		}
		_, err := disk.Endpoint(config).Serve(t.Context(), &nodecalls.AllocDataRequest{AllocID: "a"})
		if !structs.IsKind(err, structs.KindUnavailable) {
			t.Errorf("before the servers have answered: %v", err)
		}
		r.servers.do(func() { failing = false })
		r.pass(time.Minute)
		if !isClosed(config.Complete) {
			t.Error("the servers have answered, and the allocations are not complete")
		}
	})
}
