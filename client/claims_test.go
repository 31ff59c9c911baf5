package client

import (
	"slices"
	"strings"
	"testing"
	"time"

	"berth/client/store"
	"berth/structs"
)

func claimOf(alloc string, grant uint64) *structs.CSIClaim {
	return &structs.CSIClaim{
		Namespace:  "default",
		VolumeID:   "data",
		AllocID:    alloc,
		State:      structs.ClaimGranted,
		GrantIndex: grant,
	}
}

// startHolding runs allocations that hold the volume here, with claims at the servers.
func startHolding(r *fixture, allocs ...string) {
	r.holds = map[structs.CSIClaimKey]uint64{}
	r.start(false)
	for _, id := range allocs {
		c := claimOf(id, 7)
		r.servers.do(func() { r.servers.claims[c.Key()] = c })
		r.servers.place(testAlloc(id))
		r.pass(time.Second)
		r.parts.mu.Lock()
		r.holds[c.Key()] = 7
		r.parts.mu.Unlock()
	}
}

func (r *fixture) lost(id string) bool {
	r.servers.mu.Lock()
	defer r.servers.mu.Unlock()
	a := r.servers.allocs[id]
	return a.ClientStatus == structs.AllocFailed && strings.Contains(a.ClientDescription, "taken from this node")
}

// The node is partitioned, an operator releases a volume of it by force, and the node returns: nothing
// continues without a claim.
func TestClaimCheck_ReleasesVolumesWithoutAClaim(t *testing.T) {
	for name, take := range map[string]func(p *fakeServers){
		"released": func(p *fakeServers) {
			delete(p.claims, claimOf("a1", 0).Key())
		},
		"granted anew": func(p *fakeServers) {
			p.claims[claimOf("a1", 0).Key()] = claimOf("a1", 9)
		},
		"waits again": func(p *fakeServers) {
			c := claimOf("a1", 0)
			c.State = structs.ClaimWaiting
			p.claims[c.Key()] = c
		},
	} {
		t.Run(name, func(t *testing.T) {
			inVirtualTime(t, func(t *testing.T) {
				r := newFixture(t)
				startHolding(r, "a1", "a2")
				defer r.stop()
				r.servers.do(func() {
					r.servers.fail = func(string, string) error {
						return structs.NotServedf("no route")
					}
				})
				r.pass(5 * time.Minute)
				r.servers.do(func() { r.servers.fail = nil; take(r.servers) })
				r.pass(30 * time.Second)
				got := r.machine.Running()
				if !slices.Equal(got, []string{"a2/web"}) || !r.lost("a1") {
					t.Errorf("running %v, a1 is %s", got, r.servers.status("a1"))
				}
			})
		})
	}
}

// A record with the grant 0 does not tell it.
func TestClaimCheck_OfARecordWithoutItsGrant(t *testing.T) {
	inVirtualTime(t, func(t *testing.T) {
		r := newFixture(t)
		startHolding(r, "a1", "a2")
		defer r.stop()
		r.parts.mu.Lock()
		for _, id := range []string{"a1", "a2"} {
			r.holds[claimOf(id, 0).Key()] = 0
		}
		r.parts.mu.Unlock()
		waits := claimOf("a1", 0)
		waits.State = structs.ClaimWaiting
		r.servers.do(func() { r.servers.claims[waits.Key()] = waits })
		r.pass(claimCheckInterval)
		r.servers.place(testAlloc("b1")) // any change
		r.pass(time.Second)
		want := []string{"a2/web", "b1/web"}
		if got := r.machine.Running(); !slices.Equal(got, want) || !r.lost("a1") {
			t.Errorf("running %v, want %v", got, want)
		}
	})
}

// The allocation releases its volume, or claims it again, while the node reads the claims.
func TestClaimCheck_LeavesWhatChangesMeanwhile(t *testing.T) {
	k := claimOf("a1", 0).Key()
	for name, change := range map[string]func(r *fixture){
		"released": func(r *fixture) {
			delete(r.servers.claims, k)
			delete(r.holds, k)
		},
		"claimed again": func(r *fixture) {
			r.servers.claims[k] = claimOf("a1", 9)
			r.holds[k] = 9
		},
	} {
		t.Run(name, func(t *testing.T) {
			inVirtualTime(t, func(t *testing.T) {
				r := newFixture(t)
				startHolding(r, "a1")
				defer r.stop()
				r.pass(claimCheckInterval)
				checks := len(r.servers.called(structs.CSIClaimList.Name))
				r.servers.do(func() {
					r.servers.fail = func(_, method string) error {
						if method == structs.CSIClaimList.Name {
							r.parts.mu.Lock()
							defer r.parts.mu.Unlock()
							change(r)
						}
						return nil
					}
				})
				r.servers.place(testAlloc("b1")) // any change
				r.pass(time.Second)
				if len(r.servers.called(structs.CSIClaimList.Name)) == checks || r.lost("a1") {
					t.Error("there was no check, or the allocation was ended by it")
				}
			})
		})
	}
}

// A starting agent checks the claims before it starts stopped tasks.
func TestClaimCheck_StartsNothingWithoutItsClaim(t *testing.T) {
	inVirtualTime(t, func(t *testing.T) {
		r := newFixture(t)
		startHolding(r, "a1", "a2")
		r.stop()
		r.machine.Reboot()
		delete(r.servers.claims, claimOf("a1", 0).Key())
		r.start(false)
		defer r.stop()
		r.pass(time.Minute)
		got := r.machine.Running()
		if !slices.Equal(got, []string{"a2/web"}) || !r.lost("a1") {
			t.Errorf("running %v, a1 is %s", got, r.servers.status("a1"))
		}
		if n := r.machine.Task("a1/web").Starts; n != 0 {
			t.Errorf("a1 was started %d times", n)
		}
	})
}

