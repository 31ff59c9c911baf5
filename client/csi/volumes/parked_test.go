package volumes

import (
	"context"
	"fmt"
	"strings"
	"testing"

	spec "github.com/container-storage-interface/spec/lib/go/csi"

	"berth/client/csi/registry"
	"berth/csi"
	"berth/csi/csitest"
	"berth/structs"
	"berth/test/kit"
)

var nodeHalf = registry.Key{Kind: structs.CSIKindNode, ID: "ebs"}

// changes are all events after which a call that the plugin has rejected for good is repeated.
var changes = map[string]func(r *fixture, p *csitest.Plugin, k VolumeKey){
	"another allocation serves": func(r *fixture, p *csitest.Plugin, _ VolumeKey) {
		r.register("ebs", "plug2", p, nodeOnly)
		r.serving(structs.CSIKindNode, "ebs", "plug2")
	},
	"its process is restarted": func(r *fixture, p *csitest.Plugin, _ VolumeKey) {
		before := r.conn().Client
		kit.Must(r.t, r.registry.Deregister(nodeHalf, "plug"))
		r.register("ebs", "plug", p, nodeOnly)
		waitFor(r.t, r, func() bool {
			c, err := r.m.Healthy(structs.CSIKindNode, "ebs")
			return err == nil && c.Client != before
		})
	},
	"another process behind its socket": func(r *fixture, p *csitest.Plugin, _ VolumeKey) {
		before := r.conn()
		connections := before.Connections()
		kit.Must(r.t, p.Restart())
		for ctx := r.ctx(); before.Connections() == connections && ctx.Err() == nil; {
			r.fingerprint()
		}
		waitFor(r.t, r, func() bool {
			r.fingerprint()
			return r.current().report.Load().Healthy
		})
	},
	"another version": func(r *fixture, p *csitest.Plugin, _ VolumeKey) {
		name := r.conn().Info.Provider
		p.Answer("GetPluginInfo", &spec.GetPluginInfoResponse{Name: name, VendorVersion: "2.0"})
		r.fingerprint()
	},
	"the agent is started again": func(r *fixture, _ *csitest.Plugin, _ VolumeKey) {
		r.crash()
		r.boot()
	},
	"an operator asks": func(r *fixture, _ *csitest.Plugin, k VolumeKey) {
		r.v.UnparkCalls(k)
	},
}

func (r *fixture) conn() *Conn {
	r.t.Helper()
	c, err := r.m.Client(r.ctx(), structs.CSIKindNode, "ebs")
	kit.Must(r.t, err)
	return c
}

func (r *fixture) current() *instance {
	r.m.mu.Lock()
	defer r.m.mu.Unlock()
	return r.m.slots[nodeHalf].current
}

// fingerprint makes one that follow would make later.
func (r *fixture) fingerprint() {
	i := r.current()
	i.setReport(r.m.fingerprint(r.ctx(), i))
}

// An opposite call that the plugin rejects for good is made once to each process of the plugin.
func TestDuty_C9_C13_ARejectedCallIsMadeAgainOnlyWhenSomethingHasChanged(t *testing.T) {
	for _, rpc := range []string{"NodeUnpublishVolume", "NodeUnstageVolume"} {
		for _, code := range []string{"InvalidArgument", "Unimplemented"} {
			for name, change := range changes {
				t.Run(rpc+"/"+code+"/"+name, func(t *testing.T) {
					checkParkedUntil(t, rpc, code, change)
				})
			}
		}
	}
}

func checkParkedUntil(t *testing.T, rpc, code string, change func(*fixture, *csitest.Plugin, VolumeKey)) {
	r := newFixture(t)
	p := r.plugin("ebs", "plug", nodeOnly)
	u := use("data", "a1")
	r.up(u)
	p.Forget()
	p.FailAlways(rpc, csitest.Error(code, "never"))
	first := r.v.Down(r.ctx(), u.VolumeKey, u.AllocID)
	const remedy = "restart or replace its allocation plug"
	if csi.Code(first) != code || structs.CodeOf(first) != code ||
		!strings.Contains(first.Error(), remedy) {
		t.Fatalf("got %v", first)
	}
	made := volumeCalls(p)
	for range 10 {
		r.fingerprint()
		down := r.v.Down(r.ctx(), u.VolumeKey, u.AllocID)
		detach := r.detach(r.ctx(), u.VolumeKey, u.AllocID, func(string) bool {
			return false
		})
		for _, err := range []error{down, detach} {
			if err == nil || err.Error() != first.Error() ||
				structs.KindOf(err) != structs.KindOf(first) {
				t.Fatalf("got %v\nfirst %v", err, first)
			}
		}
	}
	if got := volumeCalls(p); got != made || p.Count(rpc) != 1 {
		t.Fatalf("the calls are %s", got)
	}
	if held, err := r.v.ForAlloc(u.AllocID); err != nil || len(held) != 1 {
		t.Errorf("held: %v, %v", held, err)
	}
	change(r, p, u.VolumeKey)
	err := r.v.Down(r.ctx(), u.VolumeKey, u.AllocID)
	if csi.Code(err) != code || p.Count(rpc) != 2 {
		t.Fatalf("after the change: %v, %d calls", err, p.Count(rpc))
	}
	if err := r.v.Down(r.ctx(), u.VolumeKey, u.AllocID); csi.Code(err) != code || p.Count(rpc) != 2 {
		t.Fatalf("the process that rejected the call was called again: %v, %d calls", err, p.Count(rpc))
	}
	p.Script(rpc, nil)
	r.v.UnparkCalls(u.VolumeKey)
	r.down(u)
	for _, c := range p.Calls(rpc) {
		if got, want := fmt.Sprint(c.Request), fmt.Sprint(p.Calls(rpc)[0].Request); got != want {
			t.Errorf("the call was repeated with other arguments:\n%s\n%s", got, want)
		}
	}
	if left := r.v.parked.Len(); left > 0 {
		t.Errorf("%d calls are still parked", left)
	}
	r.clean(p, "ext-data")
}

// The answer to a call counts also if its caller has stopped waiting.
func TestDuty_C9_C13_ALateRejectionParksTheCall(t *testing.T) {
	r := newFixture(t)
	p := r.plugin("ebs", "plug", nodeOnly)
	u := use("data", "a1")
	r.up(u)
	answer := make(chan struct{})
	p.Script("NodeUnpublishVolume", func(context.Context, any) (any, error) {
		<-answer
		return nil, csitest.Error("Unimplemented", "never")
	})
	ctx, giveUp := context.WithCancel(r.ctx())
	down := make(chan error, 1)
	go func() { down <- r.v.Down(ctx, u.VolumeKey, u.AllocID) }()
	kit.Must(t, p.Await(r.ctx(), "NodeUnpublishVolume", 1))
	giveUp()
	if err := <-down; !structs.IsKind(err, structs.KindTimeout) {
		t.Fatalf("got %v", err)
	}
	close(answer)
	err := r.v.Down(r.ctx(), u.VolumeKey, u.AllocID)
	if n := p.Count("NodeUnpublishVolume"); csi.Code(err) != "Unimplemented" || n != 1 {
		t.Errorf("%v after %d calls", err, n)
	}
	p.Script("NodeUnpublishVolume", nil)
	r.v.UnparkCalls(u.VolumeKey)
	r.down(u)
	r.clean(p, "ext-data")
}
