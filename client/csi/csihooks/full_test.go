package csihooks

import (
	"testing"
	"time"

	spec "github.com/container-storage-interface/spec/lib/go/csi"

	"berth/structs"
	"berth/test/kit"
)

// TestDuty_G11_AFailedAttachToAFullNodeRefreshesItsLimit has servers that tell the waiting allocation of an
// attach, which the controller has rejected on another node.
func TestDuty_G11_AFailedAttachToAFullNodeRefreshesItsLimit(t *testing.T) {
	r := newFixture(t)
	r.refresh = time.Millisecond
	r.crash()
	r.boot()
	p := r.plugin("ebs")
	kit.Must(t, p.Await(r.ctx(), "NodeGetInfo", 1))
	r.servers.blocked["data"] = "the attach failed"
	e := allocEnv("a1", map[string]string{"d": "data"})
	h := r.volumes(e)
	done := make(chan error, 1)
	go func() { done <- h.Up(r.ctx(), e) }()
	p.Answer("NodeGetInfo", &spec.NodeGetInfoResponse{NodeId: "node-1", MaxVolumesPerNode: 2})
	full := structs.OperationError{Code: structs.CSICodeExhausted, Time: 2}
	r.servers.change(func() { r.servers.failed = &full })
	kit.Must(t, p.Await(r.ctx(), "NodeGetInfo", 2))
	again := full
	again.Time = 3
	r.servers.change(func() { r.servers.failed = &again })
	kit.Must(t, p.Await(r.ctx(), "NodeGetInfo", 3))

	r.servers.change(func() {
		r.servers.failed = nil
		clear(r.servers.blocked)
	})
	kit.Must(t, <-done)
	kit.Must(t, h.Down(r.ctx()))
	r.clean()
}

func TestIsNewlyFull(t *testing.T) {
	full := &structs.OperationError{Code: structs.CSICodeExhausted, Time: 5}
	for name, c := range map[string]struct {
		attachment *structs.CSIAttachment
		seen       int64
		want       bool
	}{
		"no attachment":     {nil, 0, false},
		"no failure":        {&structs.CSIAttachment{}, 0, false},
		"another failure":   {&structs.CSIAttachment{LastError: &structs.OperationError{Code: "Aborted", Time: 5}}, 0, false},
		"the first failure": {&structs.CSIAttachment{LastError: full}, 0, true},
		"the same failure":  {&structs.CSIAttachment{LastError: full}, 5, false},
		"the next failure":  {&structs.CSIAttachment{LastError: full}, 4, true},
	} {
		if got := isNewlyFull(c.attachment, c.seen); got != c.want {
			t.Errorf("%s: got %t", name, got)
		}
	}
}
