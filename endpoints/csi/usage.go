package csi

import (
	"cmp"
	"context"
	"fmt"
	"maps"
	"slices"
	"strings"
	"sync"
	"time"

	"berth/endpoints/core"
	"berth/internal/mvcc"
	"berth/server/nodeconn"
	"berth/state"
	"berth/state/csi"
	"berth/structs"
	"berth/structs/storage"
)

const (
	// usageCalls bounds the nodes that a request asks at the same time.
	usageCalls = 32
	// usageTime bounds the calls of all nodes.
	usageTime = 10 * time.Second
	// maxUsageWarnings bounds the nodes that an answer names because they did not answer.
	maxUsageWarnings = 10
)

// Usages serves the use of volumes. The servers store none: a request asks the nodes that have the volumes
// mounted, and they answer from memory.
type Usages struct{ *core.Server }

// List asks the nodes for the use of the volumes that the caller may see. A node that does not answer is a
// warning.
func (p Usages) List(
	ctx context.Context,
	tx *state.ReadTx,
	req *storage.VolumeUsageRequest,
	resp *storage.VolumeUsageResponse,
) error {
	resp.Health = reportedHealth(tx, req)
	nodes := volumeHolders(tx, req)
	if len(nodes) > storage.MaxUsageNodes {
		return structs.Preconditionf("the volumes are on %d nodes, and one request asks at most %d: "+
			"name a volume or a namespace", len(nodes), storage.MaxUsageNodes)
	}

	ctx, cancel := context.WithTimeout(ctx, usageTime)
	defer cancel()
	var (
		wg    sync.WaitGroup
		mu    sync.Mutex
		slots = make(chan struct{}, usageCalls)
	)
	for _, id := range slices.Sorted(maps.Keys(nodes)) {
		slots <- struct{}{}
		wg.Go(func() {
			defer func() { <-slots }()
			usages, err := nodeconn.AskUsage(ctx, p.Nodes, id, nodes[id])
			mu.Lock()
			defer mu.Unlock()
			if err != nil {
				text := fmt.Sprintf("node %s does not tell the use of its volumes: %v", structs.ShortID(id), err)
				resp.Warnings = append(resp.Warnings, text)
			}
			resp.Usages = append(resp.Usages, usages...)
		})
	}
	wg.Wait()

	slices.SortFunc(resp.Usages, func(a, b *storage.VolumeUsage) int {
		return cmp.Or(
			storage.CompareUsageKeys(nodeconn.UsageKeyOf(a), nodeconn.UsageKeyOf(b)),
			strings.Compare(a.NodeID, b.NodeID))
	})
	slices.Sort(resp.Warnings)
	if more := len(resp.Warnings) - maxUsageWarnings; more > 0 {
		resp.Warnings = append(resp.Warnings[:maxUsageWarnings], fmt.Sprintf("%d more nodes do not answer", more))
	}
	return nil
}

// reported returns what the controllers say of the wanted volumes.
func reportedHealth(
	tx *state.ReadTx, req *storage.VolumeUsageRequest,
) (all []*storage.VolumeHealth) {
	for h := range csi.HealthFrom(tx, req.RequestNamespace()) {
		wanted := req.VolumeID == "" || req.VolumeID == h.VolumeID
		if wanted && (req.Sees == nil || req.Sees(h.Namespace, h.VolumeID)) {
			all = append(all, h)
		}
	}
	return all
}

// holders returns the nodes on which the wanted volumes are claimed, each with its volumes.
func volumeHolders(tx *state.ReadTx, req *storage.VolumeUsageRequest) map[string][]storage.UsageKey {
	rows := csi.ClaimsFrom(tx, req.RequestNamespace(), req.VolumeID, mvcc.Page{})
	if req.VolumeID != "" {
		rows = csi.ClaimsOf(tx, req.RequestNamespace(), req.VolumeID)
	}

	nodes := map[string][]storage.UsageKey{}
	for c := range rows {
		if c.State != structs.ClaimGranted || req.Sees != nil && !req.Sees(c.Namespace, c.VolumeID) {
			continue
		}
		k := storage.UsageKey{Namespace: c.Namespace, VolumeID: c.VolumeID}
		// The claims of a volume follow each other.
		if list := nodes[c.NodeID]; len(list) == 0 || list[len(list)-1] != k {
			nodes[c.NodeID] = append(list, k)
		}
	}
	return nodes
}
