package docker

import (
	"os"
	"path/filepath"
	"testing"
	"time"

	"berth/client/drivers/driver"
	"berth/structs"
)

// until waits until ok answers true.
func (n *node) until(what string, ok func() bool) {
	n.t.Helper()
	for ; !ok(); time.Sleep(20 * time.Millisecond) {
		if n.ctx.Err() != nil {
			n.t.Fatalf("waited without success: %s", what)
		}
	}
}

// output is what a task has written so far.
func (n *node) output(cfg *driver.TaskConfig, kind string) string {
	text, _ := os.ReadFile(filepath.Join(cfg.Dirs.Logs, cfg.Task+"."+kind+".0"))
	return string(text)
}

func (n *node) awaitOutput(cfg *driver.TaskConfig, want string) {
	n.t.Helper()
	for ; n.output(cfg, "stdout") != want; time.Sleep(5 * time.Millisecond) {
		if n.ctx.Err() != nil {
			n.t.Fatalf("the output is %q, want %q", n.output(cfg, "stdout"), want)
		}
	}
}

// recoverFirst starts an agent that takes up a task before its first search for containers without a task.
func (n *node) recoverFirst(h *driver.Handle) (d *Driver, stop func()) {
	n.t.Helper()
	d = n.driver()
	if err := d.Recover(n.ctx, h); err != nil {
		n.t.Fatal(err)
	}
	return d, n.launch(d)
}

// TestDaemon_LosesWhatNoTaskNeeds: a container whose task the agent does not know, and the image after the
// last task.
func TestDaemon_LosesWhatNoTaskNeeds(t *testing.T) {
	t.Parallel()
	n := newNode(t)
	n.cfg.GC.ImageDelay = 100 * time.Millisecond
	n.cfg.GC.Dangling.Period = 500 * time.Millisecond
	n.cfg.GC.Dangling.CreationGrace = time.Millisecond
	first, stop := n.agent()
	lost := n.task("lost", "ignore")
	held := n.task("held", "ignore")
	n.start(first, lost)
	h := n.start(first, held)
	stop()
	d, _ := n.recoverFirst(h)
	containers := func(cfg *driver.TaskConfig) int {
		list, err := d.engine.List(n.ctx, labelTask+"="+cfg.ID)
		if err != nil {
			t.Fatal(err)
		}
		return len(list)
	}
	n.until("the container without a task is gone", func() bool { return containers(lost) == 0 })
	if containers(held) != 1 || len(n.Processes()) != 1 {
		t.Errorf("left are the processes %v", n.Processes())
	}
	if _, err := d.engine.Image(n.ctx, "program:1"); err != nil {
		t.Errorf("the image of a task: %v", err)
	}
	n.destroy(d, held)
	n.until("the image is gone", func() bool {
		_, err := d.engine.Image(n.ctx, "program:1")
		return structs.IsKind(err, structs.KindNotFound)
	})
	n.until("no process that keeps output is left", func() bool {
		left, err := os.ReadDir(filepath.Join(n.dir, "driver", "output"))
		return err == nil && len(left) == 0
	})
}
