package node

import (
	"context"
	"maps"
	"slices"
	"strings"

	"berth/api/nodes"
	"berth/api/show"
	"berth/cli/command"
	"berth/structs"
	"berth/structs/cluster"
)

// pinsCommand is berth node pins.
var pinsCommand = command.Command{
	Name:     "pins",
	Args:     "[node]",
	Synopsis: "List the values by which fence devices find nodes",
	Help: `
Lists the pins that berth node fence -pin has made, of all nodes or of one. A
pin of the kind "name" is of the node whose join token bound that name. A pin
of the kind "id" is of one node, and is deleted with it. Below the list are
the nodes that the fence devices of the servers could not fence.`,
	Renders: true,
	Run:     listPins,
	Examples: "berth node pins\n" +
		"berth node pins n1",
}

// pinSheet has the columns of pins.
var pinSheet = command.Sheet[*cluster.FencePin]{
	Titles: "Kind|Key|Name|Value|Given for|By|Since",
	Row: func(c *command.Call, p *cluster.FencePin) []string {
		return []string{p.Kind, p.Key, p.Name, p.Value, c.ID(p.NodeID), p.By, show.Age(p.Time)}
	},
}

func listPins(ctx context.Context, c *command.Call) error {
	all, _, err := nodes.ListFencePins(ctx, c.API, nil)
	if err != nil {
		return err
	}

	if c.Arg(0) != "" {
		err = keepPinsOf(ctx, c, all)
		if err != nil {
			return err
		}
	}

	return c.Show(all, func() error {
		pinSheet.Print(c, "pin", all.Pins)
		for _, w := range all.Warnings {
			c.Printf("Warning: node %s (%s): %s\n", w.Name, show.ShortID(w.NodeID), show.OneLine(w.Text))
		}
		if all.Unlisted > 0 {
			c.Printf("Warning: %s\n", show.Plural(all.Unlisted, "more node"))
		}
		return nil
	})
}

// keepPinsOf leaves the pins of a node, or of a name whose node is gone.
func keepPinsOf(ctx context.Context, c *command.Call, all *cluster.NodeFencePinsResponse) error {
	id, left, err := pinned(ctx, c)
	if err != nil {
		return err
	}
	name := id
	if !left {
		n, _, err := nodes.Get(ctx, c.API, id, nil)
		if err != nil {
			return err
		}
		name = n.Name
	}
	all.Pins = slices.DeleteFunc(all.Pins, func(p *cluster.FencePin) bool {
		return p.Key != id && (p.Kind != cluster.FencePinOfName || p.Key != name)
	})
	all.Warnings = slices.DeleteFunc(all.Warnings, func(w *cluster.FenceWarning) bool { return w.NodeID != id })
	all.Unlisted = 0
	return nil
}

// pinned returns the ID of the node of the first argument. left: it is the name of pins whose node is gone.
func pinned(ctx context.Context, c *command.Call) (id string, left bool, err error) {
	id, err = c.Resolve(ctx, "node", c.Arg(0))
	if !structs.IsKind(err, structs.KindNotFound) {
		return id, false, err
	}
	all, _, pinsErr := nodes.ListFencePins(ctx, c.API, nil)
	of := func(p *cluster.FencePin) bool {
		return p.Kind == cluster.FencePinOfName && p.Key == c.Arg(0)
	}
	if pinsErr == nil && slices.ContainsFunc(all.Pins, of) {
		return c.Arg(0), true, nil
	}
	return "", false, err
}

// changePins pins values for a node, or removes pins of one.
func changePins(ctx context.Context, c *command.Call) error {
	if c.Bool("pin") == c.Bool("unpin") || c.Bool("dry-run") || c.Bool("detach") || c.String("reason") != "" {
		return command.BadUsage("-pin, -unpin, -dry-run, -detach and -reason exclude each other")
	}
	change, err := pinChange(c)
	if err != nil {
		return err
	}

	id, left, err := pinned(ctx, c)
	if err != nil {
		return err
	}
	change.Left = left
	err = nodes.PinFence(ctx, c.API, id, change)
	if err != nil {
		return err
	}
	names := slices.Concat(slices.Sorted(maps.Keys(change.Pins)), change.Remove)
	return c.Report(command.Changed{"NodeID": id},
		"Changed for node %s: %s; berth node fence test %s asks its devices",
		show.ShortID(id), strings.Join(names, ", "), show.ShortID(id))
}

// pinChange reads the arguments after the node.
func pinChange(c *command.Call) (change nodes.FencePin, err error) {
	change.By = command.UserAtHost()
	for _, word := range c.Args[1:] {
		name, value, found := strings.Cut(word, "=")
		switch {
		case c.Bool("unpin") && !found:
			change.Remove = append(change.Remove, name)
		case c.Bool("unpin"):
			return change, command.BadUsage("%q: expected the name of a pin alone", word)
		case !found:
			return change, command.BadUsage("%q: expected name=value", word)
		case change.Pins == nil:
			change.Pins = map[string]string{name: value}
		default:
			change.Pins[name] = value
		}
	}
	if len(c.Args) == 1 {
		return change, command.BadUsage("nothing is to be pinned or removed: name the pins after the node")
	}
	return change, nil
}
