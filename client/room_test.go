package client

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"berth/client/hook"
	"berth/client/roomhook"
	"berth/structs"
)

func withRoom(id string, index uint64, cpu int) *structs.Allocation {
	a := testAlloc(id)
	a.CreateIndex = index
	a.Resources = &structs.Resources{CPU: cpu, MemoryMB: 10}
	return a
}

// roomHooks gives each allocation the hook for its room.
func (r *fixture) roomHooks() {
	r.parts.hooks = func(*hook.AllocEnv) []hook.Alloc {
		return []hook.Alloc{roomhook.New(
			func(a *structs.Allocation) string { return r.client.roomHolder(a) },
			func(id, reason string) { r.client.setProgress(id, reason) },
		)}
	}
}

func lostWithItsNode(a *structs.Allocation) *structs.Allocation {
	lost := a.Copy()
	lost.DesiredStatus = structs.AllocDesiredStop
	lost.ClientStatus = structs.AllocLost
	return lost
}

// A node that was down comes back. For the servers the room of what it ran is free, but that has still its
// kill_timeout: what is placed there meanwhile waits, unless it fits beside.
func TestRoom_IsThatOfLostAllocationsUntilTheirEnd(t *testing.T) {
	inVirtualTime(t, func(t *testing.T) {
		r := newFixture(t)
		r.edit = func(c *Config) { c.CPUTotalCompute = 1000 }
		r.prepare(false)
		r.roomHooks()
		r.run()
		defer func() { r.stop() }()
		killed := make(chan struct{})
		r.machine.Before = func(point string) error {
			if point == "stop lost/web" {
				<-killed
			}
			return nil
		}
		lost := withRoom("lost", 5, 600)
		r.servers.place(lost)
		r.pass(time.Second)
		r.servers.place(lostWithItsNode(lost), withRoom("fits", 7, 100), withRoom("large", 8, 500))
		r.pass(time.Minute)
		if got := r.machine.Running(); !slices.Equal(got, []string{"fits/web", "lost/web"}) {
			t.Errorf("%v run", got)
		}
		u := r.client.runner("large").ClientState()
		if want := "allocation lost still has the room of it"; u.ClientDescription != want {
			t.Errorf("large is %s: %s", u.ClientStatus, u.ClientDescription)
		}
		for _, c := range []struct {
			alloc *structs.Allocation
			want  string
		}{
			{withRoom("m", 8, 300), "lost"}, // large comes first
			{withRoom("a", 8, 300), ""},
			{withRoom("a", 8, 301), "lost"},
			{testAlloc("a"), ""},
		} {
			if got := r.client.roomHolder(c.alloc); got != c.want {
				t.Errorf("%s with %+v waits for %q, want %q", c.alloc.ID, c.alloc.Resources, got, c.want)
			}
		}
		close(killed)
		r.pass(time.Minute)
		if got := r.machine.Running(); !slices.Equal(got, []string{"fits/web", "large/web"}) {
			t.Errorf("in the end %v run", got)
		}
	})
}

// More allocations come than one call fetches. Those that are here come first, because they make way.
func TestRoom_IsKnownBeforeOthersCome(t *testing.T) {
	inVirtualTime(t, func(t *testing.T) {
		r := newFixture(t)
		r.edit = func(c *Config) { c.CPUTotalCompute = 1000 }
		r.prepare(false)
		r.roomHooks()
		r.run()
		defer func() { r.stop() }()
		lost := withRoom("lost", 5, 1000)
		r.servers.place(lost)
		r.pass(time.Second)
		all := []*structs.Allocation{lostWithItsNode(lost)}
		for i := range fetchBatch {
			all = append(all, withRoom(fmt.Sprintf("b%02d", i), 7, 1))
		}
		fetches := 0
		r.servers.do(func() {
			r.servers.fail = func(_, method string) error {
				if method == structs.AllocsGet.Name {
					fetches++
				}
				if fetches == 2 {
					return structs.Unavailablef("no leader")
				}
				return nil
			}
		})
		r.servers.place(all...)
		r.pass(time.Minute)
		log := r.machine.Log()
		first := slices.IndexFunc(log, func(call string) bool { return strings.HasPrefix(call, "start b") })
		if ended := slices.Index(log, "stop lost/web"); fetches < 3 || ended < 0 || first < ended {
			t.Errorf("%d fetches; another one started at %d, the lost one ended at %d", fetches, first, ended)
		}
	})
}
