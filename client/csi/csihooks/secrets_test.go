package csihooks

import (
	"testing"
	"time"

	"berth/csi/csitest"
	"berth/structs"
	"berth/test/kit"
)

// The secrets of a volume change while the plugin fails: a call that is repeated has the present ones.
func TestVolumes_RepeatACallWithThePresentSecrets(t *testing.T) {
	r := newFixture(t)
	r.confirmAfter = time.Nanosecond
	p := r.plugin("ebs")
	release := p.Hang("NodeStageVolume")
	p.Fail("NodeStageVolume", csitest.Error("Unavailable", "starting"))
	e := allocEnv("a1", map[string]string{"d": "data"})
	h := r.volumes(e)
	done := make(chan error, 1)
	go func() { done <- h.Up(r.ctx(), e) }()
	kit.Must(t, p.Await(r.ctx(), "NodeStageVolume", 1))
	r.servers.change(func() {
		rotated := r.servers.volumes["data"].Copy()
		rotated.Secrets = structs.Secrets{"pw": "rotated"}
		r.servers.volumes["data"] = rotated
	})
	release()
	kit.Must(t, <-done)
	calls := p.Calls("NodeStageVolume", "NodePublishVolume")
	var got []string
	for _, c := range calls {
		got = append(got, c.Get("secrets.pw"))
	}
	if len(got) != 3 || got[0] != "x" || got[1] != "rotated" || got[2] != "rotated" {
		t.Errorf("the calls had the secrets %q", got)
	}
	kit.Must(t, h.Down(r.ctx()))
	r.clean()
}
