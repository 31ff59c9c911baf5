package csihooks

import (
	"context"
	"strings"
	"testing"
	"time"

	spec "github.com/container-storage-interface/spec/lib/go/csi"
	"google.golang.org/protobuf/types/known/wrapperspb"

	"berth/client/csi/registry"
	"berth/csi/csitest"
	"berth/structs"
	"berth/test/kit"
)

func TestPluginSupervisor_EmitsAnEventPerChangeOfHealth(t *testing.T) {
	r := newFixture(t)
	s, te := r.supervisor("a1", nil)
	kit.Must(t, s.Up(r.ctx(), te))
	p := startPlugin(t, s)
	kit.Must(t, p.Restart())
	c := newFakeControl()
	s.Started(r.ctx(), c)
	defer s.Stopped()
	c.next(t)
	for range 2 {
		p.FailAlways("Probe", csitest.Error("FailedPrecondition", "no license"))
		if e := c.next(t); e.Type != structs.TaskEventPluginUnhealthy ||
			!strings.Contains(e.Message, "no license") {
			t.Errorf("event %+v", e)
		}
		p.Script("Probe", nil)
		if e := c.next(t); e.Type != structs.TaskEventPluginHealthy {
			t.Errorf("event %+v", e)
		}
	}
	kit.Must(t, p.Await(r.ctx(), "Probe", p.Count("Probe")+5))
	if len(c.events)+len(c.restarts) != 0 {
		t.Errorf("%d events and %d restarts without a change", len(c.events), len(c.restarts))
	}
}

// hanging is a plugin that was healthy and answers nothing any more.
func (r *fixture) hanging(hang time.Duration) (*supervisor, *csitest.Plugin, *fakeControl) {
	r.t.Helper()
	s, te := r.supervisor("a1", func(p *structs.CSIPluginConfig, c *SupervisorConfig) {
		p.HangTimeout, c.ProbeTimeout = hang, 5*time.Millisecond
	})
	kit.Must(r.t, s.Up(r.ctx(), te))
	p := startPlugin(r.t, s)
	kit.Must(r.t, p.Restart())
	c := newFakeControl()
	s.Started(r.ctx(), c)
	r.t.Cleanup(s.Stopped)
	if e := c.next(r.t); e.Type != structs.TaskEventPluginHealthy {
		r.t.Fatalf("event %+v", e)
	}
	r.t.Cleanup(p.Hang("Probe"))
	return s, p, c
}

func TestPluginSupervisor_RestartsAPluginThatHangs(t *testing.T) {
	r := newFixture(t)
	s, _, c := r.hanging(50 * time.Millisecond)
	reason := c.restarted(t)
	if !strings.Contains(reason, `CSI plugin "ebs" has answered no probe for 50ms and is restarted`) {
		t.Errorf("reason %s", reason)
	}
	var last *structs.TaskEvent
	for len(c.events) > 0 {
		last = c.next(t)
	}
	if last == nil || last.Type != structs.TaskEventPluginUnhealthy || last.Message != reason {
		t.Errorf("last event %+v", last)
	}
	s.Stopped()
	if len(c.restarts) != 0 {
		t.Error("the plugin was restarted more than once")
	}
}

func TestPluginSupervisor_DoesNotRestartAPluginThatAnswersWithErrors(t *testing.T) {
	r := newFixture(t)
	s, te := r.supervisor("a1",
		func(p *structs.CSIPluginConfig, _ *SupervisorConfig) {
			p.HangTimeout = time.Nanosecond
		})
	kit.Must(t, s.Up(r.ctx(), te))
	p := startPlugin(t, s)
	kit.Must(t, p.Restart())
	c := newFakeControl()
	s.Started(r.ctx(), c)
	defer s.Stopped()
	c.next(t)
	p.FailAlways("Probe", csitest.Error("FailedPrecondition", "no license"))
	c.next(t)
	for begin := time.Now(); time.Since(begin) < 100*time.Millisecond; { // well beyond hang_timeout
		kit.Must(t, p.Await(r.ctx(), "Probe", p.Count("Probe")+1))
	}
	if len(c.restarts) != 0 {
		t.Errorf("restarted: %s", <-c.restarts)
	}
}

func TestPluginSupervisor_EmitsAnUnhealthyEventOnceAcrossAgents(t *testing.T) {
	r := newFixture(t)
	s, te := r.supervisor("a1", nil)
	kit.Must(t, s.Up(r.ctx(), te))
	p := startPlugin(t, s)
	kit.Must(t, p.Restart())
	c := newFakeControl()
	ctx, cancel := context.WithCancel(r.ctx())
	s.Started(ctx, c)
	c.next(t)
	p.FailAlways("Probe", csitest.Error("FailedPrecondition", "no license"))
	c.next(t)
	cancel() // the agent ends; the process does not
	s.Stopped()
	s, _ = r.supervisor("a1", nil)
	c = newFakeControl()
	s.Started(r.ctx(), c)
	kit.Must(t, p.Await(r.ctx(), "Probe", p.Count("Probe")+3))
	if len(c.events) != 0 {
		t.Errorf("the next agent emitted the event again: %+v", c.next(t))
	}
	p.Script("Probe", nil)
	if e := c.next(t); e.Type != structs.TaskEventPluginHealthy {
		t.Errorf("event %+v", e)
	}
	s.Stopped()
	kit.Must(t, s.Down(r.ctx()))
}

