package client

import (
	"context"
	"reflect"
	"slices"
	"strings"
	"time"

	"berth/internal/backoff"
	"berth/rpc"
	"berth/structs"
)

// pluginBatch is the time for which changes of plugin instances are gathered before they are sent.
const pluginBatch = 100 * time.Millisecond

// instancesByKey indexes instances.
func instancesByKey(
	instances []*structs.CSIPluginInstance,
) map[structs.CSIInstanceKey]*structs.CSIPluginInstance {
	m := make(map[structs.CSIInstanceKey]*structs.CSIPluginInstance, len(instances))
	for _, i := range instances {
		m[structs.CSIInstanceKey{PluginID: i.PluginID, Kind: i.Kind}] = i
	}
	return m
}

// diffInstances returns the changes that turn the instances that the servers know into the current ones.
func diffInstances(
	known, now map[structs.CSIInstanceKey]*structs.CSIPluginInstance,
) (upserts []*structs.CSIPluginInstance, removes []structs.CSIInstanceKey) {
	for k, i := range now {
		if o, ok := known[k]; !ok || !reflect.DeepEqual(i, o) {
			upserts = append(upserts, i)
		}
	}
	for k := range known {
		if _, ok := now[k]; !ok {
			removes = append(removes, k)
		}
	}
	slices.SortFunc(upserts, func(a, b *structs.CSIPluginInstance) int {
		return strings.Compare(a.PluginID+string(a.Kind), b.PluginID+string(b.Kind))
	})
	slices.SortFunc(removes, func(a, b structs.CSIInstanceKey) int {
		return strings.Compare(a.PluginID+string(a.Kind), b.PluginID+string(b.Kind))
	})
	return upserts, removes
}

// runPlugins reports changes of the node's plugin instances to the servers, batched, until they acknowledge
// them.
func (c *Client) runPlugins(ctx context.Context) {
	select {
	case <-c.registered:
	case <-ctx.Done():
		return
	}
	for {
		pause := serverRetry
		for {
			err := c.sendInstances(ctx)
			if err == nil {
				break
			}
			if structs.IsKind(err, structs.KindNotFound) {
				notify(c.reregister)
			}
			wait := pause.After(err)
			if ctx.Err() == nil {
				c.logger.Warn("telling the servers of plugins failed", "again_in", wait, "error", err)
			}
			if !backoff.Sleep(ctx, wait) {
				return
			}
		}
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
	full := c.ackedInstances == nil
	if len(upserts)+len(removes) == 0 && !full {
		return nil
	}
	req := &structs.NodeUpdateCSIRequest{
		NodeID: c.id.nodeID, SecretID: c.id.secretID,
		Upserts: upserts, Removes: removes, Full: full, Unsure: full,
	}
	req.Region = c.config.Region
	if _, err := rpc.Call(ctx, c.servers, structs.NodeUpdateCSI, req); err != nil {
		if outcomeUnknown(err) {
			c.ackedInstances = nil
		}
		return err
	}
	c.ackedInstances = now
	return nil
}
