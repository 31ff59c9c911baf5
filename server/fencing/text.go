package fencing

import (
	"fmt"
	"strings"
	"unicode"
	"unicode/utf8"

	"berth/scheduler/match"
	"berth/state"
	"berth/structs"
	"berth/structs/cluster"
	"berth/structs/validate/field"
)

// reference matches ${name} in a text.
var reference = field.Pattern(`\$\{\s*([^{}]*?)\s*\}`)

// The names to which a device may refer. All others are the word of the node: its meta, its attributes, its
// class, pool and datacenter.
const (
	pinPrefix = "pin."
	nodeName  = "node.unique.name"
	nodeID    = "node.unique.id" // in match alone: a node chooses its ID when it joins
)

// isPin reports whether a name names a pin.
func isPin(name string) bool {
	pin, ok := strings.CutPrefix(name, pinPrefix)
	return ok && cluster.IsFencePinName(pin)
}

// isToldByNode reports whether a node itself tells the value of a name.
func isToldByNode(name string) bool { return match.IsNodeName(name) && name != nodeName }

// expand replaces the references of a text to a node. The node must have each of them: an agent without the
// name of the node could act on another machine. Without a node, the text must have no references.
func expand(text string, t *state.FenceTarget) (string, error) {
	var fault error
	expanded := reference().ReplaceAllStringFunc(text, func(ref string) string {
		value := ""
		err := fmt.Errorf("%s needs a node", ref)
		if t != nil {
			value, err = valueOf(t, reference().FindStringSubmatch(ref)[1])
		}
		if err != nil && fault == nil {
			fault = err
		}
		return value
	})
	return expanded, fault
}

// valueOf returns the value of a name for a node. The error tells how to give it one.
func valueOf(t *state.FenceTarget, name string) (string, error) {
	short := structs.ShortID(t.NodeID)
	pin, ok := strings.CutPrefix(name, pinPrefix)
	switch {
	case ok && t.Pins[pin] == "":
		return "", fmt.Errorf("node %s has no pin %q: berth node fence -pin %s %s=VALUE", short, pin, short, pin)
	case ok && !cluster.IsFencePinValue(t.Pins[pin]):
		return "", fmt.Errorf("node %s has control characters in the pin %q: pin it again", short, pin)
	case ok:
		return t.Pins[pin], nil
	case name == nodeID:
		return t.NodeID, nil
	case name != nodeName:
		return "", fmt.Errorf("${%s} is no pin and no bound name", name)
	case t.Name == "":
		return "", fmt.Errorf("the name of node %s is its own word: %s; use a pin in its place, or join the node "+
			"with a token of berth node join-token create -node-name NAME", short, t.Unnamed)
	case !isPrintable(t.Name):
		return "", fmt.Errorf("node %s has control characters in its name", short)
	}
	return t.Name, nil
}

// isPrintable reports whether an agent reads a text as one value: a line end would begin another option.
func isPrintable(text string) bool {
	unprintable := func(r rune) bool { return !unicode.IsPrint(r) }
	return utf8.ValidString(text) && !strings.ContainsFunc(text, unprintable)
}
