package e2e

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"berth/structs"
)

// backgroundCommand is a CLI command that runs in parallel to the test.
type backgroundCommand struct {
	a    *agent
	cmd  *exec.Cmd
	out  output
	done chan error
}

// output is that of a command, also while it runs.
type output struct {
	mu   sync.Mutex
	text []byte
}

// Write appends to the text.
func (o *output) Write(p []byte) (int, error) {
	o.mu.Lock()
	defer o.mu.Unlock()
	o.text = append(o.text, p...)
	return len(p), nil
}

// String returns the text so far.
func (o *output) String() string {
	o.mu.Lock()
	defer o.mu.Unlock()
	return string(o.text)
}

// startCommand starts a command and leaves it running.
func (a *agent) startCommand(args ...string) *backgroundCommand {
	a.t.Helper()
	a.checkArguments(args)
	b := &backgroundCommand{
		a:    a,
		cmd:  exec.Command(binary, args...),
		done: make(chan error, 1),
	}
	b.cmd.Env = append(os.Environ(), "BERTH_ADDR=http://127.0.0.1:"+strconv.Itoa(a.http))
	b.cmd.Stdout = &b.out
	b.cmd.Stderr = &b.out
	if err := b.cmd.Start(); err != nil {
		a.t.Fatal(err)
	}
	waited := make(chan struct{})
	go func() {
		defer close(waited)
		b.done <- b.cmd.Wait()
	}()
	a.t.Cleanup(func() {
		_ = b.cmd.Process.Kill()
		<-waited
	})
	return b
}

// awaitText waits until the command, which may run on, has written a text.
func (b *backgroundCommand) awaitText(text string) {
	b.a.t.Helper()
	eventually(b.a.t, fmt.Sprintf("%v says %q", b.cmd.Args[1:], text), func() error {
		if out := b.out.String(); !strings.Contains(out, text) {
			return fmt.Errorf("it says %.2000q", out)
		}
		return nil
	})
}

// awaitEnd waits for the command and returns its exit code.
func (b *backgroundCommand) awaitEnd() int {
	b.a.t.Helper()
	var err error
	eventually(b.a.t, strings.Join(b.cmd.Args[1:], " ")+" ends", func() error {
		select {
		case err = <-b.done:
			return nil
		default:
			return fmt.Errorf("the command still runs")
		}
	})
	return exitCode(err)
}

// checkEnd waits for the command, and checks its exit code and that its output has all the texts.
func (b *backgroundCommand) checkEnd(code int, texts ...string) {
	b.a.t.Helper()
	if got := b.awaitEnd(); got != code {
		b.a.t.Errorf("%v: exit code %d, want %d:\n%s",
			b.cmd.Args[1:], got, code, b.out.String())
	}
	for _, text := range texts {
		if !strings.Contains(b.out.String(), text) {
			b.a.t.Errorf("%v does not say %q:\n%s",
				b.cmd.Args[1:], text, b.out.String())
		}
	}
}

// hasEnded reports whether the command has ended.
func (b *backgroundCommand) hasEnded() bool { return len(b.done) > 0 }

// stopJob stops a job and waits until its allocation has ended, whether or not its volume is released.
func (a *agent) stopJob(job, alloc string) {
	a.t.Helper()
	a.mustEventually("job", "stop", "-detach", job)
	eventually(a.t, "allocation "+alloc+" has ended", func() error {
		got, err := get[*structs.Allocation](a, "/v1/allocation/"+alloc)
		if err == nil && !got.ClientTerminal() {
			err = fmt.Errorf("the allocation is %s", got.ClientStatus)
		}
		return err
	})
}

