package endpoints_test

import (
	"context"
	"fmt"
	"sync"
	"testing"
	"time"

	"berth/rpc"
	"berth/structs"
)

// waitingLists is the number of blocking queries of the next test.
const waitingLists = 20

// TestList_WaitingReadersDelayNoWriter: claims are written as before while many blocking queries list 10,000
// volumes and repeat after each answer. In the end each sees the last claim. Another process may take the
// machine while one of the two times is measured, so a rare ratio is measured again.
func TestList_WaitingReadersDelayNoWriter(t *testing.T) {
	const attempts = 5
	for attempt := range attempts {
		alone, busy := timeClaims(t)
		if busy <= 15*alone/2 || t.Failed() {
			return
		}
		t.Logf("400 claims took %v alone, 200 with %d waiting lists took %v", alone, waitingLists, busy)
		if attempt == attempts-1 {
			t.Error("the lists delay the claims")
		}
	}
}

// timeClaims returns the time of 400 claims on an idle server, and of 200 while lists wait for them.
func timeClaims(t *testing.T) (alone, busy time.Duration) {
	s := newServer(t)
	s.AddNode("n1", "a")
	s.addVolumes(10_000)
	ids := s.AddAllocs("a", "n1", 1000)
	write := func(from, to int) time.Duration {
		start := time.Now()
		for i, id := range ids[from:to] {
			s.Claim(fmt.Sprintf("v%05d", 9999-from-i), id, "n1")
		}
		return time.Since(start)
	}

	alone = write(0, 400)
	ctx, cancel := context.WithTimeout(t.Context(), 10*time.Minute) // ends a hang
	defer cancel()
	var ended, began sync.WaitGroup
	began.Add(waitingLists)
	for range waitingLists {
		ended.Go(func() { s.followVolumes(ctx, len(ids), sync.OnceFunc(began.Done)) })
	}
	began.Wait()
	busy = min(write(400, 600), write(600, 800), write(800, 1000)) // others use the machine, too
	ended.Wait()
	return alone, busy
}

// followVolumes lists all volumes after each change, until they have a number of writers.
func (s *server) followVolumes(ctx context.Context, writers int, began func()) {
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
