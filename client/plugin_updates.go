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

// pluginBatch is how long changes of plugin instances are gathered before they are sent.
const pluginBatch = 100 * time.Millisecond

// byKey indexes instances.
func byKey(instances []*structs.CSIPluginInstance) map[structs.CSIInstanceKey]*structs.CSIPluginInstance {
	m := make(map[structs.CSIInstanceKey]*structs.CSIPluginInstance, len(instances))
	for _, i := range instances {
		m[structs.CSIInstanceKey{PluginID: i.PluginID, Kind: i.Kind}] = i
	}
	return m
}

// diffInstances says what turns the instances that the servers know into those there are.
func diffInstances(known, now map[structs.CSIInstanceKey]*structs.CSIPluginInstance) (upserts []*structs.CSIPluginInstance, removes []structs.CSIInstanceKey) {
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

// runPlugins tells the servers what changes among the node's plugin instances, batched, until they have
// acknowledged it.
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
				c.registerAgain()
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
		case <-c.sub.Plugins.Changes():
			backoff.Sleep(ctx, pluginBatch)
		case <-ctx.Done():
			return
		}
	}
}

// sendInstances sends what differs from what the servers acknowledged last; nothing when nothing does. When it is
// not known what became of that, all is sent: a plugin that is again what it was would not differ.
func (c *Client) sendInstances(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, callTimeout)
	defer cancel()
	unlock, err := c.lockNode(ctx)
	if err != nil {
		return err
	}
	defer unlock()
	now := byKey(c.sub.Plugins.Instances())
	upserts, removes := diffInstances(c.reported, now)
	full := c.reported == nil
	if len(upserts)+len(removes) == 0 && !full {
		return nil
	}
	req := &structs.NodeUpdateCSIRequest{NodeID: c.id.nodeID, SecretID: c.id.secretID, Upserts: upserts, Removes: removes, Full: full, Unsure: full}
	req.Region = c.config.Get().Region
	if _, err := rpc.Call(ctx, c.servers, structs.NodeUpdateCSI, req); err != nil {
		if maybeDone(err) {
			c.reported = nil
		}
		return err
	}
	c.reported = now
	return nil
}
