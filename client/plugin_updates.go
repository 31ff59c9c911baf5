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
// is that of the keys, so a repeated report is the same request.
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

// runPlugins reports changes of the node's plugin instances to the servers, batched, until they acknowledge
// them.
func (c *Client) runPlugins(ctx context.Context) {
	if !waitClosed(ctx, c.registered) {
		return
	}
	const failed = "failed to send plugin updates"
	// The first turn sends what has changed since the registration.
	for c.retry(ctx, failed, c.sendInstances) {
		select {
		case <-c.subsystems.Plugins.Changes():
			backoff.Sleep(ctx, pluginBatch)
		case <-ctx.Done():
			return
		}
	}
}

// sendInstances sends the difference between the instances and the last acknowledged ones, if there is any.
// After a report with an unknown outcome it sends all: an instance that has changed back would not differ.
func (c *Client) sendInstances(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, callTimeout)
	defer cancel()
	unlock, err := c.lockNode(ctx)
	if err != nil {
		return err
	}
	defer unlock()

	now := instancesByKey(c.subsystems.Plugins.Instances())
	upserts, removes := diffInstances(c.ackedInstances, now)
	// It is nil after a report with an unknown outcome.
	full := c.ackedInstances == nil
	if len(upserts)+len(removes) == 0 && !full {
		return nil
	}

	req := &structs.NodeUpdateCSIRequest{
		NodeID:   c.id.NodeID,
		SecretID: c.id.SecretID,
		Upserts:  upserts,
		Removes:  removes,
		Full:     full,
		Unsure:   full,
	}

	req.Region = c.config().Region
	_, err = rpc.Call(ctx, c.servers, structs.NodeUpdateCSI, req)
	switch {
	case err == nil:
		c.ackedInstances = now
	// The servers may have this state, the one before, or in the end either.
	case outcomeUnknown(err):
		c.ackedInstances = nil
	case structs.IsKind(err, structs.KindNotFound):
		notify(c.reregister)
	}

	return err
}
