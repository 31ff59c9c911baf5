package csihooks

import (
	"testing"

	"berth/structs/storage"
	"berth/test/kit"
)

// The node ends the connection of a mount that hangs only for a job that says so, and whose volume no other
// node can use. The kernel keeps each process that asks a server which takes requests and answers none, also
// after SIGKILL, until that end.
func TestHeal_CutsAMountThatHangs(t *testing.T) {
	for name, hang := range map[string]func(*kit.FUSE){
		"its server reads no requests":             (*kit.FUSE).Hang,
		"its server reads and answers no requests": (*kit.FUSE).Swallow,
	} {
		t.Run(name, func(t *testing.T) {
			r := newFixture(t)
			r.heals()
			p := r.plugin("ebs")
			hung := newSource(t, p, "data", "old")
			newSource(t, p, "logs", "other")
			h, one := r.up("a1", "data", storage.DeadMountRestart, singleNode)
			h2, sibling := r.up("a2", "logs", storage.DeadMountRestart, singleNode)
			p.Forget()
			hang(hung.fs)
			one.awaitEvent("the mount hangs: it has not answered for")
			one.awaitEvent("the node ends its connection")
			one.awaitEvent("restart: ")
			hung.replace("new")
			one.awaitStarts(2)
			if got := one.read() + sibling.read(); got != "newother" {
				t.Errorf("the tasks read %q", got)
			}
			sibling.stop()
			if sibling.count() != 0 || len(sibling.events) != 0 || len(rpcs(p, "logs")) != 0 {
				t.Errorf("the sibling: %d restarts, %v, %v", sibling.count(), sibling.events, rpcs(p, "logs"))
			}
			one.stop()
			kit.Must(t, h.Down(r.ctx()))
			kit.Must(t, h2.Down(r.ctx()))
			r.clean()
		})
	}
}
