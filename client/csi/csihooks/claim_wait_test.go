package csihooks

import (
	"testing"

	"berth/structs"
	"berth/test/kit"
)

// Servers with a restored state may have an older index than the MinIndex of the node's blocking query.
func TestVolumes_QueryFromIndexZeroAfterAFailure(t *testing.T) {
	r := newFixture(t)
	r.plugin("ebs")
	r.servers.blocked["data"] = "another has it"
	e := allocEnv("a1", map[string]string{"d": "data"})
	h := r.volumes(e)
	done := make(chan error, 1)
	go func() { done <- h.Up(r.ctx(), e) }()
	kit.Must(t, r.servers.await(r.ctx(), "CSIVolume.GetClaim", 2))
	r.servers.change(func() {
		r.servers.fail["CSIVolume.GetClaim"] = []error{structs.Errorf(structs.KindUnavailable,
			"this server lost leadership")}
	})
	kit.Must(t, r.servers.await(r.ctx(), "CSIVolume.GetClaim", 4))
	r.servers.change(func() { clear(r.servers.blocked) })
	kit.Must(t, <-done)
	r.servers.mu.Lock()
	zeros := 0
	for _, index := range r.servers.indexes {
		if index == 0 {
			zeros++
		}
	}
	r.servers.mu.Unlock()
	if zeros < 2 {
		t.Errorf("waited for a change after %v", r.servers.indexes)
	}
	kit.Must(t, h.Down(r.ctx()))
	r.clean()
}

// A detach names the node as the plugin does, also when the servers do not know that name any more.
func TestDuty_G2_ANodeRecordsItsIDAtThePlugin(t *testing.T) {
	r := newFixture(t)
	r.plugin("ebs")
	r.servers.publish = structs.Secrets{"dev": "/dev/x"}
	e := allocEnv("a1", map[string]string{"d": "data"})
	h := r.volumes(e)
	kit.Must(t, h.Up(r.ctx(), e))
	i, err := r.m.Volumes().Inventory()
	kit.Must(t, err)
	if len(i.Held) != 1 || i.Held[0].ExternalNodeID != "i-1" {
		t.Errorf("%+v", i)
	}
	kit.Must(t, h.Down(r.ctx()))
	r.clean()
}