// The plugin runs and is not registered, so the next agent begins again to wait for it.
func TestPluginSupervisor_TellsOnceAcrossAgentsWhyAPluginIsNotUsed(t *testing.T) {
	r := newFixture(t)
	s, te := r.supervisor("a1", nil)
	kit.Must(t, s.Up(r.ctx(), te))
	p := startPlugin(t, s)
	p.Answer("Probe", &spec.ProbeResponse{Ready: wrapperspb.Bool(false)})
	kit.Must(t, p.Restart())
	c := newFakeControl()
	ctx, cancel := context.WithCancel(r.ctx())
	s.Started(ctx, c)
	if e := c.next(t); !strings.Contains(e.Message, "still starting") {
		t.Errorf("event %+v", e)
	}
	cancel() // the agent ends; the process does not
	s.Stopped()
	s, te = r.supervisor("a1", nil)
	kit.Must(t, s.Up(r.ctx(), te))
	c = newFakeControl()
	s.Started(r.ctx(), c)
	kit.Must(t, p.Await(r.ctx(), "Probe", p.Count("Probe")+3))
	if len(c.events) != 0 {
		t.Errorf("the next agent emitted the event again: %+v", c.next(t))
	}
	s.Stopped()
	p.Stop()
	kit.Must(t, s.Up(r.ctx(), te)) // for another process
	kit.Must(t, p.Restart())
	s.Started(r.ctx(), c)
	if e := c.next(t); !strings.Contains(e.Message, "still starting") {
		t.Errorf("event %+v of another process", e)
	}
	s.Stopped()
	kit.Must(t, s.Down(r.ctx()))
}

func TestPluginSupervisor_KeepsAnotherDriverOutUntilTheFirstHasGone(t *testing.T) {
	r := newFixture(t)
	first := &registry.Instance{
		Kind:       structs.CSIKindNode,
		ID:         "ebs",
		AllocID:    "first",
		SocketPath: "/first",
		Provider:   "first.csi",
	}
	kit.Must(t, r.registry.Register(first))
	s, te := r.supervisor("a1",
		func(p *structs.CSIPluginConfig, _ *SupervisorConfig) {
			p.HealthTimeout = 20 * time.Millisecond
		})
	kit.Must(t, s.Up(r.ctx(), te))
	p := startPlugin(t, s)
	kit.Must(t, p.Restart())
	c := newFakeControl()
	s.Started(r.ctx(), c)
	defer s.Stopped()
	e := c.next(t)
	for _, part := range []string{"is not used", `"test.csi.berth"`, `driver "first.csi" of allocation first`} {
		if e.Type != structs.TaskEventPluginUnhealthy || !strings.Contains(e.Message, part) {
			t.Errorf("event %+v, want %q", e, part)
		}
	}
	for begin := time.Now(); time.Since(begin) < 100*time.Millisecond; { // well beyond health_timeout
		kit.Must(t, p.Await(r.ctx(), "Probe", p.Count("Probe")+1))
	}
	i := r.registry.Get(nodeKey)
	if i.AllocID != "first" || len(c.events)+len(c.restarts) != 0 {
		t.Errorf("serving %+v, %d events, %d restarts", i, len(c.events), len(c.restarts))
	}
	kit.Must(t, r.registry.Deregister(nodeKey, "first"))
	if e := c.next(t); e.Type != structs.TaskEventPluginHealthy {
		t.Errorf("event %+v", e)
	}
}

func TestDuty_A14_APluginThatNeverAnswersIsRestarted(t *testing.T) {
	r := newFixture(t)
	s, te := r.supervisor("a1",
		func(p *structs.CSIPluginConfig, _ *SupervisorConfig) {
			p.HealthTimeout = 20 * time.Millisecond
		})
	kit.Must(t, s.Up(r.ctx(), te))
	c := newFakeControl()
	s.Started(r.ctx(), c)
	if e := c.next(t); e.Type != structs.TaskEventPluginUnhealthy {
		t.Errorf("event %+v", e)
	}
	if reason := c.restarted(t); !strings.Contains(reason,
		`CSI plugin "ebs" did not become healthy within 20ms`) {
		t.Errorf("reason %s", reason)
	}
	s.Stopped()
	// The next process is given its own time.
	te.FirstStart = false
	kit.Must(t, s.Up(r.ctx(), te))
	p := startPlugin(t, s)
	kit.Must(t, p.Restart())
	s.Started(r.ctx(), c)
	if e := c.next(t); e.Type != structs.TaskEventPluginHealthy {
		t.Errorf("event %+v", e)
	}
	s.Stopped()
	kit.Must(t, s.Down(r.ctx()))
}

func TestDuty_E7_AStartingPluginIsNotRestarted(t *testing.T) {
	r := newFixture(t)
	s, te := r.supervisor("a1",
		func(p *structs.CSIPluginConfig, _ *SupervisorConfig) {
			p.HealthTimeout = 20 * time.Millisecond
		})
	kit.Must(t, s.Up(r.ctx(), te))
	p := startPlugin(t, s)
	p.Answer("Probe", &spec.ProbeResponse{Ready: wrapperspb.Bool(false)})
	kit.Must(t, p.Restart())
	c := newFakeControl()
	s.Started(r.ctx(), c)
	defer s.Stopped()
	if e := c.next(t); !strings.Contains(e.Message, "still starting") {
		t.Errorf("event %+v", e)
	}
	begin := time.Now()
	for n := 0; time.Since(begin) < 100*time.Millisecond; n++ { // well beyond health_timeout
		kit.Must(t, p.Await(r.ctx(), "Probe", p.Count("Probe")+1))
	}
	if len(c.restarts) != 0 || len(r.registry.Serving()) != 0 {
		t.Errorf("%d restarts, serving %v", len(c.restarts), r.registry.Serving())
	}
	p.Script("Probe", nil)
	if e := c.next(t); e.Type != structs.TaskEventPluginHealthy {
		t.Errorf("event %+v", e)
	}
}
