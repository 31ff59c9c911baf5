package csihooks

import (
	"maps"
	"testing"

	"berth/csi/csitest"
	"berth/structs"
	"berth/test/kit"
)

func TestDuty_K2_K17_NothingIsStagedOrPublishedBeforeTheAttach(t *testing.T) {
	r := newFixture(t)
	p := r.plugin("ebs")
	r.servers.blocked["data"] = "being attached to node n1"
	e := allocEnv("a1", map[string]string{"d": "data"})
	h := r.volumes(e)
	done := make(chan error, 1)
	go func() { done <- h.Up(r.ctx(), e) }()
	for !r.hasProgress("being attached") {
		select {
		case err := <-done:
			t.Fatalf("Up did not wait for the attach: %v", err)
		default:
			r.servers.change(func() {})
		}
	}
	if calls := p.Calls("NodeStageVolume", "NodePublishVolume"); len(calls) > 0 {
		t.Errorf("%d calls before the attach", len(calls))
	}
	r.servers.change(func() { delete(r.servers.blocked, "data") })
	kit.Must(t, <-done)
	if p.Count("NodeStageVolume") != 1 || p.Count("NodePublishVolume") != 1 {
		t.Error("the volume is not brought after the attach")
	}
	kit.Must(t, h.Down(r.ctx()))
	r.clean()
}

func TestDuty_K4_ThePublishContextIsThatOfTheAttach(t *testing.T) {
	for name, attached := range map[string]structs.Secrets{
		"with attach":    {"device": "/dev/xvdf", "lun": "3"},
		"without attach": nil,
	} {
		t.Run(name, func(t *testing.T) {
			r := newFixture(t)
			p := r.plugin("ebs")
			r.servers.publish = attached
			e := allocEnv("a1", map[string]string{"d": "data"})
			h := r.volumes(e)
			kit.Must(t, h.Up(r.ctx(), e))
			calls := p.Calls("NodeStageVolume", "NodePublishVolume")
			if len(calls) != 2 {
				t.Fatalf("%d calls, want 2", len(calls))
			}
			for _, c := range calls {
				req := c.Request.(interface{ GetPublishContext() map[string]string })
				if got := req.GetPublishContext(); !maps.Equal(got, attached) {
					t.Errorf("%s: publish_context %v, want %v", c.RPC, got, attached)
				}
			}
			kit.Must(t, h.Down(r.ctx()))
			r.clean()
		})
	}
}

// The servers detach a volume when its claims are released.
func TestDuty_K12_K31_AClaimIsReleasedAfterUnpublishAndUnstage(t *testing.T) {
	r := newFixture(t)
	p := r.plugin("ebs")
	e := allocEnv("a1", map[string]string{"d": "data"})
	h := r.volumes(e)
	kit.Must(t, h.Up(r.ctx(), e))
	for _, rpc := range []string{"NodeUnpublishVolume", "NodeUnstageVolume"} {
		p.FailAlways(rpc, csitest.Error("Internal", "busy"))
		if err := h.Down(r.ctx()); err == nil {
			t.Errorf("%s fails, but Down reports success", rpc)
		}
		if p.Count(rpc) != 1 {
			t.Errorf("%s: %d calls", rpc, p.Count(rpc))
		}
		if n := r.servers.count("CSIVolume.Unpublish"); n != 0 || len(r.servers.held()) != 1 {
			t.Errorf("the claim is released though %s has failed", rpc)
		}
		p.Script(rpc, nil)
		p.Forget()
	}
	kit.Must(t, h.Down(r.ctx()))
	r.clean()
}
