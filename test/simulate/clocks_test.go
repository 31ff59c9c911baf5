package simulate

import (
	"context"
	"time"

	"github.com/hashicorp/go-hclog"

	"berth/internal/boottime"
	"berth/server"
	"berth/server/clock"
	"berth/state/clustertime"
	"berth/structs/cluster"
)

// clocks are those of a machine. The time of the world is the one that really passes.
type clocks struct {
	w     *world
	ahead time.Duration // of the time of the world, when the wall clock was set
	set   time.Duration // when that was
	drift int64         // by which the wall clock is faster, in parts of a million
	rate  int64         // by which the boot clock is faster, in parts of a million
}

// The clocks of machines run that much too fast or too slow, in parts of a million.
const (
	mostDrift = 5000 // of a wall clock that nothing corrects
	mostRate  = 100  // of a boot clock, which follows a quartz
)

const million = 1_000_000

// newClocks draws the clocks of a machine. About half of them are right.
func (w *world) newClocks() clocks {
	c := clocks{
		w:    w,
		rate: w.Int64N(2*mostRate+1) - mostRate,
	}
	c.step()
	return c
}

// step sets the wall clock, right or wrong, and draws its drift.
func (c *clocks) step() { c.setTo(c.w.anError(), c.w.aDrift()) }

func (c *clocks) setTo(ahead time.Duration, drift int64) {
	c.ahead = ahead
	c.set = c.w.now
	c.drift = drift
}

// anError draws by how much a wall clock is ahead.
func (w *world) anError() time.Duration {
	by := w.upTo(oneOf(w, 20*time.Second, 20*time.Minute, 30*time.Hour, 5*7*24*time.Hour))
	return oneOf(w, 0, 0, by, -by)
}

// aDrift draws the drift of a wall clock.
func (w *world) aDrift() int64 {
	by := w.Int64N(mostDrift + 1)
	return oneOf(w, 0, 0, by, -by)
}

// wrong is by how much the wall clock is ahead.
func (c *clocks) wrong() time.Duration {
	return c.ahead + (c.w.now-c.set)*time.Duration(c.drift)/million
}

// wall reads the wall clock.
func (c *clocks) wall() time.Time { return c.w.began.Add(c.w.now + c.wrong()) }

// counted is what the boot clock counts of a time that passes.
func (c *clocks) counted(d time.Duration) time.Duration { return d + d*time.Duration(c.rate)/million }

// until is the time in which the boot clock counts d. A timer of the machine does not fire before.
func (c *clocks) until(d time.Duration) time.Duration {
	if c.rate == 0 {
		return d
	}
	rounding := 2 * time.Nanosecond
	return d - d*time.Duration(c.rate)/time.Duration(million+c.rate) + rounding
}

// serverClocks are the clocks of a server, and the cluster time there.
type serverClocks struct {
	clocks
	name    string
	booted  time.Duration // before the world began
	cluster *clock.Cluster
}

func (w *world) addServer(name string, c clocks) {
	s := &serverClocks{clocks: c, name: name, booted: time.Hour + w.upTo(time.Hour)}
	s.cluster = clock.New(s.boot, func() *cluster.ClusterTime { return clustertime.Of(w.store.Read()) })
	w.servers = append(w.servers, s)
}

// boot reads the boot clock.
func (s *serverClocks) boot() boottime.Instant {
	return boottime.Instant(s.counted(s.booted + s.w.now))
}

// clusterTime is the cluster time at the server that leads, or led last.
func (w *world) clusterTime() *clock.Cluster { return w.servers[w.leads].cluster }

// followClocks lets each server count the time since the last entry about the cluster time.
func (w *world) followClocks() {
	for _, s := range w.servers {
		s.cluster.Look()
	}
	w.after(5*time.Second, w.followClocks)
}

// keeper returns the keeper of the cluster time in one leadership.
func (l *leader) keeper() server.Keeper {
	return server.Keeper{
		Store:      l.w.store,
		Clock:      l.clocks.cluster,
		Proposer:   clockLog{l},
		Wall:       l.clocks.wall,
		Clocks:     l.compareClocks,
		Stored:     func() []cluster.StoredIndex { return nil }, // there is no Raft
		Quarantine: l.w.quarantine,
		Logger:     hclog.NewNullLogger(),
	}
}

// keepClock is the loop of the keeper.
func (l *leader) keepClock() {
	if l.ctx.Err() != nil {
		return
	}
	l.keeper().Step(l.ctx)
	l.w.after(20*time.Second, l.keepClock)
}

// compareClocks returns the clocks of the servers as the leader sees them. A silent one does not answer.
func (l *leader) compareClocks(context.Context) (all []*cluster.ServerClock) {
	for i, s := range l.w.servers {
		c := &cluster.ServerClock{
			ID:     s.name,
			Name:   s.name,
			Leader: s == l.clocks,
			Voter:  true,
			Ahead:  s.wrong() - l.clocks.wrong(),
		}
		if l.w.silent[i] > l.w.now {
			c.Fault = "no answer"
		}
		all = append(all, c)
	}
	return all
}

// clockLog is the leader as the proposer of the keeper. With a script its entries are no moments, and take no
// time.
type clockLog struct{ *leader }

// Propose implements fsm.Proposer.
func (c clockLog) Propose(ctx context.Context, entry []byte) (index uint64, answer any, err error) {
	if c.w.script == nil || c.w.leader != c.leader {
		return c.leader.Propose(ctx, entry)
	}
	index, answer = c.w.apply(entry)
	return index, answer, nil
}

// stepClock sets the clock of a node or of a server.
func (w *world) stepClock(n *node) {
	if w.chance(2) {
		n.clocks.step()
		w.note("the clock of %s is %s ahead", n.id, n.clocks.wrong())
		return
	}
	s := oneOf(w, w.servers...)
	s.step()
	w.note("the clock of %s is %s ahead", s.name, s.wrong())
}

// stepServers sets the clocks of all servers alike, as a wrong source of time does.
func (w *world) stepServers(*node) {
	ahead := w.anError()
	for _, s := range w.servers {
		s.setTo(ahead+w.upTo(time.Second), 0)
	}
	w.note("the clocks of all servers are %s ahead", ahead)
}
