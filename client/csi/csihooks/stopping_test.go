package csihooks

import (
	"context"
	"testing"

	"berth/client/csi/volumes"
	"berth/csi"
	"berth/csi/csitest"
	"berth/structs"
	"berth/structs/nodecalls"
	"berth/test/kit"
)

// servingPlugin starts a plugin, and returns once it is registered.
func (r *fixture) servingPlugin() (*supervisor, *csitest.Plugin, *fakeControl) {
	r.t.Helper()
	s, te := r.supervisor("a1", nil)
	kit.Must(r.t, s.Up(r.ctx(), te))
	p := startPlugin(r.t, s)
	kit.Must(r.t, p.Restart())
	c := newFakeControl()
	s.Started(r.ctx(), c)
	if e := c.next(r.t); e.Type != structs.TaskEventPluginHealthy {
		r.t.Fatalf("event %+v", e)
	}
	return s, p, c
}

// attach calls the plugin's controller for a volume.
func (r *fixture) attach(client *csi.Client, volume string) error {
	c := volumes.Call{
		PluginID: "ebs",
		Instance: "a1",
		Volume:   volume,
		RPC:      "ControllerPublishVolume",
	}
	return r.m.Exclusive(r.ctx(), c, func(ctx context.Context) error {
		_, err := client.ControllerPublishVolume(ctx, &nodecalls.ClientCSIAttachRequest{
			PluginID:       "ebs",
			ExternalID:     volume,
			ExternalNodeID: "n1",
			AccessMode:     structs.CSISingleNodeWriter,
			AttachmentMode: structs.CSIFileSystem,
		})
		return err
	})
}

// A plugin that is killed during a call leaves its outcome unknown, and the volume would wait for minutes.
func TestPluginSupervisor_StopsAfterTheCallsInFlight(t *testing.T) {
	r := newFixture(t)
	s, p, _ := r.servingPlugin()
	p.AddVolume("vol", 1<<30)
	conn, err := r.m.Client(r.ctx(), structs.CSIKindController, "ebs")
	kit.Must(t, err)
	release := p.Hang("ControllerPublishVolume")
	defer release()
	attached := make(chan error, 1)
	go func() { attached <- r.attach(conn.Client, "vol") }()
	kit.Must(t, p.Await(r.ctx(), "ControllerPublishVolume", 1))

	unregistered := r.registry.Subscribe()
	defer unregistered.Close()
	stopping := make(chan struct{})
	go func() {
		defer close(stopping)
		s.Stopping(r.ctx())
	}()
	for len(r.registry.Serving()) > 0 {
		<-unregistered.More()
	}
	err = r.attach(conn.Client, "other")
	if !structs.IsKind(err, structs.KindUnavailable) || structs.CodeOf(err) != "" {
		t.Errorf("a call of a plugin that stops: %v", err)
	}
	select {
	case <-stopping:
		t.Error("the process is stopped during a call")
	default:
	}

	release()
	kit.Must(t, <-attached)
	<-stopping
	s.Stopped()
	kit.Must(t, s.Down(r.ctx()))
}

func TestPluginSupervisor_DoesNotAwaitTheCallsOfAPluginThatFails(t *testing.T) {
	r := newFixture(t)
	s, p, c := r.servingPlugin()
	conn, err := r.m.Client(r.ctx(), structs.CSIKindController, "ebs")
	kit.Must(t, err)
	release := p.Hang("ControllerPublishVolume")
	attached := make(chan error, 1)
	go func() { attached <- r.attach(conn.Client, "vol") }()
	kit.Must(t, p.Await(r.ctx(), "ControllerPublishVolume", 1))
	p.FailAlways("Probe", csitest.Error("Internal", "broken"))
	if e := c.next(t); e.Type != structs.TaskEventPluginUnhealthy {
		t.Fatalf("event %+v", e)
	}

	s.Stopping(r.ctx())
	select {
	case err := <-attached:
		t.Errorf("the call has ended: %v", err)
	default:
	}
	release()
	<-attached
	s.Stopped()
	kit.Must(t, s.Down(r.ctx()))
}
