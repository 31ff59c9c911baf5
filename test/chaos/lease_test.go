package chaos

import (
	"path/filepath"
	"strings"
	"time"

	"berth/test/guarantees"
)

// needlessAfter is the time for which the leader was reachable when the end of a lease is needless: half of
// the lease, the time in which a node hears of the next leader, and that of a look.
const needlessAfter = 6 * time.Second

// leaseWatch looks for allocations that their guard has ended.
type leaseWatch struct {
	w      *world
	leader *member               // that a server names
	led    time.Time             // since when, zero: none is named
	well   map[*member]time.Time // since when a node has no fault of its own
	ended  map[string]bool       // the records of guards that were seen
	passed time.Time             // of the last look
}

func newLeaseWatch(w *world) *leaseWatch {
	return &leaseWatch{
		w:     w,
		well:  map[*member]time.Time{},
		ended: map[string]bool{},
	}
}

// look notes who is well, and reports ends that nothing has caused. A run that was held up itself says
// nothing about the time before.
func (l *leaseWatch) look() {
	now := time.Now()
	late := now.Sub(l.passed) > 3*time.Second
	l.passed = now
	leader := l.w.leader()
	switch {
	case late || leader == nil:
		l.led = time.Time{}
	case l.led.IsZero() || leader != l.leader:
		l.led = now
	}
	l.leader = leader

	for _, m := range l.w.nodes {
		// A machine that the fence device or an operator has switched off is busy, too.
		if late || len(m.busy) > 0 && !m.cutPair.Load() {
			delete(l.well, m)
		} else if l.well[m].IsZero() {
			l.well[m] = now
		}
		l.check(m, now)
	}
}

func (l *leaseWatch) check(m *member, now time.Time) {
	found, _ := filepath.Glob(m.path("data", "berth", "guard", "*.ended"))
	for _, path := range found {
		if l.ended[path] {
			continue
		}
		l.ended[path] = true
		l.w.leaseEnds++
		alloc := strings.TrimSuffix(filepath.Base(path), ".ended")
		led, well := l.led, l.well[m]
		if !led.IsZero() && !well.IsZero() && now.Sub(led) > needlessAfter && now.Sub(well) > needlessAfter {
			l.w.needlessEnds++
			l.w.violate(guarantees.NeedlessEnd,
				"%s has ended allocation %s; there is a leader for %s, and the node is well for %s",
				m.name, alloc, now.Sub(led), now.Sub(well))
		}
	}
}
