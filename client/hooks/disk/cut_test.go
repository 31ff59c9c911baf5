package disk

import (
	"context"
	"testing"
	"testing/synctest"

	"berth/internal/backoff/cuttest"
	"berth/structs"
	"berth/structs/nodecalls"
	"berth/test/kit"
)

// cutServers do not answer the calls of a method during a cut.
type cutServers struct {
	*cluster
	cuttest.Cut
	method string
}

func (s *cutServers) Call(ctx context.Context, method string, req, resp any) error {
	if method == s.method {
		if err := s.Attempt(); err != nil {
			return err
		}
	}
	return s.cluster.Call(ctx, method, req, resp)
}

func TestUp_AsksAgainAtTheEndOfACut(t *testing.T) {
	for _, method := range []string{structs.AllocGet.Name, nodecalls.AllocData.Name} {
		_, to := twoNodes(t)
		s := &cutServers{cluster: to.cluster, method: method}
		synctest.Test(t, func(t *testing.T) {
			h, env := to.hook("b")
			d := h.(*disk)
			d.Servers = s
			d.ServersBack = &s.Back
			kit.Must(t, h.Up(t.Context(), env))
		})
		to.expect("b", movedFiles)
		before, first, second := s.Pauses()
		if before != retryPause.Max || first != 0 || second != retryPause.Min {
			t.Errorf("%s: the pause is %s before the end of the cut, then %s and %s",
				method, before, first, second)
		}
	}
}
