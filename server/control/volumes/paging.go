package volumes

import (
	"context"
	"maps"
	"slices"
	"time"

	"berth/internal/backoff"
	"berth/server/nodeconn"
	"berth/state"
	"berth/structs"
	"berth/structs/storage"
)

// The budget of a list.
const (
	// pageSize is the number of entries that a page is asked for. A plugin may answer with more.
	pageSize = 1000
	// Pause is the time between two pages.
	Pause = 100 * time.Millisecond
	// Time bounds a list, and with Pause its pages.
	Time = 10 * time.Minute
	// MaxRestarts bounds how often the list of a place begins anew after ABORTED.
	MaxRestarts = 3
)

// placesOf returns the reachable parts of the storage of a plugin, each with the nodes of its controllers:
// controllers of one topology know the same volumes. It reports whether another part is not reachable.
func placesOf(tx *state.ReadTx, pluginID string) (up [][]string, someDown bool) {
	nodes := map[string][]string{}
	healthy, others := nodeconn.AllControllers(tx, pluginID)
	for _, c := range healthy {
		name := storage.TopologyText(c.Topology)
		nodes[name] = append(nodes[name], c.NodeID)
	}
	for _, c := range others {
		someDown = someDown || nodes[storage.TopologyText(c.Topology)] == nil
	}
	for _, name := range slices.Sorted(maps.Keys(nodes)) {
		up = append(up, nodes[name])
	}
	return up, someDown
}

// askPage reads the page of a token at the controller on a node. It returns the token of the next page, ""
// after the last one.
type askPage func(ctx context.Context, node, token string) (next string, err error)

// listPages lists a part of the storage at its first controller that answers. The tokens of the pages are its
// own. ABORTED rejects a token, and the list begins anew with an empty one (CSI spec, ListVolumes errors).
//
// It lists what a CSI plugin has, page by page, in all parts of its storage.
func listPages(ctx context.Context, nodes []string, page askPage) (err error) {
	for _, node := range nodes {
		for range MaxRestarts + 1 {
			err = listAt(ctx, node, page)
			if structs.CodeOf(err) != structs.CSICodeAborted {
				break
			}
		}
		if err == nil || !nodeconn.TryNext(err) || ctx.Err() != nil {
			break
		}
	}
	return err
}

// listAt lists what the controller on a node knows.
func listAt(ctx context.Context, node string, page askPage) error {
	token := ""
	for {
		next, err := page(ctx, node, token)
		if err != nil || next == "" {
			return err
		}
		if !backoff.Sleep(ctx, Pause) {
			return structs.Timeoutf("the list has not ended after %s", Time)
		}
		token = next
	}
}

// wasReached reports whether the controllers of a volume were reachable at the begin and at the end of a
// list. A volume without a topology may be in any part of the storage.
func wasReached(begin, end *state.ReadTx, v *structs.CSIVolume, someDown bool) bool {
	return len(nodeconn.VolumeControllers(begin, v)) > 0 && len(nodeconn.VolumeControllers(end, v)) > 0 &&
		(len(v.Topologies) > 0 || !someDown)
}
