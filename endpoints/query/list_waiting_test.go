package query_test

import (
	"context"
	"fmt"
	"sync"
	"testing"
	"time"

	"berth/endpoints/endpointstest"
	"berth/rpc"
	"berth/structs"
)

// waitingLists is the number of blocking queries of the next test.
const waitingLists = 20

// TestList_WaitingReadersSeeTheLastClaim: many blocking queries list all volumes, and repeat after each
// answer, while claims are written. TestList_SlowReaderDelaysNoWriter holds that a list delays no claim.
func TestList_WaitingReadersSeeTheLastClaim(t *testing.T) {
	s := endpointstest.New(t)
	s.AddNode("n1", "a")
	addVolumes(s, 1000)
	ids := s.AddAllocs("a", "n1", 200)
	ctx, cancel := context.WithTimeout(t.Context(), 10*time.Minute) // ends a hang
	defer cancel()
	var ended, began sync.WaitGroup
	began.Add(waitingLists)
	for range waitingLists {
		ended.Go(func() { followVolumes(s, ctx, len(ids), sync.OnceFunc(began.Done)) })
	}
	began.Wait()
	for i, id := range ids {
		s.Claim(fmt.Sprintf("v%05d", 999-i), id, "n1")
	}
	ended.Wait()
}

// followVolumes lists all volumes after each change, until they have a number of writers.
func followVolumes(s *endpointstest.Server, ctx context.Context, writers int, began func()) {
	defer began() // also if it fails
	req := &structs.CSIVolumeListRequest{}
	for {
		resp, err := rpc.Call(ctx, s.RPC, structs.CSIVolumeList, req)
		if err != nil {
			s.T.Errorf("a list did not see the last claim: %v", err)
			return
		}
		began()
		seen := 0
		for _, v := range resp.Volumes {
			seen += v.CurrentWriters
		}
		if seen == writers {
			return
		}
		req.MinIndex = resp.Index
	}
}
