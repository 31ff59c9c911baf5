package node

import (
	"context"
	"slices"
	"sync"
	"time"

	"berth/endpoints/core"
	"berth/fsm"
	"berth/state"
	"berth/state/trust"
	"berth/structs"
	"berth/structs/access"
)

// revokeTimeout bounds the work after a failed derivation. The leader revokes the tokens that are left then,
// by their rows.
const revokeTimeout = 15 * time.Second

// DeriveSIToken makes the tokens of tasks. The rows come first: whenever this server fails, the leader knows
// which tokens to revoke.
func (n Nodes) DeriveSIToken(
	ctx context.Context,
	node *structs.Node,
	req *access.DeriveSITokenRequest,
	resp *access.DeriveSITokenResponse,
) (uint64, error) {
	if n.Consul == nil {
		return 0, structs.Preconditionf("the servers use no Consul: they need a consul block with an address")
	}

	services, err := meshTasks(n.Store.Read(), node, req)
	if err != nil {
		return 0, err
	}

	entry := &access.SITokenAccessors{
		// The state keeps the ID of the cluster that it has, and takes this one if it has none.
		ClusterID:    structs.NewID(),
		WriteOptions: req.WriteOptions,
	}

	// This server chooses the ID of each token before Consul makes it, so that the row can come first.
	for _, task := range req.Tasks {
		entry.Accessors = append(entry.Accessors, &access.SITokenAccessor{
			AllocID:    req.AllocID,
			TaskName:   task,
			AccessorID: structs.NewID(),
			NodeID:     node.ID,
		})
	}

	index, err := fsm.Propose(ctx, n.Raft, fsm.SITokensRegister, entry)
	if err != nil {
		return 0, err
	}

	// From here on the leader knows the tokens. It revokes them when the allocation has ended.
	resp.Tokens, err = n.createTokens(ctx, services, entry.Accessors)
	if err != nil {
		// A node that asks again gets new tokens. These would have no owner.
		n.giveUpTokens(ctx, entry)
		return 0, delayed(err)
	}

	return index, nil
}

// consulRetry is the least time before a node asks again for tokens that Consul did not make.
const consulRetry = time.Second

// delayed gives an error of Consul a delay. Without it the node would ask another server soon, which asks the
// same Consul.
func delayed(err error) error {
	// A delay that Consul itself has given stays.
	if !structs.IsKind(err, structs.KindUnavailable) || structs.RetryAfter(err) > 0 {
		return err
	}
	return structs.Busy(consulRetry, "%v", err)
}

// meshTasks returns the service of each requested task. The error is not-found, denied, invalid or a failed
// precondition.
func meshTasks(
	tx *state.ReadTx, node *structs.Node, req *access.DeriveSITokenRequest,
) (map[string]string, error) {
	// Each task costs a call of Consul.
	if len(req.Tasks) == 0 || len(req.Tasks) > structs.MaxTasks {
		return nil, structs.Invalidf("Tasks has %d names; expected 1 to %d", len(req.Tasks), structs.MaxTasks)
	}

	a := state.Alloc(tx, req.AllocID)
	switch {
	case a == nil:
		return nil, structs.NotFoundf("there is no allocation %q", req.AllocID)
	// The node of the allocation alone may have its tokens: they have the rights of its services.
	case a.NodeID != node.ID:
		return nil, structs.Deniedf("allocation %s is not on node %s", a.ID, node.ID)
	// The leader may have revoked its tokens already.
	case a.Terminal():
		return nil, structs.Preconditionf("allocation %s has ended, or is to end", a.ID)
	}

	// The version of the allocation decides, and not the newest one of the job.
	job := state.JobOf(tx, a)
	if job == nil || job.Group(a.TaskGroup) == nil {
		return nil, structs.NotFoundf("allocation %s: its version of job %q is gone", a.ID, a.JobID)
	}

	group := job.Group(a.TaskGroup)
	if !slices.ContainsFunc(group.Services, func(s *structs.Service) bool { return s.Connect != nil }) {
		return nil, structs.Invalidf("allocation %s: group %q has no service with connect", a.ID, group.Name)
	}

	services := map[string]string{}
	for _, name := range req.Tasks {
		task := group.Task(name)
		switch {
		case task == nil:
			return nil, structs.NotFoundf("allocation %s has no task %q", a.ID, name)
		case !task.Kind.UsesConnect() || task.Kind.Service() == "":
			return nil, structs.Invalidf("allocation %s: task %q takes no part in the service mesh", a.ID, name)
		// Two tokens for one task would leave one of them without a user.
		case services[name] != "":
			return nil, structs.Invalidf("Tasks names %q twice", name)
		}

		services[name] = task.Kind.Service()
	}

	return services, nil
}