// The servers return to an older state without the claim: they send the allocations again.
func TestClaimCheck_AfterARestoreOfTheServers(t *testing.T) {
	inVirtualTime(t, func(t *testing.T) {
		r := newFixture(t)
		startHolding(r, "a1")
		defer r.stop()
		r.pass(claimCheckInterval)
		r.servers.do(func() { clear(r.servers.claims) })
		r.servers.place(testAlloc("b1")) // any change
		r.pass(time.Second)
		if got := r.machine.Running(); !slices.Equal(got, []string{"b1/web"}) {
			t.Errorf("running %v", got)
		}
	})
}

// The records of an allocation are damaged. The agent finds its running parts all the same, and ends them if
// the servers have deleted it.
func TestLostRecord_AllocationIsFoundAgain(t *testing.T) {
	for name, c := range map[string]struct {
		bucket string
		status string
		want   []string
	}{
		"a task's, and it is wanted":            {"alloc_tasks", structs.AllocRunning, []string{"a1/web"}},
		"its own, and it is wanted":             {"allocs", structs.AllocRunning, []string{"a1/web"}},
		"a task's, and it was given up":         {"alloc_tasks", structs.AllocLost, nil},
		"its own, and it was given up for lost": {"allocs", structs.AllocLost, nil},
	} {
		t.Run(name, func(t *testing.T) {
			inVirtualTime(t, func(t *testing.T) {
				r := newFixture(t)
				startHolding(r, "a1")
				r.stop()
				r.damage(c.bucket)
				r.servers.do(func() {
					r.servers.allocs["a1"].ClientStatus = c.status
				})
				if c.status == structs.AllocLost {
					r.servers.stopAlloc("a1")
				}
				r.start(false)
				defer r.stop()
				r.pass(time.Minute)
				got := r.machine.Running()
				if !slices.Equal(got, c.want) || r.machine.Task("a1/web").Starts != 1 {
					t.Errorf("running %v, started %d times", got, r.machine.Task("a1/web").Starts)
				}
				if r.client.work.holds.Running("a1") != (c.want != nil) {
					t.Error("allocRunning reports another state")
				}
			})
		})
	}
}

// damage overwrites every record of a kind, as a fault of the agent would.
func (r *fixture) damage(bucket string) {
	r.t.Helper()
	db, err := store.Open(r.client.config().StateDir())
	if err != nil {
		r.t.Fatal(err)
	}
	defer func() { _ = db.Close() }()
	records, err := store.NewTable[any](bucket).All(db, "")
	if err != nil {
		r.t.Fatal(err)
	}
	for _, record := range records {
		if err := store.NewTable[string](bucket).Put(db, record.Key, new("damaged")); err != nil {
			r.t.Fatal(err)
		}
	}
}

// Servers with a restored state wait for the report of a node, and until the node holds only its own volumes.
func TestUnaccountedNode_ReportsItsInventory(t *testing.T) {
	inVirtualTime(t, func(t *testing.T) {
		r := newFixture(t)
		startHolding(r, "a1", "a2")
		defer r.stop()
		r.pass(time.Minute)
		if len(r.servers.inventories) != 0 {
			t.Error("the node reported an inventory that the servers did not request")
		}
		r.servers.do(func() {
			r.servers.unaccounted = true
			delete(r.servers.claims, claimOf("a1", 0).Key())
		})
		r.pass(15 * time.Second)
		r.parts.mu.Lock()
		delete(r.holds, claimOf("a1", 0).Key()) // its hooks are down
		r.parts.mu.Unlock()
		r.pass(5 * time.Second)
		r.servers.do(func() { r.servers.unaccounted = false })
		r.pass(5 * time.Second)
		first, last := r.servers.inventories[0], r.servers.inventories[len(r.servers.inventories)-1]
		if len(first) != 2 || len(last) != 1 ||
			last[0].AllocID != "a2" || last[0].GrantIndex != 7 {
			t.Errorf("first %+v, last %+v", first, last)
		}
		got := r.machine.Running()
		if !slices.Equal(got, []string{"a2/web"}) || !r.lost("a1") {
			t.Errorf("running %v, a1 is %s", got, r.servers.status("a1"))
		}
		said := len(r.servers.inventories)
		r.pass(time.Minute)
		if len(r.servers.inventories) != said {
			t.Error("the node reported its inventory again after it was accounted for")
		}
	})
}

// While the servers cannot answer, no stopped task starts and no running task is killed.
func TestClaimCheck_WaitsForTheServers(t *testing.T) {
	inVirtualTime(t, func(t *testing.T) {
		r := newFixture(t)
		startHolding(r, "a1", "a2")
		r.stop()
		r.machine.Exit("a2/web", failed)
		r.servers.fail = func(_, method string) error {
			if method == structs.CSIClaimList.Name {
				return structs.NotServedf("no leader")
			}
			return nil
		}
		r.start(false)
		defer r.stop()
		r.pass(time.Minute)
		if got := r.machine.Running(); !slices.Equal(got, []string{"a1/web"}) ||
			isClosed(r.client.ServersContacted()) {
			t.Errorf("running %v", got)
		}
		r.servers.do(func() { r.servers.fail = nil })
		r.pass(time.Minute)
		if got := r.machine.Running(); !slices.Equal(got, []string{"a1/web", "a2/web"}) {
			t.Errorf("running %v", got)
		}
	})
}