// checkHeldBy checks that the volume is still attached and mounted there and nowhere else, and that another
// allocation waits for it.
func (c *testCluster) checkHeldBy(st *shelfDir, volume string, n *agent) {
	c.t.Helper()
	c.liveServer().awaitSecondClaim(volume)
	want := []string{volume + " " + n.name}
	for _, dir := range []string{"attached", "staged"} {
		if at := st.recordedPlaces(dir); !slices.Equal(at, want) {
			c.t.Errorf("%s are %v, want %v", dir, at, want)
		}
	}
	if at := st.mounts(n, "mount"); !slices.Equal(at, want) {
		c.t.Errorf("mounted are %v, want %v", at, want)
	}
}

// clusterWithOneServer starts a server, and two nodes with the shelf plugin. A silent node is down after 20
// s. That is longer than a busy machine stops a node, and than a test needs to look at a node that has just
// ended.
func clusterWithOneServer(t *testing.T) (*shelfDir, *testCluster) {
	t.Helper()
	st := newStorage(t)
	s := newAgent(t, "s0", "-server")
	s.ready = (*agent).hasLeader
	s.start()
	c := &testCluster{
		t:       t,
		servers: []*agent{s},
		rpc:     "127.0.0.1:" + strconv.Itoa(s.rpc),
	}
	for range 2 {
		c.addNode().allowRaw().launch()
	}
	for _, n := range c.nodes {
		n.awaitReady()
	}
	s.mustEventually("job", "run", "-detach",
		st.writePluginJob(s, "shelf", "system", "monolith"))
	s.healthyNodes("shelf", 2)
	return st, c
}

// forceDetachArgs returns a command that forces volume v off a node.
func forceDetachArgs(node string) []string {
	return []string{"volume", "detach", "-force", "-reason", "it hangs", "v", node}
}

// An operator detaches a volume by force from a node that does not release it. The next job waits for it
// elsewhere.
func TestForcedDetach_NeverTakesAVolumeFromANodeThatMayWrite(t *testing.T) {
	t.Parallel()
	st, c := clusterWithOneServer(t)
	s := c.servers[0]
	st.createVolume(s, "v", 300)
	s.runUntilOutput(appendingJob("v", "n0", "first"), "first")
	c.forceWhileThePluginHangs(st)
	s.runUntilOutput(appendingJob("v", "n1", "second"), "first", "second")
	c.forceWhileThePluginFails(st)
	s.runUntilOutput(appendingJob("v", "n0", "third"), "first", "second", "third")
	c.forceOnceTheNodeIsLost(st)
	s.runUntilOutput(appendingJob("v", "n1", "fourth"), "first", "second", "third", "fourth")
	st.checkCallOrder()
}

// forceWhileThePluginHangs forces the volume off n0: that waits for the plugin, some seconds. A plugin that
// hangs on has it rejected, and the mount is named. Once the plugin answers, the volume is released.
func (c *testCluster) forceWhileThePluginHangs(st *shelfDir) {
	c.t.Helper()
	s := c.servers[0]
	release := st.holdCalls("NodeUnpublishVolume", "before")
	s.stopJob("v", s.awaitRunning("v", 1)[0].ID)
	st.awaitHeldCall("NodeUnpublishVolume")
	s.must("job", "run", "-detach",
		s.writeJob(appendingJob("v", "n1", "second")))
	began := time.Now()
	forced := s.startCommand(forceDetachArgs("n0")...)
	c.checkHeldBy(st, "v", c.nodes[0])
	forced.checkEnd(6, "n0", "mount", "nothing is released", "power the node off")
	if took := time.Since(began); took < 3*time.Second {
		c.t.Errorf("it has waited for the plugin for %s only:\n%s", took, forced.out.String())
	}
	c.checkHeldBy(st, "v", c.nodes[0])

	forced = s.startCommand(forceDetachArgs("n0")...)
	release()
	forced.awaitEnd()
	out := forced.out.String()
	if strings.Contains(out, "nothing has failed yet: wait for it") { // the controller is detaching it
		s.mustEventually(forceDetachArgs("n0")...)
		return
	}
	if !strings.Contains(out, "has released") && !strings.Contains(out, "No claim") {
		c.t.Errorf("the output is %q", out)
	}
}

