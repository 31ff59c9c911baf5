// Package cli is the command line of berth: one tree of commands that call the HTTP API. tree.go lists the
// nouns. The package of a noun lists its verbs (Commands). The packages of nouns build on cli/command, which
// has the output, the flags and the client, and on cli/watch, which has the waits.
//
// Its rules:
//
//   - A command calls the HTTP API like any other client and knows nothing of servers. A Local command calls
//     nothing and reads files.
//   - An error is one message on the standard error. Its kind sets the exit code, and wrong usage has 2.
//   - -json and -t show the answer of the API. All other output is for users and may change.
//   - A UUID may be shortened to a unique prefix. A name may not if the command stops or deletes something.
//
// The packages of the processes (agent, plugin) have the commands that run them.
package cli

import (
	"context"
	"slices"

	"berth/cli/command"
)

// Run runs the command of the arguments (without the name of the program) and returns its exit code.
func Run(ctx context.Context, args []string, std command.Stdio, extra ...command.Command) int {
	root := command.Command{
		Name:     "berth",
		Synopsis: synopsis,
		Sub:      Tree(extra...),
	}
	return root.Main(ctx, args, std)
}

// mergeCommands returns a tree with more commands. An existing group gets the commands of the new one.
func mergeCommands(tree, extra []command.Command) []command.Command {
	tree = slices.Clone(tree)
	for _, e := range extra {
		at := slices.IndexFunc(tree, func(c command.Command) bool {
			return c.Name == e.Name
		})
		if at < 0 {
			tree = append(tree, e)
			continue
		}
		tree[at].Sub = mergeCommands(tree[at].Sub, e.Sub)
	}

	return tree
}
