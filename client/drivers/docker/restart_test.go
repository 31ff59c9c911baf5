package docker

import (
	"fmt"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"testing"

	"berth/client/drivers/driver"
	"berth/structs"
)

// numbers are the lines of `count:N`.
func numbers(n int) string {
	var b strings.Builder
	for i := range n {
		fmt.Fprintln(&b, i)
	}
	return b.String()
}

// TestDaemon_KeepsContainersThroughRestarts kills the agent and the daemon beside twenty tasks. A daemon that
// is killed may lose a message that it has read and not written: all the others are in the tasks' logs.
func TestDaemon_KeepsContainersThroughRestarts(t *testing.T) {
	t.Parallel()
	const tasks, lines = 20, 400
	n := newNode(t, "--live-restore")
	d, stop := n.agent()
	var configs []*driver.TaskConfig
	var handles []*driver.Handle
	for i := range tasks {
		cfg := n.task(fmt.Sprint("a", i), fmt.Sprintf("count:%d 20ms", lines), "await:/local/end",
			fmt.Sprint("exit:", i))
		configs = append(configs, cfg)
		handles = append(handles, n.start(d, cfg))
	}
	stop()
	n.Kill()
	_, stop = n.recoverLater(handles)
	n.Kill()
	n.Run()
	stop()
	d, _ = n.recoverAll(handles)
	// A daemon loses the end of a container that ends without it: they end only now.
	for _, cfg := range configs {
		err := os.WriteFile(filepath.Join(cfg.Dirs.Local, "end"), nil, 0o644)
		if err != nil {
			t.Fatal(err)
		}
	}
	for i, cfg := range configs {
		if got := n.wait(d, cfg); got.ExitCode != i || got.Err != "" {
			t.Errorf("%s: got %+v", cfg.ID, got)
		}
		want := n.Output(containerName(cfg.ID))
		n.destroy(d, cfg)
		if out := n.output(cfg, "stdout"); out != want {
			t.Errorf("%s: the output has %d bytes: %s", cfg.ID, len(out), difference(out, want))
		}
		// A slow daemon reads much at once.
		if missing := len(numbers(lines)) - len(want); missing < 0 || missing > len(numbers(lines))/2 {
			t.Errorf("%s: the daemon has lost %d bytes", cfg.ID, missing)
		}
	}
}

func difference(got, want string) string {
	for i := range min(len(got), len(want)) {
		if got[i] != want[i] {
			return fmt.Sprintf("at byte %d there is %q, want %q",
				i, got[i:min(len(got), i+40)], want[i:min(len(want), i+40)])
		}
	}
	return fmt.Sprintf("one is the beginning of the other, which has %d", max(len(got), len(want)))
}

// recoverLater starts an agent while the daemon is away, and the daemon after that.
func (n *node) recoverLater(handles []*driver.Handle) (*Driver, func()) {
	n.t.Helper()
	d := New(n.cfg, Options{
		Dir:     filepath.Join(n.dir, "driver"),
		Command: []string{"none"},
		NodeID:  "n1",
		Logger:  nullLogger,
	})
	for _, h := range handles {
		if err := d.Recover(n.ctx, h); !structs.IsKind(err, structs.KindUnavailable) {
			n.t.Errorf("without a daemon: %v", err)
		}
	}
	n.Run()
	return n.recoverAll(handles)
}

// recoverAll starts an agent that takes up tasks.
func (n *node) recoverAll(handles []*driver.Handle) (*Driver, func()) {
	n.t.Helper()
	d, stop := n.agent()
	for _, h := range handles {
		if err := d.Recover(n.ctx, h); err != nil {
			n.t.Errorf("%s: %v", h.TaskID, err)
		}
	}
	return d, stop
}

// TestDaemon_SaysWhyContainersEndWithIt: without live-restore the containers end with the daemon.
func TestDaemon_SaysWhyContainersEndWithIt(t *testing.T) {
	t.Parallel()
	for name, end := range map[string]func(*node){
		"stopped": func(n *node) { n.Stop() },
		"killed":  func(n *node) { n.Kill() },
	} {
		t.Run(name, func(t *testing.T) {
			n := newNode(t)
			d, _ := n.agent()
			cfg := n.task("a1", "trap:0")
			n.start(d, cfg)
			n.awaitOutput(cfg, "ready\n")
			ended := make(chan *driver.ExitResult, 1)
			go func() {
				result, err := d.Wait(n.ctx, cfg.ID)
				if err != nil {
					t.Error(err)
				}
				ended <- result
			}()
			n.until("the driver waits for the end", isAwaitingEnd)
			end(n)
			n.Run()
			if got := <-ended; !strings.Contains(got.Err, "live-restore is off") {
				t.Errorf("got %+v", got)
			}
			n.destroy(d, cfg)
		})
	}
}

// isAwaitingEnd reports whether a goroutine of TestDaemon_SaysWhyContainersEndWithIt has seen its container
// running and waits for the end. One that begins later knows nothing of the daemon's end.
func isAwaitingEnd() bool {
	stacks := make([]byte, 1<<20)
	stacks = stacks[:runtime.Stack(stacks, true)]
	for stack := range strings.SplitSeq(string(stacks), "\n\n") {
		if strings.Contains(stack, "AwaitEnd") && strings.Contains(stack, "TestDaemon_SaysWhy") {
			return true
		}
	}
	return false
}

// TestDaemon_ReplacesAHelperThatWasKilled loses nothing of the output, and repeats at most what was written
// after a position was saved.
func TestDaemon_ReplacesAHelperThatWasKilled(t *testing.T) {
	t.Parallel()
	n := newNode(t)
	d, stop := n.agent()
	cfg := n.task("a1", "count:100000 10ms") // longer than the test
	h := n.start(d, cfg)
	helpers := d.output.(*helperProcesses)
	lines := func() int { return strings.Count(n.output(cfg, "stdout"), "\n") }
	n.until("there is output", func() bool { return lines() > 0 })
	covered := lines()
	for range 2 { // the first may be of a moment before
		before := helpers.savedPosition(cfg.ID)
		n.until("a position is saved", func() bool { return helpers.savedPosition(cfg.ID) != before })
	}
	if err := helpers.tasks.Destroy(n.ctx, cfg.ID, nil); err != nil {
		t.Fatal(err)
	}
	written := lines()
	stop()
	d, _ = n.recoverAll([]*driver.Handle{h})
	if err := d.Stop(n.ctx, cfg.ID, "SIGKILL", 0); err != nil {
		t.Fatal(err)
	}
	n.wait(d, cfg)
	want := n.Output(containerName(cfg.ID))
	n.destroy(d, cfg)
	seen := map[string]int{}
	for line := range strings.Lines(n.output(cfg, "stdout")) {
		seen[line]++
	}
	repeated := 0
	for line := range strings.Lines(want) {
		if seen[line] == 0 {
			t.Errorf("line %q is lost", line)
		}
		repeated += seen[line] - 1
	}
	if repeated > written-covered {
		t.Errorf("%d of %d lines were repeated, a position covers %d", repeated, written, covered)
	}
}

// savedPosition is the position of the helper of a task, "" without one.
func (o *helperProcesses) savedPosition(taskID string) string {
	text, _ := os.ReadFile(o.position(taskID))
	return string(text)
}
