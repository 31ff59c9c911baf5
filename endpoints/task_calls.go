package endpoints

import (
	"context"

	"berth/endpoints/rights"
)

// checkCaller returns an error unless the certificate of the caller gives it a method, or the caller is a
// node that passes on the request of one of its tasks.
func (e *Endpoints) checkCaller(ctx context.Context, d delivered, req any) error {
	if !e.Roles {
		return nil
	}

	err := rights.CheckCertificate(ctx, d.method.Name, req)
	if err != nil && e.isOfTask(ctx, d.allow, req) {
		return nil
	}
	return err
}

// isOfTask reports whether a request is one of a task, which the node of the task has passed on: the signed
// token of the task says so. The gate decides on it afterwards. A node without such a token acts for itself
// alone.
func (e *Endpoints) isOfTask(ctx context.Context, allow rights.Right, req any) bool {
	nodeID, passed := rights.PassesOn(ctx, req)
	return passed && !allow.IsOpen() && e.Gate.RunsOn(e.Store.Read(), rights.SecretOf(req), nodeID)
}
