package csihooks

import (
	"testing"

	"berth/test/kit"
)

// TestVolumes_AreNearlyUpOnceAllClaimsAreGranted lets one of two claims wait, which may take long. After its
// grant only the plugin takes time.
func TestVolumes_AreNearlyUpOnceAllClaimsAreGranted(t *testing.T) {
	r := newFixture(t)
	p := r.plugin("ebs")
	r.servers.change(func() { r.servers.blocked["logs"] = "another allocation has it" })
	e := allocEnv("a1", map[string]string{"one": "data", "two": "logs"})
	nearly := make(chan struct{})
	e.NearlyUp = func() { close(nearly) }
	h := r.volumes(e)
	up := make(chan error, 1)
	go func() { up <- h.Up(r.ctx(), e) }()
	kit.Must(t, p.Await(r.ctx(), "NodePublishVolume", 1))
	kit.Must(t, r.servers.await(r.ctx(), "CSIVolume.GetClaim", 2))
	select {
	case <-nearly:
		t.Error("nearly up while a claim waits")
	default:
	}
	release := p.Hang("NodePublishVolume")
	r.servers.change(func() { delete(r.servers.blocked, "logs") })
	<-nearly // although the plugin does not answer
	release()
	kit.Must(t, <-up)
	kit.Must(t, h.Down(r.ctx()))
	r.clean()
}