// forceWhileThePluginFails forces the volume off n1, where it cannot be unmounted: that is rejected, and the
// mount is named.
func (c *testCluster) forceWhileThePluginFails(st *shelfDir) {
	c.t.Helper()
	s := c.servers[0]
	words := st.openOnVolume(c.nodes[1], "words")
	s.stopJob("v", s.awaitRunning("v", 1)[0].ID)
	s.must("job", "run", "-detach",
		s.writeJob(appendingJob("v", "n0", "third")))
	mount := filepath.Dir(words.Name())
	s.mustFail(6, []string{"n1", mount, "busy", "nothing is released", "power the node off"},
		forceDetachArgs("n1")...)
	c.checkHeldBy(st, "v", c.nodes[1])
	if err := words.Close(); err != nil {
		c.t.Fatal(err)
	}
}

// forceOnceTheNodeIsLost loses n0 while its plugin hangs. The node counts as up until its lease has ended.
func (c *testCluster) forceOnceTheNodeIsLost(st *shelfDir) {
	c.t.Helper()
	s := c.servers[0]
	_ = st.holdCalls("NodeUnpublishVolume", "before")
	s.stopJob("v", s.awaitRunning("v", 1)[0].ID)
	st.awaitHeldCall("NodeUnpublishVolume")
	s.must("job", "run", "-detach",
		s.writeJob(appendingJob("v", "n1", "fourth")))
	forced := s.startCommand(forceDetachArgs("n0")...)
	c.checkHeldBy(st, "v", c.nodes[0])
	c.nodes[0].crash()
	forced.checkEnd(7, "n0", "is up and does not report its mounts", "power it off")
	s.awaitSecondClaim("v")
	if err := st.checkAttached("v n0"); err != nil {
		c.t.Error(err)
	}
	if err := os.Remove(filepath.Join(st.root, "vol", "shelf-v", "staged", "n0")); err != nil {
		c.t.Fatal(err) // a loss of power removes the mount
	}
	eventually(c.t, "the node is down", func() error {
		out, err := s.run("node", "status")
		if err == nil && !strings.Contains(out, "down") {
			err = fmt.Errorf("nodes:\n%s", out)
		}
		return err
	})
	s.mustFail(7, []string{"is down", "detach -force -reason"}, "volume", "detach", "v", "n0")
	out := s.must(append(forceDetachArgs("n0"), "-address", "unix://"+s.operatorSocket())...)
	if !strings.Contains(out, "nothing proves that it does not write") {
		c.t.Errorf("the output is %q", out)
	}
}

// awaitSecondClaim waits until a second claim of the volume waits, and checks that the first is still
// granted.
func (a *agent) awaitSecondClaim(volume string) {
	a.t.Helper()
	eventually(a.t, "a second claim of "+volume, func() error {
		claims, err := a.claims(volume)
		switch {
		case err != nil:
			return err
		case len(claims) != 2:
			return fmt.Errorf("%d claims", len(claims))
		}
		states := []string{claims[0].State, claims[1].State}
		slices.Sort(states)
		if !slices.Equal(states, []string{structs.ClaimGranted, structs.ClaimWaiting}) {
			a.t.Errorf("claims of %s are %v", volume, states)
		}
		return nil
	})
}

// openOnVolume opens a file of the only volume that is mounted at a node.
func (st *shelfDir) openOnVolume(n *agent, name string) *os.File {
	st.t.Helper()
	for _, dir := range stagedBelow(n.dir) {
		if filepath.Base(dir) == "mount" {
			f, err := os.Open(filepath.Join(dir, name))
			if err != nil {
				st.t.Fatal(err)
			}
			st.t.Cleanup(func() {
				_ = f.Close()
			})
			return f
		}
	}
	st.t.Fatalf("nothing is mounted: %v", stagedBelow(n.dir))
	return nil
}
