package endpoints

import (
	"context"
	"fmt"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"berth/rpc"
	"berth/structs"
)

// TestLongLooksTakeTurns: so many look at once, and rest so long; who does not look long does not wait.
func TestLongLooksTakeTurns(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := newPace()
		began, looks := time.Now(), 4*cap(p)
		var wg sync.WaitGroup
		for range looks {
			wg.Go(func() {
				done, err := p.turn(t.Context(), time.Second)
				if err != nil {
					t.Error(err)
				}
				time.Sleep(time.Second)
				done(time.Second)
			})
		}
		synctest.Wait()
		done, err := p.turn(t.Context(), longLook-1)
		if err != nil || time.Since(began) != 0 {
			t.Errorf("a short look waited %v, %v", time.Since(began), err)
		}
		done(longLook)
		short, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		if _, err := p.turn(short, time.Second); err == nil {
			t.Error("it was a turn of somebody who waits no longer")
		}
		wg.Wait()
		if took, want := time.Since(began), 3*(1+rest)*time.Second+time.Second; took != want {
			t.Errorf("%d looks were over after %v, want %v", looks, took, want)
		}
		time.Sleep(rest*time.Second + 1)
		synctest.Wait()
		if len(p) != cap(p) {
			t.Errorf("%d of %d tokens are left", len(p), cap(p))
		}
	})
}

// TestListsThatWaitHoldUpNoWriter: claims are written as before while many wait for news of a list of 10,000
// volumes, each of them asking again when it was answered; and in the end each hears of the last claim.
func TestListsThatWaitHoldUpNoWriter(t *testing.T) {
	s := newServer(t)
	s.addNode("n1", "a")
	s.manyVolumes(10_000)
	ids := s.addAllocs("a", "n1", 1000)
	write := func(from, to int) time.Duration {
		start := time.Now()
		for i, id := range ids[from:to] {
			s.claim(fmt.Sprintf("v%05d", 9999-from-i), id, "n1")
		}
		return time.Since(start)
	}
	alone := write(0, 400)
	ctx, cancel := context.WithTimeout(t.Context(), 4*time.Minute)
	defer cancel()
	const waiting = 20
	var heard, began sync.WaitGroup
	began.Add(waiting)
	for range waiting {
		heard.Go(func() {
			req := &structs.CSIVolumeListRequest{}
			for first := true; ; first = false {
				resp, err := rpc.Call(ctx, s.rpc, structs.CSIVolumeList, req)
				if err != nil {
					t.Errorf("it was not heard of the last claim: %v", err)
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
	amid := min(write(400, 600), write(600, 800), write(800, 1000)) // others use the machine, too
	heard.Wait()
	if limit := 15 * alone / 2; amid > limit {
		t.Errorf("400 claims took %v alone, 200 amid %d lists that wait %v", alone, waiting, amid)
	}
}