// createTokens makes the tokens of all rows, or returns the first error when no call is in flight any more.
func (n Nodes) createTokens(
	request context.Context, services map[string]string, rows []*access.SITokenAccessor,
) (structs.Secrets, error) {
	// The first error cancels the other calls. All of them have ended before the function returns, so no
	// token is made after the revocation.
	ctx, cancel := context.WithCancelCause(request)
	defer cancel(nil)
	cluster := trust.ClusterID(n.Store.Read())
	// Each goroutine has its own element, so they need no lock.
	secrets := make([]structs.Secret, len(rows))
	var calls sync.WaitGroup
	for i, row := range rows {
		calls.Go(func() {
			secret, err := n.Consul.CreateToken(ctx, core.ServiceToken{
				AccessorID:  row.AccessorID,
				Service:     services[row.TaskName],
				Description: tokenDescription(cluster, row),
			})
			if err != nil {
				cancel(err) // the first cause counts
			}

			secrets[i] = secret
		})
	}

	calls.Wait()
	switch {
	// The node has gone. The error is not Consul's, which was cancelled.
	case request.Err() != nil:
		return nil, structs.Unavailablef("making tokens: %w", request.Err())
	case ctx.Err() != nil:
		return nil, context.Cause(ctx)
	}

	tokens := structs.Secrets{}
	for i, row := range rows {
		tokens[row.TaskName] = string(secrets[i])
	}

	return tokens, nil
}

// tokenDescription says in Consul whose token it is. An operator sees it in Consul, where nothing else shows
// that berth has made the token.
func tokenDescription(cluster string, row *access.SITokenAccessor) string {
	return "berth service token: cluster " + cluster + ", allocation " + row.AllocID + ", task " + row.TaskName
}

// giveUpTokens revokes the tokens of a derivation that has failed. The leader does it again after a while,
// because Consul may still be making one of them. It works although the request may have ended.
func (n Nodes) giveUpTokens(ctx context.Context, entry *access.SITokenAccessors) {
	// The request may have ended because of a timeout of its caller: the tokens must go all the same.
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), revokeTimeout)
	defer cancel()
	var calls sync.WaitGroup
	// The entry makes the leader revoke the tokens again later. It goes along with the calls, so that a slow
	// Consul does not delay it.
	calls.Go(func() {
		_, err := fsm.Propose(ctx, n.Raft, fsm.SITokensGiveUp, entry)
		if err != nil {
			n.Logger.Warn("failed to give up tokens; they are revoked when their allocation ends",
				"alloc_id", entry.Accessors[0].AllocID, "error", err)
		}
	})

	for _, row := range entry.Accessors {
		calls.Go(func() {
			// Consul knows a token that it is still making only afterwards. Hence the second attempt of the
			// leader.
			err := n.Consul.RevokeToken(ctx, row.AccessorID)
			if err != nil {
				n.Logger.Debug("failed to revoke a token; the leader does it again",
					"accessor_id", row.AccessorID, "error", err)
			}
		})
	}

	calls.Wait()
}
