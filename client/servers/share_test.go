package servers

import (
	"context"
	"fmt"
	"slices"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"berth/rpc"
	"berth/structs"
)

// far are servers whose answers take a second. They refuse every request with the volume "bad" in it.
type far struct {
	mu    sync.Mutex
	calls map[string]int
	seen  []string

	readOnly int // volumes that turned so
}

func (f *far) Call(_ context.Context, method string, req, resp any) error {
	time.Sleep(time.Second)
	f.mu.Lock()
	defer f.mu.Unlock()
	f.calls[method]++
	var volumes []string
	switch r := req.(type) {
	case *structs.CSIVolumeClaimRequest:
		for _, c := range r.Claims {
			volumes = append(volumes, c.VolumeID)
		}
		resp.(*structs.CSIVolumeClaimResponse).Claims = r.Claims
		resp.(*structs.CSIVolumeClaimResponse).Index = 7
	case *structs.CSIVolumeUnpublishRequest:
		for _, c := range r.Claims {
			volumes = append(volumes, c.VolumeID)
		}
		f.readOnly += len(r.TurnedReadOnly)
		resp.(*structs.Empty).Index = 8
	}
	if slices.Contains(volumes, "bad") {
		return structs.Errorf(structs.KindConflict, "it is bad")
	}
	f.seen = append(f.seen, volumes...)
	return nil
}

// TestFiftyAllocationsShareTwoCalls: they claim, and release, at the same time; two volumes each.
func TestFiftyAllocationsShareTwoCalls(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := &far{calls: map[string]int{}}
		s := Share(f)
		var wg sync.WaitGroup
		for i := range 50 {
			wg.Go(func() {
				a, b := fmt.Sprintf("a%d", i), fmt.Sprintf("b%d", i)
				resp, err := rpc.Call(t.Context(), s, structs.CSIVolumeClaim, &structs.CSIVolumeClaimRequest{NodeID: "n", SecretID: "s",
					Claims: []*structs.CSIClaim{{VolumeID: a}, {VolumeID: b}}})
				if err != nil || resp.Index != 7 || len(resp.Claims) != 2 || resp.Claims[0].VolumeID != a || resp.Claims[1].VolumeID != b {
					t.Errorf("%d: %+v, %v", i, resp, err)
				}
				if done, err := rpc.Call(t.Context(), s, structs.CSIVolumeUnpublish, &structs.CSIVolumeUnpublishRequest{NodeID: "n", SecretID: "s",
					Claims: []structs.CSIClaimKey{{VolumeID: a}, {VolumeID: b}}, TurnedReadOnly: []structs.CSIClaimKey{{VolumeID: b}}}); err != nil || done.Index != 8 {
					t.Errorf("%d: %v", i, err)
				}
			})
		}
		wg.Wait()
		if n := f.calls[structs.CSIVolumeClaim.Name]; n != 2 {
			t.Errorf("%d calls to claim", n)
		}
		if n := f.calls[structs.CSIVolumeUnpublish.Name]; n > 3 {
			t.Errorf("%d calls to release", n)
		}
		if len(f.seen) != 200 || f.readOnly != 50 {
			t.Errorf("%d claims and releases, %d of volumes that turned read-only", len(f.seen), f.readOnly)
		}
	})
}

// TestWhoIsRefusedWithOthersIsHeardAlone: the fault of one is nobody else's.
func TestWhoIsRefusedWithOthersIsHeardAlone(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := &far{calls: map[string]int{}}
		s := Share(f)
		var wg sync.WaitGroup
		for _, id := range []string{"v1", "bad", "v2", "v3"} {
			wg.Go(func() {
				_, err := rpc.Call(t.Context(), s, structs.CSIVolumeClaim, &structs.CSIVolumeClaimRequest{NodeID: "n", Claims: []*structs.CSIClaim{{VolumeID: id}}})
				if structs.IsKind(err, structs.KindConflict) != (id == "bad") {
					t.Errorf("%s: %v", id, err)
				}
				_, err = rpc.Call(t.Context(), s, structs.CSIVolumeUnpublish, &structs.CSIVolumeUnpublishRequest{NodeID: "n", Claims: []structs.CSIClaimKey{{VolumeID: id}}})
				if structs.IsKind(err, structs.KindConflict) != (id == "bad") {
					t.Errorf("%s: %v", id, err)
				}
			})
		}
		wg.Wait()
		slices.Sort(f.seen)
		if !slices.Equal(f.seen, []string{"v1", "v1", "v2", "v2", "v3", "v3"}) {
			t.Errorf("done: %v", f.seen)
		}
	})
}
