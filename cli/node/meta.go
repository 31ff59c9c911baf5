package node

import (
	"context"

	"berth/api/operator"
	"berth/api/show"
	"berth/cli/command"
	"berth/structs/nodecalls"
)

var metaNodeFlag = command.Flag{
	Name:  "node-id",
	Kind:  command.String,
	Value: "node",
	Usage: "The node, by its ID or name. Default: that of the called agent",
}

// metaCommand is berth node meta.
var metaCommand = command.Command{
	Name:     "meta",
	Synopsis: "Show and change the metadata of a node",
	Sub: []command.Command{
		{
			Name:     "apply",
			Args:     "[key=value]...",
			Synopsis: "Set or remove metadata of a node, until it is set again",
			Help: `
The node keeps the values on its disk. They lie over those of client.meta in
its configuration, and -unset hides such a value. The node registers again at
once: constraints with ${meta.KEY} see the values, and jobs that wait for them
are tried.`,
			Acts: true,
			Flags: []command.Flag{
				metaNodeFlag,
				command.UnsetFlag,
			},
			Run: applyMeta,
			Examples: "berth node meta apply -node-id n1 role=db ready=1\n" +
				"berth node meta apply -unset role,ready",
		},
		{
			Name:     "read",
			Synopsis: "Show the metadata of a node with its parts",
			Renders:  true,
			Flags:    []command.Flag{metaNodeFlag},
			Run:      readMeta,
			Examples: "berth node meta read\n" +
				"berth node meta read -node-id n1 -json",
		},
	},
}

// metaNode returns the ID of the node that -node-id names, "" without it.
func metaNode(ctx context.Context, c *command.Call) (string, error) {
	name := c.String(metaNodeFlag.Name)
	if name == "" {
		return "", nil
	}
	return c.Resolve(ctx, "node", name)
}

func applyMeta(ctx context.Context, c *command.Call) error {
	set, unset, err := c.KeyChanges(c.Args)
	if err != nil {
		return err
	}
	changes := map[string]*string{}
	for key, value := range set {
		changes[key] = &value
	}
	for _, key := range unset {
		changes[key] = nil
	}

	id, err := metaNode(ctx, c)
	if err != nil {
		return err
	}
	meta, err := operator.ApplyNodeMeta(ctx, c.API, nodecalls.NodeMetaApply{NodeID: id, Meta: changes})
	if err != nil {
		return err
	}
	return c.Report(meta, "The metadata of the node is changed, and the node registers again")
}

func readMeta(ctx context.Context, c *command.Call) error {
	id, err := metaNode(ctx, c)
	if err != nil {
		return err
	}
	meta, err := operator.NodeMeta(ctx, c.API, id)
	if err != nil {
		return err
	}
	return c.Show(meta, func() error {
		var all, dynamic, static command.Grid
		for key, value := range show.Sorted(meta.Meta) {
			all.AddRow(key, value)
		}
		for key, value := range show.Sorted(meta.Dynamic) {
			shown := "<unset>"
			if value != nil {
				shown = *value
			}
			dynamic.AddRow(key, shown)
		}
		for key, value := range show.Sorted(meta.Static) {
			static.AddRow(key, value)
		}
		c.Section("All", "Key|Value", all)
		c.Section("Set by node meta apply", "Key|Value", dynamic)
		c.Section("Of the configuration", "Key|Value", static)
		return nil
	})
}
