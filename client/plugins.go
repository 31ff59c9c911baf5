package client

import (
	"context"
	"maps"
	"reflect"
	"slices"
	"time"

	"berth/internal/backoff"
	"berth/rpc"
	"berth/structs"
)

// pluginBatch is the time for which changes of plugin instances are gathered before they are sent.
const pluginBatch = 100 * time.Millisecond

// instanceMap has plugin instances by their keys.
type instanceMap = map[structs.CSIInstanceKey]*structs.CSIPluginInstance

func instancesByKey(instances []*structs.CSIPluginInstance) instanceMap {
	m := make(instanceMap, len(instances))
	for _, i := range instances {
		m[i.Key()] = i
	}
	return m
}

// diffInstances returns the changes from the instances that the servers know to the current ones. The order
// follows the keys, so a repeated report is the same request.
func diffInstances(
	known, now instanceMap,
) (upserts []*structs.CSIPluginInstance, removes []structs.CSIInstanceKey) {
	for _, k := range sortedKeys(now) {
		if !reflect.DeepEqual(now[k], known[k]) {
			upserts = append(upserts, now[k])
		}
	}
	for _, k := range sortedKeys(known) {
		if now[k] == nil {
			removes = append(removes, k)
		}
	}
	return upserts, removes
}

func sortedKeys(m instanceMap) []structs.CSIInstanceKey {
	return slices.SortedFunc(maps.Keys(m), structs.CSIInstanceKey.Compare)
}

// plugins reports the plugin instances of the node.
type plugins struct {
	*node
	registration *registration
	acked        instanceMap // what the servers know; nil: unknown. registration.lockNode guards it
}

func newPlugins(n *node) *plugins {
	return &plugins{node: n, acked: instanceMap{}}
}

// run reports changes of the node's plugin instances to the servers, batched, until they acknowledge
// them.
func (p *plugins) run(ctx context.Context) {
	if !waitClosed(ctx, p.registered) {
		return
	}
	const failed = "failed to send plugin updates"
	// The first turn sends what has changed since the registration.
	for p.retry(ctx, failed, p.sendInstances) {
		select {
		case <-p.subsystems.Plugins.Changes():
			backoff.Sleep(ctx, pluginBatch)
		case <-ctx.Done():
			return
		}
	}
}

// sendInstances sends the difference between the instances and the last acknowledged ones, if there is any.
// After a report with an unknown outcome it sends all: an instance that has changed back would not differ.
func (p *plugins) sendInstances(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, callTimeout)
	defer cancel()
	unlock, err := p.registration.lockNode(ctx)
	if err != nil {
		return err
	}
	defer unlock()

	now := instancesByKey(p.subsystems.Plugins.Instances())
	upserts, removes := diffInstances(p.acked, now)
	// It is nil after a report with an unknown outcome.
	full := p.acked == nil
	if len(upserts)+len(removes) == 0 && !full {
		return nil
	}

	req := &structs.NodeUpdateCSIRequest{
		NodeID:   p.id.NodeID,
		SecretID: p.id.SecretID,
		Upserts:  upserts,
		Removes:  removes,
		Full:     full,
		Unsure:   full,
	}

	req.Region = p.config().Region
	_, err = rpc.Call(ctx, p.servers, structs.NodeUpdateCSI, req)
	switch {
	case err == nil:
		p.acked = now
	// The servers may have this state, the one before, or in the end either.
	case outcomeUnknown(err):
		p.acked = nil
	case structs.IsKind(err, structs.KindNotFound):
		notify(p.registration.due)
	}

	return err
}
