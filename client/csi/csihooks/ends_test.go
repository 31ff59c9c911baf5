package csihooks

import (
	"context"
	"testing"

	"berth/csi"
	"berth/csi/csitest"
	"berth/structs"
	"berth/structs/nodecalls"
	"berth/test/kit"
)

// list lists the plugin's volumes at its controller, once it is healthy.
func (r *fixture) list() error {
	conn, err := r.m.Client(r.ctx(), structs.CSIKindController, "ebs")
	kit.Must(r.t, err)
	_, err = conn.ListVolumes(r.ctx(), &nodecalls.ClientCSIListRequest{PluginID: "ebs"})
	return err
}

// endDuringList ends the plugin's process during a list, and starts the next one. ours: berth stops it.
func (r *fixture) endDuringList(s *supervisor, p *csitest.Plugin, c *fakeControl, ours bool) {
	r.t.Helper()
	p.Forget()
	defer p.Hang("ListVolumes")()
	listed := make(chan error, 1)
	go func() { listed <- r.list() }()
	kit.Must(r.t, p.Await(r.ctx(), "ListVolumes", 1))
	if ours {
		s.Stopping(r.ctx())
	}
	p.Stop()
	s.Stopped()
	if err := <-listed; !csi.Lost(err) {
		r.t.Errorf("the list ended with %v", err)
	}

	kit.Must(r.t, p.Restart())
	s.Started(context.Background(), c)
	// A probe may have noticed the end.
	for c.next(r.t).Type != structs.TaskEventPluginHealthy {
	}
}

// A driver may end at each list, for example. The node lists its volumes again and again.
func TestPluginSupervisor_ACallThatEndsThePluginTwiceIsNotRepeated(t *testing.T) {
	r := newFixture(t)
	s, p, c := r.servingPlugin()
	r.endDuringList(s, p, c, false)
	kit.Must(t, r.list()) // it was another reason
	r.endDuringList(s, p, c, true)
	r.endDuringList(s, p, c, false)
	r.endDuringList(s, p, c, false)

	p.Forget()
	err := r.list()
	if structs.CodeOf(err) != structs.CSICodeEndsPlugin || p.Count("ListVolumes") != 0 {
		t.Errorf("the list is repeated: %v", err)
	}
	conn, err := r.m.Client(r.ctx(), structs.CSIKindController, "ebs")
	kit.Must(t, err)
	if calls := conn.Info.EndingCalls; len(calls) != 1 || calls[0].RPC != "ListVolumes" {
		t.Errorf("the node reports %v", calls)
	}
	if err := r.attach(conn.Client, "vol"); structs.CodeOf(err) != "NotFound" {
		t.Errorf("the plugin does not serve other calls: %v", err)
	}
	s.Stopped()
	kit.Must(t, s.Down(r.ctx()))
}

// The next version of the job runs another driver, perhaps.
func TestPluginSupervisor_AnotherVersionOfTheJobIsCalled(t *testing.T) {
	r := newFixture(t)
	s, p, c := r.servingPlugin()
	r.endDuringList(s, p, c, false)
	s.jobIndex++
	r.endDuringList(s, p, c, false)
	kit.Must(t, r.list())
	s.Stopped()
	kit.Must(t, s.Down(r.ctx()))
}
