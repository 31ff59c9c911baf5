package endpoints

import (
	"context"
	"fmt"
	"sync"
	"testing"
	"time"

	"berth/rpc"
	"berth/structs"
)

// TestList_WaitingReadersDelayNoWriter: claims are written as before while many blocking queries list 10,000
// volumes and repeat after each answer. In the end each sees the last claim.
func TestList_WaitingReadersDelayNoWriter(t *testing.T) {
	s := newServer(t)
	s.addNode("n1", "a")
	s.addVolumes(10_000)
	ids := s.addAllocs("a", "n1", 1000)
	write := func(from, to int) time.Duration {
		start := time.Now()
		for i, id := range ids[from:to] {
			s.claim(fmt.Sprintf("v%05d", 9999-from-i), id, "n1")
		}
		return time.Since(start)
	}
	alone := write(0, 400)
	ctx, cancel := context.WithTimeout(t.Context(), 10*time.Minute) // ends a hang
	defer cancel()
	const waiting = 20
	var ended, began sync.WaitGroup
	began.Add(waiting)
	for range waiting {
		ended.Go(func() {
			req := &structs.CSIVolumeListRequest{}
			for first := true; ; first = false {
				resp, err := rpc.Call(ctx, s.rpc, structs.CSIVolumeList, req)
				if err != nil {
					t.Errorf("a list did not see the last claim: %v", err)
					return
				}
				if first {
					began.Done()
				}
				writers := 0
				for _, v := range resp.Volumes {
					writers += v.CurrentWriters
				}
				if writers == len(ids) {
					return
				}
				req.MinIndex = resp.Index
			}
		})
	}
	began.Wait()
	busy := min(write(400, 600), write(600, 800), write(800, 1000)) // others use the machine, too
	ended.Wait()
	if limit := 15 * alone / 2; busy > limit {
		t.Errorf("400 claims took %v alone, 200 with %d waiting lists took %v", alone, waiting, busy)
	}
}
