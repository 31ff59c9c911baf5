package nodeconn

import (
	"context"
	"slices"
	"time"

	"berth/structs"
	"berth/structs/storage"
)

// limit bounds the call of one node, which measures nothing.
const usageTimeout = 2 * time.Second

// AskUsage asks one node for the use of volumes, which no server stores. It believes the node about these
// only, and takes one answer for each.
func AskUsage(
	ctx context.Context, nodes Caller, nodeID string, keys []storage.UsageKey,
) ([]*storage.VolumeUsage, error) {
	to := Target{
		Nodes: nodes,
		IDs:   []string{nodeID},
		Limit: usageTimeout,
	}
	resp, err := Call(ctx, to, storage.NodeUsage, &storage.NodeUsageRequest{Volumes: keys})
	if err != nil {
		return nil, err
	}

	asked := map[storage.UsageKey]bool{}
	for _, k := range keys {
		asked[k] = true
	}

	var list []*storage.VolumeUsage
	for _, u := range resp.Usages {
		if u == nil || !asked[UsageKeyOf(u)] {
			continue
		}
		asked[UsageKeyOf(u)] = false
		u.NodeID = nodeID
		u.Error = structs.Cut(u.Error, structs.MaxText)
		u.Mounts = bounded(u.Mounts)
		u.Condition.Bound()
		if u.Trim != nil {
			u.Trim.Fault = structs.Cut(u.Trim.Fault, structs.MaxText)
		}
		list = append(list, u)
	}
	return list, nil
}

// UsageKeyOf returns the volume of a usage.
func UsageKeyOf(u *storage.VolumeUsage) storage.UsageKey {
	return storage.UsageKey{Namespace: u.Namespace, VolumeID: u.VolumeID}
}

// maxMounts bounds the mounts of one volume that a node tells of.
const maxMounts = 1000

// bounded cuts the texts of a node.
func bounded(mounts []*storage.MountHealth) []*storage.MountHealth {
	mounts = slices.DeleteFunc(mounts, func(m *storage.MountHealth) bool { return m == nil })
	mounts = mounts[:min(len(mounts), maxMounts)]
	for _, m := range mounts {
		m.AllocID = structs.Cut(m.AllocID, structs.MaxName)
		m.State = structs.Cut(m.State, structs.MaxName)
		m.Reason = structs.Cut(m.Reason, structs.MaxText)
		m.Healing = structs.Cut(m.Healing, structs.MaxText)
	}
	return mounts
}
