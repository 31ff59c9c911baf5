package csirandom

import (
	"context"
	"math/rand/v2"
	"sync"
	"sync/atomic"
	"time"

	"berth/csi/csitest"
	"berth/test/csitrace"
)

// faulty are the RPCs that fail at random: those with an effect on storage, the lists and the statistics.
var faulty = map[string]bool{
	"CreateVolume": true, "DeleteVolume": true, "ControllerPublishVolume": true,
	"ControllerUnpublishVolume": true, "ControllerExpandVolume": true, "ControllerModifyVolume": true,
	"CreateSnapshot": true, "DeleteSnapshot": true, "NodeStageVolume": true, "NodeUnstageVolume": true,
	"NodePublishVolume": true, "NodeUnpublishVolume": true, "NodeExpandVolume": true,
	"ListVolumes": true, "ListSnapshots": true, "NodeGetVolumeStats": true,
	"CreateVolumeGroupSnapshot": true, "DeleteVolumeGroupSnapshot": true,
}

// The codes of calls that fail without an effect, and of calls that have had theirs.
var (
	codesBefore = []string{
		"Unavailable", "Aborted", "Internal", "ResourceExhausted", "DeadlineExceeded",
		"Unauthenticated", "InvalidArgument",
	}
	codesAfter = []string{"Unavailable", "DeadlineExceeded", "Unknown", "Internal"}
)

// drawnText is in the text of each failure.
const drawnText = "this failure was drawn"

// faults decides how calls fail.
type faults struct {
	ended atomic.Bool
	mu    sync.Mutex
	dice  *rand.Rand
}

// fate is the drawn end of one call.
type fate struct {
	before, after string // the code with which it fails, "" for none
	pause         time.Duration
}

func (f *faults) draw(rpc string) (drawn fate) {
	if f.ended.Load() || !faulty[rpc] {
		return fate{}
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	switch f.dice.IntN(20) {
	case 0:
		drawn.before = codesBefore[f.dice.IntN(len(codesBefore))]
	case 1:
		drawn.after = codesAfter[f.dice.IntN(len(codesAfter))]
	case 2, 3:
		drawn.pause = time.Duration(f.dice.IntN(50)) * time.Millisecond
	case 4:
		drawn.pause = time.Duration(f.dice.IntN(500)) * time.Millisecond
	}
	return drawn
}

// around returns what ends the calls of an instance as they are drawn.
func (f *faults) around(ctx context.Context, rpc string, req any, serve csitrace.Serve) (any, error) {
	drawn := f.draw(rpc)
	if drawn.pause > 0 {
		select {
		case <-time.After(drawn.pause):
		case <-ctx.Done():
			return nil, ctx.Err()
		}
	}
	if drawn.before != "" {
		return nil, csitest.Error(drawn.before, "%s, without an effect", drawnText)
	}
	answer, err := serve(ctx, req)
	if err == nil && drawn.after != "" {
		return nil, csitest.Error(drawn.after, "%s, after the effect", drawnText)
	}
	return answer, err
}
