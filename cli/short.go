package cli

import (
	"slices"
	"strings"

	"berth/cli/command"
)

// shortForms are the verbs that users type most, by the name that each has without its noun. The dialect has
// the same names.
var shortForms = []struct{ name, path string }{
	{"run", "job run"},
	{"plan", "job plan"},
	{"stop", "job stop"},
	{"start", "job start"},
	{"action", "job action"},
	{"init", "job init"},
	{"validate", "job validate"},
	{"inspect", "job inspect"},
	{"logs", "alloc logs"},
	{"exec", "alloc exec"},
	{"fs", "alloc fs"},
}

// withShortForms returns a tree with the short forms at its end.
func withShortForms(tree []command.Command) []command.Command {
	for _, short := range shortForms {
		c := *command.Find(tree, short.path)
		c.Name = short.name
		c.Same = short.path
		c.Group = command.GroupShort
		c.Examples = strings.ReplaceAll(c.Examples, "berth "+short.path, "berth "+short.name)
		tree = append(slices.Clip(tree), c)
	}
	return tree
}
