package simulation

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"sync"
	"time"

	"github.com/hashicorp/go-hclog"

	"berth/fsm"
	"berth/internal/boottime"
	"berth/server"
	"berth/server/clock"
	"berth/state"
	"berth/state/clustertime"
	"berth/state/csi/snapshot"
	"berth/structs"
	"berth/structs/cluster"
)

// clocks are the wall clocks of three servers, one of which leads, and the cluster time. The time that really
// passes is that of the bubble.
//
// Code that reads a wall clock by itself reads that of the bubble. The cluster time begins far from it, as if
// all clocks were wrong. So such code deletes at once what it takes for old, or never.
type clocks struct {
	*clock.Cluster
	w     *world
	began time.Time

	mu    sync.Mutex
	ahead [3]time.Duration // of the bubble
	drift [3]time.Duration // in an hour
	leads int
}

// farClocks are the distances of the cluster time from all clocks at the begin.
var farClocks = []time.Duration{
	0, 20 * time.Second, 50 * time.Hour, 50 * time.Hour, -50 * time.Hour, 400 * 24 * time.Hour,
}

// newClocks draws the clocks, and begins the cluster time.
func (w *world) newClocks() *clocks {
	c := &clocks{w: w, began: time.Now()}
	c.Cluster = clock.New(boottime.Monotonic(), func() *cluster.ClusterTime {
		return clustertime.Of(w.store.Read())
	})
	for n := range c.ahead {
		c.drift[n] = oneOf(w, 0, 0, 3*time.Second, -3*time.Second)
	}
	c.set()
	behind := oneOf(w, farClocks...)
	w.record("the cluster time is %s behind the clocks", behind)
	w.log.lead()
	propose(w, fsm.ClusterTimeSet, &cluster.ClusterTimeRequest{
		Clock: cluster.ClusterTime{Time: time.Now().Add(-behind).UnixNano(), Ahead: behind},
	})
	w.log.resign()
	return c
}

// set sets the clocks: one may be wrong, and the others are right.
func (c *clocks) set() {
	c.mu.Lock()
	defer c.mu.Unlock()
	for n := range c.ahead {
		c.ahead[n] = oneOf(c.w, 0, 0, 20*time.Second, -20*time.Second)
	}
	c.ahead[c.w.IntN(len(c.ahead))] = oneOf(c.w, 0, 2*time.Minute, -2*time.Minute, 30*time.Hour, -30*time.Hour,
		300*24*time.Hour)
	c.w.record("the wall clocks are ahead by %v", c.ahead)
}

// stepClocks is an operation: somebody sets the clocks.
func (w *world) stepClocks() { w.clocks.set() }

// wrong returns by how much the wall clock of a server is ahead.
func (c *clocks) wrong(server int) time.Duration {
	return c.ahead[server] + time.Duration(float64(c.drift[server])*time.Since(c.began).Hours())
}

// wall reads the wall clock of the leader.
func (c *clocks) wall() time.Time {
	c.mu.Lock()
	defer c.mu.Unlock()
	return time.Now().Add(c.wrong(c.leads))
}

// walls reads the wall clocks of all servers.
func (c *clocks) walls() (all []time.Time) {
	c.mu.Lock()
	defer c.mu.Unlock()
	for n := range c.ahead {
		all = append(all, time.Now().Add(c.wrong(n)))
	}
	return all
}

// lead has another server lead, and returns the keeper of the cluster time.
func (c *clocks) lead() server.Keeper {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.leads = c.w.IntN(len(c.ahead))
	return server.Keeper{
		Store:      c.w.store,
		Clock:      c.Cluster,
		Proposer:   c.w.log,
		Wall:       c.wall,
		Clocks:     c.compare,
		Stored:     func() []cluster.StoredIndex { return nil }, // there is no Raft
		Quarantine: time.Hour,
		Logger:     hclog.NewNullLogger(),
	}
}

// compare returns the clocks of the servers as the leader sees them.
func (c *clocks) compare(context.Context) (all []*cluster.ServerClock) {
	c.mu.Lock()
	defer c.mu.Unlock()
	for n := range c.ahead {
		all = append(all, &cluster.ServerClock{
			ID:     fmt.Sprintf("s%d", n+1),
			Name:   fmt.Sprintf("s%d", n+1),
			Leader: n == c.leads,
			Voter:  true,
			Ahead:  c.wrong(n) - c.wrong(c.leads),
		})
	}
	return all
}

// now stamps an entry that no procedure makes.
func (w *world) now() structs.WriteOptions {
	return structs.WriteOptions{Now: w.clocks.Now().UnixNano()}
}

// gains is by how much the cluster time may have come nearer to the clocks of leaders: a minute for one that
// is far ahead of it, the difference of right clocks, and a minute for one that is far behind.
const gains = 3 * time.Minute

// tooEarly reports whether less than a time has passed, as far as the cluster time may know.
func tooEarly(since time.Time, d time.Duration) bool { return time.Since(since) < d-gains }

// checkOld checks that what has ended is gone at last.
func (w *world) checkOld() {
	var left []string
	for end := time.Now().Add(3 * time.Hour); time.Now().Before(end); time.Sleep(5 * time.Minute) {
		left = w.oldRows()
		if len(left) == 0 {
			return
		}
	}
	for _, row := range left {
		w.fail("hours after its time there is %s", row)
	}
}

// checkUsed checks that the schedule has taken snapshots, and that old ones are gone.
func (w *world) checkUsed() {
	made, left := w.kept.counts()
	for end := time.Now().Add(time.Hour); made < 3 && time.Now().Before(end); made, left = w.kept.counts() {
		time.Sleep(5 * time.Minute) // a leader whose clock was ahead has made the schedule: it has just gone on
	}
	s := snapshot.Schedule(w.store.Read(), pluginNamespace, "s")
	now := w.clocks.Now().UnixNano()
	if s.Last > time.Now().UnixNano() && !clustertime.Future(w.store.Read(), s.Last, now) {
		return // the cluster time, or the clock of the leader, is ahead: it goes on after that time
	}
	if made < 3 || left > 2+int(keepFor/(5*time.Minute)) {
		w.fail("the schedule has taken %d snapshots, and %d are left: %+v", made, left, s)
	}
}

// oldRows returns what is to be deleted. Rows of the job of the plugin stay.
func (w *world) oldRows() (left []string) {
	tx := w.store.Read()
	for j := range state.EndedJobs(tx) {
		left = append(left, "job "+j.ID)
	}
	for e := range state.EndedEvals(tx) {
		if e.JobID != pluginJob {
			left = append(left, "evaluation "+e.ID)
		}
	}
	for _, id := range slices.Sorted(maps.Keys(w.kept.marked())) {
		left = append(left, "volume "+id)
	}
	for t := range state.Tokens(tx) {
		if t.Expired(w.clocks.Now().UnixNano()) && t.Expired(w.clocks.wall().UnixNano()) {
			left = append(left, "token "+t.AccessorID)
		}
	}
	return left
}
