package endpoints

import (
	"context"

	"berth/endpoints/callers"
	"berth/endpoints/rights"
)

// isOfTask reports whether a request is one of a task, which the node of the task has passed on: the signed
// token of the task says so. The gate decides on it afterwards. A node without such a token acts for itself
// alone.
func (e *Endpoints) isOfTask(ctx context.Context, allow rights.Right, req any) bool {
	nodeID, passed := callers.PassesOn(ctx, req)
	return passed && !allow.IsOpen() && e.Gate.RunsOn(e.Store.Read(), rights.SecretOf(req), nodeID)
}
