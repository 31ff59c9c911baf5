package diskhook

import (
	"context"
	"testing"
	"testing/synctest"
	"time"

	"berth/internal/backoff"
	"berth/structs"
)

// cutServers do not answer the first calls of a method. The cut ends during the last of these.
type cutServers struct {
	*cluster
	method string
	back   backoff.Recovery
	at     []time.Time
}

const callsInCut = 8

func (s *cutServers) Call(ctx context.Context, method string, req, resp any) error {
	if method != s.method {
		return s.cluster.Call(ctx, method, req, resp)
	}
	s.at = append(s.at, time.Now())
	if len(s.at) == callsInCut {
		s.back.Announce()
	}
	if len(s.at) <= callsInCut {
		return structs.Unavailablef("no route")
	}
	return s.cluster.Call(ctx, method, req, resp)
}

func TestUp_AsksAgainAtTheEndOfACut(t *testing.T) {
	for _, method := range []string{structs.AllocGet.Name, structs.AllocData.Name} {
		_, to := twoNodes(t)
		s := &cutServers{cluster: to.cluster, method: method}
		synctest.Test(t, func(t *testing.T) {
			h, env := to.hook("b")
			d := h.(*disk)
			d.Servers = s
			d.ServersBack = &s.back
			must(t, h.Up(t.Context(), env))
		})
		to.expect("b", movedFiles)
		before := s.at[callsInCut-1].Sub(s.at[callsInCut-2])
		after := s.at[callsInCut].Sub(s.at[callsInCut-1])
		if before != retryPause.Max || after != 0 {
			t.Errorf("%s: the pause is %s before the end of the cut, and %s after it", method, before, after)
		}
	}
}
