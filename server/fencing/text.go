package fencing

import (
	"fmt"
	"strings"
	"unicode"
	"unicode/utf8"

	"berth/scheduler/match"
	"berth/structs"
	"berth/structs/validate/field"
)

// reference matches ${name} in a text.
var reference = field.Pattern(`\$\{\s*([^{}]*?)\s*\}`)

// expand replaces the references of a text to a node. The node must have each of them, and none may be empty:
// an agent without the name of the node could act on another machine. Without a node, the text must have no
// references.
func expand(text string, n *structs.Node) (string, error) {
	var fault error
	expanded := reference().ReplaceAllStringFunc(text, func(ref string) string {
		if n == nil {
			fault = fmt.Errorf("%s needs a node", ref)
			return ""
		}

		has := match.TargetOf(ref)(n)
		switch {
		case strings.TrimSpace(has.Text) == "":
			fault = fmt.Errorf("node %s has no value for %s: set it there", n.Name, ref)
		case !isPrintable(has.Text):
			fault = fmt.Errorf("node %s has control characters in %s", n.Name, ref)
		}

		return has.Text
	})
	return expanded, fault
}

// isPrintable reports whether an agent reads a text as one value: a line end would begin another option.
func isPrintable(text string) bool {
	unprintable := func(r rune) bool { return !unicode.IsPrint(r) }
	return utf8.ValidString(text) && !strings.ContainsFunc(text, unprintable)
}
