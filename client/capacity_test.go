package client

import (
	"fmt"
	"runtime"
	"slices"
	"strings"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"berth/client/allocrunner/lifecycle"
	"berth/client/handover"
	"berth/client/hooks"
	"berth/structs"
)

func withCPU(id string, cpu int) *structs.Allocation {
	a := testAlloc(id)
	a.Resources = &structs.Resources{CPU: cpu, MemoryMB: 10}
	return a
}

// lost is an allocation for which the servers expect no end. Those that stopped before have another status
// here.
func lost(a *structs.Allocation, clientStatus string) *structs.Allocation {
	c := a.Copy()
	c.DesiredStatus = structs.AllocDesiredStop
	c.ClientStatus = clientStatus
	return c
}

// startWithCapacity starts a node with a cpu of 1000, whose allocations have the hook for their capacity. The
// tasks of each allocation among stuck end only when its channel is closed.
func (r *fixture) startWithCapacity(stuck map[string]chan struct{}) {
	r.t.Helper()
	r.edit = func(c *Config) { c.CPUTotalCompute = 1000 }
	r.machine.Before = func(point string) error {
		id, stops := strings.CutPrefix(strings.TrimSuffix(point, "/web"), "stop ")
		if stops && stuck[id] != nil {
			<-stuck[id]
		}
		return nil
	}
	r.prepare(false)
	r.parts.hooks = func(*hooks.AllocEnv) []hooks.Alloc {
		return []hooks.Alloc{handover.Capacity(
			func(a *structs.Allocation) string { return r.client.work.holds.CapacityHolder(a) },
			func(id, reason string) { r.client.work.allocs.setProgress(id, reason) },
		)}
	}
	r.run()
}

func (r *fixture) checkRunning(want ...string) {
	r.t.Helper()
	var got []string
	for _, task := range r.machine.Running() {
		got = append(got, strings.TrimSuffix(task, "/web"))
	}
	if !slices.Equal(got, want) {
		r.t.Errorf("%v run, want %v", got, want)
	}
}

// A node that was down comes back. For the servers the capacity of its lost allocations is free, but these
// still have their kill_timeout: an allocation that is placed there meanwhile waits, unless it fits beside.
func TestCapacity_IsThatOfLostAllocationsUntilTheirEnd(t *testing.T) {
	for _, status := range []string{structs.AllocLost, structs.AllocRunning} {
		inVirtualTime(t, func(t *testing.T) {
			r := newFixture(t)
			stuck := map[string]chan struct{}{"old": make(chan struct{})}
			r.startWithCapacity(stuck)
			defer func() { r.stop() }()
			old := withCPU("old", 600)
			r.servers.place(old)
			r.pass(time.Second)
			r.servers.place(lost(old, status), withCPU("fits", 100), withCPU("large", 500))
			r.pass(time.Minute)
			r.checkRunning("fits", "old")
			u := r.client.work.allocs.get("large").ClientState()
			if want := "waits for allocation old, which still holds its CPU and memory"; u.ClientDescription != want {
				t.Errorf("large is %s: %s", u.ClientStatus, u.ClientDescription)
			}
			close(stuck["old"])
			r.pass(time.Minute)
			r.checkRunning("fits", "large")
			r.servers.remove("old", "fits", "large")
			r.pass(time.Minute)
			if n := r.client.work.holds.Len(); n > 0 {
				t.Errorf("the node remembers %d allocations that it no longer has", n)
			}
		})
	}
}

// Two allocations of a full node are replaced at once, and one of them does not end. The other one's
// successor has its capacity.
func TestCapacity_OfOneEndIsFree(t *testing.T) {
	inVirtualTime(t, func(t *testing.T) {
		r := newFixture(t)
		stuck := map[string]chan struct{}{"b": make(chan struct{})}
		r.startWithCapacity(stuck)
		defer func() { r.stop() }()
		a := withCPU("a", 600)
		b := withCPU("b", 400)
		r.servers.place(a, b)
		r.pass(time.Second)
		r.servers.place(lost(a, structs.AllocRunning), lost(b, structs.AllocRunning))
		r.pass(time.Second)
		r.servers.place(withCPU("next-a", 600))
		r.pass(time.Second)
		r.servers.place(withCPU("next-b", 400))
		r.pass(time.Minute)
		r.checkRunning("b", "next-a")
		close(stuck["b"])
		r.pass(time.Minute)
		r.checkRunning("next-a", "next-b")
	})
}

// More allocations come than one call fetches. Those that are here come first, because they make way.
func TestCapacity_IsKnownBeforeOthersCome(t *testing.T) {
	inVirtualTime(t, func(t *testing.T) {
		r := newFixture(t)
		r.startWithCapacity(nil)
		defer func() { r.stop() }()
		old := withCPU("old", 1000)
		r.servers.place(old)
		r.pass(time.Second)
		all := []*structs.Allocation{lost(old, structs.AllocLost)}
		for i := range fetchBatch {
			all = append(all, withCPU(fmt.Sprintf("b%02d", i), 1))
		}
		fetches := 0
		r.servers.do(func() {
			r.servers.fail = func(_, method string) error {
				if method == structs.AllocsGet.Name {
					fetches++
				}
				if fetches == 2 {
					return structs.NotServedf("no leader")
				}
				return nil
			}
		})
		r.servers.place(all...)
		r.pass(time.Minute)
		log := r.machine.Log()
		first := slices.IndexFunc(log, func(call string) bool { return strings.HasPrefix(call, "start b") })
		if ended := slices.Index(log, "stop old/web"); fetches < 3 || ended < 0 || first < ended {
			t.Errorf("%d fetches; another one started at %d, the lost one ended at %d", fetches, first, ended)
		}
	})
}

// The removal of an allocation and a look for capacity take the same two locks. The agent would hang if each
// waited for the lock of the other.
func TestCapacity_IsForgottenWithoutTheLockOfTheRunners(t *testing.T) {
	inVirtualTime(t, func(t *testing.T) {
		r := newFixture(t)
		r.startWithCapacity(nil)
		defer func() { r.stop() }()
		r.servers.place(withCPU("old", 600))
		r.pass(time.Second)
		old := r.client.work.allocs.get("old")
		r.client.work.allocs.mu.Lock()
		old.Destroy() // the end of its removal waits for this lock
		for !isClosed(old.Reached(lifecycle.Ended)) {
			runtime.Gosched()
		}
		settle()
		looked := make(chan struct{})
		go func() {
			defer close(looked)
			r.client.work.holds.CapacityHolder(withCPU("next", 600))
		}()
		settle()
		r.client.work.allocs.mu.Unlock()
		for began := realTime(); !isClosed(looked); runtime.Gosched() {
			if realTime()-began > time.Minute {
				fatal := "the removal of an allocation and a look for capacity wait for each other"
				go panic(fatal) // of another goroutine: the deferred stop would wait, too
				select {}
			}
		}
	})
}

// realTime returns a time of the machine, also where the time of the test is virtual: that does not pass
// while a goroutine waits for a lock.
func realTime() time.Duration {
	var now unix.Timespec
	err := unix.ClockGettime(unix.CLOCK_MONOTONIC, &now)
	if err != nil {
		panic(err)
	}
	return time.Duration(now.Nano())
}

// settle lets the other goroutines run until they wait, also for a lock: synctest.Wait does not end then.
func settle() {
	for range 10_000 {
		runtime.Gosched()
	}
}
