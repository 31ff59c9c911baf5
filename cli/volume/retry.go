package volume

import (
	"berth/api/volumes"
	"context"
	"fmt"
	"strings"

	"berth/api/show"
	"berth/cli/command"
	"berth/cli/watch"
	"berth/structs"
)

// volumeRetry retries the failed operations of a volume, and says which those are.
func volumeRetry(ctx context.Context, c *command.Call) error {
	id := c.Arg(0)
	v, _, err := volumes.Get(ctx, c.API, id, nil)
	var failed []string
	var retried *structs.CSIVolumeRetryResponse
	if err == nil {
		failed = append(failedOperations(c, v), endingCalls(ctx, c, v)...)
		retried, err = volumes.Retry(ctx, c.API, id)
	}
	if err != nil {
		return watch.VolumeFault(ctx, c, id, err)
	}
	for _, m := range retried.Mounts {
		failed = append(failed, fmt.Sprintf("mount at node %s for allocation %s", c.ID(m.NodeID), c.ID(m.AllocID)))
	}

	if len(failed) == 0 {
		return c.Report(command.Changed{"VolumeID": id},
			"Nothing is retried: no operation of volume %q has failed and waits. An allocation that has given "+
				"up to mount it has failed, and its job starts another one: %s", id,
			structs.CommandLine(c.Namespace(), "volume why", id))
	}
	return c.Report(command.Changed{"VolumeID": id},
		"The failed operations of volume %q are retried: %s. See %s", id, strings.Join(failed, ", "),
		structs.CommandLine(c.Namespace(), "volume status", id))
}

// failedOperations names the failed operations that a retry makes due.
func failedOperations(c *command.Call, v *structs.CSIVolumeDetail) (failed []string) {
	add := func(e *structs.OperationError, format string, args ...any) {
		if e != nil {
			failed = append(failed, fmt.Sprintf(format, args...))
		}
	}
	if v.Unsettled() {
		add(v.LastError, "the call for the volume itself")
	}
	for _, a := range v.Attachments {
		add(a.LastError, "%s at node %s", a.State, c.ID(a.NodeID))
	}
	for _, claim := range v.Claims {
		add(claim.ExpandError, "growth at node %s", c.ID(claim.NodeID))
		if claim.EndTime != 0 {
			add(claim.ReleaseError, "release by node %s", c.ID(claim.NodeID))
		}
	}
	return failed
}

// endingCalls names the calls for the volume that nodes do not make. A token that may not read the plugin
// allows them as well.
func endingCalls(ctx context.Context, c *command.Call, v *structs.CSIVolumeDetail) (calls []string) {
	p, _, err := volumes.GetPlugin(ctx, c.API, v.PluginID, nil)
	if err != nil {
		return nil
	}
	for _, half := range []map[string]*structs.CSIInfo{p.Controllers, p.Nodes} {
		for node, i := range show.Sorted(half) {
			for _, ending := range i.EndingCallsOf(v.NamesOfCalls()) {
				calls = append(calls, fmt.Sprintf("%s at node %s, which ended the plugin", ending.RPC, c.ID(node)))
			}
		}
	}
	return calls
}
